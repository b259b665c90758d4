"""A histogram of latencies, which `bench` and `fetch` show."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter

_STEP = math.log(1.01)  # each counter covers a range of one per cent
_SHORTEST = 1e-6  # seconds; shorter latencies count as this


class LatencyHistogram:
    """Count any number of latencies in a limited number of counters.

    Percentiles are accurate to within one per cent.
    """

    def __init__(self) -> None:
        self.count: int = 0
        self.total: float = 0.0
        self.least: float = math.inf
        self.most: float = 0.0
        self._counts: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        """Count a latency.

        Args:
            seconds: zero or more.
        """
        self.count += 1
        self.total += seconds
        self.least = min(self.least, seconds)
        self.most = max(self.most, seconds)
        self._counts[round(math.log(max(seconds, _SHORTEST)) / _STEP)] += 1

    @property
    def mean(self) -> float:
        """Return the mean in seconds, or 0 if there are no latencies."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return a percentile in seconds, or 0 if there are no latencies.

        Args:
            percent: greater than 0, at most 100.
        """
        remaining = math.ceil(self.count * percent / 100)
        for step in sorted(self._counts):
            remaining -= self._counts[step]
            if remaining <= 0:
                return min(max(math.exp(step * _STEP), self.least), self.most)
        return 0.0

    def rows(self, count: int) -> list[tuple[float, int]]:
        """Return rows of equal width, each with its upper bound in seconds and its count.

        The last row reaches from the 99th percentile to the maximum.

        Args:
            count: the maximum number of rows, at least two.
        """
        if not self.count:
            return []
        end = self.percentile(99)
        width = (end - self.least) / (count - 1)
        bounds = [self.least + width * number for number in range(1, count - 1)] if width else []
        bounds += [end, self.most]
        rows = [0] * len(bounds)
        for step, times in self._counts.items():
            rows[min(bisect_left(bounds, math.exp(step * _STEP)), len(bounds) - 1)] += times
        while not rows[-1]:
            rows.pop()
        return list(zip(bounds, rows, strict=False))
