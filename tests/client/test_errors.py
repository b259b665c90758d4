"""Each failure raises its own type with facts and a message, and none shows a credential."""

from __future__ import annotations

import base64
import copy
import errno
import json
import pickle
import re
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pycurl
import pytest

import curlhttp
from curlhttp import ClientRequest, Timeout
from curlhttp import exceptions as e
from curlhttp.types import Attempt, Timings
from tests.servers import (
    AppServer,
    BlackHole,
    Certs,
    H2Server,
    HTTPProxy,
    RawServer,
    close_at_once,
    refused_port,
    reset_at_once,
    respond,
    respond_and_close,
    respond_and_reset,
    respond_and_stall,
    response,
)
from tests.support.colours import (
    HAS_TLS_1_3,
    IS_WINE,
    WITHOUT_UVLOOP,
    AnyClient,
    needs_authorities,
    needs_reset,
)
from tests.support.curl_errors import error_of_code
from tests.support.pace import paced

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

MakeClient = Callable[..., AnyClient]

# --- pickles ---


async def test_neither_a_pickled_response_nor_an_error_carries_credentials(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client(
        cookies={"a": "s3cret-1"},
        auth=("user", "s3cret-2"),
        sensitive_headers=["X-Tenant"],
        headers={"X-Tenant": "s3cret-3"},
        retry=1,
    )
    own = {"Proxy-Authorization": "s3cret-4", "X": "kept"}
    hidden = ("s3cret", base64.b64encode(b"user:s3cret-2").decode())
    response = await client.get(app.url + "/redirect-to?url=/status/503", headers=own)
    sent = response.request.headers
    assert {"Authorization", "Cookie", "X-Tenant"} <= set(sent)
    with pytest.raises(e.HTTPError) as refused:
        response.raise_for_status()
    with pytest.raises(e.ChunkedEncodingError) as cut:
        await client.get(app.url + "/truncated", headers=own)
    with pytest.raises(e.ChunkedEncodingError) as cut_stream:
        async with await client.stream("GET", app.url + "/truncated", headers=own) as stream:
            await stream.read()
    with pytest.raises(e.JSONDecodeError) as no_json:
        response.json()
    for value in (response, refused.value, cut.value, cut_stream.value, no_json.value):
        data = pickle.dumps(value)
        assert not any(secret.encode() in data for secret in hidden)
        again = pickle.loads(data)
        assert again.request.headers["x"] == "kept"
        assert str(again.request) == str(value.request)
    assert response.request.headers is sent
    assert "Authorization" in sent  # of the one that was pickled


async def test_no_pickled_error_carries_the_secrets_of_urls(
    make_client: MakeClient, app: AppServer
) -> None:
    def elsewhere(record: Any, conn: Any) -> None:
        fields = [("Location", "/status/503?token=s3cret-1"), ("Set-Cookie", "a=s3cret-2")]
        conn.reply(302, headers=fields)

    app.route("/elsewhere", elsewhere)
    own = {"Referer": "http://a.test/?token=s3cret-3", "X-Api-Key": "s3cret-4", "X": "kept"}
    client = make_client(retry=1, headers=own, max_redirects=0)
    away = f"http://127.0.0.1:{refused_port()}"
    token = "?access_token=s3cret-5"
    errors: list[BaseException] = []

    async def fails(work: Callable[[], Any]) -> None:
        with pytest.raises(e.RequestException) as caught:
            await work()
        errors.append(caught.value)

    async def opened(url: str) -> None:
        async with await client.websocket(url):
            raise AssertionError("that is no WebSocket")

    async def read(url: str) -> None:
        async with await client.stream("GET", url) as stream:
            await stream.read()
            stream.real.raise_for_status()

    await fails(lambda: client.get(app.url + "/elsewhere" + token))
    await fails(lambda: client.get(app.url + "/truncated" + token))
    await fails(lambda: read(app.url + "/truncated" + token))
    await fails(lambda: read(app.url + "/status/404" + token))
    await fails(lambda: client.get(away + token))
    await fails(lambda: opened(away.replace("http", "ws", 1) + token))
    await fails(lambda: opened(app.url.replace("http", "ws", 1) + "/status/403" + token))
    granting = curlhttp.OAuth2ClientCredentials(app.url + "/status/400" + token, "me", "s3cret-6")
    await fails(lambda: client.get(app.url, auth=granting))
    again = make_client(headers=own)
    response = await again.get(app.url + "/elsewhere" + token)
    with pytest.raises(e.HTTPError) as refused:
        response.raise_for_status()
    for error in (*errors, refused.value):
        data = pickle.dumps(error)
        assert b"s3cret" not in data, error
        twin = pickle.loads(data)
        assert str(twin) == str(error)
        assert type(twin) is type(error)
    twin = pickle.loads(pickle.dumps(refused.value))
    assert (twin.request.headers["x"], twin.response.status_code) == ("kept", 503)
    assert [each.status_code for each in twin.response.history] == [302]
    assert response.url.endswith("?token=s3cret-1")  # of the one that was pickled


async def test_a_pickled_request_can_be_sent_with_its_credentials(
    make_client: MakeClient, app: AppServer
) -> None:
    client = make_client()
    request = client.real.build_request("GET", app.url, headers={"Authorization": "Bearer x"})
    await client.send(pickle.loads(pickle.dumps(request)))
    assert app.requests[0].header("authorization") == "Bearer x"


async def test_a_pickled_error_hides_secrets_that_continue_in_folded_lines(
    client: AnyClient,
) -> None:
    head = (
        b"HTTP/1.1 401 Not: you\r\nX-Api-Key: s3cret-1\r\n s3cret-2\r\n"
        b"Location: http://h/?token=s3cret-3\r\n\ts3cret-4\r\nVary: a\xe9\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n"
    )
    with RawServer(respond(head + b"0\r\nSet-Cookie: a=s3cret-5\r\n\r\n")) as server:
        with pytest.raises(e.HTTPError) as caught:
            await client.get(server.url, raise_for_status=True)
    data = pickle.dumps(caught.value)
    assert b"s3cret" not in data
    again = pickle.loads(data).response
    assert (again.status_code, again.reason, again.http_version) == (401, "Not: you", "HTTP/1.1")
    assert again.headers.multi_items() == [
        ("X-Api-Key", "[secret]"),
        ("Location", "http://h/?token=***"),
        ("Vary", "a\xe9"),
        ("Transfer-Encoding", "chunked"),
    ]
    assert again.trailers.multi_items() == [("Set-Cookie", "[secret]")]


# --- the table of codes ---

CODES = {
    name: value
    for name, value in vars(pycurl).items()
    if name.startswith("E_") and not name.startswith("E_MULTI_") and isinstance(value, int)
}


def a_request(**options: Any) -> ClientRequest:
    with curlhttp.Client(trust_env=False) as client:
        built: ClientRequest = client.build_request("GET", "http://example.test/path", **options)
        return built


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        (45, {"is_local": True, "is_lasting": True}),  # CURLE_INTERFACE_FAILED
        (100, {"is_local": False, "is_lasting": True, "broken_part": None}),  # CURLE_TOO_LARGE
        (7, {"is_local": False, "is_lasting": False}),
        (35, {"tls_failure": "handshake", "is_lasting": False}),
        (60, {"tls_failure": "untrusted"}),  # certificate, host name
        (90, {"tls_failure": "untrusted"}),  # pin
        (58, {"tls_failure": None}),
        (8, {"broken_part": None}),
    ],
)
def test_an_error_says_what_its_code_means(code: int, facts: dict[str, Any]) -> None:
    error = error_of_code(code)
    assert {name: getattr(error, name) for name in facts} == facts
    twin = pickle.loads(pickle.dumps(error))
    assert {name: getattr(twin, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("alert", "wants"),
    [("tlsv13 alert certificate required", True), ("alert bad record mac", False)],
)
def test_an_alert_says_whether_a_client_certificate_is_required(alert: str, wants: bool) -> None:
    error = error_of_code(56, message=f"error:0A00045C:SSL routines::{alert}")
    assert isinstance(error, e.SSLError)
    assert error.wants_certificate is wants


def test_an_error_says_that_a_length_is_broken() -> None:
    error = error_of_code(8, message="Invalid Content-Length: value")
    assert isinstance(error, e.RemoteProtocolError)
    assert error.broken_part == "content-length"


@pytest.mark.parametrize("code", sorted({*CODES.values()} - {0}))
def test_every_code_makes_an_exception_with_its_facts(code: int) -> None:
    error = error_of_code(code, "http://example.test/path")
    assert isinstance(error, e.RequestException)
    assert error.curl_code == code
    assert error.request_sent
    assert error.request is not None
    assert "GET http://example.test/path" in str(error)
    assert f"curl error {code}" in str(error)


@pytest.mark.parametrize(
    ("code", "facts", "expected"),
    [
        (1, {"sent": False}, e.InvalidSchema),
        (1, {"sent": True}, e.RemoteProtocolError),
        (3, {}, e.InvalidURL),
        (5, {}, e.ProxyError),
        (6, {}, e.ConnectionError),
        (7, {"sent": False}, e.ConnectionError),
        (8, {}, e.RemoteProtocolError),
        (16, {}, e.ConnectionError),
        (16, {"has_head": True}, e.ChunkedEncodingError),
        (16, {"message": "nghttp2 shuts down connection with error 1"}, e.RemoteProtocolError),
        (18, {}, e.ChunkedEncodingError),
        (18, {"lacks_status_line": True}, e.RemoteProtocolError),
        (28, {"sent": False}, e.ConnectTimeout),
        (28, {"sent": True}, e.ReadTimeout),
        (28, {"sent": True, "deadline_passed": True}, e.DeadlineExceeded),
        (28, {"sent": False, "deadline_passed": True}, e.DeadlineExceeded),
        (35, {"os_errno": 104}, e.ConnectionError),
        (35, {"os_errno": 32}, e.ConnectionError),
        (35, {"message": "TLS connect error: unexpected eof while reading"}, e.ConnectionError),
        (35, {"message": "wrong version number"}, e.SSLError),
        (42, {"aborted_resend": True}, e.ConnectionError),
        (52, {}, e.ConnectionError),
        (55, {}, e.ConnectionError),
        (55, {"has_head": True}, e.ChunkedEncodingError),
        (56, {"has_head": False}, e.ConnectionError),
        (56, {"has_head": True}, e.ChunkedEncodingError),
        (56, {"message": "OpenSSL SSL_read: SSL routines::tlsv13 alert"}, e.SSLError),
        (56, {"message": "Too many response headers, 6000"}, e.RemoteProtocolError),
        (56, {"message": "nghttp2 recv error -904: Flooding"}, e.RemoteProtocolError),
        (58, {}, e.SSLError),
        (60, {}, e.SSLError),
        (61, {}, e.ContentDecodingError),
        (65, {}, e.ConnectionError),
        (77, {}, e.SSLError),
        (90, {}, e.SSLError),
        (92, {}, e.RemoteProtocolError),
        (95, {}, e.RemoteProtocolError),
        (96, {}, e.ConnectionError),
        (97, {}, e.ProxyError),
        (98, {}, e.SSLError),
        (100, {}, e.RemoteProtocolError),
        (2, {}, e.RequestException),
        (27, {}, e.RequestException),
        (43, {}, e.RequestException),
    ],
)
def test_a_code_and_its_facts_make_one_type(
    code: int, facts: dict[str, Any], expected: type[Exception]
) -> None:
    assert type(error_of_code(code, **facts)) is expected


@pytest.mark.parametrize(
    ("code", "facts"),
    [(7, {"sent": False}), (7, {"sent": False, "connect_code": 407}), (56, {"sent": False})],
)
def test_a_failure_before_the_origin_is_the_proxys(code: int, facts: dict[str, Any]) -> None:
    error = error_of_code(code, proxy="http://user:secret@proxy.test:1", **facts)
    assert type(error) is e.ProxyError
    assert "secret" not in str(error)
    assert "407" in str(error) or not facts.get("connect_code")


def test_a_long_url_is_shortened_in_messages() -> None:
    assert len(str(error_of_code(7, "http://example.test/" + "a" * 10_000))) < 500


# --- real failures ---


async def caught(client: AnyClient, url: str, method: str = "GET", **options: Any) -> Any:
    with pytest.raises(e.RequestException) as info:
        await client.request(method, url, **options)
    error: Any = info.value
    assert error.request is not None
    assert error.request.method == method
    assert error.timings is not None
    assert str(error.request.url) in str(error)
    return error


def assert_type(error: Any, expected: type[Exception]) -> None:
    """Compare types without narrowing that of `error`."""
    assert type(error) is expected


async def test_a_name_that_does_not_exist(client: AnyClient) -> None:
    error = await caught(client, "http://nothing.invalid/", timeout=Timeout(connect=5))
    assert_type(error, e.ConnectionError)
    assert (error.curl_code, error.request_sent) == (6, False)
    assert error.timings.peer is None


async def test_a_port_that_refuses(client: AnyClient) -> None:
    with refused_port() as port:
        error = await caught(client, f"http://127.0.0.1:{port}/", "POST", data=b"x")
    assert type(error) is e.ConnectionError
    assert (error.curl_code, error.request_sent) == (7, False)
    assert error.errno == errno.ECONNREFUSED
    assert "refused" in str(error)


@pytest.mark.parametrize(
    ("handler", "expected", "codes"),
    [
        (respond_and_close(b""), e.ConnectionError, {52}),
        pytest.param(respond_and_reset(b""), e.ConnectionError, {55, 56}, marks=needs_reset),
        (respond_and_close(b"HTTP/1.1 200 OK\r\nX"), e.RemoteProtocolError, {0}),
        (respond_and_close(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"), e.RemoteProtocolError, {8}),
        (respond_and_close(b"just text"), e.RemoteProtocolError, {1}),
        (respond_and_close(response(b"abc")[:-1]), e.ChunkedEncodingError, {18}),
        pytest.param(
            respond_and_reset(response(b"abc")[:-1]),
            e.ChunkedEncodingError,
            {56},
            marks=needs_reset,
        ),
        (respond(b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000), e.RemoteProtocolError, {100, 56}),
    ],
)
async def test_a_truncated_response(
    handler: Any, expected: type[Exception], codes: set[int], client: AnyClient
) -> None:
    with RawServer(handler) as server:
        error = await caught(client, server.url)
    assert_type(error, expected)
    assert error.curl_code in codes
    assert error.request_sent
    assert error.timings.peer == ("127.0.0.1", server.port)


@pytest.mark.parametrize("handler", [close_at_once, reset_at_once])
async def test_a_connection_that_closes_before_the_request(handler: Any, client: AnyClient) -> None:
    with RawServer(handler) as server:
        error = await caught(client, server.url)
    assert type(error) is e.ConnectionError


@pytest.mark.parametrize("ending", ["close", "reset"])
async def test_a_cut_handshake_is_no_certificate_problem(ending: str, client: AnyClient) -> None:
    def handler(conn: Any) -> None:
        conn.sock.recv(100)
        getattr(conn, ending)()

    with RawServer(handler) as server:
        error = await caught(client, f"https://127.0.0.1:{server.port}/", "POST", data=b"x")
    assert type(error) is e.ConnectionError
    assert (error.curl_code, error.request_sent) == (35, False)


@pytest.mark.skipif(IS_WINE, reason="wine waits for the rest of what is no TLS")
async def test_a_server_that_does_not_speak_tls(client: AnyClient) -> None:
    def handler(conn: Any) -> None:
        conn.sock.recv(100)
        conn.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with RawServer(handler) as server:
        error = await caught(client, f"https://127.0.0.1:{server.port}/")
    assert type(error) is e.SSLError
    assert (error.curl_code, error.request_sent) == (35, False)


@needs_authorities
async def test_a_certificate_of_an_unknown_authority(
    make_client: MakeClient, tls_app: AppServer
) -> None:
    client = make_client(verify=True)
    error = await caught(client, tls_app.url + "/", "POST", data=b"x")
    assert type(error) is e.SSLError
    assert (error.curl_code, error.request_sent) == (60, False)
    assert "verify=" in str(error)
    assert tls_app.requests == []


@pytest.mark.skipif(not HAS_TLS_1_3, reason="needs TLS 1.3")
async def test_a_tls_version_that_is_too_old(client: AnyClient, certs: Certs) -> None:
    context = certs.server_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    with AppServer(context) as server:
        assert (await client.get(server.url)).status_code == 200


async def test_a_proxy_that_refuses(make_client: MakeClient, app: AppServer) -> None:
    with refused_port() as port:
        client = make_client(proxies=f"http://user:secret@127.0.0.1:{port}")
        error = await caught(client, app.url + "/")
    assert type(error) is e.ProxyError
    assert not error.request_sent
    assert app.requests == []


async def test_a_stream_that_the_server_resets(make_client: MakeClient, h2_app: H2Server) -> None:
    error = await caught(make_client(http2=True), h2_app.url + "/reset")
    assert type(error) is e.RemoteProtocolError
    assert (error.curl_code, error.request_sent) == (92, True)


async def test_a_client_that_was_closed(client: AnyClient, app: AppServer) -> None:
    await client.aclose()
    with pytest.raises(e.ClientClosed):
        await client.get(app.url + "/")
    assert app.connections == 0


async def test_raise_for_status_raises_for_an_error_status(
    client: AnyClient, app: AppServer
) -> None:
    response_ = await client.get(app.url + "/status/404")
    with pytest.raises(e.HTTPError) as info:
        response_.raise_for_status()
    assert vars(info.value)["response"] is response_
    assert info.value.request == response_.request
    assert "404" in str(info.value)


PARENTS: dict[type[Exception], set[type[Exception]]] = {
    e.ConnectionError: {e.ProxyError, e.SSLError, e.ConnectTimeout, e.RemoteProtocolError},
    e.Timeout: {e.ConnectTimeout, e.ReadTimeout, e.PoolTimeout, e.DeadlineExceeded},
    ValueError: {e.InvalidURL, e.MissingSchema, e.InvalidSchema, e.InvalidHeader, e.InvalidMethod},
}


def test_the_tree_is_requests_own() -> None:
    assert issubclass(e.RequestException, OSError)
    for parent, kinds in PARENTS.items():
        for kind in kinds:
            assert issubclass(kind, parent)
    assert issubclass(e.JSONDecodeError, json.JSONDecodeError)
    assert not issubclass(e.ReadTimeout, e.ConnectionError)
    assert not issubclass(e.ChunkedEncodingError, e.ConnectionError)


# --- no credentials ---

SECRET = re.compile("hunter2|sesame|crumbs|dXNlcjpodW50ZXIy", re.IGNORECASE)
CREDENTIALS: dict[str, Any] = {
    "headers": {"Authorization": "Bearer sesame", "Proxy-Authorization": "Basic sesame"},
    "cookies": {"session": "crumbs"},
}


def everything_shown(error: Any) -> Iterator[str]:
    seen: set[int] = set()
    left: list[Any] = [error]
    while left:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield str(one)
        yield repr(one)
        if isinstance(one, BaseException):
            yield repr(one.args)
            left += [one.__cause__, one.__context__]
            for name in ("request", "response", "timings", "filename", "strerror"):
                left.append(getattr(one, name, None))
        for name in ("route", "auth", "timeout", "body", "url", "jar"):
            left.append(getattr(one, name, None))


async def test_no_failure_shows_a_credential(
    make_client: MakeClient, app: AppServer, tls_app: AppServer
) -> None:
    """No message, repr or log shows a secret."""

    def with_user(url: str) -> str:
        return url.replace("://", "://user:hunter2@")

    client = make_client()
    broken = {
        "refused": "http://127.0.0.1:1/",
        "name": "http://nothing.invalid/",
        "cut": app.url + "/truncated",
        "silent": app.url + "/stall",
        "loop": app.url + "/redirect/40",
        "too large": app.url + "/bytes/2000",
        "scheme": "ftp://example.test/",
        "host": "http://exa mple.test/",
        "port": "http://example.test:99999/",
    }
    for name, url in broken.items():
        with pytest.raises(e.RequestException) as info:
            await client.get(
                with_user(url), timeout=Timeout(read=0.05), max_response_size=1500, **CREDENTIALS
            )
        for text in everything_shown(info.value):
            assert not SECRET.search(text), (name, text)
    with pytest.raises(e.SSLError) as refused:
        await make_client(verify=True).get(with_user(tls_app.url), **CREDENTIALS)
    for text in everything_shown(refused.value):
        assert not SECRET.search(text)


async def test_no_error_shows_the_refused_header_value(client: AnyClient) -> None:
    """No message, repr or log shows a secret."""
    for headers in ({"Authorization": "Bearer sesame\n"}, {"Cookie": "a=crumbs\r\n"}):
        with pytest.raises(e.InvalidHeader) as info:
            await client.get("http://127.0.0.1:1/", headers={**headers, "X-A": "b"})
        for text in everything_shown(info.value):
            assert not SECRET.search(text)


async def test_no_failure_shows_a_proxys_password(
    make_client: MakeClient, app: AppServer, tls_app: AppServer
) -> None:
    """No message, repr or log shows a secret."""
    with HTTPProxy(("user", "other")) as proxy, refused_port() as port:
        for address in (proxy.port, port):
            client = make_client(proxies=f"http://user:hunter2@127.0.0.1:{address}")
            with pytest.raises(e.ProxyError) as info:
                await client.get(tls_app.url + "/", **CREDENTIALS)
            for text in everything_shown(info.value):
                assert not SECRET.search(text)
    for bad in ("http://user:hunter2@ho st:1", "ftp://user:hunter2@host", "http://user:hunter2@:x"):
        with pytest.raises(e.InvalidProxyURL) as invalid:
            await make_client(proxies=bad).get(app.url + "/")
        for text in everything_shown(invalid.value):
            assert not SECRET.search(text)


async def test_a_failure_status_shows_no_credential(client: AnyClient, app: AppServer) -> None:
    """No message, repr or log shows a secret."""
    url = app.url.replace("://", "://user:hunter2@") + "/status/401"
    response_ = await client.get(url, **{k: v for k, v in CREDENTIALS.items() if k == "cookies"})
    with pytest.raises(e.HTTPError) as info:
        response_.raise_for_status()
    for text in everything_shown(info.value):
        assert not SECRET.search(text)
    assert not SECRET.search(repr(response_) + repr(client.real) + repr(response_.request))


# --- to other processes ---

TIMINGS = Timings(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, False, ("127.0.0.1", 80))
KINDS = [
    getattr(e, name)
    for name in e.__all__
    if name != "JSONDecodeError" and not name.endswith("Warning")
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_exception_travels_with_its_facts(kind: type[e.RequestException]) -> None:
    request = a_request(headers={"X-A": "b"}, timeout=3)
    error = kind(
        "GET http://example.test/: what happened",
        request=request,
        curl_code=28,
        request_sent=True,
        timings=TIMINGS,
    )
    first = Attempt(1, 503, None, 0.1, 0.2)
    error.attempts = (first, Attempt(2, None, error, 0.1, None))
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind
        assert twin.args == error.args
        assert str(twin) == str(error)
        assert twin.curl_code == 28
        assert twin.request_sent
        assert twin.timings == TIMINGS
        assert twin.attempts == (first, Attempt(2, None, twin, 0.1, None))
        assert twin.request is not None
        assert (twin.request.method, str(twin.request.url)) == ("GET", "http://example.test/path")
        assert twin.request.headers["x-a"] == "b"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_json_error_is_pickled_with_its_position(protocol: int) -> None:
    error = e.JSONDecodeError("no value", '{"a": }', 6, request=a_request(), request_sent=True)
    twin = pickle.loads(pickle.dumps(error, protocol))
    assert type(twin) is e.JSONDecodeError
    assert (twin.msg, twin.doc, twin.pos, twin.lineno, twin.colno) == (
        "no value",
        '{"a": }',
        6,
        1,
        7,
    )
    assert twin.request_sent
    assert str(twin) == str(error)


async def test_real_failures_travel(
    make_client: MakeClient, app: AppServer, h2_app: H2Server
) -> None:
    """Also with a body that cannot: a generator stays behind."""
    client = make_client(http2=True)
    client.real.cookies.set("session", "crumbs", domain="127.0.0.1", path="/")

    def pieces() -> Iterator[bytes]:
        yield b"abc"

    failures: list[tuple[str, str, dict[str, Any]]] = [
        ("GET", "http://127.0.0.1:1/", {}),
        ("GET", app.url + "/stall", {"timeout": 0.05}),
        ("GET", app.url + "/truncated", {}),
        ("POST", app.url + "/stall", {"timeout": 0.05, "content": pieces()}),
        ("POST", h2_app.url + "/reset", {"content": b"abc"}),
        ("GET", app.url + "/redirect/40", {}),
        ("POST", app.url + "/stall", {"timeout": 0.05, "auth": ("user", "hunter2")}),
    ]
    for method, url, options in failures:
        with pytest.raises(e.RequestException) as info:
            await client.request(method, url, **options)
        error = info.value
        twin = pickle.loads(pickle.dumps(error))
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.curl_code == error.curl_code
        assert twin.request_sent == error.request_sent
        assert twin.timings == error.timings
        assert twin.request is not None
        assert str(twin.request.url) == str(error.request.url)
        assert twin.request.method == method


async def test_a_failure_within_a_stream_travels(client: AnyClient, app: AppServer) -> None:
    async with await client.stream("GET", app.url + "/truncated") as stream:
        with pytest.raises(e.ChunkedEncodingError) as info:
            await stream.read()
    twin = pickle.loads(pickle.dumps(info.value))
    assert twin.response is not None
    assert twin.response.status_code == 200
    assert twin.timings == info.value.timings


async def test_a_failing_status_travels(client: AnyClient, app: AppServer) -> None:
    with pytest.raises(e.HTTPError) as info:
        (await client.get(app.url + "/status/503")).raise_for_status()
    twin = pickle.loads(pickle.dumps(info.value))
    assert twin.response.status_code == 503


async def test_a_connect_error_is_pickled(client: AnyClient) -> None:
    with BlackHole() as hole, pytest.raises(e.ConnectTimeout) as info:
        await client.get(hole.url, timeout=0.05)
    assert str(pickle.loads(pickle.dumps(info.value))) == str(info.value)


async def test_a_timeout_error_says_in_which_phase(client: AnyClient) -> None:
    with RawServer(respond_and_stall(b"")) as server, pytest.raises(e.ReadTimeout) as before:
        await client.get(server.url, timeout=(30, paced(0.05)))
    with RawServer(respond_and_stall(response(b"abc")[:-1])) as server:
        with pytest.raises(e.ReadTimeout) as within:
            await client.get(server.url, timeout=(30, paced(0.05)))
    assert "after the request" in str(before.value)
    assert "within the response body" in str(within.value)
