"""One accepted connection: buffered reading of HTTP/1 messages, and every way to end it.

Knows framing only; servers choose the response.
"""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.servers.listener import Listener

PIECE = 65536
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:[^\r]*chunked", re.IGNORECASE)
_EXPECT = re.compile(rb"\r\nexpect:[ \t]*100-continue", re.IGNORECASE)


class Connection:
    """A connection as its handler sees it, in the handler's own thread.

    `index` counts the server's connections from 0. `trailers` are those of the last chunked body.
    """

    def __init__(self, server: Listener[Any], sock: socket.socket, index: int) -> None:
        self.listener = server
        self.sock = sock
        self.index = index
        self.trailers: list[bytes] = []
        self._buffer = b""

    # -- reading

    def read_head(self) -> bytes:
        """Return one message head with its blank line; b"" when the peer has closed."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not self._fill():
                return b""
        return self._take(end + 4)

    def read_body(self, head: bytes) -> bytes:
        """Return the whole body announced by `head`, without its chunk framing."""
        return b"".join(self.iter_body(head))

    def iter_body(self, head: bytes, piece: int = PIECE) -> Iterator[bytes]:
        """Yield the body announced by `head` in pieces of at most `piece` bytes."""
        if _CHUNKED.search(head):
            yield from self._iter_chunks(piece)
        elif found := _LENGTH.search(head):
            yield from self._iter_exactly(int(found[1]), piece)

    def read_exactly(self, length: int) -> bytes:
        """Return `length` bytes; raises ConnectionError when the peer closes before."""
        return b"".join(self._iter_exactly(length, PIECE))

    def read_line(self) -> bytes:
        """Return one line with its CRLF; raises ConnectionError when the peer closes before."""
        while (end := self._buffer.find(b"\r\n")) < 0:
            if not self._fill():
                raise ConnectionError("the peer closed in the middle of a line")
        return self._take(end + 2)

    def starts_with(self, prefix: bytes) -> bool:
        """Return whether the unread bytes start with `prefix`, waiting for as many as needed."""
        while len(self._buffer) < len(prefix) and prefix.startswith(self._buffer):
            if not self._fill():
                return False
        return self._buffer.startswith(prefix)

    def take_buffered(self) -> bytes:
        """Return the bytes received and not yet read."""
        return self._take(len(self._buffer))

    def _iter_exactly(self, length: int, piece: int) -> Iterator[bytes]:
        while length:
            if not self._buffer and not self._fill(min(piece, PIECE)):
                raise ConnectionError("the peer closed in the middle of a body")
            data = self._take(min(length, piece))
            length -= len(data)
            yield data

    def _iter_chunks(self, piece: int) -> Iterator[bytes]:
        while size := int(self.read_line().split(b";")[0], 16):
            yield from self._iter_exactly(size, piece)
            self.read_line()
        self.trailers = list(iter(lambda: self.read_line().rstrip(b"\r\n"), b""))

    def _fill(self, most: int = PIECE) -> bool:
        data = self.sock.recv(most)
        self._buffer += data
        return bool(data)

    def _take(self, count: int) -> bytes:
        buffer = self._buffer
        if count >= len(buffer):
            self._buffer = b""
            return buffer
        self._buffer = buffer[count:]
        return buffer[:count]

    # -- writing and ending

    def send(self, data: bytes | memoryview) -> None:
        """Send all of `data`."""
        self.sock.sendall(data)

    def answer_expect(self, head: bytes) -> None:
        """Send 100 Continue if `head` asks for it."""
        if _EXPECT.search(head):
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def wait_closed(self, timeout: float | None = None) -> bool:
        """Block until the peer closes or the server stops; False after `timeout` seconds.

        What the peer sends meanwhile is kept for the next read.
        """
        end = None if timeout is None else time.monotonic() + timeout
        try:
            while True:
                # A timeout of 0 would mean non-blocking, which recv reports otherwise.
                self.sock.settimeout(None if end is None else max(end - time.monotonic(), 1e-6))
                if not self._fill():
                    return True
        except TimeoutError:
            return False
        except OSError:
            return True
        finally:
            with contextlib.suppress(OSError):
                self.sock.settimeout(None)

    def stall(self) -> None:
        """Do nothing until the peer closes or the server stops."""
        self.wait_closed()

    def finish_and_close(self) -> None:
        """Send FIN, throw away what the peer still sends, then close.

        Closing with unread bytes would send RST, and the peer could lose the response.
        """
        with contextlib.suppress(OSError):
            self._end_tls()
            socket.socket.shutdown(self.sock, socket.SHUT_WR)
            while socket.socket.recv(self.sock, PIECE):
                pass
        self.listener.forget(self.sock)

    def close(self) -> None:
        """Close in good order (close_notify first on TLS). Closing twice is fine."""
        with contextlib.suppress(OSError, ValueError):
            self._end_tls()
        self.listener.forget(self.sock)

    def cut(self) -> None:
        """Close with a plain FIN, on TLS without the close_notify that ends a stream properly."""
        self.listener.forget(self.sock)

    def reset(self) -> None:
        """Close with RST."""
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.listener.forget(self.sock)

    def _end_tls(self) -> None:
        if isinstance(self.sock, ssl.SSLSocket) and self.sock.fileno() >= 0:
            # Non-blocking: unwrap() sends our close_notify, then would wait for the peer's.
            self.sock.settimeout(0)
            try:
                self.sock.unwrap()
            except (ssl.SSLError, ValueError):
                pass
            finally:
                self.sock.settimeout(None)
