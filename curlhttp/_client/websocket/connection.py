"""An open WebSocket, for both clients: messages in, messages out, and how it ends.

The package `websockets` speaks the protocol without I/O; frames.py skips it for whole messages.
Coroutines here suspend only in the stream and in waiters, so that the blocking client runs them
with one send(None). A lock keeps threads apart, and none of them holds it while it waits.
"""

from __future__ import annotations

import codecs
import struct
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, TypeAlias

from websockets.exceptions import InvalidState
from websockets.frames import Opcode
from websockets.protocol import State

from curlhttp._client.websocket.frames import BINARY, TEXT, FrameBuffer, pack_message
from curlhttp._client.websocket.handshake import Settings
from curlhttp._engine.engine import MakeWaiter, Waiter
from curlhttp._flow.upgrade import Upgraded
from curlhttp._models.decoding import Parts
from curlhttp._models.fork import register
from curlhttp._models.redaction import display_text, redact_text
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

# --- Keepalive: when to send a ping, and when to give up on a server; sends and reads nothing ---


class Heartbeat:
    """The keepalive pings of one WebSocket.

    Args:
        interval: seconds from a pong to the next ping, or None for none.
        limit: seconds that the server may be silent after a ping, or None for any time.
        now: monotonic.

    Attributes:
        latency: seconds from the last ping to its pong, or None.
        heard_at: the monotonic time when the server was heard last.
        due: the monotonic time of the next ping, or of the next look whether there was a pong.
    """

    def __init__(self, interval: float | None, limit: float | None, now: float) -> None:
        self.latency: float | None = None
        self.heard_at: float = now
        self.due: float = now + (interval or 0.0)
        self._interval = interval
        self._limit = limit
        self._count = 0
        self._waits_for: tuple[bytes, float] | None = None  # a ping without its pong, and since

    def ping(self, now: float) -> bytes | None:
        """Return what a ping has to say that is to be sent now, or None."""
        if self._interval is None or self._waits_for is not None or now < self.due:
            return None
        self._count += 1
        data = struct.pack("!I", self._count)
        self._waits_for = data, now
        self.due = now + (self._interval if self._limit is None else self._limit)
        return data

    def is_silent(self, now: float, *, looks: bool) -> bool:
        """Return whether the server has been silent for too long.

        Args:
            now: monotonic.
            looks: all that came was read: else a pong may wait behind what nobody takes.
        """
        if self._waits_for is None or self._limit is None:
            return False
        if not looks:
            self.heard_at = now
        # Anything that it sends will do: a pong may be behind a long message.
        silent_at = max(self._waits_for[1], self.heard_at) + self._limit
        self.due = max(self.due, silent_at)
        return now >= silent_at

    def pong(self, data: bytes, now: float) -> None:
        """Take a pong; one may answer several pings (RFC 6455, section 5.5.3)."""
        if self._waits_for is not None and data == self._waits_for[0]:
            self.latency = now - self._waits_for[1]
            self._waits_for = None
            self.due = now + (self._interval or 0.0)


# --- From frames to messages: pieces are put together, text is decoded, and both are counted ---

Message: TypeAlias = str | bytes

_BINARY = Opcode.BINARY
_OVERHEAD = 64  # bytes of an empty message
_MOST_EMPTY = 10_000  # pieces without data in a message
_INVALID, _VIOLATION = 1007, 1008  # close codes


