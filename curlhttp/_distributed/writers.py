"""The writing of parts: rows in, a file of lines or of row groups out."""

from __future__ import annotations

from typing import BinaryIO, Protocol

from curlhttp._distributed.rows import FetchRow
from curlhttp._distributed.work import Format

__all__ = ["RowWriter", "writer_of"]


class RowWriter(Protocol):
    """Write the rows of one part."""

    def add(self, row: FetchRow) -> None:
        """Take a row."""

    def close(self) -> None:
        """Write what is left; the stream stays open."""


def writer_of(format: Format, stream: BinaryIO) -> RowWriter:
    """Return what writes a part.

    Args:
        format: of the part.
        stream: that takes its bytes.

    Raises:
        ImportError: it needs pyarrow.
    """
    if format == "parquet":
        from curlhttp._distributed.parquet import ParquetWriter

        return ParquetWriter(stream)
    return _LineWriter(stream)


class _LineWriter:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def add(self, row: FetchRow) -> None:
        self._stream.write(row.to_json())

    def close(self) -> None:
        pass
