"""The objects below `response.raw`: http.client's response, the connection and the socket."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, NoReturn, cast

from curlhttp._http.errors import closed_while_reading
from curlhttp._http.response import Response
from curlhttp._runtime.run import run_sync
from curlhttp.exceptions import RequestException
from curlhttp.requests._cached import cached_property
from curlhttp.requests._headers import Head

if TYPE_CHECKING:
    import socket
    from http.client import HTTPMessage

    from curlhttp._client.stream import StreamedResponse


def read_some(body: Any, limit: int) -> bytes:
    """Return the bytes that are available, at most limit, from a body or any file.

    It calls read() on a cache's wrapper, which would not record the data that read1() returns.
    """
    if isinstance(body, Body):
        return body.read1(limit)
    ready = getattr(body, "chunk_left", None)  # of the body inside it, if it wraps ours
    data: bytes = body.read(min(limit, ready) if ready else limit)
    return data


def is_closed(body: Any) -> bool:
    """Return whether a body, or any file, is at its end or closed."""
    is_closed = getattr(body, "isclosed", None)
    return bool(getattr(body, "closed", True) if is_closed is None else is_closed())


class IncompleteResponse(Response):
    """A response whose body ended early: reading returns the received part, then raises."""

    is_closed = False

    def __init__(self, error: RequestException) -> None:
        so_far: Any = error.response
        super().__init__(so_far.request, so_far._head, None, so_far.timings)
        self._left, self._error = so_far._content, error
        error.response = None

    async def _read_piece(self) -> bytes:
        piece, self._left = self._left, b""
        if piece:
            return cast(bytes, piece)
        self.is_closed = True
        raise self._error

    def close(self) -> None:
        """Discard the rest of the body."""
        self._left, self.is_closed = b"", True


class Body:
    """A body with a read1() that returns bytes as they arrive."""

    def read1(self, amt: int) -> bytes:
        """Return the bytes that are available, at most amt."""
        raise NotImplementedError


class OriginalResponse(Head, Body):
    """Stand in for http.client's response: the head, and the undecoded body as a file.

    As there, `fp` is None at the end of the body, and only close() sets `closed`.

    Args:
        received: the core's response.
        is_consumed: the body was already returned.

    Attributes:
        closed: close() was called.
    """

    closed = False

    def __init__(self, received: Response, is_consumed: bool = False) -> None:
        super().__init__(received)
        self._rest = memoryview(b"" if is_consumed else received._content or b"")
        self._bytes_read = 0  # bytes that were read from a stream
        self._failed: RequestException | None = None
        self._translated: Exception | None = None

    def _fill(self) -> bool:
        """Fetch the next piece if none is left, and return whether there is one."""
        if not self._rest and self._is_streamed:
            streamed = cast("StreamedResponse", self.received)
            try:
                self._rest = memoryview(run_sync(streamed._read_piece))
                self._bytes_read += len(self._rest)
            except RequestException as error:
                self._failed = error
                return False
        if not self._rest and not self.closed and getattr(self.received, "is_cut_off", False):
            self._failed = closed_while_reading(self.received.request)
        return bool(self._rest)

    def _fail(self) -> NoReturn:
        """Raise the error that ended the body as urllib3's, which code that reads here expects."""
        failed = self._failed
        assert failed is not None
        if self._translated is None:
            from curlhttp._features.download.resume import content_length
            from curlhttp.requests._retries import to_urllib3_error

            length = content_length(self.received.headers)
            self._translated = to_urllib3_error(failed, self._bytes_read, length)
        raise self._translated from failed

    @property
    def _is_streamed(self) -> bool:
        received: Any = self.received
        return received._content is None and not self.closed and not received.is_closed

    def read1(self, amt: int = -1) -> bytes:
        """Return the bytes that are available, at most amt unless that is negative."""
        if not self._fill():
            if self._failed is not None:
                self._fail()
            return b""
        end = len(self._rest) if amt < 0 else amt
        piece = bytes(self._rest[:end])
        self._rest = self._rest[end:]
        return piece

    def read(self, amt: int | None = None) -> bytes:
        """Return the next amt bytes, fewer at the end; all of them for None or less than 0."""
        data, left = BytesIO(), None if amt is None or amt < 0 else amt
        while (left is None or left > 0) and self._fill():
            piece = self._rest if left is None else self._rest[:left]
            self._rest = self._rest[len(piece) :]
            data.write(piece)
            if left is not None:
                left -= len(piece)
        if self._failed is not None and (left is None or not data.tell()):
            self._fail()  # else return the data before the error; the next read raises it
        if not self._rest and left == 0 and self._is_streamed and self._is_complete():
            self._fill()  # the last byte closes the body, as in http.client
        return data.getvalue()

    def _is_complete(self) -> bool:
        """Return whether the body is known to be complete, without waiting for its end."""
        incoming = getattr(self.received, "_incoming", None)
        if incoming is None or incoming.done:
            return True
        from curlhttp._features.download.resume import content_length

        return content_length(self.received.headers) == self._bytes_read

    @property
    def chunk_left(self) -> int | None:
        """Wait for bytes, and return how many are available; None at the end."""
        return len(self._rest) if self._fill() else None

    @property
    def raw(self) -> OriginalResponse:
        """Return the object that has the socket, like `fp.raw` in http.client."""
        return self

    @property
    def fp(self) -> OriginalResponse | None:
        """Return this file, or None at its end."""
        return None if self.isclosed() else self

    @property
    def _sock(self) -> socket.socket | Socket:
        return get_socket(self.received)

    def isclosed(self) -> bool:
        """Return whether all was read, or the error that ended the body early was raised."""
        if self._failed is not None and self._translated is None and not self.closed:
            return False
        return not (self._rest or self._is_streamed)

    def close(self) -> None:
        """Discard the rest of the body."""
        self.closed = True
        self._rest = memoryview(b"")
        self.received.close()

    def flush(self) -> None:
        """Do nothing."""

    @cached_property
    def headers(self) -> HTTPMessage:
        """Return the header fields."""
        return self.msg

    def getheader(self, name: str, default: str | None = None) -> str | None:
        """Return the value of a field, joined where repeated, or the default."""
        values = self.headers.get_all(name)
        return ", ".join(values) if values else default

    def getheaders(self) -> list[tuple[str, str]]:
        """Return names and values."""
        return list(self.headers.items())


