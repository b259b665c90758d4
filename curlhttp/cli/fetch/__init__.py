"""The command `curlhttp fetch`: send a list of requests, and record each response once.

`input` reads the list, `run` sends the requests, and `output` opens what `records` writes to. With
--engine or --processes, `curlhttp.distributed` does all of this.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypedDict

import click

from curlhttp._features.fetch.formats import FORMATS, KINDS
from curlhttp._http.redaction import display_url
from curlhttp.cli.errors import (
    READ_ERROR,
    CommandFailed,
    describe_interrupt,
    needing_package,
    sigterm_interrupts,
)
from curlhttp.cli.options import (
    ConnectionOptions,
    add_options,
    connection_options,
    integer,
    parse_rate,
    parse_size,
)
from curlhttp.cli.stats import describe_stats, keep_writing_stats
from curlhttp.cli.terminal import console, format_counts, printable

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._features.fetch.earlier import EarlierRun
    from curlhttp._features.fetch.formats import Kind
    from curlhttp.cli.fetch.input import InputLines
    from curlhttp.cli.fetch.recorded import RetriedFailures
    from curlhttp.cli.fetch.records import Mode
    from curlhttp.cli.fetch.run import FetchRun
    from curlhttp.distributed import FetchSummary

_EPILOG = """\b
Each line of FILE is a URL, or a JSON object:
  {"url": ..., "method": ..., "headers": {...}, "json": ..., "id": ...}
"body" or "body_base64" may replace "json". Blank lines and lines that start
with # are skipped. An invalid line is reported and recorded, and the run
continues.

\b
A record has line, url (without user and password), status, headers, error,
reason (dns, refused, read_timeout, ...), attempts, elapsed and body
("body_base64" if it is not UTF-8). After --retry-failed a line may have two
records. The later one counts.

\b
Exit status: 0 if all lines succeeded, 1 if some failed (no response, or a
status of 400 or above), 130 after Ctrl-C, 143 after SIGTERM.

\b
Examples:
  curlhttp fetch urls.txt -o pages.jsonl
  curlhttp fetch urls.txt -o pages.jsonl --resume
  curlhttp fetch urls.txt -o pages.jsonl --resume --retry-failed timeout,5xx
  curlhttp fetch urls.txt -o pages.db --per-host 4 --rate 10/s --retry 3
  curlhttp fetch urls.txt -o pages --processes 4 --per-host 4
  sed 's|^|https://example.org/|' names | curlhttp fetch - | jq .status
