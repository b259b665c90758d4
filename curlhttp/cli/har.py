"""The commands for HAR files: `curlhttp har view`. A file may come from anybody."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from html import escape
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import urljoin

import click

from curlhttp._http.redaction import display_url, redact_field
from curlhttp.cli.errors import READ_ERROR, CommandFailed
from curlhttp.cli.files import replace_file
from curlhttp.cli.terminal import format_bytes, printable

_MAX_FILE = 256 * 1024**2  # bytes; reading needs several times as much memory
_MAX_SECONDS = 1e9
_RETRIED = (0, 408, 425, 429)  # and 5xx
_DATE = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d{1,12})?(?:Z|([+-])(\d\d):?(\d\d))?", re.ASCII
).fullmatch
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_Object: TypeAlias = "dict[str, object]"

# --- One HTML page with a waterfall of requests, for `har view` and --timing-html ---
#
# The page loads nothing, and its policy forbids that. Its texts come from servers and from files of
# other programs, so all of them are escaped, and none becomes a link.

PHASES = ("queue", "dns", "connect", "tls", "send", "wait", "receive")
MAX_ROWS = 5000  # Chromium opens these in two seconds
LOST = "hedge lost"  # the tag of an attempt that another one has replaced
_LONGEST = 500  # characters of a text
_LONGEST_READ = 8000  # from the beginning of a text, before secrets are masked or URLs joined


class Row(NamedTuple):
    """One attempt, or a response from a cache.

    Attributes:
        method: of the request.
        url: of the request.
        status_code: 0 for none.
        text: the reason phrase, or the error.
        started: seconds, on any clock.
        phases: seconds of each of PHASES.
        size: bytes of the body, or None if unknown.
        tags: what it is besides a first attempt: "retry", "redirect", "hedge", "cache", ...
        details: further names and values.
    """

    method: str
    url: str
    status_code: int
    text: str
    started: float
    phases: tuple[float, ...]
    size: int | None = None
    tags: tuple[str, ...] = ()
    details: tuple[tuple[str, str], ...] = ()

    @property
    def total(self) -> float:
        """Return the seconds that it took."""
        return sum(self.phases)

    @property
    def has_failed(self) -> bool:
        """Return whether there was no response, or one with an error.

        An attempt that lost to another one has not failed.
        """
        if not self.status_code:
            return LOST not in self.tags
        return self.status_code >= 400


def explain_attempt(before: int) -> str:
    """Return the tag of a request's further attempt.

    Args:
        before: the status of its attempt before, 0 for none.
    """
    if 300 <= before < 400:
        return "redirect"
    return "login" if before in (401, 407) else "retry"


def render(title: str, rows: Sequence[Row], *, unreadable: int = 0) -> str:
    """Return the page.

    Args:
        title: of the page, such as the name of a file.
        rows: in any order.
        unreadable: how many entries could not be read.
    """
    shown = sorted(rows, key=lambda row: row.started)[:MAX_ROWS]
    begin = shown[0].started if shown else 0.0
    span = max((row.started + row.total - begin for row in shown), default=0.0) or 1e-9
    facts = [
        f"{len(rows):,} request{'' if len(rows) == 1 else 's'}",
        f"{sum(row.has_failed for row in rows):,} failed",
        *(f"{count:,} {tag}" for tag, count in _count_tags(rows).items()),
        format_bytes(sum(row.size or 0 for row in rows)),
        _format_seconds(span if shown else 0.0),
    ]
    notes = []
    if len(rows) > len(shown):
        notes.append(f"Only the first {len(shown):,} requests are shown.")
    if unreadable:
        notes.append(f"{unreadable:,} entries could not be read.")
    digest = base64.b64encode(hashlib.sha256(_SCRIPT.encode()).digest()).decode()
    legend = "".join(f'<li><i class="{name}"></i>{name}' for name in PHASES)
    ticks = "".join(f"<span>{_format_seconds(span * part / 4)}</span>" for part in range(4))
    page = _PAGE.format(
        title=_escape_text(title),
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        style=_STYLE,
        script=_SCRIPT,
        facts=" · ".join(facts),
        notes="".join(f"<p>{note}" for note in notes),
        legend=legend,
        ticks=ticks,
        rows="\n".join(_row(number, row, begin, span) for number, row in enumerate(shown, 1)),
    )
    # Files of other programs may have surrogates, which UTF-8 does not.
    return page.encode("utf-8", "replace").decode("utf-8")


def _count_tags(rows: Sequence[Row]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        for tag in row.tags:
            found[_escape_text(tag)] = found.get(_escape_text(tag), 0) + 1
    return found


def _escape_text(text: str) -> str:
    shown = printable(text[:_LONGEST]) + ("…" if len(text) > _LONGEST else "")
    return escape(shown.replace("\n", " "))


def _redacted(text: str) -> str:
    return _escape_text(redact_field("", text[:_LONGEST_READ]))


def _format_seconds(seconds: float) -> str:
    if seconds < 0.9995:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:,.2f} s"


def _row(number: int, row: Row, begin: float, span: float) -> str:
    method, shown = _escape_text(row.method), _escape_text(display_url(row.url[:_LONGEST_READ]))
    text = _redacted(row.text)
    status = str(row.status_code or ("failed" if row.has_failed else "lost"))
    size = "" if row.size is None else format_bytes(row.size)
    tags = "".join(f"<b>{_escape_text(tag)}</b>" for tag in row.tags)
    times = [
        (name, _format_seconds(seconds))
        for name, seconds in zip(PHASES, row.phases, strict=True)
        if seconds
    ]
    facts = [("status", f"{status} {text}".strip())]
    facts += [(_escape_text(name), _redacted(value)) for name, value in row.details]
    details = "".join(f"<dt>{name}<dd>{value}" for name, value in (*facts, *times))
    words = " ".join((method, shown, status, text, *map(_escape_text, row.tags))).lower()
    label = ", ".join(f"{name} {seconds}" for name, seconds in times) or "no time"
    mark = ' class="bad"' if row.has_failed else ""
    return (
        f'<tr data-text="{words}"{mark}><td>{number}'
        f"<td><details><summary><code>{method}</code> {shown}</summary>"
        f"<dl>{details}</dl></details>"
        f"<td>{status}<td>{tags}<td>{size}<td>{_format_seconds(row.total)}"
        f'<td><div role="img" aria-label="{label}" title="{label}">'
        f"{_bars(row, begin, span)}</div>"
    )


def _bars(row: Row, begin: float, span: float) -> str:
    bars, left = [], (row.started - begin) / span * 100
    for name, seconds in zip(PHASES, row.phases, strict=True):
        width = seconds / span * 100
        if seconds:
            bars.append(f'<i class="{name}" style="left:{left:.3f}%;width:{width:.3f}%"></i>')
        left += width
    return "".join(bars) or f'<i class="wait" style="left:{min(left, 100):.3f}%;width:0"></i>'


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
<header>
<h1>{title}</h1>
<p>{facts}</p>
{notes}
<label>Filter <input id="filter" type="search" placeholder="POST retry example.org"></label>
<output id="count"></output>
<ul>{legend}</ul>
</header>
<table>
<thead><tr><th>#<th>request<th>status<th><span class="none">kind</span><th>size<th>time
<th><div class="ticks">{ticks}</div>
<tbody>
{rows}
</table>
<script>{script}</script>
</html>
"""

