"""The engine of `Client.map`: many requests in the calling thread, without threads or event loop.

Each request is a coroutine. The engine steps it until it waits for its transfer, for a time or for
a waiter. `run_once`, which the thread calls, waits for all coroutines together and steps those that
can continue.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from time import monotonic
from types import MethodType
from typing import Any, TypeAlias, TypeVar

from curlhttp._curl.connection_pool import Wakeable
from curlhttp._curl.driver import Driver
from curlhttp._curl.engines.multi import MultiEngine
from curlhttp._curl.errors import report_descriptor_shortage
from curlhttp._curl.hedge_race import HedgeRace
from curlhttp._curl.transfer import Transfer
from curlhttp._engine.network import network
from curlhttp._engine.run import NEEDS_A_LOOP
from curlhttp._models.body import Body
from curlhttp._models.config import Limits

_A = TypeVar("_A")
_Finish: TypeAlias = Callable[[Any], object]  # Any: a response or an exception

_JUST_NOW = 500e-6  # seconds
_LONGEST_WAIT = 86_400.0  # seconds; poll() refuses 25 days
_AWAY = 0.1  # seconds without run_once, after which connection attempts are restarted


class _Pause:
    """Awaited by a coroutine to pause until its job is woken."""

    __slots__ = ()

    def __await__(self) -> Generator[_Pause, None, None]:
        yield self


_PAUSE = _Pause()


class _Job:
    """A running coroutine.

    It may be stepped too early, so it checks whether what it waits for has happened.
    """

    __slots__ = ("coroutine", "finish")

    def __init__(self, finish: _Finish) -> None:
        self.coroutine: Coroutine[object, None, object] | None = None  # None at its end, too
        self.finish = finish


class _JobWaiter:
    """A waiter for a job, which any thread may wake."""

    __slots__ = ("_engine", "_is_woken", "_job")

    def __init__(self, engine: SteppedEngine, job: _Job) -> None:
        self._engine = engine
        self._job = job
        self._is_woken = False

    def wake(self) -> None:
        """Wake the job; never blocks, may be called twice."""
        self._is_woken = True
        self._engine.wake(self._job)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until it is woken, or for so many seconds."""
        timers, job = self._engine.timers, self._job
        due = None if seconds is None else monotonic() + seconds
        try:
            if due is not None:
                timers[job] = due
            # If it is already woken, the job waits for those that were woken before.
            while True:
                await _PAUSE
                if self._is_woken or (due is not None and due <= monotonic()):
                    break
        finally:
            timers.pop(job, None)


