"""The async engine for trio and whatever else anyio runs on.

There is no task of its own, since there is no nursery to put one in: of the tasks that wait for
their transfers one waits for the sockets, on behalf of all, and hands over when it leaves.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio
from anyio.lowlevel import EventLoopToken

from curlhttp._config import Limits
from curlhttp._curl.caller import Waited
from curlhttp._curl.driver import Driver
from curlhttp._curl.engines.event_loop import EventLoopEngine, wait_so_long
from curlhttp._curl.transfer import Transfer

if TYPE_CHECKING:
    from curlhttp._curl.streams.on_anyio import AnyioStream

__all__ = ["AnyioEngine", "EventGate"]


class EventGate:
    """Something one task waits at until it is opened: an event."""

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = anyio.Event()

    def open(self) -> None:
        """Let the task go on; never waits, may be called twice."""
        self._event.set()

    def wait(self, seconds: float | None = None) -> Awaitable[None]:
        """Return what ends when it is open, or after so many seconds."""
        wait = self._wait
        return wait() if seconds is None else wait_so_long(wait, seconds)

    async def _wait(self) -> None:
        await self._event.wait()


class _Order:
    """In what order the tasks of an engine go on that wait at gates.

    Attributes:
        opened: the gates that are open, and whose tasks have not gone on.
        early: events of tasks that ran before it was their turn.
    """

    __slots__ = ("early", "opened")

    def __init__(self) -> None:
        self.opened: OrderedDict[_OrderedGate, None] = OrderedDict()
        self.early: list[anyio.Event] = []


class _OrderedGate(EventGate):
    """A gate whose task goes on after those whose gates were opened before.

    trio runs tasks that were woken together in any order: one that runs before its turn waits
    again, until the next one has gone on.
    """

    __slots__ = ("_has_task", "_order")

    def __init__(self, order: _Order) -> None:
        super().__init__()
        self._order = order
        self._has_task = False

    def open(self) -> None:
        """Let the task go on; never waits, may be called twice."""
        if self._has_task:  # else no task would take the gate out again
            self._order.opened[self] = None
        super().open()

    async def _wait(self) -> None:
        """Wait until it is open, and the task's turn."""
        opened, early = self._order.opened, self._order.early
        self._has_task = True
        try:
            await super()._wait()
            while self in opened and next(iter(opened)) is not self:
                early.append(event := anyio.Event())
                await event.wait()
        finally:
            self._has_task = False
            opened.pop(self, None)
            while early:
                early.pop().set()


class _ScopeDriver(Driver):
    """A driver whose owner sleeps in a cancel scope: an earlier timer moves the deadline."""

    scope: anyio.CancelScope | None = None
    _fires = math.inf

    def rearm(self, due: float) -> None:
        scope = self.scope
        if scope is not None:
            seconds = max(0.0, due - monotonic())
            scope.deadline = min(scope.deadline, anyio.current_time() + seconds)

    def rouse(self, woken: anyio.Event) -> None:
        """Set the owner's event, and end its sleep if it is another task that does so."""
        woken.set()
        if self.scope is not None:
            self.scope.deadline = -math.inf

    def detach(self) -> None:
        """End the owner's sleep, for good."""
        super().detach()
        if self.scope is not None:
            self.scope.cancel()

    def deadline(self) -> float:
        """Return the time of the next timer on anyio's clock."""
        seconds = self.wait_seconds()
        return math.inf if seconds is None else anyio.current_time() + seconds


class AnyioEngine(EventLoopEngine):
    """Move bytes for the tasks of one event loop of any kind that anyio knows.

    Args:
        limits: the client's limits.
        multiplexes: see MultiEngine.
        token: stands for the running loop.
    """

    def __init__(self, limits: Limits, *, multiplexes: bool, token: EventLoopToken) -> None:
        super().__init__(limits, multiplexes=multiplexes)
        self._waiting: dict[anyio.Event, None] = {}
        self._order = _Order()
        native: Any = token.native_token  # Any: asyncio's loop, or trio's token
        # trio's way to call something in the loop from anywhere, and asyncio's
        self._soon = getattr(native, "run_sync_soon", None) or native.call_soon_threadsafe

    def _make_driver(self, limits: Limits, connections: int) -> Driver:
        return _ScopeDriver(limits, connections)

    def _local_gate(self) -> EventGate:
        return _OrderedGate(self._order)

    async def _wait_for(self, waited: Waited, *rivals: Transfer) -> None:
        transfers = (waited, *rivals)
        woken = anyio.Event()
        for transfer in transfers:
            transfer.wake = woken.set
        self._waiting[woken] = None
        driver = self._driver
        assert isinstance(driver, _ScopeDriver)
        # While another task drives, waking this one is enough; one that drives itself has to be
        # roused from its sleep as well.
        try:
            if driver.scope is None:
                rouse = partial(driver.rouse, woken)
                for transfer in transfers:
                    transfer.wake = rouse
                await self._drive(driver, woken)
            else:
                await woken.wait()
        finally:
            del self._waiting[woken]
            for transfer in transfers:
                transfer.wake = None
            if driver.scope is None and self._waiting:
                next(iter(self._waiting)).set()  # that task finds no other driving, and drives

    async def _wait_for_at_most(self, seconds: float, waited: Waited, *rivals: Transfer) -> None:
        with anyio.move_on_after(seconds):
            await self._wait_for(waited, *rivals)

    async def _drive(self, driver: _ScopeDriver, woken: anyio.Event) -> None:
        """Turn the driver until this task's own transfer has something to look at."""
        try:
            while not woken.is_set():
                with anyio.CancelScope(deadline=driver.deadline()) as driver.scope:
                    await anyio.wait_readable(driver.poller.fileno())
                if not driver.is_attached:  # the client was closed while this task slept
                    return
                driver.run_once()
        finally:
            driver.scope = None

    def abort_from_finalizer(self, incoming: Transfer) -> None:
        """Let go of a response from a finalizer, in whatever thread that runs."""
        if not self.is_closed:
            with suppress(RuntimeError):  # the loop has ended
                self._soon(self.abort, incoming)

    def _call_soon(self, call: Callable[[], object]) -> None:
        self._soon(call)

    def _stream(self, transfer: Transfer) -> AnyioStream:
        from curlhttp._curl.streams.on_anyio import AnyioStream

        return AnyioStream(transfer, self._drop, self._soon)

    def has_ended(self) -> bool:
        """Return whether the event loop runs no more, for good."""
        try:
            self._soon(_nothing)
        except RuntimeError:  # trio.RunFinishedError, or a closed asyncio loop
            return True
        return False


def _nothing() -> None:
    """Do nothing: only whether it could be called matters."""
