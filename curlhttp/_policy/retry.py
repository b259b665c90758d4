"""Whether a failed attempt may be followed by another, and after how long.

Pure: no clock and no I/O; time and chance come in as arguments. What decides is whether the request
may have been processed: if not, any method may go out again, else only what does no harm twice.
"""

from __future__ import annotations

import math
import re
from calendar import monthrange, timegm
from collections.abc import Collection, Iterable
from dataclasses import KW_ONLY, dataclass, field, replace
from random import Random, uniform
from typing import Literal, TypeAlias

from curlhttp._models.attempts import Attempt
from curlhttp._models.headers import Headers
from curlhttp._models.request import IDEMPOTENT, Request
from curlhttp._models.response import Response
from curlhttp._policy.backoff import Backoff, FullJitterBackoff, Uniform
from curlhttp._policy.budget import RetryBudget
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
    "Objection",
    "RetryInput",
    "RetryPolicy",
    "http_date",
    "outcomes",
    "retry_after",
]


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
    """Return in a few words what came of attempts, for a note."""
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
