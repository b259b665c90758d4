"""How many requests may go per second, for each origin."""

from __future__ import annotations

import math
from collections import OrderedDict

from curlhttp._policy.concurrency import Limit, Per, Wake
from curlhttp._policy.store import Answer, Store, StoreCommand, micros
from curlhttp.exceptions import DeadlineExceeded

__all__ = ["RateLimit", "Reservation"]

_MANY = 1000  # origins, from which on those without traffic are forgotten
_ROUNDING = 1e-6  # seconds: timers and sums of floats are not more exact
MADE_UP = 0.045  # seconds that a timer may be late without loss; repaid in 1 s: below 5 %


class Reservation:
    """A request's place in the line for the rate. The first one sleeps, those behind it wait.

    Args:
        limit: whose line it is; join() gets into it.
        wake: called when it becomes the first.
    """

    __slots__ = ("_bucket", "_limit", "wake")

    def __init__(self, limit: RateLimit, wake: Wake) -> None:
        self._limit = limit
        self._bucket: _Bucket | None = None  # None: not in line
        self.wake: Wake = wake

    @property
    def is_first(self) -> bool:
        """Return whether no turn is before this one; wake is called when that becomes so."""
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
    """When the next request may go: the theoretical arrival time of the GCRA.

    Timers fire late, which would add up to a lower rate. So a request that waited counts as sent
    when it was due, and the next ones come closer together. That is owed, and repaid by longer
    intervals within a second's worth of requests, so that no second has more than the rate.

    Attributes:
        due: monotonic seconds.
        owed: seconds; `due` of requests that count as sent earlier was never further behind.
        share: of an interval, by which intervals are longer as long as something is owed.
        waiting: those in line.
    """

    __slots__ = ("due", "owed", "share", "waiting")

    def __init__(self) -> None:
        self.due = -math.inf
        self.owed = self.share = 0.0
        self.waiting: OrderedDict[Reservation, None] = OrderedDict()

    def admit(self, now: float, interval: float, *, waited: bool) -> None:
        """Count a request that goes now, which sets when the next may.

        Args:
            now: monotonic seconds.
            interval: seconds from one request to the next.
            waited: it was in line; else its caller is late itself, unless it is so because it
                was held up before.
        """
        late = now - self.due
        if late > 0:
            if waited:
                late = min(late, MADE_UP)
            elif late > self.owed:  # a pause, which uses up what is owed
                late = self.owed = max(0.0, 2 * self.owed - late)
            if late > self.owed:
                self.owed = late
                self.share = max(self.share, late)  # for one second
            self.due = now - late
        repaid = min(self.owed, self.share * interval)
        self.owed -= repaid
        if not self.owed:
            self.share = 0.0
        self.due += interval + repaid


