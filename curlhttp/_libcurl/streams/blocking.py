"""The byte stream of `Client`: threads wait for the socket with poll(2), or select on Windows.

One thread receives, and any thread may write. An easy handle serves one thread at a time, so each
use of it holds a lock; no thread holds the lock while it waits. `as_socket` turns such a stream
into a Python socket.
"""

from __future__ import annotations

import errno
import math
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from curlhttp._http.exiting import start_thread
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.connection_state import shut_down
from curlhttp._libcurl.poller import SelectSockets, Wakeup
from curlhttp._libcurl.streams.stream import Stream, closed_error
from curlhttp._libcurl.transfer import Transfer
from curlhttp._runtime.engine import ByteStream
from curlhttp._runtime.run import run_sync
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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


# --- A byte stream as a Python socket, for code that reads and writes on one ---
#
# Without TLS that is a duplicate of the connection's socket. With TLS libcurl has to see all bytes,
# so it is one end of a socket pair, and two threads copy the bytes between the other end and the
# connection, beginning with the bytes that were received already. Waiting for it (select, poll),
# timeouts and half-closing work as on any socket.

T = TypeVar("T", bytes, int)

_PIECE = 64 * 1024  # bytes
_CLOSE_TIMEOUT = 5.0  # seconds in which a peer must accept what was written before the close


class SocketStream(ByteStream, Protocol):
    """A byte stream of the blocking engine."""

    @property
    def descriptor(self) -> int:
        """Return the underlying socket, -1 once it is closed."""

    @property
    def is_plain(self) -> bool:
        """Return whether the bytes pass that socket unchanged, without TLS."""


def as_socket(stream: SocketStream, ahead: bytes = b"") -> socket.socket:
    """Return a socket that replaces a stream; closing it closes the connection.

    Args:
        stream: nobody else uses it any more.
        ahead: bytes that were already received, to be read first.

    Raises:
        OSError: no descriptor is left.
    """
    if stream.is_plain and not ahead:
        return _PlainSocket(stream)
    near, far = socket.socketpair()
    return _CallerSocket(near, _Pump(stream, far, ahead))


class _PlainSocket(socket.socket):
    """The connection's own socket."""

    def __init__(self, stream: SocketStream) -> None:
        super().__init__(fileno=socket.dup(stream.descriptor))
        self._stream: SocketStream | None = stream

    def _real_close(self, *args: object) -> None:
        super()._real_close(*args)  # type: ignore[misc]
        # A finalizer may come here in any thread, so this does not call abort(), which takes a
        # lock. The stream's finalizer takes none.
        self._stream = None

    def __del__(self) -> None:
        self._real_close()


class _CallerSocket(socket.socket):
    """The caller's end of a socket pair."""

    def __init__(self, pair: socket.socket, pump: _Pump) -> None:
        self._pump = pump  # first, because the finalizer needs it
        super().__init__(fileno=pair.detach())
        pump.start()

    def _real_close(self, *args: object) -> None:
        self._pump.closed.put(None)  # first, so that the pump knows why there is no more to read
        super()._real_close(*args)  # type: ignore[misc]

    def __del__(self) -> None:
        self._real_close()

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        return self._unless_broken(super().recv(bufsize, flags), bufsize)

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        return self._unless_broken(super().recv_into(buffer, nbytes, flags), 1)

    def _unless_broken(self, received: T, wanted: int) -> T:
        error = self._pump.broken
        if not received and wanted and error is not None:
            raise ConnectionResetError(errno.ECONNRESET, str(error)) from error
        return received

    def getpeername(self) -> tuple[str, int] | None:
        return self._pump.stream.timings().peer

    def getsockname(self) -> tuple[str, int] | None:
        return self._pump.stream.timings().local


class _Pump:
    """Two threads that copy bytes between one end of a pair and a stream until both are closed.

    Args:
        stream: is closed when the caller has closed its end.
        far: the other end of the caller's pair.
        ahead: bytes to deliver before those that are received.

    Attributes:
        closed: gets an item when the caller's end is closed.
        broken: the exception of the stream, or None.
    """

    def __init__(self, stream: SocketStream, far: socket.socket, ahead: bytes) -> None:
        self.stream = stream
        self.closed: SimpleQueue[None] = SimpleQueue()  # finalizers may put into it
        self.broken: RequestException | None = None
        self._far = far
        self._ahead = ahead

    def start(self) -> None:
        """Start the threads."""
        self._reader = self._thread(self._pump_in)
        self._thread(self._pump_out)

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        return start_thread(work, "curlhttp-upgraded")

    def _pump_in(self) -> None:
        far = self._far
        with suppress(OSError):  # the caller's end is closed, or about to be
            try:
                far.sendall(self._ahead)
                while piece := run_sync(self.stream.receive):
                    far.sendall(piece)
            except RequestException as error:
                self.broken = error
            far.shutdown(socket.SHUT_WR)

    def _pump_out(self) -> None:
        far, stream = self._far, self.stream
        try:
            while piece := far.recv(_PIECE):
                stream.write(piece)
                self._drain()
            if self.closed.empty():
                _end_writing(stream.descriptor)
        except (RequestException, OSError):
            with suppress(OSError):
                far.shutdown(socket.SHUT_RD)
        self.closed.get()
        stream.abort()
        self._reader.join()  # otherwise the number may be reused while that thread sends
        far.close()

    def _drain(self) -> None:
        """Wait until the peer has accepted what was written; with a timeout after the close."""
        while not run_sync(partial(self.stream.drain, _CLOSE_TIMEOUT)):
            if not self.closed.empty():
                raise TimeoutError


def _end_writing(descriptor: int) -> None:
    """End this direction like SSLSocket.shutdown: only in TCP, without a TLS alert."""
    with socket.socket(fileno=socket.dup(descriptor)) as twin:
        twin.shutdown(socket.SHUT_WR)
