"""The engine for trio: two system tasks, one for the sockets and one for the timers.

System tasks need no nursery, which a client does not have, and Ctrl-C is not raised in them. They
end with their engine or with trio's main task.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import trio
from trio.lowlevel import (
    Abort,
    Task,
    current_task,
    reschedule,
    spawn_system_task,
    wait_readable,
    wait_task_rescheduled,
)

from curlhttp._http.config import Limits
from curlhttp._libcurl.driver import Driver
from curlhttp._libcurl.engines.event_loop import EventLoopEngine
from curlhttp._libcurl.transfer import Transfer
from curlhttp._libcurl.transfer_pool import Wakeable
from curlhttp._runtime.loops import EventWaiter

if TYPE_CHECKING:
    from curlhttp._libcurl.streams.event_loop import AnyioStream


class _Sleeper:
    """A task that sleeps until it is woken; it may be woken twice."""

    __slots__ = ("_task",)

    def __init__(self) -> None:
        self._task: Task | None = current_task()

    def sleep(self) -> Awaitable[object]:
        """Return an awaitable that ends when the task is woken."""
        return wait_task_rescheduled(self._abort)  # noqa: ASYNC105

    def wake(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            reschedule(task)

    def _abort(self, raise_cancel: object) -> Abort:
        self._task = None
        return Abort.SUCCEEDED


class _WakeOrder:
    """The order in which the waiting tasks of an engine continue.

    Attributes:
        woken: the woken waiters whose tasks have not continued yet.
        early: events of tasks that ran before their turn.
    """

    __slots__ = ("early", "woken")

    def __init__(self) -> None:
        self.woken: OrderedDict[_OrderedWaiter, None] = OrderedDict()
        self.early: list[trio.Event] = []


class _OrderedWaiter(EventWaiter):
    """A waiter whose task continues after those that were woken earlier.

    trio runs tasks that were woken together in any order. A task that runs before its turn waits
    again until the next one has continued.
    """

    __slots__ = ("_has_task", "_order")

    def __init__(self, order: _WakeOrder) -> None:
        super().__init__()
        self._order = order
        self._has_task = False

    def wake(self) -> None:
        """Wake the task; never blocks, may be called twice."""
        if self._has_task:  # otherwise no task would remove the waiter
            self._order.woken[self] = None
        super().wake()

    async def _wait(self) -> None:
        """Wait until it is woken and it is the task's turn."""
        woken, early = self._order.woken, self._order.early
        self._has_task = True
        try:
            await super()._wait()
            while self in woken and next(iter(woken)) is not self:
                early.append(event := trio.Event())
                await event.wait()
        finally:
            self._has_task = False
            woken.pop(self, None)
            while early:
                early.pop().set()


class _TrioDriver(Driver):
    """A driver that two tasks run.

    The timer task also starts added transfers: together all that were added before its turn.
    """

    def __init__(self, limits: Limits, connections: int) -> None:
        super().__init__(limits, connections)
        self._timer_due = -math.inf  # the task checks the timer itself when it begins to sleep
        self._timer = trio.CancelScope()  # of its sleep
        self._sleeper: _Sleeper | None = None
        self._scopes_of_tasks = trio.CancelScope(), trio.CancelScope()
        try:
            self.poller.fileno()
        except NotImplementedError:  # Windows
            token = trio.lowlevel.current_trio_token()
            self.watch_in_thread(token.run_sync_soon, partial(self._run, self.run_once))
        else:
            spawn_system_task(self._read_sockets, name="curlhttp: sockets")
        spawn_system_task(self._run_timers, name="curlhttp: timers")

    def rearm(self, due: float) -> None:
        if due >= self._timer_due or self._sleeper is None:
            return
        delay = due - monotonic()
        if delay > 0:
            self._timer_due = due
            self._timer.deadline = trio.current_time() + delay
        else:
            self._timer_due = -math.inf
            self._sleeper.wake()

    async def _read_sockets(self) -> None:
        with self._scopes_of_tasks[0]:
            while self.is_attached:
                await wait_readable(self.poller.fileno())
                self._run(self.run_once)

    async def _run_timers(self) -> None:
        with self._scopes_of_tasks[1]:
            while self.is_attached:
                due = self.due()
                left = math.inf if due is None else due - monotonic()
                if left > 0:
                    self._sleeper = _Sleeper()
                    with trio.CancelScope(deadline=trio.current_time() + left) as self._timer:
                        self._timer_due = math.inf if due is None else due
                        await self._sleeper.sleep()
                    self._timer_due = -math.inf
                else:
                    await trio.lowlevel.checkpoint()
                # The sockets are left to the other task, which gets more data at once.
                self._run(self.run_due)
                due = self.due()
                if due is not None and due <= monotonic():
                    self._run(self.run_once)  # only the sockets show whether a server is silent

    def _run(self, call: Callable[[], None]) -> None:
        if not self.is_attached:
            return
        try:
            call()
        except Exception as error:  # it would end all of trio
            self.broken = self.broken or error
            self.fail_all()

    def detach(self) -> None:
        """End the tasks."""
        super().detach()
        for scope in self._scopes_of_tasks:
            scope.cancel()


class TrioEngine(EventLoopEngine):
    """Move bytes for the tasks of one run of trio.

    Args:
        limits: the client's limits.
        multiplexes: see MultiEngine.
    """

    def __init__(self, limits: Limits, *, multiplexes: bool) -> None:
        self._order = _WakeOrder()
        self._soon = trio.lowlevel.current_trio_token().run_sync_soon
        super().__init__(limits, multiplexes=multiplexes)

    def _make_driver(self, limits: Limits, connections: int) -> Driver:
        return _TrioDriver(limits, connections)

    def _make_local_waiter(self) -> EventWaiter:
        return _OrderedWaiter(self._order)

    def _wait_for(self, waited: Wakeable) -> Awaitable[object]:
        sleeper = _Sleeper()
        waited.wake = sleeper.wake
        return sleeper.sleep()

    async def _wait_at_most(self, seconds: float, waited: Wakeable) -> None:
        with trio.move_on_after(seconds):
            await self._wait_for(waited)

    def _call_soon(self, call: Callable[[], object]) -> None:
        self._soon(call)

    def _stream(self, transfer: Transfer) -> AnyioStream:
        from curlhttp._libcurl.streams.event_loop import AnyioStream

        return AnyioStream(transfer, self._drop, self._soon)

    def has_ended(self) -> bool:
        """Return whether trio has ended for good."""
        try:
            self._soon(_nothing)
        except trio.RunFinishedError:
            return True
        return False


def _nothing() -> None:
    """Do nothing: what matters is whether trio accepts the call."""
