"""Choose a pooled connection for a request, and limit how many transfers run at once.

`ConnectionPool` serves the blocking client: `acquire` looks for an idle transfer, which keeps its
connection, under the origin and the route of the request. The most recently used ones stay
ready together with their slots. A loop of requests acquires them without the lock, which saves 5 %
of a small request.

`TransferPool` serves the other engines, where libcurl chooses: all transfers of a curl_multi share
its connections. `Slots` counts the running transfers, and callers queue for a slot. Whether the
chosen connection may be reused is checked when the request goes out, see connection_state.
"""

from __future__ import annotations

import gc
import math
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from operator import attrgetter
from time import monotonic
from typing import TypeAlias

from curlhttp._http.config import Limits, NetworkRoute
from curlhttp._http.errors import client_closed
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._libcurl.transfer import Transfer, TransferLease
from curlhttp._runtime.log import WARN_AFTER, WARN_AGAIN, log
from curlhttp._runtime.outcomes import Outcomes
from curlhttp._runtime.race import refuse_to_wait
from curlhttp._runtime.run import ThreadWaiter
from curlhttp._runtime.running_maps import is_only_thread, step_others
from curlhttp.exceptions import DeadlineExceeded, PoolTimeout

# --- The blocking client: a transfer keeps its connection, and is found by origin and route ---

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


# --- The other engines: transfers share their connections, so any transfer will do ---


class TransferPool:
    """Keep the transfers of one event loop, or of one thread.

    Args:
        make: makes a transfer.
        slots: each transfer in use has one of them.

    Attributes:
        slots: how many transfers may be in use.
        all: every transfer, in use or idle.
        ready: idle transfers, the most recently used one last.
        separates: `ready` has only those for one origin and route.
        ready_origin: that origin.
        ready_route: that route, None for none.
        keeps_all: all transfers may be idle, so that one may be added to `ready` at any time.
    """

    def __init__(self, make: Callable[[], Transfer], slots: Slots) -> None:
        self._make = make
        self.slots = slots
        self.all: set[Transfer] = set()
        self.ready: list[Transfer] = []
        self.separates = False
        self.keeps_all = True
        self.ready_origin = ""
        self.ready_route: NetworkRoute | None = None

    def take(self, request: ClientRequest) -> Transfer:
        """Return the transfer that was used last, or a new one; the caller holds a slot.

        Args:
            request: what it is for.
        """
        return self.ready.pop() if self.ready else self._add()

    def _add(self) -> Transfer:
        transfer = self._make()
        self.all.add(transfer)
        return transfer

    def keep(self, transfer: Transfer) -> None:
        """Keep a transfer for a later request."""
        self.ready.append(transfer)

    def idle(self) -> list[Transfer]:
        """Return the idle transfers."""
        return self.ready

    def drop(self, transfer: Transfer) -> None:
        """Close a transfer for good."""
        transfer.count()
        self.all.discard(transfer)
        transfer.close()

    def close(self) -> None:
        """Close the idle transfers."""
        while self.ready:
            self.drop(self.ready.pop())


