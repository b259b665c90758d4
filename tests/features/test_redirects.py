"""Redirects over the wire: methods, bodies, history, limits, and what is removed."""

from __future__ import annotations

import gzip
import io
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import curlhttp
from curlhttp.requests.auth import HTTPDigestAuth
from tests.servers import AppServer, H2Server, RawConnection, RawServer, Record, response
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_API, Fetch
from tests.support.pace import assert_in_time, paced

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]
STATUSES = (301, 302, 303, 307, 308)


@pytest.fixture(scope="module")
def _other_app() -> Iterator[AppServer]:
    with AppServer() as server:
        yield server


@pytest.fixture
def other(_other_app: AppServer) -> AppServer:
    """Return another origin: the same host, another port."""
    _other_app.reset_counts()
    return _other_app


def redirect(app: AppServer, target: str, status: int = 302, *, host: str = "127.0.0.1") -> str:
    """Return a URL of the application that redirects to the target."""
    return f"{app.at(host)}/redirect-to?status={status}&url={quote(target, safe='')}"


def serving(head: bytes, body: bytes = b"", *, times: int = 1) -> Callable[[RawConnection], None]:
    """Return a handler that sends a head and a body repeated `times`, then stalls."""

    def handler(conn: RawConnection) -> None:
        while conn.read_request()[0]:
            conn.send(head)
            for _ in range(times):
                conn.send(body)

    return handler


# --- methods and bodies ---


@pytest.mark.parametrize("status", STATUSES)
async def test_the_method_after_a_redirect_is_that_of_requests(
    client: AnyClient, app: AppServer, status: int
) -> None:
    keeps_all = status in (307, 308)
    expected = {
        "GET": "GET",
        "HEAD": "HEAD",
        "POST": "POST" if keeps_all else "GET",
        "PUT": "PUT" if keeps_all or status == 301 else "GET",
        "DELETE": "DELETE" if keeps_all or status == 301 else "GET",
    }
    for method, after in expected.items():
        await client.request(method, redirect(app, "/echo", status), follow_redirects=True)
        assert [record.method for record in app.requests[-2:]] == [method, after]


@pytest.mark.parametrize("status", (301, 302, 303))
async def test_a_post_that_becomes_a_get_has_no_body_and_no_body_headers(
    client: AnyClient, app: AppServer, status: int
) -> None:
    """What becomes a GET has no body and none of its fields."""
    fields = {"content-md5": "a", "DIGEST": "b", "Content-Digest": "c", "Repr-Digest": "d"}
    found = await client.post(redirect(app, "/echo", status), data={"a": "1"}, headers=fields)
    sent = app.requests[-1]
    assert (found.json()["method"], found.json()["body"]) == ("GET", "")
    assert not {name.lower() for name in fields} & {name.lower() for name, _ in sent.headers}
    for name in ("content-length", "content-type", "transfer-encoding"):
        assert sent.header(name) is None


@pytest.mark.parametrize("status", (307, 308))
async def test_a_body_in_memory_is_sent_again(
    client: AnyClient, app: AppServer, status: int
) -> None:
    found = await client.post(redirect(app, "/echo", status), json={"a": 1})
    assert (found.json()["method"], found.json()["body"]) == ("POST", '{"a": 1}')
    assert app.requests[-1].header("content-type") == "application/json"


KEPT = [
    *((301, method) for method in ("PUT", "PATCH", "DELETE", "PROPFIND", "REPORT", "QUERY")),
    *((status, "GET") for status in STATUSES),
    (307, "QUERY"),
    (308, "PUT"),
]


@pytest.mark.parametrize(("status", "method"), KEPT)
async def test_a_body_is_sent_again_if_the_method_stays(
    client: AnyClient, app: AppServer, status: int, method: str
) -> None:
    headers = {"content-TYPE": "x/y", "Content-MD5": "a", "Content-Digest": "b", "digest": "c"}
    url = redirect(app, redirect(app, "/echo", status), status)
    found = await client.request(method, url, content=b"four", headers=headers)
    assert (found.json()["method"], found.json()["body"]) == (method, "four")
    assert [record.body for record in app.requests] == [b"four"] * 3
    for record in app.requests:
        assert record.header("content-length") == "4"
        assert [record.header(name) for name in headers] == ["x/y", "a", "b", "c"]


