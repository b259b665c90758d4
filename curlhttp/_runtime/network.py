"""Replace the network for all engines at once: by a mock in tests, or to trace each attempt.

Engines that move bytes look up the override here, so it also serves clients that you cannot pass
it to: clients made earlier, and clients inside the code under test.
"""

from __future__ import annotations

from time import monotonic, time
from typing import TYPE_CHECKING, Protocol

from curlhttp._http.request import ClientRequest
from curlhttp._runtime.engine import Engine, Runtime
from curlhttp._runtime.race import Race

if TYPE_CHECKING:
    from collections.abc import Callable

    from curlhttp._http.response import Response
    from curlhttp._runtime.outcomes import Outcomes, RefusalObserver
    from curlhttp.exceptions import RequestException


class OverriddenEngine(Protocol):
    """What an override may use of the engine whose requests it takes."""

    @property
    def is_closed(self) -> bool:
        """Return whether no more requests are sent."""

    @property
    def runtime(self) -> Runtime:
        """Return the time, and waits that the override may skip."""


class NetworkOverride(Protocol):
    """Take requests from the engines that reach the network."""

    def engine_for(self, request: ClientRequest, engine: OverriddenEngine) -> Engine | None:
        """Return the engine that takes a request, or None to send it as usual.

        Args:
            request: complete.
            engine: the engine that would send it.
        """

    def skip(self, seconds: float) -> bool:
        """Return whether to skip a wait of an engine; if so, the clock was moved forward."""

    def make_race(self) -> Race | None:
        """Return a race on the clock of the mock, None if it has none."""


class Instrumentation(Protocol):
    """Observe each attempt of all engines, also with a mock."""

    def wrap(self, mocked: NetworkOverride | None) -> NetworkOverride:
        """Return an override that observes each request, and passes it to the mock if any."""


class Network:
    """State shared by all engines of this process that reach the network.

    Attributes:
        override: takes their requests, or None; the engines read it.
        mocked: the mock, or None. It is the override, unless instrumentation wraps it.
        skipped: seconds of waits that an override skipped.
        counts_sends: the observers that need the number of each attempt of a request. A set,
            because threads that add to a number at the same time can lose a change.
        fallback_observers: called with a request and its failure, which a fallback replaced.
        refusal_observers: called with a request and an error, if an attempt was not made: a breaker
            refused it, or a limit did not admit it in time.
    """

    fallback_observers: tuple[Callable[[ClientRequest, Response | Exception], None], ...] = ()
    refusal_observers: tuple[RefusalObserver, ...] = ()
    _instrumentation: Instrumentation | None = None

    def __init__(self) -> None:
        # Not on the class, where Python finds them more slowly.
        self.override: NetworkOverride | None = None
        self.mocked: NetworkOverride | None = None
        self.skipped: float = 0.0
        self.counts_sends: set[object] = set()

    def mock(self, override: NetworkOverride | None) -> None:
        """Set the mock that replaces the network; None removes it."""
        self.mocked = override
        self._update_override()

    def instrument(self, instrumentation: Instrumentation | None) -> None:
        """Set the instrumentation that observes each attempt; None removes it."""
        self._instrumentation = instrumentation
        self._update_override()

    def _update_override(self) -> None:
        self.override = self.mocked
        if self._instrumentation is not None:
            self.override = self._instrumentation.wrap(self.mocked)

    def skip(self, seconds: float) -> bool:
        """Return whether the override skips a wait."""
        override = self.override  # read once, because another thread may remove it
        return override is not None and override.skip(seconds)

    def make_race(self) -> Race | None:
        """Return a race on the clock of a mock, None if time is real."""
        override = self.override
        return None if override is None else override.make_race()


network = Network()


def report_refusal(outcomes: Outcomes, request: ClientRequest, error: RequestException) -> None:
    """Tell the observers of this client, or of all clients, about an attempt that was not made.

    Args:
        outcomes: of the client.
        request: that was not sent.
        error: says why.
    """
    for observe in outcomes.observers or network.refusal_observers:
        observe(request, error)


def now() -> float:
    """Return monotonic seconds: time.monotonic() plus skipped waits."""
    return monotonic() + network.skipped


def wall() -> float:
    """Return the time of day in seconds since the epoch: time.time() plus skipped waits."""
    return time() + network.skipped
