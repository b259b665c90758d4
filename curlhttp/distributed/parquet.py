"""Parquet, through pyarrow: read a column of URLs, and write parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, repeat
from operator import attrgetter, itemgetter
from typing import Any, BinaryIO

from curlhttp._features.fetch.storage import open_input_file
from curlhttp._features.fetch.tables import (
    MAX_BYTES,
    MAX_ROWS,
    TIMINGS,
    build_schema,
    import_pyarrow,
    open_table,
)
from curlhttp._features.map.bodies import BodyFile
from curlhttp.distributed.rows import FetchRow, has_duplicates

_COLUMNS = (
    *("row", "url", "final_url", "status", "error", "message", "reason", "curl_code"),
    *("request_sent", "last_status", "retry_after", "unchanged", "attempts", "timings"),
    *("headers", "size", "body", "body_file", "fetched_at"),
)
_REQUIRED = ("row", "url", "request_sent", "unchanged", "attempts", "size", "fetched_at")
_NO_TIMINGS = (0.0,) * len(TIMINGS)
_get_name, _get_value = itemgetter(0), itemgetter(1)


def find_column(path: str, column: str | None) -> tuple[str, int]:
    """Return the name of the column with the URLs, and the number of rows.

    Args:
        path: the path of the file, or its fsspec URL.
        column: the name, or None for the only column or the one named "url".

    Raises:
        ValueError: there is no such column, it has no strings, or the file is not Parquet.
    """
    pyarrow, parquet = import_pyarrow()
    with open_input_file(path) as stream:
        try:
            file = parquet.ParquetFile(stream)
        except pyarrow.ArrowInvalid as error:
            raise ValueError(f"the input is not a Parquet file: {error}") from None
        names = file.schema_arrow.names
        if column is None:
            column = names[0] if len(names) == 1 else "url"
        if column not in names:
            raise ValueError(f"the input has no column {column!r}, only {', '.join(names)}")
        kind = file.schema_arrow.field(column).type
        types = pyarrow.types
        if types.is_dictionary(kind):
            kind = kind.value_type
        if not (types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)):
            raise ValueError(f"the column {column!r} has no strings; its type is {kind}")
        return column, file.metadata.num_rows


def read_column(
    stream: BinaryIO, column: str, begin: int, end: int
) -> Iterator[tuple[int, str | bytes]]:
    """Yield rows and values of a column, without nulls.

    Args:
        stream: the file.
        column: the name of the column.
        begin: the first row.
        end: the row after the last one.
    """
    _, parquet = import_pyarrow()
    file = parquet.ParquetFile(stream)
    row = 0
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if row + rows <= begin:
            row += rows
            continue
        if row >= end:
            return
        for batch in file.iter_batches(MAX_ROWS, row_groups=[group], columns=[column]):
            size = len(batch)
            if row + size > begin and row < end:
                values = batch.column(0).slice(max(0, begin - row), end - max(begin, row))
                for position, value in enumerate(values.to_pylist(), max(begin, row)):
                    if value is not None:
                        yield position, value
            row += size


def read_row_column(stream: BinaryIO) -> Iterator[int]:
    """Yield the numbers of the rows in a part."""
    _, parquet = import_pyarrow()
    for batch in parquet.ParquetFile(stream).iter_batches(columns=["row"]):
        yield from batch.column(0).to_pylist()


class ParquetWriter:
    """Write rows to a Parquet file. They are buffered until they fill a row group.

    The buffers are lists of strings and numbers, one for each column, because the garbage collector
    would traverse a thousand rows with their fields again and again.

    Args:
        stream: the file to write to.

    Raises:
        ImportError: pyarrow is not installed.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._arrow, parquet = import_pyarrow()
        self._schema = build_schema(self._arrow, _COLUMNS, required=_REQUIRED)
        self._writer = open_table(parquet, stream, self._schema)
        self._start_group()

    def _start_group(self) -> None:
        self._bytes = 0
        self._columns: dict[str, list[object]] = {
            name: [] for name in self._schema.names if name not in ("timings", "headers")
        }
        self._timings: list[list[float]] = [[] for _ in TIMINGS]
        self._has_no_timings: list[bool] = []
        self._headers = _HeaderColumns()

    def add(self, rows: list[FetchRow]) -> None:
        """Add rows. A large body is in memory alone, in a row group of its own."""
        for is_large, group in groupby(rows, lambda row: isinstance(row.body, BodyFile)):
            if not is_large:
                self._add(list(group))
                continue
            for row in group:
                self._flush()
                assert isinstance(row.body, BodyFile)
                row.body = row.body.read()
                self._add([row])
                row.body = None
                self._flush()

    def _add(self, rows: list[FetchRow]) -> None:
        for name, column in self._columns.items():
            column += map(attrgetter(name), rows)
        self._has_no_timings += [row.timings is None for row in rows]
        timings = zip(*[row.timings or _NO_TIMINGS for row in rows], strict=True)
        for phase, seconds in zip(self._timings, timings, strict=False):  # rows may be empty
            phase += seconds
        for row in rows:
            self._headers.add(row)
        self._bytes += sum([1000 + len(row.body or b"") for row in rows])
        if len(self._has_no_timings) >= MAX_ROWS or self._bytes >= MAX_BYTES:
            self._flush()

    def _flush(self) -> None:
        if not self._has_no_timings:
            return
        columns = [self._make_column(field) for field in self._schema]
        self._start_group()
        self._writer.write_table(self._arrow.Table.from_arrays(columns, schema=self._schema))

    def _make_column(self, field: Any) -> Any:  # Any: pyarrow has no types
        if field.name == "timings":
            return self._make_timings(field.type)
        if field.name == "headers":
            return self._make_headers()
        values = self._columns[field.name]
        if field.type == self._arrow.string():
            return self._make_strings(values)
        return self._arrow.array(values, field.type)

    def _make_strings(self, values: Sequence[object]) -> Any:
        try:
            return self._arrow.array(values, self._arrow.string())
        except UnicodeEncodeError:  # lone surrogates
            return self._arrow.array(map(_replace_surrogates, values), self._arrow.string())

    def _make_timings(self, kind: Any) -> Any:
        columns = [self._arrow.array(values, kind[0].type) for values in self._timings]
        missing = self._arrow.array(self._has_no_timings)
        return self._arrow.StructArray.from_arrays(columns, fields=list(kind), mask=missing)

    def _make_headers(self) -> Any:
        headers = self._headers
        return self._arrow.MapArray.from_arrays(
            self._make_offsets(headers.names_per_row),
            self._make_strings(headers.names),
            self._arrow.ListArray.from_arrays(
                self._make_offsets(headers.values_per_name), self._make_strings(headers.values)
            ),
        )

    def _make_offsets(self, lengths: list[int]) -> Any:
        return self._arrow.array(accumulate(lengths, initial=0), self._arrow.int32())

    def close(self) -> None:
        """Write the remaining rows and the footer. The stream stays open."""
        self._flush()
        self._writer.close()


class _HeaderColumns:
    """The header fields of rows, as the flat lists of a map of lists."""

    def __init__(self) -> None:
        self.names_per_row: list[int] = []
        self.names: list[str] = []
        self.values_per_name: list[int] = []
        self.values: list[str] = []

    def add(self, row: FetchRow) -> None:
        """Add the fields of a row."""
        fields = row.fields
        if not has_duplicates(fields):
            self.names_per_row.append(len(fields))
            self.names += map(_get_name, fields)
            self.values += map(_get_value, fields)
            self.values_per_name += repeat(1, len(fields))
            return
        grouped = row.grouped_fields()
        self.names_per_row.append(len(grouped))
        for name, values in grouped:
            self.names.append(name)
            self.values += values
            self.values_per_name.append(len(values))


def _replace_surrogates(value: object) -> object:
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    return value
