"""CPU per request, compared with bare pycurl with the same options, requests and aiohttp."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pycurl

import curlhttp
from benchmarks.clients.bare import Handle
from benchmarks.clients.base import Settings
from benchmarks.crew import Options
from benchmarks.machine import cores, pin
from benchmarks.server import serve

__all__ = ["run"]

_CONCURRENCY = 64
_FETCHED = 5000  # URLs of a list
_COUNT = 2000  # blocking requests per round; there are three times as many async ones


def run(options: Options) -> None:
    """Print the tables: the cost of a request inside one process, policies included."""
    server_core, core = cores()
    rounds = options.rounds
    with serve([200, 1024], core=server_core, kind=options.server) as server:
        pin(core)
        small, big = (f"{server.urls['http']}/{size}" for size in (200, 1024))
        _report("blocking GET of 1 KiB, keep-alive", _blocking(big, rounds))
        title = f"async GET of 200 B, {_CONCURRENCY} at once"
        _report(f"{title}, asyncio", asyncio.run(_concurrent(small, rounds)))
        if importlib.util.find_spec("uvloop"):
            import uvloop

            _report(f"{title}, uvloop", uvloop.run(_concurrent(small, rounds)))

        _report("curlhttp fetch of 1 KiB by its output", _fetched(big, rounds), "JSONL")


Samples = dict[str, list[float]]


def _report(title: str, samples: Samples, base: str = "curlhttp") -> None:
    ours = statistics.median(samples[base])
    print(f"\n{title}: µs of CPU per request, median of {len(samples[base])} rounds\n")
    print(f"| client | µs | fastest | slowest | its µs / {base}'s |")
    print("| --- | --: | --: | --: | --: |")
    for name, values in samples.items():
        median = statistics.median(values)
        print(
            f"| {name} | {median:.1f} | {min(values):.1f} | {max(values):.1f} "
            f"| {median / ours:.2f} |"
        )


# --- blocking ---


def _blocking(url: str, rounds: int) -> Samples:
    client, drop_in = curlhttp.Client(), curlhttp.Session()
    resilient = curlhttp.Client(retry=2, breaker=curlhttp.CircuitBreaker())
    contenders: dict[str, tuple[Callable[[], Any], int]] = {
        "bare pycurl, same options": (_bare(url, interruptible=True), _COUNT),
        "bare pycurl, deaf to Ctrl-C": (_bare(url, interruptible=False), _COUNT),
        "curlhttp": (lambda: client.get(url).content, _COUNT),
        "curlhttp, retry and breaker": (lambda: resilient.get(url).content, _COUNT),
        "curlhttp.Session": (lambda: drop_in.get(url).content, _COUNT),
        "curlhttp.get": (lambda: curlhttp.get(url).content, _COUNT // 2),
    }
    if importlib.util.find_spec("requests"):
        import requests

        session = requests.Session()
        contenders["requests"] = (lambda: session.get(url).content, _COUNT // 6)
        contenders["requests.get"] = (lambda: requests.get(url).content, _COUNT // 20)
    samples: Samples = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (call, count) in contenders.items():
            call()
            started = time.process_time()
            for _ in range(count):
                call()
            samples[name].append((time.process_time() - started) / count * 1e6)
    client.close()
    drop_in.close()
    resilient.close()
    return samples


def _bare(url: str, *, interruptible: bool) -> Callable[[], bytes]:
    handle = Handle(Settings(), interruptible=interruptible)
    easy = handle.point(url)

    def call() -> bytes:
        easy.perform()
        return handle.take()

    return call


# --- async ---


async def _concurrent(url: str, rounds: int) -> Samples:
    client = curlhttp.AsyncClient()
    resilient = curlhttp.AsyncClient(retry=2, breaker=curlhttp.CircuitBreaker())
    multi = pycurl.AsyncCurlMulti()
    idle = [Handle(Settings()) for _ in range(_CONCURRENCY)]
    for handle in idle:
        handle.point(url)

    async def bare() -> None:
        handle = idle.pop()
        await multi.perform(handle.easy)
        handle.take()
        idle.append(handle)

    async def ours() -> None:
        assert (await client.get(url)).status_code == 200

    async def guarded() -> None:
        assert (await resilient.get(url)).status_code == 200

    contenders: dict[str, tuple[Callable[[], Awaitable[None]], int]] = {
        "bare AsyncCurlMulti": (bare, _COUNT * 3),
        "curlhttp": (ours, _COUNT * 3),
        "curlhttp, retry and breaker": (guarded, _COUNT * 3),
    }
    session: Any = None
    if importlib.util.find_spec("aiohttp"):
        import aiohttp

        session = aiohttp.ClientSession()

        async def theirs() -> None:
            async with session.get(url) as response:
                await response.read()

        contenders["aiohttp"] = (theirs, _COUNT * 3 // 2)
    samples: Samples = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (call, count) in contenders.items():
            await _repeat(call, 200)
            started = time.process_time()
            await _repeat(call, count)
            samples[name].append((time.process_time() - started) / count * 1e6)
    await client.aclose()
    await resilient.aclose()
    await multi.aclose()
    if session is not None:
        await session.close()
    return samples


async def _repeat(call: Callable[[], Awaitable[None]], count: int) -> None:
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            await call()

    await asyncio.gather(*[worker() for _ in range(_CONCURRENCY)])


# --- the command line ---


def _fetched(url: str, rounds: int) -> Samples:
    """Measure separate processes, minus the cost of a process that fetches a single URL."""
    outputs = {"JSONL": "out.jsonl", "SQLite": "out.db", "folder": "out"}
    samples: Samples = {name: [] for name in outputs}
    # Outputs are only removed at the end: without a journal, ext4 takes half a millisecond for
    # each new file if thousands were removed within the last minute.
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for name, output in outputs.items():
                out = os.path.join(folder, f"{number}-{output}")
                once = _fetch([url], os.path.join(folder, f"{number}-once-{output}"))
                samples[name].append((_fetch([url] * _FETCHED, out) - once) / _FETCHED * 1e6)
    return samples


def _fetch(urls: list[str], out: str) -> float:
    """Return the CPU seconds that `curlhttp fetch` takes for a list."""
    before = os.times()
    told = [sys.executable, "-m", "curlhttp", "fetch", "-", "-o", out, "-q"]
    subprocess.run(told, input="\n".join(urls).encode(), check=True)
    after = os.times()
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system
