"""The result of a partition, and the summary of a whole fetch, as a table and as a plot."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING

from curlhttp.distributed.rows import FetchRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_HOSTS = 20  # hosts that a partition and the summary list
_MAX_HOSTS = 10_000  # hosts that the driver keeps in memory
_BARS = 12  # in each plot
_MAX_LABEL = 30  # characters


@dataclass(slots=True)
class HostTimes:
    """How long the requests to one host took.

    Args:
        requests: the number of requests that got a response or failed after they were sent.
        seconds: their total time, each to the end of its response.
        slowest: the time of the slowest one in seconds.
    """

    requests: int = 0
    seconds: float = 0.0
    slowest: float = 0.0


def _get_slowest(hosts: dict[str, HostTimes], most: int) -> dict[str, HostTimes]:
    """Return the hosts with the longest mean time, the slowest first.

    Args:
        hosts: times by host.
        most: the maximum number of hosts.
    """
    ranked = sorted(hosts.items(), key=lambda item: -item[1].seconds / item[1].requests)
    return dict(ranked[:most])


@dataclass(slots=True, kw_only=True)
class RowCounts:
    """Rows, counted.

    Attributes:
        rows: the number of rows.
        size: the total size of their bodies in bytes.
        statuses: the number of rows by status code.
        errors: the number of rows by exception name.
        reasons: the number of rows by reason; see failure_reason().
        hosts: the hosts whose requests took longest on average.
        unchanged: the number of rows that are the same as in the run of `since`.
    """

    rows: int = 0
    size: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    hosts: dict[str, HostTimes] = field(default_factory=dict)
    unchanged: int = 0

    def _add_counts(self, more: RowCounts) -> None:
        """Add the counts of other rows."""
        self.rows += more.rows
        self.size += more.size
        self.unchanged += more.unchanged
        for name in _COUNTERS:
            getattr(self, name).update(getattr(more, name))
        for host, times in more.hosts.items():
            total = self.hosts.setdefault(host, HostTimes())
            total.requests += times.requests
            total.seconds += times.seconds
            total.slowest = max(total.slowest, times.slowest)

    def _count(self, rows: list[FetchRow]) -> None:
        """Count rows."""
        self.rows += len(rows)
        hosts, statuses = self.hosts, self.statuses
        for row in rows:
            self.size += row.size
            self.unchanged += row.unchanged
            if row.error is not None:
                self.errors[row.error] += 1
                self.reasons[row.reason or "other"] += 1
            else:
                statuses[str(row.status)] += 1
            if row.timings is not None:
                seconds = row.timings[-1]
                times = hosts.get(row.host)
                if times is None:
                    times = hosts[row.host] = HostTimes()
                times.requests += 1
                times.seconds += seconds
                if seconds > times.slowest:
                    times.slowest = seconds

    def _keep_slowest(self, most: int) -> None:
        """Keep the hosts with the longest mean time, the slowest first."""
        self.hosts = _get_slowest(self.hosts, most)

    def as_json(self) -> dict[str, object]:
        """Return the attributes as JSON types."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        hosts = {name: asdict(times) for name, times in self.hosts.items()}
        return {**values, **{name: dict(values[name]) for name in _COUNTERS}, "hosts": hosts}


_COUNTERS = ("statuses", "errors", "reasons")


