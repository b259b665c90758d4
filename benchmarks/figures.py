"""Statistics of the samples of a case: medians, spreads, ratios of rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

__all__ = ["MEASURES", "Ratio", "Spread", "cpu", "of_rows", "rate", "ratio", "summaries"]

Sample = dict[str, Any]


@dataclass(frozen=True)
class Spread:
    """A median, with the minimum and the maximum of the rounds."""

    median: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: list[float]) -> Spread:
        return cls(median(values), min(values), max(values))


def rate(sample: Sample) -> float:
    """Return requests per second."""
    return float(sample["requests"] / sample["wall"])


def cpu(sample: Sample) -> float:
    """Return microseconds of CPU per request."""
    return float(sample["cpu"] / sample["requests"] * 1e6)


def _wall(sample: Sample) -> float:
    return float(sample["wall"] / sample["requests"])


def _memory(sample: Sample) -> float:
    return float(sample["peak_rss"])


def _errors(sample: Sample) -> float:
    return float(sample["errors"])


MEASURES: dict[str, Callable[[Sample], float]] = {
    "rate": rate,
    "cpu": cpu,
    "wall": _wall,
    "memory": _memory,
    "errors": _errors,
}


@dataclass(frozen=True)
class Ratio:
    """The ratios of two clients, round by round: their median, and the quartiles around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Ratio:
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        low, middle, high = quantiles(values, n=4, method="inclusive")
        return cls(middle, low, high)

    def may_be(self, value: float) -> bool:
        """Return whether the spread includes a value, so that the rounds cannot tell them apart."""
        return self.low <= value <= self.high and self.low < self.high


def ratio(
    over: list[Sample], under: list[Sample], measure: Callable[[Sample], float]
) -> Ratio | None:
    """Return the ratio of two clients' samples; None if there are none, or a measure is 0."""
    pairs = [(measure(one), measure(other)) for one, other in zip(over, under, strict=False)]
    if not pairs or not all(divisor for _, divisor in pairs):
        return None
    return Ratio.of([one / other for one, other in pairs])


def of_rows(row: dict[str, Any], measure: Callable[[Sample], float]) -> Spread:
    """Return the spread of a measure over a row's rounds."""
    return Spread.of([measure(sample) for sample in row["samples"]])


@dataclass(frozen=True)
class Summary:
    """A row of a table. `ratio` is its rate divided by curlhttp's, round by round."""

    client: str
    loop: str
    rate: Spread
    cpu: Spread
    ratio: Ratio | None
    errors: int
    server: float | None
    row: dict[str, Any]


def summaries(case: dict[str, Any]) -> list[Summary]:
    """Return the rows of a case, the fastest first."""
    found = [_summary(row, _curlhttp(case, row["loop"])) for row in case["rows"]]
    return sorted(found, key=lambda summary: -summary.rate.median)


def _curlhttp(case: dict[str, Any], loop: str) -> dict[str, Any] | None:
    """Return curlhttp's row on this loop; for clients without a loop, that on the fastest one."""
    ours: dict[str, dict[str, Any]] = {}
    for row in case["rows"]:
        if row["client"] == "curlhttp":
            ours.setdefault(row["loop"], row)
    return next((ours[one] for one in (loop, "uvloop", "asyncio") if one in ours), None)


def _summary(row: dict[str, Any], ours: dict[str, Any] | None) -> Summary:
    samples = row["samples"]
    return Summary(
        client=row["client"],
        loop=row["loop"],
        rate=of_rows(row, rate),
        cpu=of_rows(row, cpu),
        ratio=None if ours is None else ratio(samples, ours["samples"], rate),
        errors=sum(sample["errors"] for sample in samples),
        server=_busy(samples),
        row=row,
    )


def _busy(samples: list[Sample]) -> float | None:
    """Return the share of the time in which the server was busy, if it was measured."""
    if any("server_cpu" not in one for one in samples):
        return None
    return float(sum(one["server_cpu"] for one in samples) / sum(one["wall"] for one in samples))
