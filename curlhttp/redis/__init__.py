"""Limits, budgets and breakers that processes share, in Redis; needs the extra `redis`.

store = curlhttp.redis.RedisStore("redis://localhost:6379/0")
client = curlhttp.Client(rate_limit=curlhttp.RateLimit(100, store=store))
"""

from __future__ import annotations

from curlhttp.redis._store import RedisStore

__all__ = ["RedisStore"]
RedisStore.__module__ = __name__
