"""The command `curlhttp fetch`: its options, and how it ends."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import click

from curlhttp.cli.connection import ConnectionOptions, with_connection
from curlhttp.cli.exits import INTERRUPTED, CommandFailed
from curlhttp.cli.fetch.distributed import DistributedOptions, fetch_distributed, with_engine
from curlhttp.cli.numbers import count, rate, size
from curlhttp.cli.terminal import console

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp.cli.fetch.formats import Kind
    from curlhttp.cli.fetch.lines import InputLines
    from curlhttp.cli.fetch.output import Mode
    from curlhttp.cli.fetch.run import FetchRun

__all__ = ["fetch"]

_EPILOG = """\b
FILE has one URL a line, or a JSON object:
  {"url": ..., "method": ..., "headers": {...}, "json": ..., "id": ...}
with "body" or "body_base64" in place of "json". Blank lines and those that
begin with # are skipped. A bad line is told of and recorded; the run goes on.

\b
A record tells line, url (without user and password), status, headers, error,
attempts, elapsed and body ("body_base64" if it is not UTF-8). One line may be
recorded twice after --retry-failed: the later record counts.

\b
Exit status: 0 all went well, 1 some failed (no answer, or a status from 400
on), 130 after Ctrl-C.

\b
Examples:
  curlhttp fetch urls.txt -o pages.jsonl
  curlhttp fetch urls.txt -o pages.jsonl --resume
  curlhttp fetch urls.txt -o pages.db --per-host 4 --rate 10/s --retry 3
  curlhttp fetch urls.txt -o pages --processes 4 --per-host 4
  sed 's|^|https://example.org/|' names | curlhttp fetch - | jq .status
