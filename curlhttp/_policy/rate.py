"""How many requests may go per second, for each origin."""

from __future__ import annotations

import math
from collections import OrderedDict

from curlhttp._policy.limits import Limit, Per, Wake
from curlhttp.exceptions import DeadlineExceeded

__all__ = ["RateLimit", "Turn"]

_MANY = 1000  # origins, from which on those without traffic are forgotten
_ROUNDING = 1e-6  # seconds: timers and sums of floats are not more exact


class Turn:
    """A place in the line of those who wait for the rate. The first one sleeps, the others wait.

    Args:
        limit: whose line it is; join() gets into it.
        wake: called when it becomes the first.
    """

    __slots__ = ("_bucket", "_limit", "wake")

    def __init__(self, limit: RateLimit, wake: Wake) -> None:
        self._limit = limit
        self._bucket: _Bucket | None = None  # None: not in line
        self.wake = wake

    @property
    def is_first(self) -> bool:
        """Tell whether nobody is before this one; wake is called when that becomes so."""
        return self._limit._is_first(self)

    def take(self, now: float) -> float:
        """Go if it is time: return 0, else the seconds to sleep before asking again.

        Args:
            now: monotonic seconds.
        """
        return self._limit._take_turn(self, now)

    def leave(self) -> None:
        """Leave the line."""
        if self._bucket is not None:
            self._limit._leave(self)


class _Bucket:
    """When the next request may go: the theoretical arrival time of the GCRA."""

    __slots__ = ("due", "waiting")

    def __init__(self) -> None:
        self.due = -math.inf
        self.waiting: OrderedDict[Turn, None] = OrderedDict()


class RateLimit(Limit):
    """Bound the requests per second; those beyond wait, in the order in which they came.

    In any period there are at most `burst` and `rate` times its seconds. One may be shared by
    clients, threads and event loops.

    Args:
        rate: requests per second in the long run.
        burst: how many may go at once after a pause.
        per: "origin" for each origin by itself, None for all together.

    Raises:
        ValueError: the rate is not positive, or the burst below one.

    Source: the generic cell rate algorithm, ITU-T I.371.
    """

    def __init__(self, rate: float, burst: int = 1, per: Per = "origin") -> None:
        if not (isinstance(burst, int) and burst >= 1):
            raise ValueError(f"burst must be a whole number from 1 on, not {burst!r}")
        if not (0 < rate < math.inf and burst / rate < math.inf):
            raise ValueError(f"rate must be a positive number of requests per second, not {rate!r}")
        self.rate = rate
        self.burst = burst
        self._interval = 1.0 / rate
        self._tolerance = (burst - 1) / rate
        super().__init__(per)

    def forget(self) -> None:
        """Start afresh in a forked child."""
        super().forget()
        self._buckets: dict[str, _Bucket] = {}
        self._too_many = _MANY

    def take(self, origin: str, now: float) -> bool:
        """Let a request go, if it may go now and nobody waits.

        Args:
            origin: whom it goes to.
            now: monotonic seconds.
        """
        with self._lock:
            bucket = self._bucket(origin, now)
            may_go = not bucket.waiting and self._wait(bucket, now) <= 0
            if may_go:
                bucket.due = max(bucket.due, now) + self._interval
        if self._leavers:
            self._let_go()
        return may_go

    def join(self, turn: Turn, origin: str, now: float, patience: float) -> None:
        """Put a turn into the line; whatever happens, its leave() takes it out.

        Args:
            turn: a new one.
            origin: whom the request goes to.
            now: monotonic seconds.
            patience: how many seconds it has; inf without a deadline.

        Raises:
            DeadlineExceeded: it would come later than that.
        """
        with self._lock:
            bucket = self._bucket(origin, now)
            seconds = self._wait(bucket, now) + len(bucket.waiting) * self._interval
            if seconds <= patience:
                turn._bucket = bucket
                bucket.waiting[turn] = None
        if self._leavers:
            self._let_go()
        if seconds > patience:
            raise DeadlineExceeded(
                f"the rate limit of {self.rate:g} requests per second has room in {seconds:.3g} s, "
                f"and the request ends in {max(0.0, patience):.3g} s; it was not sent"
            )

    def give_back(self, origin: str) -> None:
        """Take a request back that was let go and not sent.

        Args:
            origin: whom it would have gone to.
        """
        with self._lock:
            bucket = self._buckets.get(self._key(origin))
            if bucket is not None:
                bucket.due -= self._interval
        if self._leavers:
            self._let_go()

    def _is_first(self, turn: Turn) -> bool:
        with self._lock:  # a line must not change while it is looked at
            bucket = turn._bucket
            first = bucket is None or next(iter(bucket.waiting), None) is turn
        if self._leavers:
            self._let_go()
        return first

    def _take_turn(self, turn: Turn, now: float) -> float:
        wakes: list[Wake] = []
        with self._lock:
            bucket = turn._bucket
            assert bucket is not None
            seconds = self._wait(bucket, now)
            if seconds <= 0:
                bucket.due = max(bucket.due, now) + self._interval
                self._remove(turn, wakes)
        if self._leavers:
            self._let_go()
        for wake in wakes:
            wake()
        return seconds

    def _wait(self, bucket: _Bucket, now: float) -> float:
        """Return the seconds until the next request may go, 0 for now."""
        seconds = bucket.due - self._tolerance - now
        return seconds if seconds > _ROUNDING else 0.0

    def _bucket(self, origin: str, now: float) -> _Bucket:
        key = self._key(origin)
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= self._too_many:
                self._forget_idle(now)
            bucket = self._buckets[key] = _Bucket()
        return bucket

    def _forget_idle(self, now: float) -> None:
        """Forget those that a new one would not differ from."""
        self._buckets = {
            key: bucket
            for key, bucket in self._buckets.items()
            if bucket.waiting or bucket.due > now
        }
        self._too_many = max(_MANY, 2 * len(self._buckets))

    def _remove(self, place: Turn, wakes: list[Wake]) -> None:
        bucket, place._bucket = place._bucket, None
        if bucket is None:
            return
        was_first = next(iter(bucket.waiting), None) is place
        bucket.waiting.pop(place, None)
        if was_first and bucket.waiting:
            wakes.append(next(iter(bucket.waiting)).wake)

    def __repr__(self) -> str:
        return f"RateLimit({self.rate:g}, {self.burst}, per={self.per!r})"
