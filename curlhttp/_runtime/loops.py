"""The runtime of async clients: the time, and waits of a task, in whichever loop is running."""

from __future__ import annotations

import time
from contextvars import copy_context

import anyio

from curlhttp._curl.engines.event_loop import SharedWaiter
from curlhttp._curl.engines.loops import background_tasks, running_loop
from curlhttp._engine.engine import Runtime


def _make_waiter() -> SharedWaiter:
    """Return a new waiter for the running task."""
    tasks = background_tasks(running_loop(), copy_context())
    return SharedWaiter(tasks.make_waiter(), tasks.call_soon)


async def _sleep(seconds: float) -> None:
    await anyio.sleep(seconds)


REAL_TIME_LOOP = Runtime(time.monotonic, time.time, _sleep, _make_waiter)
"""For transports that replace the network, whose time no mock changes."""
