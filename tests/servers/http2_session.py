"""One HTTP/2 connection of the application, on the h2 state machine.

One thread and one select loop: a delayed stream never holds up another, so no route may block.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import itertools
import selectors
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError
from hyperframe.frame import GoAwayFrame, SettingsFrame

from tests.servers.app import AppConnection, find_route
from tests.servers.http2_stream import Stream
from tests.servers.record import Record

if TYPE_CHECKING:
    from tests.servers.http2 import H2Server

_UNSENT = 1 << 18
_LINGER = 0.5  # seconds for which the client may continue after the reply to its GOAWAY
_CONNECTION_WINDOW = 1 << 24


class Reset(NamedTuple):
    """An RST_STREAM that the client sent."""

    connection: int
    stream: int
    code: int


class Goaway(NamedTuple):
    """A GOAWAY that the client sent."""

    connection: int
    code: int


class Session:
    """The select loop of one HTTP/2 connection."""

    def __init__(self, server: H2Server, conn: AppConnection) -> None:
        self.server = server
        self.conn = conn
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding=None))
        self.streams: dict[int, Stream] = {}
        self.sending: dict[int, Stream] = {}
        self.closing = False
        self._last: int | None = None
        self._requests = 0
        self._unsent = bytearray()
        self._has_more = False
        self._timers: list[tuple[float, int, Stream, Callable[[], None]]] = []
        self._order = itertools.count()

    def run(self) -> None:
        self._greet()
        self._feed(self.conn.take_buffered())
        sock = self.conn.sock
        sock.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(sock, selectors.EVENT_READ)
            wanted = selectors.EVENT_READ
            while not self._pump_is_over():
                events = selectors.EVENT_READ
                events |= selectors.EVENT_WRITE if self._unsent else 0
                if events != wanted:
                    selector.modify(sock, wanted := events)
                selector.select(self._patience())
                self._run_timers()
                if not self._read():
                    return
        sock.setblocking(True)
        if self._last is not None:
            # To close with requests unread would reset the connection, and take along what was
            # sent last, the GOAWAY too.
            self.conn.wait_closed(_LINGER)

    def end(self, stream: Stream) -> None:
        """Forget a stream that is over on this side."""
        self.streams.pop(stream.id, None)
        self.sending.pop(stream.id, None)

    def later(self, seconds: float, stream: Stream, action: Callable[[], None]) -> None:
        entry = (time.monotonic() + seconds, next(self._order), stream, action)
        heapq.heappush(self._timers, entry)

    def goaway(self, last: int, code: int) -> None:
        """Send GOAWAY and close once the streams up to `last` have responses."""
        # h2's close_connection() would refuse to send the responses still due.
        self._collect()
        self._unsent += GoAwayFrame(0, last_stream_id=last, error_code=code).serialize()
        self._last = last
        for stream in [stream for stream in self.streams.values() if stream.id > last]:
            self.end(stream)

    # -- the loop's steps

    def _greet(self) -> None:
        # h2 enforces its own stream limit before the client can know it, and then drops the
        # connection. So the limit goes out by hand, and `_begin` refuses single streams.
        self.h2.local_settings.max_concurrent_streams = 1 << 30
        self.h2.local_settings.initial_window_size = self.server.window
        self.h2.local_settings.acknowledge()
        self.h2.initiate_connection()
        self.h2.clear_outbound_data_buffer()
        settings = {
            SettingsFrame.MAX_CONCURRENT_STREAMS: self.server.max_concurrent_streams,
            SettingsFrame.INITIAL_WINDOW_SIZE: self.server.window,
        }
        self._unsent += SettingsFrame(0, settings=settings).serialize()
        self.h2.increment_flow_control_window(_CONNECTION_WINDOW)

    def _read(self) -> bool:
        while True:
            try:
                data = self.conn.sock.recv(65536)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return True
            if not data:
                return False
            self._feed(data)
            if not isinstance(self.conn.sock, ssl.SSLSocket):
                return True  # the selector reports the rest; TLS may have it buffered

    def _feed(self, data: bytes) -> None:
        try:
            events = self.h2.receive_data(data)
        except ProtocolError:
            self.closing = True  # h2 has queued the GOAWAY
            return
        for event in events:
            self._handle(event)

    def _handle(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            self._begin(event)
        elif isinstance(event, DataReceived):
            self._take(event)
        elif isinstance(event, StreamEnded):
            self._answer(event.stream_id)
        elif isinstance(event, StreamReset):
            self.server.resets.append(
                Reset(self.conn.index, event.stream_id, int(event.error_code))
            )
            if stream := self.streams.get(event.stream_id):
                self.end(stream)
            self.server.note()
        elif isinstance(event, ConnectionTerminated):
            self.server.goaways.append(Goaway(self.conn.index, int(event.error_code or 0)))
            self.closing = True

    def _begin(self, event: RequestReceived) -> None:
        if self._last is not None and event.stream_id > self._last:
            self.server.ignored += 1
            return
        if len(self.streams) >= self.server.max_concurrent_streams:
            self.server.refused += 1
            with contextlib.suppress(ProtocolError):
                self.h2.reset_stream(event.stream_id, ErrorCodes.REFUSED_STREAM)
            return
        record = _record(event, self.conn.index)
        stream = self.streams[record.stream] = Stream(self, record)
        with self.server.changed:
            self.server.max_streams = max(self.server.max_streams, len(self.streams))
        self.server.requests.append(record)
        self.server.note()
        self._requests += 1
        if self._requests == self.server.goaway_limit:
            self.goaway(record.stream, 0)
        if record.path in {"/early-413", "/echo-stream"}:  # these do not wait for the body
            self._answer(stream.id)

    def _take(self, event: DataReceived) -> None:
        if self.server.reads:
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if stream := self.streams.get(event.stream_id):
            stream.record.length += len(event.data)
            if stream.record.path == "/upload":
                stream.checksum.update(event.data)
            elif stream.echoes:
                if event.data:
                    self.h2.send_data(stream.id, event.data)
            else:
                stream.parts.append(event.data)

    def _answer(self, stream_id: int) -> None:
        stream = self.streams.get(stream_id)
        if stream is None:
            return
        record = stream.record
        record.body = b"".join(stream.parts)
        routes = self.server.stream_routes
        route = routes[find_route(routes, record.path)]
        self._guard(stream, lambda: route(record, stream))

    def _guard(self, stream: Stream, action: Callable[[], object]) -> bool:
        """Do something for a stream; False when the client has reset it meanwhile."""
        try:
            return bool(action())
        except ProtocolError:
            self.end(stream)
            return False

    def _run_timers(self) -> None:
        while self._timers and self._timers[0][0] <= time.monotonic():
            _, _, stream, action = heapq.heappop(self._timers)
            if stream.id in self.streams:
                self._guard(stream, action)

    def _patience(self) -> float | None:
        if self._has_more and not self._unsent:
            return 0  # the socket took all of it, and would not wake us
        return max(self._timers[0][0] - time.monotonic(), 0) if self._timers else None

    def _pump_is_over(self) -> bool:
        """Send what can be sent; True when all is sent and the connection is to be closed."""
        self._collect()
        self._flush()
        for stream in list(self.sending.values()):
            send = functools.partial(self._send_some, stream)
            while len(self._unsent) < _UNSENT and self._guard(stream, send):
                self._collect()
        self._collect()
        self._has_more = len(self._unsent) >= _UNSENT
        self._flush()
        over = self.closing or (self._last is not None and not self.streams)
        return over and not self._unsent

    def _send_some(self, stream: Stream) -> bool:
        """Send one frame of a stream's body; False when it is blocked or finished."""
        assert stream.output is not None
        if not stream.piece:
            stream.piece = next(stream.output, b"")
        if not stream.piece:
            self._finish(stream)
            return False
        window = self.h2.local_flow_control_window(stream.id)
        size = min(window, self.h2.max_outbound_frame_size, len(stream.piece))
        if size <= 0:
            return False
        self.h2.send_data(stream.id, stream.piece[:size])
        stream.piece = stream.piece[size:]
        return True

    def _finish(self, stream: Stream) -> None:
        if stream.trailers:
            self.h2.send_headers(stream.id, list(stream.trailers), end_stream=True)
        else:
            self.h2.end_stream(stream.id)
        self.end(stream)

    def _collect(self) -> None:
        self._unsent += self.h2.data_to_send()

    def _flush(self) -> None:
        while self._unsent:
            try:
                sent = self.conn.sock.send(self._unsent)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            del self._unsent[:sent]


def _record(event: RequestReceived, connection: int) -> Record:
    fields = [(_text(name), _text(value)) for name, value in event.headers]
    pseudo = {name: value for name, value in fields if name.startswith(":")}
    return Record(
        pseudo[":method"],
        pseudo.get(":path", ""),
        connection,
        headers=[(name, value) for name, value in fields if not name.startswith(":")],
        version="2",
        stream=event.stream_id,
        authority=pseudo.get(":authority", ""),
    )


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
