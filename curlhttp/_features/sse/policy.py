"""Decide whether an event stream that ended is opened again, and after which delay.

Pure: no clock and no I/O. retry.py decides which requests may be sent twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from curlhttp._features.retry.policy import (
    Backoff,
    EqualJitterBackoff,
    FullJitterBackoff,
    RetryPolicy,
)
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp.exceptions import CircuitBreakerOpen, RequestException

_DEFAULT = RetryPolicy(statuses=(), budget=None)
# If a server names no time: "a few seconds", as the standard says, and then longer. The default of
# retries is too short: a server that ends each stream after one event would get many requests a
# second.
_BACKOFF = EqualJitterBackoff(base=2.0, max_backoff=30.0)
_MAX_DELAY = 86_400.0  # seconds, whatever the server asks for
_JITTER = 0.1  # of the server's time, at most, so that not all clients reconnect at once


class Reconnections:
    """The reconnections of one event stream.

    Args:
        request: of the stream; its retry policy says what may be sent twice, and how long to wait.
        most: maximum in a row, without an event in between; True for no limit, False for none.

    Attributes:
        count: number of reconnections in a row.

    Raises:
        ValueError: the number is negative.
    """

    def __init__(self, request: ClientRequest, most: bool | int) -> None:
        if not isinstance(most, int) or most < 0:
            raise ValueError(f"reconnect must be True, False or a number, not {most!r}")
        self.count: int = 0
        self._request = request
        self._policy = request.retry or _DEFAULT
        chosen = self._policy.backoff_strategy
        self._backoff: Backoff = _BACKOFF if chosen == FullJitterBackoff() else chosen
        self._most = math.inf if most is True else int(most)
        self._delays: Iterator[float] | None = None

    def succeeded(self) -> None:
        """Reset the count, because an event arrived."""
        self.count, self._delays = 0, None

    def next_delay(
        self,
        failure: RequestException | None,
        retry: int | None,
        retry_after: float | None,
    ) -> float | None:
        """Return the seconds to wait before the next connection; None to give up.

        Args:
            failure: the error that ended or prevented the connection; None for a normal end.
            retry: milliseconds that the stream asked for, or None.
            retry_after: seconds that an error response asked for, or None.
        """
        if self.count >= self._most or not self._may_follow(failure):
            return None
        self.count += 1
        delay = self._policy._delay(self._delay(retry), retry_after)
        if delay is not None and isinstance(failure, CircuitBreakerOpen):
            delay = max(delay, failure.retry_after)
        return delay

    def _may_follow(self, failure: RequestException | None) -> bool:
        if failure is None:  # a POST would ask for all of it again
            return self._request.method in self._policy.methods
        if isinstance(failure, CircuitBreakerOpen):
            return math.isfinite(failure.retry_after)
        response = failure.response
        if isinstance(response, Response) and response.status_code in self._policy.statuses:
            return self._policy._get_give_up_reason(self._request, response) is None
        return self._policy._get_give_up_reason(self._request, failure) is None

    def _delay(self, retry: int | None) -> float:
        asked = 0.0 if retry is None else min(retry / 1000, _MAX_DELAY)
        if retry is not None and self.count == 1:
            return asked + self._policy._uniform(0.0, asked * _JITTER)
        if self._delays is None:
            self._delays = self._backoff.delays(self._policy._uniform)
        return asked + next(self._delays, 0.0)
