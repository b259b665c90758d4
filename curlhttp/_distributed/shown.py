"""How a fetch goes, on stderr: rich's bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curlhttp._distributed.summary import FetchSummary

__all__ = ["Tell", "showing"]

_PERIOD = 10.0  # seconds between two lines

Tell = Callable[["FetchSummary"], None]


@contextmanager
def showing(total: int | None, *, quiet: bool) -> Iterator[Tell]:
    """Show how a fetch goes, and give the function that is told of it.

    Args:
        total: rows of the input, or None if that is not known.
        quiet: show nothing.
    """
    if quiet:
        yield lambda summary: None
        return
    if sys.stderr.isatty():
        try:
            import rich.progress as rich
            from rich.console import Console
        except ImportError:
            pass
        else:
            columns = (
                rich.BarColumn(),
                rich.TextColumn("{task.fields[line]}", markup=False),
                rich.TimeElapsedColumn(),
                rich.TimeRemainingColumn(),
            )
            with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task("", total=total, line="")
                yield lambda summary: bar.update(
                    task, completed=summary.rows, line=_line(summary, total)
                )
            return
    due = time.monotonic() + _PERIOD

    def tell(summary: FetchSummary) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _PERIOD
            sys.stderr.write(f"{_line(summary, total)}\n")

    yield tell


def _line(summary: FetchSummary, total: int | None) -> str:
    rows = f"{summary.rows:,}" if total is None else f"{summary.rows:,} of {total:,}"
    errors = summary.errors.total()
    failed = f", {errors:,} errors" if errors else ""
    return f"{rows} rows in {summary.parts:,} parts{failed}"
