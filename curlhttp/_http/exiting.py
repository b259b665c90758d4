"""Fail at once while Python exits. libcurl's callbacks do not run any more, and no thread starts.

Only finalizers still run then. Functions registered with atexit run earlier, and may send.
"""

from __future__ import annotations

import _thread
import sys
import threading
from collections.abc import Callable
from sys import is_finalizing

from curlhttp.exceptions import ClientClosed, ConnectionError


def exit_error() -> ClientClosed:
    """Return the error for a request that a finalizer sends while Python exits."""
    return ClientClosed(
        "Python is exiting, so no request can be sent; send it before, such as in a function that "
        "is registered with atexit"
    )


def check_running() -> None:
    """Raise ClientClosed if Python is exiting."""
    if is_finalizing():
        raise exit_error()


def start_thread(work: Callable[[], object], name: str) -> threading.Thread:
    """Start a daemon thread, with which Python can exit.

    Args:
        work: what the thread calls.
        name: its name.

    Raises:
        ConnectionError: there are too many threads, or Python is exiting. From Python 3.12 on, it
            also starts none for a function that is registered with atexit.
    """
    thread = threading.Thread(target=work, daemon=True, name=name)
    try:
        if is_finalizing():  # up to Python 3.11, start() would wait forever
            raise RuntimeError("Python is exiting")
        thread.start()
    except RuntimeError as error:
        raise thread_error(error) from error
    return thread


def start_native_thread(work: Callable[[], object]) -> None:
    """Start a thread of the system, for which Python does not wait.

    It is a real one, even where gevent replaces threads by greenlets.

    Args:
        work: what the thread calls; it raises nothing.

    Raises:
        ConnectionError: see start_thread.
    """
    gevent = sys.modules.get("gevent.monkey")
    start = _thread.start_new_thread
    if gevent is not None:
        start = gevent.get_original("_thread", "start_new_thread")
    try:
        if is_finalizing():
            raise RuntimeError("Python is exiting")
        start(work, ())
    except RuntimeError as error:
        raise thread_error(error) from error


def thread_error(error: RuntimeError) -> ConnectionError:
    """Return the error for a thread that could not start.

    Args:
        error: says why.
    """
    failure = ConnectionError(f"a thread that is needed could not start: {error}")
    failure.is_local = True
    return failure
