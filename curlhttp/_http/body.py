"""Request bodies: bytes that are read in pieces, from memory, files, iterables and functions.

Values only: nothing here opens a connection, a file or a thread. A body is read by one exchange at
a time. Exceptions of the caller's file, iterator or function are passed on unchanged.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, BinaryIO, cast

from curlhttp.exceptions import InvalidHeader, RequestException, UnrewindableBodyError

if TYPE_CHECKING:
    from curlhttp._http.inputs import Piece

_PIECE = 64 * 1024


class Body:
    """One request body.

    Attributes:
        content_type: the Content-Type of the body, or None.
        length: its size in bytes, or None if unknown: it is then sent with chunked coding.
        data: the whole body if it is in memory, else None.
        replayable: whether rewind() works after something was read.
        is_async: whether it is read with next() instead of read().
        is_secret: whether it holds credentials; it is then left out of pickles.
    """

    __slots__ = ("content_type", "data", "length", "replayable")
    content_type: str | None
    length: int | None
    data: bytes | None
    replayable: bool
    is_async = False
    is_secret = False

    def read(self, size: int) -> bytes:
        """Return the next piece, of 1 to `size` bytes; b"" at the end."""
        raise NotImplementedError

    async def next(self) -> bytes:
        """Return the next piece of an async body, of any size; b"" at the end."""
        raise NotImplementedError

    def rewind(self) -> None:
        """Go back to the start of the body.

        Raises:
            UnrewindableBodyError: something was read that cannot be read again.
        """
        raise NotImplementedError

    def clone(self) -> Body | None:
        """Return a body with the same content that can be sent at the same time, or None."""
        return None

    def peek(self) -> bytes | None:
        """Return the whole body if it is in memory, without reading it."""
        return self.data

    def replaced_by(self, body: Body) -> Body:
        """Return a body that is sent instead of this one, with what else this one does."""
        return body

    def seek(self, offset: int) -> None:
        """Go to `offset` bytes after the start, by reading the bytes before it."""
        self.rewind()
        while offset > 0 and (piece := self.read(min(offset, _PIECE))):
            offset -= len(piece)

    def __repr__(self) -> str:
        from curlhttp._http.rendering import repr_of_body

        return repr_of_body(self)

    def current(self) -> Body:
        """Return what is read until the next rewind(), for who closes only that."""
        return self

    def close(self) -> None:
        """Release what the body itself opened; a caller's file stays open."""

    async def aclose(self) -> None:
        """Close an async generator that was started, so that it cleans up now."""


def rewind(body: Body | None) -> UnrewindableBodyError | None:
    """Rewind a body, if there is one; return the error if that fails."""
    if body is not None:
        try:
            body.rewind()
        except UnrewindableBodyError as error:
            return error
    return None


async def read_whole(body: Body | None) -> bytes:
    """Read a body, async or not, to its end; return b"" for None."""
    if body is None:
        return b""
    pieces = []
    while piece := (await body.next() if body.is_async else body.read(_PIECE)):
        pieces.append(piece)
    return b"".join(pieces)


class BytesBody(Body):
    """A body in memory."""

    __slots__ = ("_at",)

    def __init__(self, data: bytes, content_type: str | None = None) -> None:
        self.content_type = content_type
        self.data: bytes = data
        self.length: int = len(data)
        self.replayable = True
        self._at = 0

    def read(self, size: int) -> bytes:
        at = self._at
        piece = self.data[at : at + size]
        self._at = at + len(piece)
        return piece

    def rewind(self) -> None:
        self._at = 0

    def clone(self) -> Body:
        return BytesBody(self.data, self.content_type)

    def seek(self, offset: int) -> None:
        self._at = offset


class StreamBody(Body):
    """A body that is read piece by piece, and checked against its length if that is known.

    Subclasses return pieces of any size from _pull(), and b"" at the end.

    Args:
        length: bytes that the body must have, or None. If it has more or fewer, read() or next()
            raises RequestException and does not return the piece that is too long.
    """

    __slots__ = ("_pulled", "_spare")

    def __init__(self, length: int | None) -> None:
        if length is not None and length < 0:
            raise ValueError(f"a body cannot have {length} bytes")
        self.content_type: str | None = None
        self.length = length
        self.data: bytes | None = None
        self.replayable = False
        self._restart()

    def _restart(self) -> None:
        self._pulled = 0
        self._spare = memoryview(b"")

    def clone(self) -> Body | None:
        # Two readers of one file would get half each, unless one has already read all of it.
        if not self.replayable or self._pulled != self.length or self._spare:
            return None
        self.rewind()
        return self

    def read(self, size: int) -> bytes:
        piece: Piece = self._spare
        if not piece:
            piece = self._count(self._pull(size))
            if piece and self._pulled == self.length:
                self._count(self._pull(1))  # is there more? A reader stops at the length
            if len(piece) <= size:
                return piece
        # A view, because an iterator may return one huge piece.
        rest = memoryview(piece)
        self._spare = rest[size:]
        return bytes(rest[:size])

    def _pull(self, size: int) -> bytes:
        raise NotImplementedError

    def _count(self, piece: bytes) -> bytes:
        self._pulled += len(piece)
        length = self.length
        if length is not None and (self._pulled > length or (not piece and self._pulled < length)):
            bound = "only" if self._pulled < length else "at least"
            raise RequestException(
                f"the body has {bound} {self._pulled} bytes, but {length} were announced"
            )
        return piece


