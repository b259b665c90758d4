"""The write timeout ends an upload that the server stops reading, and no other."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import curlhttp
from curlhttp import Timeout
from curlhttp import exceptions as e
from tests.servers import H2Server, RawConnection, RawServer, respond, response
from tests.servers.certs import Certs
from tests.support.colours import AnyClient
from tests.support.pace import paced

pytestmark = pytest.mark.anyio

MakeClient = Callable[..., AnyClient]

WRITE = 0.2  # seconds
SIZE = 1 << 24  # more than the system's buffers take
PIECE = b"x" * 65_536


def pieces() -> Iterator[bytes]:
    for _ in range(SIZE // len(PIECE)):
        yield PIECE


async def async_pieces() -> AsyncIterator[bytes]:
    for piece in pieces():
        yield piece


def a_body(kind: str, folder: Path) -> Any:
    if kind == "file":
        path = folder / "body"
        path.write_bytes(b"x" * SIZE)
        return path.open("rb")
    return {"bytes": lambda: b"x" * SIZE, "iterator": pieces, "async": async_pieces}[kind]()


KINDS = pytest.mark.parametrize("kind", ["bytes", "file", "iterator", "async"])


@contextmanager
def server_that_stops_reading(*, chats: bool = False) -> Iterator[RawServer]:
    """Read the head and a part of the body of each request, and no more.

    Args:
        chats: send informational heads all the time, which are no sign that the body is read.
    """
    over = threading.Event()

    def handler(conn: RawConnection) -> None:
        conn.read_head()
        conn.read_exactly(1000)
        while chats and not over.wait(0.02):
            conn.send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        over.wait()

    with RawServer(handler) as server:
        try:
            yield server
        finally:
            over.set()


async def fail_to_upload(client: AnyClient, url: str, **options: Any) -> e.WriteTimeout:
    with pytest.raises(e.WriteTimeout) as caught:
        await client.request("POST", url, **options)
    return caught.value


@KINDS
@pytest.mark.parametrize("streams", [False, True])
async def test_an_upload_ends_when_the_server_stops_reading(
    kind: str, streams: bool, client: AnyClient, tmp_path: Path
) -> None:
    if kind == "async" and client.is_blocking:
        pytest.skip("a blocking client takes no async iterator")
    limit, body = paced(WRITE), a_body(kind, tmp_path)
    start = time.monotonic()
    with server_that_stops_reading() as server:
        timeout = Timeout(write=limit, read=30)
        error = await fail_to_upload(
            client, server.url, content=body, stream=streams, timeout=timeout
        )
    assert time.monotonic() - start >= limit
    assert f"no byte of the body went out for {limit} s" in str(error)
    assert (error.request_sent, error.curl_code) == (True, 28)
    assert isinstance(error, e.Timeout)
    assert not issubclass(type(error), (e.ConnectionError, e.ReadTimeout))
    if kind == "file":
        body.close()


@pytest.mark.parametrize("kind", ["bytes", "iterator"])
@pytest.mark.parametrize("streams", [False, True])
async def test_an_upload_ends_when_its_window_stays_closed(
    kind: str, streams: bool, make_client: MakeClient, certs: Certs, tmp_path: Path
) -> None:
    client, limit = make_client(http2=True), paced(WRITE)
    context = certs.server_context(alpn=("h2",))
    with H2Server(context, window=70_000, reads=False) as server:
        error = await fail_to_upload(
            client,
            f"{server.url}/upload",
            content=a_body(kind, tmp_path),
            stream=streams,
            timeout=Timeout(write=limit, read=30),
        )
    assert error.request_sent


async def test_informational_heads_are_no_sign_that_the_body_is_read(client: AnyClient) -> None:
    with server_that_stops_reading(chats=True) as server:
        timeout = Timeout(write=paced(WRITE), read=30)
        await fail_to_upload(client, server.url, content=b"x" * SIZE, timeout=timeout)


@pytest.mark.parametrize("read", [None, 30.0, WRITE / 4])
async def test_the_read_timeout_starts_when_the_body_is_sent(
    read: float | None, client: AnyClient
) -> None:
    limit = paced(WRITE)
    start = time.monotonic()
    with server_that_stops_reading() as server:
        timeout = Timeout(write=limit, read=read)
        await fail_to_upload(client, server.url, content=b"x" * SIZE, timeout=timeout)
    assert time.monotonic() - start >= limit


async def test_the_read_timeout_applies_once_the_body_is_sent(client: AnyClient) -> None:
    over = threading.Event()

    def handler(conn: RawConnection) -> None:
        conn.read_request()
        over.wait()

    with RawServer(handler) as server:
        with pytest.raises(e.ReadTimeout):
            timeout = Timeout(write=30, read=paced(WRITE))
            await client.post(server.url, content=b"x" * 100_000, timeout=timeout)
        over.set()


@pytest.mark.parametrize("kind", ["bytes", "iterator"])
async def test_an_upload_that_is_slow_but_moves_does_not_end(
    kind: str, client: AnyClient, tmp_path: Path
) -> None:
    limit = paced(0.4)
    over = threading.Event()

    def handler(conn: RawConnection) -> None:
        is_chunked = b"chunked" in conn.read_head().lower()
        for _ in range(10):
            conn.read_exactly(SIZE // 16)
            over.wait(limit / 4)
        # The rest, with the framing of chunks, is read as it comes.
        left, end = SIZE - 10 * (SIZE // 16), b""
        while end != b"0\r\n\r\n" if is_chunked else left > 0:
            piece = conn.take_buffered() or conn.sock.recv(1 << 20)
            if not piece:
                return
            left -= len(piece)
            end = (end + piece)[-5:]
        conn.send(response(b"read"))

    start = time.monotonic()
    with RawServer(handler) as server:
        found = await client.post(
            server.url, content=a_body(kind, tmp_path), timeout=Timeout(write=limit, read=30)
        )
    assert found.content == b"read"
    assert time.monotonic() - start > 2 * limit


async def test_a_body_without_data_for_now_is_awaited(client: AnyClient) -> None:
    limit = paced(WRITE)

    def slowly() -> Iterator[bytes]:
        for _ in range(3):
            time.sleep(1.5 * limit)
            yield PIECE

    async def slowly_async() -> AsyncIterator[bytes]:
        for _ in range(3):
            await anyio.sleep(1.5 * limit)
            yield PIECE

    body = slowly() if client.is_blocking else slowly_async()
    with RawServer(respond(response(b"read"))) as server:
        found = await client.post(
            server.url, content=body, timeout=Timeout(write=limit, read=limit)
        )
    assert found.content == b"read"


async def test_without_it_the_read_timeout_ends_an_upload_that_stalls(client: AnyClient) -> None:
    with server_that_stops_reading() as server, pytest.raises(e.ReadTimeout):
        await client.post(server.url, content=pieces, timeout=paced(WRITE))


async def test_it_ends_the_requests_of_a_map(client: AnyClient) -> None:
    with server_that_stops_reading() as server:
        timeout = Timeout(write=paced(WRITE), read=30)
        requests = [
            client.real.build_request("POST", server.url, content=b"x" * SIZE, timeout=timeout)
            for _ in range(3)
        ]
        found = [result async for result in client.map(requests)]
    assert [type(result) for result in found] == [e.WriteTimeout] * 3


async def test_the_client_is_usable_afterwards(client: AnyClient) -> None:
    with server_that_stops_reading() as server:
        timeout = Timeout(write=paced(WRITE), read=30)
        await fail_to_upload(client, server.url, content=b"x" * SIZE, timeout=timeout)
    with RawServer(respond(response(b"next"))) as server:
        found = await client.post(server.url, content=b"x", timeout=Timeout(write=30))
    assert found.content == b"next"


def test_it_ends_uploads_of_the_drop_in() -> None:
    with server_that_stops_reading() as server, curlhttp.requests.Session() as session:
        timeout = Timeout(write=paced(WRITE), read=30)
        with pytest.raises(curlhttp.requests.exceptions.Timeout) as caught:
            session.post(server.url, data=b"x" * SIZE, timeout=timeout)
    assert isinstance(caught.value, e.WriteTimeout)


def test_a_number_sets_no_write_timeout() -> None:
    for timeout in (5, (3, 30), None):
        assert curlhttp.Client(timeout=timeout).timeout.write is None
    assert Timeout(write=3).write == 3
    with pytest.raises(ValueError, match="the write timeout must be a positive"):
        Timeout(write=0)
