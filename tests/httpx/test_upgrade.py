"""Requests for another protocol: the connection after a 101, and refusals."""

from __future__ import annotations

import gc
import importlib
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp.testing import mock
from tests.httpx.clients import AnyHTTPX, Make
from tests.servers import (
    Certs,
    HTTPProxy,
    RawConnection,
    RawServer,
    SOCKSProxy,
    respond_and_close,
    response,
)
from tests.support.colours import WITHOUT_UVLOOP

pytestmark = pytest.mark.anyio

HEADERS = {"Connection": "Upgrade", "Upgrade": "shout"}
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: shout\r\nX-Who: server\r\n\r\n"


def shouting(conn: RawConnection) -> None:
    """Agree to the protocol, and say all that comes in upper case."""
    conn.read_request()
    conn.send(SWITCHED + b"WELCOME")
    while data := conn.take_buffered() or conn.sock.recv(65536):
        conn.send(data.upper())


@pytest.fixture
def shout() -> Iterator[RawServer]:
    with RawServer(shouting) as server:
        yield server


class Wire:
    """The network stream of a response, with async methods for any colour.

    Attributes:
        real: the stream.
        errors: the module whose errors it raises.
    """

    def __init__(self, response: Any, library: Any) -> None:
        self.real = response.extensions["network_stream"]
        self.errors: Any = importlib.import_module(library.__name__.replace("httpx", "httpcore"))

    async def read(self, *arguments: Any) -> bytes:
        data: bytes = await _done(self.real.read(*arguments))
        return data

    async def write(self, *arguments: Any) -> None:
        await _done(self.real.write(*arguments))

    async def close(self) -> None:
        await _done(self.real.aclose() if hasattr(self.real, "aclose") else self.real.close())

    async def says(self, text: bytes) -> None:
        """Check that the server echoes in upper case."""
        await self.write(text)
        said = b""
        while len(said) < len(text):
            said += await self.read(65536, 30)
        assert said == text.upper()


async def _done(result: Any) -> Any:
    return await result if inspect.isawaitable(result) else result


