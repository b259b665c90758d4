"""A partition: some of the URLs, as a small value that says where they are to be read.

Sources give (row, URL) pairs one by one; what they hold of a partition is a line at a time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from curlhttp._distributed.folders import open_to_read

__all__ = ["LONGEST_LINE", "Lines", "Pair", "ParquetRows", "Partition", "Source", "Spilled"]

Pair: TypeAlias = "tuple[int, str | bytes]"
"""The row of a URL in the input, and the URL."""

LONGEST_LINE = 1 << 20  # bytes
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a text file; those that are blank or begin with # have no URL.

    Args:
        path: of the file, or its fsspec URL.
        begin: the offset of the first line in bytes.
        end: the offset behind the last one.
        row: the number of the first line, from 0 on.
    """

    path: str
    begin: int
    end: int
    row: int

    def read(self) -> Iterator[Pair]:
        """Give the rows and URLs; a line that is too long is cut, and so is no URL."""
        with open_to_read(self.path) as stream:
            stream.seek(self.begin)
            row, left = self.row, self.end - self.begin
            while left > 0:
                raw = stream.readline(min(left, LONGEST_LINE))
                if not raw:
                    return
                left -= len(raw)
                while left > 0 and not raw.endswith(b"\n"):
                    more = stream.readline(min(left, LONGEST_LINE))
                    left -= len(more)
                    if not more or more.endswith(b"\n"):
                        break
                text = (raw.removeprefix(_BOM) if row == 0 else raw).strip()
                if text and not text.startswith(b"#"):
                    yield row, text
                row += 1


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Rows of a column of a Parquet file; a null has no URL.

    Args:
        path: of the file, or its fsspec URL.
        column: its name.
        begin: the first row.
        end: the row behind the last.
    """

    path: str
    column: str
    begin: int
    end: int

    def read(self) -> Iterator[Pair]:
        """Give the rows and URLs."""
        from curlhttp._distributed.parquet import column_values

        with open_to_read(self.path) as stream:
            yield from column_values(stream, self.column, self.begin, self.end)


@dataclass(frozen=True, slots=True)
class Spilled:
    """A file of pairs in JSON, one a line, that the driver wrote.

    Args:
        path: of the file, or its fsspec URL.
    """

    path: str

    def read(self) -> Iterator[Pair]:
        """Give the rows and URLs."""
        with open_to_read(self.path) as stream:
            for line in stream:
                row, url = json.loads(line)
                yield row, url


Source: TypeAlias = Lines | ParquetRows | Spilled


@dataclass(frozen=True, slots=True)
class Partition:
    """Some of the URLs.

    Args:
        number: of the partition, from 0 on; the names of its files come of it.
        source: where its URLs are read.
        digest: of what the driver read for it, by which a changed input is found out.
        lane: of its hosts; two partitions of one lane never run at once. None without lanes.
    """

    number: int
    source: Source
    digest: str
    lane: int | None = None
