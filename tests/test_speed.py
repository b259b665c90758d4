"""A guard against slow changes, on what noise cannot move: bytecodes, and ratios to bare pycurl."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from types import FrameType
from typing import Any

import pytest

import curlhttp
from benchmarks.clients import bare
from benchmarks.clients.base import Settings
from benchmarks.server import serve

_SIZE = 200
_TRIES, _ROUNDS = 3, 5
_AT_ONCE = 64
_MOST_TRACED = 300  # requests: where the server is late, one has more turns of the poll

# A tenth above the most of all versions of Python: 1,095 and 2,111, both on 3.11.
_BLOCKING_BYTECODES = 1_210
_ASYNC_BYTECODES = 2_330
# Usually 1.5 and 0.9: far enough for any noise, near enough for a layer that everybody pays for.
_BLOCKING_RATIO = 2.2
_ASYNC_RATIO = 1.8


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve([_SIZE], kind="asyncio") as server:
        yield f"{server.urls['http']}/{_SIZE}"


class _Bytecodes:
    """Counts the bytecodes that this thread runs, but for those of the event loop."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> _Bytecodes:
        self._others = sys.gettrace()
        sys._getframe().f_trace_opcodes = True  # else Python 3.12 reports none at all
        sys.settrace(self._trace)
        return self

    def __exit__(self, *details: object) -> None:
        sys.settrace(self._others)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if name == __file__ or "/asyncio/" in name:
            return None
        frame.f_trace_opcodes = True
        self.count += event == "opcode"
        return self._trace


def _hint(found: float, limit: float, unit: str) -> str:
    return (
        f"{found:,.1f} {unit}, the limit is {limit:,.1f}: look at what the change costs with "
        "`python -m benchmarks cpu`; if it is worth it, raise the limit in tests/test_speed.py"
    )


def test_a_blocking_get_runs_no_more_bytecodes_than_it_did(url: str) -> None:
    found = sys.maxsize
    with curlhttp.Client() as client:
        for _ in range(10):
            client.get(url)
        for _ in range(_MOST_TRACED):
            with _Bytecodes() as bytecodes:
                client.get(url)
            found = min(found, bytecodes.count)
            if found <= _BLOCKING_BYTECODES:
                break
    assert 0 < found <= _BLOCKING_BYTECODES, _hint(found, _BLOCKING_BYTECODES, "bytecodes")


def test_an_async_get_runs_no_more_bytecodes_than_it_did(url: str) -> None:
    async def count() -> int:
        found = sys.maxsize
        async with curlhttp.AsyncClient() as client:
            for _ in range(10):
                await client.get(url)
            for _ in range(_MOST_TRACED):
                with _Bytecodes() as bytecodes:
                    await asyncio.create_task(client.get(url))
                found = min(found, bytecodes.count)
                if found <= _ASYNC_BYTECODES:
                    break
        return found

    found = asyncio.run(count())
    assert 0 < found <= _ASYNC_BYTECODES, _hint(found, _ASYNC_BYTECODES, "bytecodes")


def test_a_blocking_get_costs_little_more_than_bare_pycurl(url: str) -> None:
    floor = bare.Easy(Settings())
    with curlhttp.Client() as client:

        def cost(call: Callable[[], object]) -> float:
            started = time.process_time()
            for _ in range(200):
                call()
            return time.process_time() - started

        for _ in range(_TRIES):
            ours, theirs = [], []
            for _ in range(_ROUNDS):
                ours.append(cost(lambda: client.get(url).content))
                theirs.append(cost(lambda: floor.get(url)))
            ratio = min(ours) / min(theirs)
            if ratio <= _BLOCKING_RATIO:
                break
    floor.close()
    assert ratio <= _BLOCKING_RATIO, _hint(ratio, _BLOCKING_RATIO, "times the CPU of bare pycurl")


def test_async_gets_cost_no_more_than_pycurls_own_async_multi(url: str) -> None:
    async def cost(call: Callable[[], Awaitable[object]]) -> float:
        left = iter(range(600))

        async def lane() -> None:
            for _ in left:
                await call()

        started = time.process_time()
        await asyncio.gather(*[lane() for _ in range(_AT_ONCE)])
        return time.process_time() - started

    async def compare() -> float:
        floor = bare.AsyncMulti(Settings())
        async with curlhttp.AsyncClient() as client:
            for _ in range(_TRIES):
                ours, theirs = [], []
                for _ in range(_ROUNDS):
                    ours.append(await cost(lambda: client.get(url)))
                    theirs.append(await cost(lambda: floor.get(url)))
                ratio = min(ours) / min(theirs)
                if ratio <= _ASYNC_RATIO:
                    break
        await floor.close()
        return ratio

    ratio = asyncio.run(compare())
    assert ratio <= _ASYNC_RATIO, _hint(ratio, _ASYNC_RATIO, "times the CPU of AsyncCurlMulti")
