"""What a worker counts of its partition."""

from __future__ import annotations

from collections import Counter, defaultdict

from curlhttp._distributed.rows import FetchRow
from curlhttp._distributed.work import HostTimes, PartResult

__all__ = ["PartTally", "slowest"]

_HOSTS = 20  # of a partition, in the manifest


def slowest(hosts: dict[str, HostTimes], most: int) -> dict[str, HostTimes]:
    """Return the hosts with the longest mean, the slowest first.

    Args:
        hosts: by name.
        most: how many.
    """
    ranked = sorted(hosts.items(), key=lambda item: -item[1].seconds / item[1].requests)
    return dict(ranked[:most])


class PartTally:
    """Count rows.

    Attributes:
        rows: how many.
    """

    def __init__(self) -> None:
        self.rows: int = 0
        self._bytes = 0
        self._statuses: Counter[str] = Counter()
        self._errors: Counter[str] = Counter()
        self._hosts: defaultdict[str, HostTimes] = defaultdict(HostTimes)

    def add(self, row: FetchRow) -> None:
        """Count a row."""
        self.rows += 1
        self._bytes += row.size
        if row.error is not None:
            self._errors[row.error] += 1
        else:
            self._statuses[str(row.status)] += 1
        if row.timings is not None:
            seconds = row.timings[-1]
            times = self._hosts[row.host]
            times.requests += 1
            times.seconds += seconds
            if seconds > times.slowest:
                times.slowest = seconds

    def result(self, number: int, digest: str, seconds: float) -> PartResult:
        """Return what was counted.

        Args:
            number: of the partition.
            digest: likewise.
            seconds: that it took.
        """
        return PartResult(
            number,
            digest,
            rows=self.rows,
            size=self._bytes,
            seconds=round(seconds, 3),
            statuses=dict(self._statuses),
            errors=dict(self._errors),
            hosts=slowest(self._hosts, _HOSTS),
        )
