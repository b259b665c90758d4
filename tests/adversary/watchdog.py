"""End the process if something takes longer than all of its time limits together.

It writes what hung and where all threads are: nothing else could, of a call that never returns.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

HUNG = 3  # the exit status
_STATE = ("done", "code", "failed", "sends", "wake", "paused", "starving", "lines", "restarts")


def _waiting() -> Iterator[str]:
    """Give what all tasks of asyncio wait for, and the state of all transfers running."""
    for thing in gc.get_objects():
        if isinstance(thing, asyncio.Task) and not thing.done():
            awaited: Any = thing.get_coro()
            while (frame := getattr(awaited, "cr_frame", None)) is not None:
                yield f"{thing.get_name()}: {frame.f_code.co_filename}:{frame.f_lineno}"
                awaited = awaited.cr_await
        elif type(thing).__name__ == "Transfer" and thing.request is not None:
            state = {name: getattr(thing, name, None) for name in _STATE}
            yield f"{thing.request} attached={thing.attached is not None} {state}"


class Watchdog:
    """Watch what is running, from its own thread.

    Args:
        seconds: far more than all time limits of one item together.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._file = sys.stderr  # what sys.stderr is later may be a test's, without a descriptor
        self._under_way: dict[object, tuple[float, str]] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    @contextmanager
    def watching(self, what: str) -> Iterator[None]:
        """Watch the block: what it does, in words."""
        key = object()
        with self._lock:
            self._under_way[key] = (time.monotonic(), what)
        try:
            yield
        finally:
            with self._lock:
                del self._under_way[key]

    def _watch(self) -> None:
        while not self._ended.wait(min(5.0, self._seconds / 4)):
            # In case that nothing of Python's runs any more, this thread included.
            faulthandler.dump_traceback_later(self._seconds + 30.0, exit=True, file=self._file)
            now = time.monotonic()
            with self._lock:
                late = [
                    what for begun, what in self._under_way.values() if now - begun > self._seconds
                ]
            if late:
                self._bark(late)

    def _bark(self, late: list[str]) -> None:
        print(f"\n=== hangs for more than {self._seconds} s", *late, sep="\n", file=self._file)
        faulthandler.dump_traceback(self._file, all_threads=True)
        for line in _waiting():
            print(line, file=self._file)
        self._file.flush()
        os._exit(HUNG)

    def __enter__(self) -> Watchdog:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        faulthandler.cancel_dump_traceback_later()