"""


def _parse_retried(text: str) -> RetriedFailures:
    """Parse the argument of --retry-failed."""
    from curlhttp.cli.fetch.recorded import RetriedFailures

    try:
        return RetriedFailures.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_OPTIONS = (
    click.option("-o", "--output", metavar="PATH",
                 help="Where to write records: a .jsonl, .jsonl.gz, .jsonl.zst, .parquet, .warc, "
                 ".warc.gz or .db file (SQLite), or a folder.  "
                 "[default: JSONL on stdout]"),
    click.option("--format", "kind", type=click.Choice(KINDS),
                 help="Format of PATH, if its name does not imply it. With workers: format of the "
                 "parts, parquet by default, and neither folder nor sqlite."),
    click.option("--resume", is_flag=True, help="Skip the lines that have a record in PATH."),
    click.option("--retry-failed", is_flag=False, flag_value="all", type=_parse_retried,
                 metavar="[REASON,...]",
                 help="With --resume: fetch failed lines again, all or those with one of these "
                 "reasons (dns, timeout, ...) or statuses (429, 5xx)."),
    click.option("--since", type=click.Path(exists=True, path_type=Path), metavar="OUTPUT",
                 help="Ask only for what changed since an earlier run wrote OUTPUT: send its ETag "
                 "and Last-Modified, and record a 304 as unchanged, without a body."),
    click.option("--dedup", is_flag=True,
                 help="Leave out lines whose URL a line before them has, after normalization."),
    click.option("--overwrite", is_flag=True, help="Replace PATH if it exists."),
    click.option("--no-body", is_flag=True, help="Do not record bodies."),
    click.option("--text", "as_text", is_flag=True,
                 help="Record the bodies of texts as UTF-8, whatever charset Content-Type, a byte "
                 "order mark or the document itself names."),
    click.option("--max-body", type=parse_size, default="100M", show_default=True, metavar="SIZE",
                 help="Maximum size of a body. A larger one is an error."),
    click.option("-c", "--concurrency", type=integer(1, 100_000), default=64, show_default=True,
                 metavar="N", help="Maximum number of concurrent requests."),
    click.option("--per-host", type=integer(), metavar="N",
                 help="Maximum number of concurrent requests to one origin."),
    click.option("--rate", type=parse_rate, metavar="N[/s|/m|/h]",
                 help="Maximum number of requests per second, minute or hour."),
    click.option("--burst", type=integer(), default=1, show_default=True, metavar="N",
                 help="With --rate: maximum number of requests at once, after a pause."),
    click.option("--rate-per", type=click.Choice(["origin", "all"]), default="origin",
                 show_default=True,
                 help="Apply --rate to each origin, or to all requests together."),
    click.option("--breaker", type=integer(), metavar="N",
                 help="After N failures in a row, send nothing to an origin for 1 s, and for up to "
                 "5 s if it fails again. Meanwhile, record its lines as failed."),
    click.option("--robots", metavar="TOKEN",
                 help="Obey each origin's robots.txt, and its Crawl-delay, as the crawler of this "
                 "product token. A line that it disallows is recorded as failed."),
    click.option("-X", "--method", default="GET", show_default=True,
                 help="HTTP method for lines that have none."),
    click.option("-q", "--quiet", is_flag=True, help="Show no progress and no summary."),
    click.option("--summary", type=click.Choice(["text", "json"]), default="text",
                 show_default=True,
                 help="Format of the summary. JSON goes to stdout if PATH is given."),
    click.option("--stats", type=click.Path(dir_okay=False, writable=True), metavar="FILE",
                 help="Write the client's statistics to FILE every 5 s and at the end, as text for "
                 "Prometheus."),
    click.option("--engine", metavar="ENGINE",
                 help="Use many workers: processes, dask, ray, or the address of a cluster such as "
                 "dask://HOST:8786. PATH is a folder of parts, or its URL (s3://...). The same "
                 "command resumes an interrupted run."),
    click.option("--processes", type=integer(1, 10_000), metavar="N",
                 help="Use N processes on this machine as workers, like --engine processes."),
    click.option("--partition", type=integer(1, 100_000_000), metavar="N",
                 help="With workers: maximum number of URLs in a part.  [default: 10000]"),
    click.option("--column", metavar="NAME",
                 help="With workers: read URLs from this column of a Parquet FILE."),
    click.option("--store", metavar="URL",
                 help="With workers: URL of a Redis server that shares --per-host and --rate among "
                 "them."),
)  # fmt: skip


class _FetchOptions(TypedDict):
    """The values of the options. Their help texts describe them."""

    output: str | None
    kind: Kind | None
    resume: bool
    retry_failed: RetriedFailures | None
    since: Path | None
    dedup: bool
    overwrite: bool
    no_body: bool
    as_text: bool
    max_body: int
    concurrency: int
    per_host: int | None
    rate: float | None
    burst: int
    rate_per: Literal["origin", "all"]
    breaker: int | None
    robots: str | None
    method: str
    quiet: bool
    summary: Literal["text", "json"]
    stats: str | None
    engine: str | None
    processes: int | None
    partition: int | None
    column: str | None
    store: str | None


class _FetchCommand(click.Command):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave an argument after --retry-failed that is no reason, such as FILE, to others."""
        for index, argument in enumerate(args):
            if argument == "--retry-failed" and not _is_retried(args[index + 1 : index + 2]):
                args[index] = "--retry-failed=all"
        return super().parse_args(ctx, args)


