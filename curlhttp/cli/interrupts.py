"""Ctrl-C, but neither between the halves of a write nor where libcurl would swallow it.

libcurl calls back into Python, and what is raised there before the callee can catch it is lost and
breaks the transfers. Where that could be, SIGINT is put off by some milliseconds.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, NoReturn

__all__ = ["Interrupts"]

_CURL = "curlhttp._curl."
_WAIT = ("curlhttp._curl.readiness", "poll")  # where the engine waits: no callback is under way
_AGAIN = 0.02  # seconds
_HAS_TIMERS = hasattr(signal, "setitimer")  # not on Windows


class Interrupts:
    """Turn SIGINT into KeyboardInterrupt, except inside of `with interrupts`, where it waits.

    Such blocks may be nested. Only the main thread can be interrupted; elsewhere this does nothing.
    """

    def __init__(self) -> None:
        self._held = 0
        self._is_pending = False
        self._previous: dict[int, Any] = {}

    def listen(self) -> None:
        """Begin to handle SIGINT, and SIGALRM, by which it is put off."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, *([signal.SIGALRM] if _HAS_TIMERS else [])):
                self._previous[number] = signal.signal(number, self._handle)

    def restore(self) -> None:
        """Have the signals handled as before."""
        self._put_off(0)
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._is_pending = self._is_pending or number == signal.SIGINT
        if not self._is_pending or self._held:
            return
        if _may_raise(frame) or not _HAS_TIMERS:
            self._raise()
        self._put_off(_AGAIN)

    def _put_off(self, seconds: float) -> None:
        if _HAS_TIMERS and self._previous:
            signal.setitimer(signal.ITIMER_REAL, seconds)

    def _raise(self) -> NoReturn:
        self._is_pending = False
        self._put_off(0)
        raise KeyboardInterrupt

    def __enter__(self) -> None:
        self._held += 1

    def __exit__(self, kind: object, *_: object) -> None:
        self._held -= 1
        if self._is_pending and not self._held and kind is None:
            self._raise()


def _may_raise(frame: FrameType | None) -> bool:
    """Tell whether no callback of libcurl can be under way in a frame."""
    if frame is not None and (frame.f_globals.get("__name__"), frame.f_code.co_name) == _WAIT:
        return True
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith(_CURL):
            return False
        frame = frame.f_back
    return True