# --- files, iterables and functions ---

WHOLE = (str, bytes, bytearray, memoryview)
# Other subclasses of io.BufferedIOBase decompress, and find their end by reading up to it.
_SIZED = (io.BytesIO, io.BufferedReader, io.BufferedRandom)


class FileBody(StreamBody):
    """A binary file, from its current position to its end.

    Args:
        file: anything with a binary read(size).
        length: bytes from there on. With None it is determined by .len or len(), as in requests,
            or by seeking to the end; not by fstat(), which returns a GzipFile's compressed size.

    Raises:
        TypeError: the file is open in text mode.
    """

    __slots__ = ("_file", "_start")

    def __init__(self, file: object, length: int | None = None) -> None:
        if isinstance(file, io.TextIOBase):
            raise TypeError("the file is open in text mode; open it in binary mode, 'rb'")
        self._file = cast(BinaryIO, file)  # it may have only the method read
        self._start = _find_position(self._file)
        super().__init__(_find_length(self._file, self._start) if length is None else length)
        self.replayable = self._start is not None

    def _pull(self, size: int) -> bytes:
        return _to_bytes(self._file.read(size), "the file (open it in binary mode, 'rb')")

    def rewind(self) -> None:
        # Even if nothing was read here: the file may be used for two parts of one form.
        if self._start is not None:
            try:
                self._file.seek(self._start)
            except (OSError, ValueError) as error:
                raise UnrewindableBodyError(f"the file cannot be rewound: {error}") from error
        elif self._pulled:
            raise UnrewindableBodyError("the file cannot seek, so it cannot be sent again")
        self._restart()


class IterBody(StreamBody):
    """The pieces of an iterable of bytes; only a list or tuple can be sent again.

    Other iterables may be exhausted after one pass, and would then send an empty body.
    """

    __slots__ = ("_iterator", "_source")

    def __init__(self, source: Iterable[Piece], length: int | None = None) -> None:
        super().__init__(length)
        self._source = source
        self._iterator: Iterator[Piece] | None = None
        self.replayable = isinstance(source, (list, tuple))

    def _pull(self, size: int) -> bytes:
        if self._iterator is None:
            self._iterator = iter(self._source)
        for piece in self._iterator:
            # An empty piece is not the end.
            if data := _to_bytes(piece, "the iterable"):
                return data
        return b""

    def rewind(self) -> None:
        if self._iterator is not None and not self.replayable:
            raise UnrewindableBodyError("an iterator cannot be sent again; pass a callable")
        self._iterator = None
        self._restart()

    def clone(self) -> Body | None:
        return IterBody(self._source, self.length) if self.replayable else None


class AsyncIterBody(StreamBody):
    """The pieces of an async iterable of bytes, for AsyncClient."""

    __slots__ = ("_iterator", "_source")
    is_async = True

    def __init__(self, source: AsyncIterable[Piece], length: int | None = None) -> None:
        super().__init__(length)
        self._source = source
        self._iterator: AsyncIterator[Piece] | None = None

    def _pull(self, size: int) -> bytes:
        raise TypeError("an async body needs AsyncClient")

    async def next(self) -> bytes:
        if self._iterator is None:
            self._iterator = aiter(self._source)
        piece = self._count(await self._advance(self._iterator))
        if piece and self._pulled == self.length:
            self._count(await self._advance(self._iterator))
        return piece

    async def _advance(self, iterator: AsyncIterator[Piece]) -> bytes:
        async for piece in iterator:
            if data := _to_bytes(piece, "the async iterable"):
                return data
        return b""

    def rewind(self) -> None:
        if self._iterator is not None:
            raise UnrewindableBodyError("an async iterator cannot be sent again; pass a callable")

    async def aclose(self) -> None:
        if isinstance(self._iterator, AsyncGeneratorType):
            await self._iterator.aclose()


