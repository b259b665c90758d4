"""Send a request that asks to switch protocols (101); return the reply and the connection.

This module writes and parses HTTP/1.1 on a connection of the engine (RFC 9110, section 7.8). It
does not know the other protocol.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from curlhttp._client.exchange import prepare, record_head, send_logged
from curlhttp._http.decoding import decode_content
from curlhttp._http.headers import ANNOUNCES_NO_BODY, Headers, parse_length
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head, Response
from curlhttp._http.timings import Timings, add_waits
from curlhttp._runtime.engine import (
    ByteStream,
    Connector,
    Engine,
    Send,
    to_connector,
)
from curlhttp._runtime.log import INFO, log
from curlhttp._runtime.outcomes import Outcomes
from curlhttp.exceptions import (
    ConnectionError,
    DeadlineExceeded,
    ReadTimeout,
    RemoteProtocolError,
    RequestException,
    WriteTimeout,
)

if TYPE_CHECKING:
    from curlhttp._client.transport import WrapsAttempts

_MAX_HEAD = 64 * 1024  # bytes of all heads up to the final one
_MAX_BODY = 64 * 1024  # bytes to read of a refusal
_BODY_SECONDS = 5.0  # for the body of a refusal
_POLL_SECONDS = 0.1  # between two checks for a response while the request is sent
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n").search
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n").match
_LINE_ENDS = re.compile(rb"[\r\n]*").match
_MAX_CHUNK_LINE = 4096  # bytes before a chunk
_FRAMING = (b"content-length", b"transfer-encoding", b"proxy-authorization")


class Upgraded(Response):
    """A response that switches protocols, with its connection.

    Attributes:
        stream: the connection.
        rest: bytes of the new protocol that came with the head.
    """

    def __init__(self, request: ClientRequest, reply: Reply) -> None:
        super().__init__(request, reply.head, b"", reply.timings)
        self.stream: ByteStream = reply.stream
        self.rest: bytes = reply.rest
        self._listeners: list[Callable[[BaseException | None], object]] = []

    def _at_end(self, notify: Callable[[BaseException | None], object]) -> None:
        """Call notify(error or None) once, when the connection is closed."""
        self._listeners.append(notify)

    def end(self, error: Exception | None = None) -> None:
        """Close the connection, and notify those who wait for its end.

        Args:
            error: that broke the connection, or None.
        """
        self.stream.abort(error)
        self._notify_end(error)

    def _notify_end(self, error: BaseException | None) -> None:
        # Removed first, so that each is called once, even if one raises.
        listeners, self._listeners = getattr(self, "_listeners", ()), []
        for notify in listeners:
            notify(error)

    def close(self) -> None:
        """Close the connection."""
        self.end()

    async def aclose(self) -> None:
        """Close the connection."""
        self.end()

    def abort(self) -> None:
        """Close the connection."""
        self.end()

    async def discard(self) -> None:
        """Close the connection."""
        self.end()

    def __del__(self) -> None:
        # The attribute is missing if __init__ was interrupted. The stream has its own finalizer.
        self._notify_end(None)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "stream": None, "_listeners": []}


def upgrade(
    choose: Callable[[], Engine],
    now: Callable[[], float],
    outcomes: Outcomes | None = None,
    wrappers: tuple[WrapsAttempts, ...] = (),
) -> Send:
    """Return the last step for requests that ask for another protocol.

    It returns an Upgraded for status 101, and otherwise a buffered response.

    Args:
        choose: returns the engine.
        now: returns monotonic seconds.
        outcomes: of the client, which count the responses; engines count failed connections.
            None to count nothing.
        wrappers: of the client, innermost first.
    """

    def send(request: ClientRequest) -> Awaitable[Response]:
        prepare(request, now)
        if request.route.negotiate:
            raise ValueError("Negotiate is done by libcurl, which cannot send an upgrade request")
        engine = choose()

        def connect(request: ClientRequest) -> Awaitable[Response]:
            return _upgrade(to_connector(engine), request, now, outcomes)

        last: Send = connect
        if wrappers:
            from curlhttp._client.around import wrap_all

            last = wrap_all(wrappers, connect, engine.runtime)
        if log.is_enabled_for(INFO):
            return send_logged(request, last)
        return last(request)

    return send


async def _upgrade(
    engine: Connector,
    request: ClientRequest,
    now: Callable[[], float],
    outcomes: Outcomes | None,
) -> Response:
    reply = await send_upgrade(engine, request, now, outcomes)
    if reply.has_switched:
        return Upgraded(request, reply)
    try:
        response = Response(request, reply.head, b"", reply.timings)
        response._content = _decode(response, await reply.body())
    finally:
        reply.stream.abort()
    return response


async def send_upgrade(
    engine: Connector,
    request: ClientRequest,
    now: Callable[[], float],
    outcomes: Outcomes | None = None,
) -> Reply:
    """Send a request for another protocol on a new connection; return the reply.

    Args:
        engine: opens the connection.
        request: complete; its body is in memory.
        now: returns monotonic seconds.
        outcomes: count what follows the connection; or None.

    Raises:
        RequestException: no response was received.
    """
    try:
        stream = await engine.connect(request)
    except RequestException as error:
        error.request = request  # instead of the engine's copy
        raise
    try:
        reply = Reply(stream, request, now)
        head = _build_head(request)
        record_head(request, ">", head)
        stream.write(head if request.body is None else head + (request.body.data or b""))
        await reply.receive_head()
        record_head(request, "<", reply.head.block)
    except BaseException as error:
        stream.abort()
        if isinstance(error, RequestException):
            error.request, error.request_sent, error.timings = request, True, stream.timings()
        if outcomes is not None:
            outcomes.add_failure(request.url.origin, error, "server", stream.timings())
        raise
    if outcomes is not None:
        outcomes.add_response(request.url.origin, reply.head.status_code, reply.timings)
    return reply


def _build_head(request: ClientRequest) -> bytes:
    """Return the head of a request (RFC 9112, section 3)."""
    lines = [" ".join((request.method, request.url.target, "HTTP/1.1")).encode("ascii")]
    if request.get_header("host") is None:
        lines.append(b"Host: " + request.url.authority.encode("ascii"))
    for line in request.header_lines():
        name = line.partition(b":")[0]
        if name.lower() not in _FRAMING:
            # "Name;" is an empty value in libcurl's format.
            lines.append(line if name != line else line[:-1] + b":")
    body = request.body
    if body is not None or request.method in ANNOUNCES_NO_BODY:
        lines.append(b"Content-Length: %d" % (0 if body is None else body.length or 0))
    return b"\r\n".join([*lines, b"", b""])


class Reply:
    """Read the reply to an upgrade request from the connection, head first.

    Attributes:
        stream: the connection, which the owner of the reply aborts.
        head: the final head, after receive_head().
        timings: those of the connection, with the time until the final head.
        rest: bytes that were received but not parsed; after a 101, of the new protocol.
    """

    head: Head

    def __init__(
        self, stream: ByteStream, request: ClientRequest, now: Callable[[], float]
    ) -> None:
        self.stream: ByteStream = stream
        self.rest: bytes = b""
        self._request = request
        self._now = now
        self._left: int | None = None  # bytes of the body, if known
        self._unchunked: _ChunkedDecoder | None = None
        self._has_bad_length = False
        self._until = math.inf  # when to stop reading a refusal
        self.timings: Timings = add_waits(stream.timings(), request)
        self._begun = now()

    @property
    def has_switched(self) -> bool:
        """Return whether the server has switched protocols: 101, or 2xx to CONNECT."""
        status = self.head.status_code
        return status == 101 or (self._request.method == "CONNECT" and 200 <= status < 300)

    async def receive_head(self) -> None:
        """Read up to the final head.

        Raises:
            RequestException: the response is missing, late or invalid.
        """
        size = 0
        while True:
            while (end := _END_OF_HEAD(self.rest)) is None:
                if size + len(self.rest) > _MAX_HEAD:
                    raise self._make_protocol_error("the response's header block is too large")
                if self.rest and not b"HTTP/1.".startswith(self.rest[:7]):
                    raise self._make_protocol_error(
                        "the response does not begin with a status line"
                    )
                await self._read_more()
            block, self.rest = self.rest[: end.end()], self.rest[end.end() :]
            size += len(block)
            head = Head(block)
            if not head.status_code or not block.startswith(b"HTTP/1."):
                raise self._make_protocol_error("the response does not begin with a status line")
            if head.status_code >= 200 or head.status_code == 101:
                self.head = head
                total = self.timings.total + self._now() - self._begun
                self.timings = self.timings._replace(first_byte=total, total=total)
                if self.has_switched:
                    await self._send_all()
                    self._left = 0
                elif self._request.method == "HEAD":
                    self._left = 0
                else:
                    self._frame(head)
                return
            if size > _MAX_HEAD:
                raise self._make_protocol_error("the response's header block is too large")

    def _frame(self, head: Head) -> None:
        """Note from the head of a refusal where its body ends."""
        if head.status_code in (204, 304):
            self._left = 0
            return
        fields = Headers.from_block(head.block)
        if "chunked" in (fields.get("transfer-encoding") or "").lower():
            self._unchunked = _ChunkedDecoder()
        elif (length := fields.get("content-length")) is not None:
            self._left = _parse_length(length)
            self._has_bad_length = self._left is None

    def length(self) -> int | None:
        """Return how many bytes of the body are left, None if unknown.

        Raises:
            RemoteProtocolError: the Content-Length is invalid.
        """
        if self._has_bad_length:
            error = self._make_protocol_error("the Content-Length is not a number")
            error.broken_part = "content-length"
            raise error
        return self._left

    def _seconds(self, limit: float | None) -> float | None:
        """Return how long to wait: for the limit, but not beyond the deadline."""
        deadline = self._request.deadline
        until = self._until if deadline is None else min(deadline, self._until)
        if until == math.inf:
            return limit
        left = max(0.0, until - self._now())
        return left if limit is None else min(limit, left)

    async def _read_more(self) -> None:
        piece = await self._receive_while_sending()
        if piece is None:
            piece = await self._receive(self._request.timeout.read)
        if not piece:
            if self.rest:
                error = self._make_protocol_error("the response ended within its header block")
                error.broken_part = "head"
                raise error
            empty = ConnectionError(
                f"{self._request}: the server closed the connection without a response"
            )
            empty._reason = "empty"
            raise empty
        self.rest += piece

    async def _receive_while_sending(self) -> bytes | None:
        """Send the rest of the request; return bytes that arrive meanwhile, None when all is sent.

        A request may be too long for the system's buffers, and a server that refuses it may respond
        at once without reading the rest.
        """
        limit = self._write_limit()
        end = math.inf if limit is None else self._now() + limit
        while not await self.stream.drain(
            self._seconds(min(_POLL_SECONDS, max(0.0, end - self._now())))
        ):
            piece = await self.stream.receive(0)
            if piece is not None:
                return piece
            self._check_sending(self._now() >= end)
        return None

    async def _send_all(self) -> None:
        """Send the rest of the request before the switch to the other protocol."""
        limit = self._write_limit()
        if not await self.stream.drain(self._seconds(limit)):
            self._check_sending(is_over=True)

    def _write_limit(self) -> float | None:
        timeout = self._request.timeout
        return timeout.read if timeout.write is None else timeout.write

    def _check_sending(self, is_over: bool) -> None:
        self._check_deadline()
        if is_over:
            limit = self._write_limit()
            raise WriteTimeout(f"{self._request}: the server did not read the request in {limit} s")

    async def _receive(self, limit: float | None) -> bytes:
        self._check_deadline()  # because a server may send framing without data forever
        piece = await self.stream.receive(self._seconds(limit))
        if piece is not None:
            return piece
        self._check_deadline()
        raise ReadTimeout(
            f"{self._request}: the server was silent for {limit} s after the request; "
            "it may be slow, or raise timeout=Timeout(read=...)"
        )

    def _check_deadline(self) -> None:
        request, now = self._request, self._now()
        if request.is_late(now):
            raise DeadlineExceeded(
                f"{request}: the total timeout of {request.timeout.total} s ran out"
            )
        if now > self._until:
            raise ReadTimeout(f"{request}: the rest of a refusal took too long")

    def _make_protocol_error(self, what: str) -> RemoteProtocolError:
        request = self._request
        return RemoteProtocolError(f"{request}: {what}", request=request, request_sent=True)

    async def read(self) -> bytes:
        """Return the next piece of a refusal's body without decoding it, b"" at the end.

        Raises:
            RequestException: the body is incomplete or late.
        """
        self.length()
        return await self._read(self._request.timeout.read)

    async def _read(self, limit: float | None) -> bytes:
        while not self._has_ended():
            piece, self.rest = self.rest, b""
            if not piece and not (piece := await self._receive(limit)):
                if self._left is None and self._unchunked is None:
                    self._left = 0
                    break
                raise self._make_protocol_error("the response ended within its body")
            if self._unchunked is not None:
                piece = self._unchunked.feed(piece)
                if self._unchunked.is_broken:
                    raise self._make_protocol_error(
                        "the response's body is not in chunks, although its head says so"
                    )
            elif self._left is not None:
                piece = piece[: self._left]
                self._left -= len(piece)
            if piece:
                return piece
        return b""

    def _has_ended(self) -> bool:
        return self._left == 0 if self._unchunked is None else self._unchunked.has_ended

    async def body(self) -> bytes:
        """Return the body of a refusal, as much of it as arrives.

        The body only explains an error, so errors while reading it are ignored.
        """
        limit = self._request.timeout.read
        self._until = self._now() + _BODY_SECONDS
        content = b""
        with suppress(RequestException):
            while len(content) < _MAX_BODY:
                piece = await self._read(limit)
                if not piece:
                    break
                content += piece
        return content[:_MAX_BODY]


def _parse_length(text: str) -> int | None:
    """Return the number in a Content-Length, None if there is none or several (RFC 9112, 6.3)."""
    found = {parse_length(each.strip(" \t")) for each in text.split(",")}
    return found.pop() if len(found) == 1 else None


class _ChunkedDecoder:
    """Decodes the chunked transfer coding (RFC 9112, section 7.1).

    Attributes:
        has_ended: the last chunk has arrived.
        is_broken: the input is not valid.
    """

    def __init__(self) -> None:
        self.has_ended = self.is_broken = False
        self._line_ends = 0  # bytes of line ends before a chunk
        self._left = 0  # bytes of the current chunk
        self._raw = b""

    def feed(self, piece: bytes) -> bytes:
        """Return the part of the body in a piece."""
        # By position, because cutting off each chunk would copy everything after it.
        raw, at, found = self._raw + piece, 0, []
        while at < len(raw) and not self.has_ended:
            if self._left:
                part = raw[at : at + self._left]
                found.append(part)
                self._left -= len(part)
                at += len(part)
                continue
            begin, at = at, _LINE_ENDS(raw, at).end()  # type: ignore[union-attr]  # matches always
            self._line_ends += at - begin
            size = _CHUNK_SIZE(raw, at)
            if size is None:
                # Neither a size nor the line ends before it may be endless.
                self.is_broken = self._line_ends + len(raw) - at > _MAX_CHUNK_LINE
                break
            self._line_ends = 0
            self._left = int(size[1], 16)
            at = size.end()
            self.has_ended = not self._left
        self._raw = raw[at:]
        return b"".join(found)


def _decode(response: Response, content: bytes) -> bytes:
    """Decode the content coding of a body; return it unchanged if that fails."""
    try:
        return decode_content(content, response.headers, _MAX_BODY)
    except RequestException:
        return content
