"""Routes below one whole response: chunks, stalls, cuts, slow bodies, uploads.

HTTP/1.1 only.
"""

from __future__ import annotations

import hashlib
import socket
from typing import TYPE_CHECKING

from tests.servers.record import Record, payload, to_json
from tests.servers.routes import JSON, PLAIN, coded, hello

if TYPE_CHECKING:
    from tests.servers.app import Answer, AppConnection

_ZEROS = memoryview(bytes(1 << 18))
_CHUNKED = ("Transfer-Encoding", "chunked")


def chunked(record: Record, conn: AppConnection) -> None:
    _send_chunked(conn, payload(record.number, int(record.query("seed", "0"))), [])


def coded_chunked(record: Record, conn: AppConnection) -> None:
    body, headers = coded(record)
    _send_chunked(conn, body, headers)


def _send_chunked(conn: AppConnection, body: bytes, headers: list[tuple[str, str]]) -> None:
    if conn.begin(200, [*headers, _CHUNKED]):
        step = max(len(body) // 7, 1)
        for start in range(0, len(body), step):
            conn.chunk(body[start : start + step])
        conn.chunk(b"")


def trailers(record: Record, conn: AppConnection) -> None:
    if conn.begin(200, [PLAIN, _CHUNKED, ("Trailer", "X-Checksum")]):
        conn.chunk(b"hello")
        checksum = hashlib.sha256(b"hello").hexdigest().encode("ascii")
        conn.send(b"0\r\nX-Checksum: " + checksum + b"\r\n\r\n")


def hints(record: Record, conn: AppConnection) -> None:
    conn.reply(103, b"", [("Link", "</style.css>; rel=preload")])
    hello(record, conn)


def big(record: Record, conn: AppConnection) -> None:
    left = int(record.query("size", str(125 << 20)))
    if conn.begin(200, [("Content-Length", str(left))]):
        while left:
            left -= len(piece := _ZEROS[:left])
            conn.send(piece)


# -- responses that stop short


def truncated(record: Record, conn: AppConnection) -> None:
    length, sent = int(record.query("length", "1000")), int(record.query("sent", "100"))
    if conn.begin(200, [("Content-Length", str(length))]):
        conn.send(payload(sent))
    _leave(record, conn)


def until_close(record: Record, conn: AppConnection) -> None:
    """A body without a length, which the end of the connection ends."""
    if conn.begin(200, [("Connection", "close")]):
        conn.send(payload(int(record.query("size", "1000"))))
    _leave(record, conn)


def _leave(record: Record, conn: AppConnection) -> None:
    """Close; with `?cut=1` without TLS's close_notify, with `?reset=1` by RST."""
    conn.closing = True
    if record.query("cut") == "1":
        conn.cut()
    elif record.query("reset") == "1":
        conn.reset()
    else:
        conn.close()


def stall(record: Record, conn: AppConnection) -> None:
    conn.stall()
    _end(conn)


def stall_after(record: Record, conn: AppConnection) -> None:
    sent, length = int(record.query("sent", "100")), int(record.query("length", "1000"))
    conn.begin(200, [("Content-Length", str(length))])
    conn.send(payload(sent))
    stall(record, conn)


def stall_in_head(record: Record, conn: AppConnection) -> None:
    conn.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nX-Half: ")
    stall(record, conn)


def close(record: Record, conn: AppConnection) -> None:
    conn.closing = True
    hello(record, conn)
    _end(conn)


def _end(conn: AppConnection) -> None:
    conn.closing = True
    conn.close()


# -- slow responses


def drip(record: Record, conn: AppConnection) -> None:
    count, interval = int(record.query("n", "5")), float(record.query("interval", "0.01"))
    if conn.begin(200, [("Content-Length", str(count))]):
        for _ in range(count):
            conn.send(b"x")
            if conn.wait_closed(interval):
                return _end(conn)
    return None


def delay(record: Record, conn: AppConnection) -> None:
    if conn.wait_closed(float(record.args[0])):
        return _end(conn)
    return hello(record, conn)


# -- uploads


def upload(record: Record, conn: AppConnection) -> None:
    _receive(record, conn, rate=0)


def slow_upload(record: Record, conn: AppConnection) -> None:
    # A small buffer, or the kernel would take megabytes that nobody has read.
    conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    _receive(record, conn, rate=int(record.query("rate", "65536")))


def _receive(record: Record, conn: AppConnection, rate: int) -> None:
    conn.answer_expect(record.raw)
    record.chunked = record.header("transfer-encoding") is not None
    checksum = hashlib.sha256()
    for piece in conn.iter_body(record.raw, max(rate // 50, 1) if rate else 1 << 18):
        checksum.update(piece)
        record.length += len(piece)
        if rate and conn.server.stopping.wait(len(piece) / rate):
            return _end(conn)
    seen = {
        "length": record.length,
        "sha256": checksum.hexdigest(),
        "chunked": record.chunked,
        "expect": record.header("expect"),
    }
    return conn.reply(200, to_json(seen), [JSON])


def echo_stream(record: Record, conn: AppConnection) -> None:
    """Send each piece of the body back as soon as it is there."""
    if conn.begin(200, [_CHUNKED]):
        for piece in conn.iter_body(record.raw):
            record.length += len(piece)
            conn.chunk(piece)
        conn.chunk(b"")


def early_413(record: Record, conn: AppConnection) -> None:
    conn.closing = True
    conn.reply(413, b"too large")
    if record.query("reset") == "1":
        conn.reset()
    else:
        conn.finish_and_close()


UNREAD = frozenset({"/upload", "/slow-upload", "/echo-stream", "/early-413"})

WIRE: dict[str, Answer] = {
    "/chunked": chunked,
    "/gzip-chunked": coded_chunked,
    "/br-chunked": coded_chunked,
    "/trailers": trailers,
    "/hints": hints,
    "/big": big,
    "/truncated": truncated,
    "/until-close": until_close,
    "/stall": stall,
    "/stall-after": stall_after,
    "/stall-in-head": stall_in_head,
    "/close": close,
    "/drip": drip,
    "/delay": delay,
    "/upload": upload,
    "/slow-upload": slow_upload,
    "/echo-stream": echo_stream,
    "/early-413": early_413,
}
