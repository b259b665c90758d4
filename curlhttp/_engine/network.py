"""What may stand in place of the network for all engines at once: a mock, in somebody's tests.

Engines that move bytes ask here, so that a stand-in serves clients that it never saw: those that
were made before it, and those inside the code under test. It decides nothing.
"""

from __future__ import annotations

from time import monotonic, time
from typing import Protocol

from curlhttp._engine.engine import Engine
from curlhttp._models.request import Request

__all__ = ["NetworkOverride", "Waits", "network", "now", "wall"]


class Waits(Protocol):
    """What a stand-in may ask of the engine that it takes a request from."""

    @property
    def is_closed(self) -> bool:
        """Return whether no more requests are sent."""

    async def sleep(self, seconds: float) -> None:
        """Wait, unless the stand-in skips that."""


class NetworkOverride(Protocol):
    """Take requests away from the engines that reach the network."""

    def engine_for(self, request: Request, engine: Waits) -> Engine | None:
        """Return the engine that takes a request, or None to leave it to the one that has it.

        Args:
            request: complete.
            engine: has it. What another one opens has an attribute `engine`, which reads it.
        """

    def skip(self, seconds: float) -> bool:
        """Return whether a wait of an engine takes no time, after moving the clock by that much."""


class Instrumentation(Protocol):
    """See each attempt of all engines, whatever stands in for the network."""

    def over(self, mocked: NetworkOverride | None) -> NetworkOverride:
        """Return the stand-in that looks at each request and leaves it to another one, if any."""


class Network:
    """What all engines of this process that reach the network have in common.

    Attributes:
        stand_in: takes their requests, or None; what the engines ask.
        mocked: what takes the requests in the end: a mock, or None.
        skipped: seconds that a stand-in let go by in no time.
        counts_sends: how many want to know which attempt of a request each one is.
    """

    stand_in: NetworkOverride | None = None
    mocked: NetworkOverride | None = None
    skipped: float = 0.0
    counts_sends: int = 0
    _watcher: Instrumentation | None = None

    def mock(self, stand_in: NetworkOverride | None) -> None:
        """Put a stand-in in place of the network, None for the network."""
        self.mocked = stand_in
        self._settle()

    def watch(self, watcher: Instrumentation | None) -> None:
        """Have somebody see each attempt, None for nobody."""
        self._watcher = watcher
        self._settle()

    def _settle(self) -> None:
        self.stand_in = self.mocked if self._watcher is None else self._watcher.over(self.mocked)

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