class MessageBuffer:
    """The messages that came in, and were not asked for yet.

    Attributes:
        messages: oldest first.
        size: bytes, or characters, of them together, about.
        discards: nobody wants messages any more.
    """

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.size: int = 0
        self.discards = False
        self._parts: Parts[bytes] = Parts()  # of a message whose end is missing
        self._texts: Parts[str] = Parts()  # likewise, if it is text
        self._empty = 0  # its pieces without data
        self._decoder: codecs.IncrementalDecoder | None = None  # of its pieces

    def pop(self) -> Message:
        """Take the oldest message out."""
        message = self.messages.popleft()
        self.size -= len(message) + _OVERHEAD
        return message

    def add(self, frame: Frame) -> tuple[int, str] | None:
        """Take a frame of data, whose place is right; return why to close if it is wrong."""
        opcode, data = frame.opcode, bytes(frame.data)
        try:
            if opcode is Opcode.CONT or not frame.fin:
                if opcode is not Opcode.CONT:
                    self._decoder = None if opcode is _BINARY else _new_decoder()
                    self._empty = 0
                if not data and not frame.fin:
                    # max_size does not count them: they could go on for ever.
                    self._empty += 1
                    if self._empty > _MOST_EMPTY:
                        return _VIOLATION, "too many pieces of a message without data"
                self._add_piece(data, frame.fin)
            else:
                # Most messages are one frame.
                self._put(data if opcode is _BINARY else str(data, "utf-8"))
        except UnicodeDecodeError:
            return _INVALID, "a text message is not UTF-8"
        return None

    def add_message(self, data: bytes, *, is_text: bool) -> tuple[int, str] | None:
        """Add a whole message; return why to close if it is invalid."""
        try:
            self._put(str(data, "utf-8") if is_text else data)
        except UnicodeDecodeError:
            return _INVALID, "a text message is not UTF-8"
        return None

    def _add_piece(self, data: bytes, is_last: bool) -> None:
        decoder = self._decoder
        if decoder is not None:
            text = decoder.decode(data, is_last)
            if is_last:
                self._put(self._texts.take(text))
            elif text:
                self._texts.add(text)
        elif is_last:
            self._put(self._parts.take(data))
        elif data:
            self._parts.add(data)

    def _put(self, message: Message) -> None:
        if not self.discards:
            self.messages.append(message)
            self.size += len(message) + _OVERHEAD


def _new_decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")()


# Bytes parsed at once: they may be compressed a thousand times, or be thousands of empty frames.
_SLICE = 16 * 1024
_MOST_AHEAD = 64 * 1024  # bytes of messages that are read before anybody asks for them
_TURN = 0.02  # seconds of parsing after which other tasks have their turn
_PUSH_EVERY = 0.1  # seconds between two tries to send what the server did not take
_DATA, _PING, _PONG = (Opcode.TEXT, Opcode.BINARY, Opcode.CONT), Opcode.PING, Opcode.PONG
_ABNORMAL, _NORMAL, _GONE, _FAILED = 1006, 1000, 1001, 1011


