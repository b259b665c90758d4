"""The pool of the blocking client: a transfer keeps its connection, found by origin and route.

`acquire` looks for an idle transfer under the origin and the route of the request. The most
recently used ones stay ready together with their slots. A loop of requests acquires them without
the lock, which saves 5 % of a small request. Whether the chosen connection may be reused is checked
when the request goes out, see connection_state.
"""

from __future__ import annotations

import gc
import math
import threading
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TypeAlias

from curlhttp._http.config import Limits
from curlhttp._http.errors import client_closed
from curlhttp._http.request import ClientRequest
from curlhttp._libcurl.slots import (
    Slots,
    SlotWaiter,
    describe_holders,
    find_unread,
    limit_by_open_files,
    no_slot_error,
    warn_of_wait,
)
from curlhttp._libcurl.transfer import Transfer, TransferLease
from curlhttp._runtime.log import WARN_AFTER, WARN_AGAIN
from curlhttp._runtime.race import refuse_to_wait
from curlhttp._runtime.run import ThreadWaiter
from curlhttp._runtime.running_maps import is_only_thread, step_others
from curlhttp.exceptions import PoolTimeout

Key: TypeAlias = tuple[str, int]
"""An origin, and the id of a route."""

_FILES = 4  # per transfer: a socket, two that libcurl wakes up with, one while it looks up a name
_READY = 8  # transfers that are kept ready
_NOTHING = (None,)


