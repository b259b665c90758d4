"""Single-frame messages, which bypass the package websockets, are parsed as it would."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from struct import Struct

import pytest

pytest.importorskip("websockets", reason="the extra ws is not installed")

from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.uri import WebSocketURI

from curlhttp._features.websocket.frames import BINARY, TEXT, FrameBuffer, pack_message
from tests.servers.websocket import CLOSE, CONT, PING, frame

SIZES = [0, 1, 125, 126, 127, 65_535, 65_536, 70_000]
Event = tuple[int, bytes]


def parser(max_size: int | None = None) -> ClientProtocol:
    uri = WebSocketURI(False, "", 80, "/", "")
    return ClientProtocol(uri, state=State.OPEN, max_size=max_size)


def events_of(protocol: ClientProtocol) -> Iterator[Event]:
    for event in protocol.events_received():
        assert isinstance(event, Frame)
        yield event.opcode, bytes(event.data)


def cut(stream: bytes, seed: int) -> Iterator[bytes]:
    """Yield a stream in pieces of any size, many of one byte."""
    draw = random.Random(seed)
    while stream:
        size = draw.choice([1, 1, 2, 3, 10, 100, 10_000, 100_000])
        yield stream[:size]
        stream = stream[size:]


def bulk(pieces: Iterator[bytes], max_size: int | None = None) -> tuple[list[Event], int]:
    """Return the events of a buffer with a parser behind it, and how many skipped the parser."""
    protocol, buffer = parser(max_size), FrameBuffer(b"", max_size)
    events: list[Event] = []
    skipped = 0
    for piece in pieces:
        buffer.add(piece)
        while buffer.data:
            messages = protocol.state is State.OPEN and protocol.current_size is None
            first, data = buffer.take(500, messages=messages)
            if first:
                events.append((first & 0x0F, bytes(data)))
                skipped += 1
            elif data:
                protocol.receive_data(bytes(data))
                events += events_of(protocol)
    return events, skipped


def plain(pieces: Iterator[bytes], max_size: int | None = None) -> list[Event]:
    protocol = parser(max_size)
    events: list[Event] = []
    for piece in pieces:
        protocol.receive_data(piece)
        events += events_of(protocol)
    return events


def random_frames(seed: int) -> bytes:
    """Return valid frames, and at the end maybe one that is not."""
    draw = random.Random(seed)
    frames: list[bytes] = []
    for _ in range(draw.randrange(1, 30)):
        data = draw.randbytes(draw.choice([*SIZES[:5], draw.randrange(300), 66_000]))
        kind = draw.choice([1, 2])
        if draw.random() < 0.6:
            frames.append(frame(kind, data))
        else:
            half = len(data) // 2
            frames.append(frame(kind, data[:half], fin=False))
            frames += [frame(PING, b"now")] * draw.randrange(3)
            frames.append(frame(CONT, data[half:]))
    broken = [b"", b"\x81\xff", b"\xc1\x00", b"\x80\x00", b"\x82\x7f" + b"\xff" * 8, frame(CLOSE)]
    return b"".join(frames) + draw.choice(broken) + draw.choice([b"", frame(1, b"after")])


@pytest.mark.parametrize("seed", range(60))
def test_any_stream_in_any_pieces_yields_what_the_parser_yields(seed: int) -> None:
    stream = random_frames(seed)
    events, _ = bulk(cut(stream, seed))
    assert events == plain(cut(stream, seed + 1))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", [1, 2])
def test_a_whole_message_skips_the_parser_however_it_is_cut(kind: int, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    stream = frame(kind, data[:size]) * 3
    assert bulk(cut(stream, size)) == ([(kind, data[:size])] * 3, 3)


def test_a_message_too_large_is_left_to_the_parser() -> None:
    events, skipped = bulk(iter([frame(2, bytes(100)), frame(2, bytes(101))]), max_size=100)
    assert (events, skipped) == ([(2, bytes(100))], 1)


def test_a_message_within_another_is_left_to_the_parser() -> None:
    stream = frame(1, b"begun", fin=False) + frame(1, b"no end")
    events, skipped = bulk(iter([stream]))
    assert (events, skipped) == (plain(iter([stream])), 0)


def test_the_beginning_of_a_message_is_counted_and_dropped() -> None:
    buffer = FrameBuffer(frame(2, bytes(1000))[:500], None)
    first, data = buffer.take(100, messages=True)
    assert (first, bytes(data)) == (0, b"")
    assert (bool(buffer.data), buffer.held, buffer.size) == (False, 500, 500)
    buffer.clear()
    assert (bool(buffer.data), buffer.held, buffer.size) == (False, 0, 0)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("first", "opcode"), [(TEXT, Opcode.TEXT), (BINARY, Opcode.BINARY)])
def test_a_server_reads_the_packed_frames(first: int, opcode: Opcode, size: int) -> None:
    data = b"x" * size
    packed = pack_message(first, data)
    assert len(packed) - size == {125: 6, 126: 8, 127: 8, 65_535: 8}.get(
        size, 6 if size < 125 else 14
    )
    server = ServerProtocol(state=State.OPEN, max_size=None)
    server.receive_data(packed)
    (event,) = server.events_received()
    assert isinstance(event, Frame)
    assert (event.opcode, bytes(event.data), event.fin) == (opcode, data, True)


def test_masks_differ() -> None:
    assert len({pack_message(TEXT, b"")[2:6] for _ in range(100)}) == 100


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")
def test_a_forked_process_does_not_repeat_the_masks_of_its_parent() -> None:
    def masks() -> bytes:
        return b"".join(pack_message(BINARY, b"")[2:6] for _ in range(50))

    masks()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, masks())
        os._exit(0)
    os.waitpid(child, 0)
    assert not {*Struct("4s").iter_unpack(os.read(reader, 200))} & {
        *Struct("4s").iter_unpack(masks())
    }
    os.close(reader)
    os.close(writer)
