"""The command `curlhttp bench`: a small load test from one process."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

import click

from curlhttp.cli.connection import ConnectionOptions, with_connection
from curlhttp.cli.exits import INTERRUPTED, CommandFailed
from curlhttp.cli.latency import shown_seconds
from curlhttp.cli.numbers import count, seconds
from curlhttp.cli.terminal import console

if TYPE_CHECKING:
    from rich.console import Console
    from typing_extensions import Unpack

    from curlhttp._async_client import AsyncClient
    from curlhttp.cli.load import Load, Plan

__all__ = ["bench"]

_ROWS = 10
_REQUESTS = 1000
_EPILOG = """\b
One connection for each of the requests at once; the first round warms them up
and does not count. A latency is that of one transfer, as libcurl measures it;
with --rate it counts from when the request was due. Two URLs take turns, and
-n is for each of them. Ctrl-C shows what was measured up to then.
The client takes a core itself: a server that is faster than that is not
measured, but the client.

\b
Exit status: 0 all were answered below status 400, 1 some not, 130 Ctrl-C.

\b
Examples:
  curlhttp bench http://127.0.0.1:8080/ -c 64 -n 10000
  curlhttp bench https://example.org/ -c 10 -z 30 --json
  curlhttp bench http://127.0.0.1:8080/ --rate 200 -z 30 --plot latencies.svg
  curlhttp bench http://127.0.0.1:8080/old http://127.0.0.1:8080/new
"""


class _BenchOptions(TypedDict):
    """What the options say; see their help."""

    concurrency: int
    requests: int | None
    duration: float | None
    rate: float | None
    method: str
    data: str | None
    plot: str | None
    as_json: bool


@click.command(
    help="Send many requests to URL, or two in turn, and show rate and latencies.", epilog=_EPILOG
)
@click.argument("urls", nargs=-1, required=True, metavar="URL [URL]")
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
@click.option(
    "--rate", type=seconds, metavar="N", help="Begin N requests a second, whatever has ended."
)
@click.option("-X", "--method", default="GET", show_default=True)
@click.option("-d", "--data", metavar="DATA", help="Send this body, as it is.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, writable=True),
    metavar="FILE",
    help="Draw the latencies by percentile, as SVG.",
)
@click.option("--json", "as_json", is_flag=True, help="Show the figures as JSON, on stdout.")
@with_connection
def bench(
    urls: tuple[str, ...], connection: ConnectionOptions, **options: Unpack[_BenchOptions]
) -> int:
    """Send many requests."""
    from curlhttp.cli.load import Load

    if len(urls) > 2:
        raise click.UsageError("there are two URLs at most")
    plan = _planned(urls, options)
    loads = [Load(url) for url in urls]
    status = _run(connection, plan, loads)
    if options["as_json"]:
        shown = [load.as_json() for load in loads]
        click.echo(json.dumps(shown[0] if len(shown) == 1 else shown))
    else:
        _print(loads)
    if options["plot"]:
        from curlhttp.cli.plot import draw

        draw([(load.url, load.latencies) for load in loads], options["plot"])
    return status or int(any(load.ok != load.done for load in loads))


def _planned(urls: tuple[str, ...], options: _BenchOptions) -> Plan:
    from curlhttp.cli.load import Plan

    most = options["requests"] or (None if options["duration"] else _REQUESTS)
    concurrency = options["concurrency"]
    plan = Plan(
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
    from curlhttp._curl.slots import open_files_bound

    bound = open_files_bound(concurrency)
    if bound < concurrency:
        raise CommandFailed(
            f"-c {concurrency} needs more than the open files allow, which is {bound}: "
            "see ulimit -n",
            2,
        )


def _run(connection: ConnectionOptions, plan: Plan, loads: list[Load]) -> int:
    """Fill the loads; return the exit status that Ctrl-C has, else 0."""
    from curlhttp.cli.load import run_closed, run_open

    with connection.client(max_connections=plan.concurrency) as client:  # checks the options
        try:
            if plan.rate is None:
                run_closed(client, plan, loads)
            else:
                run_open(_maker(connection, plan.concurrency), plan, loads)
        except KeyboardInterrupt:
            return INTERRUPTED
    return 0


def _maker(connection: ConnectionOptions, concurrency: int) -> Callable[[], AsyncClient]:
    from curlhttp._async_client import AsyncClient

    return lambda: AsyncClient(**{**connection.settings(), "max_connections": concurrency})


def _print(loads: list[Load]) -> None:
    out = console()
    for number, load in enumerate(loads):
        if len(loads) > 1:
            out.print(("\n" if number else "") + load.url, soft_wrap=True)
        _print_load(load, out)
    if len(loads) == 2 and all(load.latencies.count for load in loads):
        first, second = (load.latencies for load in loads)
        ratios = [
            f"p{part:g} {second.percentile(part) / max(first.percentile(part), 1e-9):.2f}"
            for part in (50, 90, 99)
        ]
        out.print(f"\nthe second's latency is that of the first times: {', '.join(ratios)}")


def _print_load(load: Load, out: Console) -> None:
    from curlhttp.cli.fetch.tally import shown_bytes, shown_counts
    from curlhttp.cli.load import PERCENTILES

    spent = max(load.seconds, 1e-9)
    rate, speed = load.done / spent, load.size / spent
    rows = [
        ("requests", f"{load.done:,} in {load.seconds:.2f} s"),
        ("rate", f"{rate:,.0f}/s, {shown_bytes(speed)}/s"),
        ("statuses", shown_counts(load.statuses)),
        ("errors", shown_counts(load.errors)),
    ]
    found = load.latencies
    if found.count:
        parts = [f"p{part:g} {shown_seconds(found.percentile(part))}" for part in PERCENTILES]
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
