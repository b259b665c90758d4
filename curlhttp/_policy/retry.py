"""Decide whether a failed attempt is retried, and after which delay.

`RetryPolicy.objection` decides by the failure: if the server cannot have processed the request, any
method is retried, otherwise only methods that are idempotent. _flow/retry.py adds the attempts and
the time that are left, the delay and the budget. No clock and no I/O: time and random numbers are
arguments. Only `RetryBudget`, which limits retries to a share of an origin's requests, has a state.
"""

from __future__ import annotations

import math
import re
import threading
from calendar import monthrange, timegm
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field, replace
from random import Random, uniform
from typing import Literal, Protocol, TypeAlias

from curlhttp._models.fork import register
from curlhttp._models.headers import Headers
from curlhttp._models.request import IDEMPOTENT, Request
from curlhttp._models.response import Response
from curlhttp._models.timings import Attempt
from curlhttp._policy.store import Answer, Store, StoreCommand, micros
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

__all__ = [
    "NO_RETRIES",
    "OBJECTIONS",
    "Backoff",
    "DecorrelatedJitterBackoff",
    "EqualJitterBackoff",
    "ExponentialBackoff",
    "FullJitterBackoff",
    "Objection",
    "RetryBudget",
    "RetryInput",
    "RetryPolicy",
    "Uniform",
    "http_date",
    "outcomes",
    "retry_after",
]


# --- How long to wait before the next attempt, as endless sequences of seconds ---
#
# Pure: chance comes in as an argument, and the state of a sequence is the request's own. No delay
# is below zero or above max_backoff, however long the sequence.

Uniform: TypeAlias = Callable[[float, float], float]
"""A random source: gives a number between the two, as random.uniform does."""


class Backoff(Protocol):
    """What RetryPolicy takes as backoff_strategy; one of yours will do."""

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Give the seconds to wait before the second attempt, the third, and so on, without end.

        Args:
            uniform: the random source.
        """


def _check(**seconds: float) -> None:
    for name, value in seconds.items():
        if not (value >= 0 and math.isfinite(value)):
            raise ValueError(f"{name} must be a number of seconds, not {value!r}")


@dataclass(frozen=True, slots=True)
class ExponentialBackoff:
    """Wait longer each time, by a fixed factor and without chance.

    Clients that fail together then come back together: the kinds with jitter are better company.

    Args:
        base: the first delay, in seconds.
        factor: by what each delay is longer than the one before.
        max_backoff: the longest delay, in seconds.

    Raises:
        ValueError: a time is negative or not finite, or the factor is below one.
    """

    base: float = 0.1
    factor: float = 2.0
    max_backoff: float = 10.0

    def __post_init__(self) -> None:
        _check(base=self.base, max_backoff=self.max_backoff)
        if not (self.factor >= 1 and math.isfinite(self.factor)):
            raise ValueError(f"factor must be at least 1, not {self.factor!r}")

    def _ceilings(self) -> Iterator[float]:
        # Step by step, because factor ** 10_000 is no float any more.
        ceiling = min(self.base, self.max_backoff)
        while True:
            yield ceiling
            ceiling = min(ceiling * self.factor, self.max_backoff)

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Give base, base * factor, base * factor ** 2, ... up to max_backoff."""
        return self._ceilings()


@dataclass(frozen=True, slots=True)
class FullJitterBackoff(ExponentialBackoff):
    """Wait anything between nothing and the exponential delay: the least work for the server.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Give numbers between 0 and the exponential delay."""
        return (uniform(0.0, ceiling) for ceiling in self._ceilings())


@dataclass(frozen=True, slots=True)
class EqualJitterBackoff(ExponentialBackoff):
    """Wait at least half of the exponential delay; chance has the other half.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Give numbers between half the exponential delay and all of it."""
        for ceiling in self._ceilings():
            half = ceiling / 2
            yield half + uniform(0.0, half)


@dataclass(frozen=True, slots=True)
class DecorrelatedJitterBackoff:
    """Wait between base and three times the last delay.

    Args:
        base: the shortest delay, in seconds.
        max_backoff: the longest, in seconds.

    Raises:
        ValueError: a time is negative or not finite.

    Source: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
    """

    base: float = 0.1
    max_backoff: float = 10.0

    def __post_init__(self) -> None:
        _check(base=self.base, max_backoff=self.max_backoff)

    def delays(self, uniform: Uniform) -> Iterator[float]:
        """Give numbers between base and thrice the one before, up to max_backoff."""
        last = self.base
        while True:
            last = min(self.max_backoff, uniform(self.base, last * 3))
            yield last


# --- How many retries an origin may get: a share of the requests that it gets anyway ---
#
# A server that fails wholly would else see each request as many times as the policy allows, just
# when it has no room for them. Pure: the time comes in as an argument.

