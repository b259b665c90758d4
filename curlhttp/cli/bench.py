"""The command `curlhttp bench`: load-test one or two URLs from one process.

A closed loop keeps a number of requests running. An open loop (--rate) starts requests at a fixed
rate. A histogram counts the latencies.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import click

from curlhttp._features.typed_urls import complete_url
from curlhttp.cli.errors import INTERRUPTED, CommandFailed
from curlhttp.cli.files import replace_file
from curlhttp.cli.histogram import LatencyHistogram
from curlhttp.cli.options import (
    ConnectionOptions,
    add_options,
    connection_options,
    integer,
    parse_seconds,
)
from curlhttp.cli.stats import describe_stats, write_stats
from curlhttp.cli.terminal import console, format_bytes, format_counts, format_seconds
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from rich.console import Console
    from typing_extensions import Unpack

    from curlhttp._api.async_client import AsyncClient
    from curlhttp._api.client import Client
    from curlhttp._features.stats import ClientStats
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response

_REQUESTS = 1000  # by default, without -z
_PERCENTILES = (50, 75, 90, 95, 99, 99.9)
_ROWS = 10  # of the histogram
_ROUNDS = 10  # of each URL, if there are two
_MAX_TASKS = 100_000  # in an open loop; if there are more, the next one starts late

_EPILOG = """\b
Each concurrent request has its own connection. The first round opens the
connections and is not counted. A latency is the time of one transfer as
libcurl measures it. With --rate, it starts when the request was due.
Two URLs take turns, and -n applies to each. Ctrl-C prints the results so far.
The client uses one core: if the server is faster than that, the results
measure the client, not the server.

\b
Exit status: 0 if all statuses were below 400, 1 if there were others or
errors, 130 after Ctrl-C.

\b
Examples:
  curlhttp bench http://127.0.0.1:8080/ -c 64 -n 10000
  curlhttp bench https://example.org/ -c 10 -z 30 --json
  curlhttp bench http://127.0.0.1:8080/ --rate 200 -z 30 --plot latencies.svg
  curlhttp bench http://127.0.0.1:8080/old http://127.0.0.1:8080/new
