"""The HTTP cache (RFC 9111)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

from curlhttp._http.errors import check_flags, check_number, validate_path
from curlhttp._http.suggestions import with_suggestions

if TYPE_CHECKING:
    from redis import Redis

    from curlhttp._client.base import BaseClient
    from curlhttp._client.chain import Host, LayerContext, Settings
    from curlhttp._features.cache.policy import CachePolicy
    from curlhttp._features.cache.storage import ResponseStore
    from curlhttp._runtime.engine import Layer

_MAX_SIZE = 256 * 2**20
_LEAST_SIZE = 2**17  # below that, SQLite's own pages leave no room
_MAX_BODY = 32 * 2**20


@with_suggestions("Cache")
class Cache:
    """Store responses as defined in RFC 9111, for one or several clients; needs the extra `cache`.

        client = curlhttp.Client(cache=curlhttp.Cache("http.db"))

    Several blocking and async clients, threads and processes may share one file. It contains the
    bodies and header fields of responses, so only its owner may read it. It contains URLs and
    credentials of requests only as digests.

    Args:
        path: a file, or ":memory:".
        redis: a URL or a redis.Redis, instead of a path. The server limits the size with its own
            setting maxmemory. Entries expire after 30 days.
        shared: the cache serves several users, like that of a proxy: it stores nothing private,
            and applies s-maxage and proxy-revalidate.
        max_size: the maximum size in bytes, 256 MiB by default. The least recently used responses
            are removed first.
        max_body_size: the maximum size of a stored body in bytes, at most an eighth of max_size.

    Raises:
        ImportError: the extra is not installed.
        ValueError: the file is not a cache, or an argument is out of range.
        OSError: the file cannot be opened or written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        redis: str | Redis | None = None,
        shared: bool = False,
        max_size: int | None = None,
        max_body_size: int = _MAX_BODY,
    ) -> None:
        if (path is None) == (redis is None):
            raise ValueError('a Cache needs a path, such as "http.db" or ":memory:", or redis=')
        if redis is not None and max_size is not None:
            raise ValueError("max_size is for files; for Redis, use its own setting maxmemory")
        size = _MAX_SIZE if max_size is None else max_size
        check_number("max_size", size, least=_LEAST_SIZE, whole=True, unit="bytes")
        check_number("max_body_size", max_body_size, least=1, whole=True, unit="bytes")
        check_flags(shared=shared)
        try:
            from curlhttp._features.cache.policy import CachePolicy
            from curlhttp._features.cache.storage import ResponseStore
        except ImportError as error:
            raise ImportError("Cache needs hishel: pip install 'curlhttp[cache]'") from error
        self._shared = shared
        self._policy: CachePolicy = CachePolicy(shared)
        if redis is not None:
            from curlhttp._features.cache.storage import make_redis_backend

            backend, body = make_redis_backend(redis, max_body_size), max_body_size
        else:
            from curlhttp._features.cache.storage import make_sqlite_backend

            body = min(max_body_size, size // 8)
            name = validate_path("path", path)
            backend = make_sqlite_backend(name, size - body)
        self._store: ResponseStore = ResponseStore(backend, body)

    def clear(self) -> None:
        """Remove all responses, including those of other clients and processes."""
        self._store.clear_all()

    def close(self) -> None:
        """Close the file or the connections. Clients that use it continue without a cache."""
        self._store.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<curlhttp.Cache{' shared' if self._shared else ''} in {self._store.label}>"


def start(settings: Settings, host: Host) -> None:
    """Use the cache in a client, until it closes.

    Raises:
        TypeError: this is not a Cache.
    """
    cache = settings["cache"]
    if not isinstance(cache, Cache):
        raise TypeError(
            f"cache must be a curlhttp.Cache, not {type(cache).__name__}: "
            'Client(cache=curlhttp.Cache("http.db"))'
        )
    from curlhttp._features.cache.caching import ClientCaching

    client = cast("BaseClient", host.client)
    settings["cache"] = caching = ClientCaching(client, cache._policy, cache._store, host)
    client._attach(caching)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that answers requests from the cache."""
    from curlhttp._features.cache import layer  # it needs the extra

    return layer.make_layer(context)
