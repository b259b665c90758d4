"""The store of a cache. Its errors are logged once, and never fail a request."""

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

from curlhttp._features.cache.policy import (
    StoredResponse,
    add_checksums,
    find_equivalent,
    is_body_intact,
    is_intact,
)
from curlhttp._http import fork as _fork
from curlhttp._http.redaction import redact_url

if TYPE_CHECKING:
    from redis import Redis

_PAUSE = 5.0  # seconds without a store after it failed


class StorageBackend(NamedTuple):
    """A place that stores responses.

    Attributes:
        label: a description for repr() and the log, without credentials.
        open: opens the storage; called again in a forked child.
        clear: removes all responses from a storage.
        never_blocks: whether calls return at once.
    """

    label: str
    open: Callable[[], BaseStorage]
    clear: Callable[[BaseStorage], None]
    never_blocks: bool


class ResponseStore:
    """Responses in a storage of hishel; safe to use from many threads.

    Args:
        backend: opens the storage.
        max_body: the maximum size of a body in bytes.

    Raises:
        ValueError: the file is not a cache.
        OSError: the file cannot be opened.
    """

    def __init__(self, backend: StorageBackend, max_body: int) -> None:
        self.max_body = max_body
        self.label: str = backend.label
        self.never_blocks: bool = backend.never_blocks
        self._backend = backend
        self._storage: BaseStorage | None = backend.open()
        self._lock = threading.Lock()
        self._is_closed = False
        self._resumes_at = 0.0  # on the machine's clock
        self._has_warned = False
        self._inherited: list[BaseStorage | None] = []  # from the parent processes, never closed
        _fork.register(self)

    def find(
        self, key: str, choose: Callable[[list[hishel.Entry]], hishel.Entry | None]
    ) -> StoredResponse | None:
        """Return the response that `choose` picks among those under a key, with its body."""
        with self._use_storage() as storage:
            if storage is not None:
                entry = choose(_find_intact(storage, key))
                if entry is not None:
                    return _load(storage, entry)
        return None

    def put(self, key: str, entry: hishel.Entry, body: bytes) -> bool:
        """Store a response instead of its predecessor; return whether it was stored."""
        with self._use_storage() as storage:
            if storage is not None:
                for old in find_equivalent(entry, storage.get_entries(key)):
                    storage.remove_entry(old.id)
                add_checksums(entry, key, body)
                response = hishel.Response(
                    entry.response.status_code, entry.response.headers, iter((body,))
                )
                stored = storage.create_entry(entry.request, response, key)
                for _ in stored.response.stream or ():  # type: ignore[union-attr]
                    pass  # reading the stream stores it
                return (
                    _storage_errors.seen is None and stored.response.stream is not response.stream
                )
        return False

    def update(self, key: str, entry: hishel.Entry) -> None:
        """Replace the fields of a stored response."""
        with self._use_storage() as storage:
            if storage is not None:
                add_checksums(entry, key)
                storage.update_headers(entry.id, entry.response.headers)

    def remove(self, entry: hishel.Entry) -> None:
        """Remove one response."""
        with self._use_storage() as storage:
            if storage is not None:
                storage.remove_entry(entry.id)

    def clear(self, keys: list[str]) -> None:
        """Remove all responses under some keys."""
        with self._use_storage() as storage:
            if storage is not None:
                for key in keys:
                    for entry in storage.get_entries(key):
                        storage.remove_entry(entry.id)

    def clear_all(self) -> None:
        """Remove everything."""
        with self._use_storage() as storage:
            if storage is not None:
                self._backend.clear(storage)

    def close(self) -> None:
        """Close the storage. From now on, nothing is stored or found."""
        with self._lock:
            self._is_closed = True
            storage, self._storage = self._storage, None
        if storage is not None:
            storage.close()

    def __del__(self) -> None:
        storage = self.__dict__.get("_storage")  # missing if it could not be opened
        if storage is not None:
            storage.close()

    def _after_fork_in_child(self) -> None:
        """Let the next request open the storage again, and leave the parent's connection alone."""
        # It is not closed either, because that would release the parent's locks on the file.
        self._inherited.append(self._storage)
        self._storage, self._lock = None, threading.Lock()

    @contextmanager
    def _use_storage(self) -> Iterator[BaseStorage | None]:
        """Yield the storage, or None during a pause or after close; suppress its errors."""
        if self._resumes_at and time.monotonic() < self._resumes_at:
            yield None
            return
        _storage_errors.is_active = True
        try:
            yield self._get_storage()
        except Exception as error:  # no error of the store fails the request
            _storage_errors.seen = error
        finally:
            _storage_errors.is_active = False
            seen, _storage_errors.seen = _storage_errors.seen, None
            if seen is not None:
                self._pause(seen)

    def _get_storage(self) -> BaseStorage | None:
        if self._storage is None and not self._is_closed:
            with self._lock:
                if self._storage is None and not self._is_closed:
                    self._storage = self._backend.open()
        return self._storage

    def _pause(self, error: BaseException) -> None:
        if self._is_closed:  # it was closed while a request used it
            return
        self._resumes_at = time.monotonic() + _PAUSE
        if not self._has_warned:
            self._has_warned = True
            logging.getLogger("curlhttp").warning(
                "the cache in %s failed, requests continue without it: %s: %s",
                self.label,
                type(error).__name__,
                str(error),  # as text, because a handler that keeps it would keep its frames alive
            )


