"""Parquet, by pyarrow: columns of URLs, and parts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, BinaryIO

from curlhttp._distributed.folders import open_to_read
from curlhttp._distributed.rows import TIMINGS, FetchRow

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["ParquetWriter", "column_of", "column_values", "load"]

_ROWS = 1000  # of a row group, at most
_NO_TIMINGS = (0.0,) * len(TIMINGS)
_BYTES = 8 << 20  # of bodies in a row group, about


def load() -> tuple[ModuleType, ModuleType]:
    """Return pyarrow and its module for Parquet.

    Raises:
        ImportError: it is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            "Parquet needs pyarrow: pip install 'curlhttp[parquet]', or give format='jsonl'"
        ) from error
    return pyarrow, parquet


def column_of(path: str, column: str | None) -> tuple[str, int]:
    """Return the name of the column with the URLs, and how many rows there are.

    Args:
        path: of the file, or its fsspec URL.
        column: its name; None if there is one column, or one that is called "url".

    Raises:
        ValueError: there is no such column, it has no strings, or the file is no Parquet.
    """
    pyarrow, parquet = load()
    with open_to_read(path) as stream:
        try:
            file = parquet.ParquetFile(stream)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"the input is no Parquet file: {error}") from None
        names = file.schema_arrow.names
        if column is None:
            column = names[0] if len(names) == 1 else "url"
        if column not in names:
            raise ValueError(f"the input has no column {column!r}: there are {', '.join(names)}")
        kind = file.schema_arrow.field(column).type
        types = pyarrow.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
            raise ValueError(f"the column {column!r} has no strings, but {kind}")
        return column, file.metadata.num_rows


def column_values(
    stream: BinaryIO, column: str, begin: int, end: int
) -> Iterator[tuple[int, str | bytes]]:
    """Give rows and values of a column, those that are null left out.

    Args:
        stream: of the file.
        column: its name.
        begin: the first row.
        end: the row behind the last.
    """
    _, parquet = load()
    file = parquet.ParquetFile(stream)
    row = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if row + rows <= begin:
            row += rows
            continue
        if row >= end:
            return
        for batch in file.iter_batches(_ROWS, row_groups=[group], columns=[column]):
            size = len(batch)
            if row + size > begin and row < end:
                values = batch.column(0).slice(max(0, begin - row), end - max(begin, row))
                for place, value in enumerate(values.to_pylist(), max(begin, row)):
                    if value is not None:
                        yield place, value
            row += size


class ParquetWriter:
    """Write rows as Parquet: a row group is what is held of them.

    Args:
        stream: that takes the bytes.

    Raises:
        ImportError: pyarrow is not installed.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._arrow, parquet = load()
        self._schema = _schema(self._arrow)
        self._writer: Any = parquet.ParquetWriter(stream, self._schema, compression="zstd")
        self._rows: list[FetchRow] = []
        self._bytes = 0

    def add(self, row: FetchRow) -> None:
        """Take a row."""
        self._rows.append(row)
        self._bytes += 1000 + len(row.body or b"")
        if len(self._rows) >= _ROWS or self._bytes >= _BYTES:
            self._flush()

    def _flush(self) -> None:
        rows, self._rows, self._bytes = self._rows, [], 0
        columns = [self._column(field, rows) for field in self._schema]
        self._writer.write_table(self._arrow.Table.from_arrays(columns, schema=self._schema))

    def _column(self, field: Any, rows: list[FetchRow]) -> Any:  # Any: pyarrow has no types
        name = field.name
        if name == "timings":
            return self._timings([row.timings for row in rows], field.type)
        if name == "headers":
            return self._headers([row.headers for row in rows])
        values = [getattr(row, name) for row in rows]
        return (
            self._strings(values)
            if field.type == self._arrow.string()
            else (self._arrow.array(values, field.type))
        )

    def _strings(self, values: list[Any]) -> Any:
        try:
            return self._arrow.array(values, self._arrow.string())
        except UnicodeEncodeError:  # of halves of surrogate pairs
            return self._arrow.array(map(_text, values), self._arrow.string())

    def _timings(self, rows: list[tuple[float, ...] | None], kind: Any) -> Any:
        filled = [row or _NO_TIMINGS for row in rows]
        columns = [self._arrow.array(values, kind[0].type) for values in zip(*filled, strict=True)]
        missing = self._arrow.array([row is None for row in rows])
        return self._arrow.StructArray.from_arrays(columns, fields=list(kind), mask=missing)

    def _headers(self, rows: list[dict[str, list[str]]]) -> Any:
        arrow, whole = self._arrow, self._arrow.int32()
        lists = [values for row in rows for values in row.values()]
        values = self._strings([value for values in lists for value in values])
        ends = arrow.array(accumulate(map(len, lists), initial=0), whole)
        items = arrow.ListArray.from_arrays(ends, values)
        keys = self._strings([name for row in rows for name in row])
        return arrow.MapArray.from_arrays(
            arrow.array(accumulate(map(len, rows), initial=0), whole), keys, items
        )

    def close(self) -> None:
        """Write what is left, and the footer; the stream stays open."""
        if self._rows:
            self._flush()
        self._writer.close()


def _text(value: object) -> object:
    """Return a value that Arrow takes: no halves of surrogate pairs."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    return value


def _schema(arrow: Any) -> Any:  # Any: pyarrow has no types
    text, whole = arrow.string(), arrow.int64()
    return arrow.schema(
        [
            arrow.field("row", whole, nullable=False),
            arrow.field("url", text, nullable=False),
            arrow.field("final_url", text),
            arrow.field("status", arrow.int32()),
            arrow.field("error", text),
            arrow.field("message", text),
            arrow.field("attempts", arrow.int32(), nullable=False),
            arrow.field("timings", arrow.struct([(name, arrow.float64()) for name in TIMINGS])),
            arrow.field("headers", arrow.map_(text, arrow.list_(text))),
            arrow.field("size", whole, nullable=False),
            arrow.field("body", arrow.binary()),
            arrow.field("body_file", text),
            arrow.field("fetched_at", arrow.timestamp("ms", tz="UTC"), nullable=False),
        ]
    )
