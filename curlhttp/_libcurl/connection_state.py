"""Track open connections, and refuse one that is closed or has unread data.

libcurl checks a kept-alive connection only if its last check is more than a second old (from 8.22
on). It would treat data that a server sent in that time as the response to the next request, and
lose a POST on a connection that the server closed. So we check ourselves, just before each request
goes out (CURLOPT_PREREQFUNCTION, see transfer).
"""

from __future__ import annotations

import _socket
import math
import os
import select
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

from curlhttp._http.request import ClientRequest
from curlhttp._runtime.engine import EngineState

try:
    from fcntl import ioctl
except ImportError:  # Windows
    ioctl = None  # type: ignore[assignment]

Route = tuple[str, str, int, int]  # from PREREQFUNCTION: address of the peer, ours; the ports

_select: Any = select  # Any: no platform has all of it
END = _RDHUP = getattr(select, "POLLRDHUP", 0)  # Linux
_CLOSED = getattr(select, "POLLNVAL", 0)
if hasattr(select, "poll"):
    END |= _select.POLLHUP | _select.POLLERR | _CLOSED
else:
    END = 16  # select reports none, but a retired connection does
_READABLE = _select.POLLIN | _RDHUP if hasattr(select, "poll") else 0
_TCP_INFO = getattr(_socket, "TCP_INFO", None) if sys.platform == "linux" else None
# Offsets in struct tcp_info (linux/tcp.h): milliseconds since data and since an ACK came; bytes.
_SINCE_DATA, _SINCE_ACK, _BYTES_RECEIVED = 52, 56, 128
_UNPROVEN = 5.0  # seconds of silence, after which a non-idempotent request gets another connection
_FIONREAD = 0x541B  # linux/sockios.h: bytes that wait to be read
_NOTHING = bytes(4)
_ANY_FAMILY, _ANY_KIND = int(_socket.AF_INET), int(_socket.SOCK_STREAM)
_ALERT = b"\x17\x03\x03\x00\x13"  # how an alert of TLS 1.3 begins: a record of 19 bytes
_ALERT_SIZES = (24, 25)  # with its header; nothing else fits in. Linux counts a FIN as a byte
_QUARANTINE_SECONDS = 60.0
_MAX_SERVERS = 1000  # in quarantine


class Quarantine:
    """List servers that sent data without a request; their connections are not reused for a while.

    More data may always arrive between our check and the request, so one check is not enough for
    such a server. Threads may share a quarantine.

    Attributes:
        until: the monotonic time when the quarantine ends, by server.
    """

    def __init__(self) -> None:
        self.until: dict[str, float] = {}

    def add(self, request: ClientRequest) -> None:
        """Add the server that a request goes to."""
        if len(self.until) >= _MAX_SERVERS:
            self.until.clear()
        self.until[_get_server(request)] = monotonic() + _QUARANTINE_SECONDS

    def has(self, request: ClientRequest) -> bool:
        """Return whether the server that a request goes to is in quarantine."""
        return self.until.get(_get_server(request), 0.0) > monotonic()


def _get_server(request: ClientRequest) -> str:
    """Return the other end of the connection: an origin, or a proxy without a tunnel."""
    proxy = request.route.proxy
    if proxy is None or request.url.scheme == "https" or proxy.url.startswith("socks"):
        return request.url.origin
    return proxy.url


