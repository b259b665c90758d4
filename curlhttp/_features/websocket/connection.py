"""The connection of an open WebSocket, for both clients: receive, send and close.

The package `websockets` implements the protocol without I/O; frames.py bypasses it for whole
messages. Coroutines here suspend only in the stream and in waiters, so the blocking client can run
them with one send(None). A lock serializes threads. No thread holds it while it waits.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast
from weakref import WeakValueDictionary

from websockets.exceptions import InvalidState
from websockets.frames import Opcode
from websockets.protocol import State

from curlhttp._features.upgrade import Upgraded
from curlhttp._features.websocket.frames import BINARY, TEXT, FrameBuffer, pack_message
from curlhttp._features.websocket.handshake import Settings
from curlhttp._features.websocket.heartbeat import Heartbeat, SentPing
from curlhttp._features.websocket.messages import Message, MessageBuffer
from curlhttp._http.fork import register
from curlhttp._http.redaction import display_text, redact_text
from curlhttp._runtime.engine import MakeWaiter, Waiter
from curlhttp.exceptions import (
    ClientClosed,
    ReadTimeout,
    RequestException,
    WebSocketClosed,
    WriteTimeout,
)

if TYPE_CHECKING:
    from websockets.client import ClientProtocol
    from websockets.frames import Frame

# Bytes to parse at once. They may expand a thousand times, or contain thousands of empty frames.
_SLICE = 16 * 1024
_MAX_AHEAD = 64 * 1024  # bytes of messages to read without a receiver
_TURN = 0.02  # seconds of parsing after which other tasks may run
_FLUSH_INTERVAL = 0.1  # seconds between attempts to send bytes that the server did not accept
_FULL_INTERVAL = 0.1  # seconds between looking whether there is room to read up to a pong
_DRAIN_EVERY = 64 * 1024  # bytes
_BYTES = (bytes, bytearray, memoryview)
_DATA, _PING, _PONG = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT), Opcode.PING, Opcode.PONG
_ABNORMAL, _NORMAL, _GONE, _TOO_BIG, _FAILED = 1006, 1000, 1001, 1009, 1011


class WebSocketConnection:
    """Read and write the messages, pings and close frames of one WebSocket.

    Args:
        response: the response of the server, with the stream.
        protocol: the protocol, after its handshake.
        settings: the settings of the WebSocket.
        now: returns monotonic seconds.
        make_waiter: makes a waiter of the engine.
        on_end: called once, when the connection has ended.
    """

    def __init__(
        self,
        response: Upgraded,
        protocol: ClientProtocol,
        settings: Settings,
        *,
        now: Callable[[], float],
        make_waiter: MakeWaiter,
        on_end: Callable[[WebSocketConnection], object],
    ) -> None:
        self.response = response
        self.protocol = protocol
        self.settings = settings
        self._stream = response.stream
        self._now = now
        self._make_waiter = make_waiter
        self._lock = threading.RLock()
        self._on_end = on_end
        self._received = FrameBuffer(response.rest, settings.max_size)
        self._packs_frames = not protocol.extensions  # which would compress messages
        self._pending_pong: bytes | None = None  # its data, until the server accepts more bytes
        self._written = 0  # bytes
        self._drains_at = _DRAIN_EVERY  # bytes written, then the stream lets others run
        self._is_behind = False  # the last write left bytes unsent; others may be sent meanwhile
        # Copies of what the protocol knows, which computes it each time.
        self._is_open = protocol.state is State.OPEN
        self.inbox: MessageBuffer = MessageBuffer()
        self._is_at_end = False  # the server sends no more bytes
        self._has_receiver = False
        self._has_pong_reader = False  # a caller that waits for a pong reads; it does not receive
        self._turn_waiter: Waiter | None = None  # of a receiver, which reads after that caller
        self._pong_waiters: set[Waiter] = set()  # of callers that wait for a pong and do not read
        # The pings without a pong that somebody is interested in, oldest first.
        self._pings: WeakValueDictionary[int, SentPing] = WeakValueDictionary()
        self._ping_count = 0
        self._end_waiters: list[Waiter] = []  # of callers that wait for the end
        self._has_ended = False
        self._error: RequestException | None = None  # with which the connection broke
        self._is_closed_by_us = False  # the user called close() or left the `with`
        self._closing_since: float | None = None
        self.heartbeat: Heartbeat = Heartbeat(settings.ping_interval, settings.ping_timeout, now())
        register(self)

    def _after_fork_in_child(self) -> None:
        """Replace the lock: a thread of the parent may have held it."""
        self._lock = threading.RLock()

    # receiving

    async def receive(self, seconds: float | None) -> Message:
        """Return the next message.

        Raises:
            ReadTimeout: no message arrived in so many seconds.
            WebSocketClosed: no more messages will arrive.
            RuntimeError: another caller is receiving.
        """
        with self._lock:
            if self.inbox.messages:
                return self.inbox.pop()
            if self._has_receiver:
                raise RuntimeError("another caller is receiving on this WebSocket")
            self._has_receiver = True
        try:
            end = None if seconds is None else self._now() + seconds
            is_late = self._has_pong_reader and not await self._wait_for_turn(end)
            while True:
                if (self._received.data or self._is_at_end) and not self.inbox.messages:
                    is_late |= await self._parse_in_turns(end)
                if self.inbox.messages:  # nobody else takes them now
                    return self.inbox.pop()
                if self._has_ended:
                    with self._lock:
                        raise self.make_closed_error()
                # is_late: bytes may keep arriving without completing a message.
                if is_late or not await self._receive_more(end):
                    raise ReadTimeout(
                        f"{self.response.request}: no message arrived within {seconds} s",
                        response=self.response,
                        request_sent=True,
                    )
                is_late = end is not None and self._now() >= end
        finally:
            self._has_receiver = False
            if self._pong_waiters:
                self._wake_pong_waiters()

    async def _parse_in_turns(self, end: float | None, ping: SentPing | None = None) -> bool:
        """Parse up to the next message, and let other tasks run in between.

        Args:
            end: when the time is up, or None.
            ping: parse up to its pong instead, as long as there is room for messages.

        Returns:
            True if the time is up before all is parsed: a flood of pings takes long.
        """
        turn_ends = self._now() + _TURN
        while True:
            with self._lock:
                self._parse()
                if ping is None:
                    is_enough = bool(self.inbox.messages) and not self.inbox.discards
                else:
                    is_enough = ping.latency is not None or self._is_full
                if not self._received.data or is_enough or self._has_ended:
                    return False
            if self._is_overdue():
                return False
            now = self._now()
            if now >= turn_ends:
                if end is not None and now >= end:
                    return True
                await self._make_waiter().wait(0)
                turn_ends = self._now() + _TURN

    async def _receive_more(self, end: float | None) -> bool:
        """Wait for bytes, or for the end; return False if neither came in time."""
        limit, until = None, end
        if not self._is_open:
            limit = self._get_close_deadline()
            until = limit if end is None or (limit is not None and limit < end) else end
            if self._is_overdue():  # the server keeps sending instead of closing its side
                return self._finish_in_lock(None)
        left = None if until is None else max(0.0, until - self._now())
        is_behind = self._is_behind and self._stream.unsent() > 0
        if is_behind:
            left = _FLUSH_INTERVAL if left is None else min(left, _FLUSH_INTERVAL)
        try:
            data = await self._stream.receive(left)
        except RequestException as error:
            return self._finish_in_lock(error)
        with self._lock:
            if is_behind:
                self._flush()
            if (
                data
                and self._is_open
                and not (self._has_ended or self._is_behind)
                and self.heartbeat.pending_ping is None
                and self.protocol.current_size is None
                and (whole := self._received.take_whole(data)) is not None
            ):  # as most messages come; the code below does the same, in twice the time
                wrong = self.inbox.add_message(whole, is_text=data[0] == TEXT)
                if wrong is not None:
                    self._fail(*wrong)
                    self._flush()
            elif data is not None:
                self._add_received(data)
                if data and not self._has_ended:
                    self._parse_slice()
            elif is_behind and (until is None or self._now() < until):
                return True  # the wait was shorter, to flush
            elif until is limit:
                self._finish(None)  # the server did not close its side in time
            return data is not None or self._has_ended

    # waiting for a pong: the caller reads, unless another one does

    async def wait_for_pong(self, ping: SentPing, seconds: float | None) -> float:
        """Return how many seconds after a ping its pong arrived; keep messages for `receive`.

        Raises:
            ReadTimeout: it did not arrive in so many seconds.
            WebSocketClosed: it will not arrive.
        """
        end = None if seconds is None else self._now() + seconds
        is_late = False
        while ping.latency is None:
            if is_late:
                where = "; receive the messages in front of it" if self._is_full else ""
                raise ReadTimeout(
                    f"{self.response.request}: no pong arrived within {seconds} s{where}",
                    response=self.response,
                    request_sent=True,
                )
            with self._lock:
                if self._has_ended:
                    raise self.make_closed_error()
                reads = not (self._has_receiver or self._has_pong_reader or self._is_full)
                self._has_pong_reader |= reads
            if reads:
                await self._read_until_pong(ping, end)
            else:
                await self._wait_for_others(ping, end)
            is_late = end is not None and self._now() >= end
        return ping.latency

    @property
    def _is_full(self) -> bool:
        """Return whether there are so many unread messages that no pong is read behind them."""
        return self.inbox.size > _MAX_AHEAD

    async def _read_until_pong(self, ping: SentPing, end: float | None) -> None:
        """Read until a pong arrives, the time is up, or another caller wants to read."""
        try:
            while not (self._has_receiver or self._is_full):
                is_late = False
                if self._received.data or self._is_at_end:
                    is_late = await self._parse_in_turns(end, ping)
                if is_late or ping.latency is not None or self._has_ended:
                    break
                if not await self._receive_more(end):
                    break
        finally:
            self._has_pong_reader = False
            if (waiter := self._turn_waiter) is not None:
                waiter.wake()
            self._wake_pong_waiters()

    async def _wait_for_others(self, ping: SentPing, end: float | None) -> None:
        """Wait until another caller has read a pong, or reads no longer."""
        waiter = self._make_waiter()
        self._pong_waiters.add(waiter)
        try:
            left = None if end is None else max(0.0, end - self._now())
            if self._is_full:  # nobody says when a message was taken
                left = _FULL_INTERVAL if left is None else min(left, _FULL_INTERVAL)
            elif not (self._has_receiver or self._has_pong_reader):
                return
            if ping.latency is None and not self._has_ended:
                await waiter.wait(left)
        finally:
            self._pong_waiters.discard(waiter)

    async def _wait_for_turn(self, end: float | None) -> bool:
        """Wait while a caller that waits for a pong reads; return False if the time is up."""
        try:
            while True:
                waiter = self._turn_waiter = self._make_waiter()
                if not self._has_pong_reader or self._has_ended:
                    return True
                limit = self._get_close_deadline()
                until = limit if end is None or (limit is not None and limit < end) else end
                left = None if until is None else until - self._now()
                if left is not None and left <= 0:
                    return False
                await waiter.wait(left)
        finally:
            self._turn_waiter = None

    def _wake_pong_waiters(self) -> None:
        for waiter in tuple(self._pong_waiters):
            waiter.wake()

    def _finish_in_lock(self, error: RequestException | None) -> bool:
        with self._lock:
            self._finish(error)
        return True

    def _get_close_deadline(self) -> float | None:
        """Return the time by which a closing WebSocket must end, or None."""
        if self._is_open or self.settings.close_timeout is None:
            return None
        if self._closing_since is None:
            self._closing_since = self._now()
        return self._closing_since + self.settings.close_timeout

    def _is_overdue(self) -> bool:
        limit = self._get_close_deadline()
        return limit is not None and self._now() > limit

    # with the lock held

    def _add_received(self, data: bytes) -> None:
        """Add received bytes; b"" means that no more will arrive."""
        if self.heartbeat.pending_ping is not None:
            self.heartbeat.last_received = self._now()
        if data:
            self._received.add(data)
        else:
            self._is_at_end = True

    def _parse(self) -> None:
        """Parse a slice of the received bytes."""
        if self._received.data and not self._has_ended:
            self._parse_slice()
        if self._is_at_end and not self._received.data:
            self._finish(None)

    def _parse_slice(self) -> None:
        protocol, received, left = self.protocol, self._received, _SLICE
        flushes = self._is_behind
        while left > 0 and received.data:
            is_plain = self._is_open and protocol.current_size is None
            first, data = received.take(left, messages=is_plain)
            left -= len(data) + 2  # the smallest head, so that empty messages count
            if first:
                wrong = self.inbox.add_message(bytes(data), is_text=first == TEXT)
                if wrong is not None:
                    self._fail(*wrong)
                    flushes = True
            elif data:
                protocol.receive_data(bytes(data))
                for frame in protocol.events_received():
                    self._on_frame(frame)  # type: ignore[arg-type]  # the handshake is done
                self._is_open = protocol.state is State.OPEN
                flushes = True
        if flushes:
            self._flush()

    def _on_frame(self, frame: Frame) -> None:
        opcode = frame.opcode
        if opcode in _DATA:
            wrong = self.inbox.add(frame)
            if wrong is not None:
                self._fail(*wrong)
        elif opcode is _PING:
            self._pending_pong = bytes(frame.data)
            if not self._stream.unsent():
                self._answer_ping()
        elif opcode is _PONG:
            self._on_pong(bytes(frame.data))

    def _on_pong(self, data: bytes) -> None:
        """Note a pong. It also answers all earlier pings (RFC 6455, section 5.5.3)."""
        pings = list(self._pings.items())
        place = next((at for at, (_, ping) in enumerate(pings) if ping.data == data), None)
        if place is None:
            return  # nobody has asked for it, or nobody is interested any more
        now = self._now()
        for number, ping in pings[: place + 1]:
            ping.latency = now - ping.sent_at
            del self._pings[number]
        self.heartbeat.note_pong(now)
        self._wake_pong_waiters()

    def _fail(self, code: int, reason: str) -> None:
        self.protocol.fail(code, reason)
        self._is_open = self.protocol.state is State.OPEN

    def _answer_ping(self) -> None:
        """Answer the last ping, and with it all earlier pings (RFC 6455, section 5.5.3)."""
        data, self._pending_pong = self._pending_pong, None
        if data is not None:
            with suppress(InvalidState):  # the WebSocket has ended
                self.protocol.send_pong(data)

    def _flush(self, frame: bytes = b"") -> None:
        """Write the protocol's pending data and a frame, and retry unsent bytes."""
        if self._has_ended:
            return
        unsent = self._stream.unsent() if self._is_behind else 0
        if not unsent and self._pending_pong is not None:
            self._answer_ping()
        if self.protocol.writes:
            frame = b"".join([*self.protocol.data_to_send(), frame])
        if frame or unsent:
            try:
                self._is_behind = self._stream.write(frame)
                self._written += len(frame)
            except RequestException as error:
                # Bytes received earlier may contain the reason. Receiving will detect the end.
                self._error = self._error or error

    def _finish(self, error: RequestException | None) -> None:
        """Release the connection, once, and wake those who wait for its end."""
        if self._has_ended:
            return
        self._has_ended = True
        self._error = self._error or error
        with suppress(Exception):  # the protocol may have received EOF already
            self.protocol.receive_eof()
        self._is_open = False
        self._received.clear()
        self.response.end(error)
        for waiter in self._end_waiters:
            waiter.wake()
        if (waiting := self._turn_waiter) is not None:
            waiting.wake()
        self._wake_pong_waiters()
        self._on_end(self)

    # sending

    def send(self, message: Message | bytearray | memoryview) -> bool:
        """Send a message.

        Returns:
            Whether to call `drain`, because the system has not accepted all of it, or because so
            much was sent that others should get their turn. Most messages need no such coroutine.

        Raises:
            TypeError: it is neither text nor bytes.
            WebSocketClosed: the WebSocket is closed, or its connection broke.
        """
        if isinstance(message, str):
            first, data = TEXT, message.encode()
        elif isinstance(message, _BYTES):
            first, data = BINARY, bytes(message)
        else:
            raise TypeError(f"a message must be str or bytes, not {type(message).__name__}")
        with self._lock:
            if not self._packs_frames:
                protocol = self.protocol
                self._send(protocol.send_text if first == TEXT else protocol.send_binary, data)
            elif self._is_open and not self._has_ended and self._error is None:
                self._flush(pack_message(first, data))
                if self._error is not None:
                    raise self.make_closed_error()
            else:
                raise self.make_closed_error()
        return self._is_behind or self._written >= self._drains_at

    async def ping(self, data: bytes | None) -> SentPing:
        """Send a ping, with 8 random bytes if the data is None; see `send`."""
        if data is None:
            data = os.urandom(8)
        elif not isinstance(cast(object, data), _BYTES):
            raise TypeError(f"the data of a ping must be bytes, not {type(data).__name__}")
        data = bytes(data)
        if len(data) > 125:
            raise ValueError(f"a ping must have at most 125 bytes, not {len(data)}")
        with self._lock:
            ping = self._add_ping(SentPing(data, self._now()))
            self._send(self.protocol.send_ping, data)
        await self.drain()
        return ping

    def _add_ping(self, ping: SentPing) -> SentPing:
        self._ping_count += 1
        self._pings[self._ping_count] = ping
        return ping

    def _send(self, send: Callable[[bytes], object], data: bytes) -> None:
        if self._has_ended or self._error is not None:
            raise self.make_closed_error()
        try:
            send(data)
        except InvalidState:
            raise self.make_closed_error() from None
        self._flush()
        if self._error is not None:
            raise self.make_closed_error()

    async def drain(self) -> None:
        """Wait until the system has accepted all that was sent; let others have their turn.

        Raises:
            WebSocketClosed: the connection broke.
            WriteTimeout: the server accepted no bytes for too long.
        """
        self._drains_at = self._written + _DRAIN_EVERY
        limit, sent = self.response.request.timeout.write, self._sent()
        try:
            while not await self._stream.drain(limit):
                before, sent = sent, self._sent()
                if sent == before:
                    break
            else:
                return
        except RequestException as error:
            with self._lock:
                self._error = self._error or error
                raise self.make_closed_error() from None
        raise WriteTimeout(
            f"{self.response.request}: the server accepted no bytes for {limit} s",
            response=self.response,
            request_sent=True,
        )

    def _sent(self) -> int:
        return self._written - self._stream.unsent()

    # the end

    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket, and wait for the server's close frame (RFC 6455, section 7.1.2).

        Raises:
            ValueError: the code or the reason is invalid.
        """
        _check_close(code, reason)
        with self._lock:
            self._begin_to_close(code, reason)
            self.inbox.discards = True
            is_mine = not self._has_receiver
            self._has_receiver = True
            waiter = None
            if not is_mine and not self._has_ended:
                self._end_waiters.append(waiter := self._make_waiter())
        try:
            if waiter is not None:
                await waiter.wait(self.settings.close_timeout)
            elif self._has_pong_reader and not await self._wait_for_turn(None):
                return
            while not self._has_ended and is_mine:
                await self._parse_in_turns(None)
                if not self._has_ended:
                    await self._receive_more(None)
        finally:
            if is_mine:
                self._has_receiver = False
            self.abort()

    def _begin_to_close(self, code: int, reason: str) -> None:
        if not self._has_ended and self._is_open:
            self.protocol.send_close(code, reason)
            self._is_open = False
            self._is_closed_by_us = True
            self._closing_since = self._now()
            self._flush()

    def abort(self, code: int | None = None) -> None:
        """Close the connection at once; with a code, send a close frame first."""
        with self._lock:
            if code is not None:
                self._begin_to_close(code, "")
            self._finish(None)

    @property
    def has_ended(self) -> bool:
        """Return whether the connection is closed."""
        return self._has_ended

    @property
    def code(self) -> int:
        """Return the close code: the server's, else ours, else 1006."""
        protocol = self.protocol
        close = protocol.close_rcvd or protocol.close_sent
        return _ABNORMAL if close is None else int(close.code)

    @property
    def reason(self) -> str:
        """Return the reason that belongs to the close code."""
        return getattr(self.protocol.close_rcvd or self.protocol.close_sent, "reason", "")

    def make_closed_error(self) -> RequestException:
        """Return the exception for using a WebSocket that is closed or closing."""
        if isinstance(self._error, ClientClosed):
            return self._error
        protocol = self.protocol
        received, sent = protocol.close_rcvd, protocol.close_sent
        if received is not None:
            what = f"the server closed the WebSocket with {_format_close(received)}"
        elif sent is not None and self._is_closed_by_us:
            what = f"the WebSocket was closed with {_format_close(sent)}"
        elif sent is not None:
            what = f"the WebSocket was closed after an error, with {_format_close(sent)}"
            if sent.code == _TOO_BIG:
                what += "; max_size= allows larger messages"
        else:
            what = "the connection of the WebSocket ended without a close frame"
        error = WebSocketClosed(
            f"{self.response.request}: {what}",
            response=self.response,
            request_sent=True,
            code=self.code,
            reason=self.reason,
        )
        error.__cause__ = self._error
        return error

    @property
    def is_normal_end(self) -> bool:
        """Return whether both sides sent a close frame without an error."""
        received, sent = self.protocol.close_rcvd, self.protocol.close_sent
        normal = (_NORMAL, _GONE, 1005)
        return bool(received and sent and received.code in normal and sent.code in normal)

    # keepalive, called by the WebSocketRegistry

    def attend(self, now: float) -> float:
        """Read if there is no receiver, answer pings, and send a keepalive ping if one is due.

        Args:
            now: monotonic seconds.

        Returns:
            When to call this again, in monotonic seconds.
        """
        with self._lock:
            if self._has_ended:
                return now + 3600
            self._flush()  # bytes that are still unsent
            is_read = self._has_receiver or self._has_pong_reader
            has_read_all = is_read or self._read_ahead()
            if not self._has_ended:
                self._keep_alive(now, has_read_all)
            if not (self._has_ended or is_read) and self._is_overdue():
                self._finish(None)
            if is_read and not self._stream.unsent():
                return self.heartbeat.due
            return (
                min(self.heartbeat.due, now + 1.0) if has_read_all or not self._has_room() else now
            )

    def _read_ahead(self) -> bool:
        """Read what has arrived, within limits; return whether that was everything."""
        turn_ends = self._now() + _TURN
        try:
            while self._has_room() and not self._has_ended:
                self._parse()  # also bytes that arrived with the handshake
                if not (self._received.data or self._has_ended):
                    data = self._stream.receive_now()
                    if data is None:
                        return True
                    self._add_received(data)
                if self._now() >= turn_ends:
                    break
        except RequestException as error:
            self._finish(error)
        return False

    def _has_room(self) -> bool:
        """Return whether more may be read without a receiver."""
        protocol = self.protocol
        unfinished = len(protocol.reader.buffer) + (protocol.current_size or 0)
        unfinished += self._received.held
        return self.inbox.size + unfinished <= _MAX_AHEAD

    def _keep_alive(self, now: float, has_read_all: bool) -> None:
        if self.heartbeat.is_silent(now, has_read_all=has_read_all):
            self._fail(_FAILED, f"no pong within {self.settings.ping_timeout:g} s")
            self._flush()
            self._finish(None)
        elif self._is_open and (ping := self.heartbeat.make_ping(now)) is not None:
            self.protocol.send_ping(self._add_ping(ping).data)
            self._flush()


def _format_close(close: object) -> str:
    """Return a close frame as text for a message. Its reason may contain anything."""
    return display_text(" ".join(map(redact_text, str(close).split(" "))))


def _check_close(code: int, reason: str) -> None:
    if isinstance(code, bool) or not isinstance(code, int):
        raise TypeError(f"a close code must be a number, not {type(code).__name__}")
    if not (3000 <= code <= 4999 or code in {1000, 1001, 1002, 1003, *range(1007, 1015)}):
        raise ValueError(f"the close code {code} must not be sent (RFC 6455, section 7.4)")
    if len(reason.encode()) > 123:
        raise ValueError("the reason for closing must have at most 123 bytes")
