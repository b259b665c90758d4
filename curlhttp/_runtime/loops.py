"""The runtime of async clients: waits, background tasks and threads on asyncio and trio.

Loaded with the first AsyncClient.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio import _get_running_loop, current_task
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from sys import is_finalizing
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

import anyio
import anyio.to_thread
from anyio.lowlevel import EventLoopToken, current_token

from curlhttp._http.exiting import thread_error
from curlhttp._runtime.engine import Runtime, Waiter
from curlhttp._runtime.network import network
from curlhttp._runtime.race import ExcInfo, Race
from curlhttp._runtime.running_maps import Pace, running, step_others

if TYPE_CHECKING:
    from trio import CancelScope
    from trio.lowlevel import TrioToken
    from typing_extensions import Unpack

A = TypeVar("A")
T = TypeVar("T")

Loop: TypeAlias = asyncio.AbstractEventLoop | EventLoopToken


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


# --- Waiters: a task waits until another one, or a thread, wakes it ---


class FutureWaiter:
    """A waiter for one task, made of a future."""

    __slots__ = ("_future", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] = loop.create_future()

    def wake(self) -> None:
        """Wake the task; never blocks, may be called twice."""
        settle(self._future)

    def wait(self, seconds: float | None = None) -> Awaitable[None]:
        """Return an awaitable that ends when it is woken, or after so many seconds."""
        return self._future if seconds is None else self._wait_at_most(seconds)

    async def _wait_at_most(self, seconds: float) -> None:
        timer = self._loop.call_later(seconds, self.wake)  # costs less than anyio's timeout
        try:
            await self._future
        finally:
            timer.cancel()


def settle(future: asyncio.Future[None]) -> None:
    """Complete the future of a waiter, unless its task has gone."""
    if not future.done():  # its task may have been cancelled just now
        try:  # noqa: SIM105  # once for each request
            future.set_result(None)
        except RuntimeError:  # the loop has ended, and with it the task
            pass


class EventWaiter:
    """A waiter for one task, made of an event."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = anyio.Event()

    def wake(self) -> None:
        """Wake the task; never blocks, may be called twice."""
        self._event.set()

    def wait(self, seconds: float | None = None) -> Awaitable[None]:
        """Return an awaitable that ends when it is woken, or after so many seconds."""
        return self._wait() if seconds is None else self._wait_at_most(seconds)

    async def _wait(self) -> None:
        await self._event.wait()

    async def _wait_at_most(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._wait()


class SharedWaiter:
    """A waiter that any thread may wake."""

    __slots__ = ("_call_soon", "_waiter")

    def __init__(self, waiter: Waiter, call_soon: Callable[[Callable[[], object]], None]) -> None:
        self._waiter = waiter
        self._call_soon = call_soon

    def wake(self) -> bool:
        """Wake the task; never blocks, may be called twice.

        Returns:
            False if the event loop of the task has ended.
        """
        try:
            self._call_soon(self._waiter.wake)
        except RuntimeError:
            return False
        return True

    def can_look_around(self, seconds: float | None) -> bool:
        """Return whether a wait may be split, with a new waiter for each part."""
        return True

    def wait(self, seconds: float | None = None) -> Awaitable[object]:
        """Return an awaitable that ends when it is woken, or after so many seconds."""
        if running:
            return _wait_and_step(self._waiter, seconds)
        return self._waiter.wait(seconds)


async def _wait_and_step(waiter: Waiter, seconds: float | None) -> None:
    """Wait, and step the maps of blocking clients meanwhile; see running_maps."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_step_maps)
        await waiter.wait(seconds)
        tasks.cancel_scope.cancel()


async def _step_maps() -> None:
    pace = Pace()
    while running:  # noqa: ASYNC110  # sockets of a map are not in this loop
        await anyio.sleep(pace.next(step_others()))


async def sleep(seconds: float) -> None:
    """Wait, unless a mock skips that."""
    if running:
        step_others()  # a limit in a store is asked again and again
    await anyio.sleep(0 if network.skip(seconds) else seconds)


# --- Threads ---


async def in_thread(call: Callable[..., T], *arguments: Any, abandon_on_cancel: bool = False) -> T:
    """Call a function in a thread, and return its result.

    Args:
        call: may block.
        arguments: its arguments. Any, because they have any types.
        abandon_on_cancel: a cancelled task leaves its thread, which ends when it can.

    Raises:
        ConnectionError: no thread could start, such as while Python exits.
    """
    has_begun = False

    def run() -> T:
        nonlocal has_begun
        has_begun = True
        return call(*arguments)

    try:
        if is_finalizing():  # see start_thread
            raise RuntimeError("Python is exiting")
        return await anyio.to_thread.run_sync(run, abandon_on_cancel=abandon_on_cancel)
    except RuntimeError as error:
        if has_begun:
            raise
        raise thread_error(error) from error


# A cancelled task abandons its thread, which ends when it can.
in_thread_or_leave = partial(in_thread, abandon_on_cancel=True)


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


# --- Run the attempts of a request at the same time ---


def make_race() -> Race:
    """Return a race of the running loop."""
    loop = running_loop()
    return TaskRace(loop) if isinstance(loop, asyncio.AbstractEventLoop) else NurseryRace()


class _LoopRace:
    """The wait of the caller.

    Args:
        make_waiter: returns a new waiter for it.
    """

    def __init__(self, make_waiter: Callable[[], Waiter]) -> None:
        self._make_waiter = make_waiter
        self._waiter: Waiter | None = None
        self._is_woken = False

    async def wait(self, seconds: float | None) -> None:
        """Wait until a task calls `wake`, or for so many seconds."""
        if not self._is_woken:
            self._waiter = self._make_waiter()
            await self._waiter.wait(seconds)
        self._is_woken = False

    def wake(self) -> None:
        """End the wait of the caller."""
        self._is_woken = True
        if self._waiter is not None:
            self._waiter.wake()


class TaskRace(_LoopRace):
    """Tasks of an asyncio loop, which cost a quarter of a task group of anyio.

    Args:
        loop: is running.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(partial(FutureWaiter, loop))
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> None:
        """Begin."""

    async def __aexit__(self, *exc: Unpack[ExcInfo]) -> None:
        """Cancel all tasks, and wait for them, also if the caller is cancelled meanwhile."""
        cancelled: BaseException | None = None
        while self._tasks:
            # Again and again, because a middleware may go on after a cancellation.
            for task in tuple(self._tasks):
                task.cancel()
            try:
                await asyncio.wait(self._tasks, timeout=_CANCEL_AGAIN)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def start(self, call: Callable[[A], Awaitable[None]], argument: A) -> None:
        """Start a task."""
        task = self._loop.create_task(cast("Coroutine[object, None, None]", call(argument)))
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the attempt has it, so the loop need not log it


_CANCEL_AGAIN = 0.05  # seconds


class NurseryRace(_LoopRace):
    """Tasks of trio."""

    def __init__(self) -> None:
        super().__init__(EventWaiter)
        self._group = anyio.create_task_group()

    async def __aenter__(self) -> None:
        """Begin."""
        await self._group.__aenter__()

    async def __aexit__(self, *exc: Unpack[ExcInfo]) -> bool | None:
        """Cancel all tasks, and wait for them. The caller's exception stays as it is."""
        kind = exc[0]
        if kind is not None and issubclass(kind, anyio.get_cancelled_exc_class()):
            return await self._group.__aexit__(*exc)
        # Not with another exception, because the group would make an ExceptionGroup of it.
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)
        return None

    def start(self, call: Callable[[A], Awaitable[None]], argument: A) -> None:
        """Start a task."""
        self._group.start_soon(cast("Start", call), argument)


# --- The runtime of transports that replace the network ---


def _make_waiter() -> SharedWaiter:
    """Return a new waiter for the running task."""
    tasks = background_tasks(running_loop(), copy_context())
    return SharedWaiter(tasks.make_waiter(), tasks.call_soon)


async def _sleep_unmocked(seconds: float) -> None:
    await anyio.sleep(seconds)


REAL_TIME_LOOP = Runtime(time.monotonic, time.time, _sleep_unmocked, _make_waiter, make_race)
"""For transports that replace the network, whose time no mock changes."""
