"""Concurrency and rate limits: concurrent requests, and requests per second.

Pure: they read no clock and do not wait. A request that has to wait gets a slot in a FIFO queue;
its `wake` is called in any thread, never with a lock held. A request that leaves the queue, even in
a finalizer, blocks none behind it.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar, cast

from curlhttp._features.shared_store import (
    Answer,
    Store,
    StoreCommand,
    StoreLease,
    check_store,
    micros,
)
from curlhttp._http.errors import check_number
from curlhttp._http.fork import register
from curlhttp._http.request import ClientRequest
from curlhttp._http.suggestions import with_suggestions
from curlhttp.exceptions import DeadlineExceeded, PoolTimeout

Per: TypeAlias = "Literal['origin'] | None"
Wake: TypeAlias = Callable[[], object]
Slot = TypeVar("Slot")


class Limit(Generic[Slot]):
    """Base class of limits: the key, and a lock that finalizers never wait for.

    Args:
        per: "origin" to limit each origin separately, None to limit all together.
    """

    _per_hint = ""

    def __init__(self, per: Per) -> None:
        if per not in ("origin", None):
            raise ValueError(
                f"per must be 'origin', or None for all together, not {per!r}{self._per_hint}"
            )
        self.per = per
        self._clear()
        register(self)

    def _after_fork_in_child(self) -> None:
        """Start empty, because a thread of the parent may have held the lock."""
        self._clear()

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._leaving: deque[Slot] = deque()

    def _key(self, origin: str) -> str:
        return origin if self.per else ""

    def _remove_later(self, slot: Slot) -> None:
        # A finalizer may run while this same thread holds the lock.
        self._leaving.append(slot)
        self._remove_leaving()

    def _remove_leaving(self) -> None:
        """Remove slots that requests gave up; a thread that holds the lock does it afterwards."""
        while self._leaving and self._lock.acquire(blocking=False):
            wakes: list[Wake] = []
            try:
                while self._leaving:
                    self._remove(self._leaving.popleft(), wakes)
            finally:
                self._lock.release()
            for wake in wakes:
                wake()

    def _remove(self, slot: Slot, wakes: list[Wake]) -> None:
        """Remove a slot, and append to `wakes` what has to be called after that."""
        raise NotImplementedError


class Lease:
    """A slot of a concurrency limit, or in the queue for one.

    Args:
        limit: the limit; _enqueue() puts the lease in its queue.
        wake: called when the lease is granted after a wait.

    Attributes:
        granted: the request may be sent; also after the release.
    """

    __slots__ = ("_is_woken", "_limit", "_queue", "granted", "wake")

    def __init__(self, limit: ConcurrencyLimit, wake: Wake | None = None) -> None:
        self._limit = limit
        self._queue: Queue | None = None  # None: holds nothing
        self.wake: Wake | None = wake
        self.granted: bool = False
        self._is_woken = False

    def confirm(self) -> None:
        """Note that the request has seen that it may be sent."""
        self._limit._confirm(self)

    def replace_wake(self, wake: Wake) -> bool:
        """Set what is called when the lease is granted; return whether it was granted before."""
        self.wake = wake
        return self.granted

    def note_stream(self, request: ClientRequest) -> None:
        """Note that a streamed response holds the slot until its end."""
        if self._queue is not None:
            self._queue.streams[id(self)] = request

    def release(self) -> None:
        """Release the slot, or leave the queue. Safe to call twice."""
        if self._queue is not None:
            self._limit._remove_later(self)

    def end(self, error: BaseException | None) -> None:
        """Release the slot at the end of a body."""
        self.release()

    def __del__(self) -> None:
        self.release()  # the request ended without releasing it


class Queue:
    """The requests of one key: those under way, and those that wait.

    Args:
        key: of the origin.
        limit: how many may be under way.

    Attributes:
        used: how many are under way.
        woken: how many of them were granted after a wait, but are not confirmed yet.
        waiting: the leases of the others, in order.
        moves: how many leases were granted after a wait.
        streams: the requests whose streamed responses have not ended, by the id of their lease.
    """

    __slots__ = ("key", "limit", "moves", "streams", "used", "waiting", "woken")

    def __init__(self, key: str, limit: int) -> None:
        self.key = key
        self.limit = limit
        self.used = 0
        self.woken = self.moves = 0
        self.waiting: OrderedDict[Lease, None] = OrderedDict()  # empty while slots are free
        self.streams: dict[int, ClientRequest] = {}


@with_suggestions("ConcurrencyLimit")
class ConcurrencyLimit(Limit["Lease"]):
    """Limit the number of concurrent requests, each from its start to the end of its body.

    Clients, threads and event loops can share one limit. Waiting requests are sent in the order in
    which they arrived.

    Args:
        limit: the maximum number of concurrent requests.
        per: "origin" to limit each origin separately, None to limit all together.
        store: a Store through which processes share the limit, or None for this process alone. If a
            process dies, its slots become free after 5 s.

    Raises:
        ValueError: the limit is below 1.
        TypeError: an argument has the wrong type.
    """

    _adapts: bool = False  # the limit changes with what note_response and note_failure are told

    def __init__(self, limit: int, *, per: Per = "origin", store: Store | None = None) -> None:
        check_number("limit", limit, least=1, whole=True)
        check_store(store)
        self.limit = limit
        self._store = store
        super().__init__(per)

    def _clear(self) -> None:
        super()._clear()
        self._queues: dict[str, Queue] = {}
        self._name = ""  # of this process in a store
        self._numbers = itertools.count()

    def _try_acquire(self, origin: str) -> Lease | None:
        """Return a granted lease, or None if the caller has to queue.

        Args:
            origin: of the request.
        """
        lease = Lease(self)
        with self._lock:
            queue = self._queue(origin)
            if queue.used < queue.limit and not queue.woken:
                self._grant(lease, queue)
        self._remove_leaving()
        return lease if lease.granted else None

    def _enqueue(self, lease: Lease, origin: str) -> None:
        """Queue a lease, which is woken when it is granted; release() always leaves the queue.

        It may be granted at once: while woken leases are not confirmed, _try_acquire() refuses
        slots that are free.

        Args:
            lease: a new one. The caller creates it, so that Ctrl-C cannot lose it in between.
            origin: of the request.
        """
        with self._lock:
            queue = self._queue(origin)
            if queue.used < queue.limit:
                self._grant_queued(lease, queue)
            else:
                lease._queue = queue
                queue.waiting[lease] = None
        if lease._is_woken and lease.wake is not None:
            lease.wake()
        self._remove_leaving()

    def in_use(self, origin: str) -> int:
        """Return how many requests to an origin are under way in this process.

        Args:
            origin: "scheme://host:port", such as URL.origin.
        """
        queue = self._queues.get(self._key(origin))
        return 0 if queue is None else queue.used

    def _describe_queue(self, origin: str) -> tuple[int, list[ClientRequest]]:
        """Return how often a request got a slot after a wait, and the streams that hold slots.

        Args:
            origin: of a request that waits.
        """
        queue = self._queues.get(self._key(origin))
        return (0, []) if queue is None else (queue.moves, list(queue.streams.copy().values()))

    def _states(self) -> dict[str, tuple[int, int, int]]:
        """Return the limit, the requests under way and those that wait, by origin."""
        return {
            key: (queue.limit, queue.used, len(queue.waiting))
            for key, queue in self._queues.copy().items()
        }

    def _is_own(self, name: str) -> bool:
        """Return whether a slot in a store belongs to this process, not to its parent."""
        return bool(self._name) and name.startswith(self._name)

    def _get_patience(self, request: ClientRequest, now: float) -> float | None:
        """Return how many seconds a request may wait for a slot, None for no limit.

        Args:
            request: the request.
            now: monotonic seconds.
        """
        return request.pool_seconds(now)

    def _make_timeout_error(
        self, request: ClientRequest, now: float
    ) -> DeadlineExceeded | PoolTimeout:
        """Return the error for a request that got no slot in time.

        Args:
            request: the request that waited.
            now: monotonic seconds.
        """
        return (DeadlineExceeded if request.is_late(now) else PoolTimeout)(
            f"{request}: none of the {self.limit} concurrent requests that the limit allows ended "
            "in time; close streamed responses, or raise the limit",
            request=request,
        )

    def _name_shared_slot(self, origin: str) -> tuple[str, str]:
        """Return the key of an origin's slots in a store, and the name for a new slot."""
        name = self._name
        if not name:
            from secrets import token_hex  # slow to import, and only needed with a store

            with self._lock:  # otherwise two first threads would use different names
                name = self._name = self._name or token_hex(8)
            self._remove_leaving()
        return f"{self.limit}:{self._key(origin)}", f"{name}-{next(self._numbers)}"

    def _queue(self, origin: str) -> Queue:
        key = self._key(origin)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = self._make_queue(key)
        return queue

    def _make_queue(self, key: str) -> Queue:
        return Queue(key, self.limit)

    def _grant(self, lease: Lease, queue: Queue) -> None:
        queue.used += 1
        lease._queue = queue
        lease.granted = True

    def _grant_queued(self, lease: Lease, queue: Queue) -> None:
        self._grant(lease, queue)
        lease._is_woken = True
        queue.woken += 1
        queue.moves += 1

    def _confirm(self, lease: Lease) -> None:
        with self._lock:
            self._note_confirmed(lease)
        self._remove_leaving()

    def _note_confirmed(self, lease: Lease) -> None:
        if lease._is_woken and lease._queue is not None:
            lease._is_woken = False
            lease._queue.woken -= 1

    def _remove(self, slot: Lease, wakes: list[Wake]) -> None:
        self._note_confirmed(slot)
        queue, slot._queue = slot._queue, None
        if queue is None:
            return
        if queue.streams:
            queue.streams.pop(id(slot), None)
        if not slot.granted:
            queue.waiting.pop(slot, None)
        else:
            queue.used -= 1
            self._grant_waiting(queue, wakes)
        if not queue.used and self._queues.get(queue.key) is queue:  # not a forked child's
            self._forget(queue)

    def _grant_waiting(self, queue: Queue, wakes: list[Wake]) -> None:
        while queue.waiting and queue.used < queue.limit:
            first, _ = queue.waiting.popitem(last=False)
            self._grant_queued(first, queue)
            if first.wake is not None:
                wakes.append(first.wake)

    def _forget(self, queue: Queue) -> None:
        """Drop a queue without requests."""
        del self._queues[queue.key]

    def __repr__(self) -> str:
        return f"ConcurrencyLimit({self.limit}, per={self.per!r})"


