"""What came of a whole fetch: counts and times, as a table and as a plot."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, fields

from curlhttp._distributed.tally import slowest
from curlhttp._distributed.work import HostTimes, PartResult

__all__ = ["FetchSummary"]

_HOSTS = 20
_MOST_HOSTS = 10_000  # that are remembered


@dataclass(slots=True)
class FetchSummary:
    """What came of a fetch.

    Attributes:
        parts: how many are written.
        rows: in all of them.
        size: bytes of all bodies.
        seconds: from the start of this call to its end.
        worker_seconds: that the partitions took, one after another.
        statuses: rows by status code.
        errors: rows by the name of the exception.
        hosts: those whose answers took longest in the mean, the slowest first; of each partition
            the 20 slowest are known.
    """

    parts: int = 0
    rows: int = 0
    size: int = 0
    seconds: float = 0.0
    worker_seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    hosts: dict[str, HostTimes] = field(default_factory=dict)

    def add(self, result: PartResult) -> None:
        """Count a part."""
        self.parts += 1
        self.rows += result.rows
        self.size += result.size
        self.worker_seconds += result.seconds
        self.statuses.update(result.statuses)
        self.errors.update(result.errors)
        for name, times in result.hosts.items():
            known = self.hosts.setdefault(name, HostTimes())
            known.requests += times.requests
            known.seconds += times.seconds
            known.slowest = max(known.slowest, times.slowest)
        if len(self.hosts) > _MOST_HOSTS:
            self.hosts = slowest(self.hosts, _MOST_HOSTS // 2)

    def as_json(self) -> dict[str, object]:
        """Return all of it as JSON has it."""
        found: dict[str, object] = {item.name: getattr(self, item.name) for item in fields(self)}
        hosts = {name: asdict(times) for name, times in self.hosts.items()}
        return {
            **found,
            "statuses": dict(self.statuses),
            "errors": dict(self.errors),
            "hosts": hosts,
        }

    def finish(self, seconds: float) -> None:
        """Note the end, and put the slowest hosts in their order.

        Args:
            seconds: that the call took.
        """
        self.seconds = seconds
        self.hosts = slowest(self.hosts, _HOSTS)
