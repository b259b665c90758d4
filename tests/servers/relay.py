"""A relay that silently forgets connections, as NATs and load balancers do.

It forwards bytes or datagrams between clients and a server. What it has forgotten stays open and
takes what is sent, but nothing gets through, and neither side is notified.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import Self

_PIECE = 1 << 16
_SECONDS = 30.0


class _Direction(NamedTuple):
    """What arrives at one socket goes out at another one."""

    source: socket.socket
    target: socket.socket
    connection: int


class _Relay:
    """Forward until forget() is called; use it as a context manager.

    Args:
        port: of the server, on loopback.

    Attributes:
        port: to connect to instead.
        connections: how many clients came.
        swallowed: how many pieces were taken and not forwarded.
        ended: how many connections their clients closed that were forgotten.
    """

    kind = socket.SOCK_STREAM

    def __init__(self, port: int) -> None:
        self._server = ("127.0.0.1", port)
        self.connections = self.swallowed = self.ended = 0
        self._forgotten = 0  # connections up to this number
        self._selector = selectors.DefaultSelector()
        self._inside = socket.socket(socket.AF_INET, self.kind)
        self._inside.bind(("127.0.0.1", 0))
        self.port: int = self._inside.getsockname()[1]
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ended = False

    def forget(self) -> None:
        """Forward nothing more on the connections of now; new ones are forwarded."""
        self._forgotten = self.connections

    def forget_all(self) -> None:
        """Forward nothing more on any connection, those to come included."""
        self._forgotten = 1 << 30

    def is_forgotten(self, connection: int) -> bool:
        """Return whether nothing is forwarded on a connection, counted from 1."""
        return connection <= self._forgotten

    def __enter__(self) -> Self:
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._selector.register(self._inside, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended = True
        self._wake.send(b"x")
        self._thread.join(_SECONDS)
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
            if key.data is not None:
                key.data.target.close()
        self._selector.close()
        self._wake.close()

    def _run(self) -> None:
        while not self._ended:
            for key, _ in self._selector.select():
                if key.fileobj is self._inside:
                    self._greet()
                elif key.data is not None and key.fd in self._selector.get_map():
                    self._forward(key.data)

    def _greet(self) -> None:
        raise NotImplementedError

    def _forward(self, direction: _Direction) -> None:
        raise NotImplementedError

    def _watch(self, source: socket.socket, target: socket.socket) -> None:
        direction = _Direction(source, target, self.connections)
        self._selector.register(source, selectors.EVENT_READ, direction)


class Relay(_Relay):
    """A relay of TCP connections."""

    def __enter__(self) -> Self:
        self._inside.listen(1024)
        return super().__enter__()

    def _greet(self) -> None:
        client, _ = self._inside.accept()
        self.connections += 1
        server = socket.create_connection(self._server, _SECONDS)
        self._watch(client, server)
        self._watch(server, client)

    def _forward(self, direction: _Direction) -> None:
        try:
            piece = direction.source.recv(_PIECE)
            if piece and self.is_forgotten(direction.connection):
                self.swallowed += 1
                return
            direction.target.sendall(piece)
        except OSError:
            piece = b""
        if not piece:
            self._end(direction)

    def _end(self, direction: _Direction) -> None:
        self._selector.unregister(direction.source)
        if self.is_forgotten(direction.connection):
            if direction.source.getpeername() == self._server:
                return  # not even that gets through
            self.ended += 1
        with contextlib.suppress(KeyError):
            self._selector.unregister(direction.target)
        direction.source.close()
        direction.target.close()


class DatagramRelay(_Relay):
    """A relay of UDP datagrams, such as those of QUIC: an address of a client is a connection."""

    kind = socket.SOCK_DGRAM

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._directions: dict[object, _Direction] = {}
        self._clients: dict[int, Any] = {}

    def _greet(self) -> None:
        piece, client = self._inside.recvfrom(_PIECE)
        direction = self._directions.get(client)
        if direction is None:
            self.connections += 1
            server = socket.socket(socket.AF_INET, self.kind)
            server.connect(self._server)
            server.setblocking(False)  # an error that was reported may be gone
            self._watch(server, self._inside)
            direction = self._directions[client] = _Direction(
                server, self._inside, self.connections
            )
            self._clients[server.fileno()] = client
        if self.is_forgotten(direction.connection):
            self.swallowed += 1
        else:
            with contextlib.suppress(OSError):  # the server is gone
                direction.source.send(piece)

    def _forward(self, direction: _Direction) -> None:
        with contextlib.suppress(OSError):
            piece = direction.source.recv(_PIECE)
            if self.is_forgotten(direction.connection):
                self.swallowed += 1
            else:
                direction.target.sendto(piece, self._clients[direction.source.fileno()])
