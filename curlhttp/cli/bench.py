"""The command `curlhttp bench`: a small load test from one process."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypedDict

import click

from curlhttp.cli.connection import ConnectionOptions, with_connection
from curlhttp.cli.exits import CommandFailed
from curlhttp.cli.latency import Latencies, shown_seconds
from curlhttp.cli.numbers import count, seconds
from curlhttp.cli.terminal import console
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._client import Client
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response

__all__ = ["bench"]

_ROWS = 10
_PERCENTILES = (50, 75, 90, 95, 99, 99.9)
_REQUESTS = 1000
_EPILOG = """\b
One connection for each of the requests at once; the first round warms them up
and does not count. A latency is that of one transfer, as libcurl measures it.
The client takes a core itself: a server that is faster than that is not
measured, but the client.

\b
Exit status: 0 all were answered below status 400, 1 some were not.

\b
Examples:
  curlhttp bench http://127.0.0.1:8080/ -c 64 -n 10000
  curlhttp bench https://example.org/ -c 10 -z 30 --json
"""


class _BenchOptions(TypedDict):
    """What the options say; see their help."""

    concurrency: int
    requests: int | None
    duration: float | None
    method: str
    data: str | None
    as_json: bool


class _Load:
    """What a load test found out."""

    def __init__(self) -> None:
        self.latencies = Latencies()
        self.statuses: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.size = 0
        self.ok = 0
        self.seconds = 0.0

    def add(self, outcome: Response | RequestException) -> None:
        """Count what came of a request."""
        if isinstance(outcome, RequestException):
            self.errors[type(outcome).__name__] += 1
            return
        self.statuses[str(outcome.status_code)] += 1
        self.ok += outcome.status_code < 400
        self.size += len(outcome.content)
        self.latencies.add(outcome.timings.total)

    @property
    def done(self) -> int:
        """Return how many requests there were."""
        return self.latencies.count + self.errors.total()

    def as_json(self) -> dict[str, object]:
        """Return what --json shows; seconds and bytes."""
        found = self.latencies
        percentiles = {f"p{part:g}": round(found.percentile(part), 6) for part in _PERCENTILES}
        return {
            "requests": self.done,
            "ok": self.ok,
            "statuses": dict(self.statuses.most_common()),
            "errors": dict(self.errors.most_common()),
            "seconds": round(self.seconds, 3),
            "rate": round(self.done / self.seconds, 1),
            "bytes": self.size,
            "bytes_per_second": round(self.size / self.seconds),
            "latency": {
                "min": round(found.least, 6) if found.count else 0.0,
                "mean": round(found.mean, 6),
                **percentiles,
                "max": round(found.most, 6),
            },
        }


@click.command(help="Send many requests to URL, and show rate and latencies.", epilog=_EPILOG)
@click.argument("url")
@click.option(
    "-c",
    "--concurrency",
    type=count(1, 10_000),
    default=64,
    show_default=True,
    metavar="N",
    help="Requests at once.",
)
@click.option(
    "-n",
    "--requests",
    type=count(most=10**12),
    metavar="N",
    help=f"Requests in all.  [default: {_REQUESTS} without -z]",
)
@click.option("-z", "--duration", type=seconds, metavar="SECONDS", help="Begin none after that.")
@click.option("-X", "--method", default="GET", show_default=True)
@click.option("-d", "--data", metavar="DATA", help="Send this body, as it is.")
@click.option("--json", "as_json", is_flag=True, help="Show the figures as JSON, on stdout.")
@with_connection
def bench(url: str, connection: ConnectionOptions, **options: Unpack[_BenchOptions]) -> int:
    """Send many requests."""
    concurrency = options["concurrency"]
    most = options["requests"] or (None if options["duration"] else _REQUESTS)
    if most is not None and concurrency > most:
        raise click.UsageError(f"-c {concurrency} is more than the {most} requests of -n")
    _check_open_files(concurrency)
    with connection.client(max_connections=concurrency) as client:
        load = _run(client, url, most, options)
    if options["as_json"]:
        click.echo(json.dumps(load.as_json()))
    else:
        _print(load)
    return 0 if load.ok == load.done else 1


def _check_open_files(concurrency: int) -> None:
    from curlhttp._curl.slots import open_files_bound

    bound = open_files_bound(concurrency)
    if bound < concurrency:
        raise CommandFailed(
            f"-c {concurrency} needs more than the open files allow, which is {bound}: "
            "see ulimit -n",
            2,
        )


def _run(client: Client, url: str, most: int | None, options: _BenchOptions) -> _Load:
    concurrency, duration = options["concurrency"], options["duration"]
    # One request for all: it has no state that one attempt leaves to the next.
    content = None if options["data"] is None else options["data"].encode()
    request = client.build_request(options["method"], url, content=content)
    request.jar = None

    def requests(count: int | None, until: float | None) -> Iterator[Request]:
        done = 0
        while done != count and (until is None or time.monotonic() < until):
            yield request
            done += 1

    for outcome in client.map(requests(concurrency, None), concurrency=concurrency):
        if isinstance(outcome, RequestException) and not outcome.request_sent:
            raise outcome  # nobody is there: that need not be tried a thousand times
    load = _Load()
    begun = time.monotonic()
    until = None if duration is None else begun + duration
    with client.map(requests(most, until), concurrency=concurrency) as outcomes:
        for outcome in outcomes:
            load.add(outcome)
    load.seconds = max(time.monotonic() - begun, 1e-9)
    return load


def _print(load: _Load) -> None:
    from curlhttp.cli.fetch.tally import shown_bytes, shown_counts

    out = console()
    rate, speed = load.done / load.seconds, load.size / load.seconds
    rows = [
        ("requests", f"{load.done:,} in {load.seconds:.2f} s"),
        ("rate", f"{rate:,.0f}/s, {shown_bytes(speed)}/s"),
        ("statuses", shown_counts(load.statuses)),
        ("errors", shown_counts(load.errors)),
    ]
    found = load.latencies
    if found.count:
        parts = [f"p{part:g} {shown_seconds(found.percentile(part))}" for part in _PERCENTILES]
        ends = f"min {shown_seconds(found.least)}, max {shown_seconds(found.most)}"
        rows += [("latency", ", ".join(parts)), ("", ends)]
    for name, text in rows:
        out.print(f"{name:<10}{text}", soft_wrap=True)
    histogram = found.rows(_ROWS)
    most = max((count for _, count in histogram), default=0)
    width = max(5, min(50, out.width - 24))
    if histogram:
        out.print()
    for bound, times in histogram:
        bar = "█" * round(width * times / most) or ("▏" if times else "")
        out.print(f"≤ {shown_seconds(bound):>8}  {times:>9,}  {bar}", soft_wrap=True)
