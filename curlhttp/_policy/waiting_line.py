"""What the limits have in common that a client puts on itself: requests at once, and per second.

They read no clock and wait for nothing: a request that has to wait gets a place in a line, whose
`wake` tells it when to go on: in any thread, and never with a lock held. Lines are FIFO; a request
that leaves one, even in a finalizer, holds up none behind it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar

from curlhttp._fork import register

__all__ = ["Limit", "Per", "Wake"]

Per: TypeAlias = "Literal['origin'] | None"
Wake: TypeAlias = Callable[[], object]
Place = TypeVar("Place")


class Limit(Generic[Place]):
    """Keep a key, and a lock that finalizers need not wait for.

    Args:
        per: "origin" for each origin by itself, None for all together.
    """

    def __init__(self, per: Per) -> None:
        if per not in ("origin", None):
            raise ValueError(f"per must be 'origin', or None for all together, not {per!r}")
        self.per = per
        self._clear()
        register(self)

    def after_fork_in_child(self) -> None:
        """Forget what the parent counted, whose lock may be held by a thread of its own."""
        self._clear()

    def _clear(self) -> None:
        self._lock = threading.Lock()
        self._leavers: deque[Place] = deque()

    def _key(self, origin: str) -> str:
        return origin if self.per else ""

    def _leave(self, place: Place) -> None:
        # A finalizer may run while this very thread has the lock.
        self._leavers.append(place)
        self._release_leavers()

    def _release_leavers(self) -> None:
        """Remove the places that are left; if a thread has the lock, it does so afterwards."""
        while self._leavers and self._lock.acquire(blocking=False):
            wakes: list[Wake] = []
            try:
                while self._leavers:
                    self._remove(self._leavers.popleft(), wakes)
            finally:
                self._lock.release()
            for wake in wakes:
                wake()

    def _remove(self, place: Place, wakes: list[Wake]) -> None:
        """Remove a place, and add to `wakes` what that wakes."""
        raise NotImplementedError
