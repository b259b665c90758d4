"""One AsyncClient and several event loops: in sequence, concurrent, ended, dropped and closed."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import shutil
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
import trio.testing

from curlhttp import AsyncClient, ClientClosed, Timeout
from tests.servers import AppServer, H2Server, payload
from tests.support.colours import AnyClient
from tests.support.internals import (
    assert_nothing_runs,
    count_descriptors,
    driver_of,
    engines_of,
    get_engine,
    run_script,
)

ONLY_ASYNC = pytest.mark.parametrize("colour", ["asyncio", "uvloop", "trio"])

Main = Callable[[], Awaitable[Any]]


def _run(backend: str, main: Main) -> Any:
    if backend == "trio":
        return trio.run(main)
    if backend == "uvloop":
        import uvloop

        return uvloop.run(main())  # type: ignore[arg-type]
    return asyncio.run(main())  # type: ignore[arg-type]


async def _get(client: AsyncClient, url: str, count: int = 5) -> int:
    right = 0

    async def one(number: int) -> None:
        nonlocal right
        response = await client.get(f"{url}/bytes/{100 + number}?seed={number}")
        right += response.content == payload(100 + number, number)

    async with anyio.create_task_group() as tasks:
        for number in range(count):
            tasks.start_soon(one, number)
    return right


# --- in a row ---


def test_a_client_serves_one_event_loop_after_another(app: AppServer) -> None:
    client = AsyncClient()
    for backend in ("asyncio", "asyncio", "trio", "uvloop", "trio", "asyncio"):
        assert _run(backend, partial(_get, client, app.url)) == 5
    asyncio.run(client.aclose())
    assert not engines_of(client)
    assert app.wait_for(lambda: not app.open_connections)


@pytest.mark.parametrize("backend", ["asyncio", "uvloop", "trio"])
def test_the_engines_of_ended_loops_are_closed_by_the_next(app: AppServer, backend: str) -> None:
    client = AsyncClient()
    _run(backend, partial(_get, client, app.url))
    before = count_descriptors()
    for _ in range(10):
        _run(backend, partial(_get, client, app.url))
        assert len(engines_of(client)) == 1
        assert app.wait_for(lambda: app.open_connections <= 5)
    assert count_descriptors() <= before
    _run(backend, client.aclose)
    assert app.wait_for(lambda: not app.open_connections)


@pytest.mark.parametrize("backend", ["asyncio", "uvloop", "trio"])
def test_loops_that_forget_to_close_their_client_leak_nothing(app: AppServer, backend: str) -> None:
    async def main() -> None:
        client = AsyncClient()
        assert await _get(client, app.url) == 5

    def run() -> int:
        _run(backend, main)
        gc.collect()
        assert app.wait_for(lambda: not app.open_connections)
        return count_descriptors()

    before = run()
    assert max(run() for _ in range(10)) <= before


def test_a_loop_closed_with_running_requests_does_not_disturb_the_next(
    app: AppServer,
) -> None:
    client = AsyncClient()
    loop = asyncio.new_event_loop()
    task = loop.create_task(_silent(client.get(app.url + "/stall")))
    while not app.requests:
        loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()
    assert _run("asyncio", partial(_get, client, app.url)) == 5
    asyncio.run(client.aclose())
    assert app.wait_for(lambda: not app.open_connections)
    task._log_destroy_pending = False  # type: ignore[attr-defined]


async def _silent(request: Awaitable[Any]) -> None:
    with contextlib.suppress(GeneratorExit):  # the loop that could have ended it is gone
        await request


# --- at once ---


@pytest.mark.parametrize(
    "backends", [("asyncio", "asyncio"), ("asyncio", "trio"), ("uvloop", "trio")]
)
def test_two_threads_with_a_loop_each_share_a_client(
    app: AppServer, backends: tuple[str, str]
) -> None:
    client = AsyncClient()
    barrier = threading.Barrier(2, timeout=30)
    right: list[int] = []

    async def main() -> None:
        barrier.wait()
        for _ in range(5):
            right.append(await _get(client, app.url, 20))
        barrier.wait()

    threads = [threading.Thread(target=_run, args=(backend, main)) for backend in backends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert right == [20] * 10
    asyncio.run(client.aclose())
    assert not engines_of(client)
    assert app.wait_for(lambda: not app.open_connections)


def test_many_threads_run_short_loops_on_one_client(app: AppServer) -> None:
    client = AsyncClient()
    right: list[int] = []

    def work() -> None:
        for _ in range(6):
            right.append(asyncio.run(_get(client, app.url, 3)))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert right == [3] * 36
    asyncio.run(client.aclose())
    assert app.wait_for(lambda: not app.open_connections)


# --- closing ---


@pytest.mark.anyio
@ONLY_ASYNC
async def test_running_requests_end_with_client_closed(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    ended: list[str] = []

    async def one(path: str) -> None:
        with pytest.raises(ClientClosed):
            await client.get(app.url + path)
        ended.append(path)

    async def stream() -> None:
        with pytest.raises(ClientClosed):
            async with await client.stream("GET", app.url + "/stall-after") as streamed:
                await streamed.read()
        ended.append("stream")

    async def upload() -> None:
        async def body() -> AsyncIterator[bytes]:
            yield b"first"
            await anyio.sleep_forever()

        with pytest.raises(ClientClosed):
            await client.post(app.url + "/upload", content=body())
        ended.append("upload")

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(one, "/stall")
            tasks.start_soon(stream)
            tasks.start_soon(upload)
            while len(app.requests) < 5:
                await anyio.sleep(0.001)
            await client.aclose()
    assert sorted(ended) == ["/stall", "/stall", "/stall", "stream", "upload"]
    assert app.wait_for(lambda: not app.open_connections)


@pytest.mark.anyio
@ONLY_ASYNC
async def test_a_refused_request_is_not_sent_again_on_an_engine_that_was_closed_meanwhile(
    make_client: Callable[..., AnyClient],
) -> None:
    refused, closed = anyio.Event(), anyio.Event()

    async def body() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await anyio.sleep_forever()
        finally:
            refused.set()
            with anyio.CancelScope(shield=True):
                await closed.wait()

    with H2Server() as server:
        client = make_client(http2="prior-knowledge")
        await client.get(server.url)
        server.max_concurrent_streams = 0  # so the next stream is refused

        async def upload() -> None:
            with pytest.raises(ClientClosed):
                await client.post(server.url + "/upload", content=body)

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(upload)
                await refused.wait()
                await client.aclose()
                closed.set()
        assert server.refused


@pytest.mark.anyio
@ONLY_ASYNC
async def test_closing_does_not_block_the_loop(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    client = make_client()
    await client.get(app.url + "/")
    engine = get_engine(client)
    ticked, free = threading.Event(), engine._free

    def slow() -> None:  # as libcurl is while a name is being resolved
        assert ticked.wait(30)
        free()

    engine._free = slow
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(client.aclose)
        for _ in range(3):
            await anyio.sleep(0.001)
        ticked.set()
    del engine._free
    assert app.wait_for(lambda: not app.open_connections)


_SLOW_NAMES = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef int lookup(const char *, const char *, const struct addrinfo *, struct addrinfo **);
int getaddrinfo(const char *name, const char *port, const struct addrinfo *hints,
                struct addrinfo **found) {
  if (name && strstr(name, "slow")) {
    for (int i = 0; i < 2000 && access(getenv("NAMES_ARE_KNOWN"), F_OK); i++) usleep(10000);
    name = "127.0.0.1";
  }
  return ((lookup *)dlsym(RTLD_NEXT, "getaddrinfo"))(name, port, hints, found);
}
"""

