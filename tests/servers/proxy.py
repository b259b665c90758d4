"""An HTTP proxy (plain or TLS) and a SOCKS proxy, which reach loopback only.

`hosts` gives invented names an address, so that tests need no resolver.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import ipaddress
import selectors
import socket
import ssl
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.servers.app import head
from tests.servers.connection import PIECE, Connection
from tests.servers.listener import Listener
from tests.servers.record import Record

Address = tuple[str, int]
_Reply = Callable[[int], bytes]
_HOP_BY_HOP = {"connection", "proxy-connection", "proxy-authorization", "keep-alive", "te"}


class ProxyRequest(NamedTuple):
    """A request as the proxy got it, headers in their original case and order."""

    method: str
    target: str
    headers: list[tuple[str, str]]

    def header(self, name: str) -> str | None:
        """Return the first value of a field, whatever its case."""
        return next((v for n, v in self.headers if n.lower() == name.lower()), None)


class _Proxy(Listener[Connection]):
    def __init__(
        self,
        credentials: tuple[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        *,
        hosts: Mapping[str, Address] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(context, host=host)
        self.credentials = credentials
        self.hosts = dict(hosts or {})
        self.tunnels = 0

    def connect(self, sock: socket.socket, index: int) -> Connection:
        return Connection(self, sock, index)

    def dial(self, host: str, port: int) -> socket.socket:
        """Connect to a host of `hosts` or of loopback; raises OSError for any other."""
        address = self.hosts.get(host, (host, port))
        if address[0] != "localhost" and not _is_loopback(address[0]):
            raise OSError("not a host of this test")
        sock = socket.create_connection(address)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.adopt(sock)
        return sock

    def tunnel(self, conn: Connection, origin: socket.socket, welcome: bytes) -> None:
        """Confirm the tunnel to the client, and forward bytes both ways until one side closes."""
        with self.changed:
            self.tunnels += 1
            self.changed.notify_all()
        with contextlib.suppress(OSError), selectors.DefaultSelector() as selector:
            conn.send(welcome)
            origin.sendall(conn.take_buffered())
            selector.register(conn.sock, selectors.EVENT_READ, origin)
            selector.register(origin, selectors.EVENT_READ, conn.sock)
            while all(_pass_on(key) for key, _ in selector.select()):
                pass
        self.forget(origin)


def _pass_on(key: selectors.SelectorKey) -> bool:
    source, sink = key.fileobj, key.data
    assert isinstance(source, socket.socket)
    data = source.recv(PIECE)
    if isinstance(source, ssl.SSLSocket):
        while source.pending():
            data += source.recv(PIECE)
    try:
        sink.sendall(data)
    except OSError:
        # A peer that resets a connection may have sent the reason.
        while rest := sink.recv(PIECE):
            source.sendall(rest)
        raise
    return bool(data)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class HTTPProxy(_Proxy):
    """A proxy for absolute-form requests and CONNECT; with a context, spoken to over TLS.

    Args:
        credentials: (user, password) asked for with 407; None lets everyone in.
        context: TLS between client and proxy.
        hosts: invented host name -> (address, port).
        host: the address to bind.
    """

    def __init__(
        self,
        credentials: tuple[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        *,
        hosts: Mapping[str, Address] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(credentials, context, hosts=hosts, host=host)
        self.log: list[ProxyRequest] = []
        self.connect_status: int | None = None
        self.connect_headers: list[tuple[str, str]] = []
        self.close_on_connect = False
        self.stall_on_connect = False

    def reset_counts(self) -> None:
        super().reset_counts()
        self.log.clear()
        self.tunnels = 0

    def serve(self, conn: Connection) -> None:
        while received := conn.read_head():
            record = Record.from_head(received, conn.index)
            self.log.append(ProxyRequest(record.method, record.target, record.headers))
            self.note()
            if not self._is_allowed(record):
                conn.read_body(received)
                _refuse(conn, 407, [("Proxy-Authenticate", 'Basic realm="proxy"')])
            elif record.method == "CONNECT":
                return self._connect(record, conn)
            else:
                conn.answer_expect(received)
                record.body = conn.read_body(received)
                self._forward(record, conn)
        return None

    def _is_allowed(self, record: Record) -> bool:
        if self.credentials is None:
            return True
        pair = base64.b64encode(":".join(self.credentials).encode()).decode("ascii")
        return record.header("proxy-authorization") == f"Basic {pair}"

    def _connect(self, record: Record, conn: Connection) -> None:
        if self.close_on_connect:
            return conn.close()
        if self.stall_on_connect:
            return conn.stall()
        if self.connect_status is not None:
            return _refuse(conn, self.connect_status, self.connect_headers)
        name, _, port = record.target.rpartition(":")
        try:
            origin = self.dial(name.strip("[]"), int(port))
        except OSError:
            return _refuse(conn, 502, [])
        welcome = head(200, self.connect_headers, "Connection established")
        return self.tunnel(conn, origin, welcome)

    def _forward(self, record: Record, conn: Connection) -> None:
        parts = urlsplit(record.target)
        try:
            origin = self.dial(parts.hostname or "", parts.port or 80)
        except OSError:
            return _refuse(conn, 502, [])
        try:
            status, reason, headers, body = _fetch(origin, record)
        except (OSError, http.client.HTTPException):
            return _refuse(conn, 502, [])
        finally:
            self.forget(origin)
        return conn.send(head(status, headers, reason) + body)


def _fetch(origin: socket.socket, record: Record) -> tuple[int, str, list[tuple[str, str]], bytes]:
    """Ask the origin in origin-form; the response is buffered, with Content-Length."""
    kept = [(n, v) for n, v in record.headers if n.lower() not in _HOP_BY_HOP]
    kept = [(n, v) for n, v in kept if n.lower() not in {"transfer-encoding", "content-length"}]
    if record.body or record.header("content-length"):
        kept.append(("Content-Length", str(len(record.body))))
    path = record.path + (f"?{record.query_string}" if record.query_string else "")
    lines = [f"{record.method} {path} HTTP/1.1", *(f"{n}: {v}" for n, v in kept), "", ""]
    origin.sendall("\r\n".join(lines).encode("latin-1") + record.body)
    with http.client.HTTPResponse(origin, method=record.method) as response:
        response.begin()
        body = response.read()
        fields = [(n, v) for n, v in response.getheaders() if n.lower() != "transfer-encoding"]
        if response.getheader("content-length") is None and response.status not in {204, 304}:
            fields.append(("Content-Length", str(len(body))))
        return response.status, response.reason, fields, body


def _refuse(conn: Connection, status: int, headers: list[tuple[str, str]]) -> None:
    body = b"the proxy says no"
    conn.send(head(status, [("Content-Length", str(len(body))), *headers]) + body)


class SOCKSProxy(_Proxy):
    """A proxy of SOCKS5 (IPv4, IPv6, names; user and password) and of SOCKS4 and 4a.

    Args:
        credentials: (user, password) asked for (SOCKS5 only); None lets everyone in.
        hosts: invented host name -> (address, port).
        host: the address to bind.
    """

    scheme = "socks5h"

    def __init__(
        self,
        credentials: tuple[str, str] | None = None,
        *,
        hosts: Mapping[str, Address] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(credentials, hosts=hosts, host=host)
        self.log: list[Address] = []
        self.failed_logins = 0
        self.fail_with: int | None = None

    def reset_counts(self) -> None:
        super().reset_counts()
        self.log.clear()
        self.tunnels = self.failed_logins = 0

    def serve(self, conn: Connection) -> None:
        if conn.read_exactly(1) == b"\x05":
            self._socks5(conn)
        else:
            self._socks4(conn)

    def _socks5(self, conn: Connection) -> None:  # RFC 1928
        methods = conn.read_exactly(conn.read_exactly(1)[0])
        method = 2 if self.credentials else 0
        if method not in methods:
            return conn.send(b"\x05\xff")
        conn.send(bytes((5, method)))
        if self.credentials and not self._login(conn, self.credentials):
            return None
        _, _, _, kind = conn.read_exactly(4)
        name = _read_host(conn, kind)
        (port,) = struct.unpack("!H", conn.read_exactly(2))
        return self._open(conn, name, port, lambda code: bytes((5, code, 0, 1)) + bytes(6))

    def _login(self, conn: Connection, credentials: tuple[str, str]) -> bool:  # RFC 1929
        conn.read_exactly(1)
        given = [conn.read_exactly(conn.read_exactly(1)[0]) for _ in range(2)]
        good = given == [part.encode() for part in credentials]
        self.failed_logins += not good
        conn.send(b"\x01\x00" if good else b"\x01\x01")
        return good

    def _socks4(self, conn: Connection) -> None:
        _, port, address = struct.unpack("!BH4s", conn.read_exactly(7))
        _read_zero_ended(conn)  # the user
        # SOCKS4a: the address 0.0.0.x says that a name follows.
        invented = address[:3] == bytes(3) and address[3]
        name = _read_zero_ended(conn) if invented else socket.inet_ntoa(address)
        self._open(conn, name, port, lambda code: bytes((0, 91 if code else 90)) + bytes(6))

    def _open(self, conn: Connection, name: str, port: int, response: _Reply) -> None:
        self.log.append((name, port))
        self.note()
        if self.fail_with is not None:
            return conn.send(response(self.fail_with))
        try:
            origin = self.dial(name, port)
        except OSError:
            return conn.send(response(4))  # host unreachable
        return self.tunnel(conn, origin, response(0))


def _read_host(conn: Connection, kind: int) -> str:
    if kind == 1:
        return socket.inet_ntop(socket.AF_INET, conn.read_exactly(4))
    if kind == 4:
        return socket.inet_ntop(socket.AF_INET6, conn.read_exactly(16))
    return conn.read_exactly(conn.read_exactly(1)[0]).decode("latin-1")


def _read_zero_ended(conn: Connection) -> str:
    return b"".join(iter(lambda: conn.read_exactly(1), b"\0")).decode("latin-1")
