"""Pongs of the user's pings, and messages that are JSON."""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.to_thread
import pytest

import curlhttp
from curlhttp.exceptions import (
    InvalidJSONError,
    JSONDecodeError,
    JSONTypeError,
    ReadTimeout,
    WebSocketClosed,
)
from tests.servers import RawConnection, RawServer
from tests.servers.websocket import (
    BINARY,
    CLOSE,
    PING,
    PONG,
    TEXT,
    close_frame,
    echo,
    frame,
    read_frame,
    speaking,
)
from tests.support.colours import ONE_OF_EACH, AnyClient
from tests.support.internals import count_pings
from tests.support.pace import paced

pytest.importorskip("websockets", reason="the extra ws is not installed")
pytestmark = pytest.mark.anyio

Make = Callable[..., AnyClient]


def url_of(server: RawServer) -> str:
    return server.url.replace("http", "ws", 1) + "/"


class Line:
    """A server that does what a test says: it sends, and keeps the frames it gets.

    Args:
        answers: whether it answers pings.
    """

    def __init__(self, *, answers: bool = True) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.arrived = threading.Condition()
        self.answers = answers
        self.conn: Any = None

    def __call__(self, conn: RawConnection) -> None:
        self.conn = conn
        while True:
            opcode, data = read_frame(conn)
            with self.arrived:
                self.frames.append((opcode, data))
                self.arrived.notify_all()
            if opcode == PING and self.answers:
                conn.send(frame(PONG, data))
            if opcode == CLOSE:
                conn.send(frame(CLOSE, data))
                return

    async def wait_for(self, count: int) -> list[tuple[int, bytes]]:
        """Return the frames, as soon as so many have arrived."""

        def wait() -> bool:
            with self.arrived:
                return self.arrived.wait_for(lambda: len(self.frames) >= count, 30)

        assert await anyio.to_thread.run_sync(wait)
        return self.frames

    def send(self, *frames: bytes) -> None:
        self.conn.send(b"".join(frames))


# --- pongs ---


@pytest.mark.parametrize("interval", [20, None])
async def test_a_ping_returns_its_pong(client: AnyClient, interval: float | None) -> None:
    with RawServer(speaking(line := Line())) as server:
        async with await client.websocket(url_of(server), ping_interval=interval) as ws:
            pong = await ws.ping(b"are you there?")
            assert pong.data == b"are you there?"
            seconds = await ws.wait(pong)
            assert seconds == pong.latency
            assert 0 <= seconds < 60
            assert await ws.wait(pong) == seconds  # it stays
            assert line.frames == [(PING, b"are you there?")]
            assert repr(pong).startswith("<curlhttp.")
            assert "b'are you there?' [after " in repr(pong)
            if not client.is_blocking:
                assert await (await ws.real.ping()) >= 0


async def test_pings_without_data_differ(client: AnyClient) -> None:
    with RawServer(speaking(line := Line())) as server:
        async with await client.websocket(url_of(server)) as ws:
            pongs = [await ws.ping() for _ in range(3)]
            assert len({pong.data for pong in pongs}) == 3
            for pong in pongs:
                await ws.wait(pong)
            assert line.frames == [(PING, pong.data) for pong in pongs]
            await ws.wait(await ws.ping(b""))
            await ws.wait(await ws.ping(bytearray(b"ab")))  # type: ignore[arg-type]
            assert line.frames[3:] == [(PING, b""), (PING, b"ab")]


async def test_messages_before_the_pong_are_kept(client: AnyClient) -> None:
    with RawServer(speaking(line := Line(answers=False))) as server:
        async with await client.websocket(url_of(server)) as ws:
            pong = await ws.ping(b"1")
            await line.wait_for(1)
            line.send(frame(TEXT, b"a"), frame(BINARY, bytes(100_000)), frame(TEXT, b"b"))
            line.send(frame(PONG, b"1"))
            assert await ws.recv() == "a"
            assert await ws.recv() == bytes(100_000)
            await ws.wait(pong)
            assert await ws.recv() == "b"


async def test_pongs_that_nobody_asked_for_are_harmless(client: AnyClient) -> None:
    with RawServer(speaking(line := Line(answers=False))) as server:
        async with await client.websocket(url_of(server)) as ws:
            pong = await ws.ping(b"mine")
            await line.wait_for(1)
            line.send(frame(PONG, b"other"), frame(PONG), frame(PONG, b"x" * 125))
            with pytest.raises(ReadTimeout, match=r"no pong arrived within 0\.0\d+ s$"):
                await ws.wait(pong, 0.01)
            assert pong.latency is None
            assert "[expected]" in repr(pong)
            line.send(frame(PONG, b"mine"), frame(PONG, b"mine"), frame(TEXT, b"end"))
            await ws.wait(pong)
            assert await ws.recv() == "end"


async def test_a_pong_answers_all_earlier_pings(client: AnyClient) -> None:
    with RawServer(speaking(line := Line(answers=False))) as server:
        async with await client.websocket(url_of(server)) as ws:
            pongs = [await ws.ping(data) for data in (b"1", b"2", b"2", b"3")]
            await line.wait_for(4)
            line.send(frame(PONG, b"2"), frame(TEXT, b"x"))
            assert await ws.recv() == "x"
            assert [pong.latency is not None for pong in pongs] == [True, True, False, False]
            line.send(frame(PONG, b"3"))
            await ws.wait(pongs[2])
            assert pongs[3].latency is not None


