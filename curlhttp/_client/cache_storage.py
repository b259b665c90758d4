"""A store of responses whose faults are said once in the log, and fail no request."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import hishel
from hishel import BaseStorage, RedisStorage, SqliteStorage

from curlhttp._models import fork as _fork
from curlhttp._models.redaction import redact_url
from curlhttp._policy.cache import (
    StoredResponse,
    add_checksums,
    find_equivalent,
    is_body_intact,
    is_intact,
)

if TYPE_CHECKING:
    from redis import Redis

_PAUSE = 5.0  # seconds for which a store that failed is left alone


class StorageBackend(NamedTuple):
    """Where responses are kept.

    Attributes:
        where: for a repr; holds no credentials.
        open: opens it; called again in a forked child.
        clear: removes all from what `open` gave.
        is_quick: it never makes its caller wait.
    """

    where: str
    open: Callable[[], BaseStorage]
    clear: Callable[[BaseStorage], None]
    is_quick: bool


class ResponseStore:
    """Responses in a storage of hishel's; safe to use from many threads.

    Args:
        place: where they are kept.
        max_body: bytes that a body may have.

    Raises:
        ValueError: the file is no cache.
        OSError: it cannot be opened.
    """

    def __init__(self, place: StorageBackend, max_body: int) -> None:
        self.max_body = max_body
        self.where: str = place.where
        self.is_quick: bool = place.is_quick
        self._place = place
        self._storage: BaseStorage | None = place.open()
        self._lock = threading.Lock()
        self._is_closed = False
        self._resumes_at = 0.0  # on the machine's clock
        self._has_warned = False
        self._left: list[BaseStorage | None] = []  # those of the parents of this process
        _fork.register(self)

    def find(
        self, key: str, choose: Callable[[list[hishel.Entry]], hishel.Entry | None]
    ) -> StoredResponse | None:
        """Return what `choose` takes of what is stored under a key, with its body."""
        with self._guarded() as storage:
            if storage is not None:
                entry = choose(_sealed(storage, key))
                if entry is not None:
                    return _whole(storage, entry)
        return None

    def put(self, key: str, entry: hishel.Entry, body: bytes) -> bool:
        """Store a response in place of what answered the same; return whether it is."""
        with self._guarded() as storage:
            if storage is not None:
                for old in find_equivalent(entry, storage.get_entries(key)):
                    storage.remove_entry(old.id)
                add_checksums(entry, key, body)
                response = hishel.Response(
                    entry.response.status_code, entry.response.headers, iter((body,))
                )
                stored = storage.create_entry(entry.request, response, key)
                for _ in stored.response.stream or ():  # type: ignore[union-attr]
                    pass  # it stores what is read
                return (
                    _storage_errors.seen is None and stored.response.stream is not response.stream
                )
        return False

    def update(self, key: str, entry: hishel.Entry) -> None:
        """Store the fields of a response again."""
        with self._guarded() as storage:
            if storage is not None:
                add_checksums(entry, key)
                storage.update_headers(entry.id, entry.response.headers)

    def remove(self, entry: hishel.Entry) -> None:
        """Remove one response."""
        with self._guarded() as storage:
            if storage is not None:
                storage.remove_entry(entry.id)

    def clear(self, keys: list[str]) -> None:
        """Remove all that is stored under some keys."""
        with self._guarded() as storage:
            if storage is not None:
                for key in keys:
                    for entry in storage.get_entries(key):
                        storage.remove_entry(entry.id)

    def clear_all(self) -> None:
        """Remove everything."""
        with self._guarded() as storage:
            if storage is not None:
                self._place.clear(storage)

    def close(self) -> None:
        """Keep and find nothing from now on."""
        with self._lock:
            self._is_closed = True
            storage, self._storage = self._storage, None
        if storage is not None:
            storage.close()

    def __del__(self) -> None:
        storage = self.__dict__.get("_storage")  # not there if opening it failed
        if storage is not None:
            storage.close()

    def after_fork_in_child(self) -> None:
        """Open it again with the next request; the parent's connection is left alone."""
        # Not closed either: that would take the parent's locks on the file away.
        self._left.append(self._storage)
        self._storage, self._lock = None, threading.Lock()

    @contextmanager
    def _guarded(self) -> Iterator[BaseStorage | None]:
        """Give the storage, or None while there is none to be used; hold back what it raises."""
        if self._resumes_at and time.monotonic() < self._resumes_at:
            yield None
            return
        _storage_errors.is_heard = True
        try:
            yield self._opened()
        except Exception as error:  # whatever it is, the request goes on
            _storage_errors.seen = error
        finally:
            _storage_errors.is_heard = False
            seen, _storage_errors.seen = _storage_errors.seen, None
            if seen is not None:
                self._pause(seen)

    def _opened(self) -> BaseStorage | None:
        if self._storage is None and not self._is_closed:
            with self._lock:
                if self._storage is None and not self._is_closed:
                    self._storage = self._place.open()
        return self._storage

    def _pause(self, error: BaseException) -> None:
        if self._is_closed:  # a request was in it while it was closed
            return
        self._resumes_at = time.monotonic() + _PAUSE
        if not self._has_warned:
            self._has_warned = True
            logging.getLogger("curlhttp").warning(
                "the cache in %s fails, requests go on without it: %s: %s",
                self.where,
                type(error).__name__,
                str(error),  # a handler may keep what it is given, and an error keeps its frames
            )


