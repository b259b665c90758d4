"""The results of `AsyncClient.map`. Requests go on in tasks of their own, each one after another.

A task takes the next item itself when its request is done. Where items have to be awaited,
another single task does that, so that the iterable may hold on to its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import copy_context
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, TypeVar

import anyio

from curlhttp._client.map.scheduler import Item, Job, MapResult, MapScheduler
from curlhttp._curl.engines.loops import BackgroundTasks, background_tasks, running_loop
from curlhttp._engine.engine import Waiter
from curlhttp._models.errors import Unpicklable

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient
    from curlhttp._models.response import Response

Self = TypeVar("Self", bound="AsyncResults")


class AsyncResults(Unpicklable):
    """Iterate over the results of a map, whose requests run in the background.

    Iterate over it once, in one task at a time. When that ends early, by `aclose`, at the end of
    an `async with`, when it is cancelled or dropped, requests under way are cancelled and no
    others are sent.
    """

    _why_not = "its requests are under way; pass on its results, which can be pickled"

    def __init__(
        self, client: BaseClient, scheduler: MapScheduler, source: AsyncIterator[Item] | None
    ) -> None:
        self._run = _RunningMap(client, scheduler, source)

    def __aiter__(self: Self) -> Self:
        return self

    async def __anext__(self) -> MapResult:
        run = self._run
        if run.is_over:
            raise StopAsyncIteration
        if run.has_consumer:
            raise RuntimeError("this map is being iterated over already")
        run.has_consumer = True
        try:
            return await run.next()
        except BaseException:
            run.stop()
            raise
        finally:
            run.has_consumer = False

    async def aclose(self) -> None:
        """Cancel what is under way, send no more, and wait until all tasks have ended."""
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
        with suppress(RuntimeError):  # the loop has ended, and the tasks with it
            run.tasks.call_soon(run.stop)


class _RunningMap:
    """The tasks of one map, and the consumer, which waits for what they do.

    The tasks hold on to this object, and not to the results that the consumer has: when those are
    dropped, the map ends.
    """

    def __init__(
        self, client: BaseClient, scheduler: MapScheduler, source: AsyncIterator[Item] | None
    ) -> None:
        self._client = client
        self._scheduler = scheduler
        self._source = source
        self._context = copy_context()
        self._ahead: Waiter | None = None  # where the consumer waits
        self._room: Waiter | None = None  # where the task that awaits items waits
        self._jobs: deque[Job] = deque()  # taken, of tasks that have not run yet
        self.tasks: BackgroundTasks | None = None  # from the first result that is asked for
        self.has_consumer = False
        self.is_over = False

    # the consumer's side

    async def next(self) -> MapResult:
        """Return the next result, or raise what ends the map."""
        scheduler = self._scheduler
        tasks = self.tasks or self._begin()
        while not scheduler.has_result:
            if scheduler.is_done:
                raise scheduler.end() or StopAsyncIteration
            self._ahead = tasks.make_waiter()
            try:
                await self._ahead.wait()
            finally:
                self._ahead = None
        result = scheduler.take()
        self._start_more()
        if self._room is not None:
            self._room.wake()
        return result

    def _begin(self) -> BackgroundTasks:
        tasks = self.tasks = background_tasks(running_loop(), self._context)
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

    def _take_job(self) -> Job | None:
        """Return the next job for a task that runs now; trio starts tasks in any order."""
        return self._jobs.popleft() if self._jobs else self._scheduler.next()

    def _wake_consumer(self) -> None:
        """Wake the consumer, if there is something for it."""
        if self._ahead is not None and (self._scheduler.has_result or self._scheduler.is_done):
            self._ahead.wake()

    def stop(self) -> None:
        """Cancel what is under way, and send no more; in the loop's own thread."""
        self.is_over = True
        if self.tasks is not None:
            self.tasks.cancel()
        self._jobs.clear()
        self._scheduler.close()

    # the tasks

    async def _send(self) -> None:
        scheduler, client = self._scheduler, self._client
        assert self.tasks is not None
        cancelled = self.tasks.cancelled
        job = self._take_job()
        while job is not None:
            outcome: Response | BaseException | None
            try:
                outcome = await client.flow(job[1])
            except cancelled:
                if not self.is_over:  # not this map's doing; the consumer must not wait for ever
                    scheduler.settle(job, _cancelled())
                    self._wake_consumer()
                raise
            except BaseException as error:
                outcome = error
            scheduler.settle(job, outcome)
            outcome = job = None  # both may be large, and the next may take long to come
            job = self._take_job()
            self._wake_consumer()

    async def _take_items(self, source: AsyncIterator[Item]) -> None:
        """Await items, as far as there is room for them."""
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
        except self.tasks.cancelled:
            failed = _cancelled()
            raise
        except BaseException as error:
            failed = error
        finally:
            scheduler.put_end(failed)
            self._start_more()

    async def _wait_for_room(self) -> None:
        assert self.tasks is not None
        while not self._scheduler.wants_items:
            self._room = self.tasks.make_waiter()
            try:
                await self._room.wait()
            finally:
                self._room = None


def _cancelled() -> RuntimeError:
    return RuntimeError("a task of this map was cancelled, and not by its consumer")
