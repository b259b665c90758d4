"""The byte stream of `Client`: threads wait for the socket with poll(2), or select on Windows.

One thread receives, and any thread may write. An easy handle serves one thread at a time, so each
use of it holds a lock; no thread holds the lock while it waits. `as_socket` turns such a stream
into a Python socket.
"""

from __future__ import annotations

import math
import select
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any

from curlhttp._libcurl import pycurl
from curlhttp._libcurl.connection_state import shut_down
from curlhttp._libcurl.poller import SelectSockets, Wakeup
from curlhttp._libcurl.streams.stream import Stream, closed_error
from curlhttp._libcurl.transfer import Transfer

_select: Any = select  # Any: no platform has all of it
_READABLE = getattr(select, "POLLIN", 1)
_WRITABLE = getattr(select, "POLLOUT", 4)


class ThreadStream(Stream):
    """A connection for threads; its coroutines never suspend.

    Args:
        transfer: see Stream.
        release: see Stream; any thread may call it.
        drop: does the same in a finalizer.
    """

    def __init__(
        self,
        transfer: Transfer,
        release: Callable[[Transfer], object],
        drop: Callable[[Transfer], object],
    ) -> None:
        self._lock = threading.Lock()
        self._waiting = 0  # threads that wait for the socket, or are about to
        self._is_closed = False
        self._drop = drop
        self._wakeup = None if hasattr(select, "poll") else Wakeup()  # see WakeableSockets
        super().__init__(transfer, release)
        self._poll: Callable[[int | None], list[tuple[int, int]]] | None = None
        if self._wakeup is None:
            poll = _select.poll()
            poll.register(self.descriptor, _READABLE)
            self._poll = poll.poll

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end, None if there were none for so many seconds.

        Raises:
            RequestException: the connection broke, or was closed.
        """
        if self._may_be_ready or seconds == 0:
            data = self.receive_now()
            if data is not None or seconds == 0:
                return data
        end = None if seconds is None else monotonic() + seconds
        while True:
            is_ready = False
            self._begin_to_wait()
            try:
                is_ready = self._wait_until(_READABLE, end)
            finally:
                data = self._end_wait(receives=is_ready)
            if data is not None or not is_ready:
                return data

    _may_be_ready = True  # there may be bytes that poll does not report

    def receive_now(self) -> bytes | None:
        """Return what `receive` would, None if it would have to wait."""
        with self._lock:
            return self._receive_locked()

    def _receive_locked(self) -> bytes | None:
        data = Stream.receive_now(self)
        self._may_be_ready = data is not None and (self._holds_bytes or len(data) > _FEW)
        return data

    def write(self, data: bytes) -> bool:
        """Queue bytes to send, and send what can go out at once; see Stream."""
        with self._lock:
            return Stream.write(self, data)

    def unsent(self) -> int:
        """Return how many bytes were written and wait to be sent."""
        with self._lock:
            return super().unsent()

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until everything written is sent; return False if it was not in time.

        Raises:
            RequestException: the connection broke, or was closed.
        """
        if not self._unsent:
            return True
        end = None if seconds is None else monotonic() + seconds
        while True:
            self._begin_to_wait()
            try:
                if not self._wait_until(_WRITABLE, end):
                    return False
            finally:
                self._end_wait()
            with self._lock:
                self._push()
                if not self._unsent:
                    return True

    def _begin_to_wait(self) -> None:
        with self._lock:
            if self._error is not None:
                raise self._error
            self._waiting += 1

    def _wait_until(self, events: int, end: float | None) -> bool:
        """Wait for the socket, between `_begin_to_wait` and `_end_wait`; return if it is ready."""
        left = None if end is None else max(0.0, end - monotonic())
        if events == _READABLE and self._poll is not None:  # one thread at a time receives
            return bool(self._poll(None if left is None else math.ceil(left * 1000)))
        return _wait(self.descriptor, events, left, self._wakeup)

    def _end_wait(self, *, receives: bool = False) -> bytes | None:
        """End a wait, and release a connection that was closed meanwhile.

        Args:
            receives: receive what has arrived, and return it.

        Raises:
            RequestException: there is nothing to receive, because the connection broke or was
                closed.
        """
        is_over = False
        try:
            with self._lock:  # once for both, because every piece comes here
                self._waiting -= 1
                is_over = self._is_closed and not self._waiting
                return self._receive_locked() if receives else None
        finally:
            if is_over:
                self._release()

    def abort(self, error: BaseException | None = None) -> None:
        """Close the connection at once, from any thread; never blocks, may be called twice."""
        with self._lock:
            if self._transfer is None:
                return
            self._error = self._error or closed_error(error)
            self._is_closed = True
            is_waited_for = self._waiting > 0
            if is_waited_for:
                # It wakes the threads, and the last one closes the socket, because its number must
                # not be reused while a thread waits for it.
                shut_down(self.descriptor)
                if self._wakeup is not None:
                    self._wakeup.send()
        if not is_waited_for:
            self._release()

    def _after_fork_in_child(self) -> None:
        """Leave the connection to the parent."""
        self._lock = threading.Lock()  # a thread that does not exist here may hold the old one
        super()._after_fork_in_child()

    def __del__(self) -> None:
        transfer = getattr(self, "_transfer", None)  # missing if __init__ was interrupted
        if transfer is not None:
            self._drop(transfer)


_FEW = 32 * 1024  # bytes; after fewer there are probably no more


def _wait(descriptor: int, events: int, seconds: float | None, wakeup: Wakeup | None) -> bool:
    """Wait for a socket; return whether it is ready, or the thread was woken."""
    if wakeup is None:
        poll = _select.poll()
        poll.register(descriptor, events)
        return bool(poll.poll(None if seconds is None else math.ceil(seconds * 1000)))
    sockets = SelectSockets()
    sockets.watch(descriptor, pycurl.POLL_IN if events == _READABLE else pycurl.POLL_OUT)
    sockets.watch(wakeup.descriptor, pycurl.POLL_IN)
    return bool(sockets.poll(seconds))
