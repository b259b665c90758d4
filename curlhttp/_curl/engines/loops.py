"""Find the engine of the running event loop, and start background tasks on asyncio and trio.

Loaded with the first AsyncClient.
"""

from __future__ import annotations

import asyncio
import sys
import warnings
from asyncio import _get_running_loop, current_task
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from anyio.lowlevel import EventLoopToken, current_token

from curlhttp._curl.engines.event_loop import EventLoopEngine, EventWaiter
from curlhttp._curl.engines.event_loop import in_thread as in_thread
from curlhttp._curl.engines.on_asyncio import AsyncioEngine, FutureWaiter
from curlhttp._engine.engine import Waiter
from curlhttp._models.config import Limits

if TYPE_CHECKING:
    from trio import CancelScope
    from trio.lowlevel import TrioToken

Loop: TypeAlias = asyncio.AbstractEventLoop | EventLoopToken

# A cancelled task abandons its thread, which ends when it can.
in_thread_or_leave = partial(in_thread, abandon_on_cancel=True)


def install_uvloop() -> bool:
    """Make asyncio use uvloop from now on, if uvloop is installed.

    Returns:
        Whether it does; without uvloop nothing changes.
    """
    install = getattr(asyncio, "set_event_loop_policy", None)  # Python 3.16 has none
    try:
        from uvloop import EventLoopPolicy
    except ImportError:
        return False
    if install is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.14
        install(EventLoopPolicy())
    return True


def running_loop() -> Loop:
    """Return the running event loop: the asyncio loop, or anyio's token for another kind."""
    loop = _get_running_loop()
    # In trio's guest mode there is a host loop, but the caller is no task of it.
    if loop is not None and current_task(loop) is not None:
        return loop
    return current_token()


def _find_running_loop() -> Loop:
    """Return the running event loop as running_loop does, but without a system call.

    Python 3.11 and older ask for the process id. A forked child gets the loop of its parent here.
    """
    # asyncio and uvloop set these hooks of the thread when a loop begins to run.
    loop = getattr(sys.get_asyncgen_hooks()[0], "__self__", None)
    if isinstance(loop, asyncio.AbstractEventLoop) and current_task(loop) is not None:
        return loop
    return running_loop()


find_running_loop: Callable[[], Loop] = (
    running_loop if sys.version_info >= (3, 12) else _find_running_loop
)


def make_engine(
    engines: dict[Loop, EventLoopEngine], loop: Loop, limits: Limits, *, multiplexes: bool
) -> EventLoopEngine:
    """Make and store the engine for an event loop; close those of loops that have ended.

    Args:
        engines: the client's engines by loop.
        loop: an asyncio loop, or anyio's token for another kind.
        limits: the client's limits.
        multiplexes: see MultiEngine.
    """
    engine: EventLoopEngine
    if isinstance(loop, asyncio.AbstractEventLoop):
        engine = AsyncioEngine(limits, multiplexes=multiplexes, loop=loop)
    else:
        from curlhttp._curl.engines.on_trio import TrioEngine

        engine = TrioEngine(limits, multiplexes=multiplexes)
    for ended in _ended(engines):
        ended.close()
    engines[loop] = engine
    return engine


async def close_engines(engines: dict[Loop, EventLoopEngine], loop: Loop) -> None:
    """Close the engine of the running loop, and those of loops that have ended.

    Args:
        engines: the client's engines by loop.
        loop: the running loop, see running_loop.
    """
    own = engines.pop(loop, None)
    for ended in _ended(engines):
        ended.close()
    if own is not None:
        await own.aclose()


def _ended(engines: dict[Loop, EventLoopEngine]) -> list[EventLoopEngine]:
    """Remove and return the engines of ended loops."""
    ended = []
    for loop, engine in list(engines.items()):
        # Another thread may remove it at the same time; only one gets it.
        if engine.has_ended() and engines.pop(loop, None) is not None:
            ended.append(engine)
    return ended


# --- Start background tasks on asyncio and trio without a task group ---
#
# anyio has none without a group, and a group must not stay open while an iterator is between two
# results.

Start: TypeAlias = Callable[..., Coroutine[object, None, None]]


class BackgroundTasks(Protocol):
    """Tasks of one event loop.

    Attributes:
        cancelled: the exception that is raised in a cancelled task.
    """

    cancelled: type[BaseException]

    def spawn(self, start: Start, *arguments: object) -> None:
        """Start a task, which only raises `cancelled`."""

    def cancel(self) -> None:
        """Cancel all tasks."""

    def was_cancelled(self, error: BaseException) -> bool:
        """Return whether an error was raised because the running task of these is cancelled."""

    async def wait_until_done(self) -> None:
        """Wait until there are no tasks."""

    def make_waiter(self) -> Waiter:
        """Return a new waiter."""

    def call_soon(self, call: Callable[[], object]) -> None:
        """Call a function in the loop, from any thread.

        Raises:
            RuntimeError: the loop has ended.
        """


def background_tasks(loop: Loop, context: Context) -> BackgroundTasks:
    """Return the background tasks of a loop.

    Args:
        loop: the running asyncio loop, or anyio's token for another kind.
        context: each task gets a copy of it.
    """
    if isinstance(loop, asyncio.AbstractEventLoop):
        return AsyncioTasks(loop, context)
    return TrioTasks(cast("TrioToken", loop.native_token), context)


class AsyncioTasks:
    """Tasks of an asyncio loop, including uvloop."""

    cancelled: type[BaseException] = asyncio.CancelledError

    def __init__(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._loop = loop
        self._context = context
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cancelled = False

    def call_soon(self, call: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(call)

    def spawn(self, start: Start, *arguments: object) -> None:
        task = self._context.copy().run(self._loop.create_task, start(*arguments))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def cancel(self) -> None:
        self._is_cancelled = True
        for task in tuple(self._tasks):
            task.cancel()

    def was_cancelled(self, error: BaseException) -> bool:
        if not isinstance(error, self.cancelled):
            return False
        # Any code may raise CancelledError. Python 3.10 does not tell the difference.
        cancelling = getattr(current_task(self._loop), "cancelling", int)
        return self._is_cancelled or cancelling() > 0

    async def wait_until_done(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    def make_waiter(self) -> Waiter:
        return FutureWaiter(self._loop)


class TrioTasks:
    """System tasks of trio, which need no nursery and end with trio's main task."""

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

    def was_cancelled(self, error: BaseException) -> bool:
        return isinstance(error, self.cancelled)

    async def wait_until_done(self) -> None:
        if self._scopes:
            self._done = self._trio.Event()
            await self._done.wait()

    def make_waiter(self) -> Waiter:
        return EventWaiter()
