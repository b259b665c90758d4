"""Streamed requests with an `Upgrade` header: the caller speaks the other protocol.

The connection is a socket below `response.raw`, where urllib3 has it. http.client reads a response
in HTTP from that socket, because code that uses it expects http.client.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.client import HTTPException, HTTPResponse, IncompleteRead
from io import BufferedReader, BytesIO
from socket import SHUT_RDWR, SocketIO
from typing import TYPE_CHECKING, Any, NoReturn, cast

from curlhttp._features.upgrade import send_upgrade
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Engine, to_connector
from curlhttp._runtime.run import run_sync
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ConnectionError,
    DeadlineExceeded,
    ReadTimeout,
    RemoteProtocolError,
    RequestException,
)
from curlhttp.requests._original_response import Body
from curlhttp.requests._upgraded_socket import SocketStream, as_socket

if TYPE_CHECKING:
    import socket

    from _typeshed import WriteableBuffer

    from curlhttp._features.upgrade import Reply
    from curlhttp._http.request import ClientRequest

_PIECE = 64 * 1024  # bytes
_CLOSED = "this response was closed while it was read"


def open_upgrade(engine: Engine, request: ClientRequest) -> UpgradeResponse:
    """Send a request on a new connection, and return the response with its socket.

    Args:
        engine: opens connections.
        request: complete; its body, if any, is in memory.

    Raises:
        RequestException: no response was received.
    """
    reply = run_sync(partial(send_upgrade, to_connector(engine), request, engine.runtime.now))
    sock = None
    try:
        sock = as_socket(cast("SocketStream", reply.stream), reply.rest)
        sock.settimeout(request.timeout.read)
        return UpgradeResponse(request, reply, sock, engine.runtime.now)
    except BaseException as error:
        if sock is not None:
            sock.close()  # the error's traceback would keep the socket and its threads
        reply.stream.abort()
        if type(error) is OSError:
            raise ConnectionError(f"{request}: {error.strerror}", request=request) from error
        raise


class UpgradeResponse(Response):
    """The response to a request for another protocol, whether 101 or not.

    Attributes:
        sock: the connection.
        file: the body, as http.client's response; after a 101 it is empty.
    """

    def __init__(
        self, request: ClientRequest, reply: Reply, sock: socket.socket, now: Callable[[], float]
    ) -> None:
        super().__init__(request, reply.head, None, reply.stream.timings())
        self.sock = sock
        self.file = _SocketBody(request, reply, sock, now)

    @property
    def is_closed(self) -> bool:
        """Return whether the body was read to its end or discarded."""
        return self.file.isclosed()

    def close(self) -> None:
        """Close the connection."""
        self.file.close()

    async def discard(self) -> None:
        """Discard the body."""
        self.close()


class _SocketBody(HTTPResponse, Body):
    """The body on a socket, which is closed at its end; errors are urllib3's."""

    _received: _BodySocket | None = None

    def __init__(
        self, request: ClientRequest, reply: Reply, sock: socket.socket, now: Callable[[], float]
    ) -> None:
        super().__init__(cast("Any", _HeadSocket(reply.head.block)), method=request.method)
        self._request = request
        try:
            self.begin()
        except HTTPException as error:
            raise RemoteProtocolError(f"{request}: {error}", request_sent=True) from error
        if not self.chunked:
            self.length = reply.length()
        self._received = _BodySocket(sock, None if reply.has_switched else request, now)
        self.fp = cast("Any", BufferedReader(self._received))
        sock.close()  # takes effect when the file is closed

    @property
    def closed(self) -> bool:  # type: ignore[override]
        """Return whether the body was read to its end or discarded."""
        return self.isclosed()

    def close(self) -> None:
        """Close the connection, from any thread; a concurrent read raises."""
        if self._received is not None:
            self._received.interrupt()
        super().close()

    def read(self, amt: int | None = None) -> bytes:
        """Return the next amt bytes, fewer at the end; all of them for None."""
        body, left = BytesIO(), math.inf if amt is None or amt < 0 else amt
        while left > 0:
            # In pieces, because a server may announce more than fits in memory.
            wanted = int(min(left, _PIECE))
            piece = self._read(super().read, wanted)
            body.write(piece)
            left -= len(piece)
            if not piece or (left < math.inf and len(piece) < wanted):
                break
        return body.getvalue()

    def read1(self, n: int = -1) -> bytes:
        """Return the bytes that are available, at most n."""
        # Before Python 3.12, read1() does not update the length.
        read = super().read1 if self.chunked or self.length is None else super().read
        return self._read(read, _PIECE if n < 0 else n)

    def _read_next_chunk_size(self) -> int:
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]
        if size < 0:
            self._close_conn()  # type: ignore[attr-defined]
            raise ValueError("the size of a chunk is negative")  # as for an invalid number
        return size

    def _read(self, read: Callable[[Any], bytes], amt: int) -> bytes:
        try:
            data = read(amt)
            if not data and amt and self.length:  # http.client treats that as the end
                raise IncompleteRead(data, self.length)
        except (HTTPException, OSError, ValueError, OverflowError, MemoryError) as error:
            self._fail(error)
        except AttributeError as error:  # another thread called close()
            if not self.isclosed():
                raise
            self._fail(error)
        return data

    def _fail(self, error: Exception) -> NoReturn:
        from curlhttp.requests._retries import to_urllib3_error

        request = self._request
        failure: RequestException
        if isinstance(error, RequestException):
            failure = error
        elif isinstance(error, TimeoutError):
            failure = ReadTimeout(f"{request}: the server was silent for too long")
        else:
            # The error of an interrupted read depends on timing.
            was_closed = self._received is not None and self._received.is_interrupted
            reason = _CLOSED if was_closed else error
            failure = ChunkedEncodingError(f"{request}: the body broke off: {reason}")
        failure.request, failure.request_sent = request, True
        raise to_urllib3_error(failure) from failure


