"""Print requests and responses: bodies, and the output of -v, -i, --print, --json, -w and --timing.

Bodies are written unchanged to a pipe, and as readable text without a server's control characters
to a terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import IncrementalNewlineDecoder
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import click

from curlhttp._features.fetch.json_bodies import body_as_json, group_fields
from curlhttp._http.decoding import TextDecoder, decode_readable
from curlhttp._http.redaction import display_url, redact_field, redact_text, redact_url
from curlhttp._http.timings import NO_TIME, Timings
from curlhttp.cli.errors import WRITE_ERROR, CommandFailed, reading, translate
from curlhttp.cli.files import replace_file
from curlhttp.cli.terminal import console, has_color, printable
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from logging import LogRecord

    from curlhttp._client.stream import StreamedResponse
    from curlhttp._features.hook_events import AttemptEvent
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._http.url import URL
    from curlhttp._runtime.engine import Send


_MAX_INDENTED = 1024 * 1024  # bytes of JSON that are buffered so that they can be indented
_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')
_JSON_INDENT = "  "
_JSON_STYLES = {"key": "bold blue", "string": "green", "literal": "cyan", "mark": ""}
_JSON_CONTROLS = re.compile("[\x7f-\x9f]")
_STATUS_COLORS = {2: "green", 3: "cyan", 4: "yellow", 5: "red"}
_BLOCK_SIZE = 64 * 1024  # bytes of a request body
_PHASES = ("backoff", "limit", "rate", "queue", "dns", "connect", "tls", "first_byte", "total")
_WIRE_MARKS = ("* ", "> ", "< ")
_PARTIAL_BODY = " bytes of body received"  # is logged for each chunk of a stream


# --- the body of a response ---


class MeasuredBody:
    """Read the body of a response once, and measure its size and time.

    Args:
        response: the response, with its body still unread.

    Attributes:
        size: the number of decoded bytes read so far.
        content: the chunks, after read().
    """

    def __init__(self, response: StreamedResponse) -> None:
        self.response = response
        self.size: int = 0
        self.content: list[bytes] = []
        self._started = perf_counter()
        self._ended: float | None = None  # which may be earlier than the end of printing
        response._at_end(self._end)

    def _end(self, _: object) -> None:
        self._ended = perf_counter()

    @property
    def ended(self) -> float:
        """Return when the body ended, as of time.perf_counter(), or the current time."""
        return perf_counter() if self._ended is None else self._ended

    @property
    def total(self) -> float:
        """Return the seconds from the first request, before redirects, to the end of the body."""
        hops = [*self.response.history, self.response]
        return sum(hop.timings.total for hop in hops) + self.ended - self._started

    def chunks(self) -> Iterator[bytes]:
        """Yield the chunks of the body; as received if it is a part of a coded one."""
        response = self.response
        is_coded_part = response.status_code == 206 and "content-encoding" in response.headers
        for chunk in response.iter_raw() if is_coded_part else response.iter_bytes():
            self.size += len(chunk)
            yield chunk

    def read(self) -> None:
        """Read the body into memory."""
        self.content = list(self.chunks())

    def discard(self) -> None:
        """Read the body without keeping it."""
        for _ in self.chunks():
            pass

    def chunks_with_progress(self, shows_progress: bool) -> Iterator[bytes]:
        """Yield the chunks of the body, and draw a progress bar on stderr if `shows_progress`."""
        if not shows_progress:
            yield from self.chunks()
            return
        from curlhttp._features.download.resume import content_length
        from curlhttp.progress import bar

        headers = self.response.headers
        total = None if "content-encoding" in headers else content_length(headers)
        with bar(console=console(stderr=True)) as update:
            for chunk in self.chunks():
                yield chunk
                update(self.size, total)


def print_body(body: MeasuredBody, *, raw: bool = False) -> None:
    """Write a body to stdout: unchanged to a pipe, as text or indented JSON to a terminal.

    Args:
        body: the body.
        raw: write it unchanged to a terminal, too.

    Raises:
        CommandFailed: the body is binary, and stdout is a terminal.
    """
    if raw or not sys.stdout.isatty():
        for chunk in body.chunks():
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
        return
    response = body.response
    is_json, charset, chunks = _is_json(response), response._charset(), body.chunks()
    start = b"".join(_read_up_to(chunks, _MAX_INDENTED if is_json else 1))
    if not _is_text(start, charset):
        kind = printable(response.headers.get("content-type", "of unknown type"))
        raise CommandFailed(
            f"the body is binary ({kind}); save it with -o FILE, or pipe it", WRITE_ERROR
        )
    following = next(chunks, b"") if is_json else b""
    if following or not (is_json and _print_json_body(start)):
        _print_text(chain([start, following], chunks), charset)


def _is_text(start: bytes, charset: str) -> bool:
    """Return whether a body that begins with these bytes is text."""
    try:
        return "\0" not in TextDecoder(charset, errors="strict").decode(start)
    except UnicodeError:
        return False


def _is_json(response: StreamedResponse) -> bool:
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


def _read_up_to(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    """Yield chunks until they have `size` bytes or more, or the body ends."""
    while size > 0 and (chunk := next(chunks, b"")):
        size -= len(chunk)
        yield chunk


def _print_json_body(content: bytes) -> bool:
    """Print a complete body and return True if it is valid JSON."""
    with suppress(UnicodeDecodeError):
        pieces = indent_json(content.decode("utf-8-sig"))
        if pieces is not None:
            if not has_color():
                sys.stdout.write("".join(printable(piece, "\n") for piece, _ in pieces) + "\n")
                return True
            from rich.text import Text

            styled = [(printable(piece, "\n"), _JSON_STYLES[kind]) for piece, kind in pieces]
            console().print(Text.assemble(*styled), soft_wrap=True)
            return True
    return False


def indent_json(text: str) -> list[tuple[str, str]] | None:
    """Indent JSON. Return pieces of text, each with a key of _JSON_STYLES; None if it is invalid.

    No token is changed, so no number is rounded and no duplicate key is lost.
    """
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    return list(_indent_tokens(_JSON_TOKEN.findall(text)))


def _indent_tokens(tokens: list[str]) -> Iterator[tuple[str, str]]:
    depth = 0
    for index, part in enumerate(tokens):
        before, after = tokens[index - 1 : index], tokens[index + 1 : index + 2]
        if part in "[{":
            depth += 1
            yield part, "mark"
            if after not in (["]"], ["}"]):
                yield "\n" + _JSON_INDENT * depth, "mark"
        elif part in "]}":
            depth -= 1
            if before not in (["["], ["{"]):
                yield "\n" + _JSON_INDENT * depth, "mark"
            yield part, "mark"
        elif part == ",":
            yield ",\n" + _JSON_INDENT * depth, "mark"
        elif part == ":":
            yield ": ", "mark"
        elif part[0] != '"':
            yield part, "literal"
        else:
            yield part, "key" if after == [":"] else "string"


def _print_text(chunks: Iterator[bytes], charset: str) -> None:
    decoder = IncrementalNewlineDecoder(TextDecoder(charset), translate=True)
    last = "\n"
    for text in _decode(decoder, chunks):
        if text:
            sys.stdout.write(printable(text, "\n\t"))
            sys.stdout.flush()
            last = text[-1]
    if last != "\n":
        sys.stdout.write("\n")  # so that the shell's prompt starts on a new line


def _decode(decoder: IncrementalNewlineDecoder, chunks: Iterator[bytes]) -> Iterator[str]:
    for chunk in chunks:
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


# --- -i and --print ---


def print_head(response: Response) -> None:
    """Write the status line and headers of a response to stdout."""
    status = f"{response.http_version} {response.status_code} {response.reason}".rstrip()
    color = _STATUS_COLORS.get(response.status_code // 100, "")
    _print_head(status, response.headers.multi_items(), color)


def print_request(request: ClientRequest, version: str, parts: str, *, shows_secrets: bool) -> None:
    """Write a request to stdout, after its response was received.

    Args:
        request: the request.
        version: the HTTP version.
        parts: "H" to write the request line and headers, "B" to write the body.
        shows_secrets: do not mask credentials.
    """
    if "H" in parts:
        _print_request_head(request, version, shows_secrets=shows_secrets)
    if "B" in parts and request.body is not None:
        data = request.body.data
        data = b"(a streamed body)" if data is None else _mask_body(request, data, shows_secrets)
        _print_request_body(data, end="\n\n")


def print_unsent(request: ClientRequest, parts: str, *, shows_secrets: bool) -> None:
    """Write a request to stdout that was not sent, with its whole body.

    Args:
        request: the request. Its body is read.
        parts: see print_request.
        shows_secrets: do not mask credentials.
    """
    if "H" in parts:
        _print_request_head(request, "HTTP/1.1", shows_secrets=shows_secrets)
    body = request.body
    if "B" in parts and body is not None:
        data = body.data
        if data is None:
            data = b"".join(iter(lambda: body.read(_BLOCK_SIZE), b""))
        _print_request_body(_mask_body(request, data, shows_secrets), end="")


def _print_request_head(request: ClientRequest, version: str, *, shows_secrets: bool) -> None:
    fields = request.sent_headers.multi_items()
    path = request.url.target
    if not shows_secrets:
        fields = [(name, redact_field(name, value)) for name, value in fields]
        path = redact_text(path)
    _print_head(f"{request.method} {path} {version}", fields)


def _mask_body(request: ClientRequest, data: bytes, shows_secrets: bool) -> bytes:
    if shows_secrets:
        return data
    from curlhttp._http.body_redaction import Redactor

    codings = request.read_headers().get_list("content-encoding")
    decoded = decode_readable(data, codings)
    masked = Redactor().body(decoded, request.get_header("content-type") or "")
    return data if masked == decoded else masked  # if nothing is masked, as it is sent


def _print_request_body(data: bytes, end: str) -> None:
    if sys.stdout.isatty():
        text = f"(a binary body of {len(data):,} bytes)"
        if b"\0" not in data:
            text = printable(data.decode("utf-8", "replace"), "\n\t")
        sys.stdout.write(text + (end or "\n"))
        sys.stdout.flush()
        return
    sys.stdout.buffer.write(data + end.encode())
    sys.stdout.buffer.flush()


def _print_head(first_line: str, fields: Iterable[tuple[str, str]], color: str = "") -> None:
    """Write a head to stdout: coloured to a terminal, as it is on the wire to a pipe.

    Args:
        first_line: the request line, or the status line.
        fields: names and values.
        color: of the first line, or "" for none.
    """
    if not sys.stdout.isatty():
        lines = [first_line, *(f"{name}: {value}" for name, value in fields), ""]
        sys.stdout.buffer.write("".join(f"{line}\r\n" for line in lines).encode("latin-1"))
        sys.stdout.buffer.flush()
        return
    first_line = printable(first_line)
    fields = [(printable(name), printable(value)) for name, value in fields]
    if has_color():
        first_line = click.style(first_line, color or None, bold=True)
        fields = [(click.style(name, "cyan"), value) for name, value in fields]
    lines = [first_line, *(f"{name}: {value}" for name, value in fields), ""]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


# --- -v ---


def print_info(line: str) -> None:
    """Write a line to stderr, with control characters escaped."""
    print(printable(line), file=sys.stderr)  # noqa: T201


def print_retry(event: AttemptEvent) -> None:
    """Print why a request is retried, and when. This is a before_sleep hook."""
    cause = event.error or event.status_code
    print_info(f"* attempt {event.number}: {cause}; retrying in {event.delay:.2f} s")


@contextmanager
def show_wire(*, shows_secrets: bool = False) -> Iterator[None]:
    """Print to stderr what is sent and received within the block, as the logger "curlhttp" reports.

    Args:
        shows_secrets: do not mask credentials.
    """
    import logging

    from curlhttp._runtime.log import log

    class Handler(logging.Handler):
        def emit(self, record: LogRecord) -> None:
            _print_record(record)

    logger, handler = logging.getLogger("curlhttp"), Handler()
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    log.masks = not shows_secrets
    try:
        yield
    finally:
        log.masks = True
        logger.removeHandler(handler)
        logger.propagate = propagate
        logger.setLevel(level)


def _print_record(record: LogRecord) -> None:
    """Print a log record about data on the wire, such as "#1 +0.000426 > Host: ..."."""
    _, _, line = record.getMessage().partition(" ")
    if line.startswith("+"):
        _, _, line = line.partition(" ")
    if f"{line} ".startswith(_WIRE_MARKS) and not line.endswith(_PARTIAL_BODY):
        print_info(line.rstrip())


# --- --json ---


def escape_json_controls(text: str) -> str:
    """Escape DEL and C1 in JSON text, the control characters that the json module leaves as is."""
    return _JSON_CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_json(fields: dict[str, object]) -> None:
    """Write fields to stdout as one line of JSON."""
    text = escape_json_controls(json.dumps(fields, ensure_ascii=False))
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


def print_response_json(body: MeasuredBody, path: Path | None) -> None:
    """Write a response as one line of JSON, with the field names of `curlhttp fetch`.

    Args:
        body: the body, which has been read.
        path: the file that the body was saved to, or None if it is in memory.
    """
    response = body.response
    timings = response.timings
    first = (response.history or [response])[0].request
    fields: dict[str, object] = {
        "method": first.method,
        "url": redact_url(first.url),
        "final_url": redact_url(response.request.url) if response.history else None,
        "status": response.status_code,
        "reason": response.reason,
        "http_version": response.http_version,
        "headers": group_fields(response),
        "attempts": max(1, len(response.attempts)),
        "redirects": len(response.history),
        "timings": {name: round(getattr(timings, name), 6) for name in _PHASES},
        "elapsed": round(body.total, 6),
        "size": body.size,
    }
    content = {"file": str(path)} if path else body_as_json(b"".join(body.content))
    print_json({**fields, **content})


def print_error_json(error: RequestException, method: str, url: str) -> None:
    """Write an error as one line of JSON."""
    print_json(
        {
            "method": method,
            "url": redact_url(url),
            "status": None if error.response is None else error.response.status_code,
            "error": type(error).__name__,
            "message": translate(str(error)),
        }
    )


# --- -w ---

_VARIABLE = re.compile(r"%(header|output)?\{([^}]+)\}|%%|\\[nrt\\]")
_ESCAPES = {r"\n": "\n", r"\r": "\r", r"\t": "\t", r"\\": "\\", "%%": "%"}
_VERSIONS = {"HTTP/1.0": "1.0", "HTTP/1.1": "1.1", "HTTP/2": "2", "HTTP/3": "3"}


def _format_time(seconds: float) -> str:
    return f"{seconds:.6f}"


def _make_time_getter(*names: str) -> Callable[[Response, int, float], str]:
    """Return a function that adds up timings, because curl's times start with the request."""
    return lambda response, *_: _format_time(sum(getattr(response.timings, name) for name in names))