# --- A slot of a limit that processes share; it expires if its holder dies ---

_LEASE_SECONDS = 5.0  # until a slot expires that is not renewed
_RENEWAL_SECONDS = 1.5  # from one renewal to the next
_QUEUE_SECONDS = 2.0  # until a queued slot expires whose request does not ask again
_MIN_POLL, _MAX_POLL = 0.005, 0.25  # seconds between two commands to the store
_POLL_SHARE = 8  # the wait grows to an eighth of the time for which the queue has not moved


def get_poll_interval(before: int, since_move: float) -> float:
    """Return the seconds until the next command to the store.

    Args:
        before: number of requests ahead in the queue.
        since_move: seconds since the queue last moved.
    """
    return min(_MAX_POLL, max(_MIN_POLL * (1 + before), since_move / _POLL_SHARE))


class SharedLease:
    """A request's slot in a store.

    Args:
        limit: the concurrency limit.
        store: of the limit.
        origin: of the request.
    """

    __slots__ = ("_is_released", "_key", "_lease", "_limit", "_name", "_store")

    def __init__(self, limit: ConcurrencyLimit, store: Store, origin: str) -> None:
        self._limit = limit
        self._store = store
        self._key, self._name = limit._name_shared_slot(origin)
        self._lease: StoreLease | None = None
        self._is_released = False

    def make_acquire_command(self, *, joins: bool) -> StoreCommand:
        """Return the command that acquires the slot.

        Args:
            joins: queue if no slot is free.
        """

        def undo(answer: Answer) -> StoreCommand:
            return self._command("leave")

        return self._command("take", int(joins))._replace(undo=undo)

    def start(self) -> None:
        """Renew the slot from now on, because it was granted."""
        self._lease = self._store.hold(self._command("keep"), _RENEWAL_SECONDS)

    def release(self) -> None:
        """Release the slot, or leave the queue. Safe to call twice, and in finalizers."""
        if not self._is_released:
            self._is_released = True
            if not self._limit._is_own(self._name):
                return  # a copy in a forked child: the slot belongs to the parent
            if self._lease is not None:
                self._lease.end()
            self._store.tell(self._command("leave"))

    def end(self, error: BaseException | None) -> None:
        """Release the slot at the end of a body."""
        self.release()

    def __del__(self) -> None:
        self.release()  # the request ended without releasing it

    def _command(self, step: str, joins: int = 0) -> StoreCommand:
        times = (micros(_LEASE_SECONDS), micros(_QUEUE_SECONDS))
        return StoreCommand(
            "lease", self._key, (step, self._name, self._limit.limit, *times, joins)
        )


