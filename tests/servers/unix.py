"""A Unix socket that forwards to a server on a port."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from types import TracebackType

from tests.servers.listener import Listener

_PIECE = 65536


class UnixDoor:
    """Listen on a Unix socket, and pass bytes to and fro; use it as a context manager.

    Args:
        path: of the socket.
        server: where the bytes go.

    Attributes:
        connections: how many came.
    """

    def __init__(self, path: Path, server: Listener) -> None:  # type: ignore[type-arg]
        self.path = path
        self.connections = 0
        self._server = server
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> UnixDoor:
        self._listening.bind(str(self.path))
        self._listening.listen()
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for each in (self._listening, *self._open):
            _shut(each)
        for thread in self._threads:
            thread.join()
        for each in (self._listening, *self._open):
            each.close()

    def close_all(self) -> None:
        """Close the connections that are there, and wait until their clients can see it."""
        for each in self._open:
            _shut(each)

    def say(self, text: bytes) -> None:
        """Send unsolicited bytes on the newest connection."""
        self._open[-2].sendall(text)

    def _start(self, work: object, *arguments: socket.socket) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            far = socket.create_connection((self._server.host, self._server.port))
            self._open += [near, far]
            self._start(_pass_on, near, far)
            self._start(_pass_on, far, near)


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE):
            sink.sendall(piece)
    _shut(source)
    _shut(sink)


def _shut(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