def _whole(storage: BaseStorage, entry: hishel.Entry) -> StoredResponse | None:
    """Return a stored response with its body; one whose body is another one now is removed."""
    try:
        body = b"".join(entry.response.stream or ())  # type: ignore[arg-type]
        if is_body_intact(entry, body):
            return StoredResponse(entry, body)
    except (RuntimeError, TypeError, ValueError):  # cleared meanwhile, or damaged
        pass  # no fault of the store
    storage.remove_entry(entry.id)
    return None


def _sealed(storage: BaseStorage, key: str) -> list[hishel.Entry]:
    """Return what is stored under a key and is as it was stored; the rest is removed."""
    intact = []
    for entry in storage.get_entries(key):
        if is_intact(entry, key):
            intact.append(entry)
        else:
            storage.remove_entry(entry.id)
    return intact


class _StorageErrors(threading.local):
    """What hishel logs in this thread while a ResponseStore calls it; it raises little."""

    is_heard = False
    seen: BaseException | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep an error in place of hishel's log of each; others' records are let through."""
        if not self.is_heard or record.levelno < logging.ERROR:
            return True
        self.seen = (record.exc_info or (None, None))[1] or RuntimeError(record.getMessage())
        return False


_storage_errors = _StorageErrors()
for _name in ("_sync_sqlite", "_sync_redis"):
    logging.getLogger(f"hishel._core._storages.{_name}").addFilter(_storage_errors)


# --- Responses in a file of SQLite, or in memory, by hishel's storage ---

_BUSY = 250  # milliseconds that a write waits for another process; then it is given up
_LOG = 4 * 2**20  # bytes to which the write-ahead log is cut
# Seconds after its last use in which a response is not evicted, so that none goes while it is
# written or read. Half of that is how exactly the last use is known: few hits write anything.
_IN_USE = 1.0


def open_sqlite(path: str, max_size: int) -> StorageBackend:
    """Return a place in a file; it is opened by a call of what is returned.

    Args:
        path: of the file, or ":memory:".
        max_size: bytes above which responses are evicted.
    """
    opening: Callable[[], BaseStorage] = partial(_open_file, path, max_size)
    return StorageBackend(path, opening, _clear_sqlite, is_quick=path == ":memory:")


def _open_file(path: str, max_size: int) -> BaseStorage:
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


def _clear_sqlite(storage: BaseStorage) -> None:
    connection = cast(SqliteStorage, storage)._ensure_connection()
    connection.execute("DELETE FROM entries")
    connection.execute("VACUUM")


# --- Responses in Redis, by hishel's storage ---

_KEYS = "curlhttp:cache"  # what all names in Redis begin with
_KEPT = 30 * 24 * 3600.0  # seconds
_TIMEOUT = 1.0  # seconds: a cache that answers later is of no use


def open_redis(given: str | Redis, max_body: int) -> StorageBackend:
    """Return a place in Redis; it connects with the first request.

    Args:
        given: a URL, or a client of redis-py.
        max_body: bytes that a body may have.

    Raises:
        ImportError: redis is not installed.
        TypeError: it is an async client, or one that decodes what it reads.
    """
    try:
        import redis
    except ImportError as error:
        raise ImportError("redis= needs redis-py: pip install 'curlhttp[cache]' redis") from error
    if isinstance(given, str):
        url = given
        make = partial(
            redis.Redis.from_url, url, socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT
        )
        make()  # a URL that is none is refused now
        return StorageBackend(
            redact_url(url), lambda: _redis_storage(make(), max_body), _clear_redis, is_quick=False
        )
    if not isinstance(given, redis.Redis):
        raise TypeError(
            f"redis= takes a URL or a redis.Redis, not {type(given).__module__}."
            f"{type(given).__name__}: async clients use the same one, in threads"
        )
    if given.connection_pool.connection_kwargs.get("decode_responses"):
        raise TypeError("redis= takes a client without decode_responses: bodies are bytes")
    # Its owner closes it, and it knows of forks by itself.
    return StorageBackend(
        "Redis",
        lambda: _redis_storage(given, max_body, _NonClosingRedisStorage),
        _clear_redis,
        is_quick=False,
    )


class _NonClosingRedisStorage(RedisStorage):
    """A storage on a client that is its owner's to close."""

    def close(self) -> None:
        """Leave the client open."""


def _redis_storage(
    client: Redis, max_body: int, kind: type[RedisStorage] = RedisStorage
) -> BaseStorage:
    return kind(client, default_ttl=_KEPT, max_stream_size=max_body, key_prefix=_KEYS)


def _clear_redis(storage: BaseStorage) -> None:
    client = cast(RedisStorage, storage)._client
    for name in client.scan_iter(f"{_KEYS}:*", count=1000):
        client.delete(name)