async def test_a_body_that_stays_goes_to_another_origin_without_credentials(
    client: AnyClient, app: AppServer, other: AppServer
) -> None:
    url = redirect(app, other.url + "/echo", 301)
    headers = {"Authorization": "secret", "Content-Type": "x/y"}
    await client.request("PUT", url, content=b"four", headers=headers)
    (sent,) = other.requests
    assert (sent.method, sent.body, sent.header("content-type")) == ("PUT", b"four", "x/y")
    assert sent.header("authorization") is None


def _make_bodies() -> dict[str, dict[str, Any]]:
    """Return bodies of each kind that can be sent again, as arguments."""
    file = io.BytesIO(b"skipped" + b"z" * 100_000)
    file.seek(7)
    return {
        "empty": {"content": b""},
        "str": {"content": "\xe9"},
        "json": {"json": {"a": 1}},
        "form": {"data": {"a": "1"}},
        "file": {"content": file},
        "file as data": {"data": io.BytesIO(b"data")},
        "list": {"content": [b"a", b"b"]},
        "callable": {"content": lambda: iter([b"a", b"b"])},
        "multipart": {"files": {"f": ("n", io.BytesIO(b"in a file"))}},
    }


@pytest.mark.parametrize("kind", _make_bodies())
async def test_bodies_of_each_kind_follow_a_301_with_their_fields(
    client: AnyClient, app: AppServer, kind: str
) -> None:
    await client.request("PUT", redirect(app, "/echo", 301), **_make_bodies()[kind])
    first, second = app.requests
    assert second.method == "PUT"
    assert second.body == first.body
    for name in ("content-type", "content-length", "transfer-encoding"):
        assert second.header(name) == first.header(name)


async def test_streams_and_maps_send_the_body_again_too(client: AnyClient, app: AppServer) -> None:
    url = redirect(app, "/echo", 301)
    async with await client.stream("PATCH", url, content=b"one") as streamed:
        await streamed.read()
    items = [curlhttp.ClientRequest("PUT", url, content=b"two")]
    (result,) = [result async for result in client.map(items)]
    assert result.json()["body"] == "two"
    assert [record.body for record in app.requests] == [b"one", b"one", b"two", b"two"]


@pytest.mark.parametrize(("status", "method"), [(301, "PUT"), (301, "DELETE"), (302, "GET")])
async def test_a_body_that_can_be_read_once_is_an_error_if_the_method_stays(
    client: AnyClient, app: AppServer, status: int, method: str
) -> None:
    """Not a second request without it."""
    url = redirect(app, "/echo", status)
    with pytest.raises(curlhttp.UnrewindableBodyError) as caught:
        await client.request(method, url, content=(piece for piece in [b"a", b"b"]))
    assert [record.body for record in app.requests] == [b"ab"]
    assert caught.value.response is not None
    assert caught.value.response.status_code == status
    for part in (f"{method} {app.url}", str(status), "an iterator cannot be sent again"):
        assert part in str(caught.value)


async def test_an_async_iterator_is_an_error_too(app: AppServer) -> None:
    async def pieces() -> Any:
        yield b"ab"

    async with curlhttp.AsyncClient(trust_env=False) as client:
        with pytest.raises(curlhttp.UnrewindableBodyError):
            await client.request("PUT", redirect(app, "/echo", 301), content=pieces())
    assert [record.body for record in app.requests] == [b"ab"]


async def test_a_file_is_rewound_to_its_position(
    client: AnyClient, app: AppServer, tmp_path: Path
) -> None:
    path = tmp_path / "upload"
    path.write_bytes(b"not this." + b"x" * 100_000)
    with path.open("rb") as file:
        file.seek(9)
        found = await client.post(redirect(app, "/echo", 307), data=file)
    assert found.json()["length"] == 100_000
    assert [record.length for record in app.requests] == [100_000, 100_000]


