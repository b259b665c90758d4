"""A connection for bytes in both directions at any time, opened by libcurl.

libcurl connects (CURLOPT_CONNECT_ONLY), so names, TLS, proxies, certificates and Unix sockets work
as for any request. After that, curl_easy_recv and curl_easy_send move bytes. Subclasses decide how
to wait for the socket. Nothing here knows the protocol.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from curlhttp._http.fork import register
from curlhttp._http.headers import Headers
from curlhttp._http.request import ClientRequest, pack_fields
from curlhttp._http.timings import MICROSECOND, Timings, make_timings
from curlhttp._libcurl import USES_SCHANNEL, pycurl
from curlhttp._libcurl.connection_state import Connection
from curlhttp._libcurl.errors import LACKS_CERTIFICATE, find_tls_refusal
from curlhttp._libcurl.transfer import Transfer
from curlhttp.exceptions import ConnectionError, SSLError

PIECE = 256 * 1024  # bytes received at once
_JOIN_BELOW = 16 * 1024  # bytes; smaller pieces are joined with the next ones
_RECORD = 16 * 1024  # bytes; the most of a record of TLS


class ConnectionRequest(ClientRequest):
    """A request for which libcurl only connects; messages show the original request."""

    __slots__ = ("shown",)
    _connects_only = True
    shown: str

    def __str__(self) -> str:
        return self.shown

    def copy(self) -> ClientRequest:
        return self.as_kind(ClientRequest)


def make_connection_request(request: ClientRequest) -> ClientRequest:
    """Return a request that makes libcurl connect as for another one, and send nothing."""
    fields = pack_fields(
        Headers(),
        # libcurl does not wait for a response.
        replace(request.timeout, read=None),
        replace(request.route, http2=False, http3=False),
        deadline=request.deadline,
        stream=True,
    )
    made = ConnectionRequest.__new__(ConnectionRequest)
    made.shown = str(request)
    made.fill("GET", request.url, fields)
    made.extensions = request.extensions
    return made


class Stream:
    """Send and receive bytes on a connection; subclasses wait for the socket (`ByteStream`).

    Args:
        transfer: has connected, and belongs to this stream until `release`.
        release: releases the transfer, which closes the connection; called once.

    Attributes:
        descriptor: the socket, -1 once it is closed.
        is_plain: there is no TLS on it.
    """

    def __init__(self, transfer: Transfer, release: Callable[[Transfer], object]) -> None:
        # First the attributes that the finalizer uses, because Ctrl-C may come at any line.
        self._transfer: Transfer | None = transfer
        self._release_transfer = release
        self._error: BaseException | None = None
        self._easy = transfer.easy
        self._unsent: deque[memoryview] = deque()
        self._written = 0  # bytes; tasks count them from one turn of the others to the next
        info = transfer.easy.getinfo
        self.descriptor: int = info(pycurl.ACTIVESOCKET)
        request = transfer.request
        assert request is not None
        self._request = request
        proxy = request.route.proxy
        # OpenSSL buffers decoded bytes, which the socket does not show.
        self._holds_bytes = request.url.scheme == "https" or (
            proxy is not None and proxy.url.startswith("https:")
        )
        # It detects a TLS alert at the end.
        self._connection = Connection(self.descriptor, False, self._holds_bytes, "")
        self.is_plain = not self._holds_bytes
        # With Schannel, libcurl waits until all bytes of a call are sent, for as long as the peer
        # reads nothing: it gets a record at a time, while the socket has room.
        self._sends_in_full = USES_SCHANNEL and self._holds_bytes
        self._timings = _timings(transfer)
        register(self)

    def timings(self) -> Timings:
        """Return where the time went until the connection was established."""
        return self._timings

    # bytes, without waiting

    def receive_now(self) -> bytes | None:
        """Return the next bytes, b"" at the end, None for none yet.

        Raises:
            RequestException: the connection broke, or was closed.
        """
        if self._error is not None:
            raise self._error
        try:
            return self._easy.recv(PIECE)  # type: ignore[no-any-return]
        except BlockingIOError:
            return None
        except pycurl.error as error:
            raise self._make_error(error) from None

    def write(self, data: bytes) -> bool:
        """Queue bytes to send, and send what can go out at once; never blocks.

        Returns:
            Whether some bytes wait to be sent.

        Raises:
            RequestException: the connection broke, or was closed.
        """
        self._written += len(data)
        if self._unsent:
            self._unsent.append(memoryview(data))
        elif data:
            sent = self._send(data)
            if sent == len(data):
                return False
            self._unsent.append(memoryview(data)[sent:])
            return True
        self._push()
        return bool(self._unsent)

    def unsent(self) -> int:
        """Return how many bytes were written and wait to be sent."""
        return sum(map(len, self._unsent)) if self._unsent else 0

    def _push(self) -> None:
        """Send as many of the waiting bytes as can go out at once."""
        unsent = self._unsent
        while unsent:
            piece = unsent.popleft()
            if unsent and len(piece) < _JOIN_BELOW:
                # Thousands of small pieces would cost as many system calls.
                piece = self._join_pieces(piece)
            sent = self._send(piece)
            if sent < len(piece):
                unsent.appendleft(piece[sent:])
                return

    def _join_pieces(self, first: memoryview) -> memoryview:
        pieces, size = [first], len(first)
        while self._unsent and size < _JOIN_BELOW:
            pieces.append(self._unsent.popleft())
            size += len(pieces[-1])
        return memoryview(b"".join(pieces))

    def _send(self, data: bytes | memoryview) -> int:
        if self._error is not None:
            raise self._error
        total = 0
        while True:
            if self._sends_in_full and not self._has_room():
                return total
            try:
                sent: int = self._easy.send(data[:_RECORD] if self._sends_in_full else data)
            except BlockingIOError:
                return total
            except pycurl.error as error:
                raise self._make_error(self._find_alert() or error) from None
            total += sent
            # TLS takes one record at a time, so more of a large piece may go out.
            if sent == len(data) or not sent:
                return total
            data = memoryview(data)[sent:]

    def _has_room(self) -> bool:
        """Return whether the socket takes bytes now."""
        return bool(select.select([], [self.descriptor], [], 0)[1])

    def _find_alert(self) -> pycurl.error | None:
        """Return the error of receiving after sending failed, because a TLS alert says why."""
        try:
            self._easy.recv(PIECE)
        except BlockingIOError:
            pass
        except pycurl.error as error:
            return error
        return None

    def _make_error(self, error: pycurl.error) -> ConnectionError:
        code, message = error.args
        self._connection.check_for_alert()
        why = find_tls_refusal(message, self._request.route, self._connection.ends_in_alert)
        text = f"{self._request}: {why or 'the connection broke'} (curl error {code}: {message})"
        if why:
            self._error = SSLError(text, curl_code=code)
            self._error.tls_failure = "handshake"
            self._error.wants_certificate = why in LACKS_CERTIFICATE
        else:
            self._error = ConnectionError(text, curl_code=code)
        return self._error

    # the end

    def _release(self) -> None:
        """Release the transfer, which closes the connection; only once."""
        transfer, self._transfer = self._transfer, None
        self.descriptor = -1
        self._unsent.clear()
        if transfer is not None:
            self._release_transfer(transfer)

    def _after_fork_in_child(self) -> None:
        """Leave the connection to the parent."""
        self._error = ConnectionError(
            "this connection belongs to the process that this one was forked from"
        )
        self._transfer = None
        self.descriptor = -1


def closed_error(error: BaseException | None) -> BaseException:
    """Return the exception for using a connection that was closed."""
    return error or ConnectionError("this connection was closed")


def _timings(transfer: Transfer) -> Timings:
    info = transfer.easy.getinfo
    total = info(pycurl.TOTAL_TIME_T) * MICROSECOND
    return make_timings(transfer.timings(), transfer.request)._replace(
        first_byte=total,
        peer=(info(pycurl.PRIMARY_IP), info(pycurl.PRIMARY_PORT)),
        local=(info(pycurl.LOCAL_IP), info(pycurl.LOCAL_PORT)),
    )
