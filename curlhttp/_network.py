"""What may stand in place of the network for all engines at once: a mock, in somebody's tests.

Engines that move bytes ask here, so that a stand-in serves clients that it never saw: those that
were made before it, and those inside the code under test. It decides nothing.
"""

from __future__ import annotations

from time import monotonic, time
from typing import Protocol

from curlhttp._engine import Engine
from curlhttp._models.request import Request

__all__ = ["Network", "StandIn", "Waits", "network", "now", "wall"]


class Waits(Protocol):
    """What a stand-in may ask of the engine that it takes a request from."""

    @property
    def is_closed(self) -> bool:
        """Return whether no more requests are sent."""

    async def sleep(self, seconds: float) -> None:
        """Wait, unless the stand-in skips that."""


class StandIn(Protocol):
    """Take requests away from the engines that reach the network."""

    def engine_for(self, request: Request, engine: Waits) -> Engine | None:
        """Return the engine that takes a request, or None to leave it to the one that has it.

        Args:
            request: complete.
            engine: has it. What another one opens has an attribute `engine`, which reads it.
        """

    def skip(self, seconds: float) -> bool:
        """Return whether a wait of an engine takes no time, after moving the clock by that much."""


class Network:
    """What all engines of this process that reach the network have in common.

    Attributes:
        stand_in: takes their requests, or None.
        skipped: seconds that a stand-in let go by in no time.
    """

    stand_in: StandIn | None = None
    skipped: float = 0.0

    def skip(self, seconds: float) -> bool:
        """Return whether a wait takes no time since a stand-in has its own."""
        stand_in = self.stand_in  # once: another thread may end it
        return stand_in is not None and stand_in.skip(seconds)


network = Network()


def now() -> float:
    """Return monotonic seconds: time.monotonic(), and what was skipped."""
    return monotonic() + network.skipped


def wall() -> float:
    """Return the time of day in seconds since the epoch: time.time(), and what was skipped."""
    return time() + network.skipped