class WebSocketConnection:
    """Read and write the messages, pings and close frames of one WebSocket.

    Args:
        response: that of the server, with the stream.
        protocol: has agreed with the server.
        settings: what the caller wants.
        now: gives monotonic seconds.
        make_waiter: makes a waiter of the engine.
        lock: keeps threads apart; may be acquired again by its owner.
        on_end: called once, when it has ended.
    """

    def __init__(
        self,
        response: Upgraded,
        protocol: ClientProtocol,
        settings: Settings,
        *,
        now: Callable[[], float],
        make_waiter: MakeWaiter,
        lock: AbstractContextManager[object],
        on_end: Callable[[WebSocketConnection], object],
    ) -> None:
        self.response = response
        self.protocol = protocol
        self.settings = settings
        self._stream = response.stream
        self._now = now
        self._make_waiter = make_waiter
        self._lock = lock
        self._on_end = on_end
        self._received = FrameBuffer(response.rest, settings.max_size)
        self._packs = not protocol.extensions  # messages go out as they are
        self._late_pong: bytes | None = None  # has to wait until the server takes more
        self._written = 0  # bytes
        self.inbox: MessageBuffer = MessageBuffer()
        self._is_at_end = False  # the server sends no more bytes
        self._receives = False
        self._enders: list[Waiter] = []  # of callers that wait for the end
        self._has_ended = False
        self._error: RequestException | None = None  # what the connection broke with
        self._is_our_end = False  # the caller closes it
        self._closing_since: float | None = None
        self.heartbeat: Heartbeat = Heartbeat(settings.ping_interval, settings.ping_timeout, now())
        register(self)

    def after_fork_in_child(self) -> None:
        """Renew the lock, which a thread that is not here may have had."""
        self._lock = type(self._lock)()

    # receiving

    async def receive(self, seconds: float | None) -> Message:
        """Return the next message.

        Raises:
            ReadTimeout: there was none for so many seconds.
            WebSocketClosed: there are no more.
            RuntimeError: somebody else receives.
        """
        with self._lock:
            if self.inbox.messages:
                return self.inbox.pop()
            if self._receives:
                raise RuntimeError("another caller receives on this WebSocket already")
            self._receives = True
        try:
            end = None if seconds is None else self._now() + seconds
            is_late = False
            while True:
                if self._received or self._is_at_end:
                    await self._parse_in_turns()
                with self._lock:
                    if self.inbox.messages:
                        return self.inbox.pop()
                    if self._has_ended:
                        raise self.closed()
                # Bytes may come without end, and no message with them.
                if is_late or not await self._receive_more(end):
                    raise ReadTimeout(
                        f"{self.response.request}: no message came within {seconds} s",
                        response=self.response,
                        request_sent=True,
                    )
                is_late = end is not None and self._now() >= end
        finally:
            self._receives = False

    async def _parse_in_turns(self) -> None:
        """Parse up to the next message, and let other tasks have their turn meanwhile."""
        turn_ends = self._now() + _TURN
        while True:
            with self._lock:
                self._parse()
                is_enough = self.inbox.messages and not self.inbox.discards
                if not self._received or is_enough or self._has_ended:
                    return
            if self._is_overdue():
                return
            if self._now() >= turn_ends:
                await self._make_waiter().wait(0)
                turn_ends = self._now() + _TURN

    async def _receive_more(self, end: float | None) -> bool:
        """Wait for bytes, or for the end; return False if neither came in time."""
        limit = self._last_moment()
        until = limit if end is None or (limit is not None and limit < end) else end
        if self._is_overdue():  # the server neither closes its side nor is silent
            return self._finish_in_lock(None)
        left = None if until is None else max(0.0, until - self._now())
        is_behind = self._stream.unsent() > 0
        if is_behind:
            left = _PUSH_EVERY if left is None else min(left, _PUSH_EVERY)
        try:
            data = await self._stream.receive(left)
        except RequestException as error:
            return self._finish_in_lock(error)
        with self._lock:
            if is_behind:
                self._flush()
            if data is not None:
                self._take(data)
            elif is_behind and (until is None or self._now() < until):
                return True  # it waited for less
            elif until is limit:
                self._finish(None)  # the server does not close its side
            return data is not None or self._has_ended

    def _finish_in_lock(self, error: RequestException | None) -> bool:
        with self._lock:
            self._finish(error)
        return True

    def _last_moment(self) -> float | None:
        """Return when a WebSocket that is closing has to have ended."""
        if self.protocol.state is State.OPEN or self.settings.close_timeout is None:
            return None
        if self._closing_since is None:
            self._closing_since = self._now()
        return self._closing_since + self.settings.close_timeout

    def _is_overdue(self) -> bool:
        limit = self._last_moment()
        return limit is not None and self._now() > limit

    # with the lock held

    def _take(self, data: bytes) -> None:
        """Take what was received, b"" for the end of it."""
        self.heartbeat.heard_at = self._now()
        if data:
            self._received.add(data)
        else:
            self._is_at_end = True

    def _parse(self) -> None:
        """Parse a slice of what was received."""
        if self._received and not self._has_ended:
            self._parse_slice()
        if self._is_at_end and not self._received:
            self._finish(None)

    def _parse_slice(self) -> None:
        protocol, received, left = self.protocol, self._received, _SLICE
        flushes = self._stream.unsent() > 0
        while left > 0 and received:
            is_plain = protocol.state is State.OPEN and protocol.current_size is None
            first, data = received.take(left, messages=is_plain)
            left -= len(data) + 2
            if first:
                wrong = self.inbox.add_message(bytes(data), is_text=first == TEXT)
                if wrong is not None:
                    protocol.fail(*wrong)
                    flushes = True
            elif data:
                protocol.receive_data(bytes(data))
                for frame in protocol.events_received():
                    self._on_frame(frame)  # type: ignore[arg-type]  # the handshake is done
                flushes = True
        if flushes:
            self._flush()

    def _on_frame(self, frame: Frame) -> None:
        opcode = frame.opcode
        if opcode in _DATA:
            wrong = self.inbox.add(frame)
            if wrong is not None:
                self.protocol.fail(*wrong)
        elif opcode is _PING:
            self._late_pong = bytes(frame.data)
            if not self._stream.unsent():
                self._answer_ping()
        elif opcode is _PONG:
            self.heartbeat.pong(bytes(frame.data), self._now())

    def _answer_ping(self) -> None:
        """Answer the last ping, and those before it (RFC 6455, section 5.5.3)."""
        data, self._late_pong = self._late_pong, None
        if data is not None:
            with suppress(InvalidState):  # it has ended
                self.protocol.send_pong(data)

    def _flush(self, frame: bytes = b"") -> None:
        """Write what the protocol has to send, a frame, and what the server did not take before."""
        if self._has_ended:
            return
        unsent = self._stream.unsent()
        if not unsent:
            self._answer_ping()
        pending = self.protocol.data_to_send()
        data = b"".join([*pending, frame]) if pending else frame
        if data or unsent:
            try:
                self._stream.write(data)
                self._written += len(data)
            except RequestException as error:
                # What was received before may tell why: receiving will notice the end.
                self._error = self._error or error

    def _finish(self, error: RequestException | None) -> None:
        """Note that the connection is no more, and let go of it; once."""
        if self._has_ended:
            return
        self._has_ended = True
        self._error = self._error or error
        with suppress(Exception):  # it has seen the end already
            self.protocol.receive_eof()
        self._received.clear()
        self.response.end(error)
        for waiter in self._enders:
            waiter.wake()
        self._on_end(self)

    # sending

    async def send(self, message: Message | bytearray | memoryview) -> None:
        """Send a message; return when the system has taken all of it.

        Raises:
            TypeError: it is neither text nor bytes.
            WebSocketClosed: it cannot be sent any more.
        """
        if isinstance(message, str):
            first, data = TEXT, message.encode()
        elif isinstance(message, (bytes, bytearray, memoryview)):
            first, data = BINARY, bytes(message)
        else:
            raise TypeError(f"a message is str or bytes, not {type(message).__name__}")
        with self._lock:
            if self._packs:
                self._send_frame(pack_message(first, data))
            else:
                protocol = self.protocol
                self._send(protocol.send_text if first == TEXT else protocol.send_binary, data)
        await self._drain()

    def _send_frame(self, frame: bytes) -> None:
        if self._has_ended or self._error is not None or self.protocol.state is not State.OPEN:
            raise self.closed()
        self._flush(frame)
        if self._error is not None:
            raise self.closed()

    async def ping(self, data: bytes) -> None:
        """Send a ping; see `send`."""
        if len(data) > 125:
            raise ValueError(f"a ping has 125 bytes at most, not {len(data)}")
        with self._lock:
            self._send(self.protocol.send_ping, data)
        await self._drain()

    def _send(self, send: Callable[[bytes], object], data: bytes) -> None:
        if self._has_ended or self._error is not None:
            raise self.closed()
        try:
            send(data)
        except InvalidState:
            raise self.closed() from None
        self._flush()
        if self._error is not None:
            raise self.closed()

    async def _drain(self) -> None:
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
                raise self.closed() from None
        raise WriteTimeout(
            f"{self.response.request}: the server took no byte of what was sent for {limit} s",
            response=self.response,
            request_sent=True,
        )

    def _sent(self) -> int:
        return self._written - self._stream.unsent()

    # the end

    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket, and wait for the server to agree (RFC 6455, section 7.1.2).

        Raises:
            ValueError: the code or the reason cannot be sent.
        """
        _check_close(code, reason)
        with self._lock:
            self._begin_to_close(code, reason)
            self.inbox.discards = True
            is_mine = not self._receives
            self._receives = True
            waiter = None
            if not is_mine and not self._has_ended:
                self._enders.append(waiter := self._make_waiter())
        try:
            if waiter is not None:
                await waiter.wait(self.settings.close_timeout)
            while not self._has_ended and is_mine:
                await self._parse_in_turns()
                if not self._has_ended:
                    await self._receive_more(None)
        finally:
            if is_mine:
                self._receives = False
            self.abort()

    def _begin_to_close(self, code: int, reason: str) -> None:
        if not self._has_ended and self.protocol.state is State.OPEN:
            self.protocol.send_close(code, reason)
            self._is_our_end = True
            self._closing_since = self._now()
            self._flush()

    def abort(self, code: int | None = None) -> None:
        """End it at once, after a close frame with a code, if there is one."""
        with self._lock:
            if code is not None:
                self._begin_to_close(code, "")
            self._finish(None)

    @property
    def has_ended(self) -> bool:
        """Return whether the connection is no more."""
        return self._has_ended

    @property
    def code(self) -> int:
        """Return the close code: the server's, else ours, else 1006."""
        protocol = self.protocol
        close = protocol.close_rcvd or protocol.close_sent
        return _ABNORMAL if close is None else int(close.code)

    @property
    def reason(self) -> str:
        """Return the reason that came, or went, with the close code."""
        return getattr(self.protocol.close_rcvd or self.protocol.close_sent, "reason", "")

    def closed(self) -> RequestException:
        """Return the exception for the use of a WebSocket that has ended, or is about to."""
        if isinstance(self._error, ClientClosed):
            return self._error
        protocol = self.protocol
        received, sent = protocol.close_rcvd, protocol.close_sent
        if received is not None:
            what = f"the server closed the WebSocket with {_shown(received)}"
        elif sent is not None and self._is_our_end:
            what = f"the WebSocket was closed with {_shown(sent)}"
        elif sent is not None:
            what = f"the WebSocket had to be closed with {_shown(sent)}"
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
        """Return whether both sides agreed on an end without an error."""
        received, sent = self.protocol.close_rcvd, self.protocol.close_sent
        normal = (_NORMAL, _GONE, 1005)
        return bool(received and sent and received.code in normal and sent.code in normal)

    # while nobody receives: pings and pongs

    def attend(self, now: float) -> float:
        """Do what is due: read if nobody does, answer pings, send ours; return when to come again.

        Args:
            now: monotonic.
        """
        with self._lock:
            if self._has_ended:
                return now + 3600
            self._flush()  # what an earlier caller left behind
            looks = self._receives or self._read_ahead()
            if not self._has_ended:
                self._keep_alive(now, looks)
            if not (self._has_ended or self._receives) and self._is_overdue():
                self._finish(None)
            if self._receives and not self._stream.unsent():
                return self.heartbeat.due
            return min(self.heartbeat.due, now + 1.0) if looks or not self._has_room() else now

    def _read_ahead(self) -> bool:
        """Read what is there, as far as there is room and time; return whether that was all."""
        turn_ends = self._now() + _TURN
        try:
            while self._has_room() and not self._has_ended:
                self._parse()  # also what came with the handshake
                if not (self._received or self._has_ended):
                    data = self._stream.receive_now()
                    if data is None:
                        return True
                    self._take(data)
                if self._now() >= turn_ends:
                    break
        except RequestException as error:
            self._finish(error)
        return False

    def _has_room(self) -> bool:
        """Return whether little enough was read that nobody asked for."""
        protocol = self.protocol
        unfinished = len(protocol.reader.buffer) + (protocol.current_size or 0)
        unfinished += self._received.held
        return self.inbox.size + unfinished <= _MOST_AHEAD

    def _keep_alive(self, now: float, looks: bool) -> None:
        if self.heartbeat.is_silent(now, looks=looks):
            self.protocol.fail(_FAILED, f"no pong within {self.settings.ping_timeout:g} s")
            self._flush()
            self._finish(None)
        elif self.protocol.state is State.OPEN and (data := self.heartbeat.ping(now)) is not None:
            self.protocol.send_ping(data)
            self._flush()


def _shown(close: object) -> str:
    """Return a close frame for a message: its reason may be anything."""
    return display_text(" ".join(map(redact_text, str(close).split(" "))))


def _check_close(code: int, reason: str) -> None:
    if isinstance(code, bool) or not isinstance(code, int):
        raise TypeError(f"a close code is a number, not {type(code).__name__}")
    if not (3000 <= code <= 4999 or code in {1000, 1001, 1002, 1003, *range(1007, 1015)}):
        raise ValueError(f"the close code {code} cannot be sent (RFC 6455, section 7.4)")
    if len(reason.encode()) > 123:
        raise ValueError("the reason for closing has 123 bytes at most")
