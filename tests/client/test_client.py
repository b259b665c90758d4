"""Settings of the clients: URLs, headers, checked values, copies and pickles."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from curlhttp import URL, AsyncClient, Client, Limits, Proxy, Timeout, requests
from curlhttp.exceptions import (
    ClientClosed,
    InvalidHeader,
    InvalidMethod,
    InvalidProxyURL,
    InvalidSchema,
    InvalidURL,
    MissingSchema,
)
from tests.servers import AppServer, H2Server, Record
from tests.support.colours import WITHOUT_UVLOOP, AnyClient
from tests.support.every_api import EVERY_API, Fetch

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

Make = Callable[..., AnyClient]
BOTH = pytest.mark.parametrize("kind", [Client, AsyncClient])


def raw_values(record: Record, name: bytes) -> list[bytes]:
    """Return what follows the colon of a field, with its blanks."""
    lines = [line.partition(b":") for line in record.raw.split(b"\r\n")]
    return [value for found, _, value in lines if found.lower() == name]


# --- base_url and params ---


@pytest.mark.parametrize(
    ("base", "url", "target"),
    [
        ("", "/a", "/a"),
        ("/", "/a", "/a"),
        ("/", "a", "/a"),
        ("/api", "users", "/api/users"),
        ("/api/", "users", "/api/users"),
        ("/api", "/users", "/api/users"),
        ("/api/", "/users?x=1", "/api/users?x=1"),
        ("/api/v1", "", "/api/v1"),
        ("/api", "?x=1", "/api?x=1"),
        ("/api", "a/b%2Fc", "/api/a/b%2Fc"),
        ("/api", "ü", "/api/%C3%BC"),
    ],
)
async def test_a_relative_url_is_joined_below_the_base(
    make_client: Make, app: AppServer, base: str, url: str, target: str
) -> None:
    client = make_client(base_url=app.url + base)
    await client.get(url)
    assert app.requests[-1].target == target


async def test_an_absolute_url_ignores_the_base(make_client: Make, app: AppServer) -> None:
    client = make_client(base_url="http://127.0.0.1:1/nowhere")
    assert (await client.get(app.url + "/bytes/1")).status_code == 200
    for url in (URL(app.url), app.url.encode()):
        assert (await client.request("GET", url)).content == b"hello"  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["", "x", "/x", "//x", "127.0.0.1/x"])
async def test_without_a_base_a_url_must_be_absolute(client: AnyClient, url: str) -> None:
    with pytest.raises((MissingSchema, InvalidURL)):
        await client.get(url)


@BOTH
@pytest.mark.parametrize(
    ("base", "error"),
    [("no-scheme", MissingSchema), ("ftp://x", InvalidSchema), ("http://", InvalidURL)],
)
def test_a_bad_base_url_is_refused_at_once(kind: Any, base: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        kind(base_url=base)


async def test_params_of_client_url_and_call_add_up(make_client: Make, app: AppServer) -> None:
    client = make_client(params={"a": 1})
    await client.get(app.url + "/bytes/1?b=2", params=[("c", "3"), ("c", "4")])
    assert sorted(app.requests[-1].pairs) == [("a", "1"), ("b", "2"), ("c", "3"), ("c", "4")]


async def test_only_a_bare_percent_sign_is_escaped(make_client: Make, app: AppServer) -> None:
    client = make_client(base_url=f"{app.url}/echo/%C3%A9%", params="a=%C3%A9%")
    response = await client.get("5%/%C3%A9?b=%C3%A9&c=50%", params="d=%C3%A9%")
    target = "/echo/%C3%A9%25/5%25/%C3%A9?b=%C3%A9&c=50%25&a=%C3%A9%25&d=%C3%A9%25"
    assert app.requests[-1].target == target
    assert response.url == app.url + target


# --- headers ---


async def test_the_default_headers_are_few(client: AnyClient, app: AppServer) -> None:
    await client.get(app.url)
    sent = dict(app.requests[-1].headers)
    assert set(sent) == {"Host", "User-Agent", "Accept-Encoding", "Accept"}
    assert sent["User-Agent"] == f"curlhttp/{curlhttp.__version__}"
    assert sent["Accept"] == "*/*"
    assert sent["Host"] == app.url.removeprefix("http://")


async def test_headers_are_sent_in_their_order_and_case(make_client: Make, app: AppServer) -> None:
    client = make_client(headers=[("X-ClienT", "c"), ("accept", "a/b")])
    await client.get(app.url, headers=[("x-One", "1"), ("X-Two", "2"), ("x-one", "again")])
    names = [name for name, _ in app.requests[-1].headers if name not in ("Host",)]
    assert names[:3] == ["User-Agent", "Accept-Encoding", "accept"]
    assert names[3:] == ["X-ClienT", "x-One", "x-one", "X-Two"]
    assert app.requests[-1].values("x-one") == ["1", "again"]


async def test_none_removes_a_header(make_client: Make, app: AppServer) -> None:
    client = make_client(headers={"X-A": "1", "Accept": None})
    await client.get(app.url, headers={"x-a": None, "USER-AGENT": None})
    names = {name.lower() for name, _ in app.requests[-1].headers}
    assert names == {"host", "accept-encoding"}
    await client.get(app.url)
    assert app.requests[-1].header("x-a") == "1"
    assert app.requests[-1].header("user-agent")


async def test_a_header_may_be_empty(client: AnyClient, app: AppServer) -> None:
    await client.get(app.url, headers={"X-Empty": ""})
    assert app.requests[-1].values("x-empty") == [""]


async def test_the_clients_headers_may_be_changed(make_client: Make, app: AppServer) -> None:
    client = make_client(headers={"X-A": "1"})
    await client.get(app.url)
    client.real.headers["X-A"] = "2"
    client.real.headers.add("X-B", "3")
    await client.get(app.url)
    assert app.requests[-1].values("x-a") == ["2"]
    assert app.requests[-1].values("x-b") == ["3"]
    del client.real.headers["X-A"]
    await client.get(app.url)
    assert app.requests[-1].values("x-a") == []
    client.real.headers = {"X-C": "4"}
    await client.get(app.url)
    assert app.requests[-1].values("x-b") == []
    assert app.requests[-1].values("x-c") == ["4"]
    assert app.requests[-1].header("user-agent")


async def test_headers_of_a_request_are_not_sent_with_the_next(
    client: AnyClient, app: AppServer
) -> None:
    await client.get(app.url, headers={"Authorization": "secret", "X-A": "1"})
    await client.get(app.url)
    assert app.requests[-1].values("authorization") == app.requests[-1].values("x-a") == []
    assert app.connections == 1


async def test_the_host_header_may_be_set(client: AnyClient, app: AppServer) -> None:
    await client.get(app.url, headers={"Host": "example.test"})
    assert app.requests[-1].values("host") == ["example.test"]
    await client.get(app.url)
    assert app.requests[-1].values("host") == [app.url.removeprefix("http://")]


@pytest.mark.parametrize(
    "headers", [{"X": "a\r\nb"}, {"X": "a\nb"}, {"X": "a\0"}, {"X y": "1"}, {"": "1"}, {"X": "€"}]
)
async def test_a_header_that_would_break_the_message_is_refused_before_connecting(
    client: AnyClient, app: AppServer, headers: dict[str, str]
) -> None:
    """No line end, no NUL, nothing beyond Latin-1; and a name is a token."""
    with pytest.raises(InvalidHeader):
        await client.get(app.url, headers=headers)
    assert app.connections == 0


@EVERY_API
async def test_a_header_that_would_break_the_message_is_refused_by_every_api(
    fetch: Fetch, app: AppServer
) -> None:
    """Line ends and NUL, in text and bytes; names that are none; beyond Latin-1."""
    values: list[Any] = ["a\r\nX: b", "a\nb", "a\rb", "a\0b", b"a\r\nX: b", b"a\0", "\u20ac"]
    names: list[Any] = ["", "X\r\nY", "X\0", "X:", ":", b"X\n"]
    for headers in (*({"X": value} for value in values), *({name: "a"} for name in names)):
        with pytest.raises(InvalidHeader):
            await fetch(app.url, headers=headers)
    assert app.connections == 0


@EVERY_API
async def test_no_blanks_around_a_value_are_sent(fetch: Fetch, app: AppServer) -> None:
    """They are refused; those behind the value are left out by the drop-in, as in requests."""
    for value in (" a", "a ", "\ta", "a\t", b"a "):
        with suppress(InvalidHeader):
            await fetch(app.url, headers={"X": value})
    assert {value for record in app.requests for value in raw_values(record, b"x")} <= {b" a"}


@EVERY_API
async def test_referer_and_origin_are_sent_without_userinfo(fetch: Fetch, app: AppServer) -> None:
    """User and password of the URL in Referer or Origin do not go to another server."""
    url = "https://me:hush@shop.test/cart?mail=a@b.test"
    await fetch(app.url, headers={"referer": url, "Origin": b"https://hush@shop.test"})
    assert app.requests[-1].values("referer") == ["https://shop.test/cart?mail=a@b.test"]
    assert app.requests[-1].values("origin") == ["https://shop.test"]
    assert b"hush" not in app.requests[-1].raw


@pytest.mark.parametrize("method", ["GET / HTTP/1.1\r\nX: y", "G ET", "", "GÉT", "GET\0"])
async def test_a_method_that_is_no_token_is_refused_before_connecting(
    client: AnyClient, app: AppServer, method: str
) -> None:
    """A method is a token."""
    with pytest.raises(InvalidMethod):
        await client.request(method, app.url)
    assert app.connections == 0


async def test_names_are_lower_case_on_http2(make_client: Make, h2_app: H2Server) -> None:
    client = make_client(http2=True, headers={"X-Mixed": "Case"})
    await client.get(h2_app.url)
    assert ("x-mixed", "Case") in h2_app.requests[-1].headers


# --- settings that are checked ---


@BOTH
@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"timeout": 0}, ValueError, "connect timeout must be a positive"),
        ({"timeout": -1}, ValueError, "positive"),
        ({"timeout": "5"}, ValueError, "number of seconds"),
        ({"timeout": True}, ValueError, "number of seconds"),
        ({"timeout": float("nan")}, ValueError, "positive"),
        ({"timeout": (1, 2, 3)}, ValueError, r"\(connect, read\)"),
        ({"max_connections": 0}, ValueError, "max_connections must be a whole number from 1 on"),
        ({"max_connections_per_host": 0}, ValueError, "max_connections_per_host"),
        ({"max_keepalive_connections": -1}, ValueError, "max_keepalive_connections"),
        ({"keepalive_expiry": -1}, ValueError, "keepalive_expiry"),
        ({"dns_ttl": -1}, ValueError, "dns_ttl"),
        ({"http2": "yes"}, ValueError, "http2 must be True, False or 'prior-knowledge'"),
        ({"hooks": {"respond": print}}, ValueError, "unknown hook 'respond'"),
        ({"verify": "/no/such/file.pem"}, OSError, "/no/such/file.pem"),
        ({"cert": "/no/such/cert.pem"}, OSError, "/no/such/cert.pem"),
        ({"proxies": "ftp://proxy"}, InvalidProxyURL, "must start with one of"),
        ({"headers": {"X": "\n"}}, InvalidHeader, "X"),
        ({"no_such_setting": 1}, TypeError, "no_such_setting"),
        ({"max_response_size": -1}, ValueError, "max_response_size"),
    ],
)
def test_a_wrong_setting_is_refused_with_a_clear_message(
    kind: Any, settings: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        client = kind(**settings)
        client.build_request("GET", "http://127.0.0.1")  # proxies are chosen for a URL


async def test_an_unknown_keyword_of_a_request_is_a_type_error(
    client: AnyClient, app: AppServer
) -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        await client.get(app.url, no_such_option=1)
    with pytest.raises(TypeError, match="no_such_option"):
        await client.request("GET", app.url, no_such_option=1)
    assert app.connections == 0


@BOTH
def test_settings_are_keywords_only(kind: Any) -> None:
    with pytest.raises(TypeError):
        kind("http://127.0.0.1")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (5, Timeout(connect=5, read=5)),
        (2.5, Timeout(connect=2.5, read=2.5)),
        ((1, 2), Timeout(connect=1, read=2)),
        ((None, 2), Timeout(connect=None, read=2)),
        (None, Timeout(total=None, connect=None, read=None, pool=None)),
        (Timeout(total=3), Timeout(total=3, connect=10, read=60)),
    ],
)
def test_a_timeout_may_be_given_in_several_ways(given: Any, expected: Timeout) -> None:
    with Client(timeout=given) as client:
        assert client.timeout == expected
        assert client.build_request("GET", "http://x").timeout == expected
        assert client.build_request("GET", "http://x", timeout=7).timeout.read == 7
    with Client() as client:
        assert client.timeout == Timeout(total=None, connect=10, read=60, pool=None)
        assert client.build_request("GET", "http://x", timeout=given).timeout == expected


def test_limits_may_be_given_as_one_or_as_keywords_of_which_these_win() -> None:
    limits = Limits(max_connections=5, keepalive_expiry=3)
    with Client(limits=limits, max_connections=7) as client:
        assert client.limits == Limits(max_connections=7, keepalive_expiry=3)
    with Client() as client:
        assert client.limits == Limits(max_connections=100)


def test_settings_are_frozen_values() -> None:
    values = (
        (Timeout(read=1), "read"),
        (Limits(), "dns_ttl"),
        (Proxy(url="x"), "url"),
    )
    for value, name in values:
        with pytest.raises(AttributeError):
            setattr(value, name, 3)
        assert value == copy.copy(value) == pickle.loads(pickle.dumps(value))
        assert hash(value) == hash(copy.copy(value))


def test_timeout_is_the_setting_and_nothing_else() -> None:
    assert Timeout(5) == Timeout(connect=5, read=5)
    assert Timeout() == Timeout(connect=10, read=60)
    assert isinstance(Timeout(connect=1), curlhttp.Timeout)
    assert not issubclass(curlhttp.Timeout, BaseException)
    with Client(timeout=Timeout()) as client:
        assert client.timeout == Timeout()


def test_the_exception_of_all_timeouts_has_its_own_name() -> None:
    assert curlhttp.TimeoutException is curlhttp.exceptions.Timeout
    assert curlhttp.TimeoutException is curlhttp.exceptions.TimeoutException
    assert curlhttp.TimeoutException is requests.Timeout is requests.exceptions.Timeout
    for arguments in ((), ("too late",), ("too", "late"), (5,)):
        error = curlhttp.TimeoutException(*arguments)
        assert isinstance(error, curlhttp.RequestException)
        assert error.args == arguments
    with pytest.raises(curlhttp.TimeoutException):
        raise curlhttp.ReadTimeout("too late")
    limits: Any = {"connect": 5}
    with pytest.raises(TypeError, match="connect"):
        curlhttp.exceptions.Timeout(**limits)


def test_no_setting_shows_a_secret() -> None:
    """Of a client."""
    proxy = Proxy.parse("http://user:secret@proxy:3128")
    assert proxy.password == "secret"
    with Client(auth=("user", "secret"), base_url="http://user:secret@127.0.0.1/x") as client:
        for thing in (proxy, client, client.headers):
            assert "secret" not in repr(thing) + str(thing)


# --- what a client is ---


def test_a_client_shows_its_base() -> None:
    with Client() as plain, Client(base_url="http://127.0.0.1/api") as based:
        assert repr(plain) == "<curlhttp.Client>"
        assert repr(based) == "<curlhttp.Client http://127.0.0.1/api>"
    assert repr(AsyncClient()) == "<curlhttp.AsyncClient>"


@BOTH
def test_objects_with_connections_can_be_neither_pickled_nor_copied(
    kind: Any, tmp_path: Path
) -> None:
    """It says so, be it in an object that somebody hands to another process."""
    client = kind(auth=("user", "secret"))
    web_socket = curlhttp.types.WebSocket if kind is Client else curlhttp.types.AsyncWebSocket
    for thing in (
        client,
        client.sse("http://127.0.0.1/"),
        client.map(["http://127.0.0.1/"]),
        client.har(tmp_path / "a.har"),
        curlhttp.Record(tmp_path / "b.har"),
        web_socket.__new__(web_socket),
        {"within": web_socket.__new__(web_socket)},
    ):
        name = "WebSocket" if isinstance(thing, dict) else type(thing).__name__
        for action in (pickle.dumps, copy.copy, copy.deepcopy):
            if action is copy.copy and isinstance(thing, dict):
                continue  # which copies nothing in it
            with pytest.raises(TypeError, match=f"{name} cannot be pickled or copied: it"):
                action(thing)


async def test_a_client_can_be_subclassed(colour: str, app: AppServer) -> None:
    base: Any = Client if colour == "blocking" else AsyncClient

    class Api(base):  # type: ignore[misc]
        def __init__(self, token: str) -> None:
            super().__init__(base_url=app.url, headers={"X-Token": token})

        def build_request(self, method: str, url: Any, **options: Any) -> Any:
            request = super().build_request(method, url, **options)
            request.headers["X-Built"] = "yes"
            return request

    api = Api("t")
    if colour == "blocking":
        with api:
            assert api.get("/bytes/1").status_code == 200
    else:
        async with api:
            assert (await api.get("/bytes/1")).status_code == 200
    assert app.requests[-1].header("x-token") == "t"
    assert app.requests[-1].header("x-built") == "yes"
    assert repr(api) == f"<curlhttp.Api {app.url}/>" or "Api" in repr(api)


async def test_a_built_request_is_sent_unchanged(client: AnyClient, app: AppServer) -> None:
    request = client.real.build_request("POST", app.url + "/echo", json={"a": 1})
    request.headers["X-Later"] = "1"
    response = await client.send(request)
    assert response.request.url == request.url
    assert app.requests[-1].header("x-later") == "1"
    assert response.json()["body"] == '{"a": 1}'
    assert (await client.send(request)).json()["body"] == '{"a": 1}'  # once more


async def test_a_closed_client_says_so(make_client: Make, app: AppServer) -> None:
    before = app.open_connections  # of other tests' clients
    client = make_client()
    await client.get(app.url)
    await client.aclose()
    await client.aclose()  # twice is fine
    with pytest.raises(ClientClosed, match="closed"):
        await client.get(app.url)
    with pytest.raises(RuntimeError):  # the family that this belongs to
        await client.get(app.url)
    assert app.wait_for(lambda: app.open_connections <= before)


async def test_the_with_statement_closes(colour: str, app: AppServer) -> None:
    before = app.open_connections  # of other tests' clients
    if colour == "blocking":
        with Client() as blocking:
            blocking.get(app.url)
        with pytest.raises(ClientClosed):
            blocking.get(app.url)
    else:
        async with AsyncClient() as client:
            await client.get(app.url)
        with pytest.raises(ClientClosed):
            await client.get(app.url)
    assert app.wait_for(lambda: app.open_connections <= before)


async def test_two_clients_share_nothing(make_client: Make, app: AppServer) -> None:
    """Clients share no state."""
    one, two = make_client(headers={"X-A": "1"}), make_client()
    await one.get(app.url + "/cookies/set?a=1")
    assert app.requests[-1].header("cookie") is None
    await two.get(app.url + "/cookies")
    assert app.requests[-1].header("cookie") is None
    assert app.requests[-1].header("x-a") is None
    assert app.connections == 2
    await one.get(app.url + "/cookies")
    assert app.requests[-1].header("cookie") == "a=1"


async def test_no_file_is_written(
    make_client: Make,
    tls_app: AppServer,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Alt-Svc and HSTS are off; a file name in the response is only text."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))

    def respond(record: Any, conn: Any) -> None:
        conn.reply(
            200,
            b"ok",
            [
                ("Alt-Svc", 'h2="other:1"; ma=86400'),
                ("Strict-Transport-Security", "max-age=86400"),
                ("Content-Disposition", "attachment; filename=../../x"),
            ],
        )

    tls_app.route("/state", respond)
    client = make_client()
    assert (await client.get(tls_app.url + "/state")).content == b"ok"
    assert (await client.get(tls_app.url + "/state")).content == b"ok"
    assert len(tls_app.requests) == 2
    await client.aclose()
    assert list(tmp_path.iterdir()) == []
