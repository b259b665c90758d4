"""The output format Parquet: a journal of JSON lines while a run goes on, and a table at its end.

A Parquet file cannot be appended to, and is unreadable without its end. So records go to a journal
next to it. When a run ends, also after Ctrl-C, the table and the journal become a new table, which
replaces the old one. After a kill the journal is there: the next run continues it. Merging is
repeatable, because the records of the journal replace those of the table for the same lines.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from curlhttp._features.fetch.tables import (
    MAX_BYTES,
    MAX_ROWS,
    build_schema,
    import_pyarrow,
    open_table,
)
from curlhttp.cli.errors import WRITE_ERROR, CommandFailed
from curlhttp.cli.fetch.recorded import RecordedLines
from curlhttp.cli.fetch.records import FetchRecord, JSONLines, Mode, make_exists_error

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp.cli.fetch.records import RecordOptions

_Row: TypeAlias = dict[str, Any]  # Any: JSON
_STATE = ["line", "fingerprint", "ok", "reason", "status"]
_REQUIRED = frozenset(
    ("line", "fingerprint", "ok", "request_sent", "unchanged", "attempts", "size", "fetched_at")
)


class Parquet(JSONLines):
    """Write records to a journal, and at the end to a Parquet file with one row for each line.

    Args:
        path: the path of the Parquet file.
        mode: see open_output.
        options: see RecordOutput.

    Raises:
        ImportError: pyarrow is not installed.
    """

    def __init__(self, path: Path, mode: Mode, **options: Unpack[RecordOptions]) -> None:
        self._arrow, self._parquet = import_pyarrow()
        self._table = path
        self._journal = path.with_name(f"{path.name}.journal")
        if mode == "new" and path.exists():
            raise make_exists_error(path)
        self._is_replaced = mode == "overwrite"
        super().__init__(self._journal, mode, **options)

    def _read_file(self, file: BinaryIO) -> int:
        if self._is_replaced:
            self._table.unlink(missing_ok=True)
        elif self._table.exists():
            self._read_table()
        return super()._read_file(file)

    def _read_table(self) -> None:
        try:
            for batch in self._parquet.ParquetFile(self._table).iter_batches(columns=_STATE):
                for row in batch.to_pylist():
                    self._note_recorded(*[row[name] for name in _STATE])
        except (self._arrow.ArrowException, KeyError, TypeError, ValueError):
            message = f"{self._table}: not a table of curlhttp fetch"
            raise CommandFailed(message, 2) from None

    def _close(self) -> None:
        try:
            os.fsync(self._file)
            if os.fstat(self._file).st_size or not self._table.exists():
                self._merge()
            if os.name != "nt":
                self._journal.unlink()  # while it is locked: later it may be another run's
        finally:
            os.close(self._file)
        if os.name == "nt":  # which deletes no file that is open, here or in another run
            with suppress(PermissionError):
                self._journal.unlink()

    def _merge(self) -> None:
        """Replace the table by one with the records of the journal."""
        part = self._table.with_name(f"{self._table.name}.part")
        try:
            with part.open("wb") as stream:
                self._write_table(stream)
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(self._table)
        except BaseException as error:
            with suppress(OSError):
                part.unlink()
            if isinstance(error, OSError):
                raise CommandFailed(
                    f"{self._table}: {error.strerror or error}; the records are in "
                    f"{self._journal}, from which --resume continues",
                    WRITE_ERROR,
                ) from None
            raise

    def _write_table(self, stream: BinaryIO) -> None:
        schema = build_schema(self._arrow, FetchRecord.__slots__, required=_REQUIRED)
        newer, last = self._find_newer()
        with open_table(self._parquet, stream, schema) as writer:
            if self._table.exists():
                for batch in self._parquet.ParquetFile(self._table).iter_batches(MAX_ROWS):
                    kept = [not newer.has(line) for line in batch.column("line").to_pylist()]
                    table = self._arrow.Table.from_batches([batch]).filter(kept)
                    if table.num_rows:
                        writer.write_table(table.cast(schema))
            for rows in self._read_rows(last):
                writer.write_table(self._arrow.Table.from_pylist(rows, schema))

    def _find_newer(self) -> tuple[RecordedLines, dict[int, int]]:
        """Return the lines in the journal, and of those with several records the last one."""
        newer, last = RecordedLines(), dict[int, int]()
        with self._journal.open("rb") as journal:
            for ordinal, text in enumerate(journal):
                line = json.loads(text)["line"]
                if newer.has(line):
                    last[line] = ordinal
                newer.add(line, 1, ok=True)
        return newer, last

    def _read_rows(self, last: dict[int, int]) -> Iterator[list[_Row]]:
        rows: list[_Row] = []
        size = 0
        with self._journal.open("rb") as journal:
            for ordinal, text in enumerate(journal):
                record = json.loads(text)
                if last.get(record["line"], ordinal) != ordinal:
                    continue
                rows.append(_make_row(record))
                size += len(text)
                if len(rows) >= MAX_ROWS or size >= MAX_BYTES:
                    yield rows
                    rows, size = [], 0
        if rows:
            yield rows


def _make_row(record: _Row) -> _Row:
    body = record.pop("body", None)
    coded = record.pop("body_base64", None)
    record["body"] = base64.b64decode(coded) if coded is not None else body and body.encode()
    if body == "":
        record["body"] = b""
    record["headers"] = list(record["headers"].items())
    record["fetched_at"] = datetime.fromisoformat(record["fetched_at"])
    if record["id"] is not None:
        record["id"] = str(record["id"])
    return record