async def test_a_multipart_form_is_sent_again(client: AnyClient, app: AppServer) -> None:
    files = {"file": ("a.txt", io.BytesIO(b"y" * 100_000))}
    await client.post(redirect(app, "/echo", 308), data={"a": "1"}, files=files)
    first, second = app.requests
    assert first.body == second.body
    assert b"y" * 100_000 in second.body
    assert first.header("content-type") == second.header("content-type")


async def test_a_callable_body_is_made_again(client: AnyClient, app: AppServer) -> None:
    def make() -> Iterator[bytes]:
        yield b"one"
        yield b"two"

    await client.post(redirect(app, "/echo", 307), content=make)
    assert [record.body for record in app.requests] == [b"onetwo", b"onetwo"]


async def test_a_spent_generator_is_not_sent_again_as_an_empty_body(
    client: AnyClient, app: AppServer
) -> None:
    """A body that was read is not sent as nothing."""
    with pytest.raises(curlhttp.UnrewindableBodyError) as caught:
        await client.post(redirect(app, "/echo", 307), content=(piece for piece in [b"a", b"b"]))
    assert len(app.requests) == 1
    assert caught.value.response is not None
    assert caught.value.response.status_code == 307


async def test_a_spent_generator_may_be_dropped_by_a_303(client: AnyClient, app: AppServer) -> None:
    """It is not needed there."""
    found = await client.post(redirect(app, "/echo", 303), content=(piece for piece in [b"a"]))
    assert found.json()["method"] == "GET"


# --- history and limits ---


async def test_history_has_every_redirect_with_its_body_oldest_first(
    client: AnyClient, app: AppServer
) -> None:
    def hop(record: Record, out: Any) -> None:
        number = record.number
        target = f"/hop/{number + 1}" if number < 3 else "/"
        out.reply(302, b"body %d" % number, [("Location", target)])

    app.route("/hop", hop)
    found = await client.get(app.url + "/hop/1")
    assert [past.content for past in found.history] == [b"body 1", b"body 2", b"body 3"]
    assert [past.url for past in found.history] == [f"{app.url}/hop/{n}" for n in (1, 2, 3)]
    assert (found.url, found.content) == (app.url + "/", b"hello")


async def test_redirects_reuse_the_connection(client: AnyClient, app: AppServer) -> None:
    await client.get(app.url + "/redirect/5")
    assert len(app.requests) == 6
    assert app.connections == 1