def _is_retried(arguments: list[str]) -> bool:
    from curlhttp.cli.fetch.recorded import RetriedFailures

    try:
        return bool(arguments) and bool(RetriedFailures.parse(arguments[0]))
    except ValueError:
        return False


@click.command(
    cls=_FetchCommand,
    help="Fetch a list of URLs. An interrupted run can be resumed.",
    epilog=_EPILOG,
)
@click.argument("file", metavar="FILE|-")
@add_options(_OPTIONS)
@connection_options
def fetch(file: str, connection: ConnectionOptions, **options: Unpack[_FetchOptions]) -> int:
    """Fetch a list of URLs."""
    from curlhttp._features.fetch.listed_urls import DuplicateURLs
    from curlhttp.cli.fetch.input import InputLines
    from curlhttp.cli.fetch.output import open_output
    from curlhttp.cli.fetch.run import FetchRun

    if options["engine"] or options["processes"]:
        return _fetch_distributed(file, connection, options)
    for name in ("partition", "column", "store"):
        if options[name]:
            raise click.UsageError(f"--{name} needs --engine or --processes")
    path = None if options["output"] in (None, "-") else Path(options["output"])
    mode = _get_mode(path, options)
    since = options["since"]
    if mode == "overwrite" and since and path and path.exists() and path.samefile(since):
        raise click.UsageError(
            "--since and PATH are the same output: --overwrite would remove its bodies"
        )
    with (
        _open(file) as stream,
        connection.client(**_get_limits(options, connection)) as client,
        ExitStack() as resources,
    ):
        status = os.fstat(stream.fileno())
        if path is not None and path.exists() and os.path.samestat(path.stat(), status):
            raise click.UsageError("FILE and PATH are the same file")
        earlier = None
        if since:
            earlier = _open_earlier_run(since)
            resources.callback(earlier.close)
        content = _decompress(stream)
        lines = InputLines(content or stream)
        output = open_output(
            path,
            options["kind"],
            mode,
            keeps_bodies=not options["no_body"],
            retried=options["retry_failed"],
        )
        run = FetchRun(
            client,
            lines,
            output,
            method=options["method"],
            as_text=options["as_text"],
            duplicates=DuplicateURLs() if options["dedup"] else None,
            earlier=earlier,
        )
        has_size = content is None and stat.S_ISREG(status.st_mode)
        size = status.st_size if has_size else None
        with keep_writing_stats(client, options["stats"]):
            return _run(run, lines, size, path, options)


def _get_mode(path: Path | None, options: _FetchOptions) -> Mode:
    if options["retry_failed"] and not options["resume"]:
        raise click.UsageError("--retry-failed needs --resume")
    if options["resume"] and options["overwrite"]:
        raise click.UsageError("--resume and --overwrite cannot be combined")
    if path is None and (options["resume"] or options["overwrite"] or options["kind"]):
        raise click.UsageError("--resume, --overwrite and --format need -o PATH")
    return "resume" if options["resume"] else "overwrite" if options["overwrite"] else "new"


def _open(file: str) -> BinaryIO:
    if file == "-":
        return open(0, "rb", closefd=False)
    try:
        return open(file, "rb")
    except OSError as error:
        if ":" in file:
            raise click.UsageError(
                f"{display_url(file)}: {error.strerror}; to fetch one URL, use `curlhttp get`"
            ) from None
        raise click.UsageError(f"{file}: {error.strerror}") from None


def _open_earlier_run(path: Path) -> EarlierRun:
    """Return the validators in an output.

    Raises:
        CommandFailed: it cannot be read, or is no output of fetch.
    """
    from curlhttp._features.fetch.earlier import EarlierRun

    try:
        with needing_package(f"{path}: "):
            return EarlierRun(str(path))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror or error}", READ_ERROR) from None
    except ValueError as error:
        raise CommandFailed(str(error), 2) from None


