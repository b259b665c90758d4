"""The application over HTTP/2 (ALPN h2 or prior knowledge).

A client that speaks HTTP/1.1 gets `AppServer`; the HTTP/2 loop is in `http2_session`.
"""

from __future__ import annotations

import ssl

from tests.servers.app import AppConnection, AppServer
from tests.servers.http2_routes import H2_ROUTES
from tests.servers.http2_session import Goaway, Reset, Session
from tests.servers.http2_stream import StreamAnswer
from tests.servers.routes import hello

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class H2Server(AppServer):
    """The application over HTTP/2.

    Args:
        context: TLS with ALPN h2; None for prior knowledge.
        host: the address to bind.
        max_concurrent_streams: announced in SETTINGS; a stream too many gets REFUSED_STREAM.
        window: bytes a client may send on one stream before it is given more.
        reads: bodies; else a client gets to send no more than the window.
    """

    def __init__(
        self,
        context: ssl.SSLContext | None = None,
        *,
        host: str = "127.0.0.1",
        max_concurrent_streams: int = 100,
        window: int = 1 << 20,
        reads: bool = True,
    ) -> None:
        super().__init__(context, host=host)
        self.max_concurrent_streams = max_concurrent_streams
        self.window = window
        self.reads = reads
        self.max_streams = 0
        self.resets: list[Reset] = []
        self.goaways: list[Goaway] = []
        self.refused = 0
        self.ignored = 0
        self.stream_routes: dict[str, StreamAnswer] = dict(H2_ROUTES)
        self.goaway_limit = 0
        self.routes["/http11-required"] = hello  # where the client comes back

    def stream_route(self, path: str, respond: StreamAnswer) -> None:
        """Let `respond(record, stream)` serve `path` over HTTP/2, once the body is in."""
        self.stream_routes[path] = respond

    def goaway_after(self, count: int) -> None:
        """Send GOAWAY with the `count`-th request of each connection, and close after its response.

        Streams behind it are ignored (counted in `ignored`), as RFC 9113 section 6.8 has it.
        0 switches it off.
        """
        self.goaway_limit = count

    def reset_counts(self) -> None:
        super().reset_counts()
        self.max_streams = self.refused = self.ignored = 0
        self.resets.clear()
        self.goaways.clear()

    def serve(self, conn: AppConnection) -> None:
        if conn.starts_with(PREFACE):
            Session(self, conn).run()
        else:
            super().serve(conn)
