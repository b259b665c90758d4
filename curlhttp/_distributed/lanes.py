"""Which partition may start next: two of one lane never run at once.

A lane has the URLs of its hosts, and each partition the whole of per_host and rate, so both hold
over all workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from curlhttp._distributed.partition import Partition

__all__ = ["Lanes"]


class Lanes:
    """Give the partitions in an order in which they may start.

    Args:
        partitions: in the order of their numbers; those without a lane may start at any time.
        ahead: how many may be read ahead of the first one whose lane is free.
    """

    def __init__(self, partitions: Iterator[Partition], ahead: int) -> None:
        self._partitions = partitions
        self._ahead = ahead
        self._waiting: deque[Partition] = deque()
        self._running: dict[int, int] = {}  # lanes by the number of the partition

    def __iter__(self) -> Iterator[Partition | None]:
        return self

    def __next__(self) -> Partition | None:
        """Return the next partition, or None: ask again when another one has ended."""
        busy = set(self._running.values())
        for index, partition in enumerate(self._waiting):
            if partition.lane not in busy:
                del self._waiting[index]
                return self._started(partition)
        while len(self._waiting) < self._ahead:
            found = next(self._partitions, None)
            if found is None:
                break
            if found.lane not in busy:
                return self._started(found)
            self._waiting.append(found)
        if not self._waiting:
            raise StopIteration
        return None

    def _started(self, partition: Partition) -> Partition:
        if partition.lane is not None:
            self._running[partition.number] = partition.lane
        return partition

    def release(self, number: int) -> None:
        """Note that a partition has ended.

        Args:
            number: of the partition.
        """
        self._running.pop(number, None)
