"""What is computed from the samples of a case: medians, spreads, ratios."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

__all__ = ["Spread", "cpu", "of_rows", "rate", "summaries"]

Sample = dict[str, Any]


@dataclass(frozen=True)
class Spread:
    """A median, with the least and the greatest of the rounds."""

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


def of_rows(row: dict[str, Any], measure: Callable[[Sample], float]) -> Spread:
    """Return the spread of a measure over a row's rounds."""
    return Spread.of([measure(sample) for sample in row["samples"]])


@dataclass(frozen=True)
class Summary:
    """A row of a table. `ratio` is its rate in curlhttp's, the median over pairs of a round."""

    client: str
    loop: str
    rate: Spread
    cpu: Spread
    ratio: float | None
    errors: int
    server: float
    row: dict[str, Any]


def summaries(case: dict[str, Any]) -> list[Summary]:
    """Return the rows of a case, the fastest first."""
    found = [_summary(row, _curlhttp(case, row["loop"])) for row in case["rows"]]
    return sorted(found, key=lambda summary: -summary.rate.median)


def _curlhttp(case: dict[str, Any], loop: str) -> dict[str, Any] | None:
    """Return curlhttp's row on a loop; for what has none, the first of those on the fastest."""
    ours = {row["loop"]: row for row in case["rows"] if row["client"] == "curlhttp"}
    for candidate in (loop, "uvloop", "asyncio"):
        if candidate in ours:
            found: dict[str, Any] = ours[candidate]
            return found
    return None


def _summary(row: dict[str, Any], ours: dict[str, Any] | None) -> Summary:
    samples = row["samples"]
    ratio = None
    if ours is not None:
        pairs = zip(samples, ours["samples"], strict=False)
        ratio = median(rate(theirs) / rate(our) for theirs, our in pairs)
    return Summary(
        client=row["client"],
        loop=row["loop"],
        rate=of_rows(row, rate),
        cpu=of_rows(row, cpu),
        ratio=ratio,
        errors=sum(sample["errors"] for sample in samples),
        server=sum(one["server_cpu"] for one in samples) / sum(one["wall"] for one in samples),
        row=row,
    )
