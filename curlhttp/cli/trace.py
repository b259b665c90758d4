"""What -v, -i and --timing show: the heads of all hops, and where the time went.

Credentials are masked: the values of headers that carry them, and of such parameters in URLs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from curlhttp._models.scrub import is_secret_header, scrub_field, scrub_url
from curlhttp.cli.terminal import printable

if TYPE_CHECKING:
    from curlhttp._engine import Send
    from curlhttp._flow.hooks import AttemptEvent
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response
    from curlhttp._models.timings import Timings

__all__ = ["head_of", "print_head", "print_timing", "tell_attempt", "trace"]

_PHASES = ("queue", "dns", "connect", "tls", "wait", "body")


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr)  # noqa: T201


async def trace(request: Request, send: Send) -> Response:
    """Show each request and what came of it; a middleware."""
    _say(f"> {request.method} {scrub_url(request.url)}")
    for name, value in request.headers.multi_items():
        _say(f"> {name}: {_masked(name, value)}")
    body = request.body
    if body is not None:
        size = "of unknown size" if body.length is None else f"of {body.length:,} bytes"
        _say(f"> (a body {size})")
    response = await send(request)
    peer = response.timings.peer
    if peer is not None:
        _say(f"* {'reused' if response.timings.reused else 'opened'} {peer[0]} port {peer[1]}")
    for line in head_of(response, masks=True):
        _say(f"< {line}")
    return response


def tell_attempt(event: AttemptEvent) -> None:
    """Print that a request is sent again; a hook for before_sleep."""
    came = event.error or event.status_code
    _say(f"* attempt {event.number}: {came}; the next one in {event.delay:.2f} s")


def head_of(response: Response, *, masks: bool = False) -> Iterable[str]:
    """Give the lines of a response's head.

    Args:
        response: whose.
        masks: values that are credentials are not shown.
    """
    yield f"{response.http_version} {response.status_code} {response.reason}".rstrip()
    for name, value in response.headers.multi_items():
        yield f"{name}: {_masked(name, value) if masks else value}"


def _masked(name: str, value: str) -> str:
    if not is_secret_header(name):
        return scrub_field(name, value)
    if name.lower() == "set-cookie":
        cookie, semicolon, attributes = value.partition(";")
        return f"{cookie.partition('=')[0]}=***{semicolon}{attributes}"
    scheme, blank, _ = value.partition(" ")
    return f"{scheme} ***" if blank and name.lower().endswith("authorization") else "***"


def print_head(response: Response) -> None:
    """Write a response's head to stdout, as it came; a terminal gets no control characters."""
    if sys.stdout.isatty():
        sys.stdout.writelines(f"{printable(line)}\n" for line in (*head_of(response), ""))
        sys.stdout.flush()
        return
    head = "".join(f"{line}\r\n" for line in (*head_of(response), ""))
    sys.stdout.buffer.write(head.encode("latin-1"))
    sys.stdout.buffer.flush()


def print_timing(timings: Timings, body: float) -> None:
    """Draw where the time of the last hop went, on stderr.

    Args:
        timings: up to the head.
        body: seconds from the head to the end of the body.
    """
    from curlhttp.cli.terminal import console

    waited = timings.first_byte - timings.dns - timings.connect - timings.tls
    spent = (timings.queue, timings.dns, timings.connect, timings.tls, max(0.0, waited), body)
    total = sum(spent)
    out = console(stderr=True)
    width = max(5, min(60, out.width - 22))
    begun = 0.0
    for name, seconds in zip(_PHASES, spent, strict=True):
        left = round(width * begun / total) if total else 0
        begun += seconds
        right = round(width * begun / total) if total else 0
        bar = " " * left + "█" * (right - left) if right > left else " " * left + "▏"
        if seconds or name in ("wait", "body"):
            _row(name, seconds, bar[:width])
    _row("total", total, "connection reused" if timings.reused else "")


def _row(name: str, seconds: float, rest: str) -> None:
    encoding = sys.stderr.encoding or "ascii"
    rest = rest.encode(encoding, "replace").decode(encoding)
    print(f"{name:<8}{seconds * 1000:>9.1f} ms  {rest}".rstrip(), file=sys.stderr)  # noqa: T201