class SteppedEngine(MultiEngine):
    """Move bytes for the coroutines that one thread steps.

    Args:
        limits: the client's limits.
        multiplexes: see MultiEngine.

    Attributes:
        timers: when to wake a job, in monotonic seconds.
    """

    def __init__(self, limits: Limits, *, multiplexes: bool) -> None:
        self.timers: dict[_Job, float] = {}
        self._ready: deque[_Job] = deque()
        self._jobs: set[_Job] = set()
        self._current: _Job  # the job that is being stepped
        self._wakeup: tuple[socket.socket, ...] = ()  # to end a wait from another thread
        self._waits = False
        self._last_run = 0.0  # when run_once last returned
        super().__init__(limits, multiplexes=multiplexes)

    # driving

    def start(self, call: Callable[[_A], Awaitable[object]], argument: _A, finish: _Finish) -> None:
        """Make a coroutine and step it for the first time.

        Args:
            call: makes the coroutine.
            argument: of the call, such as the request.
            finish: called at its end with its result or its exception.
        """
        job = _Job(finish)
        self._jobs.add(job)
        # The coroutine is stored with no call in between, not even of `cast`, so that Ctrl-C cannot
        # come before it has a job, which `cancel` ends.
        job.coroutine = call(argument)  # type: ignore[assignment]  # most are coroutines
        self._step(job)

    def run_once(self, *, waits: bool = True) -> None:
        """Step all jobs that can continue.

        Args:
            waits: if none can, wait until one can.
        """
        if monotonic() - self._last_run > _AWAY:
            self._restart_connecting()
        self._waits = waits
        try:  # from here on, a job that another thread wakes ends the wait
            self._driver.run_once(self._wait_seconds() if waits and not self._ready else 0)
        finally:
            self._waits = False
        if self._wakeup:
            with suppress(BlockingIOError):
                self._wakeup[0].recv(4096)
        now = self._last_run = monotonic()
        ready, timers = self._ready, self.timers
        if timers:
            late = (job for job, due in timers.items() if due <= now)
            ready.extend(sorted(late, key=timers.__getitem__))
        while ready:
            self._step(ready.popleft())

    def run_ready(self) -> None:
        """Step all jobs that can continue, unless that was done just now."""
        if monotonic() - self._last_run > _JUST_NOW:
            self.run_once(waits=False)

    def cancel(self) -> None:
        """Close all coroutines, which release what they hold."""
        jobs, self._jobs = self._jobs, set()
        failed: BaseException | None = None
        for job in jobs:
            coroutine, job.coroutine = job.coroutine, None
            try:
                if coroutine is not None:
                    coroutine.close()
            except BaseException as error:  # raised by a middleware that cleans up
                failed = error
        self._ready.clear()
        if failed is not None:
            raise failed

    def _step(self, job: _Job) -> None:
        coroutine = job.coroutine
        if coroutine is None:
            return
        self._current = job
        outcome: object
        try:
            if coroutine.send(None) is _PAUSE:
                return
            coroutine.close()
            outcome = RuntimeError(NEEDS_A_LOOP)
        except StopIteration as stop:
            outcome = stop.value
        except Exception as error:
            outcome = error
        job.coroutine = None
        self._jobs.discard(job)
        job.finish(outcome)

    def _wait_seconds(self) -> float | None:
        seconds = self._driver.wait_seconds()
        if not self.timers:
            return seconds
        first = min(max(0.0, min(self.timers.values()) - monotonic()), _LONGEST_WAIT)
        return first if seconds is None else min(first, seconds)

    def _restart_connecting(self) -> None:
        """Restart connection attempts whose timeout ran while nobody called run_once.

        libcurl would check the clock first, and give up connections that are established by now.
        """
        away = monotonic() - self._last_run
        for transfer in list(self._driver.running.values()):
            request = transfer.request
            assert request is not None
            limit = request.timeout.connect
            if not transfer.sends and limit is not None and away > limit / 2:
                if request.deadline is not None:
                    transfer.handle.set_deadline(request.deadline)  # a restart would restart it too
                self._driver.restart(transfer)

    # what coroutines wait for

    def _make_driver(self, limits: Limits, connections: int) -> Driver:
        driver = Driver(limits, connections)
        for end in self._wakeup[:1]:
            driver.poller.watch(end.fileno(), 1)
        return driver

    def _wait_for(self, waited: Wakeable, *rivals: Transfer) -> _Pause:
        wake = waited.wake = MethodType(self._ready.append, self._current)
        for rival in rivals:
            rival.wake = wake
        return _PAUSE

    async def _wait_at_most(self, seconds: float, waited: Wakeable, *rivals: Transfer) -> None:
        job = self._current
        self.timers[job] = monotonic() + seconds
        try:
            await self._wait_for(waited, *rivals)
        finally:
            self.timers.pop(job, None)

    def _make_local_waiter(self) -> _JobWaiter:
        return _JobWaiter(self, self._current)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        if not network.skip(seconds):
            await self._make_local_waiter().wait(seconds)

    def make_waiter(self) -> _JobWaiter:
        """Return a new waiter for the caller."""
        if not self._wakeup:
            with report_descriptor_shortage():
                self._wakeup = socket.socketpair()
            for end in self._wakeup:
                end.setblocking(False)
            self._driver.poller.watch(self._wakeup[0].fileno(), 1)
        return self._make_local_waiter()

    def wake(self, job: _Job) -> None:
        """Step a job at the next run_once, and end the wait of the current one; from any thread."""
        self._ready.append(job)
        if self._waits and self._wakeup:
            with suppress(OSError):  # full, or closed meanwhile
                self._wakeup[1].send(b"\0")

    # request bodies: libcurl reads them in this thread

    def _set_feed(self, transfer: Transfer, body: Body) -> None:
        pass  # Transfer.prepare did it

    async def _pump(self, transfer: Transfer, race: HedgeRace | None = None) -> None:
        pass

    # the end

    def abort_from_finalizer(self, incoming: Transfer) -> None:
        """Abandon a response; none of them stream."""
        self.abort(incoming)

    def _free(self) -> None:
        super()._free()
        self._close_wakeup()

    def _close_wakeup(self) -> None:
        for end in self._wakeup:
            end.close()

    def __del__(self) -> None:
        if not getattr(self, "is_closed", True):  # Ctrl-C may have come while it was made
            self._close_wakeup()
