"""The output format SQLite."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

from curlhttp._features.map.bodies import BodyFile
from curlhttp.cli.errors import WRITE_ERROR, CommandFailed
from curlhttp.cli.fetch.records import (
    FetchRecord,
    Mode,
    RecordOutput,
    lock_output,
    open_to_append,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp.cli.fetch.records import RecordOptions

_TABLE = """
CREATE TABLE IF NOT EXISTS results (
    line INTEGER PRIMARY KEY,
    fingerprint TEXT NOT NULL,
    ok INTEGER NOT NULL,
    id,
    method TEXT,
    url TEXT,
    final_url TEXT,
    status INTEGER,
    headers TEXT,
    error TEXT,
    message TEXT,
    reason TEXT,
    curl_code INTEGER,
    request_sent INTEGER NOT NULL DEFAULT 0,
    last_status INTEGER,
    retry_after REAL,
    unchanged INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL,
    elapsed REAL,
    size INTEGER NOT NULL,
    fetched_at TEXT NOT NULL,
    body BLOB
)
"""
_COLUMNS = FetchRecord.__slots__
_INSERT = (
    f"INSERT OR REPLACE INTO results ({', '.join(_COLUMNS)}) "
    f"VALUES ({', '.join('?' * len(_COLUMNS))})"
)
_BUSY_TIMEOUT = 10.0  # seconds to wait for another writer


class SQLite(RecordOutput):
    """Write records as rows of the table `results`, each batch in one transaction.

    The write-ahead log allows others to read during a run. With synchronous=NORMAL, a power failure
    may lose the last transactions, whose lines are fetched again, but does not damage the file.

    Args:
        path: the path of the file.
        mode: see open_output.
        options: see RecordOutput.
    """

    def __init__(self, path: Path, mode: Mode, **options: Unpack[RecordOptions]) -> None:
        super().__init__(**options)
        self._path, self._folder = path, path.parent
        # SQLite's own locks are held for one transaction only. This file is closed after the
        # database, because closing any descriptor of a file ends them.
        self._file = open_to_append(path, mode)
        try:
            lock_output(self._file, path)
            if mode == "overwrite":
                os.ftruncate(self._file, 0)
                for suffix in ("-wal", "-shm"):
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
            self._connect()
        except BaseException as error:
            os.close(self._file)
            if isinstance(error, sqlite3.Error):
                raise self._make_failure(error) from None
            raise

    def _connect(self) -> None:
        self._database = sqlite3.connect(self._path, timeout=_BUSY_TIMEOUT, isolation_level=None)
        try:
            self._open()
        except BaseException:
            self._database.close()
            raise

    def _open(self) -> None:
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(_TABLE)
        self._add_missing_columns()
        for row in self._database.execute(
            "SELECT line, fingerprint, ok, reason, status FROM results"
        ):
            try:
                self._note_recorded(*row)
            except (TypeError, ValueError):
                message = f"{self._path}, line {row[0]}: not a record of curlhttp fetch"
                raise CommandFailed(message, 2) from None

    def _add_missing_columns(self) -> None:
        """Add the columns that an earlier version of curlhttp did not write."""
        found = {row[1] for row in self._database.execute("PRAGMA table_info(results)")}
        for line in _TABLE.splitlines():
            column = line.strip(" ,")
            name = column.partition(" ")[0]
            if name in _COLUMNS and name not in found:
                self._database.execute(f"ALTER TABLE results ADD COLUMN {column}")

    def _write(self, batch: list[FetchRecord]) -> None:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(_INSERT, map(_make_row, batch))
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._make_failure(error) from None

    def _close(self) -> None:
        try:
            self._database.close()
        finally:
            os.close(self._file)

    def _make_failure(self, error: sqlite3.Error) -> CommandFailed:
        return CommandFailed(f"{self._path}: {error}", WRITE_ERROR)


def _make_row(record: FetchRecord) -> list[object]:
    body = record.body.read() if isinstance(record.body, BodyFile) else record.body
    row = {**record.fields(), "body": body}
    row["headers"] = json.dumps(record.headers, ensure_ascii=False)
    return [row[name] for name in _COLUMNS]