def _load(storage: BaseStorage, entry: hishel.Entry) -> StoredResponse | None:
    """Return a stored response with its body, or None and remove it if the body has changed."""
    try:
        body = b"".join(entry.response.stream or ())  # type: ignore[arg-type]
        if is_body_intact(entry, body):
            return StoredResponse(entry, body)
    except (RuntimeError, TypeError, ValueError):
        pass  # cleared by another process, or damaged; not an error of the store
    storage.remove_entry(entry.id)
    return None


def _find_intact(storage: BaseStorage, key: str) -> list[hishel.Entry]:
    """Return the entries under a key that have not changed since they were stored.

    The others are removed.
    """
    intact = []
    for entry in storage.get_entries(key):
        if is_intact(entry, key):
            intact.append(entry)
        else:
            storage.remove_entry(entry.id)
    return intact


class _StorageErrors(threading.local):
    """A log filter that catches the errors of hishel, which logs most of them.

    It is active in a thread while a ResponseStore calls hishel there.
    """

    is_active = False
    seen: BaseException | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep an error instead of logging it; let all other records pass."""
        if not self.is_active or record.levelno < logging.ERROR:
            return True
        self.seen = (record.exc_info or (None, None))[1] or RuntimeError(record.getMessage())
        return False


_storage_errors = _StorageErrors()
for _name in ("_sync_sqlite", "_sync_redis"):
    logging.getLogger(f"hishel._core._storages.{_name}").addFilter(_storage_errors)


# --- A SQLite file, or SQLite in memory, by hishel ---

_BUSY_TIMEOUT = 250  # milliseconds that a write waits for another process before it fails
_MAX_LOG = 4 * 2**20  # bytes to which the write-ahead log is truncated
# Seconds after its last use during which a response is not evicted, so that it is not removed
# while it is written or read. The last use is recorded with a precision of half of that, so that
# few hits write anything.
_IN_USE = 1.0


def make_sqlite_backend(path: str, max_size: int) -> StorageBackend:
    """Return a backend for a file, which its `open` opens.

    Args:
        path: the path of the file, or ":memory:".
        max_size: the size in bytes above which responses are evicted.
    """
    open_storage: Callable[[], BaseStorage] = partial(_open_file, path, max_size)
    return StorageBackend(path, open_storage, _clear_sqlite, never_blocks=path == ":memory:")


def _open_file(path: str, max_size: int) -> BaseStorage:
    in_memory = path == ":memory:"
    try:
        if not in_memory:
            # Only the owner may read responses. SQLite's other files get the same mode.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise OSError(f"the cache {path!r} cannot be opened: {error}") from error
    try:
        # Fail now if it is not a database. hishel would notice in a thread, and lose the error.
        connection.execute("PRAGMA schema_version")
        storage = SqliteStorage(connection=connection, max_size=max_size, soft_delete_ttl=_IN_USE)
        storage._ensure_connection()  # fails if it is not a cache
        connection.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT}")
        connection.execute(f"PRAGMA journal_size_limit={_MAX_LOG}")
        connection.execute("UPDATE entries SET tti = NULL WHERE FALSE")  # fails if it is read-only
    except (sqlite3.Error, RuntimeError) as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError):
            raise OSError(f"the cache {path!r} cannot be used: {error}") from error
        raise ValueError(f"{path!r} is not a cache of responses: {error}") from error
    return storage


def _clear_sqlite(storage: BaseStorage) -> None:
    connection = cast(SqliteStorage, storage)._ensure_connection()
    connection.execute("DELETE FROM entries")
    connection.execute("VACUUM")


# --- Redis, by hishel ---

_KEY_PREFIX = "curlhttp:cache"
_TTL = 30 * 24 * 3600.0  # seconds
_TIMEOUT = 1.0  # seconds; a slower cache is useless


def make_redis_backend(given: str | Redis, max_body: int) -> StorageBackend:
    """Return a backend for Redis, which connects with the first request.

    Args:
        given: a URL, or a client of redis-py.
        max_body: the maximum size of a body in bytes.

    Raises:
        ImportError: redis is not installed.
        TypeError: it is an async client, or a client that decodes responses.
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
        make()  # raises now if the URL is invalid
        return StorageBackend(
            redact_url(url),
            lambda: _make_redis_storage(make(), max_body),
            _clear_redis,
            never_blocks=False,
        )
    if not isinstance(given, redis.Redis):
        raise TypeError(
            f"redis= takes a URL or a redis.Redis, not {type(given).__module__}."
            f"{type(given).__name__}: AsyncClient takes the same class, and calls it in threads"
        )
    if given.connection_pool.connection_kwargs.get("decode_responses"):
        raise TypeError("redis= takes a client without decode_responses, because bodies are bytes")
    # The user closes it, and redis-py handles forks.
    return StorageBackend(
        "Redis",
        lambda: _make_redis_storage(given, max_body, _NonClosingRedisStorage),
        _clear_redis,
        never_blocks=False,
    )


class _NonClosingRedisStorage(RedisStorage):
    """A storage with the user's client, which the user closes."""

    def close(self) -> None:
        """Leave the client open."""


def _make_redis_storage(
    client: Redis, max_body: int, kind: type[RedisStorage] = RedisStorage
) -> BaseStorage:
    return kind(client, default_ttl=_TTL, max_stream_size=max_body, key_prefix=_KEY_PREFIX)


def _clear_redis(storage: BaseStorage) -> None:
    client = cast(RedisStorage, storage)._client
    for name in client.scan_iter(f"{_KEY_PREFIX}:*", count=1000):
        client.delete(name)
