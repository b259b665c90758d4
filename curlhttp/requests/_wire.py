"""What lies under `response.raw`: the body as it came, http.client's head, and the socket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from curlhttp._models.response import Response
from curlhttp._run import run_sync
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._stream import StreamedResponse
    from curlhttp.requests._raw import RawResponse

__all__ = [
    "BrokenOff",
    "Connection",
    "Message",
    "OriginalResponse",
    "Socket",
    "Wire",
    "read_some",
    "socket_of",
]


_Default = TypeVar("_Default")


def read_some(body: Any, limit: int) -> bytes:
    """Return what is there next, at most limit bytes, from a body that may be a foreign file.

    A file that a cache put around the wire sees read() only: it passes read1() on, unseen.
    """
    if isinstance(body, Body):
        return body.read1(limit)
    ready = getattr(body, "chunk_left", None)  # of the wire, if that is below
    data: bytes = body.read(min(limit, ready) if ready else limit)
    return data


class BrokenOff(Response):
    """A response whose body ended in an error: who reads it gets that, as from the wire."""

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
        """Give up the rest of the body."""
        self._left, self.is_closed = b"", True


class Body:
    """A body whose next bytes read1() gives, as they come."""

    def read1(self, amt: int) -> bytes:
        """Return what is there next, at most amt bytes."""
        raise NotImplementedError


class Wire(Body):
    """The body as it came, as a file; `fp` is None at its end, as in http.client."""

    def __init__(self, received: Response, is_spent: bool = False) -> None:
        self._received: Any = received
        self._rest = memoryview(b"" if is_spent else received._content or b"")
        self._is_closed = False
        self._came = 0  # bytes that were read from a stream
        self._failed: RequestException | None = None
        self._translated: Exception | None = None

    def _fill(self) -> bool:
        """Fetch the next piece if none is left, and tell whether there is one."""
        if not self._rest and self._is_streamed and not self._is_closed:
            streamed: StreamedResponse = self._received
            try:
                self._rest = memoryview(run_sync(streamed._read_piece))
                self._came += len(self._rest)
            except RequestException as error:
                self._failed = error
                return False
        return bool(self._rest)

    def _fail(self) -> NoReturn:
        """Raise what ended the body, in urllib3's words, as code that reads from here expects."""
        failed = self._failed
        assert failed is not None
        if self._translated is None:
            from curlhttp._policy.resume import content_length
            from curlhttp.requests._retries import as_urllib3

            length = content_length(self._received.headers)
            self._translated = as_urllib3(failed, self._came, length)
        raise self._translated from failed

    @property
    def _is_streamed(self) -> bool:
        return self._received._content is None and not self._received.is_closed

    def read1(self, amt: int) -> bytes:
        """Return what is there next, at most amt bytes."""
        if not self._fill():
            if self._failed is not None:
                self._fail()
            return b""
        piece = bytes(self._rest[:amt])
        self._rest = self._rest[amt:]
        return piece

    def read(self, amt: int | None = None) -> bytes:
        """Return the next amt bytes, fewer at the end; all of them for None."""
        data, left = BytesIO(), amt
        while (left is None or left > 0) and self._fill():
            piece = self._rest if left is None else self._rest[:left]
            self._rest = self._rest[len(piece) :]
            data.write(piece)
            if left is not None:
                left -= len(piece)
        if self._failed is not None and (amt is None or not data.tell()):
            self._fail()  # else what came before it counts, and the next read fails
        if not self._rest and left == 0 and self._is_streamed and self._has_come_whole():
            self._fill()  # the end is noticed with the last byte, as in http.client
        return data.getvalue()

    def _has_come_whole(self) -> bool:
        """Return whether the end is known, so that nobody waits for it."""
        incoming = getattr(self._received, "_incoming", None)
        if incoming is None or incoming.done:
            return True
        from curlhttp._policy.resume import content_length

        return content_length(self._received.headers) == self._came

    @property
    def chunked(self) -> bool:
        """Return whether the body comes in chunks."""
        return "chunked" in self._received.headers.get("transfer-encoding", "").lower()

    @property
    def chunk_left(self) -> int | None:
        """Return how many bytes can be had at once, None at the end; waits for the next ones."""
        return len(self._rest) if self._fill() else None

    @property
    def raw(self) -> Wire:
        """Return what has the socket, as `fp.raw` in http.client."""
        return self

    @property
    def _sock(self) -> Any:
        return socket_of(self._received)

    @property
    def closed(self) -> bool:
        """Return whether there is nothing more to come."""
        return self._is_closed or not (self._rest or self._is_streamed)

    def isclosed(self) -> bool:
        """Return whether there is nothing more to come."""
        return self.closed

    @property
    def fp(self) -> Wire | None:
        """Return this file, or None at its end."""
        return None if self.closed else self

    def close(self) -> None:
        """Give up the rest of the body."""
        self._is_closed = True
        self._rest = memoryview(b"")
        self._received.close()

    def flush(self) -> None:
        """Do nothing."""