class _BodySocket(SocketIO):
    """Read from a socket; closing this closes the socket.

    Args:
        sock: the socket; its timeout applies.
        request: its total time limit applies too; None for no such limit.
        now: returns monotonic seconds.

    Attributes:
        is_interrupted: interrupt() was called.
    """

    def __init__(
        self, sock: socket.socket, request: ClientRequest | None, now: Callable[[], float]
    ) -> None:
        super().__init__(sock, "r")
        sock._io_refs += 1  # type: ignore[attr-defined]  # as makefile() does
        self._request = request
        self._now = now
        self._is_waiting = self.is_interrupted = False
        self._process = os.getpid()

    def interrupt(self) -> None:
        """Wake the reading thread, if there is one: it holds the lock that close() needs."""
        self.is_interrupted = True
        sock = cast("socket.socket | None", self._sock)  # type: ignore[attr-defined]
        # In a forked child there is no such thread, and the connection is the parent's.
        if self._is_waiting and sock is not None and self._process == os.getpid():
            with suppress(OSError):
                sock.shutdown(SHUT_RDWR)

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Read the bytes that are available."""
        self._is_waiting = True  # set before the check, because interrupt() checks this last
        try:
            self._check_given_up()
            size = self._receive(buffer)
            self._check_given_up()
        finally:
            self._is_waiting = False
        return size

    def _check_given_up(self) -> None:
        if self.is_interrupted:
            raise ConnectionAbortedError(_CLOSED)

    def _receive(self, buffer: WriteableBuffer) -> int | None:
        request = self._request
        if request is None or request.deadline is None:
            return super().readinto(buffer)
        sock = cast("socket.socket", self._sock)  # type: ignore[attr-defined]
        limit, left = sock.gettimeout(), request.deadline - self._now()
        if limit is not None and limit <= left:
            return super().readinto(buffer)
        late = DeadlineExceeded(
            f"{request}: the total timeout of {request.timeout.total} s ran out"
        )
        if left <= 0:
            raise late
        sock.settimeout(left)
        try:
            return super().readinto(buffer)
        except TimeoutError:
            raise late from None
        finally:
            with suppress(OSError):  # it may be closed
                sock.settimeout(limit)


class _HeadSocket:
    """A socket from which only the head can be read."""

    def __init__(self, block: bytes) -> None:
        self._block = block

    def makefile(self, mode: str) -> BytesIO:
        """Return the head as a file."""
        return BytesIO(self._block)