@dataclass(slots=True, kw_only=True)
class PartResult(RowCounts):
    """The result of a partition, which is a file of the manifest.

    Args:
        number: the number of the partition.
        digest: see Partition.
        seconds: how long the worker took.
        parts: the number of its parts: more than one if it ended early before.
        is_early: it ended early, so that rows are missing.
    """

    number: int
    digest: str
    seconds: float = 0.0
    parts: int = 1
    is_early: bool = False

    def add(self, rows: list[FetchRow]) -> None:
        """Count rows."""
        self._count(rows)

    def end(self, seconds: float, *, is_early: bool) -> PartResult:
        """Return the result of the rows so far, with the slowest hosts alone.

        Args:
            seconds: how long they took.
            is_early: there are further rows.
        """
        hosts = _get_slowest(self.hosts, _HOSTS)
        return replace(self, seconds=round(seconds, 3), is_early=is_early, hosts=hosts)

    def merge(self, pieces: list[PartResult]) -> PartResult:
        """Return this result with those of the earlier parts of its partition."""
        merged = PartResult(number=self.number, digest=self.digest, parts=0, is_early=self.is_early)
        for result in (self, *pieces):
            merged._add_counts(result)
            merged.seconds += result.seconds
            merged.parts += result.parts
        merged._keep_slowest(_HOSTS)
        return merged

    def to_json(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(self.as_json()).encode()

    @classmethod
    def from_json(cls, text: bytes) -> PartResult:
        """Parse the content of the file.

        Raises:
            ValueError: the content is invalid.
        """
        try:
            values = json.loads(text)
            values |= {name: Counter(values[name]) for name in _COUNTERS}
            hosts = {name: HostTimes(**times) for name, times in values["hosts"].items()}
            return cls(**{**values, "hosts": hosts})
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError("not the result of a partition") from error


@dataclass(slots=True, kw_only=True)
class FetchSummary(RowCounts):
    """The result of a fetch.

    Attributes:
        rows: the number of rows in all parts.
        size: the total size of all bodies in bytes.
        statuses: the number of rows by status code.
        errors: the number of rows by exception name.
        reasons: the number of rows by reason; see failure_reason().
        hosts: the hosts whose requests took longest on average, the slowest first. Only the 20
            slowest hosts of each partition are counted.
        unchanged: the number of rows that are the same as in the run of `since`.
        parts: the number of parts written.
        seconds: how long this call took.
        worker_seconds: the sum of the times of all partitions.
    """

    parts: int = 0
    seconds: float = 0.0
    worker_seconds: float = 0.0

    def add(self, result: PartResult) -> None:
        """Add the result of a partition."""
        self._add_counts(result)
        self.parts += result.parts
        self.worker_seconds += result.seconds
        if len(self.hosts) > _MAX_HOSTS:
            self._keep_slowest(_MAX_HOSTS // 2)

    def finish(self, seconds: float) -> None:
        """Set the duration, and keep only the slowest hosts, sorted.

        Args:
            seconds: how long the call took.
        """
        self.seconds = seconds
        self._keep_slowest(_HOSTS)

    def rows_of_table(self) -> list[tuple[str, str]]:
        """Return the rows of the table, each with a label and a text."""
        rate = self.rows / self.worker_seconds if self.worker_seconds else 0.0
        rows = [
            ("rows", f"{self.rows:,} in {self.parts:,} parts"),
            ("bodies", f"{self.size:,} bytes"),
            ("time", f"{self.seconds:,.1f} s; workers {self.worker_seconds:,.1f} s, {rate:,.0f}/s"),
            ("statuses", _format_counts(self.statuses)),
            ("errors", _format_counts(self.errors)),
        ]
        if self.reasons:
            rows.append(("reasons", _format_counts(self.reasons)))
        if self.unchanged:
            rows.append(("same", f"{self.unchanged:,} unchanged since the earlier run"))
        for name, times in self.hosts.items():
            mean = times.seconds / times.requests
            text = f"mean {mean:.3f} s of {times.requests:,}, slowest {times.slowest:.3f} s"
            rows.append(("slow host", f"{name}: {text}"))
        return rows

    def __str__(self) -> str:
        """Return the summary as a table."""
        return "\n".join(f"{name:<10}{text}" for name, text in self.rows_of_table())

    def plot(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot statuses, errors and the slowest hosts with matplotlib (extra `plot`).

        Args:
            path: the file to save the figure to, as PNG, SVG or PDF by its name, or None.

        Raises:
            ImportError: matplotlib is not installed.
        """
        try:
            from matplotlib.figure import Figure  # not pyplot, which would choose a display
        except ImportError as error:
            raise ImportError("plots need matplotlib: pip install 'curlhttp[plot]'") from error
        figure = Figure(figsize=(12, 4), layout="constrained")
        statuses, errors, hosts = figure.subplots(1, 3)
        _plot_bars(statuses, "rows by status", dict(self.statuses.most_common(_BARS)))
        _plot_bars(errors, "rows by error", dict(self.errors.most_common(_BARS)))
        means = {name: times.seconds / times.requests for name, times in self.hosts.items()}
        _plot_bars(hosts, "slowest hosts, mean seconds", dict(list(means.items())[:_BARS]))
        if path is not None:
            figure.savefig(path)
        return figure


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common()) or "none"


def _plot_bars(axes: Axes, title: str, values: Mapping[str, float]) -> None:
    names = [name if len(name) <= _MAX_LABEL else f"{name[:_MAX_LABEL]}..." for name in values]
    positions = range(len(names))
    axes.barh(positions, list(values.values()))
    axes.set_yticks(positions, names)
    axes.invert_yaxis()
    axes.set_title(title)
    if not names:
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center")
