"""Streamed responses of the blocking and of the async client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Generic, NoReturn, TypeVar

from curlhttp._engine.run import run_sync
from curlhttp._flow.streamed_response import CONSUMED, BaseStreamedResponse, Read
from curlhttp._models.decoding import ByteChunks, Chunker, LineChunks, TextChunks, rechunk

T = TypeVar("T")


class StreamedResponse(BaseStreamedResponse):
    """A streamed response of `Client`. Read it once, and close it or use it in `with`."""

    @property
    def content(self) -> bytes:
        """Return the decoded body, and read it if it was not read yet."""
        return self._content if self._content is not None else self._read_or_refuse()

    def _read_or_refuse(self) -> bytes:
        if self._consumed:
            raise RuntimeError(CONSUMED)
        return self.read()

    def read(self) -> bytes:
        """Read the whole body and return it decoded.

        Raises:
            RequestException: the body is incomplete, corrupt or too large.
        """
        return run_sync(self._read_all)

    def iter_raw(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Iterate over the body as received, without decoding its content coding.

        Args:
            chunk_size: bytes per chunk; None for chunks as they arrive.
        """
        return rechunk(self._pieces(self._raw()), ByteChunks(chunk_size))

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Iterate over the decoded body.

        Args:
            chunk_size: bytes per chunk, except for the last; None for chunks as they arrive.
        """
        return rechunk(self._pieces(self._decoding(chunk_size)), ByteChunks(chunk_size))

    iter_content = iter_bytes

    def iter_text(self) -> Iterator[str]:
        """Iterate over the decoded body as text."""
        return rechunk(self._pieces(self._decoding()), TextChunks(self._charset()))

    def iter_lines(self) -> Iterator[str]:
        r"""Iterate over the lines of the body, without their line ends \n, \r\n and \r."""
        return rechunk(self._pieces(self._decoding()), LineChunks(self._charset()))

    def _pieces(self, read: Read) -> Iterator[bytes]:
        while piece := run_sync(read):
            yield piece

    def __iter__(self) -> Iterator[bytes]:
        return self.iter_bytes()

    def close(self) -> None:
        """Drop the rest of the body; never wait for it.

        An HTTP/1 connection closes, unless the rest has already arrived.
        """
        self._abort()


class AsyncStreamedResponse(BaseStreamedResponse):
    """A streamed response of `AsyncClient`. Read it once, and close it or use `async with`."""

    _read_call = "await response.aread()"
    _allows_async = True

    async def aread(self) -> bytes:
        """Read the whole body and return it decoded.

        Raises:
            RequestException: the body is incomplete, corrupt or too large.
        """
        return await self._read_all()

    def aiter_raw(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Iterate over the body as received, without decoding its content coding.

        Args:
            chunk_size: bytes per chunk; None for chunks as they arrive.
        """
        return _AsyncChunks(self._raw(), ByteChunks(chunk_size))

    def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Iterate over the decoded body.

        Args:
            chunk_size: bytes per chunk, except for the last; None for chunks as they arrive.
        """
        return _AsyncChunks(self._decoding(chunk_size), ByteChunks(chunk_size))

    def aiter_text(self) -> AsyncIterator[str]:
        """Iterate over the decoded body as text."""
        return _AsyncChunks(self._decoding(), TextChunks(self._charset()))

    def aiter_lines(self) -> AsyncIterator[str]:
        r"""Iterate over the lines of the body, without their line ends \n, \r\n and \r."""
        return _AsyncChunks(self._decoding(), LineChunks(self._charset()))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.aiter_bytes()

    async def aclose(self) -> None:
        """Drop the rest of the body; never wait for it.

        An HTTP/1 connection closes, unless the rest has already arrived.
        """
        close = getattr(self._incoming, "aclose", None)
        if close is None:
            self._abort()
            return
        self._incoming = None
        try:
            await close()  # a generator of a transport of the user
        finally:
            self._notify_end(None)


class _AsyncChunks(Generic[T]):
    """Iterate over chunks.

    It is not an async generator, because the event loop has to clean up one that you leave early.
    """

    def __init__(self, read: Read, chunker: Chunker[T]) -> None:
        self._read = read
        self._chunker = chunker
        self._parts: Iterator[T] = iter(())
        self._has_ended = False
        self._error: Exception | None = None

    def __aiter__(self) -> _AsyncChunks[T]:
        return self

    async def __anext__(self) -> T:
        while True:
            for part in self._parts:
                return part
            if self._error is not None:
                self._raise_error()
            if self._has_ended:
                raise StopAsyncIteration
            self._parts = await self._read_more()

    async def _read_more(self) -> Iterator[T]:
        try:
            piece = await self._read()
        except Exception as error:
            self._error, self._has_ended = error, True
            return self._chunker.fail()
        self._has_ended = not piece
        return self._chunker.add(piece) if piece else self._chunker.end()

    def _raise_error(self) -> NoReturn:
        error, self._error = self._error, None
        assert error is not None
        try:
            raise error
        finally:
            del error  # otherwise the error and its traceback form a reference cycle