def _make_address_getter(index: int, side: str) -> Callable[[Response, int, float], str]:
    def get(response: Response, *_: object) -> str:
        address = getattr(response.timings, side)
        return "" if address is None else str(address[index])

    return get


_VARIABLES: dict[str, Callable[[Response, int, float], str]] = {
    "content_type": lambda response, *_: redact_text(response.headers.get("content-type", "")),
    "http_code": lambda response, *_: f"{response.status_code:03}",
    "http_version": lambda response, *_: _VERSIONS.get(response.http_version, "0"),
    "local_ip": _make_address_getter(0, "local"),
    "local_port": _make_address_getter(1, "local"),
    "method": lambda response, *_: response.request.method,
    "num_redirects": lambda response, *_: str(len(response.history)),
    "redirect_url": lambda response, *_: _get_redirect_url(response),
    "remote_ip": _make_address_getter(0, "peer"),
    "remote_port": _make_address_getter(1, "peer"),
    "response_code": lambda response, *_: f"{response.status_code:03}",
    "scheme": lambda response, *_: response.request.url.scheme,
    "size_download": lambda _, size, __: str(size),
    "time_appconnect": _make_time_getter("dns", "connect", "tls"),
    "time_connect": _make_time_getter("dns", "connect"),
    "time_namelookup": _make_time_getter("dns"),
    "time_starttransfer": _make_time_getter("first_byte"),
    "time_total": lambda _, __, total: _format_time(total),
    "url": lambda response, *_: redact_url((response.history or [response])[0].request.url),
    "url_effective": lambda response, *_: redact_url(response.request.url),
}


