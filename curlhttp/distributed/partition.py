"""A partition: a small picklable value that says where some of the URLs are read.

A source yields (row, URL) pairs one by one and holds at most a line or a batch of rows in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from curlhttp.distributed.storage import open_input_file

__all__ = ["MAX_LINE", "ParquetRows", "Partition", "PartitionFile", "Row", "TextLines"]

Row: TypeAlias = "tuple[int, str | bytes]"
"""The row of a URL in the input, and the URL."""

MAX_LINE = 1 << 20  # bytes
_LINE_END = b"\n"[0]
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class TextLines:
    """A range of lines of a text file. Blank lines and lines that begin with # are skipped.

    Args:
        path: the path of the file, or its fsspec URL.
        begin: the offset of the first line in bytes.
        end: the offset after the last line.
        row: the number of the first line, starting at 0.
    """

    path: str
    begin: int
    end: int
    row: int

    def read(self) -> Iterator[Row]:
        """Yield rows and URLs. A line that is too long is truncated, so it is not a valid URL."""
        with open_input_file(self.path) as stream:
            stream.seek(self.begin)
            row, left = self.row, self.end - self.begin
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
class ParquetRows:
    """A range of rows of a column of a Parquet file. Nulls are skipped.

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
    """A file that the driver wrote: one JSON array of row and URL per line.

    Args:
        path: the path of the file, or its fsspec URL.
    """

    path: str

    def read(self) -> Iterator[Row]:
        """Yield rows and URLs."""
        with open_input_file(self.path) as stream:
            for line in stream:
                row, url = json.loads(line)
                yield row, url


@dataclass(frozen=True, slots=True)
class Partition:
    """Some of the URLs.

    Args:
        number: its number, starting at 0; the names of its files contain it.
        source: where its URLs are read.
        digest: a checksum of what the driver read for it, which reveals a changed input.
        host_queue: the queue of its hosts: two partitions of one queue never run concurrently.
            None if the partitions are not grouped by host.
    """

    number: int
    source: TextLines | ParquetRows | PartitionFile
    digest: str
    host_queue: int | None = None
