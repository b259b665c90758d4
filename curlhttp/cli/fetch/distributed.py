"""`curlhttp fetch` with --engine or --processes: what the options mean to a distributed fetch."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypedDict

import click

from curlhttp.cli.exits import INTERRUPTED, CommandFailed
from curlhttp.cli.numbers import count
from curlhttp.cli.terminal import console, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from curlhttp.cli.connection import ConnectionOptions
    from curlhttp.distributed import FetchSummary

__all__ = ["DistributedOptions", "fetch_distributed", "with_engine"]


class DistributedOptions(TypedDict):
    """What the options say; see their help."""

    engine: str | None
    processes: int | None
    partition: int | None
    column: str | None
    store: str | None


_OPTIONS = (
    click.option("--engine", metavar="ENGINE",
                 help="Fetch in many workers: processes, dask, ray, or the address of a cluster, "
                      "such as dask://HOST:8786. PATH is a folder of parts, or s3:// and so on; "
                      "the same command goes on where another one stopped."),
    click.option("--processes", type=count(1, 10_000), metavar="N",
                 help="Fetch in N processes of this machine, likewise."),
    click.option("--partition", type=count(1, 100_000_000), metavar="N",
                 help="With workers: URLs in each part.  [default: 10000]"),
    click.option("--column", metavar="NAME",
                 help="With workers: FILE is Parquet, and this its column of URLs."),
    click.option("--store", metavar="URL",
                 help="With workers: a Redis by which they share --per-host and --rate."),
)  # fmt: skip


def with_engine(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of engines."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fetch_distributed(
    file: str,
    connection: ConnectionOptions,
    options: Mapping[str, Any],  # Any: of each option its own type
) -> int:
    """Fetch in many workers, show the summary, and return the exit status."""
    from curlhttp.distributed import fetch

    _check(options)
    try:
        summary = fetch(
            _lines() if file == "-" else file,
            options["output"],
            column=options["column"],
            engine=options["engine"] or "processes",
            processes=options["processes"],
            concurrency=options["concurrency"],
            per_host=options["per_host"],
            rate=options["rate"],
            store=_store(options["store"]),
            format=options["kind"] or "parquet",
            partition=options["partition"] or 10_000,
            bodies=not options["no_body"],
            progress=not options["quiet"],
            **_settings(connection, options),
        )
    except KeyboardInterrupt as interrupt:
        raise CommandFailed(f"interrupted: {interrupt}", INTERRUPTED) from None
    except (ImportError, ValueError, TypeError) as error:
        raise CommandFailed(str(error), 2) from None
    _show(summary, options)
    failed = summary.errors.total() + sum(
        rows for status, rows in summary.statuses.items() if int(status) >= 400
    )
    return 1 if failed else 0


def _check(options: Mapping[str, Any]) -> None:
    if options["output"] in (None, "-"):
        raise click.UsageError("--engine and --processes need -o FOLDER")
    if options["processes"] and options["engine"] not in (None, "processes"):
        raise click.UsageError("--processes and --engine exclude each other")
    if options["kind"] not in (None, "parquet", "jsonl"):
        raise click.UsageError("with workers --format is parquet or jsonl")
    refused = [name for name in ("overwrite", "retry_failed") if options[name]]
    if options["method"] != "GET":
        refused.append("method")
    if options["burst"] != 1:
        refused.append("burst")
    if options["rate_per"] != "origin":
        refused.append("rate_per")
    if refused:
        name = refused[0].replace("_", "-")
        raise click.UsageError(f"--{name} does not go with --engine and --processes")


def _settings(connection: ConnectionOptions, options: Mapping[str, Any]) -> dict[str, Any]:
    from curlhttp import CircuitBreaker

    settings = {**connection.settings(), "max_response_size": options["max_body"]}
    if options["breaker"]:
        settings["breaker"] = CircuitBreaker(failure_threshold=options["breaker"])
    return settings


def _store(url: str | None) -> Any:  # Any: its module is loaded if there is one
    if url is None:
        return None
    from curlhttp.redis import RedisStore

    return RedisStore(url)


def _lines() -> Iterator[bytes]:
    """Give the lines of stdin as they are: one that is not UTF-8 is an error by itself."""
    from curlhttp.distributed.splitter import reject_json_lines

    is_first = True
    for line in sys.stdin.buffer:
        text = line.removeprefix(b"\xef\xbb\xbf").strip()
        if text and not text.startswith(b"#"):
            if is_first:
                reject_json_lines(text)
            is_first = False
            yield text


def _show(summary: FetchSummary, options: Mapping[str, Any]) -> None:
    if options["summary"] == "json":
        click.echo(json.dumps(summary.as_json()))
    elif not options["quiet"]:
        out = console(stderr=True)
        for line in str(summary).splitlines():
            out.print(printable(line), soft_wrap=True)
        out.print(f"{'parts':<10}{os.path.join(options['output'], 'parts')}", soft_wrap=True)