# --- Requests per second ---

_IDLE_BUCKETS = 1000  # number of origins beyond which idle ones are dropped
_ROUNDING = 1e-6  # seconds: timers and sums of floats are not more exact
MAX_CATCH_UP = 0.045  # seconds of a late timer that are made up for; repaid in 1 s: below 5 %
# Processes that share a rate send a little after their reserved times, some later than others. So
# that the server gets no more than the rate, intervals are longer by this fraction, or by these
# seconds if that is less.
_SHARED_MARGIN, _MAX_SHARED_MARGIN = 0.01, 0.01


class Reservation:
    """A request's slot in the queue for the rate. The first one sleeps, the others wait.

    Args:
        limit: the limit; _enqueue() puts the reservation in its queue.
        wake: called when the reservation becomes the first.
    """

    __slots__ = ("_bucket", "_limit", "wake")

    def __init__(self, limit: RateLimit, wake: Wake) -> None:
        self._limit = limit
        self._bucket: _Bucket | None = None  # None: not in the queue
        self.wake: Wake = wake

    @property
    def is_first(self) -> bool:
        """Return whether no reservation is ahead; wake is called when this becomes true."""
        return self._limit._is_first(self)

    def try_acquire(self, now: float) -> float:
        """Return 0 if the request may be sent now, otherwise the seconds to sleep before a retry.

        Args:
            now: monotonic seconds.
        """
        return self._limit._try_first(self, now)

    def leave(self) -> None:
        """Leave the queue."""
        if self._bucket is not None:
            self._limit._remove_later(self)


