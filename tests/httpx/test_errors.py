"""Failures raise httpx's own errors, with its request, and ours as the cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import curlhttp
from tests.client.test_write_timeouts import server_that_stops_reading
from tests.httpx.clients import AnyHTTPX, Make, transports
from tests.httpx.test_requests import make_pieces
from tests.servers import (
    AppServer,
    BlackHole,
    Certs,
    HTTPProxy,
    RawServer,
    respond_and_close,
    respond_and_reset,
    respond_and_stall,
    stall_at_once,
)
from tests.support.colours import ONE_OF_EACH, WITHOUT_UVLOOP
from tests.support.pace import paced

pytestmark = [pytest.mark.anyio, WITHOUT_UVLOOP]

OK = b"HTTP/1.1 200 OK\r\n"
TEN = OK + b"Content-Length: 10\r\n\r\nabc"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

# What a server does, and the error that httpx's own transport raises for it.
SERVERS: dict[str, tuple[Any, str]] = {
    "says nothing": (stall_at_once, "ReadTimeout"),
    "stalls in the body": (respond_and_stall(TEN), "ReadTimeout"),
    "resets in the body": (respond_and_reset(TEN), "ReadError"),
    "cuts the body": (respond_and_close(TEN), "RemoteProtocolError"),
    "cuts a chunk": (respond_and_close(CHUNKED + b"5\r\nabc"), "RemoteProtocolError"),
    "sends a bad chunk": (respond_and_close(CHUNKED + b"zz\r\nabc\r\n"), "RemoteProtocolError"),
    "cuts the head": (respond_and_close(OK + b"Content-Le"), "RemoteProtocolError"),
    "hangs up": (respond_and_close(b""), "RemoteProtocolError"),
    "resets": (respond_and_reset(b""), "ReadError"),
    "does not speak HTTP": (respond_and_close(b"hello world\r\n\r\n"), "RemoteProtocolError"),
    "sends a bad length": (
        respond_and_close(OK + b"Content-Length: abc\r\n\r\nabc"), "RemoteProtocolError",
    ),
    "sends a bad field": (respond_and_close(OK + b"no colon\r\n\r\n"), "RemoteProtocolError"),
    "sends a head without end": (
        respond_and_close(OK + b"X: " + b"y" * 400_000 + b"\r\n\r\n"), "RemoteProtocolError",
    ),
}  # fmt: skip


async def error_of(library: Any, client: AnyHTTPX, *arguments: Any, **options: Any) -> Any:
    with pytest.raises(library.TransportError) as caught:
        await client.request(*arguments, **options)
    return caught.value


def is_ours(error: Any, name: str) -> bool:
    """Return whether it is the library's error of that very name, made of one of ours."""
    cause = error.__cause__
    return type(error).__name__ == name and isinstance(cause, curlhttp.RequestException)


@pytest.mark.parametrize("name", SERVERS)
async def test_a_failing_server_raises_the_errors_of_httpxs_own_transport(
    library: Any, make_httpx: Make, name: str
) -> None:
    handler, expected = SERVERS[name]
    timeout = library.Timeout(30, read=paced(0.5) if expected == "ReadTimeout" else 30)
    with RawServer(handler) as server:
        error = await error_of(library, make_httpx(timeout=timeout), "GET", f"{server.url}/?key=1")
        theirs = await error_of(library, make_httpx(own=True, timeout=timeout), "GET", server.url)
    assert is_ours(error, expected)
    assert type(theirs) is type(error)
    assert error.request.url == f"{server.url}/?key=1"
    assert "GET http://127.0.0.1" in str(error)


async def test_a_refused_connection_is_a_connect_error(
    library: Any, httpx_client: AnyHTTPX, refused: int
) -> None:
    error = await error_of(library, httpx_client, "GET", f"http://127.0.0.1:{refused}/")
    assert is_ours(error, "ConnectError")


async def test_a_host_that_is_silent_is_a_connect_timeout(library: Any, make_httpx: Make) -> None:
    client = make_httpx(timeout=library.Timeout(30, connect=paced(0.2)))
    with BlackHole() as hole:
        error = await error_of(library, client, "GET", f"http://127.0.0.1:{hole.port}/")
    assert is_ours(error, "ConnectTimeout")