_SLICES = 10  # a window moves on in steps of a tenth of it
_ROUNDING = 1e-9  # five deposits of 0.2 are a little less than one


class RetryBudget:
    """Allow retries in proportion to requests, for each origin by itself; thread-safe.

    Each first attempt deposits `ratio`, each retry takes one. Deposits and withdrawals are
    forgotten after `window` seconds. Share one budget among clients to bound them together.

    Args:
        ratio: retries per request.
        reserve: retries per second that are always allowed, for clients with little to do; those
            of a whole window may go at once.
        window: seconds that a deposit is good for.
        max_origins: budgets that are kept; the one unused for longest is forgotten first, to a
            tenth of the window.
        store: what all processes of the same settings share it by, or None for this process
            alone. Deposits come there with the next retry, or a tenth of the window later.

    Raises:
        ValueError: a number is negative or not finite, the window is nothing, or max_origins is
            below one.

    Source: Finagle's RetryBudget.
    """

    def __init__(
        self,
        ratio: float = 0.2,
        reserve: float = 10.0,
        window: float = 10.0,
        max_origins: int = 1000,
        *,
        store: Store | None = None,
    ) -> None:
        for name, value in (("ratio", ratio), ("reserve", reserve), ("window", window)):
            if not (value >= 0 and math.isfinite(value)):
                raise ValueError(f"{name} must not be negative, as {value!r} is")
        if window == 0 or max_origins < 1:
            raise ValueError("window must be above zero, and max_origins at least 1")
        self.ratio = ratio
        self.reserve = reserve
        self.window = window
        self.max_origins = max_origins
        self.store = store
        self._clear()
        register(self)

    def after_fork_in_child(self) -> None:
        """Forget what the parent counted, whose lock may be held by a thread of its own."""
        self._clear()

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._unpaid: dict[str, tuple[int, float]] = {}  # at no store yet, and since when

    def deposit(self, origin: str, now: float) -> None:
        """Count a first attempt.

        Args:
            origin: whom it goes to.
            now: monotonic seconds.
        """
        account = self._accounts.get(origin)
        if account is None or now >= account.until:
            with self._lock:
                account = self._account(origin)
                account.move_to(now)
        # Without the lock, because every request comes by here. Where threads may lose one to each
        # other there is a retry less, never one more.
        account.deposits += 1
        if self.store is not None:
            self._pay_later(self.store, origin, now)

    def withdraw(self, origin: str, now: float) -> bool:
        """Take what one retry costs, and return whether there was enough.

        Args:
            origin: whom it would go to.
            now: monotonic seconds.
        """
        with self._lock:
            account = self._account(origin)
            if account.sum(now) + self.reserve * self.window < 1 - _ROUNDING:
                return False
            account.add(-1.0, now)
            return True

    def refund(self, origin: str, now: float) -> None:
        """Give back what a retry took that was not sent, such as one that a breaker refused.

        Args:
            origin: whom it would have gone to.
            now: monotonic seconds.
        """
        with self._lock:
            self._account(origin).add(1.0, now)

    def balance(self, origin: str, now: float) -> float:
        """Return how many retries the origin may get at once now.

        Args:
            origin: whom they would go to.
            now: monotonic seconds.
        """
        if self.store is not None:
            answer = self.store.ask_here(self._asking(origin, 0))
            if answer is not None:
                return float(answer[1])
        with self._lock:
            account = self._accounts.get(origin)
            earned = 0.0 if account is None else account.sum(now)
            return earned + self.reserve * self.window

    # what processes share

    def withdrawing(self, origin: str) -> StoreCommand:
        """Return what takes the cost of one retry at a store, whose answer is whether it could.

        Args:
            origin: whom it would go to.
        """

        def undo(answer: Answer) -> StoreCommand | None:
            return self.refunding(origin) if answer[0] else None

        return self._asking(origin, 1)._replace(undo=undo)

    def refunding(self, origin: str) -> StoreCommand:
        """Return what gives that back."""
        return self._asking(origin, -1)

    def _pay_later(self, store: Store, origin: str, now: float) -> None:
        with self._lock:
            count, since = self._unpaid.get(origin, (0, now))
            self._unpaid[origin] = count + 1, since
            due = [origin] if now - since >= self.window / _SLICES else []
            if len(self._unpaid) > self.max_origins:
                due = list(self._unpaid)
        for each in due:
            store.tell(self._asking(each, 0))

    def _asking(self, origin: str, cost: int) -> StoreCommand:
        with self._lock:
            count, _ = self._unpaid.pop(origin, (0, 0.0))
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
    """The deposits less the withdrawals of one origin, by slices of the window.

    Attributes:
        deposits: how many there were in the slice that is filled now.
        until: when that slice ends.
    """

    __slots__ = ("_latest", "_ratio", "_slice", "_sums", "deposits", "until")

    def __init__(self, slice_seconds: float, ratio: float) -> None:
        self._slice = slice_seconds
        self._ratio = ratio
        self._latest = 0  # the number of the slice that is filled now
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
        # Threads may come with times in another order than theirs: the newest counts.
        if now < self.until:
            return
        self._sums[self._latest % _SLICES] += self._ratio * self.deposits
        self.deposits = 0
        latest = int(now // self._slice)
        for step in range(1, min(latest - self._latest, _SLICES) + 1):
            self._sums[(self._latest + step) % _SLICES] = 0.0
        self._latest = latest
        self.until = (latest + 1) * self._slice


Objection: TypeAlias = Literal[
    "not_retriable",
    "not_idempotent",
    "max_retries",
    "retry_after",
    "breaker",
    "deadline",
    "body",
    "budget",
]
"""Why there is no other attempt; the texts are in OBJECTIONS."""

OBJECTIONS: dict[Objection, str] = {
    "not_retriable": "another attempt would fail likewise",
    "not_idempotent": "the request may have been processed, and must not be processed twice",
    "max_retries": "the policy's max_retries are spent",
    "retry_after": "the server asks to wait for longer than the policy's retry_after_max",
    "breaker": "the circuit breaker is open",
    "deadline": "the wait would pass the deadline",
    "body": "the body cannot be sent again",
    "budget": "the retry budget of this origin is spent",
}

# 500 is an error of the program there, more often than not: it would fail again.
STATUSES = frozenset({408, 425, 429, 502, 503, 504})
_MAY_ASK_TO_WAIT = frozenset({413, 429, 503})  # RFC 9110, section 10.2.3; never 3xx
_CONNECT_STATUSES = frozenset({None, 502, 503, 504})  # of a proxy; None: it did not answer
_BY_CHANCE = (ConnectionError, ReadTimeout, WriteTimeout, ChunkedEncodingError)
_NEVER = (SSLError, BlockedAddress, CircuitBreakerOpen)
_LATENESS = 0.1  # of a Retry-After, at most, so that not all come back at once


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Send a request again when that may help and can do no harm.

    What surely was not processed may go out again with any method: no connection, a handshake that
    was cut, HTTP/2's REFUSED_STREAM. Everything else is repeated for idempotent methods only, or
    if the request has an Idempotency-Key. Certificates that do not hold are never tried again.

    A policy is a value: threads, loops and clients may share one, and with it its budget.

    Args:
        max_retries: attempts after the first.
        backoff_strategy: how long to wait before each.
        statuses: those that are worth another attempt, of idempotent requests.
        methods: those that may be processed twice.
        retry_non_idempotent: treat all methods as such. Only for servers that can tell.
        retry_after_max: the longest Retry-After that is waited for, in seconds, to which chance
            adds up to a tenth. With a longer one the response is returned.
        budget: bounds the retries of all requests together; None for no bound.
        random: the random source, for tests; None for the module `random`.

    Raises:
        ValueError: a number is negative or not finite.
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
        if isinstance(self.max_retries, bool) or not isinstance(self.max_retries, int):
            raise TypeError(f"max_retries must be a number, not {self.max_retries!r}")
        if self.max_retries < 0:
            raise ValueError(f"max_retries must not be negative, as {self.max_retries} is")
        if not (self.retry_after_max >= 0 and math.isfinite(self.retry_after_max)):
            raise ValueError(f"retry_after_max must be seconds, not {self.retry_after_max!r}")
        for name in ("statuses", "methods"):
            if isinstance(getattr(self, name), str):  # whose letters would be taken for them
                raise TypeError(f"{name} must be a collection, not {getattr(self, name)!r}")
        object.__setattr__(self, "statuses", frozenset(self.statuses))
        object.__setattr__(self, "methods", frozenset(name.upper() for name in self.methods))

    @classmethod
    def of(cls, value: RetryInput, base: RetryPolicy | None = None) -> RetryPolicy | None:
        """Return the policy that a `retry=` argument stands for.

        Args:
            value: a policy; a number of retries; True for the default's; None or False for none.
            base: what a number is put into, so that requests share one budget.

        Raises:
            TypeError: it is none of these.
            ValueError: the number is negative.
        """
        if value is None or value is False or isinstance(value, cls):
            return value or None
        if value is True:
            return base or cls()
        if not isinstance(value, int):
            raise TypeError(f"retry must be a RetryPolicy, a number or None, not {value!r}")
        if value == 0:
            return None
        return cls(value) if base is None else replace(base, max_retries=value)

    @property
    def uniform(self) -> Uniform:
        """Return the random source."""
        return uniform if self.random is None else self.random.uniform

    def objection(self, request: Request, failure: Response | RequestException) -> Objection | None:
        """Return what speaks against another attempt, as far as the failure itself can tell.

        Args:
            request: what was sent.
            failure: a response with one of `statuses`, or an exception.
        """
        if isinstance(failure, RequestException):
            if not _happens_by_chance(failure):
                return "not_retriable"
            if failure.refused or not failure.request_sent:
                return None
        return None if self.may_repeat(request) else "not_idempotent"

    def may_repeat(self, request: Request) -> bool:
        """Return whether it does no harm if the request is processed twice."""
        return (
            request.method in self.methods
            or self.retry_non_idempotent
            or request.get_header("idempotency-key") is not None
        )

    def heeds_retry_after(self, status_code: int) -> bool:
        """Return whether a status is one whose Retry-After counts."""
        return status_code in _MAY_ASK_TO_WAIT

    def delay(self, backoff: float, asked: float | None) -> float | None:
        """Return the seconds to wait, or None if that would be too long.

        Args:
            backoff: the next delay of the strategy.
            asked: what the server asked for, or None.
        """
        if asked is None:
            return backoff
        if asked > self.retry_after_max:
            return None
        return max(backoff, asked + self.uniform(0.0, asked * _LATENESS))


RetryInput: TypeAlias = "RetryPolicy | int | bool | None"

NO_RETRIES = RetryPolicy(0, statuses=(), budget=None)
"""What stands for no policy where attempts are watched all the same."""


def _happens_by_chance(error: RequestException) -> bool:
    """Return whether the same request may well succeed the next time."""
    if isinstance(error, _NEVER) or not isinstance(error, _BY_CHANCE):
        return False
    if isinstance(error, ProxyError) and error.connect_status not in _CONNECT_STATUSES:
        return False
    return not error.is_lasting


def outcomes(attempts: Collection[Attempt]) -> str:
    """Return in a few words the outcome of attempts, for a note."""
    return ", ".join(
        str(attempt.status_code) if attempt.error is None else type(attempt.error).__name__
        for attempt in attempts
    )


# --- Read Retry-After (RFC 9110, section 10.2.3). What is no valid value counts as absent ---
#
# Pure: the time of day comes in as an argument.

_SECONDS = re.compile(r"[0-9]{1,10}", re.ASCII)  # ten digits are 300 years: more is no number
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
# RFC 9110, section 5.6.7: IMF-fixdate, RFC 850's and asctime's
_DATES = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"[a-z]{{3}}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
        rf"[a-z]{{6,9}}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
        rf"[a-z]{{3}} {_MONTH} (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)
_SKEW = 60.0  # seconds that two clocks may differ before the server's own is believed
_HALF_CENTURY = 50 * 365.25 * 86400.0  # seconds


def retry_after(headers: Headers, wall: float) -> float | None:
    """Return the seconds that a response asks to wait, the most of several; None for none.

    Args:
        headers: the response's.
        wall: the time of day here, in seconds since the epoch.
    """
    asked = [_seconds(value, headers, wall) for value in headers.get_list("retry-after")]
    return _most(asked)


def _most(asked: Iterable[float | None]) -> float | None:
    return max((seconds for seconds in asked if seconds is not None), default=None)


def _seconds(value: str, headers: Headers, wall: float) -> float | None:
    value = value.strip(" \t")
    if _SECONDS.fullmatch(value):
        return float(value)
    then = http_date(value, wall)
    if then is None:
        return None
    served = http_date(headers.get("date", ""), wall)
    # A clock that is wrong by minutes, here or there, must not turn "in 5 s" into "never".
    is_skewed = served is not None and abs(served - wall) > _SKEW
    return max(0.0, then - (served if is_skewed and served is not None else wall))


def http_date(text: str, wall: float) -> float | None:
    """Return an HTTP-date as seconds since the epoch, None for what is no date.

    Args:
        text: as received.
        wall: the time of day here: a year of two digits means the one that is nearest to it.
    """
    for form in _DATES:
        found = form.fullmatch(text.strip(" \t"))
        if found is not None:
            return _epoch(found, wall)
    return None


def _epoch(found: re.Match[str], wall: float) -> float | None:
    year, day, hour, minute, second = (
        int(found[name]) for name in ("year", "day", "hour", "minute", "second")
    )
    month = _MONTHS.index(found["month"].lower()) + 1
    if len(found["year"]) == 2:
        year += 2000
    if year < 1 or hour > 23 or minute > 59 or second > 60:  # 60: a leap second
        return None
    if not 1 <= day <= monthrange(year, month)[1]:
        return None
    seconds = float(timegm((year, month, day, hour, minute, second)))
    if len(found["year"]) == 2 and seconds - wall > _HALF_CENTURY:
        return float(timegm((year - 100, month, day, hour, minute, second)))
    return seconds