async def test_redirects_are_not_followed_by_default(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(follow_redirects=False)
    assert (await client.get(app.url + "/redirect/2")).status_code == 302
    assert (await client.get(app.url + "/redirect/2", follow_redirects=True)).status_code == 200
    assert (await client.get(app.url + "/redirect/2", allow_redirects=True)).status_code == 200
    assert (await make_client().get(app.url + "/redirect/1", allow_redirects=False)).is_redirect


async def test_too_many_redirects_have_the_last_response(
    make_client: MakeClient, app: AppServer
) -> None:
    """Redirects end."""
    client = make_client(max_redirects=3)
    assert (await client.get(app.url + "/redirect/3")).status_code == 200
    with pytest.raises(curlhttp.TooManyRedirects, match=r"Exceeded 3 redirects\.") as caught:
        await client.get(app.url + "/redirect/4")
    last = caught.value.response
    assert last is not None
    assert last.url == app.url + "/redirect/1"
    assert len(last.history) == 3
    assert caught.value.request_sent


async def test_a_loop_ends_after_thirty_redirects(client: AnyClient, app: AppServer) -> None:
    """Redirects end."""
    app.route("/loop", lambda record, out: out.reply(302, b"", [("Location", "/loop")]))
    with pytest.raises(curlhttp.TooManyRedirects):
        await client.get(app.url + "/loop")
    assert len(app.requests) == 31


async def test_max_redirects_may_be_zero(make_client: MakeClient, app: AppServer) -> None:
    client = make_client(max_redirects=0)
    assert (await client.get(app.url)).status_code == 200
    with pytest.raises(curlhttp.TooManyRedirects):
        await client.get(app.url + "/redirect/1")


async def test_challenges_do_not_count_as_redirects(
    make_client: MakeClient, app: AppServer
) -> None:
    def guarded(record: Record, out: Any) -> None:
        if record.header("authorization") is None:
            out.reply(401, b"", [("WWW-Authenticate", 'Digest realm="r", nonce="n"')])
        else:
            out.reply(302, b"", [("Location", "/")])

    app.route("/guarded", guarded)
    client = make_client(max_redirects=1)
    found = await client.get(app.url + "/guarded", auth=curlhttp.DigestAuth("u", "p"))
    assert [past.status_code for past in found.history] == [401, 302]


@pytest.mark.parametrize("status", (300, 304, 305))
async def test_statuses_that_are_no_redirects_are_not_followed(
    client: AnyClient, app: AppServer, status: int
) -> None:
    """300, 304 and 305 are final responses."""
    found = await client.get(redirect(app, "/", status))
    assert found.status_code == status
    assert len(app.requests) == 1


# --- where they lead ---


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/a/b?c=d", "/a/b?c=d"),
        ("sibling?x", "/dir/sibling?x"),
        ("../up", "/up"),
        ("?query", "/dir/start?query"),
        ("//{host}/other", "/other"),
        ("http://{host}/absolute", "/absolute"),
        ("  /blanks  ", "/blanks"),
        ("/sp ace", "/sp%20ace"),
        ("/caf\u00c3\u00a9", "/caf%C3%A9"),  # UTF-8, read as Latin-1
        ("/caf\xe9?caf\xe9", "/caf%E9?caf%E9"),  # not UTF-8: its bytes
        ("/voil\u00c3\u00a0", "/voil%C3%A0"),  # UTF-8 that ends in A0, a blank in Latin-1
        ("/%zz", "/%25zz"),
        ("/50%?q=caf%C3%A9&d=50%", "/50%25?q=caf%C3%A9&d=50%25"),
    ],
)
async def test_locations_of_every_form(
    client: AnyClient, app: AppServer, location: str, target: str
) -> None:
    """Blanks and bytes beyond ASCII."""
    where = location.format(host=f"127.0.0.1:{app.port}")

    def once(record: Record, out: Any) -> None:
        out.reply(200 if record.query_string else 302, b"", [("Location", where)])

    app.route("/dir/start", once)
    await client.get(app.url + "/dir/start")
    assert [record.target for record in app.requests] == ["/dir/start", target]


async def test_the_fragment_is_inherited_and_never_sent(client: AnyClient, app: AppServer) -> None:
    kept = await client.get(app.url + "/redirect/1#part")
    assert kept.url == app.url + "/#part"
    replaced = await client.get(redirect(app, "/#new") + "#part")
    assert replaced.url == app.url + "/#new"
    assert all("#" not in record.target for record in app.requests)


@pytest.mark.parametrize("blank", (b"", b"   ", b"\t"))
async def test_an_empty_location_is_no_redirect_and_its_body_is_whole(
    client: AnyClient, blank: bytes
) -> None:
    """Any Location is followed, refused or none."""
    body = b"z" * 200_000
    received = response(gzip.compress(body), "302 Found", [("Content-Encoding", "gzip")])
    head, _, rest = received.partition(b"\r\n\r\n")
    with RawServer(serving(head + b"\r\nLocation:" + blank + b"\r\n\r\n" + rest)) as server:
        found = await client.get(server.url)
        assert not found.is_redirect
        assert found.content == body
        async with await client.stream("GET", server.url) as streamed:
            assert await streamed.read() == body


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "scp://127.0.0.1/x",
        "ftp://127.0.0.1/x",
        "gopher://127.0.0.1/x",
        "dict://127.0.0.1/x",
        "ws://127.0.0.1/x",
        "data:text/plain,x",
        "javascript:alert(1)",
    ],
)
async def test_other_schemes_are_refused(client: AnyClient, app: AppServer, location: str) -> None:
    """Nothing but http and https is followed."""
    with pytest.raises(curlhttp.InvalidSchema) as caught:
        await client.get(redirect(app, location))
    assert len(app.requests) == 1
    assert caught.value.response is not None
    assert caught.value.response.status_code == 302