class _Bucket:
    """When the next request may be sent: the theoretical arrival time of the GCRA.

    Timers fire late, which would add up to a lower rate. So a request that waited counts as sent
    when it was due, and the next ones follow sooner. This debt is repaid by longer intervals within
    a second's worth of requests, so that no second has more requests than the rate.

    Attributes:
        due: monotonic seconds.
        owed: the debt in seconds.
        share: the fraction by which each interval is longer until the debt is repaid.
        waiting: the queue.
    """

    __slots__ = ("due", "owed", "share", "waiting")

    def __init__(self) -> None:
        self.due = -math.inf
        self.owed = self.share = 0.0
        self.waiting: OrderedDict[Reservation, None] = OrderedDict()

    def admit(self, now: float, interval: float, *, waited: bool) -> None:
        """Count a request that is sent now, and set when the next one may be.

        Args:
            now: monotonic seconds.
            interval: seconds from one request to the next.
            waited: the request was in the queue, so that it is late because of a timer.
        """
        late = now - self.due
        if late > 0:
            if waited:
                late = min(late, MAX_CATCH_UP)
            elif late > self.owed:  # a pause, which repays the debt
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


@with_suggestions("RateLimit")
class RateLimit(Limit["Reservation"]):
    """Limit the number of requests per second. Further requests wait, first come, first served.

    In any period of t seconds, at most `burst + rate * t` requests are sent. In periods of less
    than a second, there may be more if a timer fires late: the next requests are sent sooner, to
    make up for up to 45 ms. Clients, threads and event loops can share one limit.

    Args:
        rate: requests per second in the long run; 10 / 60 means 10 per minute.
        burst: the maximum number of requests that may be sent at once after a pause.
        per: "origin" to limit each origin separately, None to limit all together.
        store: a Store through which processes share the rate, or None for this process alone. The
            processes send up to 1 % fewer requests, so that the server gets no more than the rate
            although their timers fire up to 10 ms late.

    Raises:
        ValueError: the rate is not positive, or the burst is below 1.
        TypeError: an argument has the wrong type.

    Source: the generic cell rate algorithm, ITU-T I.371.
    """

    _per_hint = "; the rate is per second: RateLimit(10 / 60, burst=10) is 10 per minute"

    def __init__(
        self,
        rate: float,
        *,
        burst: int = 1,
        per: Per = "origin",
        store: Store | None = None,
    ) -> None:
        if isinstance(cast(object, rate), (str, tuple)):
            raise TypeError(
                "rate must be a number of requests per second: RateLimit(5), or "
                f"RateLimit(10 / 60, burst=10) for 10 per minute, not {rate!r:.100}"
            )
        check_number("rate", rate, above=0, unit="requests per second")
        check_number("burst", burst, least=1, whole=True)
        if burst / rate == math.inf:
            raise ValueError(f"rate must be greater than {rate!r} requests per second")
        check_store(store)
        self.rate = rate
        self.burst = burst
        self._interval = 1.0 / rate
        self._tolerance = (burst - 1) / rate
        self._store = store
        self._shared_interval = self._interval + min(
            self._interval * _SHARED_MARGIN, _MAX_SHARED_MARGIN
        )
        self._late = 0.0  # seconds, of shared reservations since the last report to the store
        super().__init__(per)

    def _clear(self) -> None:
        super()._clear()
        self._buckets: dict[str, _Bucket] = {}
        self._too_many = _IDLE_BUCKETS

    def _try_acquire(self, origin: str, now: float) -> bool:
        """Return whether a request may be sent now, and count it; False if others wait.

        Args:
            origin: of the request.
            now: monotonic seconds.
        """
        with self._lock:
            bucket = self._bucket(origin, now)
            may_go = not bucket.waiting and self._wait(bucket, now) <= 0
            if may_go:
                bucket.admit(now, self._interval, waited=False)
        self._remove_leaving()
        return may_go

    def _enqueue(self, reservation: Reservation, origin: str, now: float, patience: float) -> None:
        """Queue a reservation; its leave() always removes it.

        Args:
            reservation: a new one.
            origin: of the request.
            now: monotonic seconds.
            patience: seconds until the deadline; inf without one.

        Raises:
            DeadlineExceeded: the request would have to wait longer than that.
        """
        with self._lock:
            bucket = self._bucket(origin, now)
            seconds = self._wait(bucket, now, len(bucket.waiting))
            if not bucket.waiting:
                bucket.due = max(bucket.due, now)  # no timer can have been late before
            if seconds <= patience:
                reservation._bucket = bucket
                bucket.waiting[reservation] = None
        self._remove_leaving()
        if seconds > patience:
            raise self._make_deadline_error(seconds, patience)

    def _make_deadline_error(self, seconds: float, patience: float) -> DeadlineExceeded:
        """Return the error for a request whose deadline comes before the limit admits it.

        Args:
            seconds: how long it would wait.
            patience: seconds until its deadline.
        """
        return DeadlineExceeded(
            f"the rate limit of {self.rate:g} requests per second admits it in {seconds:.3g} s, "
            f"but its deadline is in {max(0.0, patience):.3g} s; it was not sent"
        )

    def _refund(self, origin: str) -> None:
        """Undo try_acquire() for a request that was not sent.

        Args:
            origin: of the request.
        """
        with self._lock:
            bucket = self._buckets.get(self._key(origin))
            if bucket is not None:
                bucket.due -= self._interval
        self._remove_leaving()

    # in a store

    def _make_reserve_command(self, origin: str, patience: float) -> StoreCommand:
        """Return the command that reserves a time to send a request.

        The answer has whether it did, the microseconds to wait, and the arguments of a refund.

        Args:
            origin: of the request.
            patience: seconds until the deadline; inf without one.
        """
        late, self._late = self._late, 0.0

        def undo(answer: Answer) -> StoreCommand | None:
            return self._make_refund_command(origin, answer) if answer[0] else None

        most = -1 if patience == math.inf else max(0, micros(patience))
        interval = self._shared_interval * 1e6
        numbers = (interval, (self.burst - 1) * interval, most, micros(late))
        return StoreCommand("rate", self._shared_key(origin), numbers, undo)

    def _make_refund_command(self, origin: str, answer: Answer) -> StoreCommand:
        """Return the command that refunds an unused reservation.

        Args:
            origin: of the request.
            answer: to the command that made the reservation.
        """
        reserved = tuple(str(part, "ascii") for part in answer[2:] if isinstance(part, bytes))
        return StoreCommand(
            "rate_back", self._shared_key(origin), (self._shared_interval * 1e6, *reserved)
        )

    def _accept_lateness(self, seconds: float) -> bool:
        """Return whether a shared reservation is valid after the sleep; make up for a short delay.

        Args:
            seconds: how late the request is.
        """
        if seconds <= MAX_CATCH_UP:
            self._late = max(self._late, seconds)
        return seconds <= MAX_CATCH_UP

    def _shared_key(self, origin: str) -> str:
        return f"{self.rate:g}/{self.burst}:{self._key(origin)}"

    def _is_first(self, reservation: Reservation) -> bool:
        with self._lock:  # the queue must not change meanwhile
            bucket = reservation._bucket
            first = bucket is None or next(iter(bucket.waiting), None) is reservation
        self._remove_leaving()
        return first

    def _try_first(self, reservation: Reservation, now: float) -> float:
        wakes: list[Wake] = []
        with self._lock:
            bucket = reservation._bucket
            assert bucket is not None
            seconds = self._wait(bucket, now)
            if seconds <= 0:
                bucket.admit(now, self._interval, waited=True)
                self._remove(reservation, wakes)
        self._remove_leaving()
        for wake in wakes:
            wake()
        return seconds

    def _wait(self, bucket: _Bucket, now: float, before: int = 0) -> float:
        """Return the seconds until a request may be sent, 0 for now.

        Args:
            bucket: of its origin.
            now: monotonic seconds.
            before: number of requests ahead.
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
        """Drop buckets that are as good as new."""
        self._buckets = {
            key: bucket
            for key, bucket in self._buckets.items()
            if bucket.waiting or bucket.due > now
        }
        self._too_many = max(_IDLE_BUCKETS, 2 * len(self._buckets))

    def _remove(self, slot: Reservation, wakes: list[Wake]) -> None:
        bucket, slot._bucket = slot._bucket, None
        if bucket is None:
            return
        was_first = next(iter(bucket.waiting), None) is slot
        bucket.waiting.pop(slot, None)
        if was_first and bucket.waiting:
            wakes.append(next(iter(bucket.waiting)).wake)

    def __repr__(self) -> str:
        return f"RateLimit({self.rate:g}, burst={self.burst}, per={self.per!r})"
