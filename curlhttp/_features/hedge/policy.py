"""Decide which requests are hedged: sent again while the first attempt has no response yet.

Pure: times are arguments. _features/hedge/layer.py sends the attempts.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from curlhttp._features.retry.policy import RetryBudget
from curlhttp._http.errors import check_flags, check_number, check_object
from curlhttp._http.fork import register
from curlhttp._http.request import ClientRequest
from curlhttp._http.suggestions import with_suggestions

# Another server behind the same name may do better than these.
HEDGED_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


@with_suggestions("Hedge")
@dataclass(frozen=True)
class Hedge:
    """Send a slow request a second time, and use whichever good response comes first.

    A request is hedged if it is idempotent and its body can be sent twice at the same time: bytes,
    a list of pieces or a callable; a file once it has been sent to its end. The client cancels the
    attempts that lose: it resets their HTTP/2 stream, or closes their HTTP/1.1 connection.

    Args:
        after: seconds to wait for the response head before the next attempt. "p95" stands for the
            95th percentile of this origin's recent times to the head ("p1" to "p99" are possible);
            nothing is hedged until 20 such times are known.
        max: the maximum number of attempts after the first, each `after` seconds after the one
            before.
        idempotency_key: also hedge other methods, such as POST, if the request has an
            Idempotency-Key.
        budget: the RetryBudget that each extra attempt withdraws from. If it is None, hedges use
            the budget of the client's RetryPolicy or, if the policy has none, a separate budget.

    Raises:
        ValueError: a number is out of range.
        TypeError: an argument has the wrong type.
    """

    after: float | str = "p95"
    max: int = 1
    idempotency_key: bool = field(default=False, kw_only=True)
    budget: RetryBudget | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.after, str):
            number = self.after.removeprefix("p")
            if number == self.after or not (number.isascii() and number.isdigit()):
                raise ValueError(
                    f"after must be seconds or a percentile ('p95'), not {self.after!r}"
                )
            if not 1 <= int(number) <= 99:
                raise ValueError(f"a percentile must be 'p1' to 'p99', not {self.after!r}")
        else:
            check_number("after", self.after, unit="seconds")
        check_number("max", self.max, least=1, whole=True)
        check_flags(idempotency_key=self.idempotency_key)
        check_object("budget", self.budget, "_withdraw", "curlhttp.RetryBudget(ratio=0.2)")

    def _seconds(self, times: HeadTimes, origin: str) -> float | None:
        """Return the seconds after which to send the next attempt, None for never.

        Args:
            times: the recent times of all origins.
            origin: of the request.
        """
        if isinstance(self.after, str):
            return times.percentile(origin, int(self.after[1:]))
        return self.after


def may_hedge(request: ClientRequest, policy: Hedge) -> bool:
    """Return whether two attempts of the request may run at the same time."""
    if not request.is_idempotent and not (
        policy.idempotency_key and request.get_header("idempotency-key") is not None
    ):
        return False
    return request.body is None or request.body.replayable


class HeadTimes:
    """Recent times to the response head, per origin. Thread-safe.

    Only the first attempt of each request counts. If it lost, the time that it had been under way
    counts. Otherwise only fast attempts would count, and the percentile would fall with each hedge.

    Args:
        window: how many times are kept per origin.
        minimum: how many are needed for a percentile.
        max_origins: how many origins are kept; the least recently used one is dropped first.
    """

    def __init__(self, window: int = 200, minimum: int = 20, max_origins: int = 1000) -> None:
        self._window = window
        self._minimum = minimum
        self._max_origins = max_origins
        self._clear()
        register(self)

    def _after_fork_in_child(self) -> None:
        """Start empty, because a thread of the parent may have held the lock."""
        self._clear()

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._origins: OrderedDict[str, tuple[deque[float], list[float]]] = OrderedDict()

    def add(self, origin: str, seconds: float) -> None:
        """Record the time of one attempt, in seconds."""
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
        """Return a percentile of an origin's times in seconds (nearest rank), None without enough.

        Args:
            origin: "scheme://host:port".
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
