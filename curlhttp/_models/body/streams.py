"""Bodies that come piece by piece: files, iterables, and what a function makes of new.

What the caller's file, iterator or function raises goes through unchanged.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, BinaryIO, cast

from curlhttp._models.body.body import Body, BytesBody, StreamBody
from curlhttp.exceptions import InvalidHeader, UnrewindableBodyError

if TYPE_CHECKING:
    from curlhttp._models.inputs import Piece

__all__ = ["WHOLE", "AsyncIterBody", "FactoryBody", "FileBody", "IterBody", "open_body"]

WHOLE = (str, bytes, bytearray, memoryview)
# The others of io.BufferedIOBase decompress: they find their end by reading up to it.
_SIZED = (io.BytesIO, io.BufferedReader, io.BufferedRandom)


class FileBody(StreamBody):
    """A binary file, from where it stands now to its end.

    Args:
        file: anything with a binary read(size).
        length: bytes from here on; found out if None: by .len or len(), as requests does, else
            by seeking to the end. Not by fstat(): of a GzipFile it gives the compressed size.

    Raises:
        TypeError: the file is open in text mode.
    """

    __slots__ = ("_file", "_start")

    def __init__(self, file: object, length: int | None = None) -> None:
        if isinstance(file, io.TextIOBase):
            raise TypeError("the file is open in text mode; open it in binary mode, 'rb'")
        self._file = cast(BinaryIO, file)  # maybe with no more of its methods than read
        self._start = _position(self._file)
        super().__init__(_remaining(self._file, self._start) if length is None else length)
        self.replayable = self._start is not None

    def _pull(self, size: int) -> bytes:
        return _as_bytes(self._file.read(size), "the file (open it in binary mode, 'rb')")

    def rewind(self) -> None:
        # Even when nothing was read through here: the file may serve two parts of one form.
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

    Another iterable may well be spent after one pass, and would then send an empty body.
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
            if data := _as_bytes(piece, "the iterable"):
                return data
        return b""

    def rewind(self) -> None:
        if self._iterator is not None and not self.replayable:
            raise UnrewindableBodyError("an iterator cannot be sent again; give a callable")
        self._iterator = None
        self._restart()

    def twin(self) -> Body | None:
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
        piece = self._counted(await self._advance(self._iterator))
        if piece and self._pulled == self.length:
            self._counted(await self._advance(self._iterator))
        return piece

    async def _advance(self, iterator: AsyncIterator[Piece]) -> bytes:
        async for piece in iterator:
            if data := _as_bytes(piece, "the async iterable"):
                return data
        return b""

    def rewind(self) -> None:
        if self._iterator is not None:
            raise UnrewindableBodyError("an async iterator cannot be sent again; give a callable")

    async def aclose(self) -> None:
        if isinstance(self._iterator, AsyncGeneratorType):
            await self._iterator.aclose()


class FactoryBody(StreamBody):
    """What a callable returns, called again for each time the body is sent.

    It is called at once, because its kind and length decide how the request goes out.

    Args:
        make: returns bytes, a file, an iterable or an async iterable; what it opened is closed
            at its end, on rewind() and on close().
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
        piece = self._counted(await self._inner.next())
        if piece and self._pulled == self.length:
            self._counted(await self._inner.next())
        return piece

    def rewind(self) -> None:
        if not self._fresh:
            self.close()
            self._renew()
        self._restart()

    def twin(self) -> Body:
        return FactoryBody(self._make, self.length)

    def close(self) -> None:
        self._fresh = False
        close = getattr(self._made, "close", None)
        if close is not None:
            close()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _as_bytes(piece: object, giver: str) -> bytes:
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, (bytearray, memoryview)):
        return bytes(piece)  # a copy: the giver may fill the same buffer again
    raise TypeError(f"{giver} gave {type(piece).__name__}, not bytes")


def _position(file: BinaryIO) -> int | None:
    """Give the offset to come back to, None for a file that cannot seek."""
    try:
        if not hasattr(file, "seek") or not getattr(file, "seekable", lambda: True)():
            return None
        return int(file.tell())
    except (AttributeError, OSError, TypeError):
        return None


def _remaining(file: object, start: int | None) -> int | None:
    total = len(file) if hasattr(file, "__len__") else getattr(file, "len", None)
    if isinstance(total, int):
        return max(0, total - (start or 0))
    if start is None or (isinstance(file, io.BufferedIOBase) and not isinstance(file, _SIZED)):
        return None
    return _size_from(cast(BinaryIO, file), start)


def _size_from(file: BinaryIO, start: int) -> int | None:
    try:
        file.seek(0, io.SEEK_END)
        size = int(file.tell()) - start
        # Files of /proc have no size and content all the same.
        return size if size > 0 else None if file.read(1) else 0
    except (OSError, TypeError, ValueError):
        return None
    finally:
        file.seek(start)


def open_body(source: object, length: int | None = None, factory: bool = True) -> Body:
    """Make the body that sends `source` as it is.

    Args:
        source: bytes, str (sent as UTF-8), a binary file, an iterable or async iterable of
            bytes, or a callable that returns one of these.
        length: its size in bytes, where that cannot be found out.
        factory: whether a callable will do.

    Raises:
        TypeError: `source` is something else.
        InvalidHeader: `length` is wrong.
    """
    if isinstance(source, WHOLE):
        data = source.encode() if isinstance(source, str) else bytes(source)
        if length is not None and length != len(data):
            raise InvalidHeader(f"the body has {len(data)} bytes, its length is {length}")
        return BytesBody(data)
    kind = _kind(source)
    if kind is None or (kind is FactoryBody and not factory):
        raise TypeError(
            "a body is bytes, str, a binary file, an iterable or async iterable of bytes,"
            f" or a callable that returns one of these, not {type(source).__name__}"
        )
    return kind(source, length)


def _kind(source: object) -> Callable[..., StreamBody] | None:
    if isinstance(source, type):  # a class has the methods of its instances
        return FactoryBody
    if hasattr(source, "__aiter__"):
        return AsyncIterBody
    if hasattr(source, "read"):
        return FileBody
    if hasattr(source, "__iter__") and not isinstance(source, Mapping):
        return IterBody
    return FactoryBody if callable(source) else None