async def test_a_full_pool_is_a_pool_timeout(
    library: Any, app: AppServer, make_httpx: Make
) -> None:
    limits = library.Limits(max_connections=1)
    timeout = library.Timeout(30, pool=paced(0.1))
    client = make_httpx(transport={"limits": limits}, timeout=timeout)
    async with client.stream("GET", app.url):
        error = await error_of(library, client, "GET", app.url)
    assert is_ours(error, "PoolTimeout")
    assert (await client.get(app.url)).status_code == 200


async def test_a_server_that_reads_nothing_is_a_write_timeout(
    library: Any, make_httpx: Make
) -> None:
    client = make_httpx(timeout=library.Timeout(30, write=paced(0.3)))
    with server_that_stops_reading() as server:
        body = bytes(16 << 20)
        error = await error_of(library, client, "PUT", server.url, content=body)
        assert is_ours(error, "WriteTimeout")
        content = make_pieces(client.is_blocking, [body])
        error = await error_of(library, client, "PUT", server.url, content=content)
    assert is_ours(error, "WriteTimeout")


@ONE_OF_EACH
async def test_a_timeout_of_no_time_at_all_is_a_short_one(library: Any, make_httpx: Make) -> None:
    client = make_httpx(timeout=library.Timeout(30, read=0))
    with RawServer(stall_at_once) as server:
        assert is_ours(await error_of(library, client, "GET", server.url), "ReadTimeout")


@ONE_OF_EACH
async def test_a_certificate_that_is_not_trusted_is_a_connect_error(
    library: Any, tls_app: AppServer, httpx_client: AnyHTTPX
) -> None:
    error = await error_of(library, httpx_client, "GET", tls_app.url)
    assert is_ours(error, "ConnectError")
    assert isinstance(error.__cause__, curlhttp.SSLError)
    # Words that programs look for, as there.
    assert "certificate verify failed: unable to get local issuer certificate" in str(error)


@ONE_OF_EACH
async def test_a_certificate_of_another_host_is_a_connect_error(
    library: Any, make_httpx: Make, certs: Certs
) -> None:
    client = make_httpx(transport={"verify": str(certs.ca_path)})
    with RawServer(respond_and_close(b""), certs.wrong_host_context()) as server:
        error = await error_of(library, client, "GET", server.url)
    assert is_ours(error, "ConnectError")
    assert "certificate verify failed: Hostname mismatch" in str(error)


@ONE_OF_EACH
async def test_a_proxys_refusal_is_a_proxy_error(library: Any, make_httpx: Make) -> None:
    with HTTPProxy(("me", "secret")) as proxy:
        client = make_httpx(transport={"proxy": f"http://you:wrong@127.0.0.1:{proxy.port}"})
        error = await error_of(library, client, "GET", "https://api.example.org/")
    assert is_ours(error, "ProxyError")
    assert "407" in str(error)
    assert "wrong" not in str(error)


@ONE_OF_EACH
async def test_an_unreachable_proxy_is_a_connect_error(
    library: Any, make_httpx: Make, refused: int
) -> None:
    client = make_httpx(transport={"proxy": f"http://127.0.0.1:{refused}"})
    assert is_ours(await error_of(library, client, "GET", "http://a.test/"), "ConnectError")


@ONE_OF_EACH
@pytest.mark.parametrize("url", ["ftp://a.test/", "/relative", "http:///nowhere"])
async def test_another_protocol_is_unsupported(
    library: Any, make_httpx: Make, httpx_client: AnyHTTPX, url: str
) -> None:
    error = await error_of(library, httpx_client, "GET", url)
    theirs = await error_of(library, make_httpx(own=True), "GET", url)
    assert is_ours(error, "UnsupportedProtocol")
    assert str(error) == str(theirs)


UNFIT: dict[str, tuple[str, dict[str, Any]]] = {
    "a line end in a header": ("GET", {"headers": {"X-A": "1\r\nX-B: 2"}}),
    "a blank in a name": ("GET", {"headers": {"X A": "1"}}),
    "a blank in a method": ("G T", {}),
    "a length that is none": ("POST", {"headers": {"Content-Length": "x"}, "content": "pieces"}),
    "a body that is too short": ("POST", {"headers": {"Content-Length": "9"}, "content": "pieces"}),
    "a body that is too long": ("POST", {"headers": {"Content-Length": "2"}, "content": "pieces"}),
    "a body of HEAD": ("HEAD", {"content": b"abc"}),
    "a blank in a target": ("GET", {"extensions": {"target": b"/a b"}}),
    "a line end in a target": ("GET", {"extensions": {"target": b"/ HTTP/1.1\r\nX-B: 2"}}),
}