async def test_the_connection_of_a_101_is_read_and_written(
    library: Any, shout: RawServer, httpx_client: AnyHTTPX
) -> None:
    async with httpx_client.stream("GET", f"{shout.url}/a?b", headers=HEADERS) as response:
        assert response.status_code == 101
        assert response.headers["x-who"] == "server"
        assert response.extensions["http_version"] == b"HTTP/1.1"
        assert response.extensions["reason_phrase"] == b"Switching Protocols"
        wire = Wire(response, library)
        assert await wire.read(3) == b"WEL"  # it came with the head
        assert await wire.read(99, 30) == b"COME"
        await wire.says(b"a")
        await wire.says(b"b" * 50_000)
        assert wire.real.get_extra_info("server_addr") == ("127.0.0.1", shout.port)
    assert shout.requests[0].startswith(b"GET /a?b HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"\r\nUpgrade: shout\r\n" in shout.requests[0]
    # The end of the response is that of the connection.
    assert await anyio.to_thread.run_sync(shout.wait_for, lambda: not shout.open_connections)


async def test_the_connection_of_a_tunnel_is_read_and_written(
    library: Any, httpx_client: AnyHTTPX
) -> None:
    def tunnel(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 200 Connection established\r\nContent-Length: 9\r\n\r\n")
        while data := conn.take_buffered() or conn.sock.recv(65536):
            conn.send(data.upper())

    options: Any = {"extensions": {"target": b"a.test:80"}}
    with RawServer(tunnel) as server:
        async with httpx_client.stream("CONNECT", server.url, **options) as found:
            assert found.status_code == 200
            await Wire(found, library).says(b"through")
        assert server.requests[0].startswith(b"CONNECT a.test:80 HTTP/1.1\r\n")
    with RawServer(respond_and_close(response(b"no", "403 Forbidden"))) as server:
        found = await httpx_client.request("CONNECT", server.url, **options)
        assert (found.status_code, found.content) == (403, b"no")


async def test_a_head_and_its_body_may_arrive_separately(
    library: Any, httpx_client: AnyHTTPX
) -> None:
    def slowly(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(b"HTTP/1.1 102 Processing\r\n\r\n" + SWITCHED[:40])
        conn.send(SWITCHED[40:])
        go_on.wait(30)
        conn.send(b"late")

    go_on = threading.Event()
    with RawServer(slowly) as server:
        async with httpx_client.stream("GET", server.url, headers=HEADERS) as response:
            wire = Wire(response, library)
            with pytest.raises(wire.errors.ReadTimeout):
                await wire.read(9, 0.01)
            go_on.set()
            assert await wire.read(9, 30) == b"late"
            assert await wire.read(9, 30) == b""


@pytest.mark.parametrize("kind", ["http", "socks5"])
@pytest.mark.parametrize("is_tls", [False, True])
async def test_an_upgrade_works_through_tls_and_proxies(
    library: Any, make_httpx: Make, certs: Certs, kind: str, *, is_tls: bool
) -> None:
    proxies: HTTPProxy | SOCKSProxy = HTTPProxy() if kind == "http" else SOCKSProxy()
    with RawServer(shouting, certs.server_context() if is_tls else None) as server:
        with proxies as proxy:
            settings = {
                "proxy": f"{kind}://127.0.0.1:{proxy.port}",
                "verify": str(certs.ca_path),
                "http2": True,
            }
            client = make_httpx(transport=settings)
            async with client.stream("GET", server.url, headers=HEADERS) as response:
                wire = Wire(response, library)
                assert await wire.read(99, 30) == b"WELCOME"
                await wire.says(b"through")
            assert proxy.connections == 1


async def test_a_connection_that_was_closed_is_an_error_of_the_core(
    library: Any, shout: RawServer, httpx_client: AnyHTTPX
) -> None:
    async with httpx_client.stream("GET", shout.url, headers=HEADERS) as response:
        wire = Wire(response, library)
        await wire.read(99, 30)
        await wire.close()
        await wire.close()
        with pytest.raises(wire.errors.ReadError):
            await wire.read(1, 30)
        with pytest.raises(wire.errors.WriteError):
            await wire.write(b"x", 30)


async def test_a_server_that_reads_nothing_is_a_write_timeout_of_the_core(
    library: Any, httpx_client: AnyHTTPX
) -> None:
    def switch_and_stall(conn: RawConnection) -> None:
        conn.read_request()
        conn.send(SWITCHED)
        goes.wait(30)

    goes = threading.Event()
    with RawServer(switch_and_stall) as server:
        async with httpx_client.stream("GET", server.url, headers=HEADERS) as response:
            wire = Wire(response, library)
            with pytest.raises(wire.errors.WriteTimeout):
                await wire.write(bytes(50_000_000), 0.01)
        goes.set()


@pytest.mark.colours("asyncio", "trio")
async def test_a_cancelled_read_loses_nothing(
    library: Any, shout: RawServer, httpx_client: AnyHTTPX
) -> None:
    async with httpx_client.stream("GET", shout.url, headers=HEADERS) as response:
        wire = Wire(response, library)
        assert await wire.read(99) == b"WELCOME"
        with anyio.move_on_after(0.01) as scope:
            await wire.read(99)
        assert scope.cancelled_caught
        await wire.says(b"still here")


@pytest.mark.colours("blocking")
async def test_one_thread_reads_while_another_writes_and_closes(
    library: Any, shout: RawServer, httpx_client: AnyHTTPX
) -> None:
    with httpx_client.real.stream("GET", shout.url, headers=HEADERS) as response:
        wire = response.extensions["network_stream"]
        assert wire.read(99) == b"WELCOME"
        received: list[bytes] = []
        has_heard = threading.Event()

        def read() -> None:
            received.append(wire.read(99))
            has_heard.set()
            with pytest.raises(Wire(response, library).errors.ReadError):
                received.append(wire.read(99))

        thread = threading.Thread(target=read)
        thread.start()
        wire.write(b"x")
        assert has_heard.wait(30)
        wire.close()
        thread.join(30)
        assert received == [b"X"]


@pytest.mark.parametrize(
    "refusal",
    [
        response(b"no" * 100_000, "403 Forbidden"),
        b"HTTP/1.1 403 Forbidden\r\n\r\n" + b"no" * 100_000,
        b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"4e20\r\n%b\r\n" % (b"no" * 10_000) * 10
        + b"0\r\n\r\n",
    ],
    ids=["length", "end", "chunks"],
)
async def test_a_refusal_is_a_response_with_its_body(
    httpx_client: AnyHTTPX, refusal: bytes
) -> None:
    with RawServer(respond_and_close(refusal)) as server:
        response = await httpx_client.get(server.url, headers=HEADERS)
        assert (response.status_code, response.content) == (403, b"no" * 100_000)
        with pytest.raises(NotImplementedError):
            response.extensions["network_stream"].read(1)
        assert server.connections == 1


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"HTTP/1.1 40",
        b"HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\nno",
        b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nno",
    ],
)
async def test_a_truncated_response_is_an_error(
    library: Any, httpx_client: AnyHTTPX, response: bytes
) -> None:
    with RawServer(respond_and_close(response)) as server:
        with pytest.raises(library.RemoteProtocolError) as caught:
            await httpx_client.get(server.url, headers=HEADERS)
        assert caught.value.request.url == library.URL(server.url)


@WITHOUT_UVLOOP
async def test_a_silent_server_is_a_read_timeout(library: Any, httpx_client: AnyHTTPX) -> None:
    half = b"HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\nno"
    for said in (b"", half):

        def stall(conn: RawConnection, said: bytes = said) -> None:
            conn.read_request()
            conn.send(said)
            conn.stall()

        with RawServer(stall) as server:
            with pytest.raises(library.ReadTimeout):
                await httpx_client.get(server.url, headers=HEADERS, timeout=0.05)


def _line_ends(conn: RawConnection) -> None:
    conn.send(b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n")
    with suppress(OSError):
        while True:
            conn.send(b"\r\n" * 1000)


def _endless_size(conn: RawConnection) -> None:
    conn.send(b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n")
    with suppress(OSError):
        while True:
            conn.send(b"0" * 1000)


@pytest.mark.parametrize("endless", [_line_ends, _endless_size])
async def test_a_refusal_with_missing_chunks_is_an_error(
    httpx_client: AnyHTTPX, library: Any, endless: Callable[[RawConnection], None]
) -> None:
    def refuse(conn: RawConnection) -> None:
        conn.read_request()
        endless(conn)

    with RawServer(refuse) as server, anyio.fail_after(30):
        with pytest.raises(library.RemoteProtocolError, match="not in chunks"):
            await httpx_client.get(server.url, headers=HEADERS)


async def test_a_refused_connection_is_tried_again(
    library: Any, make_httpx: Make, refused: int
) -> None:
    client = make_httpx(transport={"retries": 1})
    with mock(real_time=False) as network:
        network.allow("127.0.0.1")
        with pytest.raises(library.ConnectError):
            await client.get(f"http://127.0.0.1:{refused}/", headers=HEADERS)
    assert network.sleeps == [0.0]


async def test_a_guard_is_called(library: Any, shout: RawServer, make_httpx: Make) -> None:
    client = make_httpx(transport={"guard": curlhttp.PublicOnly()})
    with pytest.raises(library.ConnectError):
        await client.get(shout.url, headers=HEADERS)
    assert shout.connections == 0


async def test_upgrades_count_among_connections(
    library: Any, shout: RawServer, make_httpx: Make
) -> None:
    client = make_httpx(transport={"limits": library.Limits(max_connections=1)})
    timeout = library.Timeout(30, pool=0.01)
    async with client.stream("GET", shout.url, headers=HEADERS):
        with pytest.raises(library.PoolTimeout):
            await client.get(shout.url, headers=HEADERS, timeout=timeout)
    async with client.stream("GET", shout.url, headers=HEADERS, timeout=timeout) as response:
        assert response.status_code == 101


async def test_events_are_reported(shout: RawServer, httpx_client: AnyHTTPX) -> None:
    names: list[str] = []

    def trace(name: str, facts: dict[str, Any]) -> None:
        names.append(name)

    async def trace_async(name: str, facts: dict[str, Any]) -> None:
        names.append(name)

    function = trace if httpx_client.is_blocking else trace_async
    options: Any = {"headers": HEADERS, "extensions": {"trace": function}}
    async with httpx_client.stream("GET", shout.url, **options):
        pass
    assert names[0] == "connection.connect_tcp.started"
    assert names[-1] == "http11.response_closed.complete"


async def test_a_response_that_is_never_closed_leaves_nothing(
    library: Any, shout: RawServer, httpx_client: AnyHTTPX
) -> None:
    request = library.Request("GET", shout.url, headers=HEADERS)
    transport = httpx_client.transport
    if httpx_client.is_blocking:
        response = transport.handle_request(request)
    else:
        response = await transport.handle_async_request(request)
    wire = Wire(response, library)
    del response
    gc.collect()
    assert await wire.read(99, 30) == b"WELCOME"  # the stream is good without it
    del wire
    gc.collect()
    await anyio.lowlevel.checkpoint()
    assert await anyio.to_thread.run_sync(shout.wait_for, lambda: not shout.open_connections)


async def test_a_body_is_sent_with_the_request_as_usual(
    httpx_client: AnyHTTPX,
) -> None:
    with RawServer(respond_and_close(response(b"ok"))) as server:
        found = await httpx_client.post(server.url, headers=HEADERS, content=b"body")
        assert found.content == b"ok"
        assert server.requests[0].endswith(b"\r\n\r\nbody")
        assert b"\r\nUpgrade: shout\r\n" in server.requests[0]


async def test_a_large_body_may_be_refused_unread(httpx_client: AnyHTTPX) -> None:
    def serve(conn: RawConnection) -> None:
        conn.sock.recv(1000)
        conn.send(response(b"no", "413 Content Too Large"))
        conn.stall()

    with RawServer(serve) as server:
        options: Any = {"headers": HEADERS, "content": b"x" * 20_000_000, "timeout": 30}
        found = await httpx_client.post(server.url, **options)
        assert (found.status_code, found.content) == (413, b"no")
