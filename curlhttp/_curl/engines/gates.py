"""Make trio tasks wait until another task opens their gate."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable

import anyio

from curlhttp._curl.engines.event_loop import wait_so_long

__all__ = ["EventGate", "Order", "OrderedGate"]


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


class Order:
    """In what order the tasks of an engine go on that wait at gates.

    Attributes:
        opened: the gates that are open, and whose tasks have not gone on.
        early: events of tasks that ran before it was their turn.
    """

    __slots__ = ("early", "opened")

    def __init__(self) -> None:
        self.opened: OrderedDict[OrderedGate, None] = OrderedDict()
        self.early: list[anyio.Event] = []


class OrderedGate(EventGate):
    """A gate whose task goes on after those whose gates were opened before.

    trio runs tasks that were woken together in any order: one that runs before its turn waits
    again, until the next one has gone on.
    """

    __slots__ = ("_has_task", "_order")

    def __init__(self, order: Order) -> None:
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
