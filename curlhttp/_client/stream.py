"""Streamed responses of the blocking and of the async client."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator, Iterator
from sys import maxsize
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from curlhttp._client.file_reader import FileMethods, Read
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._http.decoding import ByteChunks, Chunker, LineChunks, TextChunks, rechunk
from curlhttp._http.response import MAX_EVENT_SIZE
from curlhttp._runtime.run import run_sync

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from curlhttp._http.sse import AsyncResponseEvents, ResponseEvents

T = TypeVar("T")


class StreamedResponse(BaseStreamedResponse, FileMethods):
    """A streamed response of `Client`. Read it once, and close it or use it in `with`."""

    @property
    def content(self) -> bytes:
        """Return the decoded body, and read it if it was not read yet."""
        return self._content if self._content is not None else self._read_or_refuse()

    def _read_or_refuse(self) -> bytes:
        return super().content if self._consumed else self.read()

    def read(self, size: int | None = -1) -> bytes:
        """Read the decoded body: all that is left, or so many bytes.

        A streamed response is a binary file, which other libraries read: `readable`, `readinto`,
        `readline` and so on work. It cannot seek. A loop over it yields pieces, not lines.

        Args:
            size: bytes to wait for; at the end, there may be fewer. -1 or None for the whole body.

        Raises:
            RequestException: the body is incomplete, corrupt or too large.
        """
        if self._reader is None and (size is None or size < 0):
            return run_sync(self._read_all)
        file = self._open_file()
        return run_sync(lambda: file.read(size))

    @property
    def name(self) -> str:
        """Return the URL without its query, which may have credentials."""
        return f"{self.request.url.origin}{self.request.url.path}"

    def read1(self, size: int | None = -1) -> bytes:
        """Read what has arrived, and wait only if nothing has.

        Args:
            size: the maximum bytes; -1 or None for any.

        Raises:
            RequestException: see `read`.
        """
        file = self._open_file()
        return run_sync(lambda: file.read1(size))

    def readall(self) -> bytes:
        """Read all that is left; after it, there is nothing left, unlike with read()."""
        return self.read(maxsize)

    def readinto(self, buffer: Buffer) -> int:
        """Read bytes until the buffer is full, and return how many there were.

        Raises:
            RequestException: see `read`.
        """
        view = memoryview(buffer).cast("B")
        return _fill(view, self.read(len(view)))

    def readinto1(self, buffer: Buffer) -> int:
        """Read what has arrived into a buffer, and return how many bytes there were."""
        view = memoryview(buffer).cast("B")
        return _fill(view, self.read1(len(view)))

    def readline(self, size: int | None = -1) -> bytes:
        r"""Read a line with its \n; iter_lines() yields lines as text.

        Args:
            size: the maximum bytes; -1 or None for any.

        Raises:
            RequestException: see `read`.
        """
        file = self._open_file()
        return run_sync(lambda: file.readline(size))

    def readlines(self, hint: int | None = -1) -> list[bytes]:
        r"""Read all lines with their \n, or so many that they have `hint` bytes."""
        lines, size = [], 0
        while line := self.readline():
            lines.append(line)
            size += len(line)
            if hint is not None and 0 < hint <= size:
                break
        return lines

    def iter_raw(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Iterate over the body as received, without decoding its content coding.

        Args:
            chunk_size: the maximum bytes of a chunk, which does not wait for more; None for any.
        """
        return rechunk(self._pieces(self._raw()), ByteChunks(chunk_size))

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Iterate over the decoded body.

        Args:
            chunk_size: the maximum bytes of a chunk, which does not wait for more; None for any.
        """
        return rechunk(self._pieces(self._decoding(chunk_size)), ByteChunks(chunk_size))

    iter_content = iter_bytes

    def iter_text(self) -> Iterator[str]:
        """Iterate over the decoded body as text."""
        return rechunk(self._pieces(self._decoding()), TextChunks(self._stream_charset()))

    def iter_lines(self) -> Iterator[str]:
        r"""Iterate over the lines of the body, without their line ends \n, \r\n and \r."""
        return rechunk(self._pieces(self._decoding()), LineChunks(self._stream_charset()))

    def iter_events(self, *, max_event_size: int | None = MAX_EVENT_SIZE) -> ResponseEvents:
        """Iterate over the server-sent events of the body, with the parser of `Client.sse`.

        Unlike `sse`, it does not reconnect, and `max_response_size` applies to all of the body.

        Args:
            max_event_size: the maximum size of an event's data, and of each line, in bytes; or
                None.

        Raises:
            HTTPError: the Content-Type is not text/event-stream; the body can still be read.
            ResponseTooLarge: an event is larger than max_event_size.
            RequestException: the body broke off, after the events before that.
        """
        chunks = self._make_event_chunks(max_event_size)
        return chunks.iterate(self._pieces(self._decoding()))

    def _pieces(self, read: Read) -> Iterator[bytes]:
        while piece := run_sync(read):
            yield piece

    def __iter__(self) -> Iterator[bytes]:
        return self.iter_bytes()


class AsyncStreamedResponse(BaseStreamedResponse):
    """A streamed response of `AsyncClient`. Read it once, and close it or use `async with`."""

    _read_call = "await response.aread()"
    _allows_async = True

    async def aread(self, size: int | None = -1) -> bytes:
        """Read the decoded body: all that is left, or so many bytes.

        Args:
            size: bytes to wait for; at the end, there may be fewer. -1 or None for the whole body.

        Raises:
            RequestException: the body is incomplete, corrupt or too large.
        """
        if self._reader is None and (size is None or size < 0):
            return await self._read_all()
        return await self._open_file().read(size)

    # The names of async files, for libraries that read them. The content of other responses is in
    # memory, so their read() is no coroutine.
    async def read(self, size: int | None = -1) -> bytes:  # type: ignore[override]
        """Do the same as `aread`."""
        return await self.aread(size)

    async def read1(self, size: int | None = -1) -> bytes:
        """Read what has arrived, and wait only if nothing has.

        Args:
            size: the maximum bytes; -1 or None for any.

        Raises:
            RequestException: see `aread`.
        """
        return await self._open_file().read1(size)

    async def readinto(self, buffer: Buffer) -> int:
        """Read bytes until the buffer is full, and return how many there were.

        Raises:
            RequestException: see `aread`.
        """
        view = memoryview(buffer).cast("B")
        return _fill(view, await self.aread(len(view)))

    async def readline(self, size: int | None = -1) -> bytes:
        r"""Read a line with its \n; aiter_lines() yields lines as text.

        Args:
            size: the maximum bytes; -1 or None for any.

        Raises:
            RequestException: see `aread`.
        """
        return await self._open_file().readline(size)

    def aiter_raw(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Iterate over the body as received, without decoding its content coding.

        Args:
            chunk_size: the maximum bytes of a chunk, which does not wait for more; None for any.
        """
        return _AsyncChunks(self._raw(), ByteChunks(chunk_size))

    def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Iterate over the decoded body.

        Args:
            chunk_size: the maximum bytes of a chunk, which does not wait for more; None for any.
        """
        return _AsyncChunks(self._decoding(chunk_size), ByteChunks(chunk_size))

    def aiter_text(self) -> AsyncIterator[str]:
        """Iterate over the decoded body as text."""
        return _AsyncChunks(self._decoding(), TextChunks(self._stream_charset()))

    def aiter_lines(self) -> AsyncIterator[str]:
        r"""Iterate over the lines of the body, without their line ends \n, \r\n and \r."""
        return _AsyncChunks(self._decoding(), LineChunks(self._stream_charset()))

    def aiter_events(self, *, max_event_size: int | None = MAX_EVENT_SIZE) -> AsyncResponseEvents:
        """Iterate over the server-sent events of the body; see StreamedResponse.iter_events."""
        chunks = self._make_event_chunks(max_event_size)
        return chunks.aiterate(_AsyncChunks(self._decoding(), chunks))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.aiter_bytes()

    async def aclose(self) -> None:
        """Drop the rest of the body; never wait for it.

        An HTTP/1 connection closes, unless the rest has already arrived.
        """
        self._closed = True
        await self._close_incoming()


def _fill(view: memoryview, piece: bytes) -> int:
    view[: len(piece)] = piece
    return len(piece)


# isinstance() is how many libraries tell a binary file from text. It is no base class, because the
# finalizer of that closes files.
io.BufferedIOBase.register(StreamedResponse)


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
