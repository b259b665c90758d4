"""The load on Redis: its steps, round trips and CPU per request, for each policy."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from benchmarks.crew import Options
from benchmarks.machine import cores, describe
from benchmarks.progress import Progress
from benchmarks.server import serve
from curlhttp import (
    AsyncClient,
    CircuitBreaker,
    ConcurrencyLimit,
    ExponentialBackoff,
    RateLimit,
    RequestException,
    RetryBudget,
    RetryPolicy,
)
from curlhttp.redis import RedisStore

__all__ = ["measure"]

_SIZE = 200  # bytes
_PER_SECOND = 1e6  # more than there will be: each request asks for a slot and never waits


def _retry(store: RedisStore, *statuses: int) -> RetryPolicy:
    return RetryPolicy(
        1,
        budget=RetryBudget(store=store),
        statuses=statuses or (503,),
        backoff_strategy=ExponentialBackoff(0.0),
    )


_ALL_FAIL = "budget, all requests fail"  # /404, with a policy that retries 404
_POLICIES: dict[str, Callable[[RedisStore], dict[str, Any]]] = {
    "rate": lambda store: {"rate_limit": RateLimit(_PER_SECOND, store=store)},
    "concurrency limit, high enough": lambda store: {
        "concurrency_limit": ConcurrencyLimit(1000, store=store)
    },
    "concurrency limit of 8": lambda store: {"concurrency_limit": ConcurrencyLimit(8, store=store)},
    "breaker": lambda store: {"breaker": CircuitBreaker(store=store)},
    "budget": lambda store: {"retry": _retry(store)},
    _ALL_FAIL: lambda store: {"retry": _retry(store, 404)},
    "all four": lambda store: {
        "rate_limit": RateLimit(_PER_SECOND, store=store),
        "concurrency_limit": ConcurrencyLimit(1000, store=store),
        "breaker": CircuitBreaker(store=store),
        "retry": _retry(store),
    },
}


def measure(requests: int, options: Options) -> dict[str, Any]:
    """Return what Redis did for this many requests, 64 at once and one after another.

    Args:
        requests: per policy, 64 at once; a tenth of this number one after another.
        options: of the server.
    """
    machine, rows = describe(), []
    with serve([_SIZE], core=cores()[0], kind=options.server) as server, Progress("redis") as bar:
        base = server.urls["http"]
        steps = [(name, at_once) for name in _POLICIES for at_once in (64, 1)]
        for number, (name, at_once) in enumerate(steps):
            bar.show(f"{name}, {at_once} at once", number, len(steps))
            count = requests if at_once > 1 else max(1, requests // 10)
            url = f"{base}/404" if name == _ALL_FAIL else f"{base}/{_SIZE}"
            with _redis() as redis:
                rows.append(
                    {"policy": name, "at_once": at_once, **_run(redis, url, name, at_once, count)}
                )
            versions = {"redis-server": rows[-1].pop("version")}
        about = server.name
    return {
        "benchmark": "redis",
        "machine": machine,
        "server": about,
        "settings": {"requests": requests, "size": _SIZE},
        "versions": versions,
        "scenarios": rows,
    }


@contextmanager
def _redis() -> Iterator[Any]:
    """Run a separate redis-server, and yield a redis-py client."""
    import redis

    binary = shutil.which("redis-server") or shutil.which("valkey-server")
    if binary is None:
        raise SystemExit("there is no redis-server: apt-get install redis-server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "--port", str(port), "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            client = redis.Redis(port=port)
            for _ in range(1000):
                with suppress(redis.ConnectionError):
                    client.ping()
                    break
                time.sleep(0.01)
            yield client
            client.close()
        finally:
            process.kill()
            process.wait()


def _run(redis: Any, url: str, name: str, at_once: int, count: int) -> dict[str, Any]:
    port = redis.connection_pool.connection_kwargs["port"]
    with RedisStore(f"redis://127.0.0.1:{port}/0", timeout=5.0) as store:
        errors = asyncio.run(_send(store, url, name, at_once, at_once))  # load the scripts
        before = _look(redis)
        begun = time.perf_counter()
        errors += asyncio.run(_send(store, url, name, at_once, count))
        wall = time.perf_counter() - begun
        after = _look(redis)
    return {
        "requests": count,
        "wall": wall,
        "errors": errors,
        "version": after["version"],
        **{each: after[each] - before[each] for each in ("scripts", "commands", "cpu", "bytes")},
        "keys": redis.dbsize(),
    }


def _look(redis: Any) -> dict[str, Any]:
    """Return what Redis has done so far; this costs a little itself."""
    info = redis.info("all")
    commands = {
        each.removeprefix("cmdstat_"): found["calls"]
        for each, found in info.items()
        if each.startswith("cmdstat_")
    }
    return {
        "version": info["redis_version"],
        "scripts": commands.get("evalsha", 0) + commands.get("eval", 0),
        "commands": sum(commands.values()),
        "cpu": info["used_cpu_user"] + info["used_cpu_sys"],
        "bytes": info["total_net_input_bytes"] + info["total_net_output_bytes"],
    }


async def _send(store: RedisStore, url: str, name: str, at_once: int, count: int) -> int:
    """Send requests; return how many failed."""
    left, errors = count, 0

    async def send() -> None:
        nonlocal left, errors
        while left > 0:
            left -= 1
            try:
                await client.get(url)
            except RequestException:
                errors += 1

    async with AsyncClient(http2=False, **_POLICIES[name](store)) as client:
        await asyncio.gather(*[send() for _ in range(at_once)])
    return errors
