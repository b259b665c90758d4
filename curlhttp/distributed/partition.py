"""Partitions: parse the input of a fetch, and split it lazily.

A partition is a small picklable value that tells a worker where to read its URLs. A file is split
into ranges, which workers read directly. If the input is an iterable, or URLs are grouped by host,
the driver writes the URLs of each partition to a file in the folder of the fetch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeAlias
from zlib import crc32

from curlhttp._features.fetch.compressed_files import decompress
from curlhttp._features.fetch.listed_urls import DuplicateURLs, parse_listed
from curlhttp._features.fetch.storage import OutputFolder, open_input_file
from curlhttp._http.url import URL
from curlhttp.distributed.manifest import partition_file_name

if TYPE_CHECKING:
    from curlhttp._features.fetch.earlier import EarlierRun

# --- sources of URLs, which hold at most a line or a batch of rows in memory ---

Row: TypeAlias = "tuple[int, str | bytes]"
"""The row number of a URL in the input, and the URL."""
ConditionalRow: TypeAlias = "tuple[int, str | bytes, dict[str, str]]"
"""Likewise, and the validators of an earlier run; see EarlierRun."""

MAX_LINE = 1 << 20  # bytes
_LINE_END = b"\n"[0]
_ENDLESS = 1 << 62  # bytes
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class TextLines:
    """A range of lines of a text file. Blank lines and lines that begin with # are skipped.

    Args:
        path: the path of the file, or its fsspec URL.
        begin: the offset of the first line in bytes.
        end: the offset after the last line in bytes.
        row: the number of the first line, starting at 0.
    """

    path: str
    begin: int
    end: int
    row: int

    def read(self) -> Iterator[Row]:
        """Yield rows and URLs. A line that is too long is truncated, so its URL is invalid."""
        with open_input_file(self.path) as stream:
            stream.seek(self.begin)
            yield from _read_lines(stream, self.row, self.end - self.begin)


def _read_lines(stream: BinaryIO, row: int, left: int) -> Iterator[Row]:
    """Yield rows and URLs of at most `left` bytes."""
    while left > 0:
        raw = stream.readline(min(left, MAX_LINE))
        if not raw:
            return
        left -= len(raw)
        while left > 0 and raw[-1] != _LINE_END:
            more = stream.readline(min(left, MAX_LINE))
            left -= len(more)
            if not more or more.endswith(b"\n"):
                break
        text = (raw.removeprefix(_BOM) if row == 0 else raw).strip()
        if text and not text.startswith(b"#"):
            yield row, text
        row += 1


@dataclass(frozen=True, slots=True)
class CompressedLines:
    """The lines of a compressed text file, which cannot be read in ranges.

    Args:
        path: the path of the file, or its fsspec URL.
    """

    path: str

    def read(self) -> Iterator[Row]:
        """Yield rows and URLs, as TextLines does."""
        with open_input_file(self.path) as stream, decompress(stream) or stream as content:
            yield from _read_lines(content, 0, _ENDLESS)


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """A range of rows in a column of a Parquet file. Nulls are skipped.

    Args:
        path: the path of the file, or its fsspec URL.
        column: the name of the column.
        begin: the first row.
        end: the row after the last one.
    """

    path: str
    column: str
    begin: int
    end: int

    def read(self) -> Iterator[Row]:
        """Yield rows and URLs."""
        from curlhttp.distributed.parquet import read_column

        with open_input_file(self.path) as stream:
            yield from read_column(stream, self.column, self.begin, self.end)


@dataclass(frozen=True, slots=True)
class PartitionFile:
    """A file that the driver wrote, with a JSON array of row, URL and validators on each line.

    Args:
        path: the path of the file, or its fsspec URL.
    """

    path: str

    def read(self) -> Iterator[Row | ConditionalRow]:
        """Yield rows and URLs, some with validators."""
        with open_input_file(self.path) as stream:
            for line in stream:
                row, url, *validators = json.loads(line)
                yield (row, url if url.isascii() else _restore(url), *validators)


def _restore(url: str) -> str | bytes:
    """Return a URL as it is in the input, whose invalid UTF-8 is surrogates in the file."""
    try:
        raw = url.encode("utf-8", "surrogateescape")
        raw.decode()
    except UnicodeDecodeError:
        return raw
    except UnicodeEncodeError:  # other surrogates, which an iterable may have
        pass
    return url


@dataclass(frozen=True, slots=True)
class Partition:
    """A part of the input.

    Args:
        number: the number of the partition, starting at 0, as in the names of its files.
        source: where to read its URLs.
        digest: a checksum of its input, which reveals that the input has changed.
        host_queue: the queue of its hosts. Two partitions of one queue never run at the same time.
            None if URLs are not grouped by host.
    """

    number: int
    source: TextLines | ParquetRows | PartitionFile
    digest: str
    host_queue: int | None = None


# --- the input, and how to split it ---

_BLOCK_SIZE = 1 << 20  # bytes
_FOOTER = 1 << 20  # bytes at the end of a Parquet file, whose checksum identifies the file
_WINDOW = 32 << 20  # bytes of URLs that the driver holds in memory to group them by host
_PARQUET = (".parquet", ".pq", ".parq")
_ARCHIVE = (".zip", ".tar", ".tar.gz", ".tgz")

Urls: TypeAlias = "str | os.PathLike[str] | Iterable[str | bytes | URL]"


@dataclass(frozen=True, slots=True)
class UrlInput:
    """The source of all URLs: an iterable, a text file, or a column of a Parquet file.

    Args:
        urls: the iterable, or None.
        path: the path of the file, or its fsspec URL.
        column: the column of the Parquet file, or None.
        rows: the number of rows, or None if it is unknown.
        is_compressed: the text file is compressed.
    """

    urls: Iterable[str | bytes | URL] | None = None
    path: str = ""
    column: str | None = None
    rows: int | None = None
    is_compressed: bool = False

    def read(self) -> Iterator[Row]:
        """Yield all rows and URLs."""
        if self.urls is not None:
            return _enumerate_urls(self.urls)
        if self.column is not None:
            assert self.rows is not None
            return ParquetRows(self.path, self.column, 0, self.rows).read()
        if self.is_compressed:
            return CompressedLines(self.path).read()
        return TextLines(self.path, 0, _get_size(self.path), 0).read()

    def split(self, size: int) -> Iterator[Partition]:
        """Yield ranges of a file as partitions.

        Args:
            size: the number of lines or rows in each.
        """
        if self.column is None:
            return _split_lines(self.path, size)
        assert self.rows is not None
        return _split_rows(self.path, self.column, self.rows, size)


def parse_input(urls: Urls, column: str | None) -> UrlInput:
    """Return the input that the arguments of fetch() describe.

    Args:
        urls: see fetch().
        column: see fetch().

    Raises:
        OSError: the file cannot be read.
        ValueError: the input is a single URL, an archive, or JSON lines, or there is no such
            column.
        ImportError: a package to read the input is not installed.
        TypeError: the input is neither a path nor an iterable of URLs.
    """
    if not isinstance(urls, (str, os.PathLike)):
        if column is not None:
            raise ValueError("column can only be used with a Parquet file")
        if isinstance(urls, (bytes, URL)):
            raise TypeError("urls must be an iterable of URLs or the path of a file, not one URL")
        iter(urls)  # raises TypeError if it is not iterable
        return UrlInput(urls, rows=len(urls) if isinstance(urls, Sized) else None)
    path = os.fspath(urls)
    name = path.lower()
    if name.startswith(("http://", "https://")):
        raise ValueError("urls is one URL; pass a list of URLs, or the path of a file")
    if column is not None or name.endswith(_PARQUET):
        from curlhttp.distributed.parquet import find_column

        column, rows = find_column(path, column)
        return UrlInput(path=path, column=column, rows=rows)
    if name.endswith(_ARCHIVE):
        raise ValueError(f"{os.path.basename(path)} is an archive, not a text file")
    with open_input_file(path) as stream:
        is_compressed = decompress(stream) is not None
    url_input = UrlInput(path=path, is_compressed=is_compressed)
    first = next(url_input.read(), None)
    if first is not None:
        reject_json_lines(first[1])
    return url_input


def reject_json_lines(line: str | bytes) -> None:
    """Reject JSON lines, because each of them would become an error.

    Args:
        line: the first line that is not blank.

    Raises:
        ValueError: the line is a JSON object.
    """
    if line[:1] in ("{", b"{"):
        raise ValueError("the input has JSON lines, but workers read one URL per line")


class Splitter:
    """Split an input into partitions.

    Args:
        urls: the input.
        folder: the folder of the fetch.
        size: the maximum number of URLs in a partition.
        host_queues: the number of queues that hosts are assigned to, so that all URLs of a host are
            in partitions of one queue. 0 to not group URLs by host.
        duplicates: finds URLs to leave out, or None.
        earlier: the run whose responses are not sent again if they are unchanged, or None.

    Attributes:
        writes_files: partitions are files in the folder, not ranges of an input file.
    """

    def __init__(
        self,
        urls: UrlInput,
        folder: OutputFolder,
        size: int,
        host_queues: int,
        duplicates: DuplicateURLs | None = None,
        earlier: EarlierRun | None = None,
    ) -> None:
        self._input = urls
        self._folder = folder
        self._size = size
        self.host_queues = host_queues
        self._duplicates = duplicates
        self._earlier = earlier
        self.writes_files: bool = (
            urls.urls is not None
            or urls.is_compressed
            or host_queues > 0
            or duplicates is not None
            or earlier is not None
        )

    @property
    def or_earlier(self) -> str:
        """Return what else may have changed, for a message."""
        return "" if self._earlier is None else ", or the output of `since`"

    def split(self, is_done: Callable[[int], bool]) -> Iterator[Partition]:
        """Yield the partitions.

        Args:
            is_done: returns whether a partition is done, by its number. It is not written then.
        """
        if self.writes_files:
            return self._write_partitions(is_done)
        return self._input.split(self._size)

    def _write_partitions(self, is_done: Callable[[int], bool]) -> Iterator[Partition]:
        for number, (queue, lines) in enumerate(self._group_by_queue()):
            name = partition_file_name(number)
            if not is_done(number):
                with self._folder.write(name) as stream:
                    stream.write(lines)
            source = PartitionFile(self._folder.path(name))
            host_queue = queue if self.host_queues else None
            yield Partition(number, source, f"{crc32(lines):08x}", host_queue)

    def _group_by_queue(self) -> Iterator[tuple[int, bytearray]]:
        """Yield each partition as its queue and its lines."""
        buffers: dict[int, bytearray] = {}
        counts: dict[int, int] = {}
        buffered = rows = 0
        window = self._size * max(1, self.host_queues)
        for row, url in self._input.read():
            text = url if isinstance(url, str) else url.decode("utf-8", "surrogateescape")
            if self._duplicates and self._duplicates.has(text):
                continue
            validators = None if self._earlier is None else self._earlier.find(text)
            fields = [row, text, validators] if validators else [row, text]
            line = json.dumps(fields).encode() + b"\n"
            queue = _get_queue(text, self.host_queues) if self.host_queues else 0
            buffer = buffers.setdefault(queue, bytearray())
            buffer += line
            counts[queue] = counts.get(queue, 0) + 1
            buffered += len(line)
            rows += 1
            if counts[queue] == self._size:
                buffered -= len(buffer)
                counts[queue] = 0
                yield queue, buffers.pop(queue)
            if rows == window or buffered > _WINDOW:
                yield from sorted(buffers.items())
                buffers, counts = {}, {}
                buffered = rows = 0
        yield from sorted(buffers.items())


def _get_queue(url: str, queues: int) -> int:
    """Return the queue of a URL's host, or 0 if the URL is invalid.

    Args:
        url: the URL, as in the input.
        queues: the number of queues.
    """
    parsed = parse_listed(url)
    return 0 if parsed is None else crc32(parsed.host.rstrip(".").encode()) % queues


def _get_size(path: str) -> int:
    """Return the size of a file in bytes.

    Raises:
        OSError: the file does not exist, or cannot be read.
    """
    with open_input_file(path) as stream:
        return stream.seek(0, os.SEEK_END)


def _split_lines(path: str, size: int) -> Iterator[Partition]:
    """Yield the partitions of a text file.

    Args:
        path: the path of the file, or its fsspec URL.
        size: the number of lines in each.
    """
    number = row = begin = offset = lines = digest = 0
    with open_input_file(path) as stream:
        while block := stream.read(_BLOCK_SIZE):
            start = counted = 0
            while (start := block.find(b"\n", start) + 1) > 0:
                lines += 1
                if lines == size:
                    digest = crc32(block[counted:start], digest)
                    source = TextLines(path, begin, offset + start, row)
                    yield Partition(number, source, f"{digest:08x}")
                    number, row, begin = number + 1, row + lines, offset + start
                    lines, digest, counted = 0, 0, start
            digest = crc32(block[counted:], digest)
            offset += len(block)
    if offset > begin:
        yield Partition(number, TextLines(path, begin, offset, row), f"{digest:08x}")


def _split_rows(path: str, column: str, rows: int, size: int) -> Iterator[Partition]:
    """Yield the partitions of a Parquet file. Only its footer is read.

    Args:
        path: the path of the file, or its fsspec URL.
        column: the column with the URLs.
        rows: the number of rows in the file.
        size: the number of rows in each.
    """
    with open_input_file(path) as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, end - _FOOTER))
        digest = crc32(f"{end} {column}".encode(), crc32(stream.read()))
    for number, begin in enumerate(range(0, rows, size)):
        source = ParquetRows(path, column, begin, min(begin + size, rows))
        yield Partition(number, source, f"{digest:08x}")


def _enumerate_urls(urls: Iterable[str | bytes | URL]) -> Iterator[Row]:
    """Yield the items of an iterable with their positions.

    Raises:
        TypeError: an item is not a URL.
    """
    for row, url in enumerate(urls):
        if isinstance(url, URL):
            yield row, str(url)
        elif isinstance(url, (str, bytes)):
            yield row, url
        else:
            raise TypeError(f"urls must have URLs only, not {type(url).__name__}")
