"""Find out how many concurrent requests an origin can handle, from latency and rejections.

AIMD: a limit that was reached grows by its square root in each window of requests. It shrinks by a
factor if requests were rejected, or if they took significantly longer than in the best recent
window. In the second case, the factor is the gradient best / latency: by Little's law, this is the
part of the limit that does not wait in the origin's queue, so that the queue becomes empty.
docs/decisions/adaptive-limits.md explains why, with references.

Pure: times are arguments.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import NamedTuple, cast

from curlhttp._features.limits.policy import ConcurrencyLimit, Lease, Per, Queue, Wake
from curlhttp._http.errors import Unpicklable, check_number
from curlhttp._http.request import ClientRequest
from curlhttp._http.suggestions import with_suggestions
from curlhttp.exceptions import (
    ConnectTimeout,
    DeadlineExceeded,
    PoolTimeout,
    ReadTimeout,
    WriteTimeout,
)

REJECTING_STATUSES = frozenset({429, 503, 504})
_TIMEOUTS = (ConnectTimeout, ReadTimeout, WriteTimeout)  # not those of this side's own queues

_WINDOW = 20  # fewest requests in a window
_MIN_LATENCIES = 10  # fewest latencies whose mean is compared
_ERRORS = 3.0  # standard errors within which means are the same
_DEVIATIONS = 2.0  # standard deviations above the mean that few latencies exceed
_TOLERANCE = 1.25  # how much slower than the best window is no queue
_MIN_LATENCY = 0.001  # seconds; below it, the clients' own timers and threads are measured
_LEAST_FACTOR, _GREATEST_FACTOR = 0.5, 0.9  # of a decrease
_DRAIN = 0.9  # of what does not queue; below 1, so that the queue is empty for a moment
_PROGRESS = 0.95  # of the best mean, below which a decrease has found a better one
_GREATER_DRAIN = 0.7  # while decreases find better ones, because the queue was never empty
_USELESS_DECREASES = 3  # in a row, after which the latency is not from this client's requests
_MEMORY_SECONDS, _MEMORY_WINDOWS = 10.0, 10  # least length of a period; the last two count
_IDLE_ORIGINS = 1000  # number of origins without requests whose limits are kept


class _SampleWindow:
    """What the requests of a window have shown.

    Attributes:
        begun: monotonic seconds.
        rejected: number of requests.
        latencies: number of them.
        mean: of the latencies, in seconds.
        peak: most requests at the same time.
        is_full: whether the limit was reached.
    """

    __slots__ = ("_squares", "begun", "is_full", "latencies", "mean", "peak", "rejected")

    def __init__(self, begun: float, used: int = 0, *, is_full: bool = False) -> None:
        self.begun = begun
        self.peak = used
        self.is_full = is_full
        self.rejected = self.latencies = 0
        self.mean = self._squares = 0.0

    def add(self, latency: float) -> None:
        """Count a latency (Welford's algorithm)."""
        self.latencies += 1
        change = latency - self.mean
        self.mean += change / self.latencies
        self._squares += change * (latency - self.mean)

    @property
    def deviation(self) -> float:
        """Return the standard deviation of the latencies."""
        return math.sqrt(self._squares / (self.latencies - 1))

    @property
    def error(self) -> float:
        """Return the standard error of the mean, times _ERRORS."""
        return _ERRORS * self.deviation / math.sqrt(self.latencies)


class _Best:
    """The least mean of a recent window, at the upper end of its error.

    It is the least of two periods. The older one is dropped when the newer one is long enough.
    """

    __slots__ = ("_newer", "_older", "_since", "_windows")

    def __init__(self) -> None:
        self._older = self._newer = math.inf
        self._since = -math.inf
        self._windows = 0

    @property
    def least(self) -> float:
        """Return the least mean, inf without any."""
        return min(self._older, self._newer)

    def add(self, mean: float, now: float) -> float:
        """Count a window, and return the least mean."""
        if now - self._since >= _MEMORY_SECONDS and self._windows >= _MEMORY_WINDOWS:
            self._older, self._newer = self._newer, math.inf
            self._since, self._windows = now, 0
        self._windows += 1
        self._newer = min(self._newer, mean)
        return self.least

    def reset(self, mean: float, now: float) -> None:
        """Forget all windows but one."""
        self._older, self._newer = math.inf, mean
        self._since, self._windows = now, 1


class _Estimate(Queue):
    """The limit of one origin, the queue for it, and what is known about its latency.

    Args:
        key: of the origin.
        initial: the first limit.
        minimum: the least one.
        maximum: the greatest one.

    Attributes:
        usual: the mean latency of the last window in seconds, inf before the first.
        most: the latency that few requests of that window exceeded, 0 before the first.
        window: the requests since the last decision.
    """

    __slots__ = (
        "_best",
        "_cut_at",
        "_exact",
        "_limit_before",
        "_mean_before",
        "_range",
        "_useless",
        "most",
        "usual",
        "window",
    )

    def __init__(self, key: str, initial: int, minimum: int, maximum: int) -> None:
        super().__init__(key, initial)
        self._range = (float(minimum), float(maximum))
        self._exact = float(initial)
        self._best = _Best()
        self._cut_at = -math.inf
        # Before the first decrease that has not yet brought the usual latency back.
        self._limit_before, self._mean_before = 0.0, math.inf
        self._useless = 0
        self.usual = math.inf
        self.most = 0.0
        self.window = _SampleWindow(-math.inf)

    def note_use(self) -> None:
        """Note that one more request is under way."""
        window = self.window
        if self.used > window.peak:
            window.peak = self.used
        if self.used >= self.limit:
            window.is_full = True

    def note_latency(self, seconds: float, begun: float, now: float) -> None:
        """Note how long a response took."""
        if begun >= self.window.begun:  # others were sent under another limit
            self.window.add(seconds)
            self._end_window(now)

    def note_rejection(self, begun: float, now: float) -> None:
        """Note that a request was rejected or timed out."""
        if begun >= self._cut_at:  # the decrease since then was for those that were sent before
            self.window.rejected += 1
            self._end_window(now)

    def _end_window(self, now: float) -> None:
        window = self.window
        requests = window.latencies + window.rejected
        if requests < max(_WINDOW, min(self.limit, window.peak)):
            return
        factor = self._compare(window, now)
        if window.rejected:
            share = 1 - window.rejected / requests
            factor = min(factor, max(_LEAST_FACTOR, min(_GREATEST_FACTOR, share)))
        exact = self._exact
        if factor < 1:
            # From what was used: to shrink a limit that is far above it changes nothing.
            used = max(exact * _LEAST_FACTOR, min(exact, window.peak) * factor)
            exact = min(used, exact)
            self._cut_at = now
        elif window.is_full:
            exact += math.sqrt(exact)
        least, greatest = self._range
        self._exact = min(greatest, max(least, exact))
        self.limit = int(self._exact)
        self.window = _SampleWindow(now, self.used, is_full=self.used >= self.limit)

    def _compare(self, window: _SampleWindow, now: float) -> float:
        """Return the factor by which the latency of a window changes the limit; 1 for none."""
        if window.latencies < _MIN_LATENCIES:
            return 1.0
        mean, error = window.mean, window.error
        self.usual, self.most = mean, mean + _DEVIATIONS * window.deviation
        before = max(_MIN_LATENCY, self._best.least)
        best = max(_MIN_LATENCY, self._best.add(mean + error, now))
        if mean - error <= best * _TOLERANCE:
            self._useless = 0
            # The decrease has shown that there was a queue in the best window as well.
            if self._mean_before < math.inf and best < before * _PROGRESS:
                return _GREATER_DRAIN
            self._mean_before = math.inf
            return 1.0
        if self._mean_before == math.inf:
            self._limit_before, self._mean_before = self._exact, mean
        else:
            # If the latency is from the queue of these requests, it shrinks with the limit. All
            # decreases together are checked, because chance exceeds the effect of a single one.
            share = self._exact / self._limit_before
            is_useless = mean > self._mean_before * (1 + share) / 2
            self._useless = self._useless + 1 if is_useless else 0
        if self._useless >= _USELESS_DECREASES:
            self._best.reset(mean + error, now)
            self._useless, self._mean_before = 0, math.inf
            self._exact = self._limit_before  # fewer requests have only cost responses
            return 1.0
        return max(_LEAST_FACTOR, min(_GREATEST_FACTOR, _DRAIN * best / mean))


class _Observation(NamedTuple):
    """What a limit learns from one request.

    Attributes:
        origin: of the request.
        latency: in seconds, None if it was rejected.
        is_least: the request was cut off, so that the latency would have been longer.
        begun: when it was sent; both are monotonic seconds.
        now: when it ended.
    """

    origin: str
    latency: float | None
    is_least: bool
    begun: float
    now: float


@with_suggestions("AdaptiveLimit")
class AdaptiveLimit(Unpicklable, ConcurrencyLimit):
    """Find how many concurrent requests an origin can handle, and limit requests to this number.

    The limit grows while it is reached and the origin is as fast as before. It shrinks when the
    origin gets slower, responds with 429, 503 or 504, or does not respond in time. Clients, threads
    and event loops can share one object. Waiting requests are sent in the order in which they
    arrived.

    Args:
        initial: the limit of an origin before anything is known about it.
        minimum: the lowest limit.
        maximum: the highest limit.
        per: "origin" to limit each origin separately, None to limit all together.

    Raises:
        ValueError: a number is below 1, or initial is not between minimum and maximum.
        TypeError: one of them is not a whole number.
    """

    _adapts = True
    _why_not = "it knows the requests that are under way; make a new one where it is needed"

    def __init__(
        self, initial: int = 20, minimum: int = 1, maximum: int = 1000, *, per: Per = "origin"
    ) -> None:
        for name, value in (("initial", initial), ("minimum", minimum), ("maximum", maximum)):
            check_number(name, value, least=1, whole=True)
        if not minimum <= initial <= maximum:
            raise ValueError(
                "initial must be between minimum and maximum, "
                f"not {initial} with minimum {minimum} and maximum {maximum}"
            )
        self.minimum = minimum
        self.maximum = maximum
        super().__init__(initial, per=per)

    def _clear(self) -> None:
        super()._clear()
        self._idle: OrderedDict[str, Queue] = OrderedDict()  # the longest idle first

    def current(self, origin: str) -> int:
        """Return how many requests to an origin may be under way at present.

        Args:
            origin: "scheme://host:port", such as URL.origin.
        """
        queue = self._queues.get(self._key(origin))
        return self.limit if queue is None else queue.limit

    def _note_response(
        self, origin: str, status_code: int, latency: float | None, begun: float, now: float
    ) -> None:
        """Learn from a response.

        Args:
            origin: of the request.
            status_code: of the response.
            latency: seconds to the first byte, without those for a connection; None if unknown.
            begun: when the request was sent; both are monotonic seconds.
            now: when the response was received.
        """
        if status_code in REJECTING_STATUSES:
            self._learn(_Observation(origin, None, False, begun, now))
        # Other failures are faster or slower than what is asked for.
        elif status_code < 500 and latency is not None:
            self._learn(_Observation(origin, latency, False, begun, now))

    def _note_failure(self, origin: str, error: BaseException, begun: float, now: float) -> None:
        """Learn from a request without a response.

        Args:
            origin: of the request.
            error: what was raised. One that is not an Exception has cancelled the request.
            begun: when the request was sent; both are monotonic seconds.
            now: when it failed.
        """
        if isinstance(error, _TIMEOUTS):
            self._learn(_Observation(origin, None, False, begun, now))
        elif not isinstance(error, Exception) or (
            isinstance(error, DeadlineExceeded) and error.request_sent
        ):
            # The caller had no more time. The response would have taken longer than that, which
            # says something only if it is longer than usual.
            self._learn(_Observation(origin, now - begun, True, begun, now))

    def _learn(self, observation: _Observation) -> None:
        # In the queue of leases to release, because a cancelled request may end in a
        # finalizer, which must not wait for the lock.
        self._remove_later(cast(Lease, observation))

    def _remove(self, slot: Lease | _Observation, wakes: list[Wake]) -> None:
        if not isinstance(slot, _Observation):
            super()._remove(slot, wakes)
            return
        found = self._queues.get(self._key(slot.origin))
        if found is None:  # the request began before a fork
            return
        assert isinstance(found, _Estimate)
        if slot.latency is None:
            found.note_rejection(slot.begun, slot.now)
        elif not slot.is_least or slot.latency > found.usual:
            found.note_latency(slot.latency, slot.begun, slot.now)
        self._grant_waiting(found, wakes)

    def _get_patience(self, request: ClientRequest, now: float) -> float | None:
        """Return the seconds that a request may wait, so that there is time left for the response.

        Otherwise, while too many requests wait, each one would be sent when its total timeout has
        almost run out, and all of them would fail.

        Args:
            request: the request.
            now: monotonic seconds.
        """
        patience, deadline = super()._get_patience(request, now), request.deadline
        queue = self._queues.get(self._key(request.url.origin))
        if deadline is None or patience is None or queue is None:
            return patience
        assert isinstance(queue, _Estimate)
        left = max(0.0, deadline - now)
        return min(patience, left - min(queue.most, left / 2))

    def _make_timeout_error(
        self, request: ClientRequest, now: float
    ) -> DeadlineExceeded | PoolTimeout:
        """Return the error for a request that got no slot in time.

        Args:
            request: the request that waited.
            now: monotonic seconds.
        """
        is_late = request.timeout.pool is None or request.is_late(now)
        return (DeadlineExceeded if is_late else PoolTimeout)(
            f"{request}: none of the {self.current(request.url.origin)} concurrent requests that "
            "the origin can handle at present ended in time; close streamed responses, or send "
            "fewer requests",
            request=request,
        )

    def _queue(self, origin: str) -> Queue:
        queue = super()._queue(origin)
        self._idle.pop(queue.key, None)
        return queue

    def _make_queue(self, key: str) -> Queue:
        return _Estimate(key, self.limit, self.minimum, self.maximum)

    def _grant(self, lease: Lease, queue: Queue) -> None:
        super()._grant(lease, queue)
        assert isinstance(queue, _Estimate)
        queue.note_use()

    def _forget(self, queue: Queue) -> None:
        self._idle[queue.key] = queue
        if len(self._idle) > _IDLE_ORIGINS:
            key, _ = self._idle.popitem(last=False)
            del self._queues[key]

    def __repr__(self) -> str:
        return f"AdaptiveLimit({self.limit}, {self.minimum}, {self.maximum}, per={self.per!r})"
