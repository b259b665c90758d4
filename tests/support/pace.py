"""How slow this machine is at the moment; limits in tests scale with it.

A limit that must not be reached in a test is half a minute; one that must be is as short as the
machine allows, `paced`, which is looked at before each test. What took too long for a quiet machine
is measured against the machine as it is at that moment. Knows nothing of curlhttp.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable

_NAME = "CURLHTTP_TESTS_PACE"
_LOOPS = 40_000.0  # a second, on a quiet machine of 2020 or so
_LONGEST = 30.0  # beyond that, waiting for tests is not worth it
_EACH = 3.0  # seconds from look to look: on a busy machine, a look takes 0.1 s of each process
_SPAN = 10.0  # seconds for which a slow moment counts


def slowness() -> float:
    """Return how many times slower than a quiet machine this one is just now, 1 at least."""
    if (first := _slowness(0.1)) <= 1.0:
        return first
    return max(first, _slowness(0.7))  # a scheduler is kind to who has just come


def _slowness(seconds: float, clock: Callable[[], float] = time.monotonic) -> float:
    count, start = 0, clock()
    while (spent := clock() - start) < seconds:
        sum(range(1000))
        count += 1
    rate = count / spent
    return round(min(max(_LOOPS / rate, 1.0), _LONGEST), 1)


# As it was before the run started processes.
PACE = float(os.environ.setdefault(_NAME, str(slowness())))
_seen = deque([(time.monotonic(), PACE)])


def look() -> None:
    """Set the pace to the slowest of the last seconds, for the test that is to begin."""
    global PACE
    now = time.monotonic()
    if now < _seen[-1][0] + _EACH:
        return
    _seen.append((now, _slowness(0.1) if _slowness(0.02) > 1 else 1.0))
    while _seen[0][0] < now - _SPAN:
        _seen.popleft()
    PACE = max(slow for _, slow in _seen)


def paced(seconds: float) -> float:
    """Return a time as long, for this machine, as the given one is for a quiet one.

    It does so within a test, whose times are in proportion; not in what is made on import.
    """
    return round(seconds * PACE, 4)


def assert_in_time(seconds: float, limit: float, late: float) -> None:
    """Check that something took no longer than limit and lateness of this machine at this moment.

    Args:
        seconds: what it took.
        limit: what it must take anyway.
        late: what a quiet machine may add.
    """
    if seconds > limit + paced(late):  # else the machine need not be asked
        bound = limit + 2 * late * max(slowness(), PACE)
        assert seconds <= bound, f"{seconds:.4f} s, but {limit} s and lateness make {bound:.4f} s"


def assert_cheap(seconds: float, limit: float) -> None:
    """Check that something took no more CPU than this machine needs.

    Args:
        seconds: of CPU, that it took.
        limit: seconds that a quiet machine may need.
    """
    if seconds > limit:
        bound = limit * max(_slowness(0.1, time.thread_time), 1.0)
        assert seconds <= bound, f"{seconds:.4f} s of CPU, but this machine may need {bound:.4f} s"
