"""A server whose handler writes the bytes: for broken, truncated and hostile responses.

Adds nothing to what the handler sends.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterable

from tests.servers.connection import Connection
from tests.servers.listener import Listener

Handler = Callable[["RawConnection"], None]


class RawConnection(Connection):
    """A connection that keeps the requests it reads in its server's `requests`."""

    def __init__(self, server: RawServer, sock: socket.socket, index: int) -> None:
        super().__init__(server, sock, index)
        self.server = server

    def read_request(self, *, answer_expect: bool = True) -> tuple[bytes, bytes]:
        """Return (head, body) without chunk framing; (b"", b"") when the peer has closed.

        A request cut off in its body counts as seen, with the part that came.
        """
        head = self.read_head()
        if not head:
            return b"", b""
        body = bytearray()
        try:
            if answer_expect:
                self.answer_expect(head)
            for piece in self.iter_body(head):
                body += piece
        finally:
            self.server.requests.append(head + body)
            self.server.note()
        return head, bytes(body)


class RawServer(Listener[RawConnection]):
    """Run `handler(conn)` in a thread for each connection; it is closed when that returns."""

    def __init__(
        self,
        handler: Handler,
        context: ssl.SSLContext | None = None,
        *,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(context, host=host)
        self.handler = handler
        self.requests: list[bytes] = []

    def connect(self, sock: socket.socket, index: int) -> RawConnection:
        return RawConnection(self, sock, index)

    def serve(self, conn: RawConnection) -> None:
        self.handler(conn)

    def reset_counts(self) -> None:
        super().reset_counts()
        self.requests.clear()


def response(
    body: bytes = b"",
    status: str = "200 OK",
    headers: Iterable[tuple[str, str]] = (),
) -> bytes:
    """Return the bytes of a response with Content-Length."""
    fields = [("Content-Length", str(len(body))), *headers]
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


def respond(*payloads: bytes) -> Handler:
    """Respond to each request on any connection with the next payload, the last again and again."""
    left = list(payloads)
    lock = threading.Lock()

    def handler(conn: RawConnection) -> None:
        while conn.read_request()[0]:
            with lock:
                payload = left.pop(0) if len(left) > 1 else left[0]
            conn.send(payload)

    return handler


def respond_and_close(payload: bytes) -> Handler:
    """Respond to the first request of each connection, then close."""

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(payload)

    return handler


def respond_and_reset(payload: bytes) -> Handler:
    """Respond to the first request of each connection, then send RST."""

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(payload)
            conn.reset()

    return handler


def respond_and_stall(payload: bytes) -> Handler:
    """Respond to the first request of each connection, then say nothing more."""

    def handler(conn: RawConnection) -> None:
        if conn.read_request()[0]:
            conn.send(payload)
            conn.stall()

    return handler


def close_at_once(conn: RawConnection) -> None:
    """Close every connection before reading (a handler)."""
    conn.close()


def reset_at_once(conn: RawConnection) -> None:
    """Send RST on every connection before reading (a handler)."""
    conn.reset()


def stall_at_once(conn: RawConnection) -> None:
    """Accept and never say anything (a handler)."""
    conn.stall()
