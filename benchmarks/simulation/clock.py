"""An event loop in which hours take no time, and a scripted engine for clients that share one."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from curlhttp import ConcurrencyLimit, Response
from curlhttp._features.limits.layer import limits
from curlhttp._http.request import ClientRequest
from curlhttp._runtime.engine import Runtime
from curlhttp._runtime.loops import make_race
from curlhttp.testing import ScriptedEngine
from curlhttp.testing._scripted import ScriptedAttempt, Step, to_step

__all__ = ["ScriptedNetwork", "run"]

T = TypeVar("T")


class _Skipping(selectors.SelectSelector):
    """Never wait: instead of sleeping, the loop advances its clock."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        """Advance the clock to the next timer."""
        if timeout is None:
            raise RuntimeError("all tasks wait for each other, and no timer is left")
        self.now += max(0.0, timeout)
        return []


class _Loop(asyncio.SelectorEventLoop):
    """An event loop whose clock is a number."""

    def __init__(self) -> None:
        self._skipping = _Skipping()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Return the time of the clock, in seconds from 0."""
        return self._skipping.now


def run(main: Coroutine[object, object, T]) -> T:
    """Run a coroutine to its end in a loop whose waits take no time.

    Waiting tasks continue at the time of the clock, in the same order in each run.
    """
    loop = _Loop()
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


class ScriptedNetwork(ScriptedEngine):
    """A scripted engine with the running loop's clock, so that other requests run while it waits.

    Args:
        script: returns the step for a request when it is sent.
        connections: of the client's pool, for which further requests wait; None for no limit.
    """

    def __init__(
        self, script: Callable[[ClientRequest], Step], connections: int | None = None
    ) -> None:
        super().__init__(script)
        self._script = script
        pool = None if connections is None else ConcurrencyLimit(connections, per=None)
        self._in_pool = limits(None, pool, self.runtime)(super().perform)

    async def perform(self, request: ClientRequest) -> Response:
        """Play a step as soon as a connection is free."""
        return await self._in_pool(request)

    def now(self) -> float:
        """Return the time of the loop's clock."""
        return asyncio.get_running_loop().time()

    def wall(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self._epoch + self.now()

    async def sleep(self, seconds: float) -> None:
        """Wait while other tasks run."""
        await asyncio.sleep(seconds)

    @property
    def runtime(self) -> Runtime:
        """Return the time of the simulation, and waits in it."""
        return Runtime(self.now, self.wall, self.sleep, _Waiter, make_race)

    async def _begin(self, request: ClientRequest) -> ScriptedAttempt:
        # Nothing is noted of it: there will be some hundred thousand.
        return ScriptedAttempt(request, to_step(self._script(request)), self.now())

    async def _wait_until(self, moment: float) -> None:
        await asyncio.sleep(max(0.0, moment - self.now()))

    async def _wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _Waiter:
    """Lets one task wait until another one wakes it."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Wake the task."""
        self._event.set()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until it is woken, or for so many seconds."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._event.wait(), seconds)