class RateLimit(Limit["Reservation"]):
    """Bound the requests per second; those beyond wait, in the order in which they came.

    In any period of a second or more there are at most `burst` and `rate` times its seconds; in
    shorter ones too, unless a timer fires late. That is made up for, up to 45 ms, by requests
    that are closer together. A limit may be shared by clients, threads and event loops.

    Args:
        rate: requests per second in the long run.
        burst: how many may go at once after a pause.
        per: "origin" for each origin by itself, None for all together.
        store: what all processes of one rate share it by, or None for this process alone.

    Raises:
        ValueError: the rate is not positive, or the burst below one.

    Source: the generic cell rate algorithm, ITU-T I.371.
    """

    def __init__(
        self,
        rate: float,
        burst: int = 1,
        per: Per = "origin",
        *,
        store: Store | None = None,
    ) -> None:
        if not (isinstance(burst, int) and burst >= 1):
            raise ValueError(f"burst must be a whole number from 1 on, not {burst!r}")
        if not (0 < rate < math.inf and burst / rate < math.inf):
            raise ValueError(f"rate must be a positive number of requests per second, not {rate!r}")
        self.rate = rate
        self.burst = burst
        self._interval = 1.0 / rate
        self._tolerance = (burst - 1) / rate
        self.store = store
        self._late = 0.0  # seconds, of the shared turns since the store heard of it last
        super().__init__(per)

    def _clear(self) -> None:
        super()._clear()
        self._buckets: dict[str, _Bucket] = {}
        self._too_many = _MANY

    def take(self, origin: str, now: float) -> bool:
        """Let a request go, if it may go now and no other one waits.

        Args:
            origin: whom it goes to.
            now: monotonic seconds.
        """
        with self._lock:
            bucket = self._bucket(origin, now)
            may_go = not bucket.waiting and self._wait(bucket, now) <= 0
            if may_go:
                bucket.admit(now, self._interval, waited=False)
        if self._leavers:
            self._release_leavers()
        return may_go

    def join(self, turn: Reservation, origin: str, now: float, patience: float) -> None:
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
            seconds = self._wait(bucket, now, len(bucket.waiting))
            if not bucket.waiting:
                bucket.due = max(bucket.due, now)  # no timer was late before there was one
            if seconds <= patience:
                turn._bucket = bucket
                bucket.waiting[turn] = None
        if self._leavers:
            self._release_leavers()
        if seconds > patience:
            raise self.too_long(seconds, patience)

    def too_long(self, seconds: float, patience: float) -> DeadlineExceeded:
        """Return the error for a request that has less time than it would wait.

        Args:
            seconds: that it would wait.
            patience: seconds that it has.
        """
        return DeadlineExceeded(
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
            self._release_leavers()

    # what processes share

    def reserving(self, origin: str, patience: float) -> StoreCommand:
        """Return what reserves a turn at a store.

        The answer is whether it did, the microseconds to wait, and what gives the turn back.

        Args:
            origin: whom the request goes to.
            patience: how many seconds it has; inf without a deadline.
        """
        late, self._late = self._late, 0.0

        def undo(answer: Answer) -> StoreCommand | None:
            return self.giving_back(origin, answer) if answer[0] else None

        most = -1 if patience == math.inf else max(0, micros(patience))
        numbers = (self._interval * 1e6, self._tolerance * 1e6, most, micros(late))
        return StoreCommand("rate", self._shared_key(origin), numbers, undo)

    def giving_back(self, origin: str, answer: Answer) -> StoreCommand:
        """Return what gives a turn back at the store, which is not used.

        Args:
            origin: whom the request would have gone to.
            answer: to what reserved it.
        """
        turn = tuple(str(part, "ascii") for part in answer[2:] if isinstance(part, bytes))
        return StoreCommand("rate_back", self._shared_key(origin), (self._interval * 1e6, *turn))

    def came_late(self, seconds: float) -> bool:
        """Return whether a shared turn is good that was slept for; a little late is made up for.

        Args:
            seconds: how late its request is.
        """
        if seconds <= MADE_UP:
            self._late = max(self._late, seconds)
        return seconds <= MADE_UP

    def _shared_key(self, origin: str) -> str:
        return f"{self.rate:g}/{self.burst}:{self._key(origin)}"

    def _is_first(self, turn: Reservation) -> bool:
        with self._lock:  # a line must not change while it is looked at
            bucket = turn._bucket
            first = bucket is None or next(iter(bucket.waiting), None) is turn
        if self._leavers:
            self._release_leavers()
        return first

    def _take_turn(self, turn: Reservation, now: float) -> float:
        wakes: list[Wake] = []
        with self._lock:
            bucket = turn._bucket
            assert bucket is not None
            seconds = self._wait(bucket, now)
            if seconds <= 0:
                bucket.admit(now, self._interval, waited=True)
                self._remove(turn, wakes)
        if self._leavers:
            self._release_leavers()
        for wake in wakes:
            wake()
        return seconds

    def _wait(self, bucket: _Bucket, now: float, before: int = 0) -> float:
        """Return the seconds until a request may go, 0 for now.

        Args:
            bucket: of its origin.
            now: monotonic seconds.
            before: how many go before it.
        """
        seconds = bucket.due - self._tolerance - now + before * self._interval
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

    def _remove(self, place: Reservation, wakes: list[Wake]) -> None:
        bucket, place._bucket = place._bucket, None
        if bucket is None:
            return
        was_first = next(iter(bucket.waiting), None) is place
        bucket.waiting.pop(place, None)
        if was_first and bucket.waiting:
            wakes.append(next(iter(bucket.waiting)).wake)

    def __repr__(self) -> str:
        return f"RateLimit({self.rate:g}, {self.burst}, per={self.per!r})"
