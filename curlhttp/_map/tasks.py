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
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from curlhttp._engine import Gate
from curlhttp._loops import running_loop
from curlhttp._map.background import Crew, make_crew
from curlhttp._map.work import Job, Result, Work

if TYPE_CHECKING:
    from curlhttp._core import Core

__all__ = ["AsyncResults"]

Self = TypeVar("Self", bound="AsyncResults")


class AsyncResults:
    """The results of a map, one by one; requests go on whether or not they are waited for.

    Iterate over it once, in one task at a time. When that ends early, by `aclose`, at the end of
    an `async with`, when it is cancelled or dropped, requests under way are cancelled and no
    others are sent.
    """

    def __init__(self, core: Core, work: Work, source: AsyncIterator[Any] | None) -> None:
        self._team = _Team(core, work, source)

    def __aiter__(self: Self) -> Self:
        return self

    async def __anext__(self) -> Result:
        team = self._team
        if team.is_over:
            raise StopAsyncIteration
        if team.has_consumer:
            raise RuntimeError("this map is being iterated over already")
        team.has_consumer = True
        try:
            return await team.next()
        except BaseException:
            team.stop()
            raise
        finally:
            team.has_consumer = False

    async def aclose(self) -> None:
        """Cancel what is under way, send no more, and wait until all tasks have ended."""
        self._team.stop()
        crew = self._team.crew
        if crew is not None:
            with anyio.CancelScope(shield=True):
                await crew.gone()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    def __del__(self) -> None:
        team = getattr(self, "_team", None)
        if team is None or team.is_over:
            return
        if team.crew is None:
            team.stop()
            return
        with suppress(RuntimeError):  # the loop has ended, and the tasks with it
            team.crew.call_soon(team.stop)


class _Team:
    """The tasks of one map, and the consumer who waits for what they do.

    They hold on to it, and not to what the consumer has.
    """

    def __init__(self, core: Core, work: Work, source: AsyncIterator[Any] | None) -> None:
        self._core = core
        self._work = work
        self._source = source
        self._context = copy_context()
        self._ahead: Gate | None = None  # where the consumer waits
        self._room: Gate | None = None  # where the one who awaits items waits
        self._jobs: deque[Job] = deque()  # taken, of tasks that have not run yet
        self.crew: Crew | None = None  # from the first result that is asked for
        self.has_consumer = False
        self.is_over = False

    # the consumer's side

    async def next(self) -> Result:
        """Return the next result, or raise what ends the map."""
        work = self._work
        crew = self.crew or self._begin()
        while not work.has_result:
            if work.is_done:
                raise work.end() or StopAsyncIteration
            self._ahead = crew.gate()
            try:
                await self._ahead.wait()
            finally:
                self._ahead = None
        result = work.take()
        self._hire()
        if self._room is not None:
            self._room.open()
        return result

    def _begin(self) -> Crew:
        crew = self.crew = make_crew(running_loop(), self._context)
        if self._source is not None:
            crew.spawn(self._feed, self._source)
        self._hire()
        return crew

    def _hire(self) -> None:
        """Have all sent that may be."""
        work, crew = self._work, self.crew
        assert crew is not None
        while (job := work.next()) is not None:
            self._jobs.append(job)
            crew.spawn(self._send)
        self._tell()

    def _take(self) -> Job | None:
        """Return the next job for a task that runs now; trio starts tasks in any order."""
        return self._jobs.popleft() if self._jobs else self._work.next()

    def _tell(self) -> None:
        """Wake the consumer, if there is something for it."""
        if self._ahead is not None and (self._work.has_result or self._work.is_done):
            self._ahead.open()

    def stop(self) -> None:
        """Cancel what is under way, and send no more; in the loop's own thread."""
        self.is_over = True
        if self.crew is not None:
            self.crew.cancel()
        self._jobs.clear()
        self._work.close()

    # the tasks

    async def _send(self) -> None:
        work, core = self._work, self._core
        assert self.crew is not None
        cancelled = self.crew.cancelled
        job = self._take()
        while job is not None:
            outcome: Any
            try:
                outcome = await core.flow(job[1])
            except cancelled:
                if not self.is_over:  # somebody else's doing; the consumer must not wait for ever
                    work.settle(job, _cancelled())
                    self._tell()
                raise
            except BaseException as error:
                outcome = error
            work.settle(job, outcome)
            outcome = job = None  # both may be large, and the next may take long to come
            job = self._take()
            self._tell()

    async def _feed(self, source: AsyncIterator[Any]) -> None:
        """Await items, as far as there is room for them."""
        work = self._work
        assert self.crew is not None
        failed: BaseException | None = None
        try:
            try:
                while True:
                    await self._until_wanted()
                    work.put(await anext(source))
                    self._hire()
            finally:
                if isinstance(source, AsyncGeneratorType):
                    await source.aclose()
        except StopAsyncIteration:
            pass
        except self.crew.cancelled:
            failed = _cancelled()
            raise
        except BaseException as error:
            failed = error
        finally:
            work.put_end(failed)
            self._hire()

    async def _until_wanted(self) -> None:
        assert self.crew is not None
        while not self._work.wants_items:
            self._room = self.crew.gate()
            try:
                await self._room.wait()
            finally:
                self._room = None


def _cancelled() -> RuntimeError:
    return RuntimeError("a task of this map was cancelled, and not by its consumer")