class OwnConnections(TransferPool):
    """Keep transfers that have one connection each, where no requests share one.

    libcurl looks at each connection of a curl_multi, or of a share, for each request: with 900 of
    them, that takes a third of the request. So the pool finds the connection, by origin and route.

    Args:
        make: makes a transfer with a share of its own.
        slots: see TransferPool.
        limit: how many transfers there may be; the longest idle one makes room for a new one.
        most_idle: how many of them may be idle.
    """

    def __init__(
        self, make: Callable[[], Transfer], slots: Slots, limit: int, most_idle: int
    ) -> None:
        super().__init__(make, slots)
        self.separates = True
        self._limit = limit
        self._most_idle = most_idle
        self.keeps_all = most_idle >= limit
        self._by_key: dict[Key, list[Transfer]] = {}  # a list may be empty

    def take(self, request: ClientRequest) -> Transfer:
        """Return an idle transfer with a connection to the origin, or a new one."""
        origin, route = request.url.origin, request.route
        key = origin, id(route)
        idle = self._by_key.get(key)
        if idle is None:
            idle = self._by_key[key] = []
        self.ready, self.ready_origin, self.ready_route = idle, origin, route
        if idle:
            return idle.pop()
        if len(self.all) >= self._limit:
            self._evict()
        transfer = self._add()
        transfer.key = key
        return transfer

    def keep(self, transfer: Transfer) -> None:
        """Keep a transfer for a later request to the same origin."""
        if not self.keeps_all and len(self.idle()) >= self._most_idle:
            self._evict()  # the one just used is more likely to be used again
        self._by_key.setdefault(transfer.key, []).append(transfer)

    def _evict(self) -> None:
        """Close the longest idle transfer, if there is one; it is the first of its list."""
        lists = self._by_key = {key: idle for key, idle in self._by_key.items() if idle}
        self.ready, self.ready_route = [], None  # it may be none of these
        if lists:
            oldest = min([idle[0] for idle in lists.values()], key=attrgetter("last_activity"))
            lists[oldest.key].remove(oldest)
            self.drop(oldest)

    def idle(self) -> list[Transfer]:
        """Return the idle transfers."""
        return [transfer for idle in self._by_key.values() for transfer in idle]

    def close(self) -> None:
        """Close the idle transfers."""
        for transfer in self.idle():
            self.drop(transfer)
        self._by_key.clear()
        self.ready, self.ready_route = [], None


# --- Limit how many transfers run at once; callers queue for a slot ---
#
# This limits the sockets: callers wait here, in FIFO order, so that ten thousand tasks do not open
# ten thousand connections.

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
        if self.per_origin is None:
            if self.waiters or self.used >= self.total:
                return False
            self.used += 1
            return True
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
        self.used += 1
        if self.per_origin is not None:
            self._used_by[origin] = self._used_by.get(origin, 0) + 1
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


# --- Queue a request on a curl_multi until its transfer may start, and wait for its end ---


class QueuedRequest(SlotWaiter):
    """One request that found no free slot.

    The task that releases a slot starts the transfer of the first request in the queue. A transfer
    that succeeded serves the next request as soon as its response is made. So the task of a request
    is woken once, at the end.

    Args:
        request: complete.
        origin: of its slot.
        queued_at: the monotonic time.
        keeps_transfer: the task needs the transfer from the start, to feed it or to read from it.

    Attributes:
        wake: wakes the task that waits, if one does; set again for each wait.
        transfer: carries the request, from its start until its release.
        response: of a transfer that succeeded and was released.
        error: why there is no transfer.
        is_finished: the task can return the response, raise, or read from the transfer.
        has_left: it has left its place in a map, because it waits for its origin alone.
    """

    __slots__ = (
        "error",
        "has_left",
        "is_finished",
        "keeps_transfer",
        "request",
        "response",
        "transfer",
    )

    def __init__(
        self, request: ClientRequest, origin: str, queued_at: float, *, keeps_transfer: bool
    ) -> None:
        super().__init__(origin, None, queued_at)
        self.request = request
        self.keeps_transfer = keeps_transfer
        self.transfer: Transfer | None = None
        self.response: Response | None = None
        self.error: BaseException | None = None
        self.is_finished = False
        self.has_left = False

    def leave_place(self) -> None:
        """Let a map send requests to other origins meanwhile."""
        if self.request.place is not None:
            self.has_left = True
            self.request.place.leave(self.origin)

    def come_back(self) -> None:
        """End the wait."""
        if self.has_left and self.request.place is not None:
            self.has_left = False
            self.request.place.come_back()

    def finish(self) -> None:
        """Let the task continue."""
        self.is_finished = True
        if self.wake is not None:
            self.wake()

    def get_transfer(self) -> Transfer:
        """Return the transfer, which now belongs to the task, or raise why there is none."""
        if self.error is not None:
            raise self.error
        assert self.transfer is not None
        return self.transfer


Wakeable: TypeAlias = "QueuedRequest | Transfer"
"""What a task may wait for: it has a `wake`."""
