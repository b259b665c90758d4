"""How many requests may be under way at once, for each origin."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar

from curlhttp._models.fork import register
from curlhttp._models.request import Request
from curlhttp._policy.store import Store
from curlhttp.exceptions import DeadlineExceeded, PoolTimeout

__all__ = ["ConcurrencyLimit", "Lease", "Limit", "Per", "Wake"]


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