class Message:
    """Header fields, in the part of email.message.Message that is in use."""

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self._fields = fields

    def get_all(self, name: str, failobj: _Default | None = None) -> list[str] | _Default | None:
        """Return all values of a field, or failobj."""
        wanted = name.lower()
        return [value for field, value in self._fields if field.lower() == wanted] or failobj

    getheaders = get_all

    def get(self, name: str, failobj: str | None = None) -> str | None:
        """Return the first value of a field, or failobj."""
        found = self.get_all(name)
        return found[0] if found else failobj

    def __getitem__(self, name: str) -> str | None:
        return self.get(name)

    def __contains__(self, name: str) -> bool:
        return self.get_all(name) is not None

    def items(self) -> list[tuple[str, str]]:
        """Return names and values."""
        return list(self._fields)

    def keys(self) -> list[str]:
        """Return the names."""
        return [name for name, _ in self._fields]

    def values(self) -> list[str]:
        """Return the values."""
        return [value for _, value in self._fields]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self._fields)


class OriginalResponse:
    """What urllib3 keeps of http.client's response."""

    def __init__(self, raw: RawResponse) -> None:
        self._raw = raw
        self.msg = self.headers = raw.msg
        self.status, self.reason, self.version = raw.status, raw.reason, raw.version

    @property
    def fp(self) -> _Path | None:
        """Return what leads to the socket: fp.raw._sock."""
        return None if self._raw.closed else _Path(self._raw.sock)

    def getheader(self, name: str, default: str | None = None) -> str | None:
        """Return the value of a field, or the default."""
        return self._raw.getheader(name, default)

    def getheaders(self) -> list[tuple[str, str]]:
        """Return names and values."""
        return self.msg.items()

    def isclosed(self) -> bool:
        """Return whether the body was read to its end or given up."""
        return self._raw.closed

    def close(self) -> None:
        """Give up the rest of the body."""
        self._raw.close()


class _Path:
    def __init__(self, sock: Any) -> None:
        self.raw = self
        self._sock = sock


class Connection:
    """What is known of the connection that the response came on."""

    def __init__(self, received: Response) -> None:
        self.sock = socket_of(received)
        self.host, self.port = received.request.url.host, received.request.url.port
        self.is_verified = received.request.transport.tls.verify is not False

    def close(self) -> None:
        """Do nothing: libcurl has the connection."""


def socket_of(received: Response) -> Any:
    """Return the socket below a response, or what stands for it."""
    return getattr(received, "sock", None) or Socket(received)


class Socket:
    """What can be told and asked of a connection; the socket itself is libcurl's."""

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

        return ssl.PEM_cert_to_DER_cert(certificate) if binary_form else _decoded(certificate)

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
        change = getattr(getattr(received, "_engine", None), "set_read_timeout", None)
        if incoming is not None and change is not None:
            change(incoming, seconds)

    def shutdown(self, how: int) -> None:
        """Give up the rest of the response, from any thread; who reads it gets an error."""
        self._received.close()

    def close(self) -> None:
        """Give up the rest of the response, from any thread; who reads it gets an error."""
        self._received.close()

    @staticmethod
    def _known(address: tuple[str, int] | None) -> tuple[str, int]:
        if address is None:
            raise OSError("the address of this connection is not known")
        return address


def _decoded(certificate: str) -> object:
    """Return a certificate as SSLSocket.getpeercert() does: only ssl can read it, from a file."""
    import ssl
    import tempfile

    read: Any = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(certificate)
        file.flush()
        return read(file.name)