async def test_a_pong_of_a_later_ping_keeps_the_connection_alive(client: AnyClient) -> None:
    with RawServer(speaking(line := Line(answers=False))) as server:
        interval, limit = paced(0.05), paced(30.0)
        ws = await client.websocket(url_of(server), ping_interval=interval, ping_timeout=limit)
        async with ws:
            keepalive = (await line.wait_for(1))[0]
            pong = await ws.ping(b"later")
            await line.wait_for(2)
            line.send(frame(PONG, b"later"))
            await ws.wait(pong)
            assert ws.real.latency is not None
            assert keepalive[0] == PING


async def test_another_caller_may_receive_meanwhile(client: AnyClient) -> None:
    """Whoever comes first reads, and the other one gets what it wants."""
    with RawServer(speaking(line := Line(answers=False))) as server:
        async with await client.websocket(url_of(server)) as ws:
            for number in range(1, 21):
                pong = await ws.ping()
                got: list[Any] = []
                async with anyio.create_task_group() as tasks:
                    pair = [_in_own(client, ws.real.recv, got), _in_own(client, pong.wait, got)]
                    for call in pair if number % 2 else reversed(pair):
                        tasks.start_soon(call)
                    await line.wait_for(number)
                    reply = [frame(TEXT, b"hello"), frame(PONG, pong.data)]
                    for each in reply if number % 4 < 2 else reversed(reply):
                        line.send(each)
                assert sorted(map(str, got)) == sorted(["hello", str(pong.latency)])


async def test_many_callers_may_wait(client: AnyClient) -> None:
    with RawServer(speaking(line := Line(answers=False))) as server:
        async with await client.websocket(url_of(server)) as ws:
            pongs = [await ws.ping() for _ in range(8)]
            got: list[Any] = []
            async with anyio.create_task_group() as tasks:
                for pong in [*pongs, *pongs]:
                    tasks.start_soon(_in_own(client, pong.wait, got))
                await line.wait_for(8)
                for pong in pongs:
                    line.send(frame(PONG, pong.data))
            assert sorted(got) == sorted(2 * [pong.latency for pong in pongs])


def _in_own(client: AnyClient, call: Any, got: list[Any]) -> Any:
    """Return a coroutine function that calls something in a thread or task of its own."""

    async def run() -> None:
        if client.is_blocking:
            got.append(await anyio.to_thread.run_sync(call, 30.0))
        else:
            got.append(await call(30.0))

    return run


async def test_the_end_of_the_websocket_ends_the_wait(client: AnyClient) -> None:
    def talk(conn: RawConnection) -> None:
        read_frame(conn)
        conn.send(frame(TEXT, b"bye") + close_frame(1001, "away"))
        read_frame(conn)

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server)) as ws:
            pong = await ws.ping()
            with pytest.raises(WebSocketClosed, match="1001"):
                await ws.wait(pong)
            assert await ws.recv() == "bye"
            with pytest.raises(WebSocketClosed):
                await ws.ping()


async def test_close_and_leaving_end_a_wait_in_another_caller(client: AnyClient) -> None:
    with RawServer(speaking(line := Line(answers=False))) as server:
        ws = await client.websocket(url_of(server), close_timeout=30)
        failed: list[BaseException] = []
        waits = threading.Event()

        async def wait() -> None:
            pong = await ws.ping()
            got: list[Any] = []
            with pytest.raises(WebSocketClosed) as caught:
                waits.set()
                await _in_own(client, pong.wait, got)()
            failed.append(caught.value)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await line.wait_for(1)
            await ws.close(4000)
        assert failed
        assert ws.real.close_code == 4000


@pytest.mark.colours("asyncio", "trio")
async def test_a_cancelled_wait_loses_nothing(client: AnyClient) -> None:
    with RawServer(speaking(line := Line(answers=False))) as server:
        async with await client.websocket(url_of(server)) as ws:
            pong = await ws.ping()
            with anyio.move_on_after(paced(0.02)):
                await pong.wait()
            line.send(frame(TEXT, b"a"), frame(PONG, pong.data), frame(TEXT, b"b"))
            assert await ws.recv() == "a"
            await ws.wait(pong)
            assert await ws.recv() == "b"


async def test_a_pong_behind_many_unread_messages_needs_a_receiver(client: AnyClient) -> None:
    with RawServer(speaking(line := Line(answers=False))) as server:
        async with await client.websocket(url_of(server), ping_interval=None) as ws:
            pong = await ws.ping()
            await line.wait_for(1)
            big = [frame(BINARY, bytes(60_000))] * 10
            sender = threading.Thread(
                target=lambda: line.send(*big, frame(PONG, pong.data)), daemon=True
            )
            sender.start()
            with pytest.raises(ReadTimeout, match="receive the messages in front of it"):
                await ws.wait(pong, paced(0.5))
            for _ in big:
                assert len(await ws.recv()) == 60_000
            await ws.wait(pong)
            sender.join()


