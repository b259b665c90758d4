"""An HTTP/1.1 application with keep-alive, made for cheap responses and for counting.

Parses just enough of a request to route it; the routes are in `routes`, `auth` and `wire`.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus

from tests.servers.auth import AUTH
from tests.servers.connection import Connection
from tests.servers.listener import Listener
from tests.servers.record import Record
from tests.servers.routes import SHARED, Headers, Memory
from tests.servers.wire import UNREAD, WIRE

Answer = Callable[[Record, "AppConnection"], None]
_REASONS = {status.value: status.phrase for status in HTTPStatus}
_JOINED = 65536


class AppConnection(Connection):
    """A connection as a route sees it: everything of `Connection`, and whole responses."""

    def __init__(self, server: AppServer, sock: socket.socket, index: int) -> None:
        super().__init__(server, sock, index)
        self.server = server
        self.memory = server.memory
        self.closing = False
        self.without_body = False

    def reply(
        self, status: int = 200, body: bytes = b"", headers: Headers = (), reason: str | None = None
    ) -> None:
        """Send one response with Content-Length (none for 1xx, 204 and 304)."""
        bare = status < 200 or status in {204, 304}
        length = [] if bare else [("Content-Length", str(len(body)))]
        if self.closing:
            length.append(("Connection", "close"))
        start = head(status, [*headers, *length], reason)
        if bare or self.without_body or not body:
            self.send(start)
        elif len(body) <= _JOINED:
            self.send(start + body)
        else:
            self.send(start)
            self.send(body)

    def begin(self, status: int = 200, headers: Headers = ()) -> bool:
        """Send a head alone; returns whether a body may follow (not on HEAD)."""
        self.send(head(status, headers))
        return not self.without_body

    def chunk(self, data: bytes, *, is_last: bool = False) -> None:
        """Send one chunk, with the end of the body if it is the last; an empty one is the end."""
        self.send(b"%x\r\n%b\r\n%b" % (len(data), data, b"0\r\n\r\n" if is_last else b""))


class AppServer(Listener[AppConnection]):
    """The application. `requests` has a `Record` of each request, from its head on."""

    def __init__(self, context: ssl.SSLContext | None = None, *, host: str = "127.0.0.1") -> None:
        super().__init__(context, host=host)
        self.requests: list[Record] = []
        self.memory = Memory()
        self.routes: dict[str, Answer] = {**SHARED, **AUTH, **WIRE, "/404": not_found}
        self.unread: set[str] = set(UNREAD)

    def route(self, path: str, respond: Answer, *, read_body: bool = True) -> None:
        """Let `respond(record, conn)` serve `path` and what is below it.

        Args:
            path: an exact path of one or more segments.
            respond: replies on `conn`; may use all of `AppConnection`.
            read_body: False to have the body still unread, for `conn.iter_body(record.raw)`.
        """
        self.routes[path] = respond
        if not read_body:
            self.unread.add(path)

    def reset_counts(self) -> None:
        super().reset_counts()
        self.requests.clear()
        self.memory.counts.clear()

    def connect(self, sock: socket.socket, index: int) -> AppConnection:
        return AppConnection(self, sock, index)

    def serve(self, conn: AppConnection) -> None:
        while not conn.closing:
            received = conn.read_head()
            if not received:
                return
            self._answer(received, conn)

    def _answer(self, received: bytes, conn: AppConnection) -> None:
        try:
            record = Record.from_head(received, conn.index)
        except ValueError:
            conn.closing = True
            return conn.reply(400, b"not a request")
        self.requests.append(record)
        self.note()
        conn.without_body = record.method == "HEAD"
        lower = received.lower()
        conn.closing = b"\r\nconnection: close" in lower or record.version == "1.0"
        path = find_route(self.routes, record.path)
        if path not in self.unread:
            # The common GET has neither field; a search each is cheaper than two patterns.
            record.chunked = b"\r\ntransfer-encoding:" in lower
            if record.chunked or b"\r\ncontent-length:" in lower:
                conn.answer_expect(received)
                record.body = conn.read_body(received)
                record.length = len(record.body)
        return self.routes[path](record, conn)


def find_route(routes: Mapping[str, object], path: str) -> str:
    """Return the key of the route for `path`: itself, else its first segment, else "/404"."""
    if path in routes:
        return path
    first = "/" + path.split("/", 2)[1] if "/" in path else ""
    return first if first in routes and first != "/" else "/404"


def head(status: int, headers: Headers, reason: str | None = None) -> bytes:
    """Return the bytes of a status line and header fields, with the blank line."""
    if reason is None:
        reason = _REASONS.get(status, "Unnamed")
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers])
    return f"HTTP/1.1 {status} {reason}\r\n{fields}\r\n".encode("latin-1")


def not_found(record: Record, conn: AppConnection) -> None:
    conn.reply(404, b"no such route")
