"""The circuit of one origin: its states, its window of outcomes, and its transitions.

    from          on                                                  to
    closed        an outcome that reaches a threshold                 open
    open          a call after the open time                          half_open
    half_open     all outcomes are in, all or enough of them good     closed, counts are reset
                  an outcome that reaches a threshold                 open, longer with `growth`
    any           force_open, force_close, reset                      forced_open, forced_closed,
                                                                      closed

Pure: it reads no clock and takes no lock. MemoryStore runs one step on a circuit at a time. A step
changes only its circuit, so that it can be repeated on a copy.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import NamedTuple, TypeAlias

from curlhttp import exceptions as e
from curlhttp._features.hook_events import State
from curlhttp._http.errors import check_number

# --- Sliding windows over outcomes: the last N calls, or those of the last T seconds ---

_BUCKETS = 10  # of a time window, which drops one at a time
_FAILED, _SLOW = 1, 2


class Window:
    """Count calls, and how many of them failed or were slow.

    Attributes:
        calls: in the window now.
        failures: of these.
        slow: of these, failed or not.
    """

    __slots__ = ("calls", "failures", "slow")

    def __init__(self) -> None:
        self.calls: int = 0
        self.failures: int = 0
        self.slow: int = 0

    def add(self, now: float, failed: bool, slow: bool) -> None:
        """Count a call, and drop those that have left the window."""
        raise NotImplementedError

    @property
    def failure_rate(self) -> float:
        """Return the share of failures, 0 without calls."""
        # A quotient, not rate * calls: 7 / 100 == 0.07, but 0.07 * 100 > 7.
        return self.failures / self.calls if self.calls else 0.0

    @property
    def slow_call_rate(self) -> float:
        """Return the share of slow calls, 0 without calls."""
        return self.slow / self.calls if self.calls else 0.0


class CountWindow(Window):
    """Count the last calls.

    Args:
        size: how many.
    """

    __slots__ = ("_at", "_results", "_size")

    def __init__(self, size: int) -> None:
        super().__init__()
        self._results = bytearray()  # a ring once it is full
        self._size = size
        self._at = 0

    def add(self, now: float, failed: bool, slow: bool) -> None:
        """Count a call, and drop the oldest if there are too many."""
        result = _FAILED * failed | _SLOW * slow
        if self.calls < self._size:
            self._results.append(result)
            self.calls += 1
        else:
            oldest, self._results[self._at] = self._results[self._at], result
            self._at = (self._at + 1) % self._size
            self.failures -= oldest & _FAILED
            self.slow -= (oldest & _SLOW) // _SLOW
        self.failures += failed
        self.slow += slow


class TimeWindow(Window):
    """Count the calls of the last seconds, in buckets.

    Args:
        seconds: how long a call counts, to a tenth of that.
    """

    __slots__ = ("_buckets", "_width")

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._width = seconds / _BUCKETS
        self._buckets: deque[list[int]] = deque()  # [index, calls, failures, slow]

    def add(self, now: float, failed: bool, slow: bool) -> None:
        """Count a call that ended now, and drop old buckets."""
        index = int(now // self._width)
        buckets = self._buckets
        while buckets and buckets[0][0] <= index - _BUCKETS:
            _, calls, failures, slow_calls = buckets.popleft()
            self.calls -= calls
            self.failures -= failures
            self.slow -= slow_calls
        # Threads may read the clock in one order and arrive here in another.
        if not buckets or index > buckets[-1][0]:
            buckets.append([index, 0, 0, 0])
        bucket = buckets[-1]
        bucket[1] += 1
        bucket[2] += failed
        bucket[3] += slow
        self.calls += 1
        self.failures += failed
        self.slow += slow


class StateChange(NamedTuple):
    """Two states, the one before and the one after."""

    old: State
    new: State


CallResult: TypeAlias = tuple[int, bool, float]
"""The number of the permit, whether the call failed, and how long it took, in seconds."""


class CircuitPermit(NamedTuple):
    """Whether a call may be sent.

    Attributes:
        number: identifies the call when its outcome is recorded; a circuit that has changed its
            state since then ignores it.
        refused_for: seconds for which the call is refused, None if it is admitted.
        is_probe: the call uses one of the permits of a half-open circuit.
        change: the change of state that this led to, or None.
    """

    number: int
    refused_for: float | None = None
    is_probe: bool = False
    change: StateChange | None = None


class Circuit:
    """The state and counts of one origin.

    Args:
        first: the number after which this circuit numbers its permits, so that they differ from
            those of the circuit that it replaces.
    """

    __slots__ = (
        "closed_permit",
        "failures",
        "good",
        "half_opens_at",
        "last",
        "open_for",
        "opens",
        "probes",
        "refused",
        "slow",
        "state",
        "window",
    )

    def __init__(self, first: int = 0) -> None:
        self.state: State = "closed"
        self.last: int = first + 1  # number in use
        # For every call while it is closed.
        self.closed_permit: CircuitPermit = CircuitPermit(self.last)
        self.failures: int = 0  # in a row, or of the probes
        self.good: int = 0  # probes that succeeded
        self.slow: int = 0  # probes that were slow
        self.window: Window | None = None
        self.probes: dict[int, float] = {}  # by number: when it was admitted
        self.opens: int = 0  # since it was closed last
        self.open_for: float = 0.0  # seconds
        self.half_opens_at: float = 0.0
        self.refused: int = 0

    def is_evictable(self, now: float) -> bool:
        """Return whether the circuit may make room for that of another origin."""
        if self.state == "open":
            return now >= self.half_opens_at
        return self.state in ("closed", "half_open")


class BreakerMetrics(NamedTuple):
    """What a breaker has counted for one origin.

    Attributes:
        state: "closed", "open", "half_open", "forced_open" or "forced_closed".
        calls: number of calls in the window; 0 if the breaker has no rates, and so no window.
        failures: how many of these calls failed.
        slow_calls: how many of these calls were slow.
        failures_in_a_row: the most recent consecutive failures while closed; the failed probes
            while half-open.
        probes: the calls under way that a half-open circuit has admitted.
        refused: how many calls were refused, in total.
    """

    state: State
    calls: int = 0
    failures: int = 0
    slow_calls: int = 0
    failures_in_a_row: int = 0
    probes: int = 0
    refused: int = 0

    @classmethod
    def of(cls, circuit: Circuit) -> BreakerMetrics:
        """Return what a circuit has counted."""
        window = circuit.window
        return cls(
            state=circuit.state,
            calls=0 if window is None else window.calls,
            failures=0 if window is None else window.failures,
            slow_calls=0 if window is None else window.slow,
            failures_in_a_row=circuit.failures,
            probes=len(circuit.probes),
            refused=circuit.refused,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerConfig:
    """When a circuit opens and closes; CircuitBreaker describes the settings."""

    failure_threshold: int | None
    failure_rate: float | None
    slow_call_rate: float | None
    slow_call_seconds: float | None
    window: int
    window_seconds: float | None
    minimum_calls: int
    recovery_timeout: float
    recovery_timeout_max: float
    growth: float
    half_open_permits: int
    half_open_timeout: float

    has_rates: bool = field(init=False)

    def __post_init__(self) -> None:
        self._check()
        if self.window_seconds is None:
            object.__setattr__(self, "minimum_calls", min(self.minimum_calls, self.window))
        has_rates = self.failure_rate is not None or self.slow_call_rate is not None
        object.__setattr__(self, "has_rates", has_rates)

    def _check(self) -> None:
        for name in ("failure_threshold", "window", "minimum_calls", "half_open_permits"):
            optional = name == "failure_threshold"
            check_number(name, getattr(self, name), least=1, whole=True, optional=optional)
        check_number("growth", self.growth, least=1)
        for name in (
            "recovery_timeout",
            "recovery_timeout_max",
            "half_open_timeout",
            "window_seconds",
            "slow_call_seconds",
        ):
            optional = name in ("window_seconds", "slow_call_seconds")
            check_number(name, getattr(self, name), above=0, unit="seconds", optional=optional)
        for name in ("failure_rate", "slow_call_rate"):
            check_number(name, getattr(self, name), above=0, most=1, optional=True)
        if (self.slow_call_rate is None) != (self.slow_call_seconds is None):
            raise ValueError("pass slow_call_rate and slow_call_seconds together")

    # steps

    def admit(self, circuit: Circuit, now: float, _: None = None) -> CircuitPermit:
        """Admit a call or refuse it."""
        state = circuit.state
        if state == "closed" or state == "forced_closed":
            return circuit.closed_permit
        change = None
        if state == "open" and now >= circuit.half_opens_at:
            change = self._enter(circuit, "half_open")
            state = "half_open"
        if state == "half_open":
            self._free_overdue(circuit, now)
            if len(circuit.probes) + circuit.good + circuit.failures < self.half_open_permits:
                circuit.last += 1
                circuit.probes[circuit.last] = now
                return CircuitPermit(circuit.last, is_probe=True, change=change)
        circuit.refused += 1
        return CircuitPermit(0, self._refused_for(circuit, now))

    def record(self, circuit: Circuit, now: float, result: CallResult) -> StateChange | None:
        """Count the outcome of a call, unless the circuit has changed its state since."""
        number, failed, elapsed = result
        slow = self.slow_call_seconds is not None and elapsed >= self.slow_call_seconds
        if circuit.state == "closed":
            if number == circuit.closed_permit.number:
                return self._record_call(circuit, now, failed, slow)
        elif circuit.state == "half_open" and circuit.probes.pop(number, None) is not None:
            return self._record_probe(circuit, now, failed, slow)
        return None

    def release(self, circuit: Circuit, now: float, number: int) -> None:
        """Release the permit of a probe whose call said nothing about the origin."""
        circuit.probes.pop(number, None)

    def force(self, circuit: Circuit, now: float, state: State) -> StateChange | None:
        """Set the state from outside; outcomes of calls under way no longer count."""
        return self._enter(circuit, state)

    # results

    def _record_call(
        self, circuit: Circuit, now: float, failed: bool, slow: bool
    ) -> StateChange | None:
        circuit.failures = circuit.failures + 1 if failed else 0
        opens = self.failure_threshold is not None and circuit.failures >= self.failure_threshold
        if self.has_rates:
            window = circuit.window
            if window is None:
                window = circuit.window = self._new_window()
            window.add(now, failed, slow)
            if window.failures or window.slow:
                opens = opens or self._breaks_a_rate(window)
        return self._open(circuit, now) if opens else None

    def _new_window(self) -> Window:
        if self.window_seconds is not None:
            return TimeWindow(self.window_seconds)
        return CountWindow(self.window)

    def _breaks_a_rate(self, window: Window) -> bool:
        if window.calls < self.minimum_calls:
            return False
        return _reaches(window.failure_rate, self.failure_rate) or _reaches(
            window.slow_call_rate, self.slow_call_rate
        )

    def _record_probe(
        self, circuit: Circuit, now: float, failed: bool, slow: bool
    ) -> StateChange | None:
        circuit.failures += failed
        circuit.good += not failed
        circuit.slow += slow
        permits = self.half_open_permits
        # Shares of all permits, not of the outcomes so far: further outcomes cannot lower them.
        if _reaches(circuit.slow / permits, self.slow_call_rate):
            return self._open(circuit, now)
        if circuit.failures and self.failure_rate is None:
            return self._open(circuit, now)
        if _reaches(circuit.failures / permits, self.failure_rate):
            return self._open(circuit, now)
        if circuit.good + circuit.failures >= permits:
            return self._enter(circuit, "closed")
        return None

    # states

    def _open(self, circuit: Circuit, now: float) -> StateChange:
        if circuit.opens:
            longest = max(self.recovery_timeout, self.recovery_timeout_max)
            circuit.open_for = min(longest, circuit.open_for * self.growth)
        else:
            circuit.open_for = self.recovery_timeout
        circuit.opens += 1
        circuit.half_opens_at = now + circuit.open_for
        change = self._enter(circuit, "open")
        assert change is not None
        return change

    def _enter(self, circuit: Circuit, state: State) -> StateChange | None:
        """Change the state, and reset what was counted."""
        old, circuit.state = circuit.state, state
        circuit.failures = circuit.good = circuit.slow = 0
        circuit.window = None
        circuit.probes = {}
        if state not in ("open", "half_open"):
            circuit.opens = 0
        circuit.last += 1
        circuit.closed_permit = CircuitPermit(circuit.last)
        return None if old == state else StateChange(old, state)

    def _free_overdue(self, circuit: Circuit, now: float) -> None:
        oldest = now - self.half_open_timeout
        for number in [n for n, begun in circuit.probes.items() if begun <= oldest]:
            del circuit.probes[number]

    def _refused_for(self, circuit: Circuit, now: float) -> float:
        if circuit.state == "open":
            return circuit.half_opens_at - now
        if circuit.state == "forced_open":
            return math.inf
        # Half open: the outcome of a probe may come at any time, and its permit expires then.
        ends = min(circuit.probes.values(), default=now) + self.half_open_timeout
        return min(ends - now, self.recovery_timeout)


def _reaches(rate: float, limit: float | None) -> bool:
    return limit is not None and rate >= limit


# --- Classify outcomes: does a response or an exception count as a failure? ---
#
# failure   500, 502, 503, 504; connection failed or cut off, timeout, invalid HTTP, TLS handshake
# success   all other statuses except 429, which only asks for fewer requests
# ignored   what says nothing about the server: our deadline, a full pool, cancellation, settings,
#           decoding, size limits, the caller's own exceptions, an open breaker
# proxy     the proxy cannot be reached or is broken: a failure of the proxy alone. Its response to
#           CONNECT counts for the origin (502, 503, 504) or is ignored (403, 407)

FAILURE_STATUSES = frozenset({500, 502, 503, 504})
_TOO_MANY_REQUESTS = 429

_UNREACHED = frozenset({502, 503, 504})  # a proxy's response to CONNECT if the origin is down


class Outcome(Enum):
    """What one call says about a server."""

    SUCCESS = "success"
    FAILURE = "failure"
    IGNORED = "ignored"
    PROXY_FAILURE = "proxy failure"


_SUCCESS, _IGNORED = Outcome.SUCCESS, Outcome.IGNORED  # because attributes of an Enum are slow


def classify_status(status: int, failures: Container[int] = FAILURE_STATUSES) -> Outcome:
    """Return what a response says about its origin.

    Args:
        status: the status code.
        failures: the status codes that are failures.
    """
    if status in failures:
        return Outcome.FAILURE
    return _IGNORED if status == _TOO_MANY_REQUESTS else _SUCCESS


def classify_error(
    error: BaseException, *, count_tls: bool = False, via_proxy: bool = False
) -> Outcome:
    """Return what an exception says about the origin, or about the proxy.

    Args:
        error: any exception that an attempt raised.
        count_tls: count untrusted certificates as failures.
        via_proxy: the attempt went through a proxy.
    """
    if isinstance(error, e.ProxyError):
        return _classify_connect(error.connect_status)
    if isinstance(error, e.ConnectTimeout) and via_proxy and not _connected(error):
        return Outcome.PROXY_FAILURE
    return Outcome.FAILURE if _is_failure(error, count_tls) else Outcome.IGNORED


def classify_proxy(result: object) -> Outcome:
    """Return what the result of an attempt says about the proxy.

    Args:
        result: the response or the exception.
    """
    if not isinstance(result, BaseException):
        return Outcome.SUCCESS
    if classify_error(result, via_proxy=True) is Outcome.PROXY_FAILURE:
        return Outcome.FAILURE
    return Outcome.IGNORED  # the cause may be behind the proxy


class OutcomeClassifier(NamedTuple):
    """Classify the results of attempts for the origin or for the proxy.

    Attributes:
        notable: the status codes that are not a success.
        classify_status: returns what a response says.
        classify_error: returns what an exception says.
    """

    notable: Container[int]
    classify_status: Callable[[int], Outcome]
    classify_error: Callable[[BaseException], Outcome]


def make_origin_classifier(
    failures: frozenset[int] = FAILURE_STATUSES, *, count_tls: bool = False, via_proxy: bool = False
) -> OutcomeClassifier:
    """Return what classifies results for the origin.

    Args:
        failures: the status codes that are failures.
        count_tls: see classify_error.
        via_proxy: see classify_error.
    """
    return OutcomeClassifier(
        failures | {_TOO_MANY_REQUESTS},
        partial(classify_status, failures=failures),
        partial(classify_error, count_tls=count_tls, via_proxy=via_proxy),
    )


# A response says that the proxy has forwarded it, whatever its status is.
PROXY_CLASSIFIER = OutcomeClassifier(frozenset(), lambda status: _SUCCESS, classify_proxy)


def _classify_connect(status: int | None) -> Outcome:
    if status is None:
        return Outcome.PROXY_FAILURE
    # The proxy works, but one origin behind it does not, which must not block all others.
    return Outcome.FAILURE if status in _UNREACHED else Outcome.IGNORED


def _is_failure(error: BaseException, count_tls: bool) -> bool:
    if isinstance(error, e.SSLError):
        what = error.tls_failure
        return what == "handshake" or (count_tls and what == "untrusted")
    if isinstance(error, (e.BlockedAddress, e.CircuitBreakerOpen)):
        return False
    if isinstance(error, e.ConnectionError):  # with RemoteProtocolError and ConnectTimeout
        return not error.is_local
    return isinstance(error, (e.ReadTimeout, e.WriteTimeout, e.ChunkedEncodingError))


def _connected(error: e.RequestException) -> bool:
    """Return whether there was a TCP connection, in this case to the proxy."""
    return error.timings is not None and error.timings.connect > 0
