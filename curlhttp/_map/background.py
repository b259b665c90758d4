"""Tasks beside the caller's own, on asyncio and on trio: no group of tasks surrounds a loop body.

anyio has none without a group, which must not be held open while an iterator is between two
results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Protocol

from curlhttp._curl.engines.on_anyio import EventGate
from curlhttp._curl.engines.on_asyncio import FutureGate
from curlhttp._engine import Gate

__all__ = ["AsyncioCrew", "Crew", "TrioCrew", "make_crew"]

Work = Callable[..., Coroutine[Any, Any, None]]


class Crew(Protocol):
    """Tasks of one event loop.

    Attributes:
        cancelled: the exception that a cancelled task gets.
    """

    cancelled: type[BaseException]

    def spawn(self, work: Work, *arguments: Any) -> None:
        """Start a task; it raises nothing but `cancelled`."""

    def cancel(self) -> None:
        """Cancel all tasks."""

    async def gone(self) -> None:
        """Wait until there are no tasks."""

    def gate(self) -> Gate:
        """Return a closed gate."""

    def call_soon(self, call: Callable[[], object]) -> None:
        """Have something called in the loop, from any thread; RuntimeError: it has ended."""


def make_crew(loop: Any, context: Context) -> Crew:
    """Return a crew without tasks.

    Args:
        loop: the running asyncio loop, or anyio's token for another kind.
        context: what tasks see of context variables; each has a copy.
    """
    if isinstance(loop, asyncio.AbstractEventLoop):
        return AsyncioCrew(loop, context)
    return TrioCrew(loop.native_token, context)


class AsyncioCrew:
    """Tasks of an asyncio loop, uvloop's included."""

    cancelled: type[BaseException] = asyncio.CancelledError

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()

    def call_soon(self, call: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(call)

    def spawn(self, work: Work, *arguments: Any) -> None:
        task = self._context.copy().run(self._loop.create_task, work(*arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()

    async def gone(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    def gate(self) -> Gate:
        return FutureGate(self._loop)


class TrioCrew:
    """System tasks of trio, which need no nursery; they end with trio's main task."""

    def __init__(self, token: Any, context: Context) -> None:
        import trio

        self.cancelled: type[BaseException] = trio.Cancelled
        self._trio = trio
        self._context = context
        self._scopes: set[trio.CancelScope] = set()
        self._gone = trio.Event()
        self._token = token

    def call_soon(self, call: Callable[[], object]) -> None:
        self._token.run_sync_soon(call)

    def spawn(self, work: Work, *arguments: Any) -> None:
        scope = self._trio.CancelScope()
        self._scopes.add(scope)
        context = self._context.copy()
        self._trio.lowlevel.spawn_system_task(
            self._run, scope, work, arguments, name=work, context=context
        )

    async def _run(self, scope: Any, work: Work, arguments: tuple[Any, ...]) -> None:
        try:
            with scope:
                await work(*arguments)
        finally:
            self._scopes.discard(scope)
            if not self._scopes:
                self._gone.set()

    def cancel(self) -> None:
        for scope in tuple(self._scopes):
            scope.cancel()

    async def gone(self) -> None:
        if self._scopes:
            self._gone = self._trio.Event()
            await self._gone.wait()

    def gate(self) -> Gate:
        return EventGate()