_LOOKUPS = """
import anyio, os, sys, time, curlhttp
url, kind = sys.argv[1:]
slow = url.replace("127.0.0.1", "slow.test")
begun = time.monotonic()

def resolve():  # who has waited for that has waited for twenty seconds
    assert time.monotonic() - begun < 15
    open(os.environ["NAMES_ARE_KNOWN"], "w").close()
    print("free")

def blocking(timeout):
    with curlhttp.Client() as client:
        try:
            client.get(slow, timeout=timeout)
        except curlhttp.ConnectTimeout:
            pass
        # and the pool is not held up meanwhile
        assert client.get(url, timeout=30).status_code == 200

async def main():
    longest, last = 0.0, time.monotonic()
    async with curlhttp.AsyncClient() as client, anyio.create_task_group() as tasks:
        async def tick():
            nonlocal longest, last
            while True:
                await anyio.sleep(0.005)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()

        tasks.start_soon(tick)
        with anyio.move_on_after(0.1):
            await client.get(slow)
        try:
            await client.get(slow, timeout=(0.1, 1))
        except curlhttp.ConnectTimeout:
            pass
        assert (await client.get(url, timeout=30)).status_code == 200
        resolve()  # before libcurl waits for it, to close
        await client.aclose()
        tasks.cancel_scope.cancel()
    assert longest < 10, longest

if kind == "perform":
    blocking((0.2, 5))
    resolve()
elif kind == "loop":
    blocking((0.2, 0.9))
    resolve()
else:
    anyio.run(main, backend=kind)
"""


