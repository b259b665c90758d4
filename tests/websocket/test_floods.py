"""A server that sends for ever: memory, waits and the close of a WebSocket stay bounded."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from curlhttp.exceptions import ReadTimeout, WebSocketClosed, WebSocketRefused
from tests.servers import Certs, RawConnection, RawServer, respond_and_close, response
from tests.servers.websocket import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    close_frame,
    echo,
    frame,
    read_frame,
    speaking,
)
from tests.support.colours import AnyClient
from tests.support.forced import force
from tests.support.internals import add_received, count_buffered
from tests.support.pace import paced

pytest.importorskip("websockets", reason="the extra ws is not installed")
pytestmark = pytest.mark.anyio

Make = Callable[..., AnyClient]

NEVER = 30.0
KIB = 1024
FLOODS = {
    "pings": (b"", frame(PING, b"are you there?")),
    "empty pings": (b"", frame(PING)),
    "pongs": (b"", frame(PONG)),
    "messages": (b"", frame(BINARY, bytes(5000))),
    "empty messages": (b"", frame(TEXT)),
    "pings amid a message": (frame(TEXT, b"begun", fin=False), frame(PING)),
    "bytes after the end": (close_frame(1000), bytes(1000)),
}
WITHOUT_MESSAGES = ["pings", "empty pings", "pongs", "pings amid a message"]


def slow(value: object) -> Any:  # Any: pytest does not tell the type
    return pytest.param(value, marks=pytest.mark.slow)


def flooding(kind: str) -> Callable[[RawConnection], None]:
    """Return what sends without end, and reads nothing."""
    first, again = FLOODS[kind]

    def talk(conn: RawConnection) -> None:
        conn.send(first)
        many = again * (64 * KIB // len(again))
        while True:
            conn.send(many)

    return talk


def url_of(server: RawServer) -> str:
    return server.url.replace("http", "ws", 1)


@pytest.mark.parametrize("kind", FLOODS)
@pytest.mark.parametrize("is_tls", [False, slow(True)])
async def test_close_ends_in_its_time(
    client: AnyClient, certs: Certs, kind: str, is_tls: bool
) -> None:
    context = certs.server_context() if is_tls else None
    with RawServer(speaking(flooding(kind)), context) as server, anyio.fail_after(NEVER):
        ws = await client.websocket(url_of(server), close_timeout=paced(0.05))
        await ws.close()
        assert ws.real.close_code is not None


@pytest.mark.parametrize(
    "kind", [WITHOUT_MESSAGES[0], *(slow(kind) for kind in WITHOUT_MESSAGES[1:])]
)
async def test_recv_ends_in_its_time(client: AnyClient, kind: str) -> None:
    with RawServer(speaking(flooding(kind))) as server, anyio.fail_after(NEVER):
        ws = await client.websocket(url_of(server), close_timeout=paced(0.05))
        for seconds in (0, paced(0.05)):
            with pytest.raises(ReadTimeout):
                await ws.recv(seconds)
        await ws.close()


async def test_recv_leaves_what_it_has_no_time_for_to_the_next_one(
    client: AnyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    force(monkeypatch, "seconds of a turn of recv", 0.0)
    with RawServer(speaking(echo)) as server, anyio.fail_after(NEVER):
        ws = await client.websocket(url_of(server), close_timeout=paced(0.05))
        arrived = frame(PING) * 20_000 + frame(TEXT, b"after the pings")
        add_received(ws.real, arrived)
        with pytest.raises(ReadTimeout):
            await ws.recv(0)
        assert await ws.recv(None) == "after the pings"
        await ws.close()


async def test_recv_does_not_wait_for_data_after_the_close(client: AnyClient) -> None:
    talk = flooding("bytes after the end")
    with RawServer(speaking(talk)) as server, anyio.fail_after(NEVER):
        ws = await client.websocket(url_of(server), close_timeout=paced(0.05))
        with pytest.raises(WebSocketClosed) as caught:
            await ws.recv(None)
        assert caught.value.code == 1000


@pytest.mark.parametrize(("opcode", "most"), [(TEXT, None), (BINARY, 2**20)])
async def test_pieces_without_data_have_a_bound(
    client: AnyClient, opcode: int, most: int | None
) -> None:
    def talk(conn: RawConnection) -> None:
        conn.send(frame(opcode, b"begun", fin=False))
        while True:
            conn.send(frame(CONT, fin=False) * 1000)

    with RawServer(speaking(talk)) as server, anyio.fail_after(NEVER):
        ws = await client.websocket(url_of(server), max_size=most, close_timeout=paced(0.05))
        with pytest.raises(WebSocketClosed, match="without data") as caught:
            await ws.recv(None)
        assert caught.value.code == 1008


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
async def test_a_message_of_many_small_pieces_is_put_together(
    client: AnyClient, opcode: int
) -> None:
    count = 20_000

    def talk(conn: RawConnection) -> None:
        conn.send(frame(opcode, b"<", fin=False) + frame(CONT, b"ab", fin=False) * count)
        conn.send(frame(CONT, b">"))
        echo(conn)

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            expected = "<" + "ab" * count + ">"
            assert await ws.recv() == (expected if opcode == TEXT else expected.encode())


@pytest.mark.parametrize(
    "kind",
    [
        *("pings", "messages", "pings amid a message"),
        *(slow(kind) for kind in ("empty pings", "pongs", "empty messages")),
    ],
)
async def test_without_recv_little_is_buffered_and_others_are_not_blocked(
    client: AnyClient, kind: str
) -> None:
    with RawServer(speaking(flooding(kind))) as server, anyio.fail_after(NEVER):
        url, limit = url_of(server), paced(0.05)
        ws = await client.websocket(url, ping_interval=limit / 5, close_timeout=limit)
        for _ in range(20):
            await anyio.sleep(limit / 20)
            assert count_buffered(ws.real) < 2048 * KIB
        await ws.close()


@pytest.mark.parametrize("kind", ["one frame", "many pieces"])
async def test_an_unbounded_message_is_not_read_ahead_without_recv(
    client: AnyClient, kind: str
) -> None:
    size = 64 << 20
    head = (
        frame(BINARY, fin=False) if kind == "many pieces" else b"\x82\x7f" + size.to_bytes(8, "big")
    )
    piece = frame(CONT, bytes(KIB), fin=False) if kind == "many pieces" else bytes(KIB)
    blocked = threading.Event()

    def talk(conn: RawConnection) -> None:
        conn.send(head)
        conn.sock.settimeout(0.2)
        try:
            for _ in range(size // KIB):
                conn.send(piece)
        except TimeoutError:
            blocked.set()

    with RawServer(speaking(talk)) as server, anyio.fail_after(NEVER):
        ws = await client.websocket(
            url_of(server), max_size=None, ping_interval=0.02, close_timeout=paced(0.05)
        )
        assert await anyio.to_thread.run_sync(blocked.wait, NEVER)
        await ws.close()


# --- pongs ---


def little_buffered(conn: RawConnection) -> None:
    conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * KIB)


async def test_each_ping_of_a_server_that_reads_gets_a_pong(client: AnyClient) -> None:
    data = [b"%d" % number for number in range(100)]

    def talk(conn: RawConnection) -> None:
        conn.send(b"".join(frame(PING, each) for each in data))
        assert [read_frame(conn) for _ in data] == [(PONG, each) for each in data]
        conn.send(frame(TEXT, b"all"))
        echo(conn)

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            assert await ws.recv() == "all"


# --- what a server says about the end ---


async def closed_with(client: AnyClient, reason: str) -> WebSocketClosed:
    """Return the error of a WebSocket that its server closed for a reason."""

    def talk(conn: RawConnection) -> None:
        conn.send(close_frame(4000, reason))
        assert read_frame(conn)[0] == CLOSE

    with RawServer(speaking(talk)) as server:
        ws = await client.websocket(url_of(server))
        with pytest.raises(WebSocketClosed) as caught:
            await ws.recv()
    return caught.value


async def test_a_reason_to_close_cannot_write_to_a_terminal(client: AnyClient) -> None:
    reason = "\x1b]0;owned\x07\x9b2J\r\nforged \u202e"
    error = await closed_with(client, reason)
    assert str(error).isprintable()
    assert "owned" in str(error)
    assert error.reason == reason


async def test_a_close_reason_is_shown_without_secrets(client: AnyClient) -> None:
    reason = "see https://me:sesame@h.test/?token=sesame and go"
    error = await closed_with(client, reason)
    assert "sesame" not in str(error)
    assert "and go" in str(error)
    assert error.reason == reason


async def test_a_refusal_cannot_write_to_a_terminal(client: AnyClient) -> None:
    found = response(b"", "403 \x1b]0;owned\x07 no")
    with RawServer(respond_and_close(found)) as server:
        with pytest.raises(WebSocketRefused) as caught:
            await client.websocket(url_of(server))
    assert str(caught.value).isprintable()
