"""Latencies of any number of requests in a bounded number of counters: one per cent exact."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter

__all__ = ["Latencies", "shown_seconds"]

_STEP = math.log(1.01)
_LEAST = 1e-6  # seconds; what is faster counts as this


class Latencies:
    """Count seconds, and tell their percentiles to within one per cent."""

    def __init__(self) -> None:
        self.count: int = 0
        self.total: float = 0.0
        self.least: float = math.inf
        self.most: float = 0.0
        self._counts: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        """Count one.

        Args:
            seconds: zero or more.
        """
        self.count += 1
        self.total += seconds
        self.least = min(self.least, seconds)
        self.most = max(self.most, seconds)
        self._counts[round(math.log(max(seconds, _LEAST)) / _STEP)] += 1

    @property
    def mean(self) -> float:
        """Return the mean, 0 of none."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the seconds that so many per cent did not exceed; 0 of none.

        Args:
            percent: above 0 and up to 100.
        """
        wanted = math.ceil(self.count * percent / 100)
        for step in sorted(self._counts):
            wanted -= self._counts[step]
            if wanted <= 0:
                return min(max(math.exp(step * _STEP), self.least), self.most)
        return 0.0

    def rows(self, count: int) -> list[tuple[float, int]]:
        """Return a histogram: (upper bound in seconds, how many) for rows of the same width.

        The last row, up to the slowest, begins at the 99th percentile.

        Args:
            count: rows at most, and at least two.
        """
        if not self.count:
            return []
        end = self.percentile(99)
        width = (end - self.least) / (count - 1)
        bounds = [self.least + width * number for number in range(1, count - 1)] if width else []
        bounds += [end, self.most]
        found = [0] * len(bounds)
        for step, times in self._counts.items():
            found[min(bisect_left(bounds, math.exp(step * _STEP)), len(bounds) - 1)] += times
        while not found[-1]:
            found.pop()
        return list(zip(bounds, found, strict=False))


def shown_seconds(seconds: float) -> str:
    """Return seconds as people say them: "0.35 ms", "12 ms", "1.5 s"."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.2g} ms" if seconds < 0.00995 else f"{seconds * 1000:.0f} ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.3g} s"
