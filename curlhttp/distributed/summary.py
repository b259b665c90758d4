"""The result of a partition, and the summary of a whole fetch, as a table and as a plot."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
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


def _add_hosts(hosts: dict[str, HostTimes], more: dict[str, HostTimes]) -> None:
    for name, times in more.items():
        total = hosts.setdefault(name, HostTimes())
        total.requests += times.requests
        total.seconds += times.seconds
        total.slowest = max(total.slowest, times.slowest)


@dataclass(slots=True)
class PartResult:
    """The result of a partition, which is a file of the manifest.

    Args:
        number: the number of the partition.
        digest: see Partition.
        rows: the number of rows in the part.
        size: the total size of the bodies in bytes.
        seconds: how long the worker took.
        statuses: the number of rows by status code.
        errors: the number of rows by exception name.
        reasons: the number of rows by reason; see failure_reason().
        hosts: the hosts whose requests took longest on average.
        parts: the number of its parts: more than one if it ended early before.
        is_early: it ended early, so that rows are missing.
        unchanged: the number of rows that are the same as in the run of `since`.
    """

    number: int
    digest: str
    rows: int = 0
    size: int = 0
    seconds: float = 0.0
    statuses: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, HostTimes] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    parts: int = 1
    is_early: bool = False
    unchanged: int = 0

    def merge(self, pieces: list[PartResult]) -> PartResult:
        """Return this result with those of the earlier parts of its partition."""
        merged = replace(self, statuses={}, errors={}, reasons={}, hosts={})
        counters = ("statuses", "errors", "reasons")
        totals: dict[str, Counter[str]] = {name: Counter() for name in counters}
        for result in (self, *pieces):
            for name, total in totals.items():
                total.update(getattr(result, name))
            _add_hosts(merged.hosts, result.hosts)
        for piece in pieces:
            merged.rows += piece.rows
            merged.size += piece.size
            merged.seconds += piece.seconds
            merged.parts += piece.parts
            merged.unchanged += piece.unchanged
        for name, total in totals.items():
            setattr(merged, name, dict(total))
        merged.hosts = _get_slowest(merged.hosts, _HOSTS)
        return merged

    def to_json(self) -> bytes:
        """Return the content of the file."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, text: bytes) -> PartResult:
        """Parse the content of the file.

        Raises:
            ValueError: the content is invalid.
        """
        try:
            fields = json.loads(text)
            hosts = {name: HostTimes(**times) for name, times in fields.pop("hosts").items()}
            return cls(**fields, hosts=hosts)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError("not the result of a partition") from error


class PartCounters:
    """Count the rows of a partition in a worker.

    Attributes:
        rows: the number of rows.
    """

    def __init__(self) -> None:
        self.rows: int = 0
        self._bytes = self._unchanged = 0
        self._statuses: Counter[int | None] = Counter()
        self._errors: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._hosts: defaultdict[str, HostTimes] = defaultdict(HostTimes)

    def add(self, rows: list[FetchRow]) -> None:
        """Count rows."""
        self.rows += len(rows)
        hosts, statuses = self._hosts, self._statuses
        for row in rows:
            self._bytes += row.size
            self._unchanged += row.unchanged
            if row.error is not None:
                self._errors[row.error] += 1
                self._reasons[row.reason or "other"] += 1
            else:
                statuses[row.status] += 1
            if row.timings is not None:
                seconds = row.timings[-1]
                times = hosts[row.host]
                times.requests += 1
                times.seconds += seconds
                if seconds > times.slowest:
                    times.slowest = seconds

    def result(self, number: int, digest: str, seconds: float) -> PartResult:
        """Return the result of the partition.

        Args:
            number: the number of the partition.
            digest: see Partition.
            seconds: how long it took.
        """
        return PartResult(
            number,
            digest,
            rows=self.rows,
            size=self._bytes,
            seconds=round(seconds, 3),
            statuses={str(status): number for status, number in self._statuses.items()},
            errors=dict(self._errors),
            reasons=dict(self._reasons),
            hosts=_get_slowest(self._hosts, _HOSTS),
            unchanged=self._unchanged,
        )


@dataclass(slots=True)
class FetchSummary:
    """The result of a fetch.

    Attributes:
        parts: the number of parts written.
        rows: the number of rows in all parts.
        size: the total size of all bodies in bytes.
        seconds: how long this call took.
        worker_seconds: the sum of the times of all partitions.
        statuses: the number of rows by status code.
        errors: the number of rows by exception name.
        reasons: the number of rows by reason; see failure_reason().
        hosts: the hosts whose requests took longest on average, the slowest first. Only the 20
            slowest hosts of each partition are counted.
        unchanged: the number of rows that are the same as in the run of `since`.
    """

    parts: int = 0
    rows: int = 0
    size: int = 0
    seconds: float = 0.0
    worker_seconds: float = 0.0
    statuses: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    hosts: dict[str, HostTimes] = field(default_factory=dict)
    unchanged: int = 0

    def add(self, result: PartResult) -> None:
        """Add the result of a partition."""
        self.parts += result.parts
        self.rows += result.rows
        self.size += result.size
        self.unchanged += result.unchanged
        self.worker_seconds += result.seconds
        self.statuses.update(result.statuses)
        self.errors.update(result.errors)
        self.reasons.update(result.reasons)
        _add_hosts(self.hosts, result.hosts)
        if len(self.hosts) > _MAX_HOSTS:
            self.hosts = _get_slowest(self.hosts, _MAX_HOSTS // 2)

    def as_json(self) -> dict[str, object]:
        """Return the attributes as JSON types."""
        values: dict[str, object] = {item.name: getattr(self, item.name) for item in fields(self)}
        hosts = {name: asdict(times) for name, times in self.hosts.items()}
        return {
            **values,
            "statuses": dict(self.statuses),
            "errors": dict(self.errors),
            "reasons": dict(self.reasons),
            "hosts": hosts,
        }

    def finish(self, seconds: float) -> None:
        """Set the duration, and keep only the slowest hosts, sorted.

        Args:
            seconds: how long the call took.
        """
        self.seconds = seconds
        self.hosts = _get_slowest(self.hosts, _HOSTS)

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
