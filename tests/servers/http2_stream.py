"""One HTTP/2 stream, as the routes see it: whole responses, chunks, and refusals.

Queues what it is given; the session sends it as flow control allows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from tests.servers.record import Record
from tests.servers.routes import Headers

if TYPE_CHECKING:
    from tests.servers.http2_session import Session


class Stream:
    """One stream as a route sees it."""

    def __init__(self, session: Session, record: Record) -> None:
        self.session = session
        self.server = session.server
        self.memory = session.server.memory
        self.record = record
        self.id = record.stream
        self.parts: list[bytes] = []
        self.checksum = hashlib.sha256()
        self.echoes = False
        self.trailers: Headers = ()
        self.output: Iterator[bytes] | None = None
        self.piece = b""

    def reply(
        self, status: int = 200, body: bytes = b"", headers: Headers = (), reason: str | None = None
    ) -> None:
        """Send one response with content-length; `reason` is for HTTP/1.1."""
        bare = status in {204, 304}
        length = [] if bare else [("content-length", str(len(body)))]
        self.stream(status, [body] if body and not bare else [], [*headers, *length])

    def stream(self, status: int, body: Iterable[bytes], headers: Headers = ()) -> None:
        """Send a head, then `body` as fast as flow control lets it; nothing of it on HEAD."""
        self.head(status, headers)
        self.output = iter(() if self.record.method == "HEAD" else body)
        self.session.sending[self.id] = self

    def head(self, status: int, headers: Headers = ()) -> None:
        """Send a head alone, of a response (that may stall) or an informational one."""
        fields = [(":status", str(status)), *((name.lower(), value) for name, value in headers)]
        self.session.h2.send_headers(self.id, fields)

    def send(self, data: bytes) -> None:
        """Send some body at once, and leave the stream open; it must fit the window."""
        self.session.h2.send_data(self.id, data)

    def reset(self, code: int) -> None:
        """Send RST_STREAM with an error code of RFC 9113 section 7."""
        self.session.h2.reset_stream(self.id, code)
        self.session.end(self)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do `action` in `seconds`, unless the stream has ended by then."""
        self.session.later(seconds, self, action)

    def close_connection(self) -> None:
        """Close the whole connection without a GOAWAY, after queued data is sent."""
        self.session.closing = True

    def goaway(self, code: int = 0, *, processed: bool = True) -> None:
        """Send GOAWAY; the last stream is this one, or with `processed=False` one before it."""
        self.session.goaway(self.id if processed else max(self.id - 2, 0), code)


StreamAnswer = Callable[[Record, Stream], None]
