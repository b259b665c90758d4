"""A byte stream as a socket of Python's, for code that reads and writes on one.

Without TLS that is the connection's socket, under a number of its own. With TLS libcurl has to see
all bytes: so it is one end of a pair, and two threads carry the bytes between the other end and
the connection. So are those that were received already. Waiting for it (select, poll), timeouts
and half-closing work as on any socket.
"""

from __future__ import annotations

import errno
import socket
import threading
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol, TypeVar

from curlhttp._engine.engine import ByteStream
from curlhttp._engine.run import run_sync
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import WriteableBuffer

__all__ = ["SocketStream", "as_socket"]

T = TypeVar("T", bytes, int)

_PIECE = 64 * 1024  # bytes
_PATIENCE = 5.0  # seconds that a peer may take nothing, of what was written before the close


class SocketStream(ByteStream, Protocol):
    """A byte stream of the blocking engine's."""

    @property
    def descriptor(self) -> int:
        """Return the socket below, -1 once it is closed."""

    @property
    def is_plain(self) -> bool:
        """Return whether the bytes pass that socket as they are: there is no TLS."""


def as_socket(stream: SocketStream, ahead: bytes = b"") -> socket.socket:
    """Return a socket that stands for a stream from now on; closing it closes the connection.

    Args:
        stream: nobody else uses it any more.
        ahead: what was received already, to be read first.

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
        # A response that is collected comes here, in whatever thread: the stream's finalizer waits
        # for no lock, as abort() would.
        self._stream = None

    def __del__(self) -> None:
        self._real_close()


class _CallerSocket(socket.socket):
    """The end of a pair that the caller has."""

    def __init__(self, pair: socket.socket, carrier: _Pump) -> None:
        self._carrier = carrier  # first what the finalizer needs
        super().__init__(fileno=pair.detach())
        carrier.start()

    def _real_close(self, *args: object) -> None:
        self._carrier.closed.put(None)  # first: then it is known why there is no more to read
        super()._real_close(*args)  # type: ignore[misc]

    def __del__(self) -> None:
        self._real_close()

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        return self._unless_broken(super().recv(bufsize, flags), bufsize)

    def recv_into(self, buffer: WriteableBuffer, nbytes: int = 0, flags: int = 0) -> int:
        return self._unless_broken(super().recv_into(buffer, nbytes, flags), 1)

    def _unless_broken(self, received: T, wanted: int) -> T:
        error = self._carrier.broken
        if not received and wanted and error is not None:
            raise ConnectionResetError(errno.ECONNRESET, str(error)) from error
        return received

    def getpeername(self) -> tuple[str, int] | None:
        return self._carrier.stream.timings().peer

    def getsockname(self) -> tuple[str, int] | None:
        return self._carrier.stream.timings().local


class _Pump:
    """Two threads that carry bytes between one end of a pair and a stream, until both are closed.

    Args:
        stream: is closed when the caller has closed its end.
        far: the end of the pair that the caller does not have.
        ahead: comes before what is received.

    Attributes:
        closed: gets an item when the caller's end is closed.
        broken: what the stream broke with, or None.
    """

    def __init__(self, stream: SocketStream, far: socket.socket, ahead: bytes) -> None:
        self.stream = stream
        self.closed: SimpleQueue[None] = SimpleQueue()  # finalizers may put into it
        self.broken: RequestException | None = None
        self._far = far
        self._ahead = ahead

    def start(self) -> None:
        """Begin to carry."""
        self._reader = self._thread(self._carry_in)
        self._thread(self._carry_out)

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        # Daemons: a program may end without closing its sockets.
        thread = threading.Thread(target=work, name="curlhttp-upgraded", daemon=True)
        thread.start()
        return thread

    def _carry_in(self) -> None:
        far = self._far
        with suppress(OSError):  # the caller's end is closed, or about to be
            try:
                far.sendall(self._ahead)
                while piece := run_sync(self.stream.receive):
                    far.sendall(piece)
            except RequestException as error:
                self.broken = error
            far.shutdown(socket.SHUT_WR)

    def _carry_out(self) -> None:
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
        self._reader.join()  # else the number of the socket may be another one's while it sends
        far.close()

    def _drain(self) -> None:
        """Wait until the peer has taken what was written; not for ever once nobody else does."""
        while not run_sync(partial(self.stream.drain, _PATIENCE)):
            if not self.closed.empty():
                raise TimeoutError


def _end_writing(descriptor: int) -> None:
    """Send the end of this direction, as SSLSocket.shutdown does: by TCP alone."""
    with socket.socket(fileno=socket.dup(descriptor)) as twin:
        twin.shutdown(socket.SHUT_WR)
