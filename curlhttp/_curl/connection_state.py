"""Track open connections, and refuse one that is closed or has unread data.

libcurl looks at a kept-alive connection only when its last look is over a second ago (8.22 on).
What a server sent meanwhile would pass for the answer to the next request, and a connection that
it closed would take a POST along. So we look ourselves, right before each request goes out.
"""

from __future__ import annotations

import _socket
import math
import os
import select
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

from curlhttp._models.request import Request

try:
    from fcntl import ioctl
except ImportError:  # Windows
    ioctl = None  # type: ignore[assignment]

__all__ = ["Connection", "Connections", "Quarantine", "Route", "shut_down"]

Route = tuple[str, str, int, int]  # as PREREQFUNCTION tells: address of the peer, ours; the ports

_select: Any = select  # Any: no platform has all of it
_END = _RDHUP = getattr(select, "POLLRDHUP", 0)  # Linux
_CLOSED = getattr(select, "POLLNVAL", 0)
if hasattr(select, "poll"):
    _END |= _select.POLLHUP | _select.POLLERR | _CLOSED
else:
    _END = 16  # select reports none, but a quarantine does
_SPEAKS = _select.POLLIN | _RDHUP if hasattr(select, "poll") else 0
_TCP_INFO = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
# Offsets in struct tcp_info (linux/tcp.h): milliseconds since data and since an ACK came; bytes.
_SINCE_DATA, _SINCE_ACK, _BYTES_RECEIVED = 52, 56, 128
_UNPROVEN = 5.0  # seconds of silence after which a request that goes out once needs another
_FIONREAD = 0x541B  # linux/sockios.h: bytes that wait to be read
_NOTHING = bytes(4)
_ANY_FAMILY, _ANY_KIND = int(socket.AF_INET), int(socket.SOCK_STREAM)
_ALERT = b"\x17\x03\x03\x00\x13"  # how an alert of TLS 1.3 begins: a record of 19 bytes
_ALERT_SIZES = (24, 25)  # with its header, which nothing else fits in; Linux counts a FIN as one
_DISTRUST = 60.0  # seconds
_SUSPECTS = 1000  # servers that are remembered


class Quarantine:
    """List servers that sent data unasked; their connections are not reused for a while.

    Between our look and the request there is always a moment in which more may arrive. So none
    of their connections is used twice, for a while. May be shared by threads.

    Attributes:
        until: the monotonic time when trust returns, by server.
    """

    def __init__(self) -> None:
        self.until: dict[str, float] = {}

    def add(self, request: Request) -> None:
        """Distrust the server that a request goes to."""
        if len(self.until) >= _SUSPECTS:
            self.until.clear()
        self.until[_server_of(request)] = monotonic() + _DISTRUST

    def has(self, request: Request) -> bool:
        """Return whether the server that a request goes to is distrusted."""
        return self.until.get(_server_of(request), 0.0) > monotonic()


def _server_of(request: Request) -> str:
    """Return who is at the other end of the connection: an origin, or a proxy without a tunnel."""
    proxy = request.transport.proxy
    if proxy is None or request.url.scheme == "https" or proxy.url.startswith("socks"):
        return request.url.origin
    return proxy.url


