"""A relay that forgets connections without a word, as a NAT or a load balancer may."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from dataclasses import dataclass, field


@dataclass(eq=False)
class _Pair:
    """One connection through the relay; frozen, it is read no more and stays open."""

    ends: dict[socket.socket, socket.socket]
    is_frozen: bool = field(default=False)


class Relay:
    """Pass bytes on to a server on loopback, until `freeze`: use it as a context manager.

    Args:
        port: the server's.

    Attributes:
        port: the relay's own.
        connections: how many were made through it.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._selector = selectors.DefaultSelector()
        self._pairs: list[_Pair] = []
        self._lock = threading.Lock()
        self._stopping = False
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.port: int = self._server.getsockname()[1]
        self._selector.register(self._server, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def freeze(self) -> int:
        """Forget all connections of now; later ones are passed on. Return how many there were."""
        with self._lock:
            living = [pair for pair in self._pairs if not pair.is_frozen]
            for pair in living:
                pair.is_frozen = True
                for end in pair.ends:
                    self._selector.unregister(end)
            return len(living)

    def are_frozen_closed(self) -> bool:
        """Return whether the client has closed all connections that were forgotten."""
        with self._lock:
            frozen = [pair for pair in self._pairs if pair.is_frozen]
        return all(_has_ended(next(iter(pair.ends))) for pair in frozen)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            self._thread.join()
        for pair in self._pairs:
            for end in pair.ends:
                end.close()
        self._selector.close()
        self._server.close()

    def _run(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(1):
                if key.fileobj is self._server:
                    self._accept()
                else:
                    with self._lock:
                        self._pass_on(key.data, key.fileobj)  # type: ignore[arg-type]

    def _accept(self) -> None:
        client, _ = self._server.accept()
        if self._stopping:
            client.close()
            return
        server = socket.create_connection(("127.0.0.1", self._target))
        pair = _Pair({client: server, server: client})
        with self._lock:
            self.connections += 1
            self._pairs.append(pair)
            for end in pair.ends:
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._selector.register(end, selectors.EVENT_READ, pair)

    def _pass_on(self, pair: _Pair, source: socket.socket) -> None:
        if pair.is_frozen or source not in pair.ends:
            return  # it ended, or was frozen, after the look at all sockets
        try:
            data = source.recv(65536)
            if data:
                pair.ends[source].sendall(data)
                return
        except OSError:
            pass
        for end in pair.ends:
            self._selector.unregister(end)
            end.close()
        pair.ends.clear()
        self._pairs.remove(pair)


def _has_ended(end: socket.socket) -> bool:
    """Read what a frozen end has, and return whether that was all."""
    end.setblocking(False)
    try:
        while end.recv(65536):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        pass
    return True
