"""Senders in tasks, on asyncio, uvloop and trio, with every kind of cancellation."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import trio

import curlhttp
from curlhttp.types import HTTP2
from tests.storm.checker import Checker
from tests.storm.fate import Fate, make_chaos
from tests.support.colours import BACKENDS

_TASKS = 24
_READS = 20.0
_STALLED = 0.05

_Send = Callable[[], Coroutine[Any, Any, None]]


def run_tasks(
    checker: Checker,
    fates: Sequence[Fate],
    colour: str,
    *,
    http2: HTTP2 = False,
    chaos: bool = False,
) -> None:
    """Send all from tasks of one loop; close the client while some are running."""
    backend = BACKENDS[colour]
    name, options = backend if isinstance(backend, tuple) else (backend, {})
    anyio.run(
        partial(_run, checker, fates, name == "trio", http2, chaos),
        backend=name,
        backend_options=options,
    )


async def _run(
    checker: Checker, fates: Sequence[Fate], is_trio: bool, http2: HTTP2, chaos: bool
) -> None:
    before = _living(is_trio)
    client = curlhttp.AsyncClient(
        trust_env=False,
        max_connections=_TASKS - 4,
        http2=http2,
        transport=make_chaos(checker.seed) if chaos else None,
    )
    sender = _Sender(checker, client, is_trio)
    todo = iter(fates[:-_TASKS])

    async def work() -> None:
        for fate in todo:
            await sender.send(fate)

    async with anyio.create_task_group() as tasks:
        for _ in range(_TASKS):
            tasks.start_soon(work)
    # With a slot lost to a cancel, one of these would wait for ever.
    async with anyio.create_task_group() as tasks:
        for number in range(_TASKS):
            tasks.start_soon(sender.control, f"control-{fates[0].number}-{number}")
    async with anyio.create_task_group() as tasks:
        for fate in fates[-_TASKS:]:
            tasks.start_soon(sender.send, fate)
        await anyio.sleep(fates[0].moment)
        await client.aclose()
    await anyio.lowlevel.checkpoint()
    if (left := _living(is_trio) - before) > 0:
        checker.left(f"{left} tasks are left")


def _living(is_trio: bool) -> int:
    if is_trio:
        return trio.lowlevel.current_statistics().tasks_living
    return len(asyncio.all_tasks())


class _Sender:
    def __init__(self, checker: Checker, client: curlhttp.AsyncClient, is_trio: bool) -> None:
        self._checker = checker
        self._client = client
        self._ways = _TRIO if is_trio else _ASYNCIO

    async def send(self, fate: Fate) -> None:
        """Send a request and check its outcome."""
        with self._checker.checking(fate) as began:
            if fate.deed.endswith("cancel"):
                self._checker.count("cancels")
                cancel = self._ways[fate.number % len(self._ways)]
                await cancel(partial(self._do, fate, began), fate.moment)
            else:
                await self._do(fate, began)

    async def control(self, name: str) -> None:
        """Send a request that is answered properly."""
        began = time.monotonic()
        url = f"http://127.0.0.1:{self._checker.port}/good/{name}"
        response = await self._client.get(url, timeout=_READS)
        self._checker.controlled(name, response.content, began)

    async def _do(self, fate: Fate, began: float) -> None:
        url = self._checker.url(fate)
        if not fate.deed.startswith("stream"):
            response = await self._client.request(fate.method, url, **self._options(fate))
            self._checker.whole(fate, response.status_code, response.content, began)
            return
        streaming = self._client.stream(fate.method, url, **self._options(fate))
        if fate.deed == "stream and drop":
            await streaming
            return
        async with streaming as response:
            if fate.deed == "stream and close in the midst":
                self._checker.count("cancels")
                await _beside(
                    partial(_close_soon, response, fate.moment),
                    partial(self._read_amid, fate, response, began),
                )
            else:
                await self._read(fate, response, began)

    def _options(self, fate: Fate) -> dict[str, Any]:
        reads = _STALLED if fate.stalls else _READS
        total = None
        if fate.deed == "deadline":
            self._checker.count("cancels")
            total = max(fate.moment, 1e-3)
        options: dict[str, Any] = {"timeout": curlhttp.Timeout(read=reads, total=total)}
        if fate.upload is not None:
            options["content"] = _pieces(fate) if fate.streams else b"u" * fate.upload
        return options

    async def _read(self, fate: Fate, response: Any, began: float) -> None:
        body = b""
        async for piece in response.aiter_bytes():
            body += piece
            if fate.deed == "stream slowly":
                await anyio.sleep(fate.moment)
            elif fate.deed == "stream a part":
                self._checker.count("cancels")
                self._checker.part(fate, body, began)
                return
        self._checker.whole(fate, response.status_code, body, began)

    async def _read_amid(self, fate: Fate, response: Any, began: float) -> None:
        """Read while another task closes the response: what came must be its own."""
        body = b""
        try:
            async for piece in response.aiter_bytes():
                body += piece
        finally:
            self._checker.part(fate, body, began)


async def _pieces(fate: Fate) -> AsyncIterator[bytes]:
    for piece in fate.pieces():
        yield piece
        await anyio.lowlevel.checkpoint()


async def _close_soon(response: Any, seconds: float) -> None:
    await anyio.sleep(seconds)
    await response.aclose()


# --- ways to cancel: all swallow the cancellation that they caused ---


async def _by_scope(send: _Send, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await send()


async def _by_other_task(send: _Send, seconds: float) -> None:
    scope = anyio.CancelScope()

    async def cancel() -> None:
        await anyio.sleep(seconds)
        scope.cancel()

    async def scoped() -> None:
        with scope:
            await send()

    await _beside(cancel, scoped)


async def _beside(other: _Send, main: _Send) -> None:
    """Run two at once; what the second raises is raised as it is, in no group."""
    failed: list[Exception] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(other)
        try:
            await main()
        except Exception as error:
            failed.append(error)
    if failed:
        raise failed.pop()


async def _by_task_cancel(send: _Send, seconds: float) -> None:
    task = asyncio.ensure_future(send())
    await asyncio.sleep(seconds)
    task.cancel()
    # Twice, because the first may come while it cleans up after an error.
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def _by_wait_for(send: _Send, seconds: float) -> None:
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(send(), seconds)


async def _by_timeout(send: _Send, seconds: float) -> None:
    if sys.version_info >= (3, 11):
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await send()
    else:
        await _by_wait_for(send, seconds)


async def _by_trio(send: _Send, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await send()


_ASYNCIO = (_by_scope, _by_other_task, _by_task_cancel, _by_wait_for, _by_timeout)
_TRIO = (_by_scope, _by_other_task, _by_trio)