@pytest.mark.parametrize("location", ("http://", "http:///x", "http://a@b@c/", "http://h:99999/"))
async def test_a_location_that_is_no_url_is_refused(
    client: AnyClient, app: AppServer, location: str
) -> None:
    """Any Location is followed, refused or none."""
    with pytest.raises(curlhttp.InvalidURL) as caught:
        await client.get(redirect(app, location))
    assert caught.value.request_sent
    assert len(app.requests) == 1


async def test_a_location_of_100_kb_is_followed_or_refused_at_once(
    client: AnyClient, app: AppServer
) -> None:
    """Any Location is followed, refused or none."""
    long = "/echo?" + "a" * 100_000
    app.route("/long", lambda record, out: out.reply(302, b"", [("Location", long)]))
    begun = time.monotonic()
    found = await client.get(app.url + "/long")
    assert found.json()["target"] == long
    assert_in_time(time.monotonic() - begun, 0, 2)


# --- the redirect's own body ---


async def test_a_streamed_request_streams_only_the_last_response(
    client: AnyClient, app: AppServer
) -> None:
    async with await client.stream("GET", redirect(app, "/bytes/500000")) as streamed:
        assert [past.status_code for past in streamed.real.history] == [302]
        assert streamed.real.history[0].content == b""
        assert not streamed.real.is_closed
        assert len(await streamed.read()) == 500_000
    assert app.connections == 1


@pytest.mark.parametrize("stream", (False, True))
@pytest.mark.parametrize(
    ("kind", "body", "times"),
    [
        ("endless", bytes(65536), 10**9),
        ("chunked", b"10000\r\n" + bytes(65536) + b"\r\n", 10**9),
        ("large", bytes(1 << 20), 1),
    ],
)
async def test_at_most_64_kib_of_a_redirects_body_are_read(
    client: AnyClient, app: AppServer, kind: str, body: bytes, times: int, stream: bool
) -> None:
    """Of a body without end too."""
    field = {
        "endless": b"",
        "chunked": b"Transfer-Encoding: chunked\r\n",
        "large": b"Content-Length: 1048576\r\n",
    }[kind]
    head = b"HTTP/1.1 302 Found\r\nLocation: " + app.url.encode() + b"/\r\n" + field + b"\r\n"
    with RawServer(serving(head, body, times=times)) as server:
        begun = time.monotonic()
        found = await client.request("GET", server.url, stream=stream)
        assert_in_time(time.monotonic() - begun, 0, 1)
        assert len(found.history[0].content) == 65536
        assert server.wait_for(lambda: server.open_connections == 0)
        assert (found.read() if client.is_blocking else await found.aread()) == b"hello"


@pytest.mark.parametrize("stream", (False, True))
async def test_a_redirects_body_is_never_decoded(
    client: AnyClient, app: AppServer, stream: bool
) -> None:
    """A bomb in it does nothing."""
    bomb = gzip.compress(bytes(50 << 20))[:60_000]
    for coded in (bomb, b"this is not gzip"):
        fields = [("Location", app.url + "/"), ("Content-Encoding", "gzip")]
        with RawServer(serving(response(coded, "302 Found", fields))) as server:
            found = await client.request("GET", server.url, stream=stream)
            assert found.status_code == 200
            assert found.history[0].content == coded
            found.close() if client.is_blocking else await found.aclose()


async def test_a_small_body_of_a_redirect_keeps_the_connection(
    client: AnyClient, app: AppServer
) -> None:
    found = await client.get(redirect(app, "/") + "&body=60000")
    assert len(found.history[0].content) == 60_000
    assert app.connections == 1


async def test_a_redirect_that_is_not_followed_has_its_whole_body(
    client: AnyClient, app: AppServer
) -> None:
    found = await client.get(redirect(app, "/") + "&body=300000", follow_redirects=False)
    assert len(found.content) == 300_000


@pytest.mark.parametrize("stream", (False, True))
async def test_a_redirect_that_is_not_followed_is_bounded_like_any_response(
    client: AnyClient, app: AppServer, stream: bool
) -> None:
    url = redirect(app, "/") + "&body=300000"
    with pytest.raises(curlhttp.ResponseTooLarge):
        found = await client.request(
            "GET", url, follow_redirects=False, max_response_size=1000, stream=stream
        )
        assert not (found.read() if client.is_blocking else await found.aread())
    followed = await client.get(url, max_response_size=1000)
    assert followed.content == b"hello"


