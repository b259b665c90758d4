"""The pool: how many transfers may run at once, who waits, and which idle handle is next.

It is the bound on sockets: callers wait here, in FIFO order, so that ten thousand tasks never
mean ten thousand connections.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Any

from curlhttp._curl.transfer import Transfer
from curlhttp._models.request import Request
from curlhttp.exceptions import DeadlineExceeded, PoolTimeout

__all__ = ["Handles", "KeyedHandles", "Slots", "Waiter", "no_free_handle", "open_files_bound"]

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
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, max(soft - _SPARE_FILES, soft // 2) // each))


class Waiter:
    """One caller that waits for a slot.

    Attributes:
        wake: called once, when the slot is granted.
        granted: the slot is this caller's, and must be given back.
    """

    __slots__ = ("granted", "origin", "wake")

    def __init__(self, origin: str, wake: Callable[[], object]) -> None:
        self.origin = origin
        self.wake = wake
        self.granted = False


class Slots:
    """Count what runs, in all and per origin; the first that may go is the first to go.

    Not thread-safe: callers in threads hold a lock.

    Args:
        total: slots in all.
        per_origin: slots per origin, or None; the origin "" has no bound of its own.
        in_order: a waiter that was granted a slot goes on before anybody else takes one. For
            tasks of one event loop: a thread may take long to wake up.
    """

    def __init__(
        self, total: int, per_origin: int | None = None, *, in_order: bool = False
    ) -> None:
        self.total = total
        self.per_origin = per_origin
        self.used = 0
        self._used_by: dict[str, int] = {}
        self.waiters: OrderedDict[Waiter, None] = OrderedDict()  # any may leave, at no cost
        self._unbound: set[str] = set()  # origins without a bound of their own
        self._in_order = in_order
        self._woken = 0  # were granted a slot and have not gone on yet
        self._is_held_up = False  # there is a waiter that waits for nothing but those

    def take(self, origin: str) -> bool:
        """Take a slot if one is free and nobody else waits for it."""
        if self._woken:
            return False
        if self.per_origin is None:
            if self.waiters or self.used >= self.total:
                return False
            self.used += 1
            return True
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

    def wait(self, waiter: Waiter) -> None:
        """Queue up; waiter.wake is called with the slot granted."""
        self.waiters[waiter] = None
        if self.used < self.total and self._has_room(waiter.origin):
            self._is_held_up = True

    def unbind(self, origin: str) -> None:
        """Let everybody in who waits for an origin alone, now and later."""
        if len(self._unbound) >= _ORIGINS:
            self._unbound.intersection_update(self._used_by)
        self._unbound.add(origin)
        self._grant_all()

    def go_on(self) -> None:
        """Note that a waiter uses from here on the slot that it was granted."""
        if self._in_order:
            self._woken -= 1
        if self._is_held_up:
            self._is_held_up = False
            self._grant_all()

    def leave(self, waiter: Waiter) -> None:
        """Stop waiting; a slot that was granted meanwhile goes to the next."""
        if waiter.granted:
            self.give(waiter.origin)
            self.go_on()
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
        for waiter in self.waiters:
            if self._admit(waiter.origin):
                del self.waiters[waiter]
                waiter.granted = True
                if self._in_order:
                    self._woken += 1
                waiter.wake()
                return True
        return False

    def _grant_all(self) -> None:
        while self._grant():
            pass

    def lift(self) -> None:
        """Let everybody in, now and later: those that waited find the client closed."""
        self.total, self.per_origin = sys.maxsize, None
        self._grant_all()


class _Handles:
    """Transfers, those in use and those that are idle.

    Attributes:
        all: both.
    """

    def __init__(self) -> None:
        self.all: set[Transfer] = set()

    def drop(self, transfer: Transfer) -> None:
        """Close a transfer for good."""
        self.all.discard(transfer)
        transfer.close()


class Handles(_Handles):
    """Transfers that are as good as one another, since they share their connections.

    Args:
        make: makes one.

    Attributes:
        idle: the last used at the end.
    """

    def __init__(self, make: Callable[[], Transfer]) -> None:
        super().__init__()
        self._make = make
        self.idle: list[Transfer] = []

    def make(self) -> Transfer:
        """Return a new one; the caller holds a slot."""
        transfer = self._make()
        self.all.add(transfer)
        return transfer

    def close(self) -> None:
        """Close the idle ones."""
        while self.idle:
            self.drop(self.idle.pop())


class KeyedHandles(_Handles):
    """Keep idle transfers by the key of what they are connected to; the last used goes first.

    Args:
        make: makes a transfer for a key.
        keep: idle transfers to keep.

    Attributes:
        idle_count: how many are idle.
    """

    def __init__(self, make: Callable[[Any], Transfer], keep: int) -> None:
        super().__init__()
        self._make = make
        self.keep = keep
        self._idle: dict[Any, list[Transfer]] = {}
        self.idle_count = 0
        self._serial = 0

    def pop(self, key: Any, bound: int) -> Transfer:
        """Return an idle transfer for the key, or a new one; the caller holds a slot.

        Args:
            key: what the transfer should be connected to.
            bound: how many transfers there may be; at the bound the one idle for longest goes.
        """
        idle = self._idle.get(key)
        if idle:
            self.idle_count -= 1
            transfer = idle.pop()
            if not idle:
                del self._idle[key]
            return transfer
        if len(self.all) >= bound and self.idle_count:
            self._evict()
        transfer = self._make(key)
        transfer.key = key
        self.all.add(transfer)
        return transfer

    def _evict(self) -> None:
        key = min(self._idle, key=lambda key: self._idle[key][0].released)
        idle = self._idle[key]
        self.idle_count -= 1
        self.drop(idle.pop(0))
        if not idle:
            del self._idle[key]

    def push(self, transfer: Transfer) -> None:
        """Take back a transfer that is ready for the next request."""
        if self.idle_count >= self.keep:
            if not self.keep:
                self.drop(transfer)
                return
            self._evict()  # the one just used is the more likely to be used again
        self._serial += 1
        transfer.released = self._serial
        self.idle_count += 1
        idle = self._idle.get(transfer.key)
        if idle is None:
            self._idle[transfer.key] = [transfer]
        else:
            idle.append(transfer)

    def close(self) -> None:
        """Close all idle transfers, and those that come back."""
        self.keep = 0
        idle, self._idle, self.idle_count = self._idle, {}, 0
        for transfers in idle.values():
            for transfer in transfers:
                self.drop(transfer)


def no_free_handle(request: Request, bound: int) -> PoolTimeout | DeadlineExceeded:
    """Return the exception for a wait that was too long."""
    return (DeadlineExceeded if request.is_late(monotonic()) else PoolTimeout)(
        f"{request}: none of the {bound} connections became free in time; "
        "close streamed responses, or raise max_connections or timeout=Timeout(pool=...)",
        request=request,
    )
