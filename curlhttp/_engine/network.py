"""Replace the network for all engines at once: by a mock in tests, or to trace each attempt.

Engines that move bytes look here for an override, so that it also serves clients that it does not
know: those made before it, and those inside the code under test.
"""

from __future__ import annotations

from time import monotonic, time
from typing import Protocol

from curlhttp._engine.engine import Engine
from curlhttp._models.request import Request


class Waits(Protocol):
    """What an override may use of the engine whose request it takes."""

    @property
    def is_closed(self) -> bool:
        """Return whether no more requests are sent."""

    async def sleep(self, seconds: float) -> None:
        """Wait, unless the override skips that."""


class NetworkOverride(Protocol):
    """Takes requests from the engines that reach the network."""

    def engine_for(self, request: Request, engine: Waits) -> Engine | None:
        """Return the engine that takes a request, or None to leave it to its own engine.

        Args:
            request: complete.
            engine: the request's own. A response that another engine opens needs an attribute
                `engine`, which reads it.
        """

    def skip(self, seconds: float) -> bool:
        """Return whether to skip a wait of an engine, after moving the clock by that much."""


class Instrumentation(Protocol):
    """Sees each attempt of all engines, also with a mock."""

    def over(self, mocked: NetworkOverride | None) -> NetworkOverride:
        """Return an override that sees each request and leaves it to the mock, if there is one."""


class Network:
    """State shared by all engines of this process that reach the network.

    Attributes:
        override: takes their requests, or None; read by the engines.
        mocked: the mock, or None; it is the override, or instrumentation wraps it.
        skipped: seconds of waits that an override skipped.
        counts_sends: number of observers that need the number of each attempt of a request.
    """

    override: NetworkOverride | None = None
    mocked: NetworkOverride | None = None
    skipped: float = 0.0
    counts_sends: int = 0
    _watcher: Instrumentation | None = None

    def mock(self, override: NetworkOverride | None) -> None:
        """Set the mock that replaces the network, None for the network."""
        self.mocked = override
        self._settle()

    def watch(self, watcher: Instrumentation | None) -> None:
        """Set the instrumentation that sees each attempt, None for none."""
        self._watcher = watcher
        self._settle()

    def _settle(self) -> None:
        self.override = self.mocked if self._watcher is None else self._watcher.over(self.mocked)

    def skip(self, seconds: float) -> bool:
        """Return whether an override skips a wait."""
        override = self.override  # read once, because another thread may remove it
        return override is not None and override.skip(seconds)


network = Network()


def now() -> float:
    """Return monotonic seconds: time.monotonic() plus skipped waits."""
    return monotonic() + network.skipped


def wall() -> float:
    """Return the time of day in seconds since the epoch: time.time() plus skipped waits."""
    return time() + network.skipped
