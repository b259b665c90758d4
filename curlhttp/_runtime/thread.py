"""The runtime of blocking clients: the time, and waits of the calling thread."""

from __future__ import annotations

import time

from curlhttp._runtime.engine import Runtime
from curlhttp._runtime.network import network, now, wall
from curlhttp._runtime.run import SequentialRace, ThreadWaiter
from curlhttp._runtime.running_maps import running, wait_and_step


async def sleep(seconds: float) -> None:
    """Wait, unless a mock skips that; step the maps of this thread meanwhile."""
    if network.skip(seconds):
        return
    if running:
        wait_and_step(time.sleep, seconds)
    else:
        time.sleep(seconds)  # noqa: ASYNC251  # there is no loop to block


THREAD = Runtime(now, wall, sleep, ThreadWaiter, SequentialRace)
"""For transports that reach the network; an engine that can race has its own `make_race`."""


async def _sleep_unmocked(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251  # there is no loop to block


REAL_TIME_THREAD = Runtime(time.monotonic, time.time, _sleep_unmocked, ThreadWaiter, SequentialRace)
"""For transports that replace the network, whose time no mock changes."""
