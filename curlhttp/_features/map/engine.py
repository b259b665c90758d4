"""The engine of `Client.map`: many requests in the calling thread, without threads or event loop.

Each request is a coroutine. The engine steps it until it waits for its transfer, for a time or for
a waiter. `run_once`, which the thread calls, waits for all coroutines together and steps those that
can continue. Between two results nobody calls it, so a thread that waits for something else calls
`step_for_waiting`, see `_runtime/running_maps`. A lock lets one thread at a time step.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import copy_context
from threading import get_ident
from time import monotonic
from types import MethodType
from typing import Any, TypeAlias, TypeVar

from curlhttp._http.body import Body
from curlhttp._http.config import Limits
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._libcurl.driver import Driver
from curlhttp._libcurl.engines.multi import MultiEngine
from curlhttp._libcurl.errors import convert_driver_error
from curlhttp._libcurl.poller import Wakeup
from curlhttp._libcurl.result import make_response
from curlhttp._libcurl.transfer import Transfer
from curlhttp._libcurl.transfer_pool import Wakeable
from curlhttp._runtime.engine import Runtime, Waiter
from curlhttp._runtime.network import network, now, wall
from curlhttp._runtime.race import Race
from curlhttp._runtime.run import NEEDS_A_LOOP
from curlhttp._runtime.running_maps import (
    ENDLESS,
    LOOK_AGAIN,
    Pace,
    Stepped,
    is_only_thread,
    make_reference,
    running,
    step_others,
)
from curlhttp.exceptions import ConnectionError, PoolTimeout

_A = TypeVar("_A")
_Finish: TypeAlias = Callable[[Any], object]  # Any: a response or an exception

_LONGEST_WAIT = 86_400.0  # seconds; poll() refuses 25 days
_AWAY = 0.1  # seconds without run_once, after which connection attempts are restarted
_BRIEF = 0.05  # seconds without run_once, after which threads that wait may step
_NOTHING, _ELSEWHERE = Stepped(), Stepped(may_advance=True)


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

    __slots__ = ("coroutine", "finish", "is_stepped", "was_missed")

    def __init__(self, finish: _Finish) -> None:
        self.coroutine: Coroutine[object, None, object] | None = None  # None at its end, too
        self.finish = finish
        self.is_stepped = False
        self.was_missed = False  # it was to be stepped while it was stepped


class _PlainJob:
    """A running request without a coroutine, which has nothing to do until its response is there.

    It is the `future` of its transfer. The engine sets its attributes without a constructor, which
    would take as long as everything else of it.

    Attributes:
        ended: to which it adds itself at its end.
        finish, owner: see `SteppedEngine.start_plain`.
        transfer: carries the request.
        idle: the idle transfers of the pool, to which this one belongs.
        response: None if something unusual has happened.
    """

    __slots__ = ("ended", "finish", "idle", "owner", "response", "transfer")

    ended: deque[_Job | _PlainJob]
    finish: Callable[..., object]
    owner: object
    transfer: Transfer
    idle: list[Transfer]
    response: Response | None

    done = staticmethod(bool)  # returns False, because nobody else completes it

    def set_result(self, response: Response | None) -> None:
        """Complete it with the response, or with None if there is no plain one."""
        self.response = response
        self.ended.append(self)


_new_plain_job = _PlainJob.__new__


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


class _JobRace:
    """Jobs for one caller, which is a job too."""

    def __init__(self, engine: SteppedEngine) -> None:
        self._engine = engine
        self._jobs: list[_Job] = []
        self._is_woken = False
        self._waiter: Waiter | None = None

    async def __aenter__(self) -> None:
        """Begin."""

    async def __aexit__(self, *exc: object) -> None:
        """Close the coroutines that have not ended."""
        for job in self._jobs:
            self._engine.end_job(job)

    def start(self, call: Callable[[_A], Awaitable[None]], argument: _A) -> None:
        """Start a job."""
        job = _Job(_drop)
        self._jobs.append(job)
        self._engine.start_job(job, call, argument)

    async def wait(self, seconds: float | None) -> None:
        """Wait until a job calls `wake`, or for so many seconds."""
        if not self._is_woken:
            self._waiter = self._engine.runtime.make_waiter()
            await self._waiter.wait(seconds)
            self._waiter = None
        self._is_woken = False

    def wake(self) -> None:
        """End the wait of the caller."""
        self._is_woken = True
        if self._waiter is not None:
            self._waiter.wake()


def _drop(outcome: object) -> None:
    """Do nothing: the coroutine of a race has kept its outcome."""


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
        self._ready: deque[_Job | _PlainJob] = deque()
        self._jobs: set[_Job | _PlainJob] = set()
        self._current: _Job  # the job that is being stepped
        self._stepping = 0  # the thread that steps it
        self._pace = Pace()
        self._reference = make_reference(self)
        self._wakeup: Wakeup | None = None  # to end a wait from another thread
        self._waits = False
        self._last_run = 0.0  # when run_once last returned
        self._turn = threading.RLock()  # held by the thread that steps
        self._thread = 0  # that iterates over the map
        self._context = copy_context()  # of that thread
        self._depth = 0  # coroutines that are being stepped: a hook may wait, and step others
        self._drives = False  # libcurl may call back
        self._is_abandoned = False  # who steps now has to end everything
        self.is_interrupted = False
        super().__init__(limits, multiplexes=multiplexes)

    # turns

    def take_turn(self) -> None:
        """Let the calling thread alone step the map, which it iterates over from now on.

        Raises:
            ConnectionError: the engine belongs to the parent process.
            RuntimeError: Ctrl-C has interrupted it at any line.
        """
        if self.is_closed:
            raise ConnectionError("this map belongs to the parent process of this forked process")
        self._turn.acquire()
        if self.is_interrupted:
            self._turn.release()
            raise RuntimeError("this map was interrupted while its thread waited")
        self._thread = get_ident()
        running[id(self)] = self._reference

    def end_turn(self) -> None:
        """Let threads that wait step the map."""
        self._context = copy_context()
        self._turn.release()

    def is_stepped_here(self) -> bool:
        """Return whether the calling thread runs code of the map, such as a hook."""
        # Only a thread that has the turn sees its own identity and a depth.
        return self._depth > 0 and self._stepping == get_ident()

    def step_for_waiting(self) -> Stepped:
        """Step the requests that can continue, unless a thread does that already; never wait."""
        is_own = self._thread == get_ident()
        # The other thread may be back in a moment, and its code expects to run there.
        if not is_own and monotonic() - self._last_run < _BRIEF:
            return _ELSEWHERE
        if self.is_closed or not self._jobs:
            return _NOTHING
        if not self._turn.acquire(blocking=False):
            return _ELSEWHERE
        try:
            if self._drives or self._depth > 1:
                return Stepped(is_own=is_own, is_stuck=True)
            has_advanced = bool(self._ready or self._driver.poller.poll(0))
            if is_own or self._depth:
                self.run_once(waits=False)
            else:
                self._context.run(self.run_once, waits=False)
            may_advance = self._may_advance()
            return Stepped(has_advanced, may_advance, is_own, False, self._wait_seconds())
        except BaseException:  # Ctrl-C, which may have interrupted the engine at any line
            self.is_interrupted = True
            raise
        finally:
            self._turn.release()
            if self._is_abandoned:
                self._end_if_abandoned()

    # driving

    def start(self, call: Callable[[_A], Awaitable[object]], argument: _A, finish: _Finish) -> None:
        """Make a coroutine and step it for the first time.

        Args:
            call: makes the coroutine.
            argument: of the call, such as the request.
            finish: called at its end with its result or its exception.
        """
        self.start_job(_Job(finish), call, argument)

    def start_job(self, job: _Job, call: Callable[[_A], Awaitable[object]], argument: _A) -> None:
        """Step a coroutine for the first time; see `start`."""
        self._jobs.add(job)
        # The coroutine is stored with no call in between, not even of `cast`, so that Ctrl-C cannot
        # come before it has a job, which `cancel` ends.
        job.coroutine = call(argument)  # type: ignore[assignment]  # most are coroutines
        self._step(job)

    def start_plain(
        self, request: ClientRequest, finish: Callable[..., object], owner: object
    ) -> bool:
        """Start a request for which nothing is to be done until its response is there.

        Args:
            request: complete.
            finish: called at its end with the owner, and its response or its exception.
            owner: anything; so no request needs a `partial`, which is slow.

        Returns:
            False if it cannot take the straight path: then use `start`.
        """
        ready = self._pool.ready
        transfer = self._take_ready(request)
        if transfer is None:
            return False
        job = _new_plain_job(_PlainJob)
        job.ended, job.finish, job.owner = self._ready, finish, owner
        job.transfer, job.idle = transfer, ready
        self._jobs.add(job)
        try:
            transfer.prepare(request)
            transfer.future = job
            transfer.wake = transfer.settle
            self._driver.add(transfer)
        except Exception as error:
            self._fail_plain(job, convert_driver_error(error, request))
        return True

    def _end_plain(self, job: _PlainJob) -> None:
        """Release the transfer of a plain job that has ended, and finish the job."""
        self._jobs.discard(job)
        transfer, response, pool = job.transfer, job.response, self._pool
        if response is None:  # something unusual has happened
            try:
                response = make_response(transfer)
            except BaseException as error:
                self._fail_plain(job, error)
                return
            transfer.clean()
        if pool.slots.waiters or job.idle is not pool.ready or self.is_closed:
            self._release(transfer)
        else:  # the same without a call
            job.idle.append(transfer)
            pool.slots.used -= 1
        job.finish(job.owner, response)

    def _fail_plain(self, job: _PlainJob, error: BaseException) -> None:
        self._jobs.discard(job)
        self._fail(job.transfer, error)
        if not isinstance(error, Exception):
            raise error
        job.finish(job.owner, error)

    def end_job(self, job: _Job) -> None:
        """Close the coroutine of a job, unless it has ended."""
        if job.is_stepped:  # its hook waits, and steps the caller
            return
        before, self._current = self._current, job
        coroutine, job.coroutine = job.coroutine, None
        self._jobs.discard(job)
        try:
            if coroutine is not None:
                coroutine.close()
        finally:
            self._current = before

    def run_once(self, *, waits: bool = True) -> None:
        """Step all jobs that can continue.

        Args:
            waits: if none can, wait until one can.
        """
        if monotonic() - self._last_run > _AWAY:
            self._restart_connecting()
        most = self._prepare_wait() if waits else None
        self._waits = waits
        self._drives = True
        try:  # from here on, a job that another thread wakes ends the wait
            self._driver.run_once(self._wait_seconds(most) if waits and not self._ready else 0)
        finally:
            self._waits = self._drives = False
        if self._wakeup is not None:
            self._wakeup.receive()
        now = self._last_run = monotonic()
        ready, timers = self._ready, self.timers
        if timers:
            late: list[_Job] = [job for job, due in timers.items() if due <= now]
            late.sort(key=timers.__getitem__)
            ready.extend(late)
        while ready:
            job = ready.popleft()
            if isinstance(job, _PlainJob):
                self._end_plain(job)
            else:
                self._step(job)

    def run_ready(self, seconds: float) -> bool:
        """Step all jobs that can continue, unless that was done in the last so many seconds."""
        if monotonic() - self._last_run > seconds:
            self.run_once(waits=False)
            return True
        return False

    def _prepare_wait(self) -> float | None:
        """Step the other maps, and return how long to wait at most until that is done again.

        Raises:
            PoolTimeout: the wait would have no end.
        """
        stepped = step_others(self) if len(running) > 1 else _NOTHING
        can_advance = self._may_advance() or stepped.can_go_on
        if not can_advance and is_only_thread():
            gc.collect()  # a response that nobody refers to any more may hold what jobs need
            if not self._may_advance():
                raise PoolTimeout(ENDLESS)
        if len(running) > 1:
            return self._pace.next(stepped)
        return None if can_advance else LOOK_AGAIN

    def _may_advance(self) -> bool:
        return bool(self._ready or self.timers or self._driver.running)

    def cancel(self, *, waits: bool = True) -> bool:
        """Close all coroutines, which release what they hold, and pause the map for good.

        Args:
            waits: wait for a thread that steps them right now. A finalizer must not.

        Returns:
            False if another one does it instead, and closes the engine.
        """
        running.pop(id(self), None)
        self._is_abandoned = True
        return self._end_if_abandoned(waits=waits, closes=False)

    def _end_if_abandoned(self, *, waits: bool = False, closes: bool = True) -> bool:
        if not self._turn.acquire(blocking=waits):
            return False  # that thread looks when it releases the turn
        try:
            if self._depth or self._drives or not self._is_abandoned:
                return False
            self._is_abandoned = False
            self._close_coroutines()
        finally:
            self._turn.release()
        if closes:
            self.close()
        return True

    def _close_coroutines(self) -> None:
        jobs, self._jobs = self._jobs, set()
        failed: BaseException | None = None
        for job in jobs:
            try:
                if isinstance(job, _PlainJob):
                    self._fail(job.transfer, GeneratorExit())
                    continue
                coroutine, job.coroutine = job.coroutine, None
                self._current = job
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
        if job.is_stepped:  # its hook waits
            job.was_missed = True
            return
        before = self._current if self._depth else None
        self._current, self._stepping = job, get_ident()
        self._depth += 1
        job.is_stepped = True
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
        finally:
            self._depth -= 1
            if before is not None:
                self._current = before
            job.is_stepped = False
            if job.was_missed:
                job.was_missed = False
                self._ready.append(job)
        job.coroutine = None
        self._jobs.discard(job)
        job.finish(outcome)

    def _wait_seconds(self, most: float | None = None) -> float | None:
        seconds = self._driver.wait_seconds()
        if most is not None:
            seconds = most if seconds is None else min(most, seconds)
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
            if not transfer.attempt.is_out and limit is not None and away > limit / 2:
                if request.deadline is not None:
                    transfer.handle.set_deadline(request.deadline)  # a restart would restart it too
                self._driver.restart(transfer)

    # what coroutines wait for

    def _make_driver(self, limits: Limits, connections: int) -> Driver:
        driver = Driver(limits, connections)
        if self._wakeup is not None:
            driver.poller.watch(self._wakeup.descriptor, 1)
        return driver

    def _wait_for(self, waited: Wakeable) -> _Pause:
        waited.wake = MethodType(self._ready.append, self._current)
        return _PAUSE

    async def _wait_at_most(self, seconds: float, waited: Wakeable) -> None:
        job = self._current
        self.timers[job] = monotonic() + seconds
        try:
            await self._wait_for(waited)
        finally:
            self.timers.pop(job, None)

    def _make_local_waiter(self) -> _JobWaiter:
        return _JobWaiter(self, self._current)

    @property
    def runtime(self) -> Runtime:
        """Return the time, and waits of the jobs of this engine."""
        return Runtime(now, wall, self._sleep, self._make_waiter, self._make_race)

    def _make_race(self) -> Race:
        return network.make_race() or _JobRace(self)

    async def _sleep(self, seconds: float) -> None:
        if not network.skip(seconds):
            await self._make_local_waiter().wait(seconds)

    def _make_waiter(self) -> _JobWaiter:
        """Return a new waiter for the caller, which any thread may wake."""
        if self._wakeup is None:
            self._wakeup = Wakeup()
            self._driver.poller.watch(self._wakeup.descriptor, 1)
        return self._make_local_waiter()

    def wake(self, job: _Job) -> None:
        """Step a job at the next run_once, and end the wait of the current one; from any thread."""
        self._ready.append(job)
        if self._waits and self._wakeup is not None:
            self._wakeup.send()

    # request bodies: libcurl reads them in this thread

    def _set_feed(self, transfer: Transfer, body: Body) -> None:
        pass  # Transfer.prepare did it

    async def _pump(self, transfer: Transfer) -> None:
        pass

    # the end

    def abort_from_finalizer(self, incoming: Transfer) -> None:
        """Abandon a response; only attempts of a race have one that streams."""
        self.abort(incoming)

    def _after_fork_in_child(self) -> None:
        """Leave everything to the parent process."""
        running.pop(id(self), None)
        super()._after_fork_in_child()

    def _free(self) -> None:
        super()._free()
        if self._wakeup is not None:
            self._wakeup.close()
