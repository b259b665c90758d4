"""The pools of the engines that run many requests on one curl_multi, and their queue.

All transfers of a curl_multi share its connections, among which libcurl chooses, so that any
transfer will do. Where no requests share one, each transfer has its own connection.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TypeAlias

from curlhttp._http.config import NetworkRoute
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._libcurl.slots import Slots, SlotWaiter
from curlhttp._libcurl.transfer import Transfer


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
        self._by_key: dict[tuple[str, int], list[Transfer]] = {}  # a list may be empty

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
