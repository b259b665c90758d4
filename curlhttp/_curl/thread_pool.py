"""Choose an idle transfer, with its connection, for each request of a blocking client.

A transfer that was used is idle under the key of what it is connected to. The last used of some
keys are kept ready, together with their slots: a loop of requests takes and gives those without
the lock, the slots and the idle lists, which is 5 % of a small request.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from curlhttp._curl.slots import Slots, SlotWaiter, no_free_slot, open_files_bound
from curlhttp._curl.transfer import Transfer
from curlhttp._engine.run import ThreadGate
from curlhttp._models.config import Limits
from curlhttp._models.errors import client_closed
from curlhttp._models.request import Request

__all__ = ["Key", "KeyedTransfers", "ThreadPool"]

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
        """Return a transfer for a request, as soon as one may run.

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
            transfer.close()  # first, since whoever is granted the slot may open a connection
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