class ConnectionPool:
    """Hand out transfers to threads, within the client's limits.

    Args:
        limits: the client's limits.
        make: makes a transfer.

    Attributes:
        slots: how many transfers may be in use; ready ones hold theirs.
        all: every transfer, in use, ready or idle.
        is_closed: `acquire` raises, also for threads that wait in it.
    """

    def __init__(self, limits: Limits, make: Callable[[], Transfer]) -> None:
        self._max_connections = limit_by_open_files(limits.max_connections, _FILES)
        self._lock = threading.Lock()
        self.slots = Slots(self._max_connections, limits.max_connections_per_host)
        # Without keep-alive, libcurl closes each connection (FORBID_REUSE). The handle is kept
        # nevertheless, because a new one would parse the authorities again.
        self._idle = IdleTransfers(
            make, self._max_connections, limits.max_keepalive_connections or self._max_connections
        )
        self.all = self._idle.all
        self._ready: dict[Key, Transfer] = {}
        self._dropped: deque[Transfer] = deque()  # by finalizers, which must not wait for a lock
        self.is_closed = False
        self._warned_at = -math.inf

    # acquire

    def acquire(self, request: ClientRequest) -> TransferLease:
        """Lease a transfer for a request, with a connection to its server if one is idle.

        Wait until one more may run. The transfer knows its lease.

        Args:
            request: what it is for.

        Raises:
            PoolTimeout: no slot became free in time.
            DeadlineExceeded: the total timeout ran out first.
            AttemptRefused: it is an extra attempt, which does not wait.
            ClientClosed: the client was closed.
        """
        origin = request.url.origin
        key = (origin, id(request.route))
        if self._dropped:
            self._close_dropped()
        lease = TransferLease()
        # Pop and bind in one C call: Ctrl-C between a call and its assignment would lose the
        # transfer.
        (lease.transfer,) = map(self._ready.pop, (key,), _NOTHING)
        if lease.transfer is None:
            try:
                self._acquire_slowly(key, request, lease)
            except BaseException:
                self.drop(lease)
                raise
        assert lease.transfer is not None
        lease.transfer.lease = lease
        return lease

    def _acquire_slowly(self, key: Key, request: ClientRequest, lease: TransferLease) -> None:
        origin = key[0]
        self._make_room()
        with self._lock:
            used = self.slots.used
            try:
                if self.slots.acquire(origin):
                    lease.transfer = self._pop(key, request)
                    return
            except BaseException:
                if self.slots.used > used and lease.transfer is None:
                    self.slots.release(origin)
                raise
            refuse_to_wait(request, "a connection")
            thread_waiter = ThreadWaiter()
            waiter = SlotWaiter(origin, thread_waiter.wake, monotonic())
            self.slots.wait(waiter)
        self._release_ready()  # other threads may have kept some before they could see this waiter
        if self._dropped:  # while this thread held the lock
            self._close_dropped()
        self._wait(waiter, thread_waiter, request)
        with self._lock:
            try:
                transfer = lease.transfer = self._pop(key, request)
            except BaseException:
                if lease.transfer is None:
                    self.slots.release(origin)
                raise
        transfer.queue_seconds = monotonic() - waiter.queued_at

    def acquire_slot(self, origin: str) -> bool:
        """Acquire a slot for one more attempt; return False if none is free."""
        self._make_room()
        with self._lock:
            return not self.is_closed and self.slots.acquire(origin)

    def release_slot(self, origin: str) -> None:
        """Release a slot for which no transfer was acquired."""
        with self._lock:
            self.slots.release(origin)

    def idle(self) -> set[Transfer]:
        """Return the transfers that are not in use; any thread may call this, in a signal too."""
        # Ready ones first, because they may become idle meanwhile.
        return {*self._ready.copy().values(), *self._idle.idle()}

    def add_in_slot(self, transfer: Transfer, first: Transfer) -> None:
        """Add a transfer that has a slot and shares the connections of another one."""
        transfer.lease = lease = TransferLease()
        with self._lock:
            lease.transfer = self._idle.add(first.key, transfer)

    def _pop(self, key: Key, request: ClientRequest) -> Transfer:
        if self.is_closed:
            raise client_closed(request)
        return self._idle.pop(key)

    def _wait(
        self, waiter: SlotWaiter, thread_waiter: ThreadWaiter, request: ClientRequest
    ) -> None:
        seconds = request.pool_seconds(monotonic())
        try:
            if self._wait_and_warn(waiter, thread_waiter, seconds, request):
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
        raise no_slot_error(request, self._max_connections, waiter)

    def _collect_garbage(self) -> None:
        """Release the slots of responses that nobody refers to any more."""
        gc.collect()
        self._close_dropped()

    def _wait_and_warn(
        self,
        waiter: SlotWaiter,
        thread_waiter: ThreadWaiter,
        seconds: float | None,
        request: ClientRequest,
    ) -> bool:
        """Wait, and log a warning while no slot becomes free; return whether it was woken."""
        left, granted = seconds, self.slots.granted
        idle, patience = 0.0, WARN_AFTER
        while left is None or left > WARN_AFTER:
            if left is None and is_only_thread() and not step_others().can_go_on:
                self._check_granted(waiter, request)
            if thread_waiter.wait_blocking(WARN_AFTER):
                return True
            left = None if left is None else left - WARN_AFTER
            idle += WARN_AFTER
            has_moved, granted = self.slots.granted != granted, self.slots.granted
            unread = find_unread(self._find_holders())
            if has_moved and not unread:
                idle = 0.0
            elif idle >= patience:
                if monotonic() - self._warned_at >= WARN_AGAIN:  # no other thread has just done it
                    self._warned_at = monotonic()
                    holders = unread if has_moved else self._find_holders()
                    warn_of_wait(request, self._max_connections, holders, has_moved=has_moved)
                idle, patience = 0.0, WARN_AGAIN
        return thread_waiter.wait_blocking(left)

    def _check_granted(self, waiter: SlotWaiter, request: ClientRequest) -> None:
        """Raise PoolTimeout unless the waiter, for which nothing else runs, has its slot."""
        self._collect_garbage()
        if not waiter.granted:
            raise PoolTimeout(
                f"{request}: none of the {self._max_connections} connections can become free, "
                "because no other thread is running. This thread holds them: "
                f"{describe_holders(self._find_holders())}. Read or close streamed responses "
                "first, or raise max_connections",
                request=request,
            )

    def _find_holders(self) -> list[Transfer]:
        idle = self.idle()
        return [one for one in self.all.copy() if one not in idle]

    def _make_room(self) -> None:
        """Release the slots of ready transfers if one of them may be needed."""
        if self.slots.used >= self.slots.total or self.slots.per_origin is not None:
            self._release_ready()

    # release

    def release(self, lease: TransferLease) -> None:
        """Return a clean transfer to the pool; after an exception, `drop` the lease."""
        if not self._keep_ready(lease):
            with self._lock:
                transfer, lease.transfer = lease.transfer, None
                assert transfer is not None
                self._idle.push(transfer)
                self.slots.release(transfer.key[0])
            self._trim_ready()
        if self._dropped:
            self._close_dropped()

    def _keep_ready(self, lease: TransferLease) -> bool:
        """Keep a transfer ready with its slot, unless somebody waits or there are too many."""
        ready, idle, slots = self._ready, self._idle, self.slots
        if len(ready) >= _READY or slots.waiters:
            return False
        transfer, lease.transfer = lease.transfer, None
        assert transfer is not None
        # Ctrl-C cannot come before this call, which keeps the transfer, has ended.
        if ready.setdefault(transfer.key, transfer) is not transfer:
            lease.transfer = transfer
            return False
        # A waiter, or the thread that closes the client, may have looked before it was ready.
        if slots.waiters or self.is_closed:
            self._release_ready()
        elif idle.idle_count + len(ready) > idle.keep:
            self._trim_ready()
        return True

    def _trim_ready(self) -> None:
        """Keep no more transfers, ready and idle together, than the limit."""
        # In a loop, because another thread may keep one ready meanwhile.
        while self._ready and self._idle.idle_count + len(self._ready) > self._idle.keep:
            self._release_ready()

    def _release_ready(self) -> None:
        """Release the slots of all ready transfers, the oldest first."""
        for key in list(self._ready):
            transfer = self._ready.pop(key, None)
            if transfer is not None:  # else another thread was faster
                with self._lock:
                    self._idle.push(transfer)
                    self.slots.release(key[0])

    # close

    def drop(self, lease: TransferLease) -> None:
        """Close the leased transfer, in any state; do nothing if there is none any more."""
        if lease.transfer is not None:
            self._close(lease.transfer)
            lease.transfer = None
        if self._dropped:
            self._close_dropped()

    def replace(self, lease: TransferLease, make: Callable[[Transfer], Transfer | None]) -> bool:
        """Close the leased transfer in any state, and lease another one in its slot.

        Args:
            lease: has the transfer.
            make: returns the other one, or None. No other thread can close the transfer meanwhile.

        Returns:
            Whether there is another one.
        """
        assert lease.transfer is not None
        self._close(lease.transfer, make, lease)
        return lease.transfer is not None

    def drop_from_finalizer(self, transfer: Transfer) -> None:
        """Close a transfer, from a finalizer that may run while its thread holds the lock."""
        self._dropped.append(transfer)
        self._close_dropped()

    def _close_dropped(self) -> None:
        """Close what finalizers dropped, unless a thread holds the lock: that one does it later."""
        while self._dropped and not self._lock.locked():
            try:
                transfer = self._dropped.popleft()
            except IndexError:  # another thread was faster
                return
            self._close(transfer)

    def _close(
        self,
        transfer: Transfer,
        make: Callable[[Transfer], Transfer | None] | None = None,
        lease: TransferLease | None = None,
    ) -> None:
        successor: Transfer | None = None
        is_found = False
        try:
            with self._lock:
                if transfer not in self.all:  # it is its parent process's, or closed already
                    return
                is_found = True
                transfer.count()
                self.all.discard(transfer)
            try:
                if make is not None:
                    successor = make(transfer)
            finally:
                transfer.close()  # first, because the next holder of the slot may open a connection
            if lease is not None:
                lease.transfer = None
                if successor is not None:
                    with self._lock:
                        key = transfer.key
                        lease.transfer = self._idle.add(key, successor)
        finally:
            if is_found and (lease is None or lease.transfer in (None, transfer)):
                with self._lock:
                    self.slots.release(transfer.key[0])

    def close(self) -> None:
        """Close the idle transfers now, and those in use at their release."""
        with self._lock:
            self.is_closed = True
            self.slots.lift_limits()
            self._idle.close()
        self._release_ready()
        self._close_dropped()

    def close_from_finalizer(self) -> bool:
        """Close the idle transfers unless the lock is held; return whether they were closed.

        This thread may hold the lock, interrupted by the garbage collector. The next collection
        closes the transfers then.
        """
        if self._lock.locked():
            return False
        self.close()
        return True


