"""The command `curlhttp bench`: a small load test from one process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

import click

from curlhttp.cli.errors import INTERRUPTED, CommandFailed
from curlhttp.cli.options import ConnectionOptions, connection_options, integer, parse_seconds
from curlhttp.cli.terminal import console, format_bytes, format_counts, format_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from typing_extensions import Unpack

    from curlhttp._client.async_client import AsyncClient
    from curlhttp.cli.load_generator import LoadPlan, LoadResult

__all__ = ["bench"]

_ROWS = 10
_REQUESTS = 1000
_EPILOG = """\b
Each concurrent request has a connection; the first round opens them and does
not count. A latency is the time of one transfer, as libcurl measures it; with
--rate it counts from when the request was due. Two URLs take turns, and -n is
for each of them. Ctrl-C shows what was measured until then.
The client itself uses one core: if the server is faster than that, the client
is measured and not the server.

\b
Exit status: 0 all statuses were below 400, 1 some were not, or there were
errors, 130 Ctrl-C.

\b
Examples:
  curlhttp bench http://127.0.0.1:8080/ -c 64 -n 10000
  curlhttp bench https://example.org/ -c 10 -z 30 --json
  curlhttp bench http://127.0.0.1:8080/ --rate 200 -z 30 --plot latencies.svg
  curlhttp bench http://127.0.0.1:8080/old http://127.0.0.1:8080/new
"""


class _BenchOptions(TypedDict):
    """The values of the options; see their help."""

    concurrency: int
    requests: int | None
    duration: float | None
    rate: float | None
    method: str
    data: str | None
    plot: str | None
    as_json: bool


@click.command(
    help="Load-test one URL, or two in turn, and show rate and latencies.",
    epilog=_EPILOG,
)
@click.argument("urls", nargs=-1, required=True, metavar="URL [URL]")
@click.option(
    "-c",
    "--concurrency",
    type=integer(1, 10_000),
    default=64,
    show_default=True,
    metavar="N",
    help="Concurrent requests.",
)
@click.option(
    "-n",
    "--requests",
    type=integer(most=10**12),
    metavar="N",
    help=f"Total number of requests.  [default: {_REQUESTS} without -z]",
)
@click.option(
    "-z", "--duration", type=parse_seconds, metavar="SECONDS", help="Start no request after that."
)
@click.option(
    "--rate",
    type=parse_seconds,
    metavar="N",
    help="Start N requests per second, whatever has ended.",
)
@click.option("-X", "--method", default="GET", show_default=True)
@click.option("-d", "--data", metavar="DATA", help="Send this body unchanged.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Plot latencies by percentile, as SVG.",
)
@click.option("--json", "as_json", is_flag=True, help="Show the results as JSON on stdout.")
@connection_options
def bench(
    urls: tuple[str, ...], connection: ConnectionOptions, **options: Unpack[_BenchOptions]
) -> int:
    """Send many requests."""
    from curlhttp.cli.load_generator import LoadResult, draw

    if len(urls) > 2:
        raise click.UsageError("at most two URLs can be given")
    plan = _create_plan(urls, options)
    results = [LoadResult(url) for url in urls]
    status = _run(connection, plan, results)
    if options["as_json"]:
        shown = [result.as_json() for result in results]
        click.echo(json.dumps(shown[0] if len(shown) == 1 else shown))
    else:
        _print(results)
    if options["plot"]:
        draw([(result.url, result.latencies) for result in results], options["plot"])
    return status or int(any(result.ok != result.done for result in results))


def _create_plan(urls: tuple[str, ...], options: _BenchOptions) -> LoadPlan:
    from curlhttp.cli.load_generator import LoadPlan

    most = options["requests"] or (None if options["duration"] else _REQUESTS)
    concurrency = options["concurrency"]
    plan = LoadPlan(
        urls=urls,
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
    from curlhttp._curl.connection_pool import limit_by_open_files

    bound = limit_by_open_files(concurrency)
    if bound < concurrency:
        raise CommandFailed(
            f"-c {concurrency} is more than the {bound} connections that the limit on open files "
            "allows: see ulimit -n",
            2,
        )


def _run(connection: ConnectionOptions, plan: LoadPlan, results: list[LoadResult]) -> int:
    """Fill the results; return the exit status of Ctrl-C, or 0."""
    from curlhttp.cli.load_generator import run_closed, run_open

    with connection.client(max_connections=plan.concurrency) as client:  # validates the options
        try:
            if plan.rate is None:
                run_closed(client, plan, results)
            else:
                run_open(_client_factory(connection, plan.concurrency), plan, results)
        except KeyboardInterrupt:
            return INTERRUPTED
    return 0


def _client_factory(connection: ConnectionOptions, concurrency: int) -> Callable[[], AsyncClient]:
    from curlhttp._client.async_client import AsyncClient

    return lambda: AsyncClient(**{**connection.settings(), "max_connections": concurrency})


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
    from curlhttp.cli.load_generator import PERCENTILES

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
        parts = [f"p{part:g} {format_seconds(latencies.percentile(part))}" for part in PERCENTILES]
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
