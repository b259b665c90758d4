"""Generate load in a closed loop, or in an open loop at a given rate; plot the latencies.

A histogram counts any number of latencies in a limited number of counters.
"""

from __future__ import annotations

import asyncio
import math
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from curlhttp._client.async_client import AsyncClient
from curlhttp._client.client import Client
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp.cli.terminal import format_seconds
from curlhttp.exceptions import RequestException

__all__ = [
    "PERCENTILES",
    "LatencyHistogram",
    "LoadPlan",
    "LoadResult",
    "draw",
    "run_closed",
    "run_open",
]


# --- A latency histogram: any number of latencies in a limited number of counters ---

_STEP = math.log(1.01)  # each counter covers one per cent
_SHORTEST = 1e-6  # seconds; shorter latencies count as this


class LatencyHistogram:
    """Count latencies, and return percentiles that are accurate to within one per cent."""

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
        """Return the mean, or 0 if there are no latencies."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, percent: float) -> float:
        """Return the seconds that `percent` of the latencies did not exceed; 0 if there are none.

        Args:
            percent: above 0 and up to 100.
        """
        remaining = math.ceil(self.count * percent / 100)
        for step in sorted(self._counts):
            remaining -= self._counts[step]
            if remaining <= 0:
                return min(max(math.exp(step * _STEP), self.least), self.most)
        return 0.0

    def rows(self, count: int) -> list[tuple[float, int]]:
        """Return rows of equal width: their upper bounds in seconds, and their counts.

        The last row goes from the 99th percentile to the slowest latency.

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


PERCENTILES = (50, 75, 90, 95, 99, 99.9)
_ROUNDS = 10  # of each URL, if there are two
_MAX_TASKS = 100_000  # in an open loop; if there are more, the next one starts late


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """What a load test sends.

    Args:
        urls: one URL, or two to compare.
        method: the HTTP method.
        content: the body, or None.
        concurrency: the number of concurrent requests.
        requests: the number of requests to each URL, or None for no limit.
        seconds: when to start no more requests, for all URLs together; or None.
        rate: requests per second in an open loop; None for a closed loop.
    """

    urls: tuple[str, ...]
    method: str
    content: bytes | None
    concurrency: int
    requests: int | None
    seconds: float | None
    rate: float | None

    def build_request(self, client: Client | AsyncClient, url: str) -> Request:
        """Return a request, which can be sent repeatedly because no attempt changes it."""
        request = client.build_request(self.method, url, content=self.content)
        request.jar = None
        return request


