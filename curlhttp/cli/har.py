"""The commands for HAR files: `curlhttp har view`. A file may come from anybody."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urljoin

import click

from curlhttp.cli.errors import READ_ERROR, CommandFailed
from curlhttp.cli.terminal import format_bytes
from curlhttp.cli.waterfall import LOST, Row, explain_attempt, render

_MAX_FILE = 256 * 1024**2  # bytes; reading needs several times as much memory
_MAX_SECONDS = 1e9
_RETRIED = (0, 408, 425, 429)  # and 5xx
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d{1,12})?(?:Z|([+-])(\d\d):?(\d\d))?", re.ASCII
).fullmatch
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_Object: TypeAlias = "dict[str, object]"

# --- Read a log, whatever is in it ---


def read_entries(path: Path) -> list[object]:
    """Return the entries of a HAR file, unchecked.

    Raises:
        CommandFailed: it is no HAR file, or it is too large.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise CommandFailed(
            f"{path}: it is larger than {format_bytes(_MAX_FILE)}; record less, or split it",
            READ_ERROR,
        )
    try:
        whole: object = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{path}: no JSON: {error}", READ_ERROR) from None
    entries = _get(_get({"file": whole}, "file"), "log").get("entries")
    if not isinstance(entries, list):
        raise CommandFailed(f"{path}: no HAR file: log.entries is no list", READ_ERROR)
    return entries


def _get(found: _Object, name: str) -> _Object:
    """Return a member that is an object, or an empty one."""
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _text(found: _Object, name: str) -> str:
    value = found.get(name)
    return value if isinstance(value, str) else ""


def _number(found: _Object, name: str) -> float:
    """Return a member that is a number, at most a billion; -1 for anything else."""
    value = found.get(name)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return -1.0
    # A NaN is neither; an integer may be too large for a float.
    return float(value) if 0 <= value <= _MAX_SECONDS * 1000 else -1.0


def _seconds(timings: _Object, name: str) -> float:
    return max(0.0, _number(timings, name)) / 1000


def parse_rows(entries: list[object]) -> tuple[list[Row], int]:
    """Return the rows for the entries of a log, and how many entries could not be read."""
    known = [entry for entry in entries if isinstance(entry, dict) and _get(entry, "request")]
    known = [entry for _, entry in sorted(_with_times(known), key=lambda pair: pair[0])]
    history = _History()
    rows = [_parse_row(entry, started, history) for started, entry in _with_times(known)]
    return rows, len(entries) - len(known)


def _with_times(entries: list[_Object]) -> Iterator[tuple[float, _Object]]:
    """Give each entry with its start in seconds; that of the one before it if it has none."""
    latest = 0.0
    for entry in entries:
        started = _parse_date(_text(entry, "startedDateTime"))
        latest = latest if started is None else started
        yield latest, entry


def _parse_date(text: str) -> float | None:
    match = _DATE(text)
    if match is None:
        return None
    sign, hours, minutes = match[8], match[9], match[10]
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        # By hand, because Python 3.10 reads neither "Z" nor all numbers of digits.
        year, month, day, hour, minute, second = map(int, match.group(1, 2, 3, 4, 5, 6))
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
        moment += offset if sign == "-" else -offset
    except (ValueError, OverflowError):
        return None
    return (moment - _EPOCH).total_seconds() + float(match[7] or 0)


def _parse_row(entry: _Object, started: float, history: _History) -> Row:
    request, response = _get(entry, "request"), _get(entry, "response")
    timings, content = _get(entry, "timings"), _get(response, "content")
    tls = _seconds(timings, "ssl")
    sizes = (
        _number(response, "_transferSize"),
        _number(response, "bodySize"),
        _number(content, "size"),
    )
    status = _number(response, "status")
    row = Row(
        method=_text(request, "method"),
        url=_text(request, "url"),
        status_code=int(status) if 100 <= status <= 999 else 0,
        text=_text(entry, "_error") or _text(response, "_error") or _text(response, "statusText"),
        started=started,
        phases=(
            _seconds(timings, "blocked"),
            _seconds(timings, "dns"),
            max(0.0, _seconds(timings, "connect") - tls),  # which includes TLS
            tls,
            _seconds(timings, "send"),
            _seconds(timings, "wait"),
            _seconds(timings, "receive"),
        ),
        size=next((int(size) for size in sizes if size >= 0), None),
    )
    if not sum(row.phases):
        row = row._replace(phases=(0, 0, 0, 0, 0, _seconds(entry, "time"), 0))
    details = [
        ("version", _text(response, "httpVersion")),
        ("type", _text(content, "mimeType")),
        ("server", _text(entry, "serverIPAddress")),
        ("connection", _text(entry, "connection")),
        ("started", _text(entry, "startedDateTime")),
    ]
    return row._replace(
        tags=tuple(history.find_tags(entry, row)),
        details=tuple((name, value) for name, value in details if value),
    )


class _History:
    """What came before an entry, which says why there is a further one."""

    def __init__(self) -> None:
        self._latest: dict[object, int] = {}  # statuses, by the numbers of requests
        self._failed: set[tuple[str, str]] = set()
        self._redirects: set[str] = set()

    def find_tags(self, entry: _Object, row: Row) -> Iterator[str]:
        """Give the tags of an entry, and remember it."""
        if "_fromCache" in entry or "_fromCache" in _get(entry, "response"):
            yield "cache"
        elif row.status_code == 304:
            yield "revalidated"
        race = _text(entry, "_hedge")
        if race:
            yield LOST if race == "lost" else "hedge won"
        number = _number(entry, "_request")
        key = (row.method, row.url)
        if number >= 0:
            before = self._latest.get(number)
            self._latest[number] = row.status_code
            if before is not None and not race:
                yield explain_attempt(before)
        elif key in self._failed:
            self._failed.discard(key)
            yield "retry"
        elif row.url in self._redirects:
            self._redirects.discard(row.url)
            yield "redirect"
        if row.status_code in _RETRIED or row.status_code >= 500:
            self._failed.add(key)
        target = _text(_get(entry, "response"), "redirectURL")
        if target and 300 <= row.status_code < 400:
            self._redirects.add(_join(row.url, target))


def _join(url: str, target: str) -> str:
    try:
        return urljoin(url, target)
    except ValueError:
        return target


# --- the commands ---

_EPILOG = """\b
Examples:
  curlhttp get --har log.har https://example.org/
  curlhttp har view log.har
  curlhttp har view log.har -o - > page.html
"""


@click.group(
    help="Work with HAR files, as recorded by --har, clients and browsers.", epilog=_EPILOG
)
def har() -> None:
    """Work with HAR files."""


@har.command(
    help="Write an HTML page that shows the requests in FILE as a waterfall. The page needs no "
    "network. Secrets in URLs are masked; headers and bodies are left out.",
    epilog=_EPILOG,
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o",
    "--output",
    metavar="PAGE",
    help="Write to this file instead of FILE.html. '-' is stdout.",
)
def view(file: Path, output: str | None) -> None:
    """Write the page for a HAR file."""
    rows, unreadable = parse_rows(read_entries(file))
    page = render(file.name, rows, unreadable=unreadable)
    if output == "-":
        sys.stdout.buffer.write(page.encode())
        return
    path = file.with_name(f"{file.name}.html") if output is None else Path(output)
    if path.exists() and path.samefile(file):
        raise click.UsageError("the page would replace the HAR file")
    path.write_text(page, encoding="utf-8")
    click.echo(f"wrote {path}")
