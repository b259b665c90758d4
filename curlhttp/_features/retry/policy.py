"""Decide whether a failed attempt is retried, and after which delay.

`RetryPolicy._get_give_up_reason` looks at the failure: if the server cannot have processed the
request, any method is retried, otherwise only methods that are idempotent. layer.py calls it only
for errors and for responses with one of the policy's statuses. It also checks the attempts and the
time that are left, the delay and the budget. There is no clock and no I/O here: time and random
numbers are arguments. Only `RetryBudget`, which limits retries to a share of an origin's requests,
has state.
"""

from __future__ import annotations

import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from copy import copy
from dataclasses import KW_ONLY, dataclass, field
from random import Random, uniform
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast

from curlhttp._features.http_date import parse_http_date
from curlhttp._features.shared_store import Answer, Store, StoreCommand, check_store, micros
from curlhttp._http.errors import check_flags, check_number, check_object, validate_statuses
from curlhttp._http.fork import register
from curlhttp._http.headers import Headers
from curlhttp._http.request import IDEMPOTENT, ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.suggestions import with_suggestions
from curlhttp._http.timings import Attempt
from curlhttp.exceptions import (
    BlockedAddress,
    ChunkedEncodingError,
    CircuitBreakerOpen,
    ConnectionError,
    ProxyError,
    ReadTimeout,
    RequestException,
    SSLError,
    WriteTimeout,
)

if TYPE_CHECKING:
    from curlhttp._http.inputs import RetryInput

# --- Backoff: how long to wait before the next attempt ---
#
# Each request has an endless iterator of delays, each from 0 to max_backoff.

Uniform: TypeAlias = Callable[[float, float], float]
"""A random source: returns a number between its arguments, like random.uniform."""