class Connection:
    """One open connection.

    Args:
        descriptor: its socket, which libcurl closes.
        multiplexes: it may speak HTTP/2 or HTTP/3, where frames may arrive at any time.
        is_tls: it uses TLS all the way, or up to a proxy.
        origin: of the request that it was opened for.

    Attributes:
        counts_bytes: received bytes can be counted, and need to be (see `check_response`).
        events: returns the socket's events without waiting: events(0).
        multiplexes: it may speak HTTP/2 or HTTP/3; False from the first HTTP/1 response on.
        uses: how many requests went out on it.
        is_discarded: libcurl was made to close it, because it has ended.
        is_retired: no further request goes out on it, because it may be dead.
        is_draining: it still carries requests, and TLS options keep others off it.
        is_quic: it uses UDP, where the socket does not show that the connection has ended.
        certain: its socket; None if it stands for several connections.
        certificate: the server's as PEM, if it was requested.
        last_stream: the last HTTP/2 stream that the server may have processed, as far as known.
        ends_in_alert: see check_for_alert.
        refusal: why the server refused TLS; only one of the requests on it may learn the reason.
    """

    __slots__ = (
        "_handshake",
        "_read",
        "_tcp",
        "certain",
        "certificate",
        "counts_bytes",
        "descriptor",
        "ends_in_alert",
        "events",
        "is_discarded",
        "is_draining",
        "is_quic",
        "is_retired",
        "last_stream",
        "multiplexes",
        "origin",
        "refusal",
        "uses",
    )

    def __init__(self, descriptor: int, multiplexes: bool, is_tls: bool, origin: str) -> None:
        self.descriptor = descriptor
        self.certain: int | None = descriptor
        self.origin = origin
        self.multiplexes = multiplexes
        self.events = _make_event_reader(descriptor)
        self.uses = 0
        self.is_discarded = self.is_draining = self.is_retired = False
        self.is_quic = multiplexes and _is_udp(descriptor)
        self.certificate: str | None = None
        self.last_stream: float = math.inf
        self.counts_bytes = is_tls and _TCP_INFO is not None
        self._tcp = _borrow(descriptor) if self.counts_bytes else None
        self._read = 0  # bytes up to the end of the last exchange, 0 if unknown
        self._handshake = 0  # bytes of it
        if self._tcp is not None:  # the count is too low if more bytes arrive at that moment
            self._handshake = max(_bytes_read(self._tcp), _bytes_read(self._tcp))
        self.ends_in_alert = False
        self.refusal = ""

    @property
    def protocol(self) -> str:
        """Return "HTTP/1.1", "HTTP/2" or "HTTP/3", as far as it is known."""
        if self.is_quic:
            return "HTTP/3"
        return "HTTP/2" if self.multiplexes else "HTTP/1.1"

    def is_clean(self) -> bool:
        """Return whether the server neither closed it nor, on HTTP/1, sent unrequested data."""
        events = self.events(0)
        return not events or (self.multiplexes and not events[0][1] & END)

    def has_ended(self) -> bool:
        """Return whether the server closed it and libcurl has not."""
        events = self.events(0)
        return bool(events) and bool(events[0][1] & END) and not events[0][1] & _CLOSED

    def retire(self) -> None:
        """Let no further request go out on it; those under way continue."""
        self.is_retired = True
        # Pretend that it has ended, so that nobody has to look at is_retired.
        ended = [(self.descriptor, END & ~_CLOSED)]
        self.events = lambda wait: ended

    def is_unproven(self) -> bool:
        """Return whether a multiplexed connection was silent for so long that it may be dead.

        A NAT or a load balancer drops connections without notice. libcurl sends a PING only from
        curl_easy_upkeep, which pycurl does not have. Without TCP_INFO (Linux) this is unknown.
        """
        if not self.multiplexes or _TCP_INFO is None:
            return False
        try:
            info = _borrow(self.descriptor).getsockopt(_socket.IPPROTO_TCP, _TCP_INFO, 60)
        except OSError:  # HTTP/3 uses UDP
            return False
        since = (
            int.from_bytes(info[offset : offset + 4], sys.byteorder)
            for offset in (_SINCE_DATA, _SINCE_ACK)
        )
        return min(since) > _UNPROVEN * 1000

    def has_data(self) -> bool:
        """Return whether it has data to read, other than its end and the TLS alert before that."""
        events = self.events(0)
        if not events or events[0][1] & END:
            return False  # a server may send why it closes (RFC 9110, section 15.5.9)
        data = _peek(self.descriptor)
        # TLS sends an alert before the end.
        return bool(data) and data[:1] != b"\x15" and data != _ALERT

    def check_for_alert(self) -> None:
        """Note whether a TLS 1.3 alert is all that came after the handshake.

        In TLS 1.3 a server refuses a client certificate, or the lack of one, after the client has
        begun to send. If the server then closes the connection at once, the client's next send
        fails, and libcurl closes the socket without reading the alert.
        """
        if self._tcp is not None and self._handshake and not self.ends_in_alert:
            size = _bytes_received(self._tcp) - self._handshake
            self.ends_in_alert = size in _ALERT_SIZES

    def check_response(self, use: int, size: int, *, ends: bool) -> bool:
        """Return whether a response can be that of its request: False if it was received before it.

        OpenSSL reads ahead: data that came together with the last response is in its buffer, where
        a check of the socket does not find it, and libcurl takes it for the next response. But then
        fewer bytes were read from the socket since than the response has. (Without TLS libcurl
        closes such a connection.)

        Args:
            use: the number of the request among those of the connection.
            size: bytes of the response so far, at least.
            ends: the response has just become complete.
        """
        if self._tcp is None or self.multiplexes:
            return True
        before = self._read
        now = _bytes_read(self._tcp) if use == self.uses else 0
        if ends:
            self._read = now
        return not before or not now or now - before >= size


