"""Middleware, hooks and auth that replace bodies: what is sent, and what can be sent again."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from email.parser import BytesParser
from typing import Any

import pytest

import curlhttp
from curlhttp import ClientRequest, Response, RetryPolicy
from curlhttp.testing import Answer, reset
from curlhttp.types import Send
from tests.servers import AppServer, RawConnection, RawServer
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP, AnyClient
from tests.support.scripted import URL, Scripted, steady

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
PLACES = pytest.mark.parametrize("place", ("middleware", "attempt_middleware", "hook", "auth"))


def settings_for(place: str, change: Callable[[ClientRequest], ClientRequest | None]) -> Any:
    """Return the settings of a client that changes its requests in one place."""

    async def middleware(request: ClientRequest, send: Send) -> Response:
        return await send(change(request) or request)

    if place == "hook":
        return {"hooks": {"request": change}}
    return {"auth": change} if place == "auth" else {place: [middleware]}


def pieces() -> Iterator[bytes]:
    yield b"new"
    yield b" body"


async def async_pieces() -> AsyncIterator[bytes]:
    yield b"new"
    yield b" body"


# --- what is sent ---

SOURCES: dict[str, Callable[[], Any]] = {
    "bytes": lambda: b"new body",
    "bytearray": lambda: bytearray(b"new body"),
    "str": lambda: "new body",
    "file": lambda: io.BytesIO(b"new body"),
    "list": lambda: [b"new", b" body"],
    "generator": pieces,
    "function": lambda: pieces,
    "async": async_pieces,
}


@WITHOUT_UVLOOP
@PLACES
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("derives", (False, True))
async def test_a_body_of_each_kind_may_replace_another(
    make_client: MakeClient, app: AppServer, place: str, kind: str, derives: bool, colour: str
) -> None:
    if kind == "async" and colour == "blocking":
        return

    def change(request: ClientRequest) -> ClientRequest | None:
        if derives:
            return request.derive(content=SOURCES[kind]())
        request.content = SOURCES[kind]()
        return None

    client = make_client(**settings_for(place, change))
    found = await client.post(app.url + "/echo", json={"old": "a longer body than the new one"})
    assert found.status_code == 200
    (record,) = app.requests
    assert record.body == b"new body"
    assert record.header("content-type") == "application/json"
    is_known = kind not in ("generator", "list", "function", "async")
    assert record.header("content-length") == ("8" if is_known else None)
    assert record.header("transfer-encoding") == (None if is_known else "chunked")


@WITHOUT_UVLOOP
@PLACES
async def test_no_body_remains_where_it_is_removed(
    make_client: MakeClient, app: AppServer, place: str
) -> None:
    def change(request: ClientRequest) -> None:
        request.method, request.content = "GET", None

    client = make_client(**settings_for(place, change))
    await client.post(app.url + "/echo", json=1, headers={"Content-Encoding": "x", "X-A": "1"})
    (record,) = app.requests
    assert (record.method, record.body, record.header("x-a")) == ("GET", b"", "1")
    for name in ("content-type", "content-encoding", "content-length", "transfer-encoding"):
        assert record.header(name) is None


@WITHOUT_UVLOOP
@PLACES
async def test_a_get_may_get_a_body(make_client: MakeClient, app: AppServer, place: str) -> None:
    def change(request: ClientRequest) -> ClientRequest:
        return request.derive(json={"a": 1}, params={"b": "2"})

    client = make_client(**settings_for(place, change))
    await client.get(app.url + "/echo?a=1")
    (record,) = app.requests
    assert (record.method, record.target, record.body) == ("GET", "/echo?a=1&b=2", b'{"a": 1}')
    assert record.header("content-type") == "application/json"


@ONE_OF_EACH
async def test_a_form_may_be_extended_and_changed_to_files(
    make_client: MakeClient, app: AppServer
) -> None:
    def change(request: ClientRequest) -> ClientRequest:
        return request.derive(
            data={"a": "1", "b": "2"}, files={"f": ("f.txt", io.BytesIO(b"file"), "text/plain")}
        )

    client = make_client(hooks={"request": [change]})
    await client.post(app.url + "/echo", data={"a": "1"})
    (record,) = app.requests
    kind = str(record.header("content-type"))
    assert kind.startswith("multipart/form-data; boundary=")
    parsed = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\n\n" + record.body)
    parts: Any = parsed.get_payload()
    assert [part.get_payload() for part in parts] == ["1", "2", "file"]


@pytest.mark.parametrize(
    ("given", "new", "kind"),
    [
        ({"json": 1}, {"json": 2}, "application/json"),
        ({"json": 1, "headers": {"Content-Type": "a/b+json"}}, {"json": 2}, "a/b+json"),
        ({"json": 1, "headers": {"Content-Type": "a/b+json"}}, {"data": {"a": 1}}, "form"),
        ({"data": {"a": 1}}, {"json": 2}, "application/json"),
        ({"content": b"x", "headers": {"Content-Type": "a/b"}}, {"json": 2}, "application/json"),
        ({"content": b"x", "headers": {"Content-Type": "a/b"}}, {"content": b"y"}, "a/b"),
        ({"json": 1}, {"json": 2, "headers": {"Content-Type": "c/d"}}, "c/d"),
        ({"json": 1}, {"content": None}, None),
        ({}, {"data": b"raw"}, None),
        ({"headers": {"Content-Type": "a/b"}}, {"json": 2}, "a/b"),
    ],
)
def test_the_type_is_that_of_the_new_body(given: Any, new: Any, kind: str | None) -> None:
    if kind == "form":
        kind = "application/x-www-form-urlencoded"
    with curlhttp.Client() as client:
        made = client.build_request("POST", URL, **given).derive(**new)
    assert made.headers.get("Content-Type") == kind


def test_the_fields_of_the_old_body_go_with_it() -> None:
    headers = {"Content-Encoding": "gzip", "Content-MD5": "x", "X-A": "1"}
    request = ClientRequest("POST", URL, headers=headers, content=b"gzipped")
    made = request.derive(json={"a": 1})
    assert "Content-Encoding" not in made.headers
    assert "Content-MD5" not in made.headers
    assert (made.headers["X-A"], made.content) == ("1", b'{"a": 1}')
    assert request.content == b"gzipped"


@ONE_OF_EACH
async def test_a_new_body_of_a_stated_length_is_not_chunked(
    make_client: MakeClient, app: AppServer
) -> None:
    def change(request: ClientRequest) -> None:
        request.headers["Content-Length"] = "8"
        request.content = pieces()

    client = make_client(hooks={"request": change})
    await client.post(app.url + "/echo", content=b"old")
    assert app.requests[0].header("content-length") == "8"
    made = ClientRequest("PUT", app.url + "/echo", {"Content-Length": "8"}, content=pieces())
    await make_client().send(made.derive(headers={}))
    assert app.requests[1].header("content-length") == "8"


@ONE_OF_EACH
async def test_derived_json_is_written_by_the_client(make_client: MakeClient) -> None:
    engine_client = make_client(
        json=curlhttp.JSON(dumps=lambda value: f"<{value}>", loads=json.loads),
        middleware=[settings_for("middleware", lambda r: r.derive(json=5))["middleware"][0]],
        transport=curlhttp.testing.ScriptedEngine([200]),
    )
    response = await engine_client.post(URL, json=1)
    assert response.request.content == b"<5>"


# --- a new request ---


@WITHOUT_UVLOOP
@pytest.mark.parametrize("place", ("middleware", "attempt_middleware", "hook"))
async def test_a_new_request_has_the_settings_of_the_one_that_it_replaces(
    make_client: MakeClient, app: AppServer, place: str
) -> None:
    def change(request: ClientRequest) -> ClientRequest:
        return ClientRequest("PUT", app.url + "/echo", {"X-B": "2"}, content=b"new body")

    client = make_client(
        **settings_for(place, change), headers={"User-Agent": "mine"}, cookies={"c": "d"}
    )
    async with await client.stream("POST", app.url + "/other", headers={"X-A": "1"}) as stream:
        assert await stream.read()
        assert stream.real.request.timeout.read == 60
    (record,) = app.requests
    assert (record.method, record.path, record.body) == ("PUT", "/echo", b"new body")
    assert (record.header("x-a"), record.header("x-b")) == (None, "2")
    assert (record.header("user-agent"), record.header("cookie")) == ("mine", "c=d")
    assert record.header("content-length") == "8"


@ONE_OF_EACH
@pytest.mark.parametrize("place", ("middleware", "hook"))
async def test_a_new_request_to_another_origin_has_nothing_secret(
    scripted: Scripted, place: str
) -> None:
    def change(request: ClientRequest) -> ClientRequest:
        return ClientRequest("GET", "http://other.test/")

    client, engine = scripted(
        [200], **settings_for(place, change), headers={"X-Api-Key": "k"}, auth=("u", "p")
    )
    await client.get(URL)
    assert engine.sent[0].url == "http://other.test/"
    assert engine.sent[0].headers["User-Agent"]
    assert "X-Api-Key" not in engine.sent[0].headers
    assert "Authorization" not in engine.sent[0].headers


@ONE_OF_EACH
async def test_a_new_request_may_have_credentials(scripted: Scripted) -> None:
    async def fixed(request: ClientRequest, send: Send) -> Response:
        return await send(ClientRequest("GET", URL, auth=("u", "p")))

    async def fetched(request: ClientRequest, send: Send) -> Response:
        return await send(ClientRequest("GET", URL, auth=curlhttp.DigestAuth("u", "p")))

    client, engine = scripted([200], middleware=[fixed])
    await client.get(URL)
    assert engine.sent[0].headers["Authorization"] == "Basic dTpw"
    client, engine = scripted([], middleware=[fetched])
    with pytest.raises(TypeError, match=r"DigestAuth.*pass auth= to the client"):
        await client.get(URL)


# --- what is sent again ---


def compress(request: ClientRequest) -> None:
    """Compress the body, unless it is compressed."""
    if "content-encoding" not in request.headers:
        request.content = gzip.compress(request.read())
        request.headers["Content-Encoding"] = "gzip"


@WITHOUT_UVLOOP
@pytest.mark.parametrize("place", ("middleware", "attempt_middleware", "hook"))
@pytest.mark.parametrize("how", ("bytes", "file"))
async def test_a_compressed_body_is_sent_again_after_a_307_a_challenge_and_a_503(
    make_client: MakeClient, app: AppServer, place: str, how: str
) -> None:
    seen: list[tuple[str, bytes]] = []
    challenge = ("WWW-Authenticate", 'Digest realm="r", nonce="n", qop="auth"')

    def serve(record: Any, out: Any) -> None:
        seen.append((record.header("content-encoding"), gzip.decompress(record.body)))
        if record.path == "/first":
            out.reply(307, b"", [("Location", "/second")])
        elif record.header("authorization") is None or "nonce" not in record.header(
            "authorization"
        ):
            out.reply(401, b"", [challenge])
        else:
            out.reply(503 if len(seen) < 5 else 200, b"done")

    for path in ("/first", "/second"):
        app.route(path, serve)
    client = make_client(
        **settings_for(place, compress),
        auth=curlhttp.DigestAuth("u", "p"),
        retry=RetryPolicy(3, retry_non_idempotent=True, backoff_strategy=steady().backoff_strategy),
    )
    content: Any = b"plain" if how == "bytes" else io.BytesIO(b"plain")
    request = client.real.build_request("PUT", app.url + "/first", content=content)
    for _ in range(2):  # the caller's request is unchanged, and can be sent again
        seen.clear()
        found = await client.send(request)
        assert found.content == b"done"
        assert set(seen) == {("gzip", b"plain")}
        assert len(seen) >= 4


@ONE_OF_EACH
async def test_a_generator_that_replaced_a_body_cannot_be_sent_again(scripted: Scripted) -> None:
    def change(request: ClientRequest) -> None:
        request.content = pieces()

    moved = Answer(307, headers={"Location": "/x"})
    client, _ = scripted([moved, 200], hooks={"request": change})
    with pytest.raises(curlhttp.UnrewindableBodyError, match="307"):
        await client.post(URL, content=b"old")
    client, engine = scripted([moved, 200], **settings_for("middleware", change))
    await client.post(URL, content=b"old")  # a new generator for each hop
    assert [sent.body for sent in engine.sent] == [b"new body", b"new body"]


@ONE_OF_EACH
async def test_each_attempt_may_have_its_own_body(scripted: Scripted) -> None:
    count = 0

    def change(request: ClientRequest) -> None:
        nonlocal count
        count += 1
        request.content = request.content + f" {count}".encode()

    client, engine = scripted(
        [503, 200], **settings_for("attempt_middleware", change), retry=steady()
    )
    await client.request("PUT", URL, content=b"body")
    assert [sent.body for sent in engine.sent] == [b"body 1", b"body 2"]


# --- progress, and what cannot be done ---


@ONE_OF_EACH
@PLACES
async def test_progress_is_that_of_the_new_body(
    make_client: MakeClient, app: AppServer, place: str
) -> None:
    reports: list[Any] = []

    def change(request: ClientRequest) -> None:
        assert request.content == b"old"
        request.content = b"new body"

    client = make_client(**settings_for(place, change))
    await client.post(
        app.url + "/echo",
        content=b"old",
        progress=lambda done, total: reports.append((done, total)),
    )
    assert app.requests[0].body == b"new body"
    assert reports[0] == (0, 8)
    assert reports[-1] == (8, 8)


@ONE_OF_EACH
@pytest.mark.parametrize("place", ("middleware", "attempt_middleware", "hook"))
async def test_progress_is_that_of_a_new_request(
    make_client: MakeClient, app: AppServer, place: str
) -> None:
    reports: list[Any] = []

    def change(request: ClientRequest) -> ClientRequest:
        return ClientRequest("PUT", app.url + "/echo", content=b"new body")

    client = make_client(**settings_for(place, change))
    await client.post(
        app.url + "/echo", content=b"old", progress=lambda *report: reports.append(report)
    )
    assert app.requests[0].body == b"new body"
    assert (reports[0], reports[-1]) == ((0, 8), (8, 8))


@ONE_OF_EACH
async def test_a_secret_stays_one_in_a_new_request(scripted: Scripted) -> None:
    async def add(request: ClientRequest, send: Send) -> Response:
        if request.url.host == "id.test":
            request = ClientRequest("POST", request.url, data={"pin": "s3cret", "more": "1"})
        return await send(request)

    class Login(curlhttp.Auth):
        def auth_flow(self, request: ClientRequest) -> curlhttp.types.AuthFlow:
            yield ClientRequest("POST", "http://id.test/", data={"pin": "s3cret"})
            yield request

    client, engine = scripted([reset()], middleware=[add], auth=Login())
    with pytest.raises(curlhttp.ConnectionError) as caught:
        await client.get(URL)
    assert engine.sent[0].form == {"pin": "s3cret", "more": "1"}
    assert b"s3cret" not in pickle.dumps(caught.value)


@ONE_OF_EACH
@pytest.mark.parametrize("place", ("middleware", "attempt_middleware", "hook"))
async def test_a_streamed_body_can_be_read_first(scripted: Scripted, place: str) -> None:
    def change(request: ClientRequest) -> None:
        with pytest.raises(RuntimeError, match=r"read\(\)"):
            request.content  # noqa: B018  # the error is that of reading it
        assert request.read() == b"new body"
        assert request.content == b"new body"
        request.headers["X-Length"] = str(len(request.content))

    client, engine = scripted([200], **settings_for(place, change))
    await client.post(URL, content=pieces())
    assert (engine.sent[0].headers["X-Length"], engine.sent[0].body) == ("8", b"new body")


async def test_an_async_body_is_awaited(scripted: Scripted, colour: str) -> None:
    if colour == "blocking":
        return

    async def watch(request: ClientRequest, send: Send) -> Response:
        with pytest.raises(TypeError, match=r"await request\.aread\(\)"):
            request.read()
        request.headers["X-Length"] = str(len(await request.aread()))
        return await send(request)

    client, engine = scripted([200], middleware=[watch])
    await client.post(URL, content=async_pieces())
    assert (engine.sent[0].headers["X-Length"], engine.sent[0].body) == ("8", b"new body")


@ONE_OF_EACH
@PLACES
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"content": {"a": 1}}, "data= takes a form, and json= any JSON"),
        ({"content": 5}, "a body is bytes"),
        ({"body": b"raw"}, "set request.content"),
        ({"body": {"a": 1}}, r"derive\(json="),
    ],
)
async def test_what_is_no_body_is_refused_with_a_hint(
    scripted: Scripted, place: str, wrong: dict[str, Any], message: str
) -> None:
    def change(request: ClientRequest) -> None:
        for name, value in wrong.items():
            setattr(request, name, value)

    client, engine = scripted([], **settings_for(place, change))
    with pytest.raises(TypeError, match=message):
        await client.post(URL, content=b"old")
    assert engine.sent == []


@ONE_OF_EACH
async def test_a_body_for_async_client_is_refused_by_client(scripted: Scripted) -> None:
    def change(request: ClientRequest) -> None:
        request.content = async_pieces()

    client, _ = scripted([200], hooks={"request": change})
    if client.is_blocking:
        with pytest.raises(TypeError, match="AsyncClient"):
            await client.post(URL, content=b"old")
    else:
        await client.post(URL, content=b"old")


@ONE_OF_EACH
@PLACES
async def test_a_head_cannot_get_a_body(scripted: Scripted, place: str) -> None:
    def change(request: ClientRequest) -> None:
        request.content = b"x"

    client, engine = scripted([], **settings_for(place, change))
    with pytest.raises(curlhttp.InvalidMethod, match="HEAD"):
        await client.request("HEAD", URL)
    assert engine.sent == []


@ONE_OF_EACH
@pytest.mark.parametrize("place", ("middleware", "attempt_middleware"))
async def test_what_is_no_request_is_refused(scripted: Scripted, place: str) -> None:
    async def wrong(request: ClientRequest, send: Any) -> Response:
        response: Response = await send(curlhttp.requests.Request("GET", URL))
        return response

    client, _ = scripted([], **{place: [wrong]})
    with pytest.raises(TypeError, match="a middleware sent Request, not a ClientRequest"):
        await client.get(URL)


def test_derive_names_what_it_does_not_know() -> None:
    request = ClientRequest("GET", URL)
    derive: Any = request.derive
    with pytest.raises(TypeError, match="unexpected keyword argument 'contents'"):
        derive(contents=b"x")
    with pytest.raises(TypeError, match="cannot be combined"):
        request.derive(content=b"x", json={})
    with pytest.raises(TypeError, match="one body"):
        request.derive(data={"a": 1}, json={})
    assert request.derive(timeout=3, auth=("u", "p")).timeout.read == 3


# --- an upload that waits for 100 ---


@ONE_OF_EACH
async def test_a_server_that_refuses_early_gets_no_new_body_either(
    make_client: MakeClient,
) -> None:
    def change(request: ClientRequest) -> None:
        request.content = b"x" * 100
        request.headers["Expect"] = "100-continue"

    def handler(conn: RawConnection) -> None:
        head, _ = conn.read_request()
        assert b"content-length: 100\r\n" in head.lower()
        conn.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with RawServer(handler) as server:
        client = make_client(middleware=[settings_for("middleware", change)["middleware"][0]])
        assert (await client.post(server.url, content=b"old")).status_code == 200