async def test_redirects_of_http2(make_client: MakeClient, h2_app: H2Server) -> None:
    client = make_client(http2=True)
    target = h2_app.url + "/redirect-to?status=307&body=1000000&url=/echo"
    for stream in (False, True):
        h2_app.reset_counts()
        options: dict[str, Any] = {"stream": stream, "content": b"abc", "auth": ("u", "p")}
        found = await client.request("POST", target, **options)
        body = found.read() if client.is_blocking else await found.aread()
        assert found.http_version == found.history[0].http_version == "HTTP/2"
        assert len(found.history[0].content) == 65536
        assert b'"body": "abc"' in body
        assert [r.header("authorization") for r in h2_app.requests] == ["Basic dTpw"] * 2


# --- with every API ---


@EVERY_API
async def test_no_api_follows_a_redirect_to_another_scheme(fetch: Fetch, app: AppServer) -> None:
    """Nothing is opened."""
    schemes = ("file:///etc/passwd", "scp://{}", "ftp://{}", "gopher://{}", "dict://{}", "ws://{}")
    for location in (*schemes, "data:text/plain,x", "javascript:alert(1)"):
        with pytest.raises(curlhttp.InvalidSchema):
            await fetch(redirect(app, location.format(f"127.0.0.1:{app.port}/x")))
    assert [record.path for record in app.requests] == ["/redirect-to"] * 8
    assert app.connections <= 8


@EVERY_API
@pytest.mark.parametrize("by", ["port", "host"])
@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"Authorization": "Bearer secret"}},
        {"headers": {"aUTHORIZATION": "Bearer secret", "Proxy-Authorization": "Basic secret"}},
        {"headers": {"Cookie": "session=secret"}},
        {"auth": ("u", "secret")},
    ],
)
async def test_no_api_sends_credentials_to_another_origin_or_back(
    fetch: Fetch, app: AppServer, other: AppServer, by: str, options: dict[str, Any]
) -> None:
    """And Proxy-Authorization does not go out at all."""
    away = other.url if by == "port" else app.at("localhost")
    home = quote(app.url + "/echo", safe="")
    await fetch(redirect(app, f"{away}/redirect-to?url={home}"), **options)
    first = app.requests[0]
    assert (first.header("authorization") or first.header("cookie")) is not None
    assert first.header("proxy-authorization") is None
    rest = [*app.requests[1:], *other.requests]
    assert len(rest) == 2
    for record in rest:
        assert record.header("authorization") is record.header("cookie") is None
        assert b"secret" not in record.raw


@EVERY_API
async def test_with_every_api_cookies_of_one_request_stay_with_its_host(
    fetch: Fetch, app: AppServer
) -> None:
    """A port is no other host (RFC 6265, section 8.5)."""
    app.route("/set", lambda record, out: out.reply(302, b"", moved_with_cookie(app)))
    for path in ("/redirect-to?url=" + quote(app.at("localhost") + "/echo", safe=""), "/set"):
        app.reset_counts()
        await fetch(app.url + path, cookies={"session": "secret"})
        assert app.requests[0].header("cookie") == "session=secret"
        assert sent_to(app, "cookie")[1:] == [None]


def moved_with_cookie(app: AppServer) -> list[tuple[str, str]]:
    return [("Location", app.at("localhost") + "/echo"), ("Set-Cookie", "theirs=secret")]


@EVERY_API
async def test_no_api_authenticates_to_another_origin(
    fetch: Fetch, api: str, app: AppServer, other: AppServer
) -> None:
    """Neither Basic, which is sent at once, nor Digest."""
    target = other.url + "/digest?user=u&password=p"
    auths: list[Any] = [("u", "p"), HTTPDigestAuth("u", "p")]
    if "session" not in api:
        auths[1] = curlhttp.DigestAuth("u", "p")
    for auth in auths:
        other.reset_counts()
        with suppress(curlhttp.HTTPError):  # of a download
            assert (await fetch(redirect(app, target), auth=auth)).status_code == 401
        assert sent_to(other, "authorization") == [None]