class _UnixSocketConnection(Connection):
    """All open connections to one Unix socket, because they have no ports to tell them apart.

    They are clean if each of them is; one that is just receiving its response is not.
    """

    __slots__ = ("_inodes", "_poller")

    def __init__(self, descriptor: int, origin: str) -> None:
        super().__init__(descriptor, False, False, origin)
        self.certain = None
        self._inodes: dict[int, int] = {}  # by descriptor, whose number may be reused
        self._poller = _select.poll()
        self.add(descriptor)

    def add(self, descriptor: int) -> None:
        """Note one more connection."""
        self._inodes[descriptor] = os.fstat(descriptor).st_ino
        self._poller.register(descriptor, _READABLE)
        if not self.is_retired:
            self.events = self._look

    def are_closed(self) -> bool:
        """Return whether libcurl has closed all of them."""
        return not [descriptor for descriptor in list(self._inodes) if self._is_open(descriptor)]

    def _look(self, wait: int) -> list[tuple[int, int]]:
        return [event for event in self._poller.poll(wait) if self._is_open(event[0])]

    def _is_open(self, descriptor: int) -> bool:
        with suppress(OSError):
            if os.fstat(descriptor).st_ino == self._inodes[descriptor]:
                return True
        del self._inodes[descriptor]
        self._poller.unregister(descriptor)
        return False

    def has_data(self) -> bool:
        """Return False, because data to read may be a response that was requested."""
        return False


class _BorrowedSocket(_socket.socket):
    """A socket that its owner closes.

    It is not a socket.socket, because that class's __init__ costs as much as everything else here.
    """

    # Not a Python function, because an exception of a signal handler in a finalizer is lost.
    __del__ = _socket.socket.detach


def _borrow(descriptor: int) -> _BorrowedSocket:
    # Any family and kind will do; without them Python makes three system calls.
    return _BorrowedSocket(_ANY_FAMILY, _ANY_KIND, 0, descriptor)


class OpenConnections:
    """The open connections of one curl_multi, or of one handle that has its own.

    Args:
        quarantine: the engine's.

    Attributes:
        chosen: sockets of connections on which requests have just gone out, so that they are open.
            A driver that uses this clears it in each turn.
        by_route: the connections, by what libcurl reports.
        quarantine: as given.
    """

    def __init__(self, quarantine: Quarantine) -> None:
        self.chosen: set[int | None] = set()
        self.quarantine = quarantine
        self.by_route: dict[Route, Connection] = {}
        self._routes: dict[int, Route] = {}  # by descriptor, whose number may be reused

    def check(
        self, connection: Connection | None, request: ClientRequest | None
    ) -> Connection | None:
        """Return a connection that is not surely clean, if another request may go out on it.

        Args:
            connection: an unknown one is not clean.
            request: is about to go out.
        """
        if connection is None or connection.multiplexes:
            return connection if connection is not None and connection.is_clean() else None
        assert request is not None
        if connection.has_data():
            self.quarantine.add(request)
        return connection if connection.is_clean() and not self.quarantine.has(request) else None

    def forget(self, route: Route | None) -> None:
        """Forget a connection, so that no further request goes out on it."""
        connection = None if route is None else self.by_route.get(route)
        if connection is None or route is None:
            return
        if isinstance(connection, _UnixSocketConnection):  # nobody knows which of them it is
            connection.retire()
            return
        del self.by_route[route], self._routes[connection.descriptor]

    def end(self, connection: Connection) -> None:
        """End a connection that libcurl keeps although no request may go out on it."""
        route = self._routes.get(connection.descriptor)
        if route is not None and self.by_route.get(route) is connection:
            self.forget(route)
            if _bound_to(route[3], [connection.descriptor]) is not None:
                shut_down(connection.descriptor)

    def quarantine_server(self, route: Route | None, request: ClientRequest) -> None:
        """Forget a connection, and put the server of a request in quarantine."""
        self.forget(route)
        self.quarantine.add(request)

    def add(
        self,
        route: Route,
        sockets: Sequence[int],
        *,
        multiplexes: bool,
        is_tls: bool,
        origin: str = "",
    ) -> Connection | None:
        """Note a new connection.

        Args:
            route: as libcurl reports it.
            sockets: opened for it; happy eyeballs try several addresses at once.
            multiplexes: it may speak HTTP/2 or HTTP/3.
            is_tls: it uses TLS all the way, or up to a proxy.
            origin: of the request that it was opened for.
        """
        if not route[3]:  # a Unix socket has no ports
            may_be_kept = not multiplexes and not is_tls and hasattr(select, "poll")
            return self._add_unnamed(route, sockets[-1], origin) if may_be_kept else None
        # libcurl may have given up the one that it opened, and use another one for the request.
        descriptor = _bound_to(route[3], sockets)
        if descriptor is None:
            return None
        if descriptor in self._routes:  # the earlier socket with this number was closed
            self.forget(self._routes[descriptor])
        if route in self.by_route:
            self.forget(route)
        self._routes[descriptor] = route
        connection = self.by_route[route] = Connection(descriptor, multiplexes, is_tls, origin)
        return connection

    def _add_unnamed(self, route: Route, descriptor: int, origin: str) -> Connection:
        others = self.by_route.get(route)
        if isinstance(others, _UnixSocketConnection) and not others.are_closed():
            others.add(descriptor)
            return others
        connection = self.by_route[route] = _UnixSocketConnection(descriptor, origin)
        return connection

    def open(self) -> list[Connection]:
        """Return the connections that are still open; may be called from any thread."""
        return [
            connection
            for route, connection in self.by_route.copy().items()
            if _is_open(connection.descriptor, route[3])
        ]


