"""Where one thread waits until another one lets it go on."""

from __future__ import annotations

import threading
from contextlib import suppress

__all__ = ["ThreadGate"]


class ThreadGate:
    """Something that one thread waits at until it is opened, from any.

    No threading.Event: a finalizer that opens one in the thread that waits for it would wait for
    itself, and of Ctrl-C in its wait it may make a RuntimeError.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """Let the thread go on; never waits, may be called twice."""
        with suppress(RuntimeError):  # it was open
            self._lock.release()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until it is open, or for so long."""
        self.pass_within(seconds)

    def pass_within(self, seconds: float | None = None) -> bool:
        """Wait as `wait` does, without a coroutine; return whether the gate was opened."""
        return self._lock.acquire(
            timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX)
        )