class Connection:
    """One open connection.

    Args:
        descriptor: its socket, which is libcurl's to close.
        multiplexes: it may speak HTTP/2 or HTTP/3, where frames may come at any time.
        is_tls: it is TLS all the way, or up to a proxy.
        origin: of the request that it was opened for.

    Attributes:
        counts: what it receives can and should be counted (see `count`).
        events: asks, without a wait, for the socket's events: events(0).
        multiplexes: it may speak HTTP/2 or HTTP/3; False from the first response of HTTP/1 on.
        uses: how many requests went out on it.
        is_buried: libcurl was told that it has ended.
        is_quarantined: no further request goes out on it, because it may be dead.
        is_left: while it still carries requests, others are kept off it by their TLS options.
        is_quic: it is UDP, where no look at the socket tells that it has ended.
        certificate: the server's as PEM, if it was asked for.
        last_stream: the last one of HTTP/2 that the server may have processed, as far as is known.
        ends_in_alert: see look_at_end.
        refusal: why the server refused TLS; it may tell one of the requests that were sent on it.
    """

    __slots__ = (
        "_handshake",
        "_read",
        "_tcp",
        "certificate",
        "counts",
        "descriptor",
        "ends_in_alert",
        "events",
        "is_buried",
        "is_left",
        "is_quarantined",
        "is_quic",
        "last_stream",
        "multiplexes",
        "origin",
        "refusal",
        "uses",
    )

    def __init__(self, descriptor: int, multiplexes: bool, is_tls: bool, origin: str) -> None:
        self.descriptor = descriptor
        self.origin = origin
        self.multiplexes = multiplexes
        self.events = _look_at(descriptor)
        self.uses = 0
        self.is_buried = self.is_left = self.is_quarantined = False
        self.is_quic = multiplexes and _is_udp(descriptor)
        self.certificate: str | None = None
        self.last_stream: float = math.inf
        self.counts = is_tls and _TCP_INFO is not None
        self._tcp = _borrow(descriptor) if self.counts else None
        self._read = 0  # bytes up to the end of the last exchange, 0 if not known
        self._handshake = 0  # bytes of it
        if self._tcp is not None:  # too few are found when more come in at that very moment
            self._handshake = max(_bytes_read(self._tcp), _bytes_read(self._tcp))
        self.ends_in_alert = False
        self.refusal = ""

    def is_clean(self) -> bool:
        """Return whether the server neither closed it nor, on HTTP/1, spoke out of turn."""
        events = self.events(0)
        return not events or (self.multiplexes and not events[0][1] & _END)

    def has_ended(self) -> bool:
        """Return whether the server closed it, and libcurl has not."""
        events = self.events(0)
        return bool(events) and bool(events[0][1] & _END) and not events[0][1] & _CLOSED

    def quarantine(self) -> None:
        """Let no further request go out on it; those under way stay."""
        self.is_quarantined = True
        # Whoever looks finds what an ended one shows, so that a healthy one needs no other look.
        ended = [(self.descriptor, _END & ~_CLOSED)]
        self.events = lambda wait: ended

    def is_unproven(self) -> bool:
        """Return whether a multiplexed connection was silent for long, and may be forgotten.

        A NAT or a load balancer drops connections without a word. libcurl sends a PING only from
        curl_easy_upkeep, which pycurl does not have. Without TCP_INFO (Linux) it is not known.
        """
        if not self.multiplexes or _TCP_INFO is None:
            return False
        try:
            info = _borrow(self.descriptor).getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 60)
        except OSError:  # HTTP/3 goes over UDP
            return False
        since = (
            int.from_bytes(info[offset : offset + 4], sys.byteorder)
            for offset in (_SINCE_DATA, _SINCE_ACK)
        )
        return min(since) > _UNPROVEN * 1000

    def has_spoken(self) -> bool:
        """Return whether it has something to read, other than its end and what announces that."""
        events = self.events(0)
        if not events or events[0][1] & _END:
            return False  # a server may say why it closes (RFC 9110, section 15.5.9)
        said = _peek(self.descriptor)
        # TLS says goodbye before the end, by an alert.
        return bool(said) and said[:1] != b"\x15" and said != _ALERT

    def look_at_end(self) -> None:
        """Note whether an alert of TLS 1.3 is all that came after the handshake.

        There a server refuses a client certificate, or the lack of one, when the client has begun
        to send. Where the server then closes the connection at once, the client's next send fails,
        and libcurl closes the socket without reading what had come before.
        """
        if self._tcp is not None and self._handshake and not self.ends_in_alert:
            came = _bytes_received(self._tcp) - self._handshake
            self.ends_in_alert = came in _ALERT_SIZES

    def count(self, use: int, size: int, *, ends: bool) -> bool:
        """Return whether a response can be the answer to its request.

        OpenSSL reads ahead: what came together with the last response lies in its buffer, where
        no look at the socket finds it, and is taken for the next answer. But then less was read
        from the socket since than the answer is long. (Without TLS libcurl closes such a
        connection.)

        Args:
            use: the number of the request among those of the connection.
            size: bytes of the response so far, at least.
            ends: the response is complete, just now.
        """
        if self._tcp is None or self.multiplexes:
            return True
        before = self._read
        now = _bytes_read(self._tcp) if use == self.uses else 0
        if ends:
            self._read = now
        return not before or not now or now - before >= size


