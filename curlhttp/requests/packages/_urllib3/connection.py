"""urllib3.connection: the constants that code takes from its classes; libcurl connects."""

from __future__ import annotations

import socket
from typing import Any

__all__ = ["HTTPConnection", "HTTPSConnection", "VerifiedHTTPSConnection", "port_by_scheme"]

port_by_scheme = {"http": 80, "https": 443}


class HTTPConnection:
    """Hold where a connection leads to.

    Args:
        host: its host.
        port: its port.
        kw: what else urllib3 would connect with.
    """

    default_port = 80
    default_socket_options = [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
    is_verified = False
    proxy_is_verified: bool | None = None
    sock: Any = None

    def __init__(self, host: str, port: int | None = None, **kw: Any) -> None:
        self.host = host
        self.port = self.default_port if port is None else port
        self.socket_options = kw.pop("socket_options", self.default_socket_options)
        self.kw = kw

    def __str__(self) -> str:
        return f"{type(self).__name__}(host={self.host!r}, port={self.port!r})"

    def connect(self) -> None:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("libcurl makes the connections here; install urllib3 for its own")

    def close(self) -> None:
        """Do nothing."""


class HTTPSConnection(HTTPConnection):
    """Hold where a connection with TLS leads to."""

    default_port = 443


VerifiedHTTPSConnection = HTTPSConnection
