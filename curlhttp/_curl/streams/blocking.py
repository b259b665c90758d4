"""The byte stream of the blocking client: threads wait for the socket themselves, with poll(2).

One thread receives, any may write. An easy handle serves one thread at a time, so that each look
at it is under a lock; no thread holds that while it waits.
"""

from __future__ import annotations

import math
import select
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from curlhttp._curl.connections import shut_down
from curlhttp._curl.streams.stream import Stream, given_up
from curlhttp._curl.transfer import Transfer

__all__ = ["ThreadStream"]


_select: Any = select  # Any: no platform has all of it
_READABLE = getattr(select, "POLLIN", 1)
_WRITABLE = getattr(select, "POLLOUT", 4)


class ThreadStream(Stream):
    """A connection for threads; its coroutines never suspend.

    Args:
        transfer: see Stream.
        let_go: see Stream; any thread may call it.
        drop: does the same in a finalizer.
    """

    def __init__(
        self,
        transfer: Transfer,
        let_go: Callable[[Transfer], object],
        drop: Callable[[Transfer], object],
    ) -> None:
        self._lock = threading.Lock()
        self._waiting = 0  # threads that wait for the socket, or are about to
        self._is_given_up = False
        self._drop = drop
        super().__init__(transfer, let_go)

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end, None when there were none for so many seconds.

        Raises:
            RequestException: the connection broke, or was given up.
        """
        if self._may_be_ready or seconds == 0:
            data = self.receive_now()
            if data is not None or seconds == 0:
                return data
        end = None if seconds is None else monotonic() + seconds
        while self._wait(_READABLE, end):
            data = self.receive_now()
            if data is not None:
                return data
        return None

    _may_be_ready = True  # there may be bytes of which poll does not tell, or more than were taken

    def receive_now(self) -> bytes | None:
        """Return what `receive` would, None where it would have to wait."""
        with self._lock:
            data = super().receive_now()
        self._may_be_ready = data is not None and (self._holds_bytes or len(data) > _FEW)
        return data

    def write(self, data: bytes) -> None:
        """Take bytes, to be sent after those before, and send what goes out at once; never waits.

        Raises:
            RequestException: the connection broke, or was given up.
        """
        with self._lock:
            super().write(data)

    def unsent(self) -> int:
        """Return how many bytes were written and wait to be sent."""
        with self._lock:
            return super().unsent()

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until all that was written is sent; return False if it was not in time.

        Raises:
            RequestException: the connection broke, or was given up.
        """
        if not self._unsent:
            return True
        end = None if seconds is None else monotonic() + seconds
        while self._wait(_WRITABLE, end):
            with self._lock:
                self._push()
                if not self._unsent:
                    return True
        return False

    def _wait(self, events: int, end: float | None) -> bool:
        """Wait for the socket; return whether there is something to look at."""
        with self._lock:
            if self._error is not None:
                raise self._error
            self._waiting += 1
        try:
            left = None if end is None else max(0.0, end - monotonic())
            return _wait(self.descriptor, events, left)
        finally:
            with self._lock:
                self._waiting -= 1
                is_over = self._is_given_up and not self._waiting
            if is_over:
                self._release()

    def abort(self, error: BaseException | None = None) -> None:
        """End the connection at once, from any thread; never waits, may be called twice."""
        with self._lock:
            if self._transfer is None:
                return
            self._error = self._error or given_up(error)
            self._is_given_up = True
            is_waited_for = self._waiting > 0
            if is_waited_for:
                # Wakes the threads; the last of them closes the socket: its number must not be
                # another one's while a thread waits for it.
                shut_down(self.descriptor)
        if not is_waited_for:
            self._release()

    def after_fork_in_child(self) -> None:
        """Leave the connection to the parent."""
        self._lock = threading.Lock()  # a thread that is not here may have had the other one
        super().after_fork_in_child()

    def __del__(self) -> None:
        transfer = getattr(self, "_transfer", None)  # not there when __init__ was interrupted
        if transfer is not None:
            self._drop(transfer)


_FEW = 32 * 1024  # bytes: after fewer there are probably no more


def _wait(descriptor: int, events: int, seconds: float | None) -> bool:
    """Wait for a socket, in the thread; return whether there is something to look at."""
    if hasattr(select, "poll"):
        poll = _select.poll()
        poll.register(descriptor, events)
        return bool(poll.poll(None if seconds is None else math.ceil(seconds * 1000)))
    sockets = [descriptor]
    readers, writers = (sockets, []) if events == _READABLE else ([], sockets)
    return any(_select.select(readers, writers, [], seconds))