def tell_state(
    known: Iterable[OpenConnections], used: Iterable[Connection | None], waits: list[float]
) -> EngineState:
    """Return what an engine tells of itself; may be called from any thread.

    Args:
        known: the connections of the engine.
        used: those of transfers that are not idle; None for one that has none yet.
        waits: seconds that each waiting request has waited.
    """
    busy = {id(each) for each in used}
    every = {id(each): each for connections in known for each in connections.open()}
    counts = Counter((each.origin, each.protocol, number in busy) for number, each in every.items())
    return EngineState(counts, waits)


def _is_open(descriptor: int, port: int) -> bool:
    """Return whether a socket is open at both ends; any thread may call this."""
    # libcurl closes sockets without notice, so another one may have the number by now.
    if _bound_to(port, [descriptor]) is None:
        return False
    events = _make_event_reader(descriptor)(0)
    return not events or not events[0][1] & END


def _bound_to(port: int, sockets: Sequence[int]) -> int | None:
    """Return the socket that has the local port; the others lost, and may be closed by now."""
    for descriptor in reversed(sockets):
        try:
            # A Unix socket may have the number by now; its name is text.
            if tuple(_borrow(descriptor).getsockname())[1:2] == (port,):
                return descriptor
        except OSError:
            continue
    return None


def _is_udp(descriptor: int) -> bool:
    kind = _borrow(descriptor).getsockopt(_socket.SOL_SOCKET, _socket.SO_TYPE)
    return kind == _socket.SOCK_DGRAM


def _make_event_reader(descriptor: int) -> Callable[[int], list[tuple[int, int]]]:
    """Return a function that returns the events of a socket, by poll, which takes any number."""
    if not _READABLE:  # Windows
        return lambda wait: [(fd, 0) for fd in select.select([descriptor], [], [], wait)[0]]
    poller = _select.poll()
    poller.register(descriptor, _READABLE)
    look: Callable[[int], list[tuple[int, int]]] = poller.poll
    return look


def _peek(descriptor: int) -> bytes:
    """Return the first bytes that a connection has to read, b"" for its end or none."""
    try:
        with duplicate_socket(descriptor) as duplicate:
            return duplicate.recv(5, _socket.MSG_PEEK | getattr(_socket, "MSG_DONTWAIT", 0))
    except OSError:
        return b""


def shut_down(descriptor: int, is_still: Callable[[int], bool] | None = None) -> None:
    """End a connection and all its streams; libcurl notices when it reads.

    Args:
        descriptor: its socket, or -1 if it is already closed.
        is_still: returns whether it is still open, where another thread may close it.
    """
    if descriptor >= 0:
        with suppress(OSError), duplicate_socket(descriptor) as duplicate:
            if is_still is None or is_still(descriptor):
                duplicate.shutdown(_socket.SHUT_RDWR)


@contextmanager
def duplicate_socket(descriptor: int) -> Iterator[_socket.socket]:
    """Yield a duplicate that nobody else closes, or the socket itself if no number is left."""
    try:
        duplicate = _socket.socket(_ANY_FAMILY, _ANY_KIND, 0, _socket.dup(descriptor))
    except OSError:
        yield _borrow(descriptor)
    else:
        try:
            yield duplicate
        finally:
            duplicate.close()


def _bytes_read(tcp: _BorrowedSocket) -> int:
    """Return how many bytes were read from a socket since it was opened, 0 if unknown."""
    received = _bytes_received(tcp)
    if not received:
        return 0
    try:
        unread = ioctl(tcp, _FIONREAD, _NOTHING)
    except OSError:
        return 0
    return received - int.from_bytes(unread, sys.byteorder)


def count_read(descriptor: int) -> int:
    """Return how many bytes were read from a socket since it was opened, 0 if unknown.

    Only Linux counts them, and only for TCP.
    """
    return 0 if _TCP_INFO is None or descriptor < 0 else _bytes_read(_borrow(descriptor))


def _bytes_received(tcp: _BorrowedSocket) -> int:
    """Return how many bytes a socket received since it was opened, 0 if unknown."""
    assert _TCP_INFO is not None
    try:
        info = tcp.getsockopt(_socket.IPPROTO_TCP, _TCP_INFO, _BYTES_RECEIVED + 8)
    except OSError:
        return 0
    return int.from_bytes(info[_BYTES_RECEIVED:], sys.byteorder)
