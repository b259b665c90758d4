"""Where the time of one transfer went."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Timings"]


class Timings(NamedTuple):
    """Tell where the time of the last transfer went, in seconds.

    Attributes:
        queue: waiting for a free handle and, on HTTP/2, for a connection.
        dns: resolving the name; 0 on a reused connection.
        connect: the TCP (or QUIC) handshake; 0 on a reused connection.
        tls: the TLS handshake; 0 on a reused connection.
        first_byte: from the start of the transfer to the first byte of the response.
        total: from the start of the transfer to its end; of a streamed response, to the end of
            its head.
        reused: the connection was open already.
        peer: address and port of the server or proxy, or None when none was reached.
        local: address and port on this side, or None likewise.
    """

    queue: float
    dns: float
    connect: float
    tls: float
    first_byte: float
    total: float
    reused: bool
    peer: tuple[str, int] | None
    local: tuple[str, int] | None = None
