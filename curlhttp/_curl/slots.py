"""Limit how many transfers run at once; callers queue for a slot.

It is the bound on sockets: callers wait here, in FIFO order, so that ten thousand tasks never
mean ten thousand connections.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import TypeAlias

from curlhttp._curl.transfer import Transfer
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp.exceptions import DeadlineExceeded, PoolTimeout

__all__ = [
    "Caller",
    "SlotWaiter",
    "Slots",
    "TransferPool",
    "Waited",
    "no_free_slot",
    "open_files_bound",
]


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


# --- The transfers of an engine whose transfers share their connections, so that any is as good ---


class TransferPool:
    """Keep the transfers of one event loop, or of one thread.

    Args:
        make: makes a transfer.
        slots: one of them is taken by whoever uses a transfer.

    Attributes:
        slots: how many transfers may be in use.
        all: every transfer, in use or idle.
        idle: the last used at the end.
    """

    __slots__ = ("_make", "all", "idle", "slots")

    def __init__(self, make: Callable[[], Transfer], slots: Slots) -> None:
        self._make = make
        self.slots = slots
        self.all: set[Transfer] = set()
        self.idle: list[Transfer] = []

    def make(self) -> Transfer:
        """Return a new transfer; the caller holds a slot."""
        transfer = self._make()
        self.all.add(transfer)
        return transfer

    def drop(self, transfer: Transfer) -> None:
        """Close a transfer for good."""
        self.all.discard(transfer)
        transfer.close()

    def close(self) -> None:
        """Close the idle transfers."""
        while self.idle:
            self.drop(self.idle.pop())


# --- Who waits for one request on a curl_multi: in line for its turn, then for its end ---


class Caller(SlotWaiter):
    """One request that found no free slot.

    Whoever gives a slot back starts the transfer of the first in line, and a transfer that ended
    well goes on to the next as soon as its response is made: the task is woken once, at the end.

    Args:
        request: complete.
        origin: that of its slot.
        came: the monotonic time.
        keeps: its task deals with the transfer from the start, to feed it or to read from it.

    Attributes:
        wake: wakes the task that waits, if one does; set anew for each wait.
        transfer: carries the request, from its turn until it is given back.
        response: of a transfer that ended well, and was given back.
        error: why there is no transfer.
        is_over: its task has to do the rest: there is something to return, to raise or to keep.
    """

    __slots__ = ("came", "error", "is_over", "keeps", "request", "response", "transfer")

    def __init__(self, request: Request, origin: str, came: float, *, keeps: bool) -> None:
        super().__init__(origin, None)
        self.request = request
        self.came = came
        self.keeps = keeps
        self.transfer: Transfer | None = None
        self.response: Response | None = None
        self.error: BaseException | None = None
        self.is_over = False

    def go_on(self) -> None:
        """Let its task do the rest."""
        self.is_over = True
        if self.wake is not None:
            self.wake()

    def take_transfer(self) -> Transfer:
        """Return the transfer, which is the task's from now on, or raise why there is none."""
        if self.error is not None:
            raise self.error
        assert self.transfer is not None
        return self.transfer


Waited: TypeAlias = "Caller | Transfer"
"""What a task may wait for: it has a `wake`."""
