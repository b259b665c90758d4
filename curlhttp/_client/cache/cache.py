"""What users give a client as its cache: where responses are kept, and by whose rules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from redis import Redis

    from curlhttp._client.cache.store import ResponseStore
    from curlhttp._policy.cache import CachePolicy

__all__ = ["Cache"]

_MAX_SIZE = 256 * 2**20
_LEAST_SIZE = 2**17  # below that there is no room beside SQLite's own pages
_MAX_BODY = 32 * 2**20


class Cache:
    """Keep responses as RFC 9111 has it, for one client or several; needs the extra `cache`.

        client = curlhttp.Client(cache=curlhttp.Cache("http.db"))

    Several clients, blocking and async ones, threads and processes may use one file. It holds
    bodies and header fields of responses, so it is made for its owner alone; URLs and credentials
    of requests are in it as digests.

    Args:
        path: of a file, or ":memory:".
        redis: a URL, or a redis.Redis, in place of a path. The server bounds its size, by its
            setting maxmemory; what is in it is left out after 30 days.
        shared: it serves several users, as that of a proxy does: nothing private is stored, and
            s-maxage and proxy-revalidate count.
        max_size: bytes that all of it may take, 256 MiB unless given; what was not used for the
            longest time goes first.
        max_body_size: bytes that a body may have to be stored; an eighth of max_size at most.

    Raises:
        ImportError: the extra is not installed.
        ValueError: the file is no cache, or an argument is out of range.
        OSError: the file cannot be opened, or not be written.
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
            raise ValueError("max_size is for files: that of Redis is its own setting maxmemory")
        size = _MAX_SIZE if max_size is None else max_size
        if size < _LEAST_SIZE or max_body_size < 1:
            raise ValueError(
                f"max_size must be at least {_LEAST_SIZE} bytes, and max_body_size at least 1"
            )
        try:
            from curlhttp._client.cache.store import ResponseStore
            from curlhttp._policy.cache import CachePolicy
        except ImportError as error:
            raise ImportError("Cache needs hishel: pip install 'curlhttp[cache]'") from error
        self._shared = shared
        self.policy: CachePolicy = CachePolicy(shared)
        if redis is not None:
            from curlhttp._client.cache.redis import open_redis

            place, body = open_redis(redis, max_body_size), max_body_size
        else:
            from curlhttp._client.cache.sqlite import open_sqlite

            body = min(max_body_size, size // 8)
            name = os.fspath(path)  # type: ignore[arg-type]  # not None here
            place = open_sqlite(name, size - body)
        self.store: ResponseStore = ResponseStore(place, body)

    def clear(self) -> None:
        """Remove all responses, of all clients and processes that use it."""
        self.store.clear_all()

    def close(self) -> None:
        """Close the file, or the connections; clients that have it go on without a cache."""
        self.store.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<curlhttp.Cache{' shared' if self._shared else ''} in {self.store.where}>"
