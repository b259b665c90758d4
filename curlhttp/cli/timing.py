"""--timing: draw a bar for each phase of each attempt and redirect, on one scale."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from curlhttp._models.redaction import display_url
from curlhttp._models.timings import NO_TIME, Timings
from curlhttp.cli.terminal import console, printable
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._engine.engine import Send
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response

__all__ = ["TimingChart"]

_PHASES = ("queue", "dns", "connect", "tls", "wait", "body")
_ALWAYS_SHOWN = ("wait", "body")


class _TimedAttempt(NamedTuple):
    title: str
    started: float
    ended: float
    timings: Timings


class TimingChart:
    """Record and draw the timings of all attempts of one request."""

    def __init__(self) -> None:
        self._attempts: list[_TimedAttempt] = []

    async def record(self, request: Request, send: Send) -> Response:
        """Record the timings of an attempt; an attempt middleware."""
        started, title = perf_counter(), f"{request.method} {display_url(request.url)}"
        try:
            response = await send(request)
        except RequestException as error:
            title = f"{title}: {type(error).__name__}"
            timings = error.timings or NO_TIME
            self._attempts.append(_TimedAttempt(title, started, perf_counter(), timings))
            raise
        title = f"{title}: {response.status_code}"
        self._attempts.append(_TimedAttempt(title, started, perf_counter(), response.timings))
        return response

    def set_end(self, when: float) -> None:
        """Set when the body of the last attempt ended."""
        if self._attempts:
            self._attempts[-1] = self._attempts[-1]._replace(ended=when)

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
                _print(printable(attempt.title)[: max(20, out.width)])
            _draw(attempt, attempt.started - started, total, width)
        _print_row("total", total, "connection reused" if attempts[-1].timings.reused else "")


def _draw(attempt: _TimedAttempt, offset: float, total: float, width: int) -> None:
    times = attempt.timings
    wait = max(0.0, times.first_byte - times.dns - times.connect - times.tls)
    before_body = (times.queue, times.dns, times.connect, times.tls, wait)
    durations = (*before_body, max(0.0, attempt.ended - attempt.started - sum(before_body)))
    for name, seconds in zip(_PHASES, durations, strict=True):
        left = round(width * offset / total) if total else 0
        offset += seconds
        right = round(width * offset / total) if total else 0
        bar = " " * left + ("█" * (right - left) or "▏")
        if seconds or name in _ALWAYS_SHOWN:
            _print_row(name, seconds, bar[:width])


def _print_row(name: str, seconds: float, rest: str) -> None:
    _print(f"{name:<8}{seconds * 1000:>9.1f} ms  {rest}".rstrip())


def _print(line: str) -> None:
    encoding = sys.stderr.encoding or "ascii"
    print(line.encode(encoding, "replace").decode(encoding), file=sys.stderr)  # noqa: T201
