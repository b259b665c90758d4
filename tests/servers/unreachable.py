"""Unreachable addresses: connecting is refused, or never ends."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator


@contextlib.contextmanager
def refused_port(host: str = "127.0.0.1") -> Iterator[int]:
    """Yield a port that refuses connections, and keep others from taking it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as bound:
        bound.bind((host, 0))
        yield bound.getsockname()[1]


class BlackHole:
    """A port whose backlog is full, so that connecting to it never ends (Linux drops the SYN)."""

    def __enter__(self) -> BlackHole:
        self._sockets = [socket.socket()]
        self._sockets[0].bind(("127.0.0.1", 0))
        self._sockets[0].listen(0)
        self.port: int = self._sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", self.port))
            self._sockets.append(filler)
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self._sockets:
            sock.close()
