"""Records as rows of an SQLite table, `results`; each batch is one transaction.

The write-ahead log lets others read while a run goes on. With synchronous=NORMAL a power cut may
take the last transactions, whose lines are fetched again, and never harms the file.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

from curlhttp.cli.exits import WRITE_ERROR, CommandFailed
from curlhttp.cli.fetch.output import Mode, Output, refuse
from curlhttp.cli.fetch.record import FetchRecord

__all__ = ["SQLite"]

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
_BUSY = 10.0  # seconds to wait for another program that writes


class SQLite(Output):
    """Keep records in a database.

    Args:
        path: of the file.
        mode: see open_output.
        keeps_bodies: bodies are kept as well.
    """

    def __init__(self, path: Path, mode: Mode, *, keeps_bodies: bool) -> None:
        super().__init__(keeps_bodies=keeps_bodies)
        self._path = path
        if mode == "new" and path.exists():
            raise refuse(path)
        if mode == "overwrite":
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        try:
            self._database = sqlite3.connect(path, timeout=_BUSY, isolation_level=None)
        except sqlite3.Error as error:
            raise self._failure(error) from None
        try:
            self._open()
        except BaseException as error:
            self._database.close()
            if isinstance(error, sqlite3.Error):
                raise self._failure(error) from None
            raise

    def _open(self) -> None:
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.execute(_TABLE)
        for number, fingerprint, ok in self._database.execute(
            "SELECT line, fingerprint, ok FROM results"
        ):
            try:
                self.recorded.add(number, int(fingerprint, 16), bool(ok))
            except (TypeError, ValueError):
                message = f"{self._path}, line {number}: this was not written by curlhttp fetch"
                raise CommandFailed(message, 2) from None

    def _keep(self, batch: list[FetchRecord]) -> None:
        try:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(_INSERT, map(_row, batch))
            self._database.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._failure(error) from None

    def _close(self) -> None:
        self._database.close()

    def _failure(self, error: sqlite3.Error) -> CommandFailed:
        return CommandFailed(f"{self._path}: {error}", WRITE_ERROR)


def _row(record: FetchRecord) -> list[object]:
    row = {**record.fields(), "body": record.body}
    row["headers"] = json.dumps(record.headers, ensure_ascii=False)
    return [row[name] for name in _COLUMNS]
