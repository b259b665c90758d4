"""Responses in Redis, by hishel's storage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from hishel import BaseStorage, RedisStorage

from curlhttp._client.cache.store import StoragePlace
from curlhttp._models.redaction import redact_url

if TYPE_CHECKING:
    from redis import Redis

__all__ = ["open_redis"]

_KEYS = "curlhttp:cache"  # what all names in Redis begin with
_KEPT = 30 * 24 * 3600.0  # seconds
_TIMEOUT = 1.0  # seconds: a cache that answers later is of no use


def open_redis(given: str | Redis, max_body: int) -> StoragePlace:
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
        return StoragePlace(
            redact_url(url), lambda: _storage(make(), max_body), _clear, is_quick=False
        )
    if not isinstance(given, redis.Redis):
        raise TypeError(
            f"redis= takes a URL or a redis.Redis, not {type(given).__module__}."
            f"{type(given).__name__}: async clients use the same one, in threads"
        )
    if given.connection_pool.connection_kwargs.get("decode_responses"):
        raise TypeError("redis= takes a client without decode_responses: bodies are bytes")
    # Its owner closes it, and it knows of forks by itself.
    return StoragePlace(
        "Redis", lambda: _storage(given, max_body, _LentRedis), _clear, is_quick=False
    )


class _LentRedis(RedisStorage):
    """A storage on a client that is its owner's to close."""

    def close(self) -> None:
        """Leave the client open."""


def _storage(client: Redis, max_body: int, kind: type[RedisStorage] = RedisStorage) -> BaseStorage:
    return kind(client, default_ttl=_KEPT, max_stream_size=max_body, key_prefix=_KEYS)


def _clear(storage: BaseStorage) -> None:
    client = cast(RedisStorage, storage)._client
    for name in client.scan_iter(f"{_KEYS}:*", count=1000):
        client.delete(name)
