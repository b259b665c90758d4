"""Limits for each origin: concurrent requests, and requests per second."""

from __future__ import annotations

import itertools
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar

from curlhttp._models.fork import register
from curlhttp._models.request import Request
from curlhttp._policy.store import Answer, Store, StoreCommand, micros
from curlhttp.exceptions import DeadlineExceeded, PoolTimeout

__all__ = ["ConcurrencyLimit", "Lease", "Limit", "Per", "RateLimit", "Reservation", "Wake"]


# --- What both limits of a client have in common: requests at once, and requests per second ---
#
# They read no clock and wait for nothing. A request that has to wait gets a place in a FIFO queue;
# its `wake` is called in any thread, never with a lock held. A request that leaves the queue, even
# in a finalizer, holds up none behind it.

Per: TypeAlias = "Literal['origin'] | None"
Wake: TypeAlias = Callable[[], object]
Place = TypeVar("Place")


class Limit(Generic[Place]):
    """Keep a key, and a lock that finalizers need not wait for.

    Args:
        per: "origin" for each origin by itself, None for all together.
    """

    def __init__(self, per: Per) -> None:
        if per not in ("origin", None):
            raise ValueError(f"per must be 'origin', or None for all together, not {per!r}")
        self.per = per
        self._clear()
        register(self)

    def after_fork_in_child(self) -> None:
        """Forget what the parent counted, whose lock may be held by a thread of its own."""
        self._clear()

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._leavers: deque[Place] = deque()

    def _key(self, origin: str) -> str:
        return origin if self.per else ""

    def _leave(self, place: Place) -> None:
        # A finalizer may run while this very thread has the lock.
        self._leavers.append(place)
        self._release_leavers()

    def _release_leavers(self) -> None:
        """Remove the places that are left; if a thread has the lock, it does so afterwards."""
        while self._leavers and self._lock.acquire(blocking=False):
            wakes: list[Wake] = []
            try:
                while self._leavers:
                    self._remove(self._leavers.popleft(), wakes)
            finally:
                self._lock.release()
            for wake in wakes:
                wake()

    def _remove(self, place: Place, wakes: list[Wake]) -> None:
        """Remove a place, and add to `wakes` what that wakes."""
        raise NotImplementedError


class Lease:
    """A place among the requests under way, or in the line for one.

    Args:
        limit: whose place it is; join() gets it.
        wake: called when it is granted after a wait.

    Attributes:
        granted: the request may go; never unset.
    """

    __slots__ = ("_is_woken", "_limit", "_line", "granted", "wake")

    def __init__(self, limit: ConcurrencyLimit, wake: Wake | None = None) -> None:
        self._limit = limit
        self._line: _Queue | None = None  # None: not in the books
        self.wake: Wake | None = wake
        self.granted: bool = False
        self._is_woken = False

    def go_on(self) -> None:
        """Note that the wait is over, and the request goes from here on."""
        self._limit._go_on(self)

    def give(self) -> None:
        """Give the place back, or leave the line; a second time is nothing."""
        if self._line is not None:
            self._limit._leave(self)

    def end(self, error: BaseException | None) -> None:
        """Give the place back at the end of a body."""
        self.give()

    def __del__(self) -> None:
        self.give()  # the request that had it ended without giving it back


class _Queue:
    __slots__ = ("key", "used", "waiting", "woken")

    def __init__(self, key: str) -> None:
        self.key = key
        self.used = 0
        self.woken = 0  # were granted a place in line, and have not gone on yet
        self.waiting: OrderedDict[Lease, None] = OrderedDict()  # empty while there is room