class Connection:
    """The connection of a response, as far as it is known."""

    def __init__(self, received: Response) -> None:
        self.sock: socket.socket | Socket = get_socket(received)
        self.host: str = received.request.url.host
        self.port: int = received.request.url.port
        self.is_verified: bool = received.request.route.tls.verify is not False

    def close(self) -> None:
        """Do nothing: libcurl owns the connection."""


def get_socket(received: Response) -> socket.socket | Socket:
    """Return the socket of a response, or a stand-in."""
    return getattr(received, "sock", None) or Socket(received)


class Socket:
    """A stand-in for libcurl's socket: addresses, the certificate, the time limit."""

    def __init__(self, received: Response) -> None:
        self._received = received

    def getpeername(self) -> tuple[str, int]:
        """Return address and port of the server or proxy."""
        return self._known(self._received.timings.peer)

    def getsockname(self) -> tuple[str, int]:
        """Return address and port on this side."""
        return self._known(self._received.timings.local)

    def getpeercert(self, binary_form: bool = False) -> object:
        """Return the server's certificate, as ssl.SSLSocket does.

        Raises:
            ValueError: there is no TLS.
        """
        certificate = getattr(self._received, "certificate", None)
        if certificate is None:
            raise ValueError("the certificate of this connection is not known")
        import ssl

        return (
            ssl.PEM_cert_to_DER_cert(certificate)
            if binary_form
            else _decode_certificate(certificate)
        )

    def gettimeout(self) -> float | None:
        """Return how many seconds the server may be silent, None for no limit."""
        limit: float | None = self._received.request.timeout.read
        return limit

    def settimeout(self, seconds: float | None) -> None:
        """Change how many seconds the server may be silent, None for no limit.

        Raises:
            ValueError: the number of seconds is not positive.
        """
        received: Any = self._received
        received.request.timeout = replace(received.request.timeout, read=seconds)
        incoming = getattr(received, "_incoming", None)
        change = getattr(incoming, "set_read_timeout", None)
        if change is not None:
            change(seconds)

    def shutdown(self, how: int) -> None:
        """Discard the rest of the response, from any thread; a concurrent read raises."""
        self.close()

    def close(self) -> None:
        """Discard the rest of the response, from any thread; a concurrent read raises."""
        received: Any = self._received
        received.is_cut_off = not received.is_closed
        received.close()

    @staticmethod
    def _known(address: tuple[str, int] | None) -> tuple[str, int]:
        if address is None:
            raise OSError("the address of this connection is not known")
        return address


def _decode_certificate(certificate: str) -> object:
    """Return a certificate as SSLSocket.getpeercert() does. Only ssl can parse it, from a file."""
    import ssl
    import tempfile

    read: Any = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificate)
        file.flush()
        return read(file.name)