def _decompress(stream: BinaryIO) -> BinaryIO | None:
    from curlhttp._features.fetch.compressed_files import decompress

    with needing_package("FILE: "):
        return decompress(stream)


def _get_limits(options: _FetchOptions, connection: ConnectionOptions) -> dict[str, object]:
    """Return the arguments of Client that limit requests and responses."""
    from curlhttp import ConcurrencyLimit, RateLimit

    settings = {
        "max_connections": options["concurrency"],
        **_get_common_limits(options, connection),
    }
    if options["as_text"]:
        settings["default_encoding"] = "html"
    if options["per_host"]:
        settings["concurrency_limit"] = ConcurrencyLimit(options["per_host"])
    if options["rate"]:
        per = None if options["rate_per"] == "all" else options["rate_per"]
        settings["rate_limit"] = RateLimit(options["rate"], burst=options["burst"], per=per)
    return settings


def _get_common_limits(options: _FetchOptions, connection: ConnectionOptions) -> dict[str, object]:
    """Return the limits that also apply in a worker."""
    from curlhttp import CircuitBreaker

    settings: dict[str, object] = {
        "max_response_size": options["max_body"],
        "timeout": connection.attempt_timeout(),
        "retry_after": "origin",
    }
    if options["breaker"]:
        settings["breaker"] = CircuitBreaker(failure_threshold=options["breaker"])
    if options["robots"] is not None:
        settings["robots"] = options["robots"]
    return settings


def _run(
    run: FetchRun, lines: InputLines, size: int | None, path: Path | None, options: _FetchOptions
) -> int:
    """Run, print the summary even after an interrupt, and return the exit status."""
    from curlhttp.cli.fetch.run import FetchProgress

    def fraction() -> float | None:
        if not run.begin or size is None or size <= run.begin:
            return None
        return min(1.0, (lines.position - run.begin) / (size - run.begin))

    progress = FetchProgress(run.counters, fraction, quiet=options["quiet"])
    try:
        run.run(options["concurrency"], progress)
    except BrokenPipeError:  # the reader of the records closed the pipe
        raise
    except KeyboardInterrupt as interrupt:
        _print_summary(run, path, options)
        hint = "" if path is None else "; continue with --resume"
        what, status = describe_interrupt(interrupt)
        raise CommandFailed(f"{what}; complete responses are recorded{hint}", status) from None
    except (CommandFailed, OSError):
        _print_summary(run, path, options)
        raise
    _print_summary(run, path, options)
    return 1 if run.failed else 0


def _print_summary(run: FetchRun, path: Path | None, options: _FetchOptions) -> None:
    if options["summary"] == "json":
        click.echo(json.dumps(run.counters.summary()), err=path is None)
    elif not options["quiet"]:
        out = console(stderr=True)
        for name, text in run.counters.rows():
            out.print(f"{name:<8}  {text}", soft_wrap=True)
        out.print(f"{'client':<8}  {describe_stats(run.stats())}", soft_wrap=True)
        if path is not None and run.failed:
            hint = "fetch them again with --resume --retry-failed"
            out.print(f"{'failed':<8}  {run.failed:,} lines; {hint}", soft_wrap=True)
        if run.counters.reasons:
            reasons = format_counts(run.counters.reasons)
            out.print(f"{'reasons':<8}  {reasons}", soft_wrap=True)


# --- with workers ---


