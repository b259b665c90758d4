"""Limits that the client puts on itself, for each origin: requests at once, and per second.

They read no clock and wait for nothing: who has to wait gets a place in a line, and is told by
`wake` when to go on, which may happen in any thread, and never with a lock held. Lines are FIFO;
whoever leaves one, even from a finalizer, holds up nobody behind.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from curlhttp._policy.after_fork import forget_after_fork
from curlhttp.exceptions import DeadlineExceeded

__all__ = ["ConcurrencyLimit", "Lease", "RateLimit", "Turn"]

Per: TypeAlias = "Literal['origin'] | None"
Wake: TypeAlias = Callable[[], object]

_MANY = 1000  # origins, from which on those without traffic are forgotten
_ROUNDING = 1e-6  # seconds: timers and sums of floats are not more exact


class _Limit:
    """What both limits have in common: a key, and a lock that finalizers need not wait for."""

    def __init__(self, per: Per) -> None:
        if per not in ("origin", None):
            raise ValueError(f"per must be 'origin', or None for all together, not {per!r}")
        self.per = per
        self.forget()
        forget_after_fork(self)

    def forget(self) -> None:
        """Start afresh in a forked child."""
        self._lock = threading.Lock()
        self._leavers: deque[Any] = deque()

    def _key(self, origin: str) -> str:
        return origin if self.per else ""

    def _leave(self, place: Any) -> None:
        # A finalizer may run while this very thread has the lock.
        self._leavers.append(place)
        self._let_go()

    def _let_go(self) -> None:
        """Remove who leaves, unless the lock is taken: whoever has it does so afterwards."""
        while self._leavers and self._lock.acquire(blocking=False):
            wakes: list[Wake] = []
            try:
                while self._leavers:
                    self._remove(self._leavers.popleft(), wakes)
            finally:
                self._lock.release()
            for wake in wakes:
                wake()

    def _remove(self, place: Any, wakes: list[Wake]) -> None:
        """Take a place out of the books; add whom to wake for that."""
        raise NotImplementedError


# --- at once ---


class Lease:
    """A place among the requests under way, or in the line for one.

    Args:
        limit: whose place it is; join() gets it.
        wake: called when it is granted after a wait.

    Attributes:
        granted: the request may go; never unset.
    """

    __slots__ = ("_limit", "_line", "granted", "wake")

    def __init__(self, limit: ConcurrencyLimit, wake: Wake | None = None) -> None:
        self._limit = limit
        self._line: _Line | None = None  # None: not in the books
        self.wake = wake
        self.granted = False

    def give(self) -> None:
        """Give the place back, or leave the line; a second time is nothing."""
        if self._line is not None:
            self._limit._leave(self)

    def end(self, error: BaseException | None) -> None:
        """Give the place back at the end of a body."""
        self.give()

    def __del__(self) -> None:
        self.give()  # whoever had it is gone without a word


class _Line:
    __slots__ = ("key", "used", "waiting")

    def __init__(self, key: str) -> None:
        self.key = key
        self.used = 0
        self.waiting: OrderedDict[Lease, None] = OrderedDict()  # nobody, while there is room


class ConcurrencyLimit(_Limit):
    """Bound the requests under way, from their start to the end of the body.

    One may be shared by clients, threads and event loops; those who wait go in the order in
    which they came.

    Args:
        limit: how many.
        per: "origin" for each origin by itself, None for all together.

    Raises:
        ValueError: the limit is below one.
    """

    def __init__(self, limit: int, per: Per = "origin") -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit!r}")
        self.limit = limit
        super().__init__(per)

    def forget(self) -> None:
        """Start afresh in a forked child."""
        super().forget()
        self._lines: dict[str, _Line] = {}

    def take(self, origin: str) -> Lease | None:
        """Return a lease, or None when the caller has to wait in line.

        Args:
            origin: whom the request goes to.
        """
        lease = Lease(self)
        with self._lock:
            line = self._line(origin)
            if line.used < self.limit:
                self._grant(lease, line)
        if self._leavers:
            self._let_go()
        return lease if lease.granted else None

    def join(self, lease: Lease, origin: str) -> None:
        """Grant a lease now or later; whatever happens, its give() leaves the line.

        Args:
            lease: a new one. It is the caller's before, so that Ctrl-C cannot come in between.
            origin: whom the request goes to.
        """
        with self._lock:
            line = self._line(origin)
            if line.used < self.limit:
                self._grant(lease, line)
            else:
                lease._line = line
                line.waiting[lease] = None
        if self._leavers:
            self._let_go()

    def in_use(self, origin: str) -> int:
        """Return how many requests to an origin are under way.

        Args:
            origin: "scheme://host:port", as URL.origin has it.
        """
        line = self._lines.get(self._key(origin))
        return 0 if line is None else line.used

    def _line(self, origin: str) -> _Line:
        key = self._key(origin)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(key)
        return line

    def _grant(self, lease: Lease, line: _Line) -> None:
        line.used += 1
        lease._line = line
        lease.granted = True

    def _remove(self, place: Lease, wakes: list[Wake]) -> None:
        line, place._line = place._line, None
        if line is None:
            return
        if not place.granted:
            line.waiting.pop(place, None)
        else:
            line.used -= 1
            if line.waiting:
                first, _ = line.waiting.popitem(last=False)
                self._grant(first, line)
                if first.wake is not None:
                    wakes.append(first.wake)
        if not line.used and self._lines.get(line.key) is line:  # not a forked child's
            del self._lines[line.key]

    def __repr__(self) -> str:
        return f"ConcurrencyLimit({self.limit}, per={self.per!r})"


# --- per second ---


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
        return self._bucket is None or next(iter(self._bucket.waiting), None) is self

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


class RateLimit(_Limit):
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
        if not 0 < rate < math.inf:
            raise ValueError(f"rate must be a positive number of requests per second, not {rate!r}")
        if burst < 1:
            raise ValueError(f"burst must be at least 1, not {burst!r}")
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