@EVERY_API
async def test_every_api_follows_the_same_statuses_and_no_loop(
    fetch: Fetch, api: str, app: AppServer
) -> None:
    """300, 304 and 305 are final responses; thirty redirects are the most."""
    for status in (300, 304, 305):
        app.reset_counts()
        with suppress(curlhttp.HTTPError):  # of a download
            assert (await fetch(redirect(app, "/", status))).status_code == status
        assert len(app.requests) == 1
    app.reset_counts()
    app.route("/loop", lambda record, out: out.reply(302, b"", [("Location", "/loop")]))
    with pytest.raises(curlhttp.TooManyRedirects) as caught:
        await fetch(app.url + "/loop")
    assert caught.value.response is not None
    assert len(app.requests) == 31


# --- credentials and other origins ---


def sent_to(server: AppServer, name: str) -> list[str | None]:
    return [record.header(name) for record in server.requests]


SECRETS = {
    "Authorization": "Bearer secret",
    "aUTHORIZATION": "Bearer twice",
    "Cookie": "session=secret",
    "Proxy-Authorization": "Basic secret",
}


@pytest.mark.parametrize("by", ("port", "host"))
async def test_credentials_do_not_reach_another_origin(
    client: AnyClient, app: AppServer, other: AppServer, by: str
) -> None:
    """By another port, by another host."""
    target = other.url + "/echo" if by == "port" else app.at("localhost") + "/echo"
    found = await client.get(redirect(app, target), headers=list(SECRETS.items()))
    names = {name.lower() for name, _ in found.json()["headers"]}
    assert names.isdisjoint({"authorization", "cookie", "proxy-authorization"})
    assert app.requests[0].values("authorization") == ["Bearer secret", "Bearer twice"]
    assert app.requests[0].header("cookie") == "session=secret"


async def test_credentials_are_not_sent_from_https_to_http(
    client: AnyClient, tls_app: AppServer, app: AppServer
) -> None:
    """Authorization stays with its origin."""
    await client.get(redirect(tls_app, app.url + "/echo"), headers={"Authorization": "Bearer s"})
    assert sent_to(tls_app, "authorization") == ["Bearer s"]
    assert sent_to(app, "authorization") == [None]


async def test_proxy_authorization_reaches_no_origin_at_all(
    make_client: MakeClient, app: AppServer
) -> None:
    """Proxy-Authorization goes to no origin."""
    client = make_client(headers={"Proxy-Authorization": "Basic secret"})
    await client.get(app.url + "/redirect/1", headers={"PROXY-authorization": "x"})
    await client.get(app.url + "/")
    await client.post(app.url + "/", content=b"x")
    assert sent_to(app, "proxy-authorization") == [None] * 4


async def test_credentials_stay_on_the_same_origin(client: AnyClient, app: AppServer) -> None:
    await client.get(app.url + "/redirect/2", headers={"Authorization": "Bearer s"})
    assert sent_to(app, "authorization") == ["Bearer s"] * 3
    app.requests.clear()
    await client.get(app.url + "/redirect/2", auth=("u", "p"))
    assert sent_to(app, "authorization") == ["Basic dTpw"] * 3


async def test_there_and_back_again_has_no_credentials(
    client: AnyClient, app: AppServer, other: AppServer
) -> None:
    """Credentials do not come back with the origin."""
    back = redirect(other, app.url + "/echo")
    for options in ({"auth": ("u", "p")}, {"headers": {"Authorization": "Basic dTpw"}}):
        app.reset_counts()
        await client.get(redirect(app, back), **options)
        assert sent_to(app, "authorization") == ["Basic dTpw", None]


async def test_auth_objects_do_not_authenticate_to_another_origin(
    client: AnyClient, app: AppServer, other: AppServer
) -> None:
    """An auth object authenticates to its own origin only."""
    target = other.url + "/digest?user=u&password=p"
    for auth in (curlhttp.DigestAuth("u", "p"), ("u", "p")):
        other.reset_counts()
        found = await client.get(redirect(app, target), auth=auth)
        assert found.status_code == 401
        assert sent_to(other, "authorization") == [None]


