"""A progress bar for downloads and uploads, drawn by rich: pip install 'curlhttp[cli]'.

with curlhttp.progress.bar("backup.tar") as bar:
    client.download(url, "backup.tar", progress=bar)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from curlhttp._http.inputs import Progress

__all__ = ["bar"]


@contextmanager
def bar(description: str = "", *, console: Console | None = None) -> Iterator[Progress]:
    """Show a bar with size, speed and remaining time, and return the function for `progress=`.

    Args:
        description: the text in front of the bar.
        console: a rich Console, or None for stderr.

    Raises:
        ImportError: rich is not installed.
    """
    try:
        from rich import progress as rich
        from rich.console import Console
    except ImportError as error:
        raise ImportError("the progress bar needs rich: pip install 'curlhttp[cli]'") from error
    columns = (
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(),
        rich.DownloadColumn(),
        rich.TransferSpeedColumn(),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console or Console(stderr=True)) as shown:
        task = shown.add_task(description, total=None)

        def update(done: int, total: int | None) -> None:
            shown.update(task, completed=done, total=total)

        yield update
