"""Count by origin how attempts end, where their time goes, and what requests wait for.

An attempt with a response leaves one tuple in a list. They are added up when the list is full or
somebody reads, hundreds at a time and mostly in C, so that a request costs a few bytecodes.
Everything else is rare, and counted at once.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from curlhttp._http.timings import MICROSECOND, CurlTimings, Timings
from curlhttp.exceptions import RequestException, Timeout

if TYPE_CHECKING:
    from collections.abc import Callable

    from curlhttp._http.origin_stats import OriginStats, TimeStats
    from curlhttp._http.request import ClientRequest

MAX_ORIGINS = 100  # that have their own counts
OTHER = "other"  # stands for all further ones
FULL = 512  # responses that wait to be added up
_EACH = 6  # values of each of them
MOST_PENDING = FULL * _EACH
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_BOUNDS = [round(each / MICROSECOND) for each in BUCKETS]
_get_key = itemgetter(0, 1)

RefusalObserver: TypeAlias = "Callable[[ClientRequest, RequestException], object]"

Pending: TypeAlias = "list[Any]"  # Any: of each value its own type
"""The origin, the status, and the timings but the addresses of one response after another.

They are not in tuples, because the garbage collector would run more often the more of these wait.
"""


class _Sum:
    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0

    def add(self, number: int, total: float) -> None:
        self.count += number
        self.total += total

    def read(self, unit: float = 1.0) -> TimeStats:
        from curlhttp._http.origin_stats import TimeStats

        return TimeStats(self.count, self.total * unit)


class _Counts:
    """The counts of one origin; times are in microseconds, those of waits in seconds."""

    def __init__(self) -> None:
        self.responses: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.timeouts: Counter[str] = Counter()
        self.refusals = self.openings = 0
        self.phases: dict[str, _Sum] = {}
        self.waits: dict[str, _Sum] = {}
        self._durations = _Sum()
        self._buckets = [0] * len(BUCKETS)

    def add_responses(
        self,
        status_code: int,
        queues: Sequence[float],
        firsts: Sequence[int],
        totals: Sequence[int],
        steps: Sequence[tuple[int, int, int] | None],
    ) -> None:
        """Add responses with the same status; no Python code runs for each of them."""
        number, first, total = len(totals), sum(firsts), sum(totals)
        self.responses[f"{status_code // 100}xx"] += number
        self._add_durations(totals)
        opened = 0
        for named, connected, secured in filter(None, steps):  # new connections
            last = max(named, connected, secured)
            opened += last
            self.add_phase("dns", named)
            self.add_phase("connect", max(0, connected - named))
            if secured:
                self.add_phase("tls", max(0, secured - connected))
        self.add_phase("server", max(0, first - opened), number)
        self.add_phase("body", max(0, total - first), number)
        if waited := list(filter(None, queues)):
            self.add_wait("pool", sum(waited), len(waited))

    def add_failure(self, phase: str, times: CurlTimings) -> None:
        """Add the time of an attempt that failed in a phase."""
        if times[0]:
            self.add_wait("pool", times[0])
        self._add_durations((times[2],))
        for name, micros in _split(phase, times):
            self.add_phase(name, micros)

    def _add_durations(self, totals: Sequence[int]) -> None:
        ordered, below = sorted(totals), 0
        for bucket, bound in enumerate(_BOUNDS):
            upto = bisect_right(ordered, bound, below)
            self._buckets[bucket] += upto - below
            below = upto
        self._durations.add(len(totals), sum(totals))

    def add_phase(self, name: str, micros: float, number: int = 1) -> None:
        self.phases.setdefault(name, _Sum()).add(number, micros)

    def add_wait(self, reason: str, seconds: float, number: int = 1) -> None:
        self.waits.setdefault(reason, _Sum()).add(number, seconds)

    def read(self) -> OriginStats:
        from curlhttp._http.origin_stats import OriginStats

        numbers, below = {}, 0
        for bound, number in zip(BUCKETS, self._buckets, strict=True):
            below += number
            numbers[float(bound)] = below
        return OriginStats(
            dict(self.responses),
            dict(self.errors),
            dict(self.timeouts),
            self.refusals,
            self.openings,
            {name: each.read(MICROSECOND) for name, each in self.phases.copy().items()},
            {name: each.read() for name, each in self.waits.copy().items()},
            self._durations.read(MICROSECOND),
            numbers if self._durations.count else {},
        )


def _split(phase: str, times: CurlTimings) -> Iterator[tuple[str, int]]:
    """Return the phases of an attempt that failed in the last one, and their microseconds."""
    _, first, total, _, steps = times
    done = 0
    ends = (*zip(("dns", "connect", "tls"), steps or (), strict=False), ("server", first))
    for name, end in ends:
        if name == phase:
            break
        if end > done:
            yield name, end - done
            done = end
    yield phase, max(0, total - done)


class _Origins(dict[str, str]):
    """The names under which origins are counted; no name is given up, so that no count falls."""

    def __missing__(self, origin: str) -> str:
        if len(self) >= MAX_ORIGINS:
            return OTHER
        self[origin] = origin
        return origin


class Outcomes:
    """The counts of all origins; any thread may add to them.

    Attributes:
        pending: responses that are not added up; whoever appends calls `fold` at MOST_PENDING
            values.
        observers: called with a request and an error if an attempt is not made, because a breaker
            refused it, or because a limit did not admit it in time.
    """

    __slots__ = ("_by_origin", "_lock", "_names", "_opened", "observers", "pending")

    def __init__(self) -> None:
        self.observers: tuple[RefusalObserver, ...] = ()
        self.pending: Pending = []
        self._opened: list[str] = []
        self.clear()

    def clear(self) -> None:
        """Start at zero, in a forked child."""
        # Reentrant, because a finalizer may count something while its thread does.
        self._lock = threading.RLock()
        self.pending.clear()
        self._opened.clear()
        self._names = _Origins()
        self._by_origin: dict[str, _Counts] = {}

    def _get(self, origin: str) -> _Counts:
        name = self._names[origin]
        found = self._by_origin.get(name)
        if found is None:
            found = self._by_origin[name] = _Counts()
        return found

    def fold(self) -> None:
        """Add up the pending responses."""
        with self._lock:
            pending = self.pending
            batch = pending[:]
            del pending[: len(batch)]  # others may have appended meanwhile
            origins, statuses, queues, firsts, totals, steps = (
                batch[each::_EACH] for each in range(_EACH)
            )
            columns = queues, firsts, totals, steps
            if batch and _are_equal(origins) and _are_equal(statuses):  # as mostly
                self._get(origins[0]).add_responses(statuses[0], *columns)
            else:
                names = map(self._names.__getitem__, origins)
                rows = sorted(zip(names, statuses, *columns, strict=True), key=_get_key)
                for (name, status), group in groupby(rows, _get_key):
                    _, _, *parts = zip(*group, strict=True)
                    self._get(name).add_responses(status, *parts)
            while self._opened:
                self._get(self._opened.pop()).openings += 1

    def add_response(self, origin: str, status_code: int, times: Timings | CurlTimings) -> None:
        """Count a response.

        Args:
            origin: of the request.
            status_code: of the response.
            times: of the attempt.
        """
        queue, first, total, _, steps = _to_curl_timings(times)
        self.pending += origin, status_code, queue, first, total, steps
        if len(self.pending) >= MOST_PENDING:
            self.fold()

    def add_failure(
        self, origin: str, error: BaseException, phase: str, times: Timings | CurlTimings | None
    ) -> None:
        """Count an attempt that failed, unless its caller was interrupted.

        Args:
            origin: of the request.
            error: the failure.
            phase: what the attempt was busy with; "" if it had not begun.
            times: of the attempt, None if it was not started.
        """
        name = _name_error(error)
        if name is None:
            return
        with self._lock:
            counts = self._get(origin)
            counts.errors[name] += 1
            if isinstance(error, Timeout) and phase:
                counts.timeouts[phase] += 1
            if times is not None:
                name = "server" if phase == "send" else phase or "server"
                counts.add_failure(name, _to_curl_timings(times))

    def add_wait(self, origin: str, reason: str, seconds: float) -> None:
        """Count a wait before an attempt.

        Args:
            origin: of the request.
            reason: see OriginStats.waits.
            seconds: how long it took.
        """
        with self._lock:
            self._get(origin).add_wait(reason, seconds)

    def add_refusal(self, key: str) -> None:
        """Count an attempt that the circuit of a key refused."""
        with self._lock:
            self._get(key).refusals += 1

    def add_opening(self, key: str) -> None:
        """Count that the circuit of a key has opened. Never waits: a finalizer may call it."""
        self._opened.append(key)

    def read(self) -> dict[str, OriginStats]:
        """Return the counts by origin, sorted; any thread may call this."""
        with self._lock:
            self.fold()
            return {name: counts.read() for name, counts in sorted(self._by_origin.items())}


def _are_equal(values: Sequence[object]) -> bool:
    return values.count(values[0]) == len(values)


def _name_error(error: BaseException) -> str | None:
    """Return the name under which an error is counted, None for none: there are few names."""
    if isinstance(error, RequestException):
        own = (each for each in type(error).__mro__ if each.__module__.startswith("curlhttp."))
        return next(own, RequestException).__name__
    if isinstance(error, Exception):
        return "other"
    # asyncio's and trio's; not Ctrl-C, nor the end of a coroutine that nobody awaits any more.
    return "Cancelled" if type(error).__name__ in ("CancelledError", "Cancelled") else None


def _to_curl_timings(times: Timings | CurlTimings) -> CurlTimings:
    if not isinstance(times, Timings):
        return times
    named = times.dns
    connected = named + times.connect
    secured = connected + times.tls if times.tls else 0.0
    steps = None
    if connected:
        steps = _micros(named), _micros(connected), _micros(secured)
    return times.queue, _micros(times.first_byte), _micros(times.total), None, steps


def _micros(seconds: float) -> int:
    return round(seconds / MICROSECOND)
