"""The async engine for trio and whatever else anyio runs on.

There is no task of its own, since there is no nursery to put one in: of the tasks that wait for
their transfers one waits for the sockets, on behalf of all, and hands over when it leaves.
"""

from __future__ import annotations

import math

import anyio

from curlhttp._config import Limits
from curlhttp._curl.engine_async import AsyncEngine, Gate
from curlhttp._curl.readiness import Driver
from curlhttp._curl.transfer import Transfer

__all__ = ["AnyioEngine"]


class _EventGate(Gate):
    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = anyio.Event()

    def open(self) -> None:
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()


class _ScopeDriver(Driver):
    """A driver whose owner sleeps in a cancel scope: an earlier timer moves the deadline."""

    scope: anyio.CancelScope | None = None

    def rearm(self) -> None:
        scope = self.scope
        if scope is not None:
            scope.deadline = min(scope.deadline, self.deadline())

    def deadline(self) -> float:
        """Return the time of the next timer on anyio's clock."""
        seconds = self.wait_seconds()
        return math.inf if seconds is None else anyio.current_time() + seconds


class AnyioEngine(AsyncEngine):
    """Move bytes for the tasks of one event loop of any kind that anyio knows.

    Args:
        limits: the client's limits.
        multiplexes: see AsyncEngine.
    """

    def __init__(self, limits: Limits, *, multiplexes: bool) -> None:
        super().__init__(limits, multiplexes=multiplexes)
        self._parked: dict[anyio.Event, None] = {}
        self._orphans: list[Transfer] = []

    def _make_driver(self, limits: Limits, connections: int) -> Driver:
        return _ScopeDriver(limits, connections)

    def _gate(self) -> Gate:
        return _EventGate()

    async def _park(self, transfer: Transfer) -> None:
        woken = anyio.Event()
        transfer.wake = woken.set
        self._parked[woken] = None
        driver = self._driver
        assert isinstance(driver, _ScopeDriver)
        try:
            if driver.scope is None:
                await self._drive(driver, woken)
            else:
                await woken.wait()
        finally:
            del self._parked[woken]
            transfer.wake = None
            if driver.scope is None and self._parked:
                next(iter(self._parked)).set()  # it finds nobody driving, and does

    async def _drive(self, driver: _ScopeDriver, woken: anyio.Event) -> None:
        """Turn the driver until this task's own transfer has something to look at."""
        try:
            while not woken.is_set():
                with anyio.CancelScope(deadline=driver.deadline()) as driver.scope:
                    await anyio.wait_readable(driver.poller.fileno())
                self._reap()
                driver.turn()
        finally:
            driver.scope = None

    def orphan(self, incoming: Transfer) -> None:
        """Let go of a response from a finalizer, in whatever thread that runs."""
        self._orphans.append(incoming)

    def _reap(self) -> None:
        while self._orphans:
            self.abort(self._orphans.pop())

    async def _queue(self, request: object, origin: str) -> None:
        self._reap()
        await super()._queue(request, origin)  # type: ignore[arg-type]
