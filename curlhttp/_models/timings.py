"""Where the time of one transfer went."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["MICROSECOND", "NO_TIME", "Counted", "Timings", "timings_of"]

MICROSECOND = 1e-6

Counted: TypeAlias = tuple[
    float, int, int, tuple[str, str, int, int] | None, tuple[int, int, int] | None
]
"""Timings as libcurl counts them, of which few are ever looked at.

Seconds in the queue; microseconds to the first byte and in all; addresses and ports, or None when
none was reached; microseconds until the name was known, the connection there, and secured (0
without TLS), or None where the connection was open already.
"""


class Timings(NamedTuple):
    """Hold where the time of the last transfer went, in seconds.

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


NO_TIME = Timings(0, 0, 0, 0, 0, 0, False, None)
"""Those of what took no time, or of which none is known."""


def timings_of(counted: Counted) -> Timings:
    """Return the timings of a transfer.

    Args:
        counted: as libcurl gave them.
    """
    queue, first_byte, total, route, steps = counted
    named, connected, secured = steps or (0, 0, 0)
    return Timings(
        queue,
        dns=named * MICROSECOND,
        connect=max(0, connected - named) * MICROSECOND,
        tls=max(0, secured - connected) * MICROSECOND if secured else 0.0,
        first_byte=first_byte * MICROSECOND,
        total=total * MICROSECOND,
        reused=steps is None,
        peer=None if route is None else (route[0], route[2]),
        local=None if route is None else (route[1], route[3]),
    )