class IdleTransfers:
    """Keep idle transfers by origin and route; the most recently used one is reused first.

    Args:
        make: makes a transfer.
        limit: how many transfers there may be; the longest idle one makes room for a new one.
        keep: idle transfers to keep.

    Attributes:
        all: every transfer: the idle ones, and those that `pop` has returned and that are in use.
        idle_count: how many are idle.
    """

    def __init__(self, make: Callable[[], Transfer], limit: int, keep: int) -> None:
        self.all: set[Transfer] = set()
        self._make = make
        self._limit = limit
        self.keep = keep
        self._idle: dict[Key, list[Transfer]] = {}
        self._by_release: dict[Transfer, None] = {}  # the longest idle one first
        self.idle_count = 0

    def pop(self, key: Key) -> Transfer:
        """Return an idle transfer for the key, or a new one; the caller holds a slot."""
        idle = self._idle.get(key)
        if idle:
            self.idle_count -= 1
            transfer = idle[-1]
            del idle[-1]  # no call, because Ctrl-C right after it would lose the result
            del self._by_release[transfer]
            if not idle:
                del self._idle[key]
            return transfer
        return self.add(key, self._make())

    def add(self, key: Key, transfer: Transfer) -> Transfer:
        """Add a new transfer and return it; see `pop`."""
        if len(self.all) >= self._limit and self.idle_count:
            self._evict()
        transfer.key = key
        try:
            self.all.add(transfer)
        except BaseException:  # Ctrl-C
            self.all.discard(transfer)
            raise
        return transfer

    def _evict(self) -> None:
        oldest = next(iter(self._by_release))
        del self._by_release[oldest]
        idle = self._idle[oldest.key]  # released in this order, too
        del idle[0]
        if not idle:
            del self._idle[oldest.key]
        self.idle_count -= 1
        self.drop(oldest)

    def push(self, transfer: Transfer) -> None:
        """Store a transfer that is ready for the next request."""
        if self.idle_count >= self.keep:
            if not self.keep:
                self.drop(transfer)
                return
            self._evict()  # the one just used is more likely to be used again
        self.idle_count += 1
        self._by_release[transfer] = None
        idle = self._idle.get(transfer.key)
        if idle is None:
            self._idle[transfer.key] = [transfer]
        else:
            idle.append(transfer)

    def idle(self) -> list[Transfer]:
        """Return the idle transfers."""
        return list(self._by_release)

    def drop(self, transfer: Transfer) -> None:
        """Close a transfer for good."""
        transfer.count()
        self.all.discard(transfer)
        transfer.close()

    def close(self) -> None:
        """Close all idle transfers, and from now on those that are released."""
        self.keep = 0
        idle, self._by_release, self._idle, self.idle_count = self._by_release, {}, {}, 0
        for transfer in idle:
            self.drop(transfer)
