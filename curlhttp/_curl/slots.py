"""How many transfers may run at once, and who waits until one more may.

It is the bound on sockets: callers wait here, in FIFO order, so that ten thousand tasks never
mean ten thousand connections. Knows no transfer: a slot is a number.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

from curlhttp._models.request import Request
from curlhttp.exceptions import DeadlineExceeded, PoolTimeout

__all__ = ["SlotWaiter", "Slots", "no_free_slot", "open_files_bound"]

_SPARE_FILES = 64  # for the rest of the process, at least half of that
_ORIGINS = 1000  # without a bound, from which on those that are not in use are forgotten


def open_files_bound(wanted: int, each: int = 1) -> int:
    """Return how many connections fit under the limit of open files (RLIMIT_NOFILE).

    Args:
        wanted: connections at most.
        each: descriptors that a connection takes.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    # Asked for each client: a program may raise it when it starts.
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, max(soft - _SPARE_FILES, soft // 2) // each))


class SlotWaiter:
    """One caller that waits for a slot.

    Args:
        origin: see Slots.
        wake: called when the slot is granted, unless the slots are given something else to call.

    Attributes:
        granted: the slot is this caller's, and must be given back.
    """

    __slots__ = ("granted", "origin", "wake")

    def __init__(self, origin: str, wake: Callable[[], object] | None) -> None:
        self.origin = origin
        self.wake = wake
        self.granted = False


def _wake(waiter: SlotWaiter) -> None:
    if waiter.wake is not None:
        waiter.wake()


class Slots:
    """Count what runs, in all and per origin; the first that may go is the first to go.

    Not thread-safe: callers in threads hold a lock.

    Args:
        total: slots in all.
        per_origin: slots per origin, or None; the origin "" has no bound of its own.
        on_grant: called once with each waiter that is granted a slot; by default it is woken.
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
        self._on_grant = on_grant
        self._used_by: dict[str, int] = {}
        self.waiters: OrderedDict[SlotWaiter, None] = OrderedDict()  # any may leave, at no cost
        self._unbound: set[str] = set()  # origins without a bound of their own

    def take(self, origin: str) -> bool:
        """Take a slot if one is free and nobody else waits for it."""
        if self.per_origin is None:
            if self.waiters or self.used >= self.total:
                return False
            self.used += 1
            return True
        # With a bound per origin, callers may wait although there are slots: those for an origin
        # that is full keep none from other origins.
        if self.waiters and not self._only_others_wait(origin):
            return False
        return self._admit(origin)

    def _only_others_wait(self, origin: str) -> bool:
        """Return whether every waiter is held up by its own origin's bound."""
        return all(
            waiter.origin != origin and not self._has_room(waiter.origin) for waiter in self.waiters
        )

    def _has_room(self, origin: str) -> bool:
        limit = self.per_origin
        if limit is None or not origin or self._used_by.get(origin, 0) < limit:
            return True
        return origin in self._unbound

    def _admit(self, origin: str) -> bool:
        if self.used >= self.total or not self._has_room(origin):
            return False
        self.used += 1
        if self.per_origin is not None:
            self._used_by[origin] = self._used_by.get(origin, 0) + 1
        return True

    def wait(self, waiter: SlotWaiter) -> None:
        """Queue up for a slot."""
        self.waiters[waiter] = None

    def unbind(self, origin: str) -> None:
        """Let everybody in who waits for an origin alone, now and later."""
        if len(self._unbound) >= _ORIGINS:
            self._unbound.intersection_update(self._used_by)
        self._unbound.add(origin)
        self._grant_all()

    def leave(self, waiter: SlotWaiter) -> None:
        """Stop waiting; a slot that was granted meanwhile goes to the next."""
        if waiter.granted:
            self.give(waiter.origin)
        else:
            del self.waiters[waiter]

    def give(self, origin: str) -> None:
        """Give a slot back, to the first waiter that may have it."""
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
                self._on_grant(waiter)
                return True
        return False

    def _grant_all(self) -> None:
        while self._grant():
            pass

    def lift(self) -> None:
        """Let everybody in, now and later: those that waited find the client closed."""
        self.total, self.per_origin = sys.maxsize, None
        self._grant_all()


def no_free_slot(request: Request, bound: int) -> PoolTimeout | DeadlineExceeded:
    """Return the exception for a wait that was too long."""
    return (DeadlineExceeded if request.is_late(monotonic()) else PoolTimeout)(
        f"{request}: none of the {bound} connections became free in time; "
        "close streamed responses, or raise max_connections or timeout=Timeout(pool=...)",
        request=request,
    )
