"""When to look whether a transfer has been silent for too long.

libcurl's low-speed limit counts whole seconds and does not stop while a transfer is paused. Here a
sign of life moves nothing: a transfer is looked at when its first read timeout would be over, and
the driver then says when it was last heard of.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf

from curlhttp._curl.transfer import Transfer

__all__ = ["ReadTimeouts"]


class ReadTimeouts:
    """The times at which the transfers of one driver are to be looked at.

    Transfers with one timeout start in the order in which they are due, so that each distinct
    timeout has a queue that needs no sorting. The few that live longer are in a heap.
    """

    __slots__ = ("_queues", "_rechecks", "_serial")

    def __init__(self) -> None:
        self._queues: dict[float, dict[Transfer, float]] = {}
        self._rechecks: list[tuple[float, int, Transfer]] = []
        self._serial = 0  # transfers cannot be compared where two are due at the same time

    def start(self, transfer: Transfer, seconds: float) -> float:
        """Begin to look after a transfer that starts now.

        Args:
            transfer: as it was prepared.
            seconds: its read timeout.

        Returns:
            The monotonic time of the first look at it.
        """
        queue = self._queues.get(seconds)
        if queue is None:
            queue = self._queues[seconds] = {}
        check = queue[transfer] = transfer.stamp + seconds
        transfer.watches = queue
        return check

    def look_again(self, transfer: Transfer, due: float) -> None:
        """Have a transfer looked at once more, which was due and is not silent.

        Args:
            transfer: one that `take_due` returned.
            due: the monotonic time.
        """
        transfer.recheck = due
        self._serial += 1
        heappush(self._rechecks, (due, self._serial, transfer))

    def stop(self, transfer: Transfer) -> None:
        """Look after a transfer no longer."""
        queue = transfer.watches
        if queue is not None:
            queue.pop(transfer, None)  # it may be among the rechecks, which notice by themselves
            transfer.watches = None
            transfer.recheck = 0.0

    def take_due(self, now: float) -> list[Transfer]:
        """Take out the transfers that are to be looked at: nobody looks at all of them."""
        found = []
        for seconds, queue in list(self._queues.items()):
            while queue and next(iter(queue.values())) <= now:
                found.append(first := next(iter(queue)))
                del queue[first]
            if not queue:
                del self._queues[seconds]
        rechecks = self._rechecks
        while rechecks and rechecks[0][0] <= now:
            due, _, transfer = heappop(rechecks)
            if transfer.attached and transfer.recheck == due:  # not finished, nor another request
                found.append(transfer)
        return found

    def next_check(self) -> float:
        """Return the monotonic time of the next look, math.inf for none."""
        checks = [next(iter(queue.values())) for queue in self._queues.values() if queue]
        if self._rechecks:
            checks.append(self._rechecks[0][0])
        return min(checks, default=inf)

    def clear(self) -> None:
        """Look after nothing any more."""
        self._queues.clear()
        self._rechecks.clear()