def _get_redirect_url(response: Response) -> str:
    """Return the URL in Location as an absolute URL without secrets."""
    from curlhttp._http.url import BLANKS, decode_reference

    location = response.headers.get("location", "").strip(BLANKS)
    if not location:
        return ""
    try:
        return redact_url(response.request.url.join_location(decode_reference(location)))
    except RequestException:
        return display_url(location)


def validate_format(text: str) -> str:
    """Return the format of -w, which @FILE reads from a file.

    Raises:
        click.BadParameter: a variable is unknown. The message lists the known ones.
        CommandFailed: the file cannot be read.
    """
    if text.startswith("@"):
        text = _read_format(text[1:])
    for kind, name in _VARIABLE.findall(text):
        if kind == "output":
            raise click.BadParameter("%output{} is not supported: -w writes to stdout")
        if name and not kind and name not in _VARIABLES:
            raise click.BadParameter(
                f"unknown variable {name!r}; the variables are {', '.join(_VARIABLES)}"
            )
    return text


def _read_format(path: str) -> str:
    with reading(path):
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")


def write_out(text: str, body: MeasuredBody) -> None:
    r"""Write a format to stdout after replacing its variables, \n, \r, \t and %%.

    Args:
        text: the format, which validate_format() has accepted.
        body: the body, which has been read.
    """

    def replace(match: re.Match[str]) -> str:
        kind, name = match.groups()
        if not name:
            return _ESCAPES[match[0]]
        if kind:
            return printable(redact_field(name, body.response.headers.get(name, "")))
        # Escape control characters, because the value may come from a server.
        return printable(_VARIABLES[name](body.response, body.size, body.total))

    sys.stdout.write(_VARIABLE.sub(replace, text))
    sys.stdout.flush()


