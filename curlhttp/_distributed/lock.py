"""One driver at a time on a folder.

Here that is a lock of the system's, which ends with the process. Where files are objects there is
none: a driver keeps manifest/driver.json young, and another one waits until that is old.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from curlhttp._distributed.folders import OutFolder
from curlhttp._download.file_lock import lock_file

__all__ = ["only_driver"]

_NAME = "manifest/driver.json"
_PERIOD = 15.0  # seconds between two signs of life
_OLD = 60.0  # seconds without one, after which a driver counts as dead


@contextmanager
def only_driver(folder: OutFolder) -> Iterator[None]:
    """Keep other drivers out of a folder.

    Args:
        folder: of the fetch.

    Raises:
        BlockingIOError: another one is at work there.
    """
    path = folder.path("manifest/lock")
    if folder.is_remote:
        with _sign_of_life(folder):
            yield
        return
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            lock_file(descriptor)
        except BlockingIOError:
            raise _busy(folder, "") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _sign_of_life(folder: OutFolder) -> Iterator[None]:
    seconds = _since_last_sign(folder)
    if seconds < _OLD:
        raise _busy(folder, f"; its last sign of life came {seconds:.0f} s ago, of {_OLD:g}")
    ended = threading.Event()

    def keep_young() -> None:
        while not ended.wait(_PERIOD):
            with suppress(OSError):  # the next one may succeed
                _give_sign(folder)

    _give_sign(folder)
    thread = threading.Thread(target=keep_young, name="curlhttp-driver", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        folder.remove(_NAME)


def _give_sign(folder: OutFolder) -> None:
    with folder.writing(_NAME) as stream:
        stream.write(json.dumps({"time": time.time()}).encode())


def _since_last_sign(folder: OutFolder) -> float:
    text = folder.read(_NAME)
    try:
        return _OLD if text is None else max(0.0, time.time() - json.loads(text)["time"])
    except (ValueError, KeyError, TypeError):
        return _OLD


def _busy(folder: OutFolder, why: str) -> BlockingIOError:
    return BlockingIOError(f"another driver is fetching to {folder.path('')}{why}")
