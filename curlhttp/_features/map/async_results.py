"""The results of `AsyncClient.map`. Requests run in background tasks.

Each task sends one request after another. If the iterable is async, one more task awaits the
items, because an async generator may depend on running in the same task.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

import anyio

from curlhttp._features.map.backlog import Job
from curlhttp._features.map.scheduler import Item, MapResult, MapScheduler, Result_co
from curlhttp._http.errors import Unpicklable
from curlhttp._runtime.engine import Waiter
from curlhttp._runtime.loops import BackgroundTasks, background_tasks, running_loop

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient
    from curlhttp._features.map.receiving import Receive

Self = TypeVar("Self", bound="AsyncResults[Any]")


class AsyncResults(Unpicklable, Generic[Result_co]):
    """Iterate over the results of a map, whose requests run in the background.

    You can iterate once, in one task at a time. If you stop early, because you close, cancel or
    drop the results or leave their `async with`, running requests are cancelled and no others are
    sent.
    """

    _why_not = "its requests are running; pass on its results, which can be pickled"

    def __init__(
        self,
        client: BaseClient,
        scheduler: MapScheduler,
        source: AsyncIterator[Item] | None,
        receive: Receive[object] | None = None,
    ) -> None:
        self._run = _RunningMap(client, scheduler, source, receive)

    def __aiter__(self: Self) -> Self:
        return self

    if not TYPE_CHECKING:  # type checkers reject `for`

        def __iter__(self):
            raise TypeError("map() of AsyncClient needs `async for`, not `for`")

    async def __anext__(self) -> Result_co:
        run = self._run
        if run.is_over:
            raise StopAsyncIteration
        if run.has_consumer:
            raise RuntimeError("another caller is iterating over this map")
        run.has_consumer = True
        try:
            return cast("Result_co", await run.next())
        except BaseException:
            run.stop()
            raise
        finally:
            run.has_consumer = False

    async def aclose(self) -> None:
        """Cancel running requests, send no others, and wait until all tasks have ended."""
        self._run.stop()
        tasks = self._run.tasks
        if tasks is not None:
            with anyio.CancelScope(shield=True):
                await tasks.wait_until_done()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        run = getattr(self, "_run", None)
        if run is None or run.is_over:
            return
        if run.tasks is None:
            run.stop()
            return
        with suppress(RuntimeError):  # the loop has ended, and with it the tasks
            run.tasks.call_soon(run.stop)


class _RunningMap:
    """The tasks of one map, and the consumer that waits for their results.

    The tasks refer to this object and not to AsyncResults, so that the map ends when the consumer
    drops its AsyncResults.
    """

    def __init__(
        self,
        client: BaseClient,
        scheduler: MapScheduler,
        source: AsyncIterator[Item] | None,
        receive: Receive[object] | None,
    ) -> None:
        self._client = client
        self._receive = receive  # in place of the client's flow, which may change
        self._scheduler = scheduler
        self._source = source
        self._context = copy_context()
        self._consumer_waiter: Waiter | None = None  # wakes the consumer
        self._room_waiter: Waiter | None = None  # wakes the task that awaits items
        self._jobs: deque[Job] = deque()  # for tasks that have not run yet
        self.tasks: BackgroundTasks | None = None  # None until the consumer wants a result
        self.has_consumer = False
        self.is_over = False

    # the consumer's side

    async def next(self) -> MapResult:
        """Return the next result.

        Raises:
            StopAsyncIteration: there are no more results.
            BaseException: an error that ends the map.
        """
        scheduler = self._scheduler
        tasks = self.tasks or self._begin()
        while (result := scheduler.take()) is None:
            if scheduler.is_done:
                raise scheduler.error or StopAsyncIteration
            self._consumer_waiter = tasks.make_waiter()
            try:
                await self._consumer_waiter.wait()
            finally:
                self._consumer_waiter = None
        self._start_more()
        return result

    def _begin(self) -> BackgroundTasks:
        tasks = self.tasks = background_tasks(running_loop(), self._context)
        self._scheduler.runtime = self._client._runtime
        self._scheduler.on_room = self._start_more
        if self._source is not None:
            tasks.spawn(self._take_items, self._source)
        self._start_more()
        return tasks

    def _start_more(self) -> None:
        """Start a task for each request that may be sent now."""
        scheduler, tasks = self._scheduler, self.tasks
        assert tasks is not None
        while (job := scheduler.next()) is not None:
            self._jobs.append(job)
            tasks.spawn(self._send)
        self._wake_consumer()
        if scheduler.has_more:
            tasks.call_soon(self._start_more)
        elif self._room_waiter is not None:
            self._room_waiter.wake()

    def _take_job(self) -> Job | None:
        """Return the next job for any task that runs now: trio starts tasks in any order."""
        return self._jobs.popleft() if self._jobs else self._scheduler.next()

    def _wake_consumer(self) -> None:
        """Wake the consumer if there is a result, or the map has ended."""
        if self._consumer_waiter is not None and (
            self._scheduler.has_result or self._scheduler.is_done
        ):
            self._consumer_waiter.wake()

    def stop(self) -> None:
        """Cancel running requests and send no others. Call this in the loop's thread."""
        self.is_over = True
        if self.tasks is not None:
            self.tasks.cancel()
        for _, request, _ in self._jobs:
            request.place = None  # it may be sent again
        self._jobs.clear()
        self._scheduler.close()

    # the tasks

    async def _send(self) -> None:
        scheduler, client = self._scheduler, self._client
        assert self.tasks is not None
        job = self._take_job()
        while job is not None:
            outcome: object
            try:
                place, flow = job[1].place, self._receive or client._flow
                if place is not None:
                    flow = partial(place.run, flow)
                outcome = await flow(job[1])
            except BaseException as error:
                if self.tasks.was_cancelled(error):
                    if not self.is_over:  # somebody else did it; the consumer must not wait forever
                        scheduler.settle(job, _make_cancelled_error())
                        self._wake_consumer()
                    raise
                outcome = error
            scheduler.settle(job, outcome)
            outcome = job = None  # both may be large, and the next job may take long
            job = self._take_job()
            self._wake_consumer()

    async def _take_items(self, source: AsyncIterator[Item]) -> None:
        """Await items while there is room for them."""
        scheduler = self._scheduler
        assert self.tasks is not None
        failed: BaseException | None = None
        try:
            try:
                while True:
                    await self._wait_for_room()
                    scheduler.put(await anext(source))
                    self._start_more()
            finally:
                if isinstance(source, AsyncGeneratorType):
                    await source.aclose()
        except StopAsyncIteration:
            pass
        except BaseException as error:
            if self.tasks.was_cancelled(error):
                failed = _make_cancelled_error()
                raise
            failed = error
        finally:
            scheduler.put_end(failed)
            self._start_more()

    async def _wait_for_room(self) -> None:
        assert self.tasks is not None
        while not self._scheduler.wants_items:
            self._room_waiter = self.tasks.make_waiter()
            try:
                await self._room_waiter.wait()
            finally:
                self._room_waiter = None


def _make_cancelled_error() -> RuntimeError:
    return RuntimeError("a task of this map was cancelled, but not by its consumer")
