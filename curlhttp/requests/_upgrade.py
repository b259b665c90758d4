"""Streamed requests that ask for another protocol: what is spoken then is left to the caller.

It has the connection as a socket, below `response.raw`, where urllib3 has it. An answer in HTTP is
read from there as well, by http.client, since that is what code that goes down there expects.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from http.client import HTTPException, HTTPResponse, IncompleteRead
from io import BytesIO
from typing import TYPE_CHECKING, Any, NoReturn, cast

from curlhttp._curl.streams.sockets import SocketStream, as_socket
from curlhttp._engine.engine import Engine, connector
from curlhttp._engine.run import run_sync
from curlhttp._flow.upgrade import ask
from curlhttp._models.response import Response
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ConnectionError,
    ReadTimeout,
    RemoteProtocolError,
    RequestException,
)
from curlhttp.requests._wire import Body

if TYPE_CHECKING:
    import socket

    from curlhttp._models.request import Request
    from curlhttp._models.response import Head
    from curlhttp._models.timings import Timings

__all__ = ["open_upgrade"]


def open_upgrade(engine: Engine, request: Request) -> UpgradeResponse:
    """Send a request on a connection of its own, and return the response with its socket.

    Args:
        engine: opens connections.
        request: complete; a body is one in memory.

    Raises:
        RequestException: no response came of it.
    """
    reply = run_sync(partial(ask, connector(engine), request, engine.now))
    try:
        sock = as_socket(cast("SocketStream", reply.stream), reply.rest)
        sock.settimeout(request.timeout.read)
        return UpgradeResponse(request, reply.head, reply.stream.timings(), sock)
    except BaseException as error:
        reply.stream.abort()
        if type(error) is OSError:
            raise ConnectionError(f"{request}: {error.strerror}", request=request) from error
        raise


class UpgradeResponse(Response):
    """The answer to a request that asked for another protocol, be it 101 or not.

    Attributes:
        sock: the connection.
        file: the body, as http.client's response; after a 101 it is empty.
    """

    def __init__(self, request: Request, head: Head, timings: Timings, sock: socket.socket) -> None:
        super().__init__(request, head, None, timings)
        self.sock = sock
        self.file = _File(request, head, sock)

    @property
    def is_closed(self) -> bool:
        """Return whether the body was read to its end or given up."""
        return self.file.isclosed()

    def close(self) -> None:
        """Close the connection."""
        self.file.close()

    async def discard(self) -> None:
        """Do without the body."""
        self.close()


class _File(HTTPResponse, Body):
    """The body on a socket, which is closed at its end; errors are urllib3's."""

    def __init__(self, request: Request, head: Head, sock: socket.socket) -> None:
        super().__init__(cast("Any", _Heard(head.block)), method=request.method)
        self._request = request
        try:
            self.begin()
        except HTTPException as error:
            raise RemoteProtocolError(f"{request}: {error}", request_sent=True) from error
        self.fp = cast("Any", sock.makefile("rb"))
        sock.close()  # with the file, that is

    @property
    def closed(self) -> bool:  # type: ignore[override]
        """Return whether the body was read to its end or given up."""
        return self.isclosed()

    def read(self, amt: int | None = None) -> bytes:
        """Return the next amt bytes, fewer at the end; all of them for None."""
        return self._read(super().read, amt)

    def read1(self, n: int = -1) -> bytes:
        """Return what is there next, at most n bytes."""
        # Before Python 3.12 read1() does not count what is left.
        read = super().read1 if self.chunked or self.length is None else super().read
        return self._read(read, n)

    def _read(self, read: Callable[[Any], bytes], amt: int | None) -> bytes:
        try:
            data = read(amt)
            if not data and amt and self.length:  # http.client takes that for an end
                raise IncompleteRead(data, self.length)
        except (HTTPException, OSError) as error:
            self._fail(error)
        return data

    def _fail(self, error: Exception) -> NoReturn:
        from curlhttp.requests._retries import as_urllib3

        request = self._request
        failure: RequestException
        if isinstance(error, TimeoutError):
            failure = ReadTimeout(f"{request}: the server was silent for too long")
        else:
            failure = ChunkedEncodingError(f"{request}: the body broke off: {error}")
        failure.request, failure.request_sent = request, True
        raise as_urllib3(failure) from failure


class _Heard:
    """A socket on which the head has come, and that is all of it."""

    def __init__(self, block: bytes) -> None:
        self._block = block

    def makefile(self, mode: str) -> BytesIO:
        """Return the head as a file."""
        return BytesIO(self._block)
