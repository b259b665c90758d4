"""The URLs of a fetch, cut into partitions as they are asked for, and never held as a whole.

Files are cut into ranges, which workers read themselves. What is no file, or is sorted by hosts, is
spilled: the driver writes the URLs of each partition into the folder of the fetch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import TypeAlias
from zlib import crc32

from curlhttp._distributed.folders import OutFolder, open_to_read
from curlhttp._distributed.partition import LONGEST_LINE, Lines, Pair, ParquetRows, Partition
from curlhttp._distributed.spiller import Spiller
from curlhttp._models.url import URL

__all__ = ["Cutter", "UrlInput", "check_first_line", "input_of"]

_PIECE = 1 << 20
_FOOTER = 1 << 20  # bytes at the end by which a Parquet file is known
_PARQUET = (".parquet", ".pq", ".parq")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")

Urls: TypeAlias = "str | os.PathLike[str] | Iterable[str | bytes | URL]"


@dataclass(frozen=True, slots=True)
class UrlInput:
    """Where the URLs are: an iterable, a text file, or a column of a Parquet file.

    Args:
        urls: the iterable, or None.
        path: of the file, or its fsspec URL.
        column: of the Parquet file, or None.
        rows: how many there are, if that is known.
    """

    urls: Iterable[str | bytes | URL] | None = None
    path: str = ""
    column: str | None = None
    rows: int | None = None

    def pairs(self) -> Iterator[Pair]:
        """Give the rows and URLs."""
        if self.urls is not None:
            return _pairs_of(self.urls)
        if self.column is not None:
            assert self.rows is not None
            return ParquetRows(self.path, self.column, 0, self.rows).read()
        return Lines(self.path, 0, _size_of(self.path), 0).read()

    def ranges(self, partition: int) -> Iterator[Partition]:
        """Give the partitions of a file.

        Args:
            partition: lines or rows in each.
        """
        if self.column is None:
            return _ranges_of(self.path, partition)
        assert self.rows is not None
        return _rows_in(self.path, self.column, self.rows, partition)


def input_of(urls: Urls, column: str | None) -> UrlInput:
    """Return the input that the first argument of a fetch means.

    Args:
        urls: see fetch.
        column: likewise.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no input, has JSON lines, or no such column.
        TypeError: it can neither be opened nor iterated over.
    """
    if not isinstance(urls, (str, os.PathLike)):
        if column is not None:
            raise ValueError("column goes with a Parquet file")
        if isinstance(urls, (bytes, URL)):
            raise TypeError("a distributed fetch takes many URLs: a file or an iterable of them")
        iter(urls)  # raises, if it must
        return UrlInput(urls, rows=len(urls) if isinstance(urls, Sized) else None)
    path = os.fspath(urls)
    name = path.lower()
    if name.startswith(("http://", "https://")):
        raise ValueError("urls is one URL; give a list of them, or the path of a file")
    if column is not None or name.endswith(_PARQUET):
        from curlhttp._distributed.parquet import column_of

        column, rows = column_of(path, column)
        return UrlInput(path=path, column=column, rows=rows)
    if name.endswith(_COMPRESSED):
        raise ValueError(f"{os.path.basename(path)} is compressed, and has no lines to begin at")
    first = next(Lines(path, 0, min(_size_of(path), LONGEST_LINE), 0).read(), None)
    if first is not None:
        check_first_line(first[1])
    return UrlInput(path=path)


def check_first_line(line: str | bytes) -> None:
    """Refuse JSON lines, of which each would become an error.

    Args:
        line: the first of a text that is not blank.

    Raises:
        ValueError: it is a JSON object.
    """
    if line[:1] in ("{", b"{"):
        raise ValueError("the input has JSON lines; workers take URLs, one a line")


class Cutter:
    """Cut an input into partitions.

    Args:
        found: the input.
        folder: the folder of the fetch.
        partition: URLs in each.
        lanes: see Spiller.

    Attributes:
        spills: the partitions are written to the folder, and no ranges of a file.
    """

    def __init__(self, found: UrlInput, folder: OutFolder, partition: int, lanes: int) -> None:
        self._input = found
        self._folder = folder
        self._partition = partition
        self._lanes = lanes
        self.spills: bool = found.urls is not None or lanes > 0

    def cut(self, is_done: Callable[[int], bool]) -> Iterator[Partition]:
        """Give the partitions.

        Args:
            is_done: whether a partition, by its number, need not be written.
        """
        if not self.spills:
            return self._input.ranges(self._partition)
        pairs = self._input.pairs()
        return iter(Spiller(pairs, self._folder, self._partition, self._lanes, is_done))


def _size_of(path: str) -> int:
    """Return the bytes of a file.

    Raises:
        OSError: it is not there, or cannot be read.
    """
    with open_to_read(path) as stream:
        return stream.seek(0, os.SEEK_END)


def _ranges_of(path: str, partition: int) -> Iterator[Partition]:
    """Give the partitions of a text file: so many lines each.

    Args:
        path: of the file, or its fsspec URL.
        partition: lines in each.
    """
    number = row = begin = at = lines = digest = 0
    with open_to_read(path) as stream:
        while piece := stream.read(_PIECE):
            start = counted = 0
            while (start := piece.find(b"\n", start) + 1) > 0:
                lines += 1
                if lines == partition:
                    digest = crc32(piece[counted:start], digest)
                    source = Lines(path, begin, at + start, row)
                    yield Partition(number, source, f"{digest:08x}")
                    number, row, begin = number + 1, row + lines, at + start
                    lines, digest, counted = 0, 0, start
            digest = crc32(piece[counted:], digest)
            at += len(piece)
    if at > begin:
        yield Partition(number, Lines(path, begin, at, row), f"{digest:08x}")


def _rows_in(path: str, column: str, rows: int, partition: int) -> Iterator[Partition]:
    """Give the partitions of a Parquet file, of which nothing but the footer is read.

    Args:
        path: of the file, or its fsspec URL.
        column: with the URLs.
        rows: of the file.
        partition: rows in each.
    """
    with open_to_read(path) as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, size - _FOOTER))
        digest = crc32(f"{size} {column}".encode(), crc32(stream.read()))
    for number, begin in enumerate(range(0, rows, partition)):
        source = ParquetRows(path, column, begin, min(begin + partition, rows))
        yield Partition(number, source, f"{digest:08x}")


def _pairs_of(urls: Iterable[str | bytes | URL]) -> Iterator[Pair]:
    """Give the items of an iterable with their places in it.

    Raises:
        TypeError: an item is no URL.
    """
    for row, url in enumerate(urls):
        if isinstance(url, URL):
            yield row, str(url)
        elif isinstance(url, (str, bytes)):
            yield row, url
        else:
            raise TypeError(f"a distributed fetch takes URLs, not {type(url).__name__}")
