"""The server's side of WebSockets, frame by frame, for handlers of a RawServer.

It masks and checks nothing: a handler sends whatever bytes a scenario needs.
"""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections.abc import Callable

from tests.servers.connection import Connection
from tests.servers.raw import Handler, RawConnection

TEXT, BINARY, CONT, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
_KEY = re.compile(rb"\r\nsec-websocket-key:[ \t]*([^\r]+)", re.IGNORECASE)
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept(head: bytes, *fields: str) -> bytes:
    """Return the response that agrees to a handshake (RFC 6455, section 4.2.2)."""
    found = _KEY.search(head)
    assert found is not None, head
    key = base64.b64encode(hashlib.sha1(found[1].strip() + _GUID).digest()).decode()
    lines = [
        "HTTP/1.1 101 Switching Protocols",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {key}",
        *fields,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def frame(opcode: int, data: bytes = b"", *, fin: bool = True, rsv1: bool = False) -> bytes:
    """Return a frame as a server sends it."""
    head = bytes([fin << 7 | rsv1 << 6 | opcode])
    if len(data) < 126:
        return head + bytes([len(data)]) + data
    if len(data) < 65536:
        return head + struct.pack("!BH", 126, len(data)) + data
    return head + struct.pack("!BQ", 127, len(data)) + data


def close_frame(code: int, reason: str = "") -> bytes:
    """Return a close frame."""
    return frame(CLOSE, struct.pack("!H", code) + reason.encode())


def read_frame(conn: Connection) -> tuple[int, bytes]:
    """Return opcode and payload of the client's next frame; ConnectionError at the end."""
    first, second = conn.read_exactly(2)
    length = second & 127
    if length > 125:
        length = int.from_bytes(conn.read_exactly(2 if length == 126 else 8), "big")
    mask = conn.read_exactly(4)
    data = conn.read_exactly(length)
    longer = mask * (length // 4 + 1)
    unmasked = int.from_bytes(data, "big") ^ int.from_bytes(longer[:length], "big")
    return first & 15, unmasked.to_bytes(length, "big")


def speaking(talk: Callable[[RawConnection], object], *fields: str) -> Handler:
    """Return a handler that agrees to the handshake, and talks then."""

    def handler(conn: RawConnection) -> None:
        head, _ = conn.read_request()
        if head:
            conn.send(accept(head, *fields))
            try:
                talk(conn)
            except ConnectionError:  # the client has gone
                return

    return handler


def echo(conn: Connection) -> None:
    """Send each message back, and agree to the end."""
    while True:
        opcode, data = read_frame(conn)
        if opcode == PING:
            conn.send(frame(PONG, data))
        elif opcode == PONG:
            continue
        else:
            conn.send(frame(opcode, data))
            if opcode == CLOSE:
                return
