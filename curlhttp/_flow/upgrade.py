"""Send a request that asks to switch protocols (101); return the reply and the connection.

The head goes out and the answer comes in as bytes of HTTP/1.1 on a connection of the engine's
(RFC 9110, section 7.8). What protocol that is, and what is said in it, is not known here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress

from curlhttp._engine.engine import ByteStream, Connector, Engine, Exchange, HedgePlan, connector
from curlhttp._engine.log import INFO, log
from curlhttp._flow.exchange import fit, logged, note_head
from curlhttp._models.decoding import decode_content
from curlhttp._models.headers import Headers
from curlhttp._models.request import Request
from curlhttp._models.response import Head, Response
from curlhttp.exceptions import (
    ConnectionError,
    DeadlineExceeded,
    ReadTimeout,
    RemoteProtocolError,
    RequestException,
    WriteTimeout,
)

__all__ = ["Reply", "Upgraded", "ask", "upgrade"]

_LONGEST_HEAD = 64 * 1024  # bytes, of all heads up to the final one
_LONGEST_BODY = 64 * 1024  # bytes of a refusal that are read
_PATIENCE = 5.0  # seconds for the body of a refusal
_STEP = 0.1  # seconds from one look for an answer to the next, while the request goes out
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n").search
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n").match
_LINE_ENDS = re.compile(rb"[\r\n]*").match
_LENGTH = re.compile(r"0*(\d{1,18})", re.ASCII).fullmatch
_LONGEST_SIZE = 4096  # bytes of the line ahead of a chunk
_ANNOUNCES_NO_BODY = ("PATCH", "POST", "PUT")  # with Content-Length: 0 (RFC 9110, section 8.6)
_FRAMING = (b"content-length", b"transfer-encoding", b"proxy-authorization")


class Upgraded(Response):
    """The response that changes the protocol, and the connection on which that is spoken now.

    Attributes:
        stream: the connection.
        rest: what came after the head, in the new protocol.
    """

    def __init__(self, request: Request, head: Head, stream: ByteStream, rest: bytes) -> None:
        super().__init__(request, head, b"", stream.timings())
        self.stream = stream
        self.rest = rest
        self._listeners: list[Callable[[BaseException | None], object]] = []

    def _at_end(self, tell: Callable[[BaseException | None], object]) -> None:
        """Call tell(error or None) once, when the connection is given up."""
        self._listeners.append(tell)

    def end(self, error: Exception | None = None) -> None:
        """Close the connection, and tell who waits for its end.

        Args:
            error: what it broke with, or None.
        """
        self.stream.abort(error)
        self._tell_end(error)

    def _tell_end(self, error: BaseException | None) -> None:
        # Taken away first: each hears of the end once, even if telling one fails.
        listeners, self._listeners = getattr(self, "_listeners", ()), []
        for tell in listeners:
            tell(error)

    async def discard(self) -> None:
        """Do without the connection."""
        self.end()

    def let_go(self) -> None:
        """Close the connection."""
        self.end()

    def close(self) -> None:
        """Close the connection."""
        self.end()

    async def aclose(self) -> None:
        """Close the connection."""
        self.end()

    def __del__(self) -> None:
        # Not there when __init__ was interrupted. The stream has a finalizer of its own.
        self._tell_end(None)

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "stream": None, "_listeners": []}


def upgrade(choose: Callable[[], Engine], now: Callable[[], float]) -> Exchange:
    """Return the last step of a flow whose requests ask for another protocol.

    A request that is answered by 101 has an `Upgraded` response, any other a finished one.

    Args:
        choose: gives the engine.
        now: gives monotonic seconds.
    """

    def send(request: Request, plan: HedgePlan | None = None) -> Awaitable[Response]:
        # No plan: of two connections that are meant to last, one would be for nothing.
        fit(request, now)
        if request.transport.negotiate:
            raise ValueError("Negotiate is libcurl's, which sends no head of another protocol")
        engine = connector(choose())
        if log.takes(INFO):
            return logged(request, lambda request, plan=None: _upgrade(engine, request, now))
        return _upgrade(engine, request, now)

    return send


async def _upgrade(engine: Connector, request: Request, now: Callable[[], float]) -> Response:
    reply = await ask(engine, request, now)
    if reply.has_switched:
        return Upgraded(request, reply.head, reply.stream, reply.rest)
    try:
        response = Response(request, reply.head, b"", reply.stream.timings())
        response._content = _decoded(response, await reply.body())
    finally:
        reply.stream.abort()
    return response


async def ask(engine: Connector, request: Request, now: Callable[[], float]) -> Reply:
    """Return the answer to a request for another protocol, on a connection of its own.

    Args:
        engine: opens the connection.
        request: complete; a body is one in memory.
        now: gives monotonic seconds.

    Raises:
        RequestException: no response was received.
    """
    try:
        stream = await engine.connect(request)
    except RequestException as error:
        error.request = request  # not what the engine made of it
        raise
    try:
        reply = Reply(stream, request, now)
        asked = _head_of(request)
        note_head(request, ">", asked)
        stream.write(asked if request.body is None else asked + (request.body.data or b""))
        await reply.receive_head()
        note_head(request, "<", reply.head.block)
    except BaseException as error:
        stream.abort()
        if isinstance(error, RequestException):
            error.request, error.request_sent, error.timings = request, True, stream.timings()
        raise
    return reply


def _head_of(request: Request) -> bytes:
    """Return the head of a request (RFC 9112, section 3)."""
    lines = [" ".join((request.method, request.url.target, "HTTP/1.1")).encode("ascii")]
    if request.get_header("host") is None:
        lines.append(b"Host: " + request.url.authority.encode("ascii"))
    for line in request.header_lines():
        name = line.partition(b":")[0]
        if name.lower() not in _FRAMING:
            # "Name;" is libcurl's way to say an empty value
            lines.append(line if name != line else line[:-1] + b":")
    body = request.body
    if body is not None or request.method in _ANNOUNCES_NO_BODY:
        lines.append(b"Content-Length: %d" % (0 if body is None else body.length or 0))
    return b"\r\n".join([*lines, b"", b""])


class Reply:
    """Read the reply to an upgrade request from the connection, head first.

    Attributes:
        stream: the connection; whoever has the reply aborts it.
        head: the final one, once that is in.
        rest: what came and was not taken yet; after a 101 it is in the new protocol.
    """

    head: Head

    def __init__(self, stream: ByteStream, request: Request, now: Callable[[], float]) -> None:
        self.stream = stream
        self.rest = b""
        self._request = request
        self._now = now
        self._left: int | None = None  # bytes of the body, if its length is known
        self._unchunked: _ChunkedDecoder | None = None
        self._has_bad_length = False
        self._until = math.inf  # when nobody wants the rest of a refusal any more

    @property
    def has_switched(self) -> bool:
        """Return whether the connection speaks the other protocol now: 101, or 2xx to CONNECT."""
        status = self.head.status_code
        return status == 101 or (self._request.method == "CONNECT" and 200 <= status < 300)

    async def receive_head(self) -> None:
        """Read up to the final head.

        Raises:
            RequestException: there is none, it is not HTTP, or it does not come in time.
        """
        size = 0
        while True:
            while (end := _END_OF_HEAD(self.rest)) is None:
                if size + len(self.rest) > _LONGEST_HEAD:
                    raise self._broken("the response's header block is too large")
                if self.rest and not b"HTTP/1.".startswith(self.rest[:7]):
                    raise self._broken("the response does not begin as HTTP does")
                await self._more()
            block, self.rest = self.rest[: end.end()], self.rest[end.end() :]
            size += len(block)
            head = Head(block)
            if not head.status_code or not block.startswith(b"HTTP/1."):
                raise self._broken("the response does not begin as HTTP does")
            if head.status_code >= 200 or head.status_code == 101:
                self.head = head
                if self.has_switched:
                    await self._send_all()
                    self._left = 0
                elif self._request.method == "HEAD":
                    self._left = 0
                else:
                    self._frame(head)
                return
            if size > _LONGEST_HEAD:
                raise self._broken("the response's header block is too large")

    def _frame(self, head: Head) -> None:
        """Learn from the head of a refusal where its body ends."""
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
        """Return how many bytes of a body are still to come, None if the head does not tell.

        Raises:
            RemoteProtocolError: what it tells is no number.
        """
        if self._has_bad_length:
            error = self._broken("the Content-Length is no number")
            error.broken_part = "content-length"
            raise error
        return self._left

    def _seconds(self, limit: float | None) -> float | None:
        """Return how long to wait: as long as a limit says, but not beyond the deadline."""
        deadline = self._request.deadline
        until = self._until if deadline is None else min(deadline, self._until)
        if until == math.inf:
            return limit
        left = max(0.0, until - self._now())
        return left if limit is None else min(limit, left)

    async def _more(self) -> None:
        piece = await self._answer_while_sending()
        if piece is None:
            piece = await self._receive(self._request.timeout.read)
        if not piece:
            if self.rest:
                error = self._broken("the response ended within its header block")
                error.broken_part = "head"
                raise error
            raise ConnectionError(
                f"{self._request}: the server closed the connection without a response"
            )
        self.rest += piece

    async def _answer_while_sending(self) -> bytes | None:
        """Send what is left of the request; return what comes meanwhile, None once all is sent.

        A request may be too long for the system's buffers, and a server that refuses it may
        answer at once and read no more of it.
        """
        limit = self._write_limit()
        end = math.inf if limit is None else self._now() + limit
        while not await self.stream.drain(self._seconds(min(_STEP, max(0.0, end - self._now())))):
            piece = await self.stream.receive(0)
            if piece is not None:
                return piece
            self._check_sending(self._now() >= end)
        return None

    async def _send_all(self) -> None:
        """Send what is left of the request, because nobody does once the protocol is another."""
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
            raise WriteTimeout(f"{self._request}: the server did not take the request in {limit} s")

    async def _receive(self, limit: float | None) -> bytes:
        self._check_deadline()  # a server may send without end what gives no byte of a body
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
            raise DeadlineExceeded(f"{request}: the total of {request.timeout.total} s ran out")
        if now > self._until:
            raise ReadTimeout(f"{request}: the rest of a refusal took too long")

    def _broken(self, what: str) -> RemoteProtocolError:
        request = self._request
        return RemoteProtocolError(f"{request}: {what}", request=request, request_sent=True)

    async def read(self) -> bytes:
        """Return the next piece of the body of a refusal as it came, b"" at its end.

        Raises:
            RequestException: the body broke off, or does not come in time.
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
                raise self._broken("the response ended within its body")
            if self._unchunked is not None:
                piece = self._unchunked.feed(piece)
                if self._unchunked.is_broken:
                    raise self._broken("the response's body is not in chunks, as its head says")
            elif self._left is not None:
                piece = piece[: self._left]
                self._left -= len(piece)
            if piece:
                return piece
        return b""

    def _has_ended(self) -> bool:
        return self._left == 0 if self._unchunked is None else self._unchunked.has_ended

    async def body(self) -> bytes:
        """Return the body of a refusal, as much of it as comes.

        It only explains what is an error already: neither its size nor its pace, nor how it ends,
        is worth another one.
        """
        limit = self._request.timeout.read
        self._until = self._now() + _PATIENCE
        content = b""
        with suppress(RequestException):
            while len(content) < _LONGEST_BODY:
                piece = await self._read(limit)
                if not piece:
                    break
                content += piece
        return content[:_LONGEST_BODY]


