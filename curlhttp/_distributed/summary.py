"""What came of a whole fetch: counts and times, as a table and as a plot."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING

from curlhttp._distributed.tally import slowest
from curlhttp._distributed.work import HostTimes, PartResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

    def rows_of_table(self) -> list[tuple[str, str]]:
        """Return the summary for people: a name and what there is to say."""
        rate = self.rows / self.worker_seconds if self.worker_seconds else 0.0
        rows = [
            ("rows", f"{self.rows:,} in {self.parts:,} parts"),
            ("bodies", f"{self.size:,} bytes"),
            ("time", f"{self.seconds:,.1f} s; workers {self.worker_seconds:,.1f} s, {rate:,.0f}/s"),
            ("statuses", _counted(self.statuses)),
            ("errors", _counted(self.errors)),
        ]
        for name, times in self.hosts.items():
            mean = times.seconds / times.requests
            told = f"mean {mean:.3f} s of {times.requests:,}, slowest {times.slowest:.3f} s"
            rows.append(("slow host", f"{name}: {told}"))
        return rows

    def __str__(self) -> str:
        """Return the summary as a table."""
        return "\n".join(f"{name:<10}{text}" for name, text in self.rows_of_table())

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Return the summary as a figure of matplotlib; needs the extra `plot`.

        Args:
            path: where to write it, as PNG, SVG or PDF by its name; None to write nothing.

        Raises:
            ImportError: matplotlib is not installed.
        """
        from curlhttp._distributed.plot import plotted

        figure = plotted(self)
        if path is not None:
            figure.savefig(path)
        return figure


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common()) or "none"