@pytest.mark.parametrize("name", UNFIT)
async def test_an_invalid_request_is_a_local_protocol_error(
    library: Any, app: AppServer, httpx_client: AnyHTTPX, name: str
) -> None:
    method, given = UNFIT[name]
    options = dict(given)
    if options.get("content") == "pieces":
        options["content"] = make_pieces(httpx_client.is_blocking, [b"abc"])
    error = await error_of(library, httpx_client, method, f"{app.url}/echo", **options)
    assert is_ours(error, "LocalProtocolError")
    assert error.request.method == method
    if hasattr(options.get("content"), "aclose"):
        await options["content"].aclose()  # trio warns of one that was not read to its end


async def test_an_exception_of_a_body_is_raised(app: AppServer, httpx_client: AnyHTTPX) -> None:
    def fails() -> Iterator[bytes]:
        yield b"abc"
        raise ZeroDivisionError("the body's own")

    async def fails_async() -> Any:
        for piece in fails():
            yield piece

    content = fails() if httpx_client.is_blocking else fails_async()
    with pytest.raises(ZeroDivisionError, match="the body's own"):
        await httpx_client.post(f"{app.url}/echo", content=content)
    assert (await httpx_client.get(app.url)).content == b"hello"


@ONE_OF_EACH
async def test_no_message_shows_the_credentials_of_a_url(
    library: Any, httpx_client: AnyHTTPX, refused: int
) -> None:
    url = f"http://me:hidden@127.0.0.1:{refused}/?token=hidden"
    error = await error_of(library, httpx_client, "GET", url)
    assert "hidden" not in str(error)
    assert "hidden" not in repr(error.__cause__)


# --- trying again to connect ---


async def test_retries_are_of_connecting(library: Any, make_httpx: Make, refused: int) -> None:
    client = make_httpx(transport={"retries": 3})
    url = f"http://127.0.0.1:{refused}/"
    with curlhttp.testing.mock() as network:
        route = network.post(url).raises(curlhttp.testing.refused())
        error = await error_of(library, client, "POST", url, content=b"abc")
        assert is_ours(error, "ConnectError")
        assert (route.call_count, network.sleeps) == (4, [0.0, 0.5, 1.0])
    content = make_pieces(client.is_blocking, [b"abc"])
    error = await error_of(library, client, "POST", url, content=content)
    assert is_ours(error, "ConnectError")
    with RawServer(respond_and_close(b"")) as server:
        error = await error_of(library, client, "GET", server.url)
        assert is_ours(error, "RemoteProtocolError")
        assert len(server.requests) == 1


async def test_a_negative_number_of_retries_means_none(library: Any, make_httpx: Make) -> None:
    client = make_httpx(transport={"retries": -1})
    with curlhttp.testing.mock() as network:
        route = network.get("http://a.test/").raises(curlhttp.testing.refused())
        error = await error_of(library, client, "GET", "http://a.test/")
    assert is_ours(error, "ConnectError")
    assert (route.call_count, network.sleeps) == (1, [])


# --- of the code itself ---


def test_every_error_of_ours_has_a_name_in_both_libraries(library: Any) -> None:
    kinds = [
        kind
        for kind in vars(curlhttp.exceptions).values()
        if isinstance(kind, type) and issubclass(kind, curlhttp.RequestException)
    ]
    assert len(kinds) > 30
    for kind in kinds:
        made: Callable[..., Any] = kind
        arguments = ("what", "doc", 0) if issubclass(kind, curlhttp.JSONDecodeError) else ("what",)
        for code in (None, 5, 7, 52, 55, 56, 92):
            with curlhttp.testing.mock() as network:
                network.get("http://a.test/").raises(made(*arguments, curl_code=code))
                with library.Client(transport=transports(library).Transport()) as client:
                    with pytest.raises(library.TransportError) as caught:
                        client.get("http://a.test/")
            assert caught.value.request.url == "http://a.test/"