def _parse_length(text: str) -> int | None:
    """Return the number in a Content-Length, None if there is none or several (RFC 9112, 6.3)."""
    matches = [_LENGTH(each.strip(" \t")) for each in text.split(",")]
    found = {int(each[1]) if each else None for each in matches}
    return found.pop() if len(found) == 1 else None


class _ChunkedDecoder:
    """Takes a body out of its chunks (RFC 9112, section 7.1).

    Attributes:
        has_ended: the last chunk came.
        is_broken: what came is no chunk.
    """

    def __init__(self) -> None:
        self.has_ended = self.is_broken = False
        self._line_ends = 0  # bytes of them ahead of a chunk
        self._left = 0  # bytes of the chunk
        self._raw = b""

    def feed(self, piece: bytes) -> bytes:
        """Return what a piece holds of the body."""
        # By position: to cut off each chunk would copy all that is behind it.
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
                # A size, or the line ends ahead of it, that go on for ever are none.
                self.is_broken = self._line_ends + len(raw) - at > _LONGEST_SIZE
                break
            self._line_ends = 0
            self._left = int(size[1], 16)
            at = size.end()
            self.has_ended = not self._left
        self._raw = raw[at:]
        return b"".join(found)


def _decoded(response: Response, content: bytes) -> bytes:
    """Return a body without its content coding, where there is one and it can be undone."""
    try:
        return decode_content(content, response.headers, _LONGEST_BODY)
    except RequestException:
        return content