# --- --timing and --timing-html ---

_CHART_PHASES = ("queue", "dns", "connect", "tls", "wait", "body")
_ALWAYS_SHOWN = ("wait", "body")
_WAITS = ("backoff", "limit", "rate")  # before an attempt


class _TimedAttempt(NamedTuple):
    method: str
    url: URL
    status_code: int  # 0 for an error
    error: str
    started: float
    ended: float
    timings: Timings
    size: int | None = None

    @property
    def title(self) -> str:
        """Return what was sent, and the result."""
        result = self.error.partition(":")[0] or str(self.status_code)
        return f"{self.method} {display_url(self.url)}: {result}"

    @property
    def durations(self) -> tuple[float, ...]:
        """Return the seconds of each phase."""
        times = self.timings
        wait = max(0.0, times.first_byte - times.dns - times.connect - times.tls)
        before_body = (times.queue, times.dns, times.connect, times.tls, wait)
        return (*before_body, max(0.0, self.ended - self.started - sum(before_body)))


class TimingChart:
    """Show the phases of each attempt and redirect of one request, on one scale."""

    def __init__(self) -> None:
        self._attempts: list[_TimedAttempt] = []

    async def record(self, request: ClientRequest, send: Send) -> Response:
        """Record the timings of an attempt. This is an attempt middleware."""
        started, status_code, text, timings = perf_counter(), 0, "", NO_TIME
        method, url = request.method, request.url
        try:
            response = await send(request)
            status_code, timings = response.status_code, response.timings
            return response
        except RequestException as error:
            text, timings = f"{type(error).__name__}: {error}", error.timings or NO_TIME
            raise
        finally:
            ended = perf_counter()
            self._attempts.append(
                _TimedAttempt(method, url, status_code, text, started, ended, timings)
            )

    def set_end(self, when: float, size: int) -> None:
        """Set when the body of the last attempt ended, and its size in bytes."""
        if self._attempts:
            self._attempts[-1] = self._attempts[-1]._replace(ended=when, size=size)

    def write_page(self, path: Path) -> None:
        """Write all attempts as an HTML page.

        Raises:
            CommandFailed: the file cannot be written.
        """
        from curlhttp.cli.har import Row, explain_attempt, render

        rows: list[Row] = []
        for attempt in self._attempts:
            queue, dns, connect, tls, wait, body = attempt.durations
            if not attempt.status_code:
                wait, body = wait + body, 0.0
            peer = attempt.timings.peer
            details = [] if peer is None else [("server", f"{peer[0]} port {peer[1]}")]
            if attempt.timings.reused:
                details.append(("connection", "reused"))
            row = Row(
                attempt.method,
                str(attempt.url),
                attempt.status_code,
                attempt.error,
                attempt.started,
                (queue, dns, connect, tls, 0.0, wait, body),
                attempt.size,
                (explain_attempt(rows[-1].status_code),) if rows else (),
                tuple(details),
            )
            rows.append(row)
        title = "no request was sent"
        if rows:
            title = f"{rows[0].method} {display_url(rows[0].url)}"
        replace_file(path, render(title, rows))

    def draw(self) -> None:
        """Draw all attempts on stderr."""
        attempts = self._attempts
        if not attempts:
            return
        out = console(stderr=True)
        started = attempts[0].started
        total = max(attempt.ended for attempt in attempts) - started
        width = max(5, min(60, out.width - 22))
        for attempt in attempts:
            if len(attempts) > 1:
                _print_to_stderr(printable(attempt.title)[: max(20, out.width)])
            _draw_waits(attempt)
            _draw_attempt(attempt, attempt.started - started, total, width)
        _print_bar("total", total, "connection reused" if attempts[-1].timings.reused else "")


def _draw_attempt(attempt: _TimedAttempt, offset: float, total: float, width: int) -> None:
    for name, seconds in zip(_CHART_PHASES, attempt.durations, strict=True):
        left = round(width * offset / total) if total else 0
        offset += seconds
        right = round(width * offset / total) if total else 0
        bar = " " * left + ("█" * (right - left) or "▏")
        if seconds or name in _ALWAYS_SHOWN:
            _print_bar(name, seconds, bar[:width])


def _draw_waits(attempt: _TimedAttempt) -> None:
    """Show what was waited for before an attempt, as the gap in front of its phases."""
    for name in _WAITS:
        if seconds := getattr(attempt.timings, name):
            _print_bar(name, seconds, "")


def _print_bar(name: str, seconds: float, rest: str) -> None:
    _print_to_stderr(f"{name:<8}{seconds * 1000:>9.1f} ms  {rest}".rstrip())


def _print_to_stderr(line: str) -> None:
    encoding = sys.stderr.encoding or "ascii"
    print(line.encode(encoding, "replace").decode(encoding), file=sys.stderr)  # noqa: T201