# A slow resolver needs a library of our own, and so a compiler.
@pytest.mark.slow
@pytest.mark.parametrize("compiler", [name for name in ("cc",) if shutil.which(name)])
@pytest.mark.parametrize("kind", ["perform", "loop", "asyncio", "trio"])
def test_a_slow_resolver_blocks_no_request_past_the_timeout(
    app: AppServer, tmp_path: Path, compiler: str, kind: str
) -> None:
    source, library = tmp_path / "slow.c", tmp_path / "slow.so"
    source.write_text(_SLOW_NAMES)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    known = str(tmp_path / "known")
    environment = {"LD_PRELOAD": str(library), "NAMES_ARE_KNOWN": known}
    assert run_script(_LOOKUPS, app.url + "/", kind, **environment) == "free\n"


# --- clients and responses that are never closed ---


@pytest.mark.anyio
@ONLY_ASYNC
async def test_a_client_that_is_dropped_unclosed_closes_its_connections(app: AppServer) -> None:
    async def use() -> None:
        client = AsyncClient()
        await _get(client, app.url)
        held = [await client.get(app.url + "/stall-after", stream=True) for _ in range(3)]
        assert held

    async def collect() -> None:
        for _ in range(3):
            gc.collect()
            await anyio.sleep(0.001)  # what the finalizers asked the loop for

    await use()
    await collect()
    before = count_descriptors()
    for _ in range(5):
        await use()
        await collect()
    assert app.wait_for(lambda: not app.open_connections)
    assert count_descriptors() <= before


@pytest.mark.parametrize("backend", ["asyncio", "uvloop"])
def test_task_cancel_works_as_for_any_other_await(app: AppServer, backend: str) -> None:
    async def main() -> None:
        async with AsyncClient() as client:
            task = asyncio.ensure_future(client.get(app.url + "/stall"))
            while not app.requests:
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.get(app.url + "/stall"), 0.03)
            assert_nothing_runs(client)
            assert (await client.get(app.url + "/")).status_code == 200

    _run(backend, main)


# --- timers ---


@pytest.mark.anyio
@ONLY_ASYNC
async def test_a_timer_that_the_loop_calls_too_early_is_not_lost(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    # uvloop rounds to milliseconds, so that some of these timers are early
    client = make_client()
    for number in range(40):
        with anyio.fail_after(30), pytest.raises(Exception, match=r"silent|time"):
            await client.get(app.url + "/stall", timeout=Timeout(read=0.001 + number * 0.00031))


@pytest.mark.anyio
@ONLY_ASYNC
async def test_a_loop_does_not_spin_before_a_timer(
    make_client: Callable[..., AnyClient], app: AppServer
) -> None:
    # uvloop makes none of less than half a millisecond, and its timers may be as much too early
    client = make_client()
    await client.get(app.url + "/")
    driver = driver_of(client)
    polls: list[Any] = []
    poll = driver.poller.poll

    def counted(seconds: float | None) -> Any:
        polls.append(poll(seconds))
        return polls[-1]

    driver.poller.poll = counted
    for tenths in range(1, 25):
        polls.clear()
        driver._check_at = time.monotonic() + tenths / 10_000
        driver.rearm(driver._check_at)
        await anyio.sleep(0.02)
        assert len(polls) < 8, f"{len(polls)} looks at the sockets in {tenths / 10} ms"
    del driver.poller.poll
    await client.aclose()


def _tasks_of_trio() -> list[str]:
    root = trio.lowlevel.current_root_task()
    assert root is not None
    tasks = [task for nursery in root.child_nurseries for task in nursery.child_tasks]
    return [task.name for task in tasks if task.name.startswith("curlhttp")]


def test_on_trio_an_engine_has_two_tasks_which_end_with_it(app: AppServer) -> None:
    found: list[int] = []

    async def main() -> None:
        client = AsyncClient()
        await _get(client, app.url)
        found.append(len(_tasks_of_trio()))
        await client.aclose()
        await trio.testing.wait_all_tasks_blocked()
        found.append(len(_tasks_of_trio()))
        await _get(AsyncClient(), app.url)  # dropped unclosed
        found.append(len(_tasks_of_trio()))
        gc.collect()
        await trio.sleep(0)  # what the finalizer asked trio for
        await trio.testing.wait_all_tasks_blocked()
        found.append(len(_tasks_of_trio()))

    trio.run(main)
    assert found == [2, 0, 2, 0]


def test_an_error_in_a_step_on_trio_ends_the_requests_and_not_trio(
    app: AppServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with AsyncClient() as client:
            await _get(client, app.url)
            driver = driver_of(client)

            def fail() -> None:
                raise LookupError("a fault of ours")

            with monkeypatch.context() as patch:
                patch.setattr(driver, "_collect", fail)
                with pytest.raises(LookupError, match="a fault of ours"):
                    await client.get(app.url + "/bytes/1")
            assert await _get(client, app.url) == 5

    trio.run(main)
