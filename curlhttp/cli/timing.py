"""What --timing draws: a bar for each phase of each attempt and redirect, on one scale."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from curlhttp._models.redaction import display_url
from curlhttp._models.timings import NO_TIME, Timings
from curlhttp.cli.terminal import console, printable
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._engine import Send
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response

__all__ = ["Laps"]

_PHASES = ("queue", "dns", "connect", "tls", "wait", "body")
_ALWAYS = ("wait", "body")


class _Lap(NamedTuple):
    """One attempt: what it was, when it began and ended, and where its time went."""

    title: str
    begun: float
    ended: float
    timings: Timings


class Laps:
    """Takes the times of all attempts of one request."""

    def __init__(self) -> None:
        self._laps: list[_Lap] = []

    async def around(self, request: Request, send: Send) -> Response:
        """Take the times of an attempt; an attempt middleware."""
        begun, asked = perf_counter(), f"{request.method} {display_url(request.url)}"
        try:
            response = await send(request)
        except RequestException as error:
            title = f"{asked}: {type(error).__name__}"
            self._laps.append(_Lap(title, begun, perf_counter(), error.timings or NO_TIME))
            raise
        title = f"{asked}: {response.status_code}"
        self._laps.append(_Lap(title, begun, perf_counter(), response.timings))
        return response

    def end(self, when: float) -> None:
        """Hear when the body of the last attempt ended."""
        if self._laps:
            self._laps[-1] = self._laps[-1]._replace(ended=when)

    def draw(self) -> None:
        """Draw all of them on stderr."""
        laps = self._laps
        if not laps:
            return
        out = console(stderr=True)
        begun = laps[0].begun
        total = max(lap.ended for lap in laps) - begun
        width = max(5, min(60, out.width - 22))
        for lap in laps:
            if len(laps) > 1:
                _say(printable(lap.title)[: max(20, out.width)])
            _draw(lap, lap.begun - begun, total, width)
        _row("total", total, "connection reused" if laps[-1].timings.reused else "")


def _draw(lap: _Lap, begun: float, total: float, width: int) -> None:
    times = lap.timings
    waited = max(0.0, times.first_byte - times.dns - times.connect - times.tls)
    known = (times.queue, times.dns, times.connect, times.tls, waited)
    spent = (*known, max(0.0, lap.ended - lap.begun - sum(known)))
    for name, seconds in zip(_PHASES, spent, strict=True):
        left = round(width * begun / total) if total else 0
        begun += seconds
        right = round(width * begun / total) if total else 0
        bar = " " * left + ("█" * (right - left) or "▏")
        if seconds or name in _ALWAYS:
            _row(name, seconds, bar[:width])


def _row(name: str, seconds: float, rest: str) -> None:
    _say(f"{name:<8}{seconds * 1000:>9.1f} ms  {rest}".rstrip())


def _say(line: str) -> None:
    encoding = sys.stderr.encoding or "ascii"
    print(line.encode(encoding, "replace").decode(encoding), file=sys.stderr)  # noqa: T201
