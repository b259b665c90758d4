"""Progress of a benchmark: a bar on a terminal, otherwise a line for each step."""

from __future__ import annotations

import sys
import time
from types import TracebackType

__all__ = ["Progress"]

_WIDTH = 24  # characters


class Progress:
    """A bar on standard error; if this is not a terminal, a line whenever the text changes.

    Args:
        title: start of the line.
    """

    def __init__(self, title: str) -> None:
        self._title, self._text, self._started = title, "", time.monotonic()
        self._is_drawn = sys.stderr.isatty()

    def show(self, text: str, done: int, total: int) -> None:
        """Show the current step, and how much is done."""
        if self._is_drawn:
            bar = "#" * (_WIDTH * done // max(1, total))
            seconds = time.monotonic() - self._started
            line = f"{self._title} [{bar:{_WIDTH}}] {seconds:4.0f} s  {text}"
            print(f"\r{line[:100]}\x1b[K", end="", file=sys.stderr, flush=True)
        elif text != self._text:
            print(f"{self._title}: {text}", file=sys.stderr)
        self._text = text

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_drawn and self._text:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
