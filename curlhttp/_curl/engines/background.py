"""Start background tasks on asyncio and trio without a task group.

anyio has none without a group, which must not be held open while an iterator is between two
results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from curlhttp._curl.engines.gates import EventGate
from curlhttp._curl.engines.loops import Loop
from curlhttp._curl.engines.on_asyncio import FutureGate
from curlhttp._engine.engine import Gate

if TYPE_CHECKING:
    from trio import CancelScope
    from trio.lowlevel import TrioToken

__all__ = ["BackgroundTasks", "background_tasks"]

Start: TypeAlias = Callable[..., Coroutine[object, None, None]]


class BackgroundTasks(Protocol):
    """Tasks of one event loop.

    Attributes:
        cancelled: the exception that a cancelled task gets.
    """

    cancelled: type[BaseException]

    def spawn(self, start: Start, *arguments: object) -> None:
        """Start a task; it raises nothing but `cancelled`."""

    def cancel(self) -> None:
        """Cancel all tasks."""

    async def wait_until_done(self) -> None:
        """Wait until there are no tasks."""

    def gate(self) -> Gate:
        """Return a closed gate."""

    def call_soon(self, call: Callable[[], object]) -> None:
        """Call something in the loop, from any thread.

        Raises:
            RuntimeError: the loop has ended.
        """


def background_tasks(loop: Loop, context: Context) -> BackgroundTasks:
    """Return what starts the tasks of a loop.

    Args:
        loop: the running asyncio loop, or anyio's token for another kind.
        context: what tasks see of context variables; each has a copy.
    """
    if isinstance(loop, asyncio.AbstractEventLoop):
        return AsyncioTasks(loop, context)
    return TrioTasks(cast("TrioToken", loop.native_token), context)


class AsyncioTasks:
    """Tasks of an asyncio loop, uvloop's included."""

    cancelled: type[BaseException] = asyncio.CancelledError

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()

    def call_soon(self, call: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(call)

    def spawn(self, start: Start, *arguments: object) -> None:
        task = self._context.copy().run(self._loop.create_task, start(*arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    async def wait_until_done(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    def gate(self) -> Gate:
        return FutureGate(self._loop)


class TrioTasks:
    """System tasks of trio, which need no nursery; they end with trio's main task."""

    def __init__(self, token: TrioToken, context: Context) -> None:
        import trio

        self.cancelled: type[BaseException] = trio.Cancelled
        self._trio = trio
        self._context = context
        self._scopes: set[trio.CancelScope] = set()
        self._done = trio.Event()
        self._token = token

    def call_soon(self, call: Callable[[], object]) -> None:
        self._token.run_sync_soon(call)

    def spawn(self, start: Start, *arguments: object) -> None:
        scope = self._trio.CancelScope()
        self._scopes.add(scope)
        context = self._context.copy()
        self._trio.lowlevel.spawn_system_task(
            self._run, scope, start, arguments, name=start, context=context
        )

    async def _run(self, scope: CancelScope, start: Start, arguments: tuple[object, ...]) -> None:
        try:
            with scope:
                await start(*arguments)
        finally:
            self._scopes.discard(scope)
            if not self._scopes:
                self._done.set()

    def cancel(self) -> None:
        for scope in tuple(self._scopes):
            scope.cancel()

    async def wait_until_done(self) -> None:
        if self._scopes:
            self._done = self._trio.Event()
            await self._done.wait()

    def gate(self) -> Gate:
        return EventGate()
