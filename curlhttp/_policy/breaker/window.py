"""Sliding windows over the results of calls: the last N of them, or those of the last T seconds."""

from __future__ import annotations

from collections import deque

__all__ = ["CountWindow", "TimeWindow", "Window"]

_BUCKETS = 10  # of a time window: it forgets in steps of a tenth
_FAILED, _SLOW = 1, 2


class Window:
    """Count calls, and how many of them failed or were slow.

    Attributes:
        calls: in the window now.
        failures: of these.
        slow: of these, failed or not.
    """

    __slots__ = ("calls", "failures", "slow")

    def __init__(self) -> None:
        self.calls: int = 0
        self.failures: int = 0
        self.slow: int = 0

    def add(self, now: float, failed: bool, slow: bool) -> None:
        """Count a call, and forget those that are no longer in the window."""
        raise NotImplementedError

    @property
    def failure_rate(self) -> float:
        """Return the share of failures, 0 without calls."""
        # A quotient, not rate * calls: 7 of 100 are 0.07, where 0.07 * 100 is more than 7.
        return self.failures / self.calls if self.calls else 0.0

    @property
    def slow_call_rate(self) -> float:
        """Return the share of slow calls, 0 without calls."""
        return self.slow / self.calls if self.calls else 0.0


class CountWindow(Window):
    """Hold the last calls.

    Args:
        size: how many.
    """

    __slots__ = ("_at", "_results", "_size")

    def __init__(self, size: int) -> None:
        super().__init__()
        self._results = bytearray()  # a ring once it is full
        self._size = size
        self._at = 0

    def add(self, now: float, failed: bool, slow: bool) -> None:
        """Count a call, and forget the oldest of too many."""
        result = _FAILED * failed | _SLOW * slow
        if self.calls < self._size:
            self._results.append(result)
            self.calls += 1
        else:
            oldest, self._results[self._at] = self._results[self._at], result
            self._at = (self._at + 1) % self._size
            self.failures -= oldest & _FAILED
            self.slow -= (oldest & _SLOW) // _SLOW
        self.failures += failed
        self.slow += slow


class TimeWindow(Window):
    """Hold the calls of the last seconds, in buckets.

    Args:
        seconds: how long a call counts, to a tenth of that.
    """

    __slots__ = ("_buckets", "_width")

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._width = seconds / _BUCKETS
        self._buckets: deque[list[int]] = deque()  # [index, calls, failures, slow]

    def add(self, now: float, failed: bool, slow: bool) -> None:
        """Count a call that ended now, and forget the buckets that are too old."""
        index = int(now // self._width)
        buckets = self._buckets
        while buckets and buckets[0][0] <= index - _BUCKETS:
            _, calls, failures, slow_calls = buckets.popleft()
            self.calls -= calls
            self.failures -= failures
            self.slow -= slow_calls
        # Threads may read the clock in one order and come here in another.
        if not buckets or index > buckets[-1][0]:
            buckets.append([index, 0, 0, 0])
        bucket = buckets[-1]
        bucket[1] += 1
        bucket[2] += failed
        bucket[3] += slow
        self.calls += 1
        self.failures += failed
        self.slow += slow