"""
_OPTIONS = (
    click.option("-c", "--concurrency", type=integer(1, 10_000), default=64, show_default=True,
                 metavar="N", help="Number of concurrent requests."),
    click.option("-n", "--requests", type=integer(most=10**12), metavar="N",
                 help=f"Total number of requests.  [default: {_REQUESTS} without -z]"),
    click.option("-z", "--duration", type=parse_seconds, metavar="SECONDS",
                 help="Do not start requests after this time."),
    click.option("--rate", type=parse_seconds, metavar="N",
                 help="Start N requests per second, even if earlier ones are still running."),
    click.option("-X", "--method", default="GET", show_default=True, help="HTTP method."),
    click.option("-d", "--data", metavar="DATA", help="Request body, which is sent unchanged."),
    click.option("--plot", type=click.Path(dir_okay=False, writable=True), metavar="FILE",
                 help="Plot latencies by percentile to an SVG file."),
    click.option("--stats", type=click.Path(dir_okay=False, writable=True), metavar="FILE",
                 help="Write the client's statistics to FILE, as text for Prometheus."),
    click.option("--json", "as_json", is_flag=True, help="Print the results as JSON."),
)  # fmt: skip


class _BenchOptions(TypedDict):
    """The values of the options. Their help texts describe them."""

    concurrency: int
    requests: int | None
    duration: float | None
    rate: float | None
    method: str
    data: str | None
    plot: str | None
    stats: str | None
    as_json: bool


@click.command(help="Load-test one URL, or compare two.", epilog=_EPILOG)
@click.argument("urls", nargs=-1, required=True, metavar="URL [URL]")
@add_options(_OPTIONS)
@connection_options
def bench(
    urls: tuple[str, ...], connection: ConnectionOptions, **options: Unpack[_BenchOptions]
) -> int:
    """Run a load test, and print the results."""
    if len(urls) > 2:
        raise click.UsageError("bench takes one or two URLs")
    plan = _create_plan(urls, options)
    results = [LoadResult(url) for url in plan.urls]
    status, stats = _run(connection, plan, results)
    if options["as_json"]:
        shown = [result.as_json() for result in results]
        click.echo(json.dumps(shown[0] if len(shown) == 1 else shown))
    else:
        _print(results)
        console().print(f"{'client':<10}{describe_stats(stats)}", soft_wrap=True)
    if options["stats"]:
        write_stats(stats, options["stats"])
    if options["plot"]:
        _draw_plot([(result.url, result.latencies) for result in results], options["plot"])
    return status or int(any(result.ok != result.done for result in results))


def _create_plan(urls: tuple[str, ...], options: _BenchOptions) -> LoadPlan:
    most = options["requests"] or (None if options["duration"] else _REQUESTS)
    concurrency = options["concurrency"]
    plan = LoadPlan(
        urls=tuple(map(complete_url, urls)),
        method=options["method"],
        content=None if options["data"] is None else options["data"].encode(),
        concurrency=concurrency if most is None else min(concurrency, most),
        requests=most,
        seconds=options["duration"],
        rate=options["rate"],
    )
    _check_open_files(plan.concurrency)
    return plan


def _check_open_files(concurrency: int) -> None:
    from curlhttp._libcurl.slots import limit_by_open_files

    bound = limit_by_open_files(concurrency)
    if bound < concurrency:
        raise CommandFailed(
            f"-c {concurrency} is more than the {bound} connections that the limit on open files "
            "allows; raise it with ulimit -n",
            2,
        )


def _run(
    connection: ConnectionOptions, plan: LoadPlan, results: list[LoadResult]
) -> tuple[int, ClientStats]:
    """Fill in the results; return 0, or 130 after Ctrl-C, and the statistics of the client."""
    used: list[Client | AsyncClient] = []
    status = 0
    with connection.client(max_connections=plan.concurrency) as client:  # validates the options
        try:
            if plan.rate is None:
                used.append(client)
                _run_closed_loop(client, plan, results)
            else:
                import asyncio

                asyncio.run(_run_open_loop(connection, plan, results, used))
        except KeyboardInterrupt:
            status = INTERRUPTED
        stats = (used or [client])[0].stats()  # before the connections are closed
    return status, stats


# --- send requests ---


@dataclass(frozen=True, kw_only=True)
class LoadPlan:
    """The requests of a load test.

    Args:
        urls: one URL, or two to compare.
        method: the HTTP method.
        content: the body, or None.
        concurrency: the number of concurrent requests.
        requests: the number of requests to each URL, or None for no limit.
        seconds: how long to start requests, for all URLs together, or None for no limit.
        rate: requests per second in an open loop, or None for a closed loop.
    """

    urls: tuple[str, ...]
    method: str
    content: bytes | None
    concurrency: int
    requests: int | None
    seconds: float | None
    rate: float | None

    def build_request(self, client: Client | AsyncClient, url: str) -> ClientRequest:
        """Build a request that can be sent repeatedly, because no cookie jar changes it."""
        request = client.build_request(self.method, url, content=self.content)
        request.jar = None
        return request


# --- closed loop ---


def _run_closed_loop(client: Client, plan: LoadPlan, results: list[LoadResult]) -> None:
    """Keep a number of requests running: each one starts when another one has ended.

    Two URLs take turns, so that other load on the machine affects both.

    Args:
        client: sends the requests.
        plan: what to send.
        results: one for each URL, updated while this runs.
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
            if count is not None:  # the remainder goes to the first rounds
                count = count // rounds + (number < count % rounds)
            _run_round(client, request, result, (count, seconds, plan.concurrency))


def _run_round(
    client: Client,
    request: ClientRequest,
    result: LoadResult,
    limits: tuple[int | None, float | None, int],
) -> None:
    count, seconds, concurrency = limits
    started, earlier = time.monotonic(), result.seconds

    def requests() -> Iterator[ClientRequest]:
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
        raise outcome  # there is no server, so a thousand more attempts are pointless


# --- open loop ---


