"""The circuit breaker, which refuses calls to an origin that keeps failing.

circuit.py has the states and what counts as a failure. This module makes a breaker safe to share:
a store that runs one step on a circuit at a time, permits that count at most once, and hooks that
run after a step, without a lock. Pure: it reads no clock and sends nothing.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from curlhttp._features.breaker.circuit import (
    FAILURE_STATUSES,
    BreakerConfig,
    BreakerMetrics,
    Circuit,
    CircuitPermit,
    Outcome,
    OutcomeClassifier,
    StateChange,
    make_origin_classifier,
)
from curlhttp._features.breaker.shared import SharedCircuits
from curlhttp._features.hook_events import State, Transition
from curlhttp._features.shared_store import Store, check_store
from curlhttp._http.errors import check_flags, check_number, validate_statuses
from curlhttp._http.fork import register
from curlhttp._http.suggestions import with_suggestions
from curlhttp._http.url import parse_url
from curlhttp.exceptions import CircuitBreakerOpen

_PROXY = "proxy "


def get_proxy_key(url: str) -> str:
    """Return the key of a proxy's circuit; an origin on the same host and port has another.

    Args:
        url: Proxy.url, "scheme://host:port".
    """
    return _PROXY + url


def get_circuit_key(origin: str) -> str:
    """Return the key for what you pass as an origin: any of its URLs, or the key of a proxy."""
    return origin if origin.startswith(_PROXY) else parse_url(origin).origin


def make_open_error(origin: str, seconds: float) -> CircuitBreakerOpen:
    """Return the error for a refused call.

    Args:
        origin: key of the circuit.
        seconds: for how long the circuit stays open; inf until it is reset.
    """
    until = "until it is reset" if seconds == math.inf else f"for {max(0.0, seconds):.3g} s"
    return CircuitBreakerOpen(
        f"the circuit breaker of {origin} is open {until}; this attempt was not sent",
        retry_after=seconds,
    )


# --- Where the circuits of one process are kept ---

A = TypeVar("A")
T = TypeVar("T")
Step: TypeAlias = Callable[[Circuit, float, A], T]


class MemoryStore:
    """Keep the most recently used circuits of this process.

    Args:
        max_origins: number of circuits to keep. Open and forced circuits are not dropped; if all
            are, calls to further origins are admitted and not counted.
    """

    def __init__(self, max_origins: int = 1000) -> None:
        check_number("max_origins", max_origins, least=1, whole=True)
        self.max_origins = max_origins
        self._lock = threading.Lock()
        self._set(OrderedDict())
        self._serials = itertools.count()
        register(self)

    def change(self, origin: str, now: float, step: Step[A, T], what: A) -> T:
        """Return step(circuit, now, what), and create the circuit if there is none.

        Args:
            origin: "scheme://host:port", or "proxy scheme://host:port" for a proxy.
            now: monotonic seconds.
            step: called with the circuit; only one step runs at a time.
            what: passed to the step.
        """
        with self._lock:
            circuit = self._circuits.get(origin)
            if circuit is not None:
                self._circuits.move_to_end(origin)
                return step(circuit, now, what)
            # New numbers, because a late outcome of a dropped circuit must not count for this one.
            circuit = Circuit(next(self._serials) << 32)
            result = step(circuit, now, what)
            if self._has_room(now) or not circuit.is_evictable(now):
                self._circuits[origin] = circuit
            return result

    def _set(self, circuits: OrderedDict[str, Circuit]) -> None:
        self._circuits = circuits
        # This does not count as use: a circuit that nothing changes can be dropped without harm.
        self.peek = circuits.get

    def origins(self) -> list[str]:
        """Return the keys of all circuits."""
        with self._lock:
            return list(self._circuits)

    def _has_room(self, now: float) -> bool:
        if len(self._circuits) < self.max_origins:
            return True
        for origin, circuit in self._circuits.items():  # the longest unused first
            if circuit.is_evictable(now):
                del self._circuits[origin]
                return True
        return False

    def _after_fork_in_child(self) -> None:
        """Keep only forced circuits in a forked child."""
        self._lock = threading.Lock()
        circuits = self._circuits
        self._set(OrderedDict())
        for origin, circuit in circuits.items():
            if circuit.state in ("forced_open", "forced_closed"):
                self._circuits[origin] = circuit


_DEFAULT_FAILURE_THRESHOLD = 5
# Short at first, because most overloads end as soon as the requests stop; then one probe in 5 s.
_DEFAULT_OPEN_TIME = 1.0, 2.0, 5.0  # seconds, growth, maximum


_Notify: TypeAlias = Callable[[Transition], object]


class Permit:
    """The permission for one call. When the call ends, one of its methods is called once."""

    __slots__ = ("_breaker", "_number", "_origin")

    transition: Transition | None = None  # that admitting the call led to

    def __init__(self, breaker: CircuitBreaker, origin: str, number: int) -> None:
        self._breaker = breaker
        self._origin = origin
        self._number = number

    def ignores_success(self) -> bool:
        """Return whether a success would change nothing, so that it need not be recorded."""
        breaker = self._breaker
        if not breaker._may_skip_success:
            return False
        circuit = breaker._store.peek(self._origin)
        return (
            circuit is not None
            and not circuit.failures
            and circuit.closed_permit.number == self._number
        )

    def succeed(self, now: float, elapsed: float = 0.0) -> Transition | None:
        """Count a success; return the transition that it led to.

        Args:
            now: monotonic seconds.
            elapsed: seconds from the start to the response head.
        """
        is_ignored = self.ignores_success()
        number, self._number = self._number, 0
        if is_ignored:
            return None
        return self._breaker._record(self._origin, now, number, False, elapsed)

    def fail(self, now: float, elapsed: float = 0.0) -> Transition | None:
        """Count a failure; return the transition that it led to."""
        number, self._number = self._number, 0
        return self._breaker._record(self._origin, now, number, True, elapsed)

    def settle(self, outcome: Outcome, now: float, elapsed: float) -> Transition | None:
        """Count an outcome; return the transition that it led to.

        Args:
            outcome: of the call.
            now: see succeed.
            elapsed: see succeed.
        """
        if outcome is Outcome.SUCCESS:
            return self.succeed(now, elapsed)
        if outcome is Outcome.FAILURE:
            return self.fail(now, elapsed)
        self.release()
        return None

    def release(self) -> None:
        """Count nothing, because the call says nothing about the origin. Safe in finalizers."""
        self._number = 0

    def defer_result(
        self, now: float, failed: bool, elapsed: float = 0.0, notify: _Notify | None = None
    ) -> None:
        """Count the outcome before the next call is admitted. Safe in finalizers.

        Args:
            now: see succeed.
            failed: the call counts as a failure.
            elapsed: see succeed.
            notify: called with the transition that it leads to, if any.
        """
        number, self._number = self._number, 0
        self._breaker._deferred.append((self._origin, now, number, failed, elapsed, notify))


class _Probe(Permit):
    """One of the few permits of a half-open circuit."""

    __slots__ = ("transition",)

    def __init__(
        self, breaker: CircuitBreaker, origin: str, number: int, transition: Transition | None
    ) -> None:
        super().__init__(breaker, origin, number)
        self.transition = transition

    def ignores_success(self) -> bool:
        """Return False, because the circuit waits for the outcome of its probes."""
        return False

    def release(self) -> None:
        """Make the permit available to another call."""
        number, self._number = self._number, 0
        if number:
            self._breaker._deferred.append((self._origin, 0.0, number, None, 0.0, None))

    def __del__(self) -> None:
        self.release()  # the call ended without an outcome


@with_suggestions("CircuitBreaker")
class CircuitBreaker:
    """Refuse calls to an origin that keeps failing, and admit a few calls from time to time.

    Clients, threads and event loops can share one breaker. Each origin has its own circuit, and so
    has each proxy, under the name "proxy scheme://host:port". A forked child keeps the settings and
    starts with empty counts.

    Args:
        failure_threshold: number of consecutive failures that opens the circuit; 5 by default,
            unless failure_rate is set.
        recovery_timeout: the seconds for which the circuit stays open; None for 1 s, twice as long
            each time it opens again, and at most 5 s.
        failure_rate: share of failed calls in the window that opens the circuit, above 0 up to 1.
        slow_call_rate: share of slow calls in the window that opens the circuit, above 0 up to 1.
        slow_call_seconds: seconds from which a call is slow, from its start to the response head.
        window: number of calls over which the rates are computed.
        window_seconds: seconds over which the rates are computed instead, in steps of a tenth.
        minimum_calls: number of calls in the window below which no rate opens the circuit; at most
            `window`.
        half_open_permits: number of calls that a half-open circuit admits as probes. The circuit
            opens again if the share of failed probes reaches failure_rate or, without failure_rate,
            if any probe fails.
        half_open_timeout: seconds after which another call may use the permit of a probe.
        growth: what the open time is multiplied by each time the circuit opens again; None for 1,
            or for 2 without recovery_timeout.
        recovery_timeout_max: maximum of the open time, in seconds; None for 600, or for 5 without
            recovery_timeout.
        max_origins: number of circuits to keep, the most recently used ones. Open and forced
            circuits are not dropped; if all are, calls to further origins are admitted and not
            counted.
        on_transition: called with a Transition after each change of state, in the thread that
            caused it. If it raises, the error is logged.
        count_tls: count untrusted certificates as failures.
        count_bodies: for streamed responses, count the end of the body instead of the head. If this
            changes the state, the client calls its hooks with its next request.
        failure_statuses: status codes that count as failures.
        store: a Store through which all processes with the same settings share circuits, or None.
            state(), metrics(), reset() and force_*() wait for it, at most for its timeout.

    Raises:
        ValueError: a setting is out of range.
        TypeError: a setting has the wrong type.
    """

    def __init__(
        self,
        failure_threshold: int | None = None,
        recovery_timeout: float | None = None,
        *,
        failure_rate: float | None = None,
        slow_call_rate: float | None = None,
        slow_call_seconds: float | None = None,
        window: int = 100,
        window_seconds: float | None = None,
        minimum_calls: int = 10,
        half_open_permits: int = 1,
        half_open_timeout: float = 60.0,
        growth: float | None = None,
        recovery_timeout_max: float | None = None,
        max_origins: int = 1000,
        on_transition: Callable[[Transition], object] | None = None,
        count_tls: bool = False,
        count_bodies: bool = False,
        failure_statuses: Iterable[int] = FAILURE_STATUSES,
        store: Store | None = None,
    ) -> None:
        if failure_threshold is None and failure_rate is None:
            failure_threshold = _DEFAULT_FAILURE_THRESHOLD
        first, factor, most = _DEFAULT_OPEN_TIME
        if recovery_timeout is not None:  # what the caller chose does not grow
            first, factor, most = recovery_timeout, 1.0, 600.0
        self._config = BreakerConfig(
            failure_threshold=failure_threshold,
            failure_rate=failure_rate,
            slow_call_rate=slow_call_rate,
            slow_call_seconds=slow_call_seconds,
            window=window,
            window_seconds=window_seconds,
            minimum_calls=minimum_calls,
            recovery_timeout=first,
            recovery_timeout_max=most if recovery_timeout_max is None else recovery_timeout_max,
            growth=factor if growth is None else growth,
            half_open_permits=half_open_permits,
            half_open_timeout=half_open_timeout,
        )
        check_flags(count_tls=count_tls, count_bodies=count_bodies)
        check_store(store)
        if on_transition is not None and not callable(on_transition):
            raise TypeError(f"on_transition must be a function, not {on_transition!r:.100}")
        self._may_skip_success = failure_rate is None and slow_call_rate is None
        self.on_transition = on_transition
        self.count_tls = count_tls
        self.count_bodies = count_bodies
        self.failure_statuses: frozenset[int] = validate_statuses(
            "failure_statuses", failure_statuses
        )
        self._store = MemoryStore(max_origins)
        self._shared: SharedCircuits | None = (
            None if store is None else SharedCircuits(store, self._config)
        )
        self._forced: State | None = None  # for all origins
        # Outcomes from finalizers, which may run while this thread holds the store's lock.
        self._deferred: deque[tuple[str, float, int, bool | None, float, _Notify | None]] = deque()

    # calls

    def _admit(self, origin: str, now: float) -> Permit:
        """Return a permit for a call.

        Args:
            origin: URL.origin, or get_proxy_key() of a proxy.
            now: monotonic seconds.

        Raises:
            CircuitBreakerOpen: the call is refused; its retry_after says for how long.
        """
        if self._deferred:
            self._apply_deferred()
        if self._forced is not None:
            return self._admit_as_forced(origin, self._forced)
        circuit = self._store.peek(origin)
        if circuit is not None and circuit.state == "closed":
            return Permit(self, origin, circuit.closed_permit.number)
        permit = self._store.change(origin, now, self._config.admit, None)
        if permit.refused_for is not None:
            raise make_open_error(origin, permit.refused_for)
        if permit.is_probe:
            return self._probe(origin, permit)
        return Permit(self, origin, permit.number)

    def _probe(self, origin: str, permit: CircuitPermit) -> _Probe:
        probe = _Probe(self, origin, permit.number, None)  # from here on it cannot be lost
        probe.transition = self._notify(origin, permit.change)
        return probe

    def _admit_as_forced(self, origin: str, state: State) -> Permit:
        if state == "forced_open":
            raise make_open_error(origin, math.inf)
        return Permit(self, origin, 0)

    def _record(
        self, origin: str, now: float, number: int, failed: bool, elapsed: float
    ) -> Transition | None:
        if not number:
            return None
        result = (number, failed, elapsed)
        change = self._store.change(origin, now, self._config.record, result)
        return None if change is None else self._notify(origin, change)

    def _apply_deferred(self) -> None:
        """Count the outcomes that finalizers left."""
        while self._deferred:
            try:
                origin, now, number, failed, elapsed, notify = self._deferred.popleft()
            except IndexError:  # another thread was faster
                return
            if failed is None:
                self._store.change(origin, now, self._config.release, number)
                continue
            transition = self._record(origin, now, number, failed, elapsed)
            if transition is not None and notify is not None:
                notify(transition)

    def _notify(self, origin: str, change: StateChange | None) -> Transition | None:
        """Call on_transition for a change of state; return the Transition for other hooks."""
        if change is None:
            return None
        transition = Transition(origin, change.old, change.new)
        if self.on_transition is not None:
            try:
                self.on_transition(transition)
            except Exception:
                import logging

                logging.getLogger("curlhttp").exception("on_transition raised")
        return transition

    def _get_classifier(self, *, via_proxy: bool = False) -> OutcomeClassifier:
        """Return the classifier of results for an origin.

        Args:
            via_proxy: its calls go through a proxy.
        """
        return make_origin_classifier(
            self.failure_statuses, count_tls=self.count_tls, via_proxy=via_proxy
        )

    # called by the user

    def force_open(self, origin: str | None = None) -> None:
        """Refuse all calls to an origin, or to all origins, until reset().

        Args:
            origin: any of its URLs, or "proxy scheme://host:port"; None for all origins, which
                overrides the forced states of single origins.
        """
        self._force(origin, "forced_open")

    def force_close(self, origin: str | None = None) -> None:
        """Admit all calls to an origin, or to all origins, and count nothing until reset().

        Args:
            origin: see force_open.
        """
        self._force(origin, "forced_closed")

    def reset(self, origin: str | None = None) -> None:
        """Close the circuit of an origin, or of all origins, and reset the counts.

        Args:
            origin: see force_open.
        """
        if origin is None:
            self._forced = None
        known = {*self._store.origins(), *(self._shared.copies if self._shared else ())}
        for each in known if origin is None else {get_circuit_key(origin)}:
            self._enter(each, "closed")

    def _force(self, origin: str | None, state: State) -> None:
        if origin is None:
            self._forced = state
        else:
            self._enter(get_circuit_key(origin), state)

    def _enter(self, key: str, state: State) -> None:
        # At -inf, when no open circuit can be dropped to make room.
        change = self._store.change(key, -math.inf, self._config.force, state)
        if self._shared is not None:  # as well, because the store may fail later
            change = self._shared.force(key, state)
        self._notify(key, change)

    @property
    def disabled(self) -> bool:
        """Return whether force_close() has switched the breaker off for all origins."""
        return self._forced == "forced_closed"

    def state(self, origin: str) -> State:
        """Return the state of an origin's circuit.

        After the recovery timeout, it stays "open" until the next call.

        Args:
            origin: any of its URLs, or "proxy scheme://host:port".
        """
        return self.metrics(origin).state

    def _states(self) -> dict[str, str]:
        """Return the state of each circuit by its origin or proxy."""
        return {origin: self.state(origin) for origin in self._store.origins()}

    def metrics(self, origin: str) -> BreakerMetrics:
        """Return what was counted for an origin.

        Args:
            origin: see state.
        """
        self._apply_deferred()
        found = None if self._shared is None else self._shared.metrics(get_circuit_key(origin))
        if found is None:
            circuit = self._store.peek(get_circuit_key(origin))
            found = BreakerMetrics("closed") if circuit is None else BreakerMetrics.of(circuit)
        return found if self._forced is None else found._replace(state=self._forced)

    def __repr__(self) -> str:
        shown = [f"recovery_timeout={self._config.recovery_timeout}"]
        for name in ("failure_rate", "failure_threshold"):
            if getattr(self._config, name) is not None:
                shown.insert(0, f"{name}={getattr(self._config, name)}")
        return f"<CircuitBreaker {' '.join(shown)}>"
