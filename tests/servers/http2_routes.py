"""Routes of HTTP/2 only: delays, stalls, flow control, and the protocol's own refusals.

Each is `route(record, stream)` and must not block: its thread serves the other streams too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from h2.errors import ErrorCodes

from tests.servers.auth import AUTH
from tests.servers.record import Record, payload, to_json
from tests.servers.routes import JSON, PLAIN, SHARED, hello

if TYPE_CHECKING:
    from tests.servers.http2_stream import Stream, StreamAnswer

_ZEROS = bytes(1 << 18)


def big(record: Record, stream: Stream) -> None:
    size = int(record.query("size", str(125 << 20)))
    stream.stream(200, _zeros(size), [("content-length", str(size))])


def _zeros(left: int) -> Iterator[bytes]:
    while left:
        left -= len(piece := _ZEROS[:left])
        yield piece


def upload(record: Record, stream: Stream) -> None:
    seen = {
        "length": record.length,
        "sha256": stream.checksum.hexdigest(),
        "chunked": False,
        "expect": record.header("expect"),
    }
    stream.reply(200, to_json(seen), [JSON])


def early_413(record: Record, stream: Stream) -> None:
    stream.head(413)
    stream.session.h2.end_stream(stream.id)
    # RFC 9113 section 8.1: NO_ERROR asks the client to stop sending, and to keep the response.
    stream.reset(ErrorCodes.NO_ERROR)


def echo_stream(record: Record, stream: Stream) -> None:
    """Send the head at once; the session sends each piece of the body back."""
    if not stream.echoes:
        stream.head(200)
        stream.echoes = True
    else:
        stream.session.h2.end_stream(stream.id)
        stream.session.end(stream)


def delay(record: Record, stream: Stream) -> None:
    stream.later(float(record.args[0]), lambda: hello(record, stream))


def stall(record: Record, stream: Stream) -> None:
    """Leave the stream open until the client resets it."""


def stall_after(record: Record, stream: Stream) -> None:
    stream.head(200, [("content-length", record.query("length", "1000"))])
    stream.send(payload(int(record.query("sent", "100"))))


def drip(record: Record, stream: Stream) -> None:
    count, interval = int(record.query("n", "5")), float(record.query("interval", "0.01"))
    stream.head(200, [("content-length", str(count))])
    _drip(stream, count, interval)


def _drip(stream: Stream, left: int, interval: float) -> None:
    if left:
        stream.send(b"x")
        stream.later(interval, lambda: _drip(stream, left - 1, interval))
    else:
        stream.session.h2.end_stream(stream.id)
        stream.session.end(stream)


def trailers(record: Record, stream: Stream) -> None:
    stream.trailers = [("x-checksum", "1")]
    stream.stream(200, [b"hello"], [PLAIN])


def hints(record: Record, stream: Stream) -> None:
    stream.head(103, [("link", "</style.css>; rel=preload")])
    hello(record, stream)


def truncated(record: Record, stream: Stream) -> None:
    stall_after(record, stream)
    stream.close_connection()


def reset(record: Record, stream: Stream) -> None:
    """RST_STREAM with `?code=` (2 is INTERNAL_ERROR), for the first `?times=` or always."""
    _fail_first(record, stream, int(record.query("code", "2")), "0")


def refuse(record: Record, stream: Stream) -> None:
    _fail_first(record, stream, ErrorCodes.REFUSED_STREAM, "1")


def http11_required(record: Record, stream: Stream) -> None:
    stream.reset(ErrorCodes.HTTP_1_1_REQUIRED)


def _fail_first(record: Record, stream: Stream, code: int, default: str) -> None:
    times = int(record.query("times", default))
    stream.memory.counts[record.target] += 1
    if not times or stream.memory.counts[record.target] <= times:
        stream.reset(code)
    else:
        hello(record, stream)


def goaway(record: Record, stream: Stream) -> None:
    """GOAWAY with `?code=`; `?processed=0` leaves this request unanswered, `?times=` as above."""
    times = int(record.query("times", "1"))
    stream.memory.counts[record.target] += 1
    if stream.memory.counts[record.target] > times:
        return hello(record, stream)
    processed = record.query("processed", "1") == "1"
    stream.goaway(int(record.query("code", "0")), processed=processed)
    return hello(record, stream) if processed else None


def not_found(record: Record, stream: Stream) -> None:
    stream.reply(404, b"no such route")


H2_ROUTES: dict[str, StreamAnswer] = {
    **SHARED,
    **AUTH,
    "/big": big,
    "/upload": upload,
    "/early-413": early_413,
    "/echo-stream": echo_stream,
    "/delay": delay,
    "/stall": stall,
    "/stall-after": stall_after,
    "/drip": drip,
    "/trailers": trailers,
    "/hints": hints,
    "/truncated": truncated,
    "/reset": reset,
    "/refuse": refuse,
    "/http11-required": http11_required,
    "/goaway": goaway,
    "/404": not_found,
}
