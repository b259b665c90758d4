"""Choose a pooled connection for a request, and limit how many transfers run at once.

`ThreadPool` serves the blocking client: an idle transfer, with its connection, is kept under the
key of the server that it is connected to. The most recently used ones are kept ready together with
their slots, because a loop of requests that takes them without the lock saves 5 % of a small
request. `TransferPool` serves event loops, whose transfers share their connections. `Slots` counts
the running transfers, and callers queue for a slot.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic
from typing import TypeAlias

from curlhttp._curl.transfer import Transfer
from curlhttp._engine.run import ThreadGate
from curlhttp._models.config import Limits
from curlhttp._models.errors import client_closed
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp.exceptions import DeadlineExceeded, PoolTimeout

__all__ = [
    "Caller",
    "Key",
    "KeyedTransfers",
    "SlotWaiter",
    "Slots",
    "ThreadPool",
    "TransferPool",
    "Waited",
    "no_free_slot",
    "open_files_bound",
]


# --- The blocking client: a transfer keeps its connection, and is found by what that is for ---

Key: TypeAlias = tuple[str, int]
"""An origin, and the id of a transport."""

_FILES = 4  # per transfer: a socket, two that libcurl wakes up with, one while it looks up a name
_READY = 8  # transfers that are kept ready
_NOTHING = (None,)


class KeyedTransfers:
    """Keep idle transfers by the key of what they are connected to; the last used goes first.

    Args:
        make: makes a transfer for a key.
        keep: idle transfers to keep.

    Attributes:
        all: every transfer, in use or idle.
        idle_count: how many are idle.
    """

    def __init__(self, make: Callable[[Key], Transfer], keep: int) -> None:
        self.all: set[Transfer] = set()
        self._make = make
        self.keep = keep
        self._idle: dict[Key, list[Transfer]] = {}
        self.idle_count = 0
        self._serial = 0

    def pop(self, key: Key, bound: int) -> Transfer:
        """Return an idle transfer for the key, or a new one; the caller holds a slot.

        Args:
            key: what the transfer should be connected to.
            bound: how many transfers there may be; at the bound the one idle for longest goes.
        """
        idle = self._idle.get(key)
        if idle:
            self.idle_count -= 1
            transfer = idle[-1]
            del idle[-1]  # no call, after which Ctrl-C might lose what it returned
            if not idle:
                del self._idle[key]
            return transfer
        return self.add(key, self._make(key), bound)

    def add(self, key: Key, transfer: Transfer, bound: int) -> Transfer:
        """Take in a new transfer and return it; see `pop`."""
        if len(self.all) >= bound and self.idle_count:
            self._evict()
        transfer.key = key
        try:
            self.all.add(transfer)
        except BaseException:  # Ctrl-C
            self.all.discard(transfer)
            raise
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

    def idle(self) -> list[Transfer]:
        """Return the idle transfers."""
        return [transfer for transfers in self._idle.values() for transfer in transfers]

    def drop(self, transfer: Transfer) -> None:
        """Close a transfer for good."""
        self.all.discard(transfer)
        transfer.close()

    def close(self) -> None:
        """Close all idle transfers, and those that come back."""
        self.keep = 0
        idle, self._idle, self.idle_count = self._idle, {}, 0
        for transfers in idle.values():
            for transfer in transfers:
                self.drop(transfer)


class ThreadPool:
    """Give transfers to threads, and hold all of them to the client's bounds.

    Args:
        limits: the client's limits.
        make: makes a transfer for a key.

    Attributes:
        slots: how many transfers may be in use; those that are ready count as well.
        all: every transfer, in use, ready or idle.
        is_closed: whoever waits or comes gets an error.
    """

    def __init__(self, limits: Limits, make: Callable[[Key], Transfer]) -> None:
        self._bound = open_files_bound(limits.max_connections, _FILES)
        self._lock = threading.Lock()
        self.slots = Slots(self._bound, limits.max_connections_per_host)
        # Without connections to keep, libcurl closes each (FORBID_REUSE) and the handle is kept:
        # a new one would parse the authorities again.
        self._idle = KeyedTransfers(make, limits.max_keepalive_connections or self._bound)
        self.all = self._idle.all
        self._ready: dict[Key, Transfer] = {}
        self._dropped: deque[Transfer] = deque()  # by finalizers, which wait for no lock
        self.is_closed = False

    # take

    def take(self, request: Request) -> Transfer:
        """Choose a transfer for a request, with a connection to its server if one is idle.

        Wait until one more may run.

        Args:
            request: what it is for.

        Raises:
            PoolTimeout: there was no slot in time.
            DeadlineExceeded: the total ran out before.
            ClientClosed: the client was closed.
        """
        origin = request.url.origin
        key = (origin, id(request.transport))
        if self._dropped:
            self._release_dropped()
        # Ctrl-C comes right after a call, and would lose what that returned. This one returns
        # before it pops.
        (ready,) = map(self._ready.pop, (key,), _NOTHING)
        if ready is not None:
            return ready
        held: list[Transfer] = []
        try:
            return self._take_slowly(key, request, held)
        except BaseException:
            for transfer in held:
                self.drop(transfer)
            raise

    def _take_slowly(self, key: Key, request: Request, held: list[Transfer]) -> Transfer:
        origin = key[0]
        self._make_room()
        with self._lock:
            used = self.slots.used
            try:
                if self.slots.take(origin):
                    held.append(transfer := self._pop(key, request))
                    return transfer
            except BaseException:
                if self.slots.used > used and not held:
                    self.slots.give(origin)
                raise
            gate = ThreadGate()
            waiter = SlotWaiter(origin, gate.open)
            self.slots.wait(waiter)
        self._unready()  # what was kept before it could be known that this thread waits
        if self._dropped:  # while this thread had the lock
            self._release_dropped()
        self._wait(waiter, gate, request)
        with self._lock:
            try:
                held.append(transfer := self._pop(key, request))
            except BaseException:
                if not held:
                    self.slots.give(origin)
                raise
        return transfer

    def take_slot(self, origin: str) -> bool:
        """Take a slot for one more attempt of a request, unless it had to wait for one."""
        self._make_room()
        with self._lock:
            return not self.is_closed and self.slots.take(origin)

    def give_slot(self, origin: str) -> None:
        """Give back a slot that no transfer was taken for."""
        with self._lock:
            self.slots.give(origin)

    def idle(self) -> set[Transfer]:
        """Return the transfers that nobody uses."""
        with self._lock:
            return {*self._ready.copy().values(), *self._idle.idle()}

    def add_in_slot(self, transfer: Transfer, first: Transfer) -> None:
        """Take in a transfer that has a slot and shares the connections of another one."""
        with self._lock:
            self._idle.add(first.key, transfer, self._bound)

    def _pop(self, key: Key, request: Request) -> Transfer:
        if self.is_closed:
            raise client_closed(request)
        return self._idle.pop(key, self._bound)

    def _wait(self, waiter: SlotWaiter, gate: ThreadGate, request: Request) -> None:
        seconds = request.pool_seconds(time.monotonic())
        try:
            if gate.pass_within(seconds):
                return
        except BaseException:  # Ctrl-C
            with self._lock:
                self.slots.leave(waiter)
            raise
        # The slot may have been granted after the wait was over.
        with self._lock:
            if waiter.granted:
                return
            self.slots.leave(waiter)
        raise no_free_slot(request, self._bound)

    def _make_room(self) -> None:
        """Take care that no transfer that is ready has the slot that is wanted."""
        if self.slots.used >= self.slots.total or self.slots.per_origin is not None:
            self._unready()

    # give

    def give(self, held: list[Transfer]) -> None:
        """Take back a transfer that is clean.

        Args:
            held: the transfer; it is taken out when it is the pool's, whatever is raised then.
        """
        if not self._keep_ready(held):
            with self._lock:
                transfer = held[0]
                del held[0]
                self._idle.push(transfer)
                self.slots.give(transfer.key[0])
            self._keep_no_more()
        if self._dropped:
            self._release_dropped()

    def _keep_ready(self, held: list[Transfer]) -> bool:
        """Keep a transfer with its slot, unless somebody waits or it is too many."""
        ready, idle, slots = self._ready, self._idle, self.slots
        if len(ready) >= _READY or not idle.keep or slots.waiters:
            return False
        transfer = held[0]
        del held[0]  # Ctrl-C does not come before the call has ended that keeps it
        if ready.setdefault(transfer.key, transfer) is not transfer:
            held.append(transfer)
            return False
        # A waiter, or the thread that closes the client, may have looked before it was here.
        if slots.waiters or self.is_closed:
            self._unready()
        elif idle.idle_count + len(ready) > idle.keep:
            self._keep_no_more()
        return True

    def _keep_no_more(self) -> None:
        """Hold transfers that are ready and those that are idle together to their bound."""
        # Again and again: another thread may keep one ready while this one gives back.
        while self._ready and self._idle.idle_count + len(self._ready) > self._idle.keep:
            self._unready()

    def _unready(self) -> None:
        """Give the slots of all transfers that are ready back, the oldest first."""
        for key in list(self._ready):
            transfer = self._ready.pop(key, None)
            if transfer is not None:  # else another thread was faster
                with self._lock:
                    self._idle.push(transfer)
                    self.slots.give(key[0])

    # let go

    def drop(self, transfer: Transfer) -> None:
        """Close a transfer that was taken, in whatever state it is."""
        self._release(transfer)
        if self._dropped:
            self._release_dropped()

    def drop_from_finalizer(self, transfer: Transfer) -> None:
        """Close a transfer, from a finalizer that may run while its thread has the lock."""
        self._dropped.append(transfer)
        self._release_dropped()

    def _release_dropped(self) -> None:
        """Close what finalizers dropped, unless a thread has the lock: it does so afterwards."""
        while self._dropped and not self._lock.locked():
            try:
                transfer = self._dropped.popleft()
            except IndexError:  # another thread was faster
                return
            self._release(transfer)

    def _release(self, transfer: Transfer) -> None:
        with self._lock:
            if transfer not in self.all:  # it is the parent process's, or gone already
                return
            self.all.discard(transfer)
        try:
            transfer.close()  # first, because whoever is granted the slot may open a connection
        finally:
            with self._lock:
                self.slots.give(transfer.key[0])

    def close(self) -> None:
        """Close the idle transfers now, and those in use when they are given back."""
        with self._lock:
            self.is_closed = True
            self.slots.lift()
            self._idle.close()
        self._unready()
        self._release_dropped()

    def close_from_finalizer(self) -> bool:
        """Close the idle transfers, unless the lock is taken; return whether it was not.

        It may be this thread's, in the middle of which the garbage collector came. The transfers
        are for the next collection then.
        """
        if self._lock.locked():
            return False
        self.close()
        return True


# --- Event loops: transfers share their connections (libcurl chooses one), so any will do ---


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


# --- Limit how many transfers run at once; callers queue for a slot ---
#
# It is the bound on sockets: callers wait here, in FIFO order, so that ten thousand tasks never
# mean ten thousand connections.

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


# --- What waits for one request on a curl_multi: in the queue, then for its end ---


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
        wake: wakes the task that waits, if one does; set again for each wait.
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
