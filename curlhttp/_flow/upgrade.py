"""The last step of a flow whose requests ask for another protocol on their connection (101).

The head goes out and the answer comes in as bytes of HTTP/1.1 on a connection of the engine's
(RFC 9110, section 7.8). What protocol that is, and what is said in it, is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from curlhttp._engine import ByteStream, Connector, Engine, Exchange, HedgePlan, connector
from curlhttp._flow.exchange import fit
from curlhttp._flow.observe import logged, note_head
from curlhttp._models.decoding import decode_content
from curlhttp._models.headers import Headers
from curlhttp._models.request import Request
from curlhttp._models.response import Head, Response
from curlhttp._watch import INFO, log
from curlhttp.exceptions import (
    ConnectionError,
    DeadlineExceeded,
    ReadTimeout,
    RemoteProtocolError,
    RequestException,
    WriteTimeout,
)

__all__ = ["Upgraded", "upgrade"]

_LONGEST_HEAD = 64 * 1024  # bytes, of all heads up to the final one
_LONGEST_BODY = 64 * 1024  # bytes of a refusal that are read
_PATIENCE = 5.0  # seconds for the body of a refusal
_END_OF_HEAD = re.compile(rb"\r?\n\r?\n").search
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n").match
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
    try:
        stream = await engine.connect(request)
    except RequestException as error:
        error.request = request  # not what the engine made of it
        raise
    try:
        reply = _Reply(stream, request, now)
        asked = _head_of(request)
        note_head(request, ">", asked)
        stream.write(asked)
        head = await reply.head()
        note_head(request, "<", head.block)
        if head.status_code == 101:
            return Upgraded(request, head, stream, reply.rest)
        response = Response(request, head, b"", stream.timings())
        response._content = _decoded(response, await reply.body(head))
    except BaseException as error:
        stream.abort()
        if isinstance(error, RequestException):
            error.request, error.request_sent, error.timings = request, True, stream.timings()
        raise
    stream.abort()
    return response


def _head_of(request: Request) -> bytes:
    """Return the head of a request that has no body (RFC 9112, section 3)."""
    lines = [" ".join((request.method, request.url.target, "HTTP/1.1")).encode("ascii")]
    if request.get_header("host") is None:
        lines.append(b"Host: " + request.url.authority.encode("ascii"))
    for line in request.header_lines():
        name = line.partition(b":")[0]
        if name.lower() not in _FRAMING:
            # "Name;" is libcurl's way to say an empty value
            lines.append(line if name != line else line[:-1] + b":")
    return b"\r\n".join([*lines, b"", b""])


class _Reply:
    """The answer on its way: pieces of the stream, up to what the caller looks for.

    Attributes:
        rest: what came and was not taken yet.
    """

    def __init__(self, stream: ByteStream, request: Request, now: Callable[[], float]) -> None:
        self.rest = b""
        self._stream = stream
        self._request = request
        self._now = now

    async def head(self) -> Head:
        """Return the final head.

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
                return head
            if size > _LONGEST_HEAD:
                raise self._broken("the response's header block is too large")

    def _seconds(self, limit: float | None) -> float | None:
        """Return how long to wait: as long as a limit says, but not beyond the deadline."""
        deadline = self._request.deadline
        if deadline is None:
            return limit
        left = max(0.0, deadline - self._now())
        return left if limit is None else min(limit, left)

    async def _more(self) -> None:
        request = self._request
        timeout = request.timeout
        limit = timeout.read if timeout.write is None else timeout.write
        # A head may be too long for the system's buffers.
        has_gone = await self._stream.drain(self._seconds(limit))
        piece = await self._stream.receive(self._seconds(timeout.read)) if has_gone else None
        if piece is None:
            if request.is_late(self._now()):
                raise DeadlineExceeded(f"{request}: the total of {timeout.total} s ran out")
            if not has_gone:
                raise WriteTimeout(f"{request}: the server did not take the request in {limit} s")
            raise ReadTimeout(
                f"{request}: the server was silent for {timeout.read} s after the request; "
                "it may be slow, or raise timeout=Timeout(read=...)"
            )
        if not piece:
            if self.rest:
                error = self._broken("the response ended within its header block")
                error.broken_part = "head"
                raise error
            raise ConnectionError(f"{request}: the server closed the connection without an answer")
        self.rest += piece

    def _broken(self, what: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"{self._request}: {what}")

    async def body(self, head: Head) -> bytes:
        """Return the body of a refusal, as much of it as comes.

        It only explains what is an error already: neither its size nor its pace, nor how it ends,
        is worth another one.

        Args:
            head: of the response.
        """
        read, until = self._request.timeout.read, self._now() + (self._seconds(_PATIENCE) or 0.0)
        if head.status_code in (204, 304):
            return b""
        length, is_chunked = _framing(head)
        body = _Unchunked() if is_chunked else None
        content, piece = b"", self.rest
        while True:
            content += piece if body is None else body.feed(piece)
            has_ended = len(content) >= length if body is None else body.has_ended
            if has_ended or len(content) > _LONGEST_BODY:
                return content[: min(length, _LONGEST_BODY)]
            left = until - self._now()
            silence = left if read is None else min(left, read)
            try:
                received = await self._stream.receive(silence) if left > 0 else b""
            except RequestException:
                return content
            if not received:
                return content
            piece = received


def _framing(head: Head) -> tuple[int, bool]:
    """Return how many bytes the body has at most, and whether it comes in chunks."""
    fields = Headers.from_block(head.block)
    if "chunked" in (fields.get("transfer-encoding") or "").lower():
        return _LONGEST_BODY, True
    length = fields.get("content-length") or ""
    known = length.isascii() and length.isdigit()
    return (int(length[:12]) if known else _LONGEST_BODY), False


class _Unchunked:
    """Takes a body out of its chunks (RFC 9112, section 7.1), as far as it makes sense."""

    def __init__(self) -> None:
        self.has_ended = False
        self._left = 0  # bytes of the chunk
        self._raw = b""

    def feed(self, piece: bytes) -> bytes:
        """Return what a piece holds of the body."""
        self._raw += piece
        found = b""
        while self._raw and not self.has_ended:
            if self._left:
                part = self._raw[: self._left]
                found += part
                self._left -= len(part)
                self._raw = self._raw[len(part) :]
                continue
            self._raw = self._raw.lstrip(b"\r\n")
            size = _CHUNK_SIZE(self._raw)
            if size is None:
                # A line of a size that goes on for ever is none.
                self.has_ended = len(self._raw) > 4096
                break
            self._left = int(size[1], 16)
            self._raw = self._raw[size.end() :]
            self.has_ended = not self._left
        return found


def _decoded(response: Response, content: bytes) -> bytes:
    """Return a body without its content coding, where there is one and it can be undone."""
    try:
        return decode_content(content, response.headers, _LONGEST_BODY)
    except RequestException:
        return content