_STYLE = """
:root{color-scheme:light dark;--back:#fff;--text:#1c2128;--dim:#59636e;--line:#d1d9e0;--bad:#b3261e;
--tag:#e7ebf0;--queue:#8c959f;--dns:#1a7f8e;--connect:#c26a10;--tls:#8250df;--send:#bf3989;
--wait:#2da44e;--receive:#2f6fd6}
@media (prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--dim:#9da7b1;--line:#30363d;
--bad:#ff8a80;--tag:#262c34;--queue:#7d8590;--dns:#39c5cf;--connect:#e09b4a;--tls:#b083f0;
--send:#e275ad;--wait:#46b35f;--receive:#5b9dff}}
*{box-sizing:border-box}
body{margin:0;padding:1rem;background:var(--back);color:var(--text);
font:14px/1.4 system-ui,sans-serif}
h1{font-size:1.2rem;margin:0;overflow-wrap:anywhere}
p{margin:.3rem 0;color:var(--dim)}
ul{display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:.6rem 0;list-style:none}
li i{display:inline-block;width:.8em;height:.8em;margin-right:.4em;border-radius:2px}
input{font:inherit;padding:.2rem .4rem;width:min(24rem,60vw)}
table{border-collapse:collapse;width:100%;table-layout:fixed}
th,td{text-align:left;vertical-align:top;padding:.25rem .4rem;border-top:1px solid var(--line)}
th{font-weight:600;color:var(--dim)}
th:nth-child(1){width:3.2rem}th:nth-child(3){width:4.4rem}th:nth-child(4){width:6.5rem}
th:nth-child(5),th:nth-child(6){width:5.6rem}th:nth-child(7){width:36%}
td:nth-child(5),td:nth-child(6),td:nth-child(1){white-space:nowrap;color:var(--dim)}
summary,dd,h1{unicode-bidi:isolate}summary{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;cursor:pointer}
details[open] summary{white-space:normal;overflow-wrap:anywhere}
dl{display:grid;grid-template-columns:max-content 1fr;gap:0 .8rem;margin:.4rem 0}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
.bad td:nth-child(3){color:var(--bad);font-weight:600}
td b{font-weight:400;background:var(--tag);border-radius:3px;padding:0 .35em;margin-right:.3em;
display:inline-block}
td div{position:relative;height:1.1rem}
td div i{position:absolute;top:.15rem;bottom:.15rem;min-width:2px}
.ticks{display:flex;font-weight:400;font-size:.85em}.ticks span{flex:1}
.none{position:absolute;clip-path:inset(50%)}
.queue{background:var(--queue)}.dns{background:var(--dns)}.connect{background:var(--connect)}
.tls{background:var(--tls)}.send{background:var(--send)}.wait{background:var(--wait)}
.receive{background:var(--receive)}
@media (max-width:800px){thead{display:none}table,tbody{display:block}
tr{display:grid;grid-template-columns:auto auto auto 1fr;border-top:1px solid var(--line)}
tr[hidden]{display:none}td{border:0}td:nth-child(1){display:none}
td:nth-child(2),td:nth-child(7){grid-column:1/-1;min-width:0}}
"""

_SCRIPT = """
const rows = [...document.querySelectorAll('tbody tr')];
const filter = document.getElementById('filter');
const count = document.getElementById('count');
filter.addEventListener('input', () => {
    const words = filter.value.toLowerCase().split(/\\s+/);
    let shown = 0;
    for (const row of rows) {
        row.hidden = !words.every(word => row.dataset.text.includes(word));
        shown += !row.hidden;
    }
    count.textContent = filter.value ? shown + ' of ' + rows.length : '';
});
"""


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
        # Joining takes 0.1 s for a target of 300 KB, and a file may have thousands of them.
        if target and 300 <= row.status_code < 400 and len(row.url + target) <= _LONGEST_READ:
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
    help="Show HAR files as HTML. --har, clients and browsers record them.", epilog=_EPILOG
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
    replace_file(path, page)
    click.echo(f"wrote {path}")
