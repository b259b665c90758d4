"""Responses in a file of SQLite, or in memory, by hishel's storage."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import cast

from hishel import BaseStorage, SqliteStorage

from curlhttp._client.cache.store import StoragePlace

__all__ = ["open_sqlite"]

_BUSY = 250  # milliseconds that a write waits for another process; then it is given up
_LOG = 4 * 2**20  # bytes to which the write-ahead log is cut
# Seconds after its last use in which a response is not evicted, so that none goes while it is
# written or read. Half of that is how exactly the last use is known: few hits write anything.
_IN_USE = 1.0


def open_sqlite(path: str, max_size: int) -> StoragePlace:
    """Return a place in a file; it is opened by a call of what is returned.

    Args:
        path: of the file, or ":memory:".
        max_size: bytes above which responses are evicted.
    """
    opening: Callable[[], BaseStorage] = partial(_open, path, max_size)
    return StoragePlace(path, opening, _clear, is_quick=path == ":memory:")


def _open(path: str, max_size: int) -> BaseStorage:
    in_memory = path == ":memory:"
    try:
        if not in_memory:
            # Private responses are for their owner. SQLite's other files take its mode.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise OSError(f"the cache {path!r} cannot be opened: {error}") from error
    try:
        # Is it a database at all? hishel would ask in a thread, where the error would be lost.
        connection.execute("PRAGMA schema_version")
        storage = SqliteStorage(connection=connection, max_size=max_size, soft_delete_ttl=_IN_USE)
        storage._ensure_connection()  # is it a cache?
        connection.execute(f"PRAGMA busy_timeout={_BUSY}")
        connection.execute(f"PRAGMA journal_size_limit={_LOG}")
        connection.execute("UPDATE entries SET tti = NULL WHERE FALSE")  # may it be written?
    except (sqlite3.Error, RuntimeError) as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError):
            raise OSError(f"the cache {path!r} cannot be used: {error}") from error
        raise ValueError(f"{path!r} is no cache of responses: {error}") from error
    return storage


def _clear(storage: BaseStorage) -> None:
    connection = cast(SqliteStorage, storage)._ensure_connection()
    connection.execute("DELETE FROM entries")
    connection.execute("VACUUM")
