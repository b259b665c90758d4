"""A byte stream as a Python socket, for code that reads and writes on one.

Without TLS that is a duplicate of the connection's socket. With TLS libcurl has to see all bytes,
so it is one end of a socket pair, and two threads copy the bytes between the other end and the
connection, beginning with the bytes that were received already. Waiting for it (select, poll),
timeouts and half-closing work as on any socket.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar

from curlhttp._http.exiting import start_thread
from curlhttp._runtime.engine import ByteStream
from curlhttp._runtime.run import run_sync
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

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
