"""Where records go: what all kinds of output have in common.

Records are kept in batches, each at once, so that whoever kills the process leaves whole ones.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

from curlhttp.cli.exits import CommandFailed
from curlhttp.cli.fetch.record import FetchRecord
from curlhttp.cli.fetch.recorded import Recorded

__all__ = ["Mode", "Output", "refuse"]

Mode = Literal["new", "resume", "overwrite"]
# A batch is kept with the record that gives it so many, so many bytes of bodies, or seconds.
_RECORDS = 500
_BYTES = 8 * 1024 * 1024
_SECONDS = 1.0


class Output:
    """Collect records and keep them in batches.

    Args:
        keeps_bodies: bodies are kept as well.

    Attributes:
        recorded: what was there before, by line.
    """

    def __init__(self, *, keeps_bodies: bool) -> None:
        self.keeps_bodies = keeps_bodies
        self.recorded: Recorded = Recorded()
        self._batch: list[FetchRecord] = []
        self._bytes = 0
        self._due = 0.0

    def add(self, record: FetchRecord) -> None:
        """Take a record; keep the batch if it is time.

        Args:
            record: complete; its body is not changed, but may be dropped.
        """
        now = time.monotonic()
        if not self._batch:
            self._due = now + _SECONDS
        if not self.keeps_bodies:
            record.body = None
        self._batch.append(record)
        self._bytes += len(record.body or b"")
        if len(self._batch) >= _RECORDS or self._bytes >= _BYTES or now >= self._due:
            self.flush()

    def flush(self) -> None:
        """Keep what was collected.

        Raises:
            CommandFailed: it cannot be written; what was kept before is whole.
        """
        batch, self._batch, self._bytes = self._batch, [], 0
        if batch:
            self._keep(batch)

    def close(self) -> None:
        """Keep what was collected, and let go of files."""
        try:
            self.flush()
        finally:
            self._close()

    def _keep(self, batch: list[FetchRecord]) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


def refuse(path: Path) -> CommandFailed:
    """Return the error for an output that is there already."""
    return CommandFailed(
        f"{path} is there already: go on with --resume, or replace it: --overwrite", 2
    )
