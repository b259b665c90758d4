"""Streamed responses, one class per colour over one reader. Nothing is read ahead of the caller.

A response that is dropped unread gives its connection back when it is collected.
"""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any

from curlhttp._models.decoders import ContentDecoder, codings
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._run import run_sync
from curlhttp.exceptions import RequestException, ResponseTooLarge, StreamConsumedError

if TYPE_CHECKING:
    from curlhttp._flow.engine import Engine

__all__ = ["AsyncStreamedResponse", "StreamedResponse"]

_PIECE = 64 * 1024  # bytes decoded at once
_DRAINED = 64 * 1024  # bytes of an unwanted body that are worth keeping its connection for


class _Streamed(Response):
    """A response whose body is still on the wire."""

    def __init__(self, request: Request, incoming: Any, engine: Engine) -> None:
        super().__init__(request, incoming.head, None, incoming.timings())
        self._incoming: Any = incoming  # None once the transfer is given back
        self._engine = engine
        self._decoder: ContentDecoder | None = None
        self._decoded = 0
        self._consumed = False

    @property
    def content(self) -> bytes:
        """Return the body once it was read."""
        if self._content is None:
            raise RuntimeError(
                "The content for this response was already consumed"
                if self._consumed
                else "the body of this response was not read yet; call read() or aread() first"
            )
        return self._content

    @property
    def is_stream_consumed(self) -> bool:
        """Tell whether the body was read, in part at least."""
        return self._consumed

    @property
    def is_closed(self) -> bool:
        """Tell whether the connection was given back."""
        return self._incoming is None

    # what both colours run

    def _begin(self) -> None:
        if self._consumed:
            raise StreamConsumedError(
                "The content for this response was already consumed", response=self
            )
        if self._incoming is None:
            raise StreamConsumedError("this response was closed before it was read", response=self)
        self._consumed = True

    async def _read_raw(self) -> bytes:
        """Return the next piece as it came, b"" at the end."""
        if self._incoming is None:
            return b""
        try:
            piece = await self._engine.read(self._incoming)
        except BaseException:
            self._incoming = None  # the engine let go of it
            raise
        if not piece:
            self._incoming = None
        return piece

    async def _read_decoded(self, size: int) -> bytes:
        """Return the next piece of the body, b"" at the end; of a coded one at most size bytes."""
        decoder = self._decoder
        if decoder is None:
            return await self._read_raw()
        while True:
            piece = decoder.take(size)
            if piece:
                self._count(len(piece))
                return piece
            raw = await self._read_raw()
            if not raw:
                decoder.finish()
                return b""
            decoder.feed(raw)

    def _count(self, size: int) -> None:
        self._decoded += size
        limit = self.request.max_response_size
        if limit is not None and self._decoded > limit:
            raise ResponseTooLarge(
                f"{self.request.method} {self.url}: the decoded response body is larger than "
                f"max_response_size={limit} bytes"
            )

    def _set_decoder(self) -> None:
        coded = codings(self.headers.get_list("content-encoding"))
        self._decoder = ContentDecoder(coded) if coded else None

    async def _read_piece(self, size: int = _PIECE) -> bytes:
        try:
            return await self._read_decoded(size)
        except BaseException as error:
            self._abort()
            if isinstance(error, RequestException):
                error.request, error.response, error.request_sent = self.request, self, True
            raise

    async def _read_all(self) -> bytes:
        if self._content is None:
            self._begin()
            self._set_decoder()
            pieces = []
            while piece := await self._read_piece():
                pieces.append(piece)
            self._content = b"".join(pieces)
        return self._content

    async def discard(self) -> None:
        """Do without the body: read a little to save the connection, else close that."""
        self._consumed = True
        left = _DRAINED
        while left > 0 and self._incoming is not None:
            left -= len(await self._read_raw())
        self._abort()

    def _abort(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is not None:
            self._engine.abort(incoming)

    def __del__(self) -> None:
        incoming = self.__dict__.get("_incoming")
        if incoming is not None:
            self._engine.orphan(incoming)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_incoming"] = state["_engine"] = state["_decoder"] = None
        return state


class StreamedResponse(_Streamed):
    """A streamed response of `Client`; read it once, and close it or use it in `with`."""

    @property
    def content(self) -> bytes:
        """Return the body, reading it now if need be."""
        return self._content if self._content is not None else self._read_or_refuse()

    def _read_or_refuse(self) -> bytes:
        if self._consumed:
            raise RuntimeError("The content for this response was already consumed")
        return self.read()

    def read(self) -> bytes:
        """Read the body and return it, with its content coding undone.

        Raises:
            RequestException: the body broke off, is corrupt or too large.
        """
        return run_sync(self._read_all())

    def iter_raw(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Give the body as it is on the wire, with its content coding.

        Args:
            chunk_size: bytes per piece; None for pieces as they come.
        """
        self._begin()
        return _sized(self._pieces(), chunk_size)

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Give the body with its content coding undone.

        Args:
            chunk_size: bytes per piece, fewer in the last; None for pieces as they come.
        """
        if self._content is not None:
            return super().iter_bytes(chunk_size)
        self._begin()
        self._set_decoder()
        return _sized(self._pieces(chunk_size or _PIECE), chunk_size)

    iter_content = iter_bytes

    def _pieces(self, size: int = _PIECE) -> Iterator[bytes]:
        while piece := run_sync(self._read_piece(min(size, _PIECE))):
            yield piece

    def iter_text(self) -> Iterator[str]:
        """Give the body as text."""
        decoder = _text_decoder(self.encoding)
        for piece in self.iter_bytes():
            if text := decoder.decode(piece):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text

    def iter_lines(self) -> Iterator[str]:
        r"""Give the body line by line, without the line ends \n, \r\n and \r."""
        lines = _Lines()
        for text in self.iter_text():
            yield from lines.add(text)
        yield from lines.end()

    def __iter__(self) -> Iterator[bytes]:
        return self.iter_bytes()

    def close(self) -> None:
        """Give up the rest of the body; its connection is closed unless all was read."""
        self._abort()


class AsyncStreamedResponse(_Streamed):
    """A streamed response of `AsyncClient`; read it once, close it or use it in `async with`."""

    async def aread(self) -> bytes:
        """Read the body and return it, with its content coding undone.

        Raises:
            RequestException: the body broke off, is corrupt or too large.
        """
        return await self._read_all()

    async def aiter_raw(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Give the body as it is on the wire, with its content coding.

        Args:
            chunk_size: bytes per piece; None for pieces as they come.
        """
        self._begin()
        async for piece in self._apieces(chunk_size):
            yield piece

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Give the body with its content coding undone.

        Args:
            chunk_size: bytes per piece, fewer in the last; None for pieces as they come.
        """
        if self._content is not None:
            for piece in super().iter_bytes(chunk_size):
                yield piece
            return
        self._begin()
        self._set_decoder()
        async for piece in self._apieces(chunk_size):
            yield piece

    async def _apieces(self, chunk_size: int | None) -> AsyncIterator[bytes]:
        sized = _Sized(chunk_size)
        size = min(chunk_size or _PIECE, _PIECE)
        while piece := await self._read_piece(size):
            for part in sized.add(piece):
                yield part
        for part in sized.end():
            yield part

    async def aiter_text(self) -> AsyncIterator[str]:
        """Give the body as text."""
        decoder = _text_decoder(self.encoding)
        async for piece in self.aiter_bytes():
            if text := decoder.decode(piece):
                yield text
        if text := decoder.decode(b"", final=True):
            yield text

    async def aiter_lines(self) -> AsyncIterator[str]:
        r"""Give the body line by line, without the line ends \n, \r\n and \r."""
        lines = _Lines()
        async for text in self.aiter_text():
            for line in lines.add(text):
                yield line
        for line in lines.end():
            yield line

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.aiter_bytes()

    async def aclose(self) -> None:
        """Give up the rest of the body; its connection is closed unless all was read."""
        self._abort()


# --- cutting ---


class _Sized:
    """Cut pieces to one size; None leaves them as they are."""

    def __init__(self, size: int | None) -> None:
        if size is not None and size < 1:
            raise ValueError(f"chunk_size must be at least 1, not {size}")
        self._size = size
        self._held = bytearray()

    def add(self, piece: bytes) -> Generator[bytes, None, None]:
        """Give what can be given with one more piece."""
        size = self._size
        if size is None or (not self._held and len(piece) == size):
            yield piece
            return
        held = self._held
        held += piece
        whole = len(held) - len(held) % size
        for at in range(0, whole, size):
            yield bytes(held[at : at + size])
        del held[:whole]

    def end(self) -> Generator[bytes, None, None]:
        """Give the rest."""
        if self._held:
            yield bytes(self._held)


def _sized(pieces: Iterator[bytes], size: int | None) -> Iterator[bytes]:
    return _cut(pieces, _Sized(size))  # checked now, not at the first next()


def _cut(pieces: Iterator[bytes], sized: _Sized) -> Iterator[bytes]:
    for piece in pieces:
        yield from sized.add(piece)
    yield from sized.end()


class _Lines:
    """Cut text into lines; the start of a line is kept in parts, so that long ones stay cheap."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._has_cr = False

    def add(self, text: str) -> Generator[str, None, None]:
        """Give the lines that end in one more piece."""
        if self._has_cr:
            text = "\r" + text  # the \n of a \r\n may have come just now
        self._has_cr = text.endswith("\r")
        if self._has_cr:
            text = text[:-1]
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            self._held.append(line)
            yield "".join(self._held)
            self._held.clear()
        if rest:
            self._held.append(rest)

    def end(self) -> Generator[str, None, None]:
        """Give the last line, if it has no end."""
        if self._held or self._has_cr:
            yield "".join(self._held)


def _text_decoder(encoding: str | None) -> codecs.IncrementalDecoder:
    try:
        return codecs.getincrementaldecoder(encoding or "utf-8")(errors="replace")
    except LookupError:
        return codecs.getincrementaldecoder("utf-8")(errors="replace")
