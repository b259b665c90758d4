"""The progress of a run, on stderr: a live line on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from curlhttp.cli.fetch.tally import Tally, shown_counts
from curlhttp.cli.terminal import console, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

__all__ = ["Progress", "shown_duration"]

_REFRESHES = 4  # a second
_WINDOW = 20  # refreshes of which the rate is the mean
_PERIOD = 10.0  # seconds between two lines where there is no terminal
_BAD_LINES = 10  # that are shown


class Progress:
    """Show how a run goes; use it in `with`.

    Args:
        tally: what the run counts.
        fraction: how much of the input has been read, or None if that is not known.
        quiet: show nothing but bad lines.
    """

    def __init__(self, tally: Tally, fraction: Callable[[], float | None], *, quiet: bool) -> None:
        self._tally = tally
        self._fraction = fraction
        self._quiet = quiet
        self._samples: deque[tuple[float, int]] = deque([(0.0, 0)], maxlen=_WINDOW)
        self._console: Console = console(stderr=True)
        self._live: Live | None = None
        self._next = time.monotonic() + _PERIOD
        self._bad_lines = 0

    def __enter__(self) -> Progress:
        if not self._quiet and sys.stderr.isatty():
            from rich.live import Live

            self._live = Live(
                get_renderable=self._text,
                console=self._console,
                refresh_per_second=_REFRESHES,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def tick(self) -> None:
        """Print a line if it is time, where there is no live one."""
        if self._live is None and not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PERIOD
            self._print(self.line())

    def tell_bad_line(self, number: int, problem: str) -> None:
        """Print that a line is no request; after some of them, no more.

        Args:
            number: of the line.
            problem: what is wrong with it.
        """
        self._bad_lines += 1
        if self._bad_lines <= _BAD_LINES:
            self._print(f"curlhttp: line {number}: {printable(problem)}")
        if self._bad_lines == _BAD_LINES:
            self._print("curlhttp: further bad lines are counted and recorded, but not shown")

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)

    def line(self) -> str:
        """Return the line as it is now, what matters most first."""
        tally, seconds = self._tally, self._tally.seconds
        since, done = self._samples[0]
        self._samples.append((seconds, tally.done))
        rate = (tally.done - done) / (seconds - since) if seconds > since else 0.0
        parts = [f"{tally.done:,} done", f"{rate:,.0f}/s"]
        fraction = self._fraction()
        if fraction:
            left = seconds * (1 - fraction) / fraction
            parts += [f"{fraction:.0%}", f"ETA {shown_duration(left)}"]
        if tally.errors:
            errors = shown_counts(tally.errors, 3)
            parts.append(f"{tally.errors.total():,} errors ({errors})")
        failed = {kind: count for kind, count in tally.statuses.items() if kind > "4"}
        parts += [f"{kind} {count:,}" for kind, count in sorted(failed.items())]
        return "  ".join(parts)

    def _text(self) -> Text:
        from rich.text import Text

        return Text(self.line(), no_wrap=True, overflow="ellipsis")


def shown_duration(seconds: float) -> str:
    """Return seconds as "1:02:03" or "2:03"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