class Backoff(Protocol):
    """Interface of RetryPolicy's backoff_strategy; you can write one yourself."""

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Yield the seconds to wait before the second attempt, the third, and so on, without end.

        Args:
            uniform: the random source.
        """


@with_suggestions("ExponentialBackoff")
@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Wait longer each time, by a fixed factor and without jitter.

    Clients that fail at the same time also retry at the same time. Use a strategy with jitter, such
    as FullJitterBackoff, to spread the retries.

    Args:
        base: the first delay, in seconds.
        factor: what each delay is multiplied by to get the next.
        max_backoff: the longest delay, in seconds.

    Raises:
        ValueError: a time is negative or not finite, or the factor is below one.
        TypeError: one of them is not a number.
    """

    base: float = 0.1
    factor: float = 2.0
    max_backoff: float = 10.0

    def __post_init__(self) -> None:
        check_number("base", self.base, unit="seconds")
        check_number("factor", self.factor, least=1)
        check_number("max_backoff", self.max_backoff, unit="seconds")

    def _ceilings(self) -> Iterator[float]:
        # Step by step, because factor ** 10_000 overflows a float.
        ceiling = min(self.base, self.max_backoff)
        while True:
            yield ceiling
            ceiling = min(ceiling * self.factor, self.max_backoff)

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Yield base, base * factor, base * factor ** 2, ... up to max_backoff."""
        return self._ceilings()


@with_suggestions("FullJitterBackoff")
@dataclass(frozen=True, slots=True)
class FullJitterBackoff(ExponentialBackoff):
    """Wait a random time from 0 to the exponential delay, which loads the server least.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Yield numbers between 0 and the exponential delay."""
        return (uniform(0.0, ceiling) for ceiling in self._ceilings())


@with_suggestions("EqualJitterBackoff")
@dataclass(frozen=True, slots=True)
class EqualJitterBackoff(ExponentialBackoff):
    """Wait half of the exponential delay, plus a random time of up to the other half.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Yield numbers between half the exponential delay and all of it."""
        for ceiling in self._ceilings():
            half = ceiling / 2
            yield half + uniform(0.0, half)


@with_suggestions("DecorrelatedJitterBackoff")
@dataclass(frozen=True, slots=True)
class DecorrelatedJitterBackoff:
    """Wait a random time between `base` and three times the last delay.

    Args:
        base: the shortest delay, in seconds.
        max_backoff: the longest delay, in seconds.

    Raises:
        ValueError: a time is negative or not finite.
        TypeError: one of them is not a number.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    base: float = 0.1
    max_backoff: float = 10.0

    def __post_init__(self) -> None:
        check_number("base", self.base, unit="seconds")
        check_number("max_backoff", self.max_backoff, unit="seconds")

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Yield numbers between base and three times the one before, up to max_backoff."""
        last = self.base
        while True:
            last = min(self.max_backoff, uniform(self.base, last * 3))
            yield last


# --- Budget: retries as a share of an origin's requests ---
#
# Without it, a server that fails completely would get each request as many times as the policy
# allows, exactly when it has no capacity for them.

_SLICES = 10  # per window, which moves in steps of a slice
_ROUNDING = 1e-9  # five deposits of 0.2 are a little less than 1


@with_suggestions("RetryBudget")
class RetryBudget:
    """Allow retries in proportion to requests, separately for each origin. Thread-safe.

    Each first attempt deposits `ratio`, each retry withdraws 1. Deposits and withdrawals expire
    after `window` seconds. Share one budget between clients to limit their retries together.

    Args:
        ratio: retries per request.
        reserve: retries per second that are always allowed, for clients that send few requests.
            The retries of a whole window may be sent at once.
        window: seconds for which a deposit counts.
        max_origins: the number of origins to keep. The least recently used one is dropped first, to
            within a tenth of the window.
        store: a Store through which all processes with the same settings share the budget, or None
            for this process alone. The store receives deposits with the next retry, or up to a
            tenth of the window later.

    Raises:
        ValueError: a number is negative or not finite, the window is 0, or max_origins is below 1.
        TypeError: an argument has the wrong type.

    Source: Finagle's RetryBudget.
    """

    def __init__(
        self,
        ratio: float = 0.2,
        *,
        reserve: float = 10.0,
        window: float = 10.0,
        max_origins: int = 1000,
        store: Store | None = None,
    ) -> None:
        check_number("ratio", ratio)
        check_number("reserve", reserve)
        check_number("window", window, above=0, unit="seconds")
        check_number("max_origins", max_origins, least=1, whole=True)
        check_store(store)
        self.ratio = ratio
        self.reserve = reserve
        self.window = window
        self.max_origins = max_origins
        self.store = store
        self._clear()
        register(self)

    def _after_fork_in_child(self) -> None:
        """Start empty, because a thread of the parent may have held the lock."""
        self._clear()

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        # Deposits that are not in the store yet, and since when.
        self._pending: dict[str, tuple[int, float]] = {}

    def _deposit(self, origin: str, now: float) -> None:
        """Count a first attempt.

        Args:
            origin: of the request.
            now: monotonic seconds.
        """
        account = self._accounts.get(origin)
        if account is None or now >= account.until:
            with self._lock:
                account = self._account(origin)
                account.move_to(now)
        # Without the lock, because every request passes here. A race between threads may lose a
        # deposit, which means one retry less, never one more.
        account.deposits += 1
        if self.store is not None:
            self._deposit_later(self.store, origin, now)

    def _withdraw(self, origin: str, now: float) -> bool:
        """Withdraw the cost of one retry; return whether there was enough.

        Args:
            origin: of the request.
            now: monotonic seconds.
        """
        with self._lock:
            account = self._account(origin)
            if account.sum(now) + self.reserve * self.window < 1 - _ROUNDING:
                return False
            account.add(-1.0, now)
            return True

    def _refund(self, origin: str, now: float) -> None:
        """Pay back the cost of a retry that was not sent, such as one that a breaker refused.

        Args:
            origin: of the request.
            now: monotonic seconds.
        """
        with self._lock:
            self._account(origin).add(1.0, now)

    def balance(self, origin: str, now: float) -> float:
        """Return how many retries could be sent to an origin now.

        Args:
            origin: "scheme://host:port".
            now: monotonic seconds.
        """
        if self.store is not None:
            answer = self.store.ask_here(self._make_command(origin, 0))
            if answer is not None:
                return float(answer[1])
        with self._lock:
            account = self._accounts.get(origin)
            earned = 0.0 if account is None else account.sum(now)
            return earned + self.reserve * self.window

    def _balances(self, now: float) -> dict[str, float]:
        """Return how many retries could be sent now by origin, as far as this process knows.

        Args:
            now: monotonic seconds.
        """
        with self._lock:
            reserve = self.reserve * self.window
            return {
                origin: max(0.0, account.sum(now) + reserve)
                for origin, account in self._accounts.items()
            }

    # in a store

    def _make_withdraw_command(self, origin: str) -> StoreCommand:
        """Return the command that withdraws one retry; its answer is whether there was enough.

        Args:
            origin: of the request.
        """

        def undo(answer: Answer) -> StoreCommand | None:
            return self._make_refund_command(origin) if answer[0] else None

        return self._make_command(origin, 1)._replace(undo=undo)

    def _make_refund_command(self, origin: str) -> StoreCommand:
        """Return the command that refunds a withdrawal."""
        return self._make_command(origin, -1)

    def _deposit_later(self, store: Store, origin: str, now: float) -> None:
        with self._lock:
            count, since = self._pending.get(origin, (0, now))
            self._pending[origin] = count + 1, since
            due = [origin] if now - since >= self.window / _SLICES else []
            if len(self._pending) > self.max_origins:
                due = list(self._pending)
        for each in due:
            store.tell(self._make_command(each, 0))

    def _make_command(self, origin: str, cost: int) -> StoreCommand:
        with self._lock:
            count, _ = self._pending.pop(origin, (0, 0.0))
        tenth = micros(self.window / _SLICES)
        numbers = (tenth, count * self.ratio, self.reserve * self.window, cost)
        settings = f"{self.ratio:g}/{self.reserve:g}/{self.window:g}"
        return StoreCommand("budget", f"{settings}:{origin}", numbers)

    def _account(self, origin: str) -> _Account:
        accounts = self._accounts
        account = accounts.get(origin)
        if account is None:
            account = accounts[origin] = _Account(self.window / _SLICES, self.ratio)
            if len(accounts) > self.max_origins:
                accounts.popitem(last=False)
        else:
            accounts.move_to_end(origin)
        return account

    def __repr__(self) -> str:
        return f"RetryBudget(ratio={self.ratio}, reserve={self.reserve}, window={self.window})"


class _Account:
    """Deposits minus withdrawals of one origin, per slice of the window.

    Attributes:
        deposits: in the current slice.
        until: when the current slice ends.
    """

    __slots__ = ("_latest", "_ratio", "_slice", "_sums", "deposits", "until")

    def __init__(self, slice_seconds: float, ratio: float) -> None:
        self._slice = slice_seconds
        self._ratio = ratio
        self._latest = 0  # number of the current slice
        self._sums = [0.0] * _SLICES
        self.deposits = 0
        self.until = -math.inf

    def add(self, amount: float, now: float) -> None:
        self.move_to(now)
        self._sums[self._latest % _SLICES] += amount

    def sum(self, now: float) -> float:
        self.move_to(now)
        return math.fsum(self._sums) + self._ratio * self.deposits

    def move_to(self, now: float) -> None:
        # Threads may arrive with times out of order; the newest counts.
        if now < self.until:
            return
        self._sums[self._latest % _SLICES] += self._ratio * self.deposits
        self.deposits = 0
        latest = int(now // self._slice)
        for step in range(1, min(latest - self._latest, _SLICES) + 1):
            self._sums[(self._latest + step) % _SLICES] = 0.0
        self._latest = latest
        self.until = (latest + 1) * self._slice


GiveUpReason: TypeAlias = Literal[
    "not_retriable",
    "not_idempotent",
    "max_retries",
    "retry_after",
    "breaker",
    "deadline",
    "body",
    "budget",
]
"""Why a request is not sent again; GIVE_UP_REASONS has the texts."""

GIVE_UP_REASONS: dict[GiveUpReason, str] = {
    "not_retriable": "another attempt would fail in the same way",
    "not_idempotent": "the request may have been processed, and must not be processed twice",
    "max_retries": "the policy's max_retries are used up",
    "retry_after": "the server asks to wait for longer than the policy's retry_after_max",
    "breaker": "the circuit breaker is open",
    "deadline": "the wait would pass the deadline",
    "body": "the body cannot be sent again",
    "budget": "the retry budget of this origin is used up",
}

# Without 500: it is usually a bug in the server's program, which would fail again.
STATUSES = frozenset({408, 425, 429, 502, 503, 504})
MAY_ASK_TO_WAIT = frozenset({413, 429, 503})  # RFC 9110, section 10.2.3; never 3xx
_CONNECT_STATUSES = frozenset({None, 502, 503, 504})  # of a proxy; None: no response
_TRANSIENT = (ConnectionError, ReadTimeout, WriteTimeout, ChunkedEncodingError)
_NEVER = (SSLError, BlockedAddress, CircuitBreakerOpen)
_JITTER = 0.1  # of a Retry-After, at most, so that not all clients retry at once


@with_suggestions("RetryPolicy")
@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retry a failed request if this may help and does no harm.

    A request with any method is retried if the server certainly has not processed it: the
    connection failed, the TLS handshake was cut off, or HTTP/2 reported REFUSED_STREAM. Otherwise a
    request is retried only if its method is idempotent, or if it has an Idempotency-Key. A request
    that failed because of an invalid certificate is never retried.

    A policy is an immutable value. Threads, event loops and clients can share one; they then share
    its budget.

    Args:
        max_retries: the maximum number of attempts after the first.
        backoff_strategy: how long to wait before each of them.
        statuses: status codes after which idempotent requests are retried.
        methods: the methods that are idempotent: the server may process such a request twice.
        retry_non_idempotent: treat all methods as idempotent. Only for servers that recognize
            repeated requests.
        retry_after_max: the longest Retry-After to wait for, in seconds; jitter of up to a tenth is
            added. If the server asks for more, the response is returned.
        budget: limits the retries of all requests together; None for no limit.
        random: the random source, for tests; None for the module `random`.

    Raises:
        ValueError: a number is negative or not finite.
        TypeError: an argument has the wrong type.
    """

    max_retries: int = 2
    _: KW_ONLY
    backoff_strategy: Backoff = field(default_factory=FullJitterBackoff)
    statuses: Collection[int] = STATUSES
    methods: Collection[str] = IDEMPOTENT
    retry_non_idempotent: bool = False
    retry_after_max: float = 60.0
    budget: RetryBudget | None = field(default_factory=RetryBudget)
    random: Random | None = None

    def __post_init__(self) -> None:
        check_number("max_retries", self.max_retries, whole=True)
        check_number("retry_after_max", self.retry_after_max, unit="seconds")
        check_flags(retry_non_idempotent=self.retry_non_idempotent)
        backoff = cast(object, self.backoff_strategy)
        if isinstance(backoff, type) or not hasattr(backoff, "delays"):
            raise TypeError(
                "backoff_strategy must be an object with a method delays(), such as "
                f"curlhttp.FullJitterBackoff(base=0.5), not {backoff!r:.100}"
            )
        check_object("budget", self.budget, "_withdraw", "curlhttp.RetryBudget(ratio=0.2)")
        check_object("random", self.random, "uniform", "random.Random(0)")
        object.__setattr__(self, "statuses", validate_statuses("statuses", self.statuses))
        methods = self.methods
        if isinstance(methods, (str, bytes)) or not (
            isinstance(methods, Iterable) and all(isinstance(each, str) for each in methods)
        ):
            raise TypeError(f'methods must be a list of names, such as ["GET"], not {methods!r}')
        object.__setattr__(self, "methods", frozenset(name.upper() for name in methods))

    @classmethod
    def of(cls, value: RetryInput, base: RetryPolicy | None = None) -> RetryPolicy | None:
        """Return the policy for a `retry=` argument.

        Args:
            value: a policy; a number of retries; True for the default; None or False for none.
            base: the policy in which a number replaces max_retries, so that they share a budget.

        Raises:
            TypeError: the value is none of these.
            ValueError: the number is negative.
        """
        if value is None or value is False or isinstance(value, cls):
            return value or None
        if value is True:
            return base or cls()
        if not isinstance(value, int):
            raise TypeError(
                "retry must be a number of retries, a curlhttp.RetryPolicy(...) or None, not "
                f"{value!r:.100}"
            )
        if value == 0:
            return None
        if base is None:
            return cls(value)
        check_number("max_retries", value, whole=True)
        policy = copy(base)  # not replace(), which would check the other fields again
        object.__setattr__(policy, "max_retries", value)
        return policy

    @property
    def _uniform(self) -> Uniform:
        """Return the random source."""
        return uniform if self.random is None else self.random.uniform

    def _get_give_up_reason(
        self, request: ClientRequest, failure: Response | RequestException
    ) -> GiveUpReason | None:
        """Return why the failure forbids another attempt, None if it does not.

        Args:
            request: the request that failed.
            failure: a response with one of `statuses`, or an exception.
        """
        if isinstance(failure, RequestException):
            if not _is_transient(failure):
                return "not_retriable"
            if failure.refused or not failure.request_sent:
                return None
        return None if self._may_repeat(request) else "not_idempotent"

    def _may_repeat(self, request: ClientRequest) -> bool:
        """Return whether the server may process the request twice."""
        return (
            request.method in self.methods
            or self.retry_non_idempotent
            or request.get_header("idempotency-key") is not None
        )

    def _heeds_retry_after(self, status_code: int) -> bool:
        """Return whether Retry-After counts with this status (RFC 9110, section 10.2.3)."""
        return status_code in MAY_ASK_TO_WAIT

    def _delay(self, backoff: float, asked: float | None) -> float | None:
        """Return the seconds to wait, or None if the server asks for too long a wait.

        Args:
            backoff: the next delay of the strategy.
            asked: seconds that the server asks for, or None.
        """
        if asked is None:
            return backoff
        if asked > self.retry_after_max:
            return None
        return max(backoff, asked + self._uniform(0.0, asked * _JITTER))


