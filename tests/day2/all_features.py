"""Send random requests to random names with all features on; writes nothing if all is well.

Runs in namespaces of its own, and starts itself once for each kind of program:

    unshare --net --mount python -W error -m tests.day2.all_features FOLDER
    python -W error -m tests.day2.all_features FOLDER KIND    (one of them)
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import anyio

import curlhttp
from curlhttp import exceptions as e
from tests.day2.name_server import PORT, NameServer, WebServer, enter_namespace
from tests.day2.slow_names import KINDS, ODD_KINDS

_GUARD = 90  # seconds
_chance = Random(7)
_kept: list[object] = []  # until the interpreter ends


def _settings() -> dict[str, Any]:
    return {
        "timeout": curlhttp.Timeout(connect=0.7, pool=3, total=5),
        "coalesce": True,
        "cache": curlhttp.Cache(":memory:"),
        "retry": 2,
        "breaker": curlhttp.CircuitBreaker(),
        "hedge": curlhttp.Hedge(after=0.05),
        "rate_limit": curlhttp.RateLimit(400, burst=20),
        "concurrency_limit": curlhttp.ConcurrencyLimit(10, per=None),
        "guard": curlhttp.PublicOnly(allow=["127.0.0.1", "127.0.0.9", "::1"]),
        "max_connections": 20,
    }


def _choose_url() -> str:
    kind = _chance.choice(("fine", *KINDS, *ODD_KINDS))
    return f"http://{kind}.n{_chance.randrange(3)}.test:{PORT}/{_chance.randrange(3)}"


def _check(client: curlhttp.Client | curlhttp.AsyncClient) -> None:
    stats = client.stats()
    stats.as_prometheus()
    assert stats.origins
    for found in stats.origins.values():
        assert "other" not in found.errors
        assert sum(found.timeouts.values()) <= sum(found.errors.values())
        numbers = [*found.buckets.values(), found.durations.count]
        assert numbers == sorted(numbers)
        for spent in (found.durations, *found.phases.values(), *found.waits.values()):
            assert spent.count >= 0
            assert spent.seconds >= 0


async def _send_at_once() -> None:
    async with curlhttp.AsyncClient(**_settings()) as client:

        async def send(patience: float) -> None:
            with anyio.move_on_after(patience):
                try:
                    times = (await client.get(_choose_url())).timings
                    assert min(times.queue, times.dns, times.limit, times.rate, times.coalesce) >= 0
                except e.RequestException as error:
                    str(error)

        async def send_mapped(most: int) -> None:
            results = client.map([_choose_url() for _ in range(8)], concurrency=4)
            async with results:
                async for result in results:
                    assert isinstance(result, (curlhttp.Response, e.RequestException))
                    most -= 1
                    if not most:
                        break

        async with anyio.create_task_group() as tasks:
            for number in range(120):
                tasks.start_soon(send, 60 if number % 3 else _chance.random())
            for most in (1, 8, 8):
                tasks.start_soon(send_mapped, most)
        _check(client)


def _on_asyncio() -> None:
    asyncio.run(_send_at_once())


def _on_uvloop() -> None:
    import uvloop

    uvloop.run(_send_at_once())


def _on_trio() -> None:
    import trio

    trio.run(_send_at_once)


def _in_threads() -> None:
    with curlhttp.Client(**_settings()) as client:

        def send() -> None:
            for _ in range(6):
                try:
                    client.get(_choose_url())
                except e.RequestException as error:
                    str(error)

        threads = [threading.Thread(target=send) for _ in range(12)]
        for thread in threads:
            thread.start()
        for _ in client.map([_choose_url() for _ in range(30)], concurrency=10):
            pass
        _fork(client)
        for thread in threads:
            thread.join()
        _check(client)


def _get_fine(client: curlhttp.Client) -> None:
    client.get(f"http://fine.test:{PORT}/")
    _check(client)


def _fork(client: curlhttp.Client) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # there are threads
        child = os.fork()
    if not child:
        _get_fine(client)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def _at_exit() -> None:
    client = curlhttp.Client(**_settings())
    atexit.register(_get_fine, client)


def _while_it_exits() -> None:
    client = curlhttp.Client(**_settings())

    def send() -> None:
        try:
            client.get(_choose_url())
        except e.RequestException as error:
            str(error)

    for _ in range(8):
        threading.Thread(target=send, daemon=True).start()
    _kept.extend((client, iter(client.map([_choose_url() for _ in range(30)], concurrency=10))))
    threading.Event().wait(0.3)


class _Finalized:
    """Sends a request in its finalizer."""

    def __init__(self, client: curlhttp.Client) -> None:
        self._client = client
        self._self = self

    def __del__(self) -> None:
        try:
            self._client.get(f"http://late.test:{PORT}/")
        except e.RequestException as error:
            str(error)


def _in_finalizers() -> None:
    client = curlhttp.Client(**_settings())
    _Finalized(client)
    gc.collect()
    _check(client)
    _kept.append(_Finalized(client))


PROGRAMS: dict[str, Callable[[], None]] = {
    "asyncio": _on_asyncio,
    "uvloop": _on_uvloop,
    "trio": _on_trio,
    "threads and a fork": _in_threads,
    "at exit": _at_exit,
    "while it exits": _while_it_exits,
    "finalizers": _in_finalizers,
}


def _run(kind: str) -> str:
    command = [sys.executable, "-W", "error", "-m", "tests.day2.all_features", ".", kind]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GUARD, check=False)
    except subprocess.TimeoutExpired:
        return "hangs"
    return done.stdout + done.stderr + f"status {done.returncode}" * (done.returncode != 0)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        PROGRAMS[sys.argv[2]]()
    else:
        enter_namespace(Path(sys.argv[1]))
        servers = NameServer(), WebServer()
        with ThreadPoolExecutor(3) as pool:
            sys.stdout.write(json.dumps(dict(zip(PROGRAMS, pool.map(_run, PROGRAMS), strict=True))))
