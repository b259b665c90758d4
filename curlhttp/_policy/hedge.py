"""When a second attempt is worth sending while the first is still without an answer.

Pure: times come in as arguments. What carries it out is _flow/hedge.py and _curl/race.py.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from curlhttp._models.fork import register
from curlhttp._models.request import Request
from curlhttp._policy.retry import RetryBudget

__all__ = ["HEDGED_STATUSES", "HeadTimes", "Hedge", "may_hedge"]

# Answers that may be better from another server behind the same name.
HEDGED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Hedge:
    """Send a request again while the first attempt is slow, and take the first good answer.

    Only idempotent requests are, whose body can be sent twice at once: one in memory, a list of
    pieces or a callable; a file once it was sent to its end. The attempts that lose are
    cancelled: their HTTP/2 stream is reset, their HTTP/1.1 connection closed.

    Args:
        after: seconds without the head of an answer; or "p95" for the 95th percentile of the
            recent times to the head at this origin (any of "p1" to "p99"), which hedges nothing
            until 20 of them are known.
        max: attempts after the first, each `after` seconds behind the one before it.
        idempotency_key: hedge any method, POST too, that carries an Idempotency-Key.
        budget: what each extra attempt is taken from. None: the budget of the
            client's RetryPolicy, or where that has none one of its own.

    Raises:
        ValueError: a number is out of range.
    """

    after: float | str = "p95"
    max: int = 1
    idempotency_key: bool = field(default=False, kw_only=True)
    budget: RetryBudget | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.after, str):
            number = self.after.removeprefix("p")
            if number == self.after or not (number.isascii() and number.isdigit()):
                raise ValueError(f"after is seconds, or a percentile such as 'p95': {self.after!r}")
            if not 1 <= int(number) <= 99:
                raise ValueError(f"a percentile is one of 'p1' to 'p99', not {self.after!r}")
        elif not 0 <= self.after < float("inf"):
            raise ValueError(f"after must be a number of seconds from 0 on, not {self.after!r}")
        if not (isinstance(self.max, int) and self.max >= 1):
            raise ValueError(f"max must be 1 at least, not {self.max!r}; leave hedge off for none")

    def seconds(self, times: HeadTimes, origin: str) -> float | None:
        """Return how long an attempt may take before the next one is sent, None for no end.

        Args:
            times: what is known of the origins.
            origin: the one that is asked.
        """
        if isinstance(self.after, str):
            return times.percentile(origin, int(self.after[1:]))
        return self.after


def may_hedge(request: Request, policy: Hedge) -> bool:
    """Return whether two attempts of the request may be under way at once."""
    if not request.is_idempotent and not (
        policy.idempotency_key and request.get_header("idempotency-key") is not None
    ):
        return False
    return request.body is None or request.body.replayable


class HeadTimes:
    """The recent times to the head of an answer, per origin; safe to use from many threads.

    Of each request only the first attempt counts, one that lost with the time it had had. Without
    those the percentile would look at what was fast alone, and fall from hedge to hedge.

    Args:
        window: times that are kept per origin.
        minimum: times without which there is no percentile.
        max_origins: the origin that was asked for longest ago makes room for one more.
    """

    def __init__(self, window: int = 200, minimum: int = 20, max_origins: int = 1000) -> None:
        self._window = window
        self._minimum = minimum
        self._max_origins = max_origins
        self._clear()
        register(self)

    def after_fork_in_child(self) -> None:
        """Forget what the parent counted, whose lock may be held by a thread of its own."""
        self._clear()

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._origins: OrderedDict[str, tuple[deque[float], list[float]]] = OrderedDict()

    def add(self, origin: str, seconds: float) -> None:
        """Note the time of one attempt."""
        with self._lock:
            found = self._origins.get(origin)
            if found is None:
                found = self._origins[origin] = (deque(), [])
                if len(self._origins) > self._max_origins:
                    self._origins.popitem(last=False)
            recent, ordered = found
            if len(recent) == self._window:
                del ordered[bisect_left(ordered, recent.popleft())]
            recent.append(seconds)
            insort(ordered, seconds)

    def percentile(self, origin: str, percent: int) -> float | None:
        """Return the time that so many per cent of the attempts did not exceed (nearest rank).

        Args:
            origin: whose.
            percent: 1 to 99.
        """
        with self._lock:
            found = self._origins.get(origin)
            if found is None:
                return None
            self._origins.move_to_end(origin)
            ordered = found[1]
            if len(ordered) < self._minimum:
                return None
            return ordered[-(-percent * len(ordered) // 100) - 1]