async def test_pings_that_nobody_waits_for_are_forgotten(client: AnyClient) -> None:
    with RawServer(speaking(Line(answers=False))) as server:
        async with await client.websocket(url_of(server), ping_interval=None) as ws:
            for _ in range(100):
                await ws.ping()
            kept = await ws.ping()
            gc.collect()
            assert count_pings(ws.real) == 1
            del kept
            gc.collect()
            assert count_pings(ws.real) == 0


@ONE_OF_EACH
async def test_data_that_no_ping_can_have_is_refused(client: AnyClient) -> None:
    with RawServer(speaking(line := Line())) as server:
        async with await client.websocket(url_of(server)) as ws:
            with pytest.raises(ValueError, match="at most 125 bytes, not 126"):
                await ws.ping(bytes(126))
            for wrong in ("text", 5):
                with pytest.raises(TypeError, match="the data of a ping must be bytes, not"):
                    await ws.ping(wrong)  # type: ignore[arg-type]
            assert not line.frames


# --- JSON ---


@dataclass
class Point:
    x: int
    y: int = 0


async def test_json_is_sent_and_received(client: AnyClient) -> None:
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(url_of(server)) as ws:
            values: list[Any] = [{"a": [1, "grüße", None]}, None, 3, "x", []]
            for value in values:
                await ws.send_json(value)
                assert await ws.receive_json() == value
            await ws.send_json({"x": 3})
            assert await ws.receive_json(type=Point) == Point(3)
            await ws.send_json([1.5])
            assert str(await ws.receive_json(parse_float=str)) == "['1.5']"
            await ws.send(b'{"binary": true}')
            assert await ws.receive_json() == {"binary": True}


async def test_it_is_a_text_message(client: AnyClient) -> None:
    with RawServer(speaking(line := Line())) as server:
        async with await client.websocket(url_of(server)) as ws:
            await ws.send_json({"a": 1})
            (found,) = await line.wait_for(1)
            assert found == (TEXT, b'{"a": 1}')


@ONE_OF_EACH
@pytest.mark.parametrize("makes", [bytes, str])
async def test_the_codec_of_the_client_is_used(make_client: Make, makes: type) -> None:
    def dumps(value: object) -> bytes | str:
        text = json.dumps({"sent": value}, ensure_ascii=False)
        return text.encode() if makes is bytes else text

    def loads(text: Any, **options: Any) -> Any:
        return {"got": json.loads(text), **options}

    client = make_client(json=curlhttp.JSON(loads=loads, dumps=dumps))
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(url_of(server)) as ws:
            await ws.send_json("ü")
            assert await ws.receive_json(more=1) == {"got": {"sent": "ü"}, "more": 1}


async def test_a_message_that_is_no_json_says_so_and_the_next_is_received(
    client: AnyClient,
) -> None:
    with RawServer(speaking(echo)) as server:
        async with await client.websocket(url_of(server)) as ws:
            for wrong in ("{", b"\xff\xfe\xff", "", "[" * 100_000):
                await ws.send(wrong)
                with pytest.raises(JSONDecodeError, match="; a message of GET ws://") as caught:
                    await ws.receive_json()
                assert caught.value.response is ws.real.response
            await ws.send_json({"x": "three"})
            with pytest.raises(JSONTypeError, match=r"does not fit Point: x: .*; a message of GET"):
                await ws.receive_json(type=Point)
            await ws.send_json(1)
            assert await ws.receive_json() == 1


@ONE_OF_EACH
async def test_a_value_that_json_cannot_express_is_refused(make_client: Make) -> None:
    with RawServer(speaking(line := Line())) as server:
        async with await make_client().websocket(url_of(server)) as ws:
            with pytest.raises(InvalidJSONError):
                await ws.send_json(float("nan"))
            with pytest.raises(TypeError, match="not JSON serializable"):
                await ws.send_json(object())
        latin = make_client(json=curlhttp.JSON(dumps=lambda value: "ü".encode("latin-1")))
        async with await latin.websocket(url_of(server)) as ws:
            with pytest.raises(ValueError, match="dumps must return UTF-8"):
                await ws.send_json(1)
        assert not [each for each in line.frames if each[0] != CLOSE]


async def test_waiting_for_json_ends_in_time(client: AnyClient) -> None:
    with RawServer(speaking(Line())) as server:
        async with await client.websocket(url_of(server)) as ws:
            with pytest.raises(ReadTimeout):
                await ws.receive_json(timeout=0.01)


# --- sizes ---


async def test_a_message_that_is_too_large_says_what_to_do(client: AnyClient) -> None:
    def talk(conn: RawConnection) -> None:
        conn.send(frame(TEXT, b"x" * 100) + frame(TEXT, b"x" * 101))
        echo(conn)

    with RawServer(speaking(talk)) as server:
        async with await client.websocket(url_of(server), max_size=100) as ws:
            assert await ws.recv() == "x" * 100
            with pytest.raises(WebSocketClosed, match="max_size= allows larger") as caught:
                await ws.recv()
            assert caught.value.code == 1009