async def _run_open_loop(
    connection: ConnectionOptions,
    plan: LoadPlan,
    results: list[LoadResult],
    used: list[Client | AsyncClient],
) -> None:
    """Start a number of requests per second, whether or not earlier ones have ended.

    A latency starts when the request was due, so it includes the wait for a connection. A server
    that stalls for a second delays all requests that were due in that second. A closed loop would
    not have sent these requests ("coordinated omission").

    Args:
        connection: the options of the client.
        plan: what to send, and at which rate. Two URLs take turns.
        results: one for each URL, updated while this runs.
        used: the client is appended to it.
    """
    import asyncio  # here, because every command imports this module

    from curlhttp._api.async_client import AsyncClient

    settings = {**connection.settings(), "max_connections": plan.concurrency}
    async with AsyncClient(**settings) as client:
        connection.prepare(client)
        used.append(client)
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
            # Sleep even if it is late, so that running requests can proceed.
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


async def _send(client: AsyncClient, request: ClientRequest) -> Response | RequestException:
    try:
        return await client.send(request)
    except RequestException as error:
        return error


# --- count, and show the counts ---


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
            latency: seconds since the request was due, or None to use the time of its transfer.
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
        """Return the results for --json, in seconds and bytes."""
        latencies = self.latencies
        percentiles = {f"p{part:g}": round(latencies.percentile(part), 6) for part in _PERCENTILES}
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


def _print(results: list[LoadResult]) -> None:
    out = console()
    for number, result in enumerate(results):
        if len(results) > 1:
            out.print(("\n" if number else "") + result.url, soft_wrap=True)
        _print_result(result, out)
    if len(results) == 2 and all(result.latencies.count for result in results):
        first, second = (result.latencies for result in results)
        ratios = [
            f"p{part:g} {second.percentile(part) / max(first.percentile(part), 1e-9):.2f}"
            for part in (50, 90, 99)
        ]
        out.print(f"\nlatency of the second relative to the first: {', '.join(ratios)}")


def _print_result(result: LoadResult, out: Console) -> None:
    seconds = max(result.seconds, 1e-9)
    rate, speed = result.done / seconds, result.size / seconds
    rows = [
        ("requests", f"{result.done:,} in {result.seconds:.2f} s"),
        ("rate", f"{rate:,.0f}/s, {format_bytes(speed)}/s"),
        ("statuses", format_counts(result.statuses)),
        ("errors", format_counts(result.errors)),
    ]
    latencies = result.latencies
    if latencies.count:
        parts = [f"p{part:g} {format_seconds(latencies.percentile(part))}" for part in _PERCENTILES]
        ends = f"min {format_seconds(latencies.least)}, max {format_seconds(latencies.most)}"
        rows += [("latency", ", ".join(parts)), ("", ends)]
    for name, text in rows:
        out.print(f"{name:<10}{text}", soft_wrap=True)
    histogram = latencies.rows(_ROWS)
    most = max((count for _, count in histogram), default=0)
    width = max(5, min(50, out.width - 24))
    if histogram:
        out.print()
    for bound, times in histogram:
        bar = "█" * round(width * times / most) or ("▏" if times else "")
        out.print(f"≤ {format_seconds(bound):>8}  {times:>9,}  {bar}", soft_wrap=True)


# --- plot ---

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 700, 50, 320
_PLOTTED = (50, 75, 90, 95, 99, 99.5, 99.9, 99.95, 99.99)
_LABELLED = (50, 75, 90, 99, 99.9, 99.99)
_COLOURS = ("#d1495b", "#00798c")
_GRID_LINES = 4


def _draw_plot(series: Sequence[tuple[str, LatencyHistogram]], path: str) -> None:
    """Plot latencies by percentile to an SVG file. A logarithmic scale shows the tail.

    The background is white, so that the plot is readable in dark mode.

    Args:
        series: the name of each line, and its latencies.
        path: the path of the file.

    Raises:
        OSError: the file cannot be written.
    """
    from html import escape

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
    replace_file(path, "\n".join([*parts, "</svg>", ""]))


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