class LoadResult:
    """The result of a load test for one URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.latencies: LatencyHistogram = LatencyHistogram()
        self.statuses: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.size: int = 0
        self.ok: int = 0
        self.seconds: float = 0.0

    def add(self, outcome: Response | RequestException, latency: float | None = None) -> None:
        """Count a request.

        Args:
            outcome: the response, or the error.
            latency: seconds from when it was due; None to use the time of its transfer.
        """
        if isinstance(outcome, RequestException):
            self.errors[type(outcome).__name__] += 1
            return
        self.statuses[str(outcome.status_code)] += 1
        self.ok += outcome.status_code < 400
        self.size += len(outcome.content)
        self.latencies.add(outcome.timings.total if latency is None else latency)

    @property
    def done(self) -> int:
        """Return the number of requests."""
        return self.latencies.count + sum(self.errors.values())

    def as_json(self) -> dict[str, object]:
        """Return what --json shows, in seconds and bytes."""
        latencies = self.latencies
        percentiles = {f"p{part:g}": round(latencies.percentile(part), 6) for part in PERCENTILES}
        seconds = max(self.seconds, 1e-9)
        return {
            "url": self.url,
            "requests": self.done,
            "ok": self.ok,
            "statuses": dict(self.statuses.most_common()),
            "errors": dict(self.errors.most_common()),
            "seconds": round(self.seconds, 3),
            "rate": round(self.done / seconds, 1),
            "bytes": self.size,
            "bytes_per_second": round(self.size / seconds),
            "latency": {
                "min": round(latencies.least, 6) if latencies.count else 0.0,
                "mean": round(latencies.mean, 6),
                **percentiles,
                "max": round(latencies.most, 6),
            },
        }


# --- closed loop ---


def run_closed(client: Client, plan: LoadPlan, results: list[LoadResult]) -> None:
    """Keep a number of requests running; each starts when another one has ended.

    Two URLs take turns, so that other load on the machine affects both.

    Args:
        client: sends the requests.
        plan: what to send.
        results: one for each URL; they are filled while this runs.
    """
    requests = [plan.build_request(client, url) for url in plan.urls]
    for request in requests:
        for outcome in client.map([request] * plan.concurrency, concurrency=plan.concurrency):
            _raise_if_unreachable(outcome)
    rounds = _ROUNDS if len(requests) > 1 else 1
    seconds = None if plan.seconds is None else plan.seconds / rounds / len(requests)
    for number in range(rounds):
        for request, result in zip(requests, results, strict=True):
            count = plan.requests
            if count is not None:  # the first rounds take the remainder
                count = count // rounds + (number < count % rounds)
            _run_round(client, request, result, (count, seconds, plan.concurrency))


def _run_round(
    client: Client,
    request: Request,
    result: LoadResult,
    limits: tuple[int | None, float | None, int],
) -> None:
    count, seconds, concurrency = limits
    started, earlier = time.monotonic(), result.seconds

    def requests() -> Iterator[Request]:
        done = 0
        while done != count and (seconds is None or time.monotonic() - started < seconds):
            yield request
            done += 1

    with client.map(requests(), concurrency=concurrency) as outcomes:
        for outcome in outcomes:
            result.add(outcome)
            result.seconds = earlier + time.monotonic() - started


def _raise_if_unreachable(outcome: Response | RequestException) -> None:
    if isinstance(outcome, RequestException) and not outcome.request_sent:
        raise outcome  # there is no server, so there is no point in a thousand more attempts


# --- open loop ---


def run_open(
    create_client: Callable[[], AsyncClient], plan: LoadPlan, results: list[LoadResult]
) -> None:
    """Start a number of requests per second, whether or not others have ended.

    A latency counts from when the request was due, including the wait for a connection. So a server
    that stalls for a second delays all requests that were due in that second. A closed loop would
    not have sent them ("coordinated omission").

    Args:
        create_client: returns a client.
        plan: what to send, at which rate; two URLs take turns.
        results: one for each URL; they are filled while this runs.
    """
    asyncio.run(_send_at_rate(create_client, plan, results))


async def _send_at_rate(
    create_client: Callable[[], AsyncClient], plan: LoadPlan, results: list[LoadResult]
) -> None:
    async with create_client() as client:
        requests = [plan.build_request(client, url) for url in plan.urls]
        for request in requests:
            warm_up = (_send(client, request) for _ in range(min(plan.concurrency, 16)))
            for outcome in await asyncio.gather(*warm_up):
                _raise_if_unreachable(outcome)
        started = time.monotonic()
        tasks: set[asyncio.Task[None]] = set()

        async def send(index: int, due: float) -> None:
            outcome = await _send(client, requests[index])
            ended = time.monotonic()
            results[index].add(outcome, ended - due)
            results[index].seconds = ended - started

        for index, due in _schedule(plan, started):
            if len(tasks) >= _MAX_TASKS:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            # Also when it is late, so that running requests can proceed.
            await asyncio.sleep(max(due - time.monotonic(), 0))
            task = asyncio.create_task(send(index, due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)


def _schedule(plan: LoadPlan, started: float) -> Iterator[tuple[int, float]]:
    """Yield the index of the URL and the time at which each request is due."""
    assert plan.rate is not None
    number = 0
    while plan.requests is None or number < plan.requests * len(plan.urls):
        offset = number / plan.rate
        if plan.seconds is not None and offset >= plan.seconds:
            return
        yield number % len(plan.urls), started + offset
        number += 1


async def _send(client: AsyncClient, request: Request) -> Response | RequestException:
    try:
        return await client.send(request)
    except RequestException as error:
        return error


# --- the plot ---

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 700, 50, 320
_PLOTTED = (50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
_LABELLED = (50, 75, 90, 99, 99.9, 99.99)
_COLOURS = ("#d1495b", "#00798c")
_GRID_LINES = 4


def draw(series: Sequence[tuple[str, LatencyHistogram]], path: str) -> None:
    """Write latencies by percentile as SVG, on a logarithmic scale that shows the tail.

    The background is white, so that it is readable in dark mode.

    Args:
        series: the name of each line, and its latencies.
        path: the path of the file.

    Raises:
        OSError: it cannot be written.
    """
    highest = max((latencies.most for _, latencies in series), default=0.0) or 1e-6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        *_draw_grid(highest),
    ]
    for number, (name, latencies) in enumerate(series):
        colour = _COLOURS[number % len(_COLOURS)]
        parts.append(
            f'<text x="{_LEFT}" y="{18 + 16 * number}" fill="{colour}">{escape(name)}</text>'
        )
        if latencies.count:
            points = " ".join(
                f"{_get_x(part):.1f},{_get_y(latencies.percentile(part), highest):.1f}"
                for part in _PLOTTED
            )
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
            )
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([*parts, "</svg>", ""]))


def _draw_grid(highest: float) -> list[str]:
    parts = []
    for line in range(_GRID_LINES + 1):
        value = highest * line / _GRID_LINES
        y = _get_y(value, highest)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" stroke="#ddd"/>')
        label = format_seconds(value) if value else "0"
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    parts += [
        f'<text x="{_get_x(part):.1f}" y="{_BOTTOM + 20}" text-anchor="middle">p{part:g}</text>'
        for part in _LABELLED
    ]
    return parts


def _get_x(percent: float) -> float:
    first, last = (math.log10(100 - each) for each in (_PLOTTED[0], _PLOTTED[-1]))
    return _LEFT + (_RIGHT - _LEFT) * (first - math.log10(100 - percent)) / (first - last)


def _get_y(value: float, highest: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * value / highest
