"""Count what a client has done since it was made, for its statistics.

Most counts are made where something rare happens. Attempts and received bytes are counted by each
transfer, which one thread uses at a time, and are added here when the transfer is closed.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import NamedTuple

from curlhttp._models.fork import register

NAMES = (
    "attempts",
    "retries",
    "hedges",
    "fallbacks",
    "bytes_sent",
    "bytes_received",
    "cache_hits",
    "cache_misses",
)


class Totals:
    """Counts by name; any thread may add to them."""

    __slots__ = ("__weakref__", "_counts", "_lock")

    def __init__(self) -> None:
        self._clear()
        register(self)

    def after_fork_in_child(self) -> None:
        """Start at zero, because the parent counts what it does itself."""
        self._clear()

    def _clear(self) -> None:
        # Reentrant, because a finalizer may close a transfer while its thread adds something.
        self._lock = threading.RLock()
        self._counts = dict.fromkeys(NAMES, 0)

    def add(self, name: str, number: int = 1) -> None:
        """Add to a count.

        Args:
            name: one of NAMES.
            number: to add.
        """
        with self._lock:
            self._counts[name] += number

    def read(self) -> dict[str, int]:
        """Return a copy of all counts."""
        with self._lock:
            return dict(self._counts)


class EngineState(NamedTuple):
    """What an engine tells of itself.

    Attributes:
        connections: numbers of open connections by origin, protocol and whether they are active.
        waits: seconds that each waiting request has waited.
        attempts: of the transfers that are not closed; likewise the others.
        bytes_sent: of request bodies.
        bytes_received: of response bodies.
    """

    connections: Counter[tuple[str, str, bool]]
    waits: list[float]
    attempts: int
    bytes_sent: int
    bytes_received: int
