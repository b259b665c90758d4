"""Limit how many transfers run at once; callers queue for a slot.

This limits the sockets: callers wait here, in FIFO order, so that ten thousand tasks do not open
ten thousand connections.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable
from time import monotonic

from curlhttp._http.request import ClientRequest
from curlhttp._libcurl.transfer import Transfer
from curlhttp._runtime.log import WARN_AFTER, log
from curlhttp._runtime.outcomes import Outcomes
from curlhttp.exceptions import DeadlineExceeded, PoolTimeout

_SPARE_FILES = 64  # for the rest of the process; half of the limit if that is less
_ORIGINS = 1000  # without a limit; beyond that, those that are not in use are forgotten


def limit_by_open_files(wanted: int, each: int = 1) -> int:
    """Return how many connections fit under the limit of open files (RLIMIT_NOFILE).

    Args:
        wanted: connections at most.
        each: descriptors for each connection.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    # Read for each client, because a program may raise it when it starts.
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, max(soft - _SPARE_FILES, soft // 2) // each))


class SlotWaiter:
    """One caller that waits for a slot.

    Args:
        origin: see Slots.
        wake: called when the slot is granted, unless the slots have their own `on_grant`.
        queued_at: the monotonic time.

    Attributes:
        granted: this caller has the slot, and must release it.
    """

    __slots__ = ("granted", "origin", "queued_at", "wake")

    def __init__(
        self, origin: str, wake: Callable[[], object] | None, queued_at: float = 0.0
    ) -> None:
        self.queued_at = queued_at
        self.origin = origin
        self.wake = wake
        self.granted = False


def _wake(waiter: SlotWaiter) -> None:
    if waiter.wake is not None:
        waiter.wake()


class Slots:
    """Count running transfers, in total and per origin; the first waiter that may run goes first.

    Not thread-safe: callers in threads hold a lock.

    Args:
        total: slots in total.
        per_origin: slots per origin, or None; the origin "" is not limited.
        on_grant: called once with each waiter that gets a slot; by default the waiter is woken.

    Attributes:
        granted: how many waiters got a slot.
    """

    def __init__(
        self,
        total: int,
        per_origin: int | None = None,
        on_grant: Callable[..., object] = _wake,
    ) -> None:
        self.total = total
        self.per_origin = per_origin
        self.used = 0
        self.granted = 0
        self._on_grant = on_grant
        self._used_by: dict[str, int] = {}
        self.waiters: OrderedDict[SlotWaiter, None] = OrderedDict()  # any may leave, cheaply
        self._unlimited: set[str] = set()  # origins that per_origin does not limit

    def acquire(self, origin: str) -> bool:
        """Acquire a slot if one is free and nobody else waits for it; return False otherwise."""
        # With a limit per origin, callers may wait although there are slots: those for a full
        # origin do not block other origins.
        if self.waiters and not self._only_others_wait(origin):
            return False
        return self._admit(origin)

    def _only_others_wait(self, origin: str) -> bool:
        """Return whether every waiter waits for another origin, which is full."""
        return all(
            waiter.origin != origin and not self.has_room(waiter.origin) for waiter in self.waiters
        )

    def has_room(self, origin: str) -> bool:
        """Return whether an origin has fewer slots than it may have."""
        limit = self.per_origin
        if limit is None or not origin or self._used_by.get(origin, 0) < limit:
            return True
        return origin in self._unlimited

    def _admit(self, origin: str) -> bool:
        if self.used >= self.total or not self.has_room(origin):
            return False
        if self.per_origin is not None:
            count = self._used_by.get(origin, 0) + 1
            # Ctrl-C cannot come between these two, because there is no call.
            self._used_by[origin] = count
        self.used += 1
        return True

    def waits(self) -> list[float]:
        """Return how many seconds each waiter has waited; any thread may call this."""
        now = monotonic()
        return [now - waiter.queued_at for waiter in self.waiters.copy()]

    def wait(self, waiter: SlotWaiter) -> None:
        """Queue for a slot."""
        self.waiters[waiter] = None

    def lift_origin_limit(self, origin: str) -> None:
        """Stop limiting an origin, and grant slots to those that only waited for this limit."""
        if len(self._unlimited) >= _ORIGINS:
            self._unlimited.intersection_update(self._used_by)
        self._unlimited.add(origin)
        self._grant_all()

    def leave(self, waiter: SlotWaiter) -> None:
        """Stop waiting; a slot that was granted meanwhile goes to the next waiter."""
        if waiter.granted:
            self.release(waiter.origin)
        else:
            del self.waiters[waiter]

    def release(self, origin: str) -> None:
        """Release a slot; the first waiter that may have it gets it."""
        self.used -= 1
        if self.per_origin is not None:
            left = self._used_by[origin] - 1
            if left:
                self._used_by[origin] = left
            else:
                del self._used_by[origin]
        if self.waiters:
            self._grant()

    def _grant(self) -> bool:
        for waiter in self.waiters:  # the first that may go, which need not be the oldest
            if self._admit(waiter.origin):
                del self.waiters[waiter]
                waiter.granted = True
                self.granted += 1
                self._on_grant(waiter)
                return True
        return False

    def _grant_all(self) -> None:
        while self._grant():
            pass

    def lift_limits(self) -> None:
        """Grant all slots, now and later; the waiting requests then find the client closed."""
        self.total, self.per_origin = sys.maxsize, None
        self._grant_all()


_NAMED = 5  # holders of slots that a message names


def describe_holders(transfers: Iterable[Transfer]) -> str:
    """Return who holds the slots, and for how long nothing has arrived, the longest first."""
    now = monotonic()
    found = [(one.last_activity, one) for one in transfers if one.request is not None]
    found.sort(key=lambda each: each[0])
    named = [f"{one.request} (silent for {now - since:.1f} s)" for since, one in found[:_NAMED]]
    more = len(found) - _NAMED
    return ", ".join(named) + (f" and {more} more" if more > 0 else "")


def find_unread(transfers: Iterable[Transfer]) -> list[Transfer]:
    """Return those of streamed responses that nobody reads."""
    since = monotonic() - WARN_AFTER
    return [
        one
        for one in transfers
        if one.head is not None
        and one.wake is None
        and one.last_activity < since
        and one.request is not None
        and one.request.stream
    ]


def warn_of_wait(
    request: ClientRequest, limit: int, holders: Iterable[Transfer], *, has_moved: bool
) -> None:
    """Log that a request waits for a slot while none becomes free, or some are held by unread ones.

    Args:
        request: that waits.
        limit: how many slots there are.
        holders: of slots.
        has_moved: other slots became free.
    """
    what = "some are held by responses that nobody reads" if has_moved else "none became free"
    log.warn(
        "%s waits for one of %d connections, and %s for a while. They are held by "
        "%s. Read or close streamed responses and WebSockets, or raise max_connections. To limit "
        "this wait, set timeout=Timeout(pool=...)",
        request,
        limit,
        what,
        describe_holders(holders),
    )


def no_slot_error(
    request: ClientRequest, limit: int, waiter: SlotWaiter
) -> PoolTimeout | DeadlineExceeded:
    """Return the exception for a wait for a slot that took too long."""
    now = monotonic()
    error = (DeadlineExceeded if request.is_late(now) else PoolTimeout)(
        f"{request}: none of the {limit} connections became free in time; "
        "close streamed responses, or raise max_connections or timeout=Timeout(pool=...)",
        request=request,
    )
    error._waited = "pool", now - waiter.queued_at
    return error


def count_failed_wait(
    outcomes: Outcomes, request: ClientRequest, error: BaseException, since: float
) -> None:
    """Count an attempt that was not started, because it got no slot.

    Args:
        outcomes: of the client.
        request: that waited.
        error: that ended the wait.
        since: when it began, in monotonic seconds.
    """
    if isinstance(error, GeneratorExit):  # in a finalizer
        return
    origin = request.url.origin
    outcomes.add_wait(origin, "pool", monotonic() - since)
    outcomes.add_failure(origin, error, "pool", None)