"""


class _FetchOptions(DistributedOptions):
    """What the options say; see their help."""

    output: str | None
    kind: Kind | Literal["parquet"] | None
    resume: bool
    retry_failed: bool
    overwrite: bool
    no_body: bool
    max_body: int
    concurrency: int
    per_host: int | None
    rate: float | None
    burst: int
    rate_per: Literal["origin", "all"]
    breaker: int | None
    method: str
    quiet: bool
    summary: Literal["text", "json"]


@click.command(help="Fetch a list of URLs, and go on where a run was stopped.", epilog=_EPILOG)
@click.argument("file", metavar="FILE|-")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="A .jsonl file, a .db (SQLite) file, or a folder.  [default: JSONL on stdout]",
)
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "folder", "sqlite", "parquet"]),
    help="What PATH is, where its name does not say it; with workers, what parts are: parquet, "
    "which is the default, or jsonl.",
)
@click.option("--resume", is_flag=True, help="Skip the lines that PATH has a record of.")
@click.option(
    "--retry-failed",
    is_flag=True,
    help="With --resume: fetch lines again that are recorded as failed.",
)
@click.option("--overwrite", is_flag=True, help="Replace what PATH is.")
@click.option("--no-body", is_flag=True, help="Record no bodies.")
@click.option(
    "--max-body",
    type=size,
    default="100M",
    show_default=True,
    metavar="SIZE",
    help="A larger body is an error.",
)
@click.option(
    "-c",
    "--concurrency",
    type=count(1, 100_000),
    default=64,
    show_default=True,
    metavar="N",
    help="Requests at once.",
)
@click.option("--per-host", type=count(), metavar="N", help="Requests at once to one origin.")
@click.option("--rate", type=rate, metavar="N[/s|/m|/h]", help="Requests in that time.")
@click.option(
    "--burst",
    type=count(),
    default=1,
    show_default=True,
    metavar="N",
    help="With --rate: how many may go at once after a pause.",
)
@click.option(
    "--rate-per",
    type=click.Choice(["origin", "all"]),
    default="origin",
    show_default=True,
    help="Whether --rate is for each origin or all together.",
)
@click.option(
    "--breaker",
    type=count(),
    metavar="N",
    help="After N failures in a row, leave an origin alone for 30 s; its lines fail.",
)
@click.option("-X", "--method", default="GET", show_default=True, help="Of lines that name none.")
@click.option("-q", "--quiet", is_flag=True, help="Show no progress and no summary.")
@click.option(
    "--summary",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Of the end; json goes to stdout if PATH is given.",
)
@with_engine
@with_connection
def fetch(file: str, connection: ConnectionOptions, **options: Unpack[_FetchOptions]) -> int:
    """Fetch a list of URLs."""
    from curlhttp.cli.fetch.formats import open_output
    from curlhttp.cli.fetch.lines import InputLines
    from curlhttp.cli.fetch.run import FetchRun

    if options["engine"] or options["processes"]:
        return fetch_distributed(file, connection, options)
    for name in ("partition", "column", "store"):
        if options[name]:
            raise click.UsageError(f"--{name} goes with --engine or --processes")
    if options["kind"] == "parquet":
        raise click.UsageError("--format parquet goes with --engine or --processes")
    path = None if options["output"] in (None, "-") else Path(options["output"])
    mode = _mode(path, options)
    with _opened(file) as stream, connection.client(**_settings(options)) as client:
        status = os.fstat(stream.fileno())
        if path is not None and path.exists() and os.path.samestat(path.stat(), status):
            raise click.UsageError("FILE and PATH are the same")
        lines = InputLines(stream)
        output = open_output(path, options["kind"], mode, keeps_bodies=not options["no_body"])
        run = FetchRun(
            client,
            lines,
            output,
            method=options["method"],
            retry_failed=options["retry_failed"],
        )
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        return _go(run, lines, size, path, options)


def _mode(path: Path | None, options: _FetchOptions) -> Mode:
    if options["retry_failed"] and not options["resume"]:
        raise click.UsageError("--retry-failed goes with --resume")
    if options["resume"] and options["overwrite"]:
        raise click.UsageError("--resume and --overwrite exclude each other")
    if path is None and (options["resume"] or options["overwrite"] or options["kind"]):
        raise click.UsageError("--resume, --overwrite and --format need -o PATH")
    return "resume" if options["resume"] else "overwrite" if options["overwrite"] else "new"


def _opened(file: str) -> BinaryIO:
    if file == "-":
        return open(0, "rb", closefd=False)
    try:
        return open(file, "rb")
    except OSError as error:
        raise click.UsageError(f"{file}: {error.strerror}") from None


def _settings(options: _FetchOptions) -> dict[str, object]:
    """Return what the limits among the options are as arguments of Client."""
    from curlhttp import CircuitBreaker, ConcurrencyLimit, RateLimit

    settings: dict[str, object] = {
        "max_connections": options["concurrency"],
        "max_response_size": options["max_body"],
    }
    if options["per_host"]:
        settings["concurrency_limit"] = ConcurrencyLimit(options["per_host"])
    if options["rate"]:
        per = None if options["rate_per"] == "all" else options["rate_per"]
        settings["rate_limit"] = RateLimit(options["rate"], options["burst"], per)
    if options["breaker"]:
        settings["breaker"] = CircuitBreaker(failure_threshold=options["breaker"])
    return settings


def _go(
    run: FetchRun, lines: InputLines, size: int | None, path: Path | None, options: _FetchOptions
) -> int:
    """Run, show the summary however it ends, and return the exit status."""
    from curlhttp.cli.fetch.progress import Progress

    def fraction() -> float | None:
        if not run.begin or size is None or size <= run.begin:
            return None
        return min(1.0, (lines.position - run.begin) / (size - run.begin))

    progress = Progress(run.tally, fraction, quiet=options["quiet"])
    try:
        run.go(options["concurrency"], progress)
    except BrokenPipeError:  # who reads the records has seen enough
        raise
    except KeyboardInterrupt:
        _print_summary(run, path, options)
        hint = "" if path is None else "; go on with --resume"
        raise CommandFailed(
            f"interrupted, what was complete is recorded{hint}", INTERRUPTED
        ) from None
    except CommandFailed:
        _print_summary(run, path, options)
        raise
    _print_summary(run, path, options)
    return 1 if run.failed else 0


def _print_summary(run: FetchRun, path: Path | None, options: _FetchOptions) -> None:
    if options["summary"] == "json":
        click.echo(json.dumps(run.tally.summary()), err=path is None)
    elif not options["quiet"]:
        out = console(stderr=True)
        for name, text in run.tally.rows():
            out.print(f"{name:<8}  {text}", soft_wrap=True)
        if path is not None and run.failed:
            again = "fetch them again with --resume --retry-failed"
            out.print(f"{'failed':<8}  {run.failed:,} lines; {again}", soft_wrap=True)