class ConcurrencyLimit(Limit["Lease"]):
    """Bound the requests under way, from their start to the end of the body.

    One may be shared by clients, threads and event loops; requests that wait go in the order in
    which they came.

    Args:
        limit: how many.
        per: "origin" for each origin by itself, None for all together.
        store: what all processes of one limit share it by, or None for this process alone. The
            places of a process that died are free after 5 s.

    Raises:
        ValueError: the limit is below one.
    """

    def __init__(self, limit: int, per: Per = "origin", *, store: Store | None = None) -> None:
        if not (isinstance(limit, int) and limit >= 1):
            raise ValueError(f"limit must be a whole number from 1 on, not {limit!r}")
        self.limit = limit
        self.store = store
        super().__init__(per)

    def _clear(self) -> None:
        super()._clear()
        self._lines: dict[str, _Queue] = {}
        self._name = ""  # of this process, at a store
        self._numbers = itertools.count()

    def take(self, origin: str) -> Lease | None:
        """Return a lease, or None when the caller has to wait in line.

        Args:
            origin: whom the request goes to.
        """
        lease = Lease(self)
        with self._lock:
            line = self._line(origin)
            if line.used < self.limit and not line.woken:
                self._grant(lease, line)
        if self._leavers:
            self._release_leavers()
        return lease if lease.granted else None

    def join(self, lease: Lease, origin: str) -> None:
        """Wake a lease when it is granted; whatever happens, its give() leaves the line.

        That may be at once: while leases that were woken have not gone on, there is room that is
        not to be had by take().

        Args:
            lease: a new one. It is the caller's before, so that Ctrl-C cannot come in between.
            origin: whom the request goes to.
        """
        with self._lock:
            line = self._line(origin)
            if line.used < self.limit:
                self._grant_in_line(lease, line)
            else:
                lease._line = line
                line.waiting[lease] = None
        if lease._is_woken and lease.wake is not None:
            lease.wake()
        if self._leavers:
            self._release_leavers()

    def in_use(self, origin: str) -> int:
        """Return how many requests to an origin are under way.

        Args:
            origin: "scheme://host:port", as URL.origin has it.
        """
        line = self._lines.get(self._key(origin))
        return 0 if line is None else line.used

    def is_own(self, name: str) -> bool:
        """Return whether a place at a store is this process's, and not its parent's."""
        return bool(self._name) and name.startswith(self._name)

    def no_room(self, request: Request, now: float) -> DeadlineExceeded | PoolTimeout:
        """Return the error for a request that got no place in time.

        Args:
            request: which waited.
            now: monotonic seconds.
        """
        return (DeadlineExceeded if request.is_late(now) else PoolTimeout)(
            f"{request}: none of the {self.limit} requests at once that the "
            "limit allows ended in time; close streamed responses, or raise the limit",
            request=request,
        )

    def shared_place(self, origin: str) -> tuple[str, str]:
        """Return the key of an origin's places at a store, and the name of a new place."""
        name = self._name
        if not name:
            from secrets import token_hex  # slow to import, and only limits of a store need it

            with self._lock:  # else the first threads would get names that is_own does not know
                name = self._name = self._name or token_hex(8)
            self._release_leavers()
        return f"{self.limit}:{self._key(origin)}", f"{name}-{next(self._numbers)}"

    def _line(self, origin: str) -> _Queue:
        key = self._key(origin)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Queue(key)
        return line

    def _grant(self, lease: Lease, line: _Queue) -> None:
        line.used += 1
        lease._line = line
        lease.granted = True

    def _grant_in_line(self, lease: Lease, line: _Queue) -> None:
        self._grant(lease, line)
        lease._is_woken = True
        line.woken += 1

    def _go_on(self, lease: Lease) -> None:
        with self._lock:
            self._note_going(lease)
        if self._leavers:
            self._release_leavers()

    def _note_going(self, lease: Lease) -> None:
        if lease._is_woken and lease._line is not None:
            lease._is_woken = False
            lease._line.woken -= 1

    def _remove(self, place: Lease, wakes: list[Wake]) -> None:
        self._note_going(place)
        line, place._line = place._line, None
        if line is None:
            return
        if not place.granted:
            line.waiting.pop(place, None)
        else:
            line.used -= 1
            if line.waiting:
                first, _ = line.waiting.popitem(last=False)
                self._grant_in_line(first, line)
                if first.wake is not None:
                    wakes.append(first.wake)
        if not line.used and self._lines.get(line.key) is line:  # not a forked child's
            del self._lines[line.key]

    def __repr__(self) -> str:
        return f"ConcurrencyLimit({self.limit}, per={self.per!r})"


# --- How many requests may go per second, for each origin ---

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