async def test_the_clients_own_auth_does_not_reach_another_origin(
    make_client: MakeClient, app: AppServer, other: AppServer
) -> None:
    """An auth object authenticates to its own origin only."""
    client = make_client(auth=("u", "p"), headers={"X-Token": "secret"})
    await client.get(redirect(app, other.url + "/echo"))
    assert sent_to(app, "authorization") == ["Basic dTpw"]
    assert sent_to(other, "authorization") == [None]
    assert sent_to(other, "x-token") == ["secret"]  # it was not declared as one


async def test_sensitive_headers_do_not_reach_another_origin(
    make_client: MakeClient, app: AppServer, other: AppServer
) -> None:
    """Those that the caller calls so."""
    client = make_client(sensitive_headers=["X-Token", "x-key"], headers={"x-tOKEN": "client's"})
    await client.get(redirect(app, "/redirect-to?url=" + other.url + "/"), headers={"X-Key": "k"})
    assert sent_to(app, "x-token") == ["client's"] * 2
    assert sent_to(app, "x-key") == ["k"] * 2
    assert sent_to(other, "x-token") == sent_to(other, "x-key") == [None]


async def test_userinfo_of_a_location_is_for_one_redirect_and_never_shown(
    client: AnyClient, app: AppServer, other: AppServer
) -> None:
    """Userinfo of a Location is for that redirect only, and never shown."""
    target = f"http://user:s3cret@127.0.0.1:{other.port}/redirect/1"
    app.route("/hop", lambda record, out: out.reply(302, b"", [("Location", target)]))
    found = await client.get(app.url + "/hop", headers={"Authorization": "Bearer first"})
    assert sent_to(app, "authorization") == ["Bearer first"]
    assert sent_to(other, "authorization") == ["Basic dXNlcjpzM2NyZXQ=", None]
    shown = " ".join(map(repr, [found, found.url, *(past.url for past in found.history)]))
    assert "s3cret" not in shown
    assert b"s3cret" not in b"".join(record.raw for record in other.requests)
    assert all(past.request.url.password is None for past in [*found.history, found])


async def test_userinfo_of_a_location_is_in_no_message(client: AnyClient, app: AppServer) -> None:
    """Userinfo of a Location is for that redirect only, and never shown."""
    for location in ("ftp://user:s3cret@h/", "http://user:s3cret@h:99999/", "http://u:s3cret@@/"):
        with pytest.raises(curlhttp.RequestException) as caught:
            await client.get(redirect(app, quote(location, safe=":/@")))
        assert "s3cret" not in f"{caught.value}{caught.value!r}"


async def test_a_host_header_does_not_follow_to_another_origin(
    client: AnyClient, app: AppServer, other: AppServer
) -> None:
    await client.get(redirect(app, other.url + "/"), headers={"Host": "invented.test"})
    assert sent_to(app, "host") == ["invented.test"]
    assert sent_to(other, "host") == [f"127.0.0.1:{other.port}"]


async def test_the_total_timeout_spans_all_redirects(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(max_redirects=10**6)  # on a slow machine there is time for many
    app.route("/loop", lambda record, out: _slowly(out))
    begun = time.monotonic()
    with pytest.raises(curlhttp.DeadlineExceeded):
        await client.get(app.url + "/loop", timeout=curlhttp.Timeout(total=paced(0.3)))
    assert_in_time(time.monotonic() - begun, paced(0.3), 0.7)
    assert len(app.requests) > 1


def _slowly(out: Any) -> None:
    if not out.wait_closed(0.05):
        out.reply(302, b"", [("Location", "/loop")])


async def test_a_request_may_be_sent_again_after_its_total_has_passed(
    client: AnyClient, app: AppServer
) -> None:
    request = client.real.build_request(
        "GET",
        app.url + f"/delay/{paced(0.2)}",
        timeout=curlhttp.Timeout(total=paced(0.38)),
    )
    for _ in range(2):
        assert (await client.send(request)).status_code == 200