class _UnixSocketConnection(Connection):
    """All open connections by one Unix socket: they have no ports to be told apart by.

    They are clean if each of them is; one that just gets its answer is not.
    """

    __slots__ = ("_inodes", "_poller")

    def __init__(self, descriptor: int, origin: str) -> None:
        super().__init__(descriptor, False, False, origin)
        self._inodes: dict[int, int] = {}  # by descriptor, whose numbers are used again
        self._poller = _select.poll()
        self.add(descriptor)

    def add(self, descriptor: int) -> None:
        """Note one more."""
        self._inodes[descriptor] = os.fstat(descriptor).st_ino
        self._poller.register(descriptor, _SPEAKS)
        if not self.is_quarantined:
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

    def has_spoken(self) -> bool:
        """Return False: what there is to read may be an answer that was asked for."""
        return False


class _BorrowedSocket(
    _socket.socket
):  # not Python's, whose __init__ costs as much as all else here
    """A socket that is another's to close."""

    # No function in Python: what a signal's handler raises in a finalizer is lost.
    __del__ = _socket.socket.detach


def _borrow(descriptor: int) -> _BorrowedSocket:
    # Whatever it is: unless told, Python asks the system three times.
    return _BorrowedSocket(_ANY_FAMILY, _ANY_KIND, 0, descriptor)


