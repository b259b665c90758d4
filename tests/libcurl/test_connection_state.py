"""Only a connection that is known to be clean carries the next request."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp.requests
from curlhttp import exceptions as e
from curlhttp._libcurl.connection_state import OpenConnections, Quarantine, _borrow
from curlhttp._libcurl.handle import Handle
from curlhttp.exceptions import ConnectionError
from tests.servers import AppServer, Certs, H2Server, HTTPProxy
from tests.servers.raw import RawConnection, RawServer, respond, response
from tests.support.colours import AnyClient
from tests.support.downloads import download

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]
Fetch = Callable[[AnyClient, str, Path], Awaitable[bytes]]


# --- APIs: each sends one request and returns the body


async def by_get(client: AnyClient, url: str, folder: Path) -> bytes:
    return bytes((await client.get(url)).content)


async def by_post(client: AnyClient, url: str, folder: Path) -> bytes:
    return bytes((await client.post(url, content=b"pay")).content)


async def by_uploading(client: AnyClient, url: str, folder: Path) -> bytes:
    return bytes((await client.post(url, content=iter([b"pay", b"ment"]))).content)


async def by_streaming(client: AnyClient, url: str, folder: Path) -> bytes:
    async with await client.stream("GET", url) as stream:
        return await stream.read()


async def by_map(client: AnyClient, url: str, folder: Path) -> bytes:
    async with client.map([url]) as results:
        async for result in results:
            if isinstance(result, Exception):
                raise result
            return bytes(result.content)
    raise AssertionError("a map without a result")


async def by_download(client: AnyClient, url: str, folder: Path) -> bytes:
    path = folder / url.rpartition("/")[2]
    await download(client, url, path)
    return path.read_bytes()


APIS: dict[str, Fetch] = {
    "get": by_get,
    "post": by_post,
    "upload": by_uploading,
    "stream": by_streaming,
    "map": by_map,
    "download": by_download,
}


def target_of(head: bytes) -> bytes:
    return head.split(b" ", 2)[1]


class Chatty:
    """Responds to each request with its target, then sends an unsolicited response.

    Args:
        together: both leave in one packet, on TLS in two records of it; else the second one
            when the client has the first.
    """

    def __init__(self, *, together: bool = False) -> None:
        self.together = together
        self.answered = threading.Semaphore(0)
        self.spoken = 0

    def __call__(self, conn: RawConnection) -> None:
        while head := conn.read_request()[0]:
            conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, int(self.together))
            conn.send(response(target_of(head)))
            if not self.together:
                self.answered.acquire(timeout=30)
            conn.send(response(b"of another request"))
            conn.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
            self.spoken += 1
            conn.server.note()

    def goes_on(self, server: RawServer) -> None:
        """Have it send unsolicited bytes, and wait until it has."""
        before = self.spoken
        self.answered.release()
        assert self.together or server.wait_for(lambda: self.spoken > before, 30)


@pytest.fixture(params=["HTTP", "HTTPS"])
def context(request: pytest.FixtureRequest, certs: Certs) -> Any:
    return certs.server_context() if request.param == "HTTPS" else None


@pytest.mark.parametrize("together", [False, True], ids=["later", "together"])
@pytest.mark.parametrize("api", APIS)
async def test_unsolicited_bytes_are_no_response(
    api: str, together: bool, context: Any, client: AnyClient, tmp_path: Path
) -> None:
    """On every connection, whether it lies in the socket or in the buffer of TLS."""
    handler = Chatty(together=together)
    with RawServer(handler, context) as server:
        for number in range(4):
            target = f"/{number}"
            try:
                body = await APIS[api](client, server.url + target, tmp_path)
            except e.RemoteProtocolError:
                # The response was in TLS's buffer, and a request that goes out once was sent.
                assert together
                assert context is not None
                assert api in {"post", "upload"}
            else:
                assert body == target.encode()
            handler.goes_on(server)


@pytest.mark.parametrize("together", [False, True], ids=["later", "together"])
def test_unsolicited_bytes_are_no_response_of_a_session(
    together: bool, context: Any, certs: Certs
) -> None:
    """In the drop-in."""
    handler = Chatty(together=together)
    with RawServer(handler, context) as server, curlhttp.requests.Session() as session:
        session.verify = certs.ca_path
        for number in range(6):
            method = "GET" if together or number % 2 else "POST"
            found = session.request(method, f"{server.url}/{number}", stream=number % 3 == 0)
            assert found.content == b"/%d" % number
            handler.goes_on(server)


async def test_only_the_origin_that_sent_unsolicited_bytes_is_quarantined(
    client: AnyClient, app: AppServer
) -> None:
    handler = Chatty()
    with RawServer(handler) as server:
        for _ in range(4):
            assert (await client.get(server.url)).content == b"/"
            handler.goes_on(server)
            await client.get(app.url + "/bytes/10")
        assert server.connections == 4
        assert app.connections == 1


FRAMED_TWICE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
FRAMED_TWICE += b"2\r\nok\r\n0\r\n\r\n"


@pytest.mark.parametrize("api", APIS)
async def test_a_connection_whose_response_is_framed_twice_is_not_reused(
    api: str, context: Any, client: AnyClient, tmp_path: Path
) -> None:
    """What comes after it may belong to either reading (RFC 9112, section 6.3)."""
    with RawServer(respond(FRAMED_TWICE), context) as server:
        for number in range(3):
            assert await APIS[api](client, f"{server.url}/{number}", tmp_path) == b"ok"
        assert server.connections == 3


def test_a_session_does_not_reuse_a_connection_whose_response_is_framed_twice() -> None:
    """In the drop-in."""
    with RawServer(respond(FRAMED_TWICE)) as server, curlhttp.requests.Session() as session:
        for streams in (False, True, False):
            assert session.get(server.url, stream=streams).content == b"ok"
        assert server.connections == 3


async def test_a_connection_is_known_that_won_against_another_address(
    client: AnyClient, app: AppServer
) -> None:
    """Of ::1, where nothing listens, and 127.0.0.1."""
    for _ in range(3):
        await client.post(app.at("localhost") + "/echo", content=b"pay")
    assert app.connections == 1


# --- proxies


def answers_once(conn: RawConnection) -> None:
    if conn.read_request()[0]:
        conn.send(response(b"ok"))


@pytest.mark.parametrize("credentials", ["", "user:secret@"], ids=["open", "with credentials"])
async def test_a_post_after_a_proxy_closed_an_idle_connection_is_sent_once(
    credentials: str, client: AnyClient
) -> None:
    with RawServer(answers_once) as proxy:
        api = proxy.url.replace("://", "://" + credentials)
        for number in range(4):
            found = await client.post("http://made.up/", content=b"pay", proxies=api)
            assert found.content == b"ok"
            assert proxy.wait_for(lambda: proxy.open_connections == 0)
            assert len(proxy.requests) == number + 1


@pytest.mark.parametrize("api", ["get", "post", "stream"])
async def test_unsolicited_bytes_of_a_proxy_are_no_response(
    api: str, make_client: MakeClient, tmp_path: Path
) -> None:
    """Through a tunnel."""
    handler = Chatty()
    with RawServer(handler) as proxy:
        client = make_client(proxies=proxy.url.replace("://", "://user:secret@"))
        for number in range(4):
            url = f"http://made.up/{number}"
            assert await APIS[api](client, url, tmp_path) == url.encode()
            handler.goes_on(proxy)


async def test_a_connection_through_a_tunnel_is_used_again(
    client: AnyClient, tls_app: AppServer
) -> None:
    with HTTPProxy(("user", "secret")) as proxy:
        api = proxy.url.replace("://", "://user:secret@")
        for _ in range(3):
            await client.post(tls_app.url + "/echo", content=b"pay", proxies=api)
        assert tls_app.connections == 1


# --- a slow reader


@pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])
async def test_a_slowly_read_stream_does_not_close_other_connections(
    client: AnyClient, app: AppServer
) -> None:
    """libcurl does not poll a paused socket; bytes that arrive there are not unsolicited."""
    paused, others = AppServer(), app
    with paused:
        async with await client.stream("GET", paused.url + "/bytes/8000000") as stream:
            pieces = stream.iterate("raw")
            await pieces.__anext__()
            for number in range(30):
                await client.post(others.url + "/echo", content=b"pay")
                await client.get(others.url + "/bytes/10")
                await client.get(paused.url + "/bytes/10")
                if number % 10 == 0:
                    await anyio.sleep(0.05)  # for the server to fill the paused connection
            left = [len(piece) async for piece in pieces]
            assert sum(left) < 8_000_000
        assert others.connections == 1
        assert paused.connections == 2


def test_a_socket_that_is_closed_or_another_is_not_taken_for_the_connection() -> None:
    """libcurl may give up the socket that it opened, and send on a connection that was there."""
    connections = OpenConnections(Quarantine())
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as own:
            with socket.create_connection(server.getsockname()) as other:
                route = ("127.0.0.1", "127.0.0.1", server.getsockname()[1], own.getsockname()[1])
                wrong = [other.fileno()]
                assert connections.add(route, wrong, multiplexes=True, is_tls=True) is None
            assert connections.add(route, wrong, multiplexes=True, is_tls=True) is None
            found = connections.add(route, [own.fileno()], multiplexes=True, is_tls=True)
            assert found is not None
            assert found.descriptor == own.fileno()
            assert connections.by_route.get(route) is found


def test_no_function_in_python_runs_when_a_borrowed_socket_ends() -> None:
    """A signal's handler that raises in a finalizer is ignored: Ctrl-C would be lost."""
    calls: list[str] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        borrowed = _borrow(ours.fileno())
        sys.setprofile(lambda frame, event, arg: calls.append(event))
        del borrowed
        sys.setprofile(None)
        assert "call" not in calls
        theirs.send(b"x")
        assert ours.recv(1) == b"x"


# --- transfers that start over on another connection ---


@pytest.mark.parametrize("streams", [False, True])
async def test_a_transfer_does_not_start_over_for_ever(
    any_client: AnyClient, h2_app: H2Server, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = h2_app.url + "/"
    await any_client.get(url)
    seen = len(h2_app.requests)
    with monkeypatch.context() as patch:
        # As if each connection that is open were found wanting, and no other one were opened.
        patch.setattr(OpenConnections, "check", lambda *_: None)
        found_wanting = property(lambda _: {"a server": 1.0}, lambda *_: None)
        patch.setattr(Quarantine, "until", found_wanting, raising=False)
        patch.setattr(Handle, "avoid_reuse", lambda *_: None)
        with pytest.raises(ConnectionError, match="could be sent") as caught, anyio.fail_after(30):
            await any_client.get(url, stream=streams, timeout=30)
    assert not caught.value.request_sent
    assert len(h2_app.requests) == seen
    assert (await any_client.get(url)).status_code == 200