class FactoryBody(StreamBody):
    """The body that a callable returns; the callable is called again for each send.

    The first call is immediate, because the kind and length of the body decide how the request is
    sent.

    Args:
        make: returns bytes, a file, an iterable or an async iterable, which is closed at its end,
            on rewind() and on close().
    """

    __slots__ = ("_fresh", "_inner", "_made", "_make", "is_async")

    def __init__(self, make: Callable[[], object], length: int | None = None) -> None:
        self._make = make
        self._renew()
        super().__init__(self._inner.length if length is None else length)
        self.replayable = True
        self.is_async = self._inner.is_async

    def _renew(self) -> None:
        self._made = self._make()
        self._inner = open_body(self._made, factory=False)
        self._fresh = True

    def _pull(self, size: int) -> bytes:
        self._fresh = False
        piece = self._inner.read(size)
        if not piece:
            self.close()
            self._inner = BytesBody(b"")
        return piece

    async def next(self) -> bytes:
        self._fresh = False
        piece = self._count(await self._inner.next())
        if piece and self._pulled == self.length:
            self._count(await self._inner.next())
        return piece

    def rewind(self) -> None:
        if not self._fresh:
            self.close()
            self._renew()
        self._restart()

    def clone(self) -> Body:
        return FactoryBody(self._make, self.length)

    def current(self) -> Body:
        return self._inner

    def close(self) -> None:
        self._fresh = False
        close = getattr(self._made, "close", None)
        if close is not None:
            close()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _to_bytes(piece: object, source_name: str) -> bytes:
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, (bytearray, memoryview)):
        return bytes(piece)  # a copy: the source may reuse the buffer
    raise TypeError(f"{source_name} returned {type(piece).__name__}, not bytes")


def _find_position(file: BinaryIO) -> int | None:
    """Return the offset to seek back to, None for a file that cannot seek."""
    try:
        if not hasattr(file, "seek") or not getattr(file, "seekable", lambda: True)():
            return None
        return int(file.tell())
    except (AttributeError, OSError, TypeError):
        return None


def _find_length(file: object, start: int | None) -> int | None:
    total = len(file) if hasattr(file, "__len__") else getattr(file, "len", None)
    if isinstance(total, int):
        return max(0, total - (start or 0))
    if start is None or (isinstance(file, io.BufferedIOBase) and not isinstance(file, _SIZED)):
        return None
    return _seek_length(cast(BinaryIO, file), start)


def _seek_length(file: BinaryIO, start: int) -> int | None:
    try:
        file.seek(0, io.SEEK_END)
        size = int(file.tell()) - start
        # Files of /proc have size 0 and content.
        return size if size > 0 else None if file.read(1) else 0
    except (OSError, TypeError, ValueError):
        return None
    finally:
        file.seek(start)


def open_body(source: object, length: int | None = None, factory: bool = True) -> Body:
    """Return a body that sends `source` as it is.

    Args:
        source: bytes, str (sent as UTF-8), a binary file, an iterable or async iterable of
            bytes, or a callable that returns one of these.
        length: its size in bytes, if that cannot be determined.
        factory: whether a callable is allowed.

    Raises:
        TypeError: `source` is something else.
        InvalidHeader: `length` is wrong.
    """
    if isinstance(source, Body):
        return source
    if isinstance(source, WHOLE):
        data = source.encode() if isinstance(source, str) else bytes(source)
        if length is not None and length != len(data):
            raise InvalidHeader(f"the body has {len(data)} bytes, but {length} were announced")
        return BytesBody(data)
    kind = _find_body_class(source)
    if kind is None or (kind is FactoryBody and not factory):
        hint = ""
        if isinstance(source, Mapping):
            hint = "; data= takes a form, and json= any JSON"
        elif hasattr(source, "__await__"):
            hint = "; await it"
        raise TypeError(
            "a body is bytes, str, a binary file, an iterable or async iterable of bytes,"
            f" or a callable that returns one of these, not {type(source).__name__}{hint}"
        )
    return kind(source, length)


def _find_body_class(source: object) -> Callable[..., StreamBody] | None:
    if isinstance(source, type):  # a class also has the methods of its instances
        return FactoryBody
    if hasattr(source, "__aiter__"):
        return AsyncIterBody
    if hasattr(source, "read"):
        return FileBody
    if hasattr(source, "__iter__") and not isinstance(source, Mapping):
        return IterBody
    return FactoryBody if callable(source) else None
