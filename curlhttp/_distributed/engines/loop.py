"""What all engines do alike: start partitions while there is room, and wait for one that ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from curlhttp._distributed.partition import Partition
from curlhttp._distributed.work import PartResult

__all__ = ["Workers", "bring", "most_in_flight"]

_PER_SLOT = 2  # one that runs, and the next one, or that for which more workers are asked
_LEAST = 4  # also where no worker is there yet


def most_in_flight(slots: int) -> int:
    """Return how many partitions a cluster is given at once.

    Args:
        slots: how many it runs at once now.
    """
    return max(_LEAST, _PER_SLOT * slots)


class Workers(Protocol):
    """Those to whom an engine brings partitions."""

    @property
    def has_room(self) -> bool:
        """Return whether one more partition may be started."""

    @property
    def is_busy(self) -> bool:
        """Return whether a partition runs or waits."""

    def start(self, partition: Partition) -> None:
        """Have a partition run soon."""

    def result(self) -> PartResult:
        """Wait for the next partition that ends; one whose worker is lost runs again."""

    def stop(self) -> None:
        """Stop what is under way."""


def bring(workers: Workers, partitions: Iterator[Partition | None]) -> Iterator[PartResult]:
    """Bring partitions to workers, and give the results as they come.

    Args:
        workers: are stopped at the end.
        partitions: None among them means that none may start before another has ended.
    """
    try:
        is_over = False
        while True:
            while not is_over and workers.has_room:
                try:
                    partition = next(partitions)
                except StopIteration:
                    is_over = True
                    break
                if partition is None:
                    break
                workers.start(partition)
            if not workers.is_busy:
                return
            yield workers.result()
    finally:
        workers.stop()