def _fetch_distributed(file: str, connection: ConnectionOptions, options: _FetchOptions) -> int:
    """Fetch with many workers, print the summary, and return the exit status."""
    from curlhttp._features.fetch.conditions import NOT_MODIFIED
    from curlhttp.distributed import fetch

    out, kind = options["output"], options["kind"] or "parquet"
    if out in (None, "-"):
        raise click.UsageError("--engine and --processes need -o FOLDER")
    if options["processes"] and options["engine"] not in (None, "processes"):
        raise click.UsageError("--processes and --engine cannot be combined")
    if kind == "folder" or kind == "sqlite":  # mypy narrows the type by ==
        formats = ", ".join(FORMATS)
        raise click.UsageError(f"with --engine or --processes, --format is one of {formats}")
    _refuse_other_options(connection, options)
    try:
        with sigterm_interrupts():
            summary = fetch(
                _read_urls() if file == "-" else file,
                out,
                column=options["column"],
                engine=options["engine"] or "processes",
                processes=options["processes"],
                concurrency=options["concurrency"],
                per_host=options["per_host"],
                rate=options["rate"],
                store=_open_store(options["store"]),
                format=kind,
                partition=options["partition"] or 10_000,
                bodies=not options["no_body"],
                text=options["as_text"],
                dedup=options["dedup"],
                since=options["since"],
                progress=not options["quiet"],
                **{**connection.settings(), **_get_common_limits(options, connection)},
            )
    except KeyboardInterrupt as interrupt:
        what, status = describe_interrupt(interrupt)
        raise CommandFailed(f"{what}: {interrupt}", status) from None
    except (ImportError, ValueError, TypeError) as error:
        raise CommandFailed(str(error), 2) from None
    if options["summary"] == "json":
        click.echo(json.dumps(summary.as_json()))
    elif not options["quiet"]:
        _print_distributed_summary(summary, out)
    failed = summary.errors.total() + sum(
        rows for status, rows in summary.statuses.items() if int(status) >= 400
    )
    if options["since"]:  # a 304 that is not unchanged is of another URL, to which it redirects
        failed += summary.statuses[str(NOT_MODIFIED)] - summary.unchanged
    return 1 if failed else 0


def _refuse_other_options(connection: ConnectionOptions, options: _FetchOptions) -> None:
    refused = {
        "path-as-is": connection.path_as_is,
        "overwrite": options["overwrite"],
        "retry-failed": options["retry_failed"] is not None,
        "method": options["method"] != "GET",
        "burst": options["burst"] != 1,
        "rate-per": options["rate_per"] != "origin",
        "stats": options["stats"] is not None,
    }
    for name, is_given in refused.items():
        if is_given:
            why = f": {_NOT_WITH_WORKERS[name]}" if name in _NOT_WITH_WORKERS else ""
            raise click.UsageError(f"--{name} cannot be used with --engine or --processes{why}")


_NOT_WITH_WORKERS = {
    "overwrite": "a folder of parts is never replaced; remove it, or use another one",
    "retry-failed": "a part that is done is never written again; make a list of the URLs of its "
    "failed rows, and fetch that into another folder",
    "burst": "--rate holds over all workers, which spread their requests",
    "rate-per": "without --store, workers share only the rate of each origin",
    "stats": "each worker has a client of its own; the summary and the rows count for all",
}


def _open_store(url: str | None) -> Any:  # Any: RedisStore is imported only if it is used
    if url is None:
        return None
    from curlhttp.redis import RedisStore

    return RedisStore(url)


def _read_urls() -> Iterator[bytes]:
    """Yield lines of stdin as bytes, so that invalid UTF-8 is an error of its line only."""
    from curlhttp.distributed.partition import reject_json_lines

    is_first = True
    stream = sys.stdin.buffer
    for line in _decompress(stream) or stream:
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if text and not text.startswith(b"#"):
            if is_first:
                reject_json_lines(text)
            is_first = False
            yield text


def _print_distributed_summary(summary: FetchSummary, out: str) -> None:
    stderr = console(stderr=True)
    for line in str(summary).splitlines():
        stderr.print(printable(line), soft_wrap=True)
    stderr.print(f"{'parts':<10}{os.path.join(out, 'parts')}", soft_wrap=True)
