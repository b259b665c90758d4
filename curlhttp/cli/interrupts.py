"""Ctrl-C, but not between the halves of a write."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import NoReturn

__all__ = ["Interrupts"]


class Interrupts:
    """Turn SIGINT into KeyboardInterrupt, except inside of `with interrupts`, where it waits.

    Such blocks may be nested. Only the main thread can be interrupted; elsewhere this does nothing.
    """

    def __init__(self) -> None:
        self._held = 0
        self._is_pending = False
        self._previous: signal._HANDLER = None

    def listen(self) -> None:
        """Begin to handle SIGINT."""
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)

    def restore(self) -> None:
        """Handle SIGINT as before."""
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._is_pending = True
        if not self._held:
            self._raise()

    def _raise(self) -> NoReturn:
        self._is_pending = False
        raise KeyboardInterrupt

    def __enter__(self) -> None:
        self._held += 1

    def __exit__(self, kind: object, *_: object) -> None:
        self._held -= 1
        if self._is_pending and not self._held and kind is None:
            self._raise()