class Connections:
    """The open connections of one curl_multi, or of one handle that performs by itself.

    Args:
        suspects: who spoke out of turn, as far as the engine knows.
    """

    def __init__(self, suspects: Quarantine) -> None:
        self._suspects = suspects
        self._by_route: dict[Route, Connection] = {}
        self._routes: dict[int, Route] = {}  # by descriptor, whose numbers are used again

    def find_clean(self, route: Route, request: Request | None) -> Connection | None:
        """Return the connection if another request may go out on it.

        Args:
            route: as libcurl tells it; one of which nothing is known is not clean.
            request: the one that shall go out.
        """
        connection = self._by_route.get(route)
        if connection is None or connection.events(0) or self._suspects.until:
            return self._judge(connection, request)
        return connection

    def _judge(self, connection: Connection | None, request: Request | None) -> Connection | None:
        if connection is None or connection.multiplexes:
            return connection if connection is not None and connection.is_clean() else None
        assert request is not None
        if connection.has_spoken():
            self._suspects.add(request)
        return connection if connection.is_clean() and not self._suspects.has(request) else None

    def find(self, route: Route) -> Connection | None:
        """Return what is known of a connection, None for nothing."""
        return self._by_route.get(route)

    def spoil(self, route: Route | None) -> None:
        """Forget a connection, so that no further request goes out on it."""
        connection = None if route is None else self._by_route.get(route)
        if connection is None or route is None:
            return
        if isinstance(connection, _UnixSocketConnection):  # which of them it is nobody knows
            connection.quarantine()
            return
        del self._by_route[route], self._routes[connection.descriptor]

    def end(self, connection: Connection) -> None:
        """End a connection that libcurl keeps, though no request may go out on it."""
        route = self._routes.get(connection.descriptor)
        if route is not None and self._by_route.get(route) is connection:
            self.spoil(route)
            if _bound_to(route[3], [connection.descriptor]) is not None:
                shut_down(connection.descriptor)

    def distrust(self, route: Route | None, request: Request) -> None:
        """Use no connection to the server of a request twice, for a while."""
        self.spoil(route)
        self._suspects.add(request)

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
            route: as libcurl tells it.
            sockets: what was opened for it; happy eyeballs try several addresses at once.
            multiplexes: it may speak HTTP/2 or HTTP/3.
            is_tls: it is TLS all the way, or up to a proxy.
            origin: of the request that it was opened for.
        """
        if not route[3]:  # a Unix socket has no route of its own
            may_be_kept = not multiplexes and not is_tls and hasattr(select, "poll")
            return self._add_unnamed(route, sockets[-1], origin) if may_be_kept else None
        # libcurl may have given up the one that it opened, and have taken another for the request.
        descriptor = _bound_to(route[3], sockets)
        if descriptor is None:
            return None
        if descriptor in self._routes:  # what had this number was closed
            self.spoil(self._routes[descriptor])
        if route in self._by_route:
            self.spoil(route)
        self._routes[descriptor] = route
        connection = self._by_route[route] = Connection(descriptor, multiplexes, is_tls, origin)
        return connection

    def _add_unnamed(self, route: Route, descriptor: int, origin: str) -> Connection:
        others = self._by_route.get(route)
        if isinstance(others, _UnixSocketConnection) and not others.are_closed():
            others.add(descriptor)
            return others
        connection = self._by_route[route] = _UnixSocketConnection(descriptor, origin)
        return connection

    def open(self) -> list[Connection]:
        """Return those that are open still; may be called from any thread."""
        return [
            connection
            for route, connection in self._by_route.copy().items()
            if _is_open(connection.descriptor, route[3])
        ]


def _is_open(descriptor: int, port: int) -> bool:
    """Return whether a socket is open at both ends; asks by itself, as any thread may."""
    # libcurl closes one without a word, and the number may be another socket's by now.
    if _bound_to(port, [descriptor]) is None:
        return False
    events = _look_at(descriptor)(0)
    return not events or not events[0][1] & _END


def _bound_to(port: int, sockets: Sequence[int]) -> int | None:
    """Return the socket that has the local port; all others lost, and may be closed by now."""
    for descriptor in reversed(sockets):
        try:
            # The name of a unix socket, which may have the number by now, is text.
            if tuple(_borrow(descriptor).getsockname())[1:2] == (port,):
                return descriptor
        except OSError:
            continue
    return None


def _is_udp(descriptor: int) -> bool:
    kind = _borrow(descriptor).getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)
    return kind == socket.SOCK_DGRAM


def _look_at(descriptor: int) -> Callable[[int], list[tuple[int, int]]]:
    """Return what asks, without a wait, for the events of a socket (poll, as it has no bound)."""
    if not _SPEAKS:  # Windows
        return lambda wait: [(fd, 0) for fd in select.select([descriptor], [], [], wait)[0]]
    poller = _select.poll()
    poller.register(descriptor, _SPEAKS)
    look: Callable[[int], list[tuple[int, int]]] = poller.poll
    return look


def _peek(descriptor: int) -> bytes:
    """Return the start of what a connection has to read, b"" for its end or nothing."""
    try:
        with socket.socket(fileno=os.dup(descriptor)) as twin:
            return twin.recv(5, socket.MSG_PEEK | getattr(socket, "MSG_DONTWAIT", 0))
    except OSError:
        return b""


def shut_down(descriptor: int, is_still: Callable[[int], bool] | None = None) -> None:
    """End a connection, for all its streams; libcurl finds out by reading.

    Args:
        descriptor: its socket, or -1 where it is closed already.
        is_still: says whether it was not closed meanwhile, where another thread may do that.
    """
    if descriptor >= 0:
        with suppress(OSError), _twin_of(descriptor) as twin:
            if is_still is None or is_still(descriptor):
                twin.shutdown(socket.SHUT_RDWR)


@contextmanager
def _twin_of(descriptor: int) -> Iterator[_socket.socket]:
    """Give a socket under a number that nobody else closes; itself where no number is left."""
    try:
        twin = socket.socket(fileno=os.dup(descriptor))
    except OSError:
        yield _borrow(descriptor)
    else:
        with twin:
            yield twin


def _bytes_read(tcp: _BorrowedSocket) -> int:
    """Return how many bytes were read from a socket since it is open, 0 if that is not known."""
    received = _bytes_received(tcp)
    if not received:
        return 0
    try:
        unread = ioctl(tcp, _FIONREAD, _NOTHING)
    except OSError:
        return 0
    return received - int.from_bytes(unread, sys.byteorder)


def _bytes_received(tcp: _BorrowedSocket) -> int:
    """Return how many bytes came to a socket since it is open, 0 if that is not known."""
    assert _TCP_INFO is not None
    try:
        info = tcp.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _BYTES_RECEIVED + 8)
    except OSError:
        return 0
    return int.from_bytes(info[_BYTES_RECEIVED:], sys.byteorder)
