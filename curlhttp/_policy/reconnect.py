"""Whether a stream of events that ended is asked for again, and after how long.

Pure: no clock and no I/O. What may be sent twice is decided in retry.py, for requests of all kinds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.retry import Backoff, EqualJitterBackoff, FullJitterBackoff, RetryPolicy
from curlhttp.exceptions import CircuitBreakerOpen, RequestException

__all__ = ["Reconnections"]

_DEFAULT = RetryPolicy(statuses=(), budget=None)
# Where a server names no time: "a few seconds", as the standard has it, and then ever more. The
# default of retries is for requests that failed: a server that ends each stream after an event
# would be asked many times a second.
_BACKOFF = EqualJitterBackoff(base=2.0, max_backoff=30.0)
_LONGEST = 86_400.0  # seconds, whatever the server asks for
_LATENESS = 0.1  # of the server's time, at most, so that not all come back at once


class Reconnections:
    """The reconnections of one stream.

    Args:
        request: what is asked for; its policy says what may be sent twice, and how long to wait.
        most: in a row, without an event between; True for any number, False for none.

    Attributes:
        count: in a row.

    Raises:
        ValueError: the number is negative.
    """

    def __init__(self, request: Request, most: bool | int) -> None:
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
        """Start to count again: an event came."""
        self.count, self._delays = 0, None

    def next_delay(
        self,
        failure: RequestException | None,
        retry: int | None,
        retry_after: float | None,
    ) -> float | None:
        """Return the seconds to wait before the next connection; None when there is to be none.

        Args:
            failure: what broke the connection, or why there was none; None for an end.
            retry: the milliseconds that the stream asked for, or None.
            retry_after: the seconds that a response with an error asked for, or None.
        """
        if self.count >= self._most or not self._may_follow(failure):
            return None
        self.count += 1
        delay = self._policy.delay(self._delay(retry), retry_after)
        if delay is not None and isinstance(failure, CircuitBreakerOpen):
            delay = max(delay, failure.retry_after)
        return delay

    def _may_follow(self, failure: RequestException | None) -> bool:
        if failure is None:
            return self._policy.may_repeat(self._request)
        if isinstance(failure, CircuitBreakerOpen):
            return math.isfinite(failure.retry_after)
        response = failure.response
        if isinstance(response, Response) and response.status_code in self._policy.statuses:
            return self._policy.objection(self._request, response) is None
        return self._policy.objection(self._request, failure) is None

    def _delay(self, retry: int | None) -> float:
        asked = 0.0 if retry is None else min(retry / 1000, _LONGEST)
        if retry is not None and self.count == 1:
            return asked + self._policy.uniform(0.0, asked * _LATENESS)
        if self._delays is None:
            self._delays = self._backoff.delays(self._policy.uniform)
        return asked + next(self._delays, 0.0)
