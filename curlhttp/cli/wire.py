"""What -v, -i and --print show: what went over the wire, of all attempts and redirects.

The lines of -v are those of the logger "curlhttp", where credentials are masked.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from curlhttp._models.decoding import decode_readable
from curlhttp._models.redaction import redact_field, redact_text
from curlhttp._models.redactor import Redactor
from curlhttp.cli.terminal import printable

if TYPE_CHECKING:
    from logging import LogRecord

    from curlhttp._flow.hooks import AttemptEvent
    from curlhttp._models.response import Response

__all__ = ["print_head", "print_request", "say", "tell_attempt", "wire_shown"]

_MARKS = ("* ", "> ", "< ")
_OWN = " bytes of body received"  # of a stream that is a part: the whole is told at its end


def say(line: str) -> None:
    """Write a line to stderr; control characters are escaped."""
    print(printable(line), file=sys.stderr)  # noqa: T201


@contextmanager
def wire_shown(*, shows_secrets: bool = False) -> Iterator[None]:
    """Show on stderr what goes over the wire within the block: each attempt when it has its head.

    Args:
        shows_secrets: credentials are not masked.
    """
    import logging

    from curlhttp._watch import log

    class Handler(logging.Handler):
        def emit(self, record: LogRecord) -> None:
            _tell(record)

    logger, handler = logging.getLogger("curlhttp"), Handler()
    before = logger.level, logger.propagate
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    log.masks = not shows_secrets
    try:
        yield
    finally:
        log.masks = True
        logger.removeHandler(handler)
        logger.propagate = before[1]
        logger.setLevel(before[0])


def _tell(record: LogRecord) -> None:
    """Show a line that is of the wire: "#1 +0.000426 > Host: ..."."""
    _, _, line = record.getMessage().partition(" ")
    if line.startswith("+"):
        _, _, line = line.partition(" ")
    if f"{line} ".startswith(_MARKS) and not line.endswith(_OWN):
        say(line.rstrip())


def tell_attempt(event: AttemptEvent) -> None:
    """Print that a request is sent again; a hook for before_sleep."""
    came = event.error or event.status_code
    say(f"* attempt {event.number}: {came}; the next one in {event.delay:.2f} s")


def head_of(response: Response) -> Iterable[str]:
    """Give the lines of a response's head."""
    yield f"{response.http_version} {response.status_code} {response.reason}".rstrip()
    for name, value in response.headers.multi_items():
        yield f"{name}: {value}"


def print_head(response: Response) -> None:
    """Write a response's head to stdout, as it came; a terminal gets no control characters."""
    _print_lines([*head_of(response), ""])


def print_request(response: Response, parts: str, *, shows_secrets: bool) -> None:
    """Write what was sent to stdout, of the last hop.

    Args:
        response: that it led to.
        parts: with "H" its head, with "B" its body.
        shows_secrets: credentials are not masked.
    """
    request = response.request
    if "H" in parts:
        fields = request.sent_headers.multi_items()
        path = request.url.target
        if not shows_secrets:
            fields = [(name, redact_field(name, value)) for name, value in fields]
            path = redact_text(path)
        lines = [f"{request.method} {path} {response.http_version}"]
        _print_lines([*lines, *(f"{name}: {value}" for name, value in fields), ""])
    if "B" in parts and request.body is not None:
        data = request.body.data
        if data is None:
            data = b"(a body that was read while it was sent)"
        elif not shows_secrets:
            codings = request.read_headers().get_list("content-encoding")
            plain = decode_readable(data, codings)
            masked = Redactor().body(plain, request.get_header("content-type") or "")
            if masked != plain:  # else it is shown as it was sent
                data = masked
        if sys.stdout.isatty():
            sys.stdout.write(printable(data.decode("utf-8", "replace"), "\n\t") + "\n\n")
            sys.stdout.flush()
            return
        sys.stdout.buffer.write(data + b"\n\n")
        sys.stdout.buffer.flush()


def _print_lines(lines: Iterable[str]) -> None:
    if sys.stdout.isatty():
        sys.stdout.writelines(f"{printable(line)}\n" for line in lines)
        sys.stdout.flush()
        return
    sys.stdout.buffer.write("".join(f"{line}\r\n" for line in lines).encode("latin-1"))
    sys.stdout.buffer.flush()