NO_RETRIES = RetryPolicy(0, statuses=(), budget=None)
"""The policy of requests without one, while hooks observe attempts."""


def _is_transient(error: RequestException) -> bool:
    """Return whether the same request may succeed the next time."""
    if isinstance(error, _NEVER) or not isinstance(error, _TRANSIENT):
        return False
    if isinstance(error, ProxyError) and error.connect_status not in _CONNECT_STATUSES:
        return False
    return not error.is_lasting


def describe_outcomes(attempts: Collection[Attempt]) -> str:
    """Return the outcomes of attempts as text, such as "503, ConnectTimeout", for a note."""
    return ", ".join(
        str(attempt.status_code) if attempt.error is None else type(attempt.error).__name__
        for attempt in attempts
    )


# --- Retry-After (RFC 9110, section 10.2.3). An invalid value counts as absent ---

_SECONDS = re.compile(r"[0-9]+", re.ASCII)
_LONGEST_WAIT = 1e9  # seconds, 30 years: time.sleep() refuses a few hundred
_SKEW = 60.0  # seconds by which two clocks may differ before the server's clock counts


def parse_retry_after(headers: Headers, wall: float) -> float | None:
    """Return the seconds that a response asks to wait, the longest of several; None for none.

    A number or a year of any size is a long wait, of 30 years at most.

    Args:
        headers: of the response.
        wall: the local time, in seconds since the epoch.
    """
    asked = [_parse_value(value, headers, wall) for value in headers.get_list("retry-after")]
    return _get_longest(asked)


def _get_longest(asked: Iterable[float | None]) -> float | None:
    longest = max((seconds for seconds in asked if seconds is not None), default=None)
    return None if longest is None else min(longest, _LONGEST_WAIT)


def _parse_value(value: str, headers: Headers, wall: float) -> float | None:
    value = value.strip(" \t")
    if _SECONDS.fullmatch(value):
        return float(value)  # unlike int(), of thousands of digits, too: infinity
    then = parse_http_date(value, wall)
    if then is None:
        return None
    served = parse_http_date(headers.get("date"), wall)
    # A clock that is minutes off, here or there, must not turn "in 5 s" into "never".
    is_skewed = served is not None and abs(served - wall) > _SKEW
    return max(0.0, then - (served if is_skewed and served is not None else wall))
