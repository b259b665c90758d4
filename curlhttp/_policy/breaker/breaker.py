"""The circuit breaker: who may call an origin that fails. It reads no clock and sends nothing.

What leads from state to state is in circuit.py, what counts as a failure in health.py. Here is
what makes it safe to share: a store that lets one step at a circuit at a time, permits that
count once at most, and hooks that run when the step is over.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias, TypeVar

from curlhttp._models.fork import register
from curlhttp._models.url import parse_url
from curlhttp._policy.breaker.circuit import (
    FAILURE_STATUSES,
    BreakerConfig,
    BreakerMetrics,
    Circuit,
    CircuitPermit,
    OriginClassifier,
    Outcome,
    State,
    StateChange,
)
from curlhttp._policy.breaker.shared import SharedCircuits
from curlhttp._policy.store import Store
from curlhttp.exceptions import CircuitBreakerOpen

__all__ = [
    "BreakerMetrics",
    "CircuitBreaker",
    "MemoryStore",
    "Permit",
    "Transition",
    "proxy_key",
    "refusal",
]


# --- What circuits are called, and what a call hears that one refuses ---

_PROXY = "proxy "


def proxy_key(url: str) -> str:
    """Return the key of a proxy, whose circuit is not that of a site on the same host and port.

    Args:
        url: Proxy.url, "scheme://host:port".
    """
    return _PROXY + url


def key_of(origin: str) -> str:
    """Return the key for what a user calls an origin: any URL of it, or the key of a proxy."""
    return origin if origin.startswith(_PROXY) else parse_url(origin).origin


def refusal(origin: str, seconds: float) -> CircuitBreakerOpen:
    """Return the error for a call that a circuit refuses.

    Args:
        origin: key of the circuit.
        seconds: for how long; inf until it is reset.
    """
    until = "until it is reset" if seconds == math.inf else f"for {max(0.0, seconds):.3g} s"
    return CircuitBreakerOpen(
        f"the circuit breaker of {origin} is open {until}; nothing was sent", retry_after=seconds
    )


# --- Where the circuits of one process are kept ---

A = TypeVar("A")
T = TypeVar("T")
Step: TypeAlias = Callable[[Circuit, float, A], T]


class MemoryStore:
    """Keep circuits in this process, those used last.

    Args:
        max_origins: circuits to keep. One that is open, or was forced, stays; where all stay,
            calls of further origins are let through and not counted.
    """

    def __init__(self, max_origins: int = 1000) -> None:
        if max_origins < 1:
            raise ValueError(f"max_origins must be at least 1, not {max_origins!r}")
        self.max_origins = max_origins
        self._lock = threading.Lock()
        self._set(OrderedDict())
        self._serials = itertools.count()
        register(self)

    def change(self, origin: str, now: float, step: Step[A, T], what: A) -> T:
        """Return step(circuit, now, what); a circuit that is not there yet is made for it.

        Args:
            origin: "scheme://host:port", or "proxy scheme://host:port" of a proxy.
            now: monotonic seconds.
            step: to be called with the circuit of the origin, one at a time for each.
            what: passed on to the step.
        """
        with self._lock:
            circuit = self._circuits.get(origin)
            if circuit is not None:
                self._circuits.move_to_end(origin)
                return step(circuit, now, what)
            # Numbers of its own: a late result for the one that was here before must not fit.
            circuit = Circuit(next(self._serials) << 32)
            result = step(circuit, now, what)
            if self._has_room(now) or not circuit.may_go(now):
                self._circuits[origin] = circuit
            return result

    def _set(self, circuits: OrderedDict[str, Circuit]) -> None:
        self._circuits = circuits
        # Not every look counts as use: a circuit that nothing changes is no loss.
        self.peek = circuits.get

    def origins(self) -> list[str]:
        """Return the origins that have circuits."""
        with self._lock:
            return list(self._circuits)

    def _has_room(self, now: float) -> bool:
        if len(self._circuits) < self.max_origins:
            return True
        for origin, circuit in self._circuits.items():  # the longest unused first
            if circuit.may_go(now):
                del self._circuits[origin]
                return True
        return False

    def after_fork_in_child(self) -> None:
        """Start afresh in a forked child, but for what was forced."""
        self._lock = threading.Lock()
        circuits = self._circuits
        self._set(OrderedDict())
        for origin, circuit in circuits.items():
            if circuit.state in ("forced_open", "forced_closed"):
                self._circuits[origin] = circuit


_DEFAULT_FAILURE_THRESHOLD = 5


class Transition(NamedTuple):
    """A change of state, for hooks.

    Attributes:
        origin: "scheme://host:port", or "proxy scheme://host:port" of a proxy.
        old: the state before.
        new: the state after.
    """

    origin: str
    old: State
    new: State


_Tell: TypeAlias = Callable[[Transition], object]


class Permit:
    """Let one call through; one of its methods is called when that is over, once."""

    __slots__ = ("_breaker", "_number", "_origin")

    transition: Transition | None = None  # what asking for it led to

    def __init__(self, breaker: CircuitBreaker, origin: str, number: int) -> None:
        self._breaker = breaker
        self._origin = origin
        self._number = number

    def changes_nothing(self) -> bool:
        """Return whether a success would: then it need not be told, and the permit is done with."""
        breaker = self._breaker
        if not breaker._successes_may_be_no_news:
            return False
        circuit = breaker._store.peek(self._origin)
        return (
            circuit is not None and not circuit.failures and circuit.standing.number == self._number
        )

    def succeed(self, now: float, elapsed: float = 0.0) -> Transition | None:
        """Count a success; return the change of state that it led to.

        Args:
            now: the time, of the clock that admit was given.
            elapsed: seconds from the start to the head of the response.
        """
        is_no_news = self.changes_nothing()
        number, self._number = self._number, 0
        if is_no_news:
            return None
        return self._breaker._record(self._origin, now, number, False, elapsed)

    def fail(self, now: float, elapsed: float = 0.0) -> Transition | None:
        """Count a failure; return the change of state that it led to."""
        number, self._number = self._number, 0
        return self._breaker._record(self._origin, now, number, True, elapsed)

    def settle(self, verdict: Outcome, now: float, elapsed: float) -> Transition | None:
        """Count what a verdict says; return the change of state that it led to.

        Args:
            verdict: on the health of whatever the permit is for.
            now: see succeed.
            elapsed: see succeed.
        """
        if verdict is Outcome.SUCCESS:
            return self.succeed(now, elapsed)
        if verdict is Outcome.FAILURE:
            return self.fail(now, elapsed)
        self.release()
        return None

    def release(self) -> None:
        """Count nothing: the call told nothing of the origin. Safe in finalizers."""
        self._number = 0

    def finish_later(
        self, now: float, failed: bool, elapsed: float = 0.0, tell: _Tell | None = None
    ) -> None:
        """Count the result before the next call is admitted. Safe in finalizers.

        Args:
            now: see succeed.
            failed: it counts as a failure.
            elapsed: see succeed.
            tell: called with the change of state that it led to, if it led to one.
        """
        number, self._number = self._number, 0
        self._breaker._late.append((self._origin, now, number, failed, elapsed, tell))


class _Probe(Permit):
    """A permit that takes one of the few places of a half-open circuit."""

    __slots__ = ("transition",)

    def __init__(
        self, breaker: CircuitBreaker, origin: str, number: int, transition: Transition | None
    ) -> None:
        super().__init__(breaker, origin, number)
        self.transition = transition

    def changes_nothing(self) -> bool:
        """Note that it does not: the circuit waits to hear of it."""
        return False

    def release(self) -> None:
        """Give the place back."""
        number, self._number = self._number, 0
        if number:
            self._breaker._late.append((self._origin, 0.0, number, None, 0.0, None))

    def __del__(self) -> None:
        self.release()  # the call that had it ended without a result


class CircuitBreaker:
    """Refuse calls to an origin that fails, and let a few through from time to time.

    One may be shared by clients, threads and event loops. Each origin has a circuit of its own,
    and so has each proxy, as "proxy scheme://host:port". A forked child starts with its
    settings and with nothing counted.

    Args:
        failure_threshold: failures in a row that open; 5 unless failure_rate is set.
        recovery_timeout: seconds that it stays open.
        failure_rate: share of failed calls in the window that opens, above 0 up to 1.
        slow_call_rate: share of slow calls in the window that opens, failed or not.
        slow_call_seconds: from here on a call is slow, counted to the head of the response.
        window: calls that the rates are counted over.
        window_seconds: seconds that they are counted over, in tenths; instead of calls.
        minimum_calls: calls in the window below which no rate opens; at most the window.
        half_open_permits: calls that a half-open circuit lets through to see whether all is
            well. With failure_rate, that share of them opens again, else any failure does.
        half_open_timeout: seconds after which such a call has lost its place to another.
        growth: what the open time is multiplied by each time that it opens again.
        recovery_timeout_max: seconds beyond which it does not grow.
        max_origins: circuits that are kept, those used last. One that is open or was forced
            stays; where all stay, calls to further origins are let through and not counted.
        on_transition: called with a Transition after each change of state, in the thread that
            led to it. What it raises is logged.
        count_tls: certificates that are not trusted count as failures.
        count_bodies: of a streamed response count the end of the body instead of the head; a
            hook of a client hears of what that led to with its next request.
        failure_statuses: status codes that are failures.
        store: what all processes of the same settings share their circuits by, or None. State,
            metrics and what is forced wait for it, no longer than its timeout.

    Raises:
        ValueError: a setting is out of its range.
    """

    def __init__(
        self,
        failure_threshold: int | None = None,
        recovery_timeout: float = 30.0,
        *,
        failure_rate: float | None = None,
        slow_call_rate: float | None = None,
        slow_call_seconds: float | None = None,
        window: int = 100,
        window_seconds: float | None = None,
        minimum_calls: int = 10,
        half_open_permits: int = 1,
        half_open_timeout: float = 60.0,
        growth: float = 1.0,
        recovery_timeout_max: float = 600.0,
        max_origins: int = 1000,
        on_transition: Callable[[Transition], object] | None = None,
        count_tls: bool = False,
        count_bodies: bool = False,
        failure_statuses: Iterable[int] = FAILURE_STATUSES,
        store: Store | None = None,
    ) -> None:
        if failure_threshold is None and failure_rate is None:
            failure_threshold = _DEFAULT_FAILURE_THRESHOLD
        self._rules = BreakerConfig(
            failure_threshold=failure_threshold,
            failure_rate=failure_rate,
            slow_call_rate=slow_call_rate,
            slow_call_seconds=slow_call_seconds,
            window=window,
            window_seconds=window_seconds,
            minimum_calls=min(minimum_calls, window) if window_seconds is None else minimum_calls,
            recovery_timeout=recovery_timeout,
            recovery_timeout_max=recovery_timeout_max,
            growth=growth,
            half_open_permits=half_open_permits,
            half_open_timeout=half_open_timeout,
        )
        self._successes_may_be_no_news = failure_rate is None and slow_call_rate is None
        self.on_transition = on_transition
        self.count_tls = count_tls
        self.count_bodies = count_bodies
        self.failure_statuses: frozenset[int] = frozenset(failure_statuses)
        self._store = MemoryStore(max_origins)
        self.shared: SharedCircuits | None = (
            None if store is None else SharedCircuits(store, self._rules)
        )
        self.forced: State | None = None  # for all origins
        # Results from finalizers, which may run while this thread has the store's lock.
        self._late: deque[tuple[str, float, int, bool | None, float, _Tell | None]] = deque()

    # calls

    def admit(self, origin: str, now: float) -> Permit:
        """Return a permit for a call.

        Args:
            origin: URL.origin, or proxy_key() of a proxy.
            now: the time in seconds, of a clock that only goes forward.

        Raises:
            CircuitBreakerOpen: not now; its retry_after says when.
        """
        if self._late:
            self._catch_up()
        if self.forced is not None:
            return self._admit_as_forced(origin, self.forced)
        circuit = self._store.peek(origin)
        if circuit is not None and circuit.state == "closed":
            return Permit(self, origin, circuit.standing.number)
        passage = self._store.change(origin, now, self._rules.admit, None)
        if passage.refused_for is not None:
            raise refusal(origin, passage.refused_for)
        if passage.is_probe:
            return self._probe(origin, passage)
        return Permit(self, origin, passage.number)

    def _probe(self, origin: str, passage: CircuitPermit) -> _Probe:
        probe = _Probe(self, origin, passage.number, None)  # from here on it cannot be lost
        probe.transition = self.tell(origin, passage.change)
        return probe

    def _admit_as_forced(self, origin: str, state: State) -> Permit:
        if state == "forced_open":
            raise refusal(origin, math.inf)
        return Permit(self, origin, 0)

    def _record(
        self, origin: str, now: float, number: int, failed: bool, elapsed: float
    ) -> Transition | None:
        if not number:
            return None
        result = (number, failed, elapsed)
        change = self._store.change(origin, now, self._rules.record, result)
        return None if change is None else self.tell(origin, change)

    def _catch_up(self) -> None:
        """Count the results that finalizers left."""
        while self._late:
            try:
                origin, now, number, failed, elapsed, tell = self._late.popleft()
            except IndexError:  # another thread was faster
                return
            if failed is None:
                self._store.change(origin, now, self._rules.release, number)
                continue
            transition = self._record(origin, now, number, failed, elapsed)
            if transition is not None and tell is not None:
                tell(transition)

    def tell(self, origin: str, change: StateChange | None) -> Transition | None:
        """Tell on_transition of a change of state, and return it for other hooks."""
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

    def judge(self, *, via_proxy: bool = False) -> OriginClassifier:
        """Return what judges an origin by the responses and errors of its calls.

        Args:
            via_proxy: there is a proxy in between.
        """
        return OriginClassifier(
            self.failure_statuses, count_tls=self.count_tls, via_proxy=via_proxy
        )

    # from outside

    def force_open(self, origin: str | None = None) -> None:
        """Refuse all calls to an origin, or to every one, until reset().

        Args:
            origin: any URL of it, or "proxy scheme://host:port"; None for all origins, over
                what is forced for some.
        """
        self._force(origin, "forced_open")

    def force_close(self, origin: str | None = None) -> None:
        """Let all calls to an origin through and count nothing, or switch the breaker off.

        Args:
            origin: see force_open.
        """
        self._force(origin, "forced_closed")

    def reset(self, origin: str | None = None) -> None:
        """Close an origin's circuit, with nothing counted; without an origin, all of them.

        Args:
            origin: see force_open.
        """
        if origin is None:
            self.forced = None
        known = {*self._store.origins(), *(self.shared.copies if self.shared else ())}
        for each in known if origin is None else {key_of(origin)}:
            self._enter(each, "closed")

    def _force(self, origin: str | None, state: State) -> None:
        if origin is None:
            self.forced = state
        else:
            self._enter(key_of(origin), state)

    def _enter(self, key: str, state: State) -> None:
        # Without a clock: no circuit that is open may make room.
        change = self._store.change(key, -math.inf, self._rules.force, state)
        if self.shared is not None:  # the own one, too, for when the store is gone
            change = self.shared.force(key, state)
        self.tell(key, change)

    @property
    def disabled(self) -> bool:
        """Return whether force_close() has switched it off for all origins."""
        return self.forced == "forced_closed"

    def state(self, origin: str) -> State:
        """Return the state of an origin's circuit.

        It stays "open" after the open time, until a call asks to get through.

        Args:
            origin: any URL of it, or "proxy scheme://host:port".
        """
        return self.metrics(origin).state

    def metrics(self, origin: str) -> BreakerMetrics:
        """Return what was counted of an origin.

        Args:
            origin: see state.
        """
        self._catch_up()
        found = None if self.shared is None else self.shared.metrics(key_of(origin))
        if found is None:
            circuit = self._store.peek(key_of(origin))
            found = BreakerMetrics("closed") if circuit is None else BreakerMetrics.of(circuit)
        return found if self.forced is None else found._replace(state=self.forced)

    def __repr__(self) -> str:
        shown = [f"recovery_timeout={self._rules.recovery_timeout}"]
        for name in ("failure_rate", "failure_threshold"):
            if getattr(self._rules, name) is not None:
                shown.insert(0, f"{name}={getattr(self._rules, name)}")
        return f"<CircuitBreaker {' '.join(shown)}>"
