"""CPU per request, next to bare pycurl with the same options and to requests and aiohttp."""

from __future__ import annotations

import asyncio
import importlib.util
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pycurl

import curlhttp
from benchmarks.server import pin, serve

_CONCURRENCY = 64
_HEADERS = ["User-Agent: curlhttp", "Accept-Encoding: gzip, deflate, br", "Accept: */*"]


def run(rounds: int) -> None:
    """Print the tables."""
    with serve(core=0) as base:
        pin(1)
        _report("blocking GET of 1 KiB, keep-alive", _blocking(base + "/1k", rounds))
        title = f"async GET of 200 B, {_CONCURRENCY} at once"
        _report(f"{title}, asyncio", asyncio.run(_concurrent(base + "/200", rounds)))
        if importlib.util.find_spec("uvloop"):
            import uvloop

            _report(f"{title}, uvloop", uvloop.run(_concurrent(base + "/200", rounds)))


Samples = dict[str, list[float]]


def _report(title: str, samples: Samples) -> None:
    ours = statistics.median(samples["curlhttp"])
    print(f"\n{title}: µs of CPU per request, median of {len(samples['curlhttp'])} rounds\n")
    print("| client | µs | fastest | slowest | its µs / curlhttp's |")
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
        "bare pycurl, same options": (_bare(url, interruptible=True), 2000),
        "bare pycurl, deaf to Ctrl-C": (_bare(url, interruptible=False), 2000),
        "curlhttp": (lambda: client.get(url).content, 2000),
        "curlhttp, retry and breaker": (lambda: resilient.get(url).content, 2000),
        "curlhttp.Session": (lambda: drop_in.get(url).content, 2000),
        "curlhttp.get": (lambda: curlhttp.get(url).content, 1000),
    }
    if importlib.util.find_spec("requests"):
        import requests

        session = requests.Session()
        contenders["requests"] = (lambda: session.get(url).content, 300)
        contenders["requests.get"] = (lambda: requests.get(url).content, 100)
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


def _handle(url: str) -> tuple[pycurl.Curl, list[bytes], list[bytes]]:
    easy = pycurl.Curl()
    lines: list[bytes] = []
    pieces: list[bytes] = []
    for option, value in (
        (pycurl.URL, url),
        (pycurl.NOSIGNAL, 1),
        (pycurl.HTTPHEADER, _HEADERS),
        (pycurl.BUFFERSIZE, 128 * 1024),
        (pycurl.TCP_NODELAY, 1),
        (pycurl.PROXY, ""),
        (pycurl.NOPROXY, ""),
        (pycurl.CONNECTTIMEOUT_MS, 10_000),
        (pycurl.HEADERFUNCTION, lines.append),
        (pycurl.WRITEFUNCTION, pieces.append),
    ):
        easy.setopt(option, value)
    return easy, lines, pieces


def _bare(url: str, *, interruptible: bool) -> Callable[[], bytes]:
    easy, lines, pieces = _handle(url)
    if interruptible:
        easy.setopt(pycurl.NOPROGRESS, 0)
        easy.setopt(pycurl.XFERINFOFUNCTION, lambda *sizes: 0)
        easy.setopt(pycurl.PREREQFUNCTION, lambda *addresses: 0)

    def call() -> bytes:
        easy.perform()
        body = b"".join(pieces)
        lines.clear()
        pieces.clear()
        assert easy.getinfo(pycurl.RESPONSE_CODE) == 200
        return body

    return call


# --- async ---


async def _concurrent(url: str, rounds: int) -> Samples:
    client = curlhttp.AsyncClient()
    resilient = curlhttp.AsyncClient(retry=2, breaker=curlhttp.CircuitBreaker())
    multi = pycurl.AsyncCurlMulti()
    handles = [_handle(url) for _ in range(_CONCURRENCY)]
    idle = list(handles)

    async def bare() -> None:
        easy, lines, pieces = idle.pop()
        await multi.perform(easy)
        b"".join(pieces)
        lines.clear()
        pieces.clear()
        assert easy.getinfo(pycurl.RESPONSE_CODE) == 200
        idle.append((easy, lines, pieces))

    async def ours() -> None:
        assert (await client.get(url)).status_code == 200

    async def guarded() -> None:
        assert (await resilient.get(url)).status_code == 200

    contenders: dict[str, tuple[Callable[[], Awaitable[None]], int]] = {
        "bare AsyncCurlMulti": (bare, 6000),
        "curlhttp": (ours, 6000),
        "curlhttp, retry and breaker": (guarded, 6000),
    }
    session: Any = None
    if importlib.util.find_spec("aiohttp"):
        import aiohttp

        session = aiohttp.ClientSession()

        async def theirs() -> None:
            async with session.get(url) as response:
                await response.read()

        contenders["aiohttp"] = (theirs, 3000)
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
