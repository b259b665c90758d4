"""A response whose body is still on the wire. Nothing is read ahead of the caller.

A response that is dropped without being read releases its connection when it is collected.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from io import SEEK_END, BytesIO
from typing import Any, TypeAlias

from curlhttp._engine.engine import MAX_DRAINED, Engine, Incoming, get_reader
from curlhttp._models.decoding import ContentDecoder, parse_codings
from curlhttp._models.errors import closed_while_reading
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp.exceptions import RequestException, ResponseTooLarge, StreamConsumedError

__all__ = ["CONSUMED", "BufferedBody", "Read", "Streamed"]


Read: TypeAlias = Callable[[], Coroutine[object, None, bytes]]
"""Gives the next piece of a body, b"" at the end."""

CONSUMED = (
    "The content for this response was already consumed; read a stream once, or ask without one"
)
_PIECE = 64 * 1024  # bytes decoded at once


class Streamed(Response):
    """A response whose body is still on the wire."""

    def __init__(self, request: Request, incoming: Incoming, engine: Engine) -> None:
        # First what its finalizer needs: Ctrl-C may come at any line.
        self._listeners: list[Callable[[BaseException | None], object]] | None = None
        self._engine: Engine = get_reader(incoming, engine)
        self._incoming: Incoming | None = incoming  # None once the transfer is given back
        head = incoming.head
        assert head is not None
        super().__init__(request, head, None, incoming.timings())
        self._decoder: ContentDecoder | None = None
        self._decoded = 0
        self._consumed = False

    @property
    def content(self) -> bytes:
        """Return the body once it was read."""
        if self._content is None:
            raise RuntimeError(
                CONSUMED
                if self._consumed
                else "the body of this response was not read yet; call read() or aread() first"
            )
        return self._content

    @property
    def is_stream_consumed(self) -> bool:
        """Return whether the body was read, in part at least."""
        return self._consumed

    @property
    def is_closed(self) -> bool:
        """Return whether the connection was given back."""
        return self._incoming is None

    @property
    def certificate(self) -> str | None:
        """Return the server's certificate as PEM, if this response opened the connection.

        With certificates=True of the client, also if another one did. Source: CURLINFO_CERTINFO.
        """
        if self._certificate is None and self._incoming is not None:
            self._certificate = self._incoming.certificate()
        return self._certificate

    # what both colours run

    def _begin(self) -> None:
        if self._consumed:
            raise StreamConsumedError(CONSUMED, response=self)
        if self._incoming is None:
            raise StreamConsumedError("this response was closed before it was read", response=self)
        self._consumed = True

    async def _read_raw(self) -> bytes:
        """Return the next piece as it came, b"" at the end.

        Raises:
            StreamConsumedError: the response was closed meanwhile: what came is not all.
        """
        if self._incoming is None:
            raise closed_while_reading(self.request)
        try:
            piece = await self._engine.read(self._incoming)
        except BaseException as error:
            self._incoming = None  # the engine let go of it
            self._tell_end(error)
            raise
        if not piece:
            self._incoming = None
            self._tell_end(None)
        return piece

    def has_decoded_all(self) -> bool:
        """Return whether all that came was decoded, and the coding has ended with it."""
        if self._decoder is None:
            return False
        try:
            self._decoder.finish()
        except RequestException:
            return False
        return True

    def read_by(self, around: Callable[[Engine], Any]) -> None:  # Any: has what is asked of it here
        """Read the rest of the body through what stands around the engine."""
        self._engine = around(self._engine)

    def _at_end(self, tell: Callable[[BaseException | None], object]) -> None:
        """Call tell(error or None) once, when the body has ended or was given up.

        That may happen in a finalizer, in any thread.
        """
        if self._incoming is None:
            tell(None)
        else:
            self._listeners = [*(self._listeners or ()), tell]

    def _tell_end(self, error: BaseException | None) -> None:
        # Taken away first: each hears of the end once, even if telling one fails.
        listeners, self._listeners = self._listeners, None
        for tell in listeners or ():
            tell(error)

    async def _read_decoded(self, size: int) -> bytes:
        """Return the next piece of the body, b"" at the end; of a coded one at most size bytes."""
        decoder = self._decoder
        if decoder is None:
            return await self._read_raw()
        while True:
            # What one piece decodes to may be a thousand times its size: it is taken in parts.
            piece = decoder.take(size)
            if piece:
                self._count(len(piece))
                return piece
            raw = await self._read_raw()
            if not raw:
                # Raises where the coding has not ended: the body was cut, though its length was
                # right.
                decoder.finish()
                return b""
            decoder.feed(raw)

    def _count(self, size: int) -> None:
        self._decoded += size
        limit = self.request.max_response_size
        if limit is not None and self._decoded > limit:
            raise ResponseTooLarge(
                f"{self.request}: the decoded response body is larger than "
                f"max_response_size={limit} bytes"
            )

    def _set_decoder(self) -> None:
        if "\ncontent-encoding" not in self._head.lower:  # as of most: seen without parsing
            return
        try:
            coded = parse_codings(self.headers.get_list("content-encoding"))
        except RequestException as error:
            self._give_up(error)
            raise
        self._decoder = ContentDecoder(coded) if coded else None

    async def _read_piece(self, size: int = _PIECE) -> bytes:
        try:
            return await self._read_decoded(size)
        except BaseException as error:
            self._give_up(error)
            raise

    def _give_up(self, error: BaseException) -> None:
        """Let go of the rest of the body, and say in the error what it is about."""
        # The rest cannot be told from the next response's beginning: the connection is not kept.
        self._abort()
        if isinstance(error, RequestException):
            error.request, error.response, error.request_sent = self.request, self, True

    def _raw(self) -> Read:
        """Begin to read the body as it is; each call of what is returned gives a piece."""
        self._begin()
        return self._read_piece

    def _decoding(self, size: int | None = None) -> Read:
        """Begin to read the body with its coding undone, in pieces of size bytes at most."""
        if size is not None and size < 1:
            raise ValueError(f"chunk_size must be at least 1, not {size}")
        if self._content is not None:
            return BufferedBody(self._content).read
        self._begin()
        self._set_decoder()
        most = min(size or _PIECE, _PIECE)
        return lambda: self._read_piece(most)  # in a partial, Ctrl-C may come after the call

    async def _read_all(self) -> bytes:
        if self._content is None:
            self._begin()
            self._set_decoder()
            content = await self._read_piece()
            if content and (piece := await self._read_piece()):
                # A list of small pieces would take a multiple of their memory.
                body = BytesIO(content)
                body.seek(0, SEEK_END)
                while piece:
                    body.write(piece)
                    piece = await self._read_piece()
                content = body.getvalue()
            self._content = content
        return self._content

    async def finished(self) -> Response:
        """Read the body as it came, and return a response that has it in memory."""
        pieces = []
        while piece := await self._read_raw():
            pieces.append(piece)
        return Response(self.request, self._head, b"".join(pieces), self.timings)

    async def load(self) -> None:
        """Read the body into memory, where its readers find it."""
        await self._read_all()

    def let_go(self) -> None:
        """Close the connection, if the body has not ended."""
        self._abort()

    async def discard(self) -> None:
        """Do without the body: read a little to save the connection, else close that."""
        self._consumed = True
        # A short rest costs less than a new connection; a long one, or an endless one, more.
        left = MAX_DRAINED
        while left > 0 and self._incoming is not None:
            left -= len(await self._read_raw())
        self._abort()

    def _abort(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            self._engine.abort(incoming)
            self._tell_end(None)

    def __del__(self) -> None:
        # Not there when __init__ was interrupted.
        incoming = getattr(self, "_incoming", None)
        if incoming is not None:
            self._engine.abort_from_finalizer(incoming)
            self._tell_end(None)

    def __getstate__(self) -> dict[str, Any]:  # Any: attributes of all kinds
        state = super().__getstate__()
        # What belongs to a socket of this process stays here.
        state["_incoming"] = state["_engine"] = state["_decoder"] = state["_listeners"] = None
        return state


class BufferedBody:
    """A body that was read, as one piece."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def read(self) -> bytes:
        """Return it, then b""."""
        body, self._body = self._body, b""
        return body
