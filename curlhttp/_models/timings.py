"""Where the time of one transfer went."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["MICROSECOND", "NO_TIME", "ReusedTimes", "Timings", "times_of_reused"]

MICROSECOND = 1e-6

ReusedTimes: TypeAlias = tuple[float, int, int, tuple[str, str, int, int]]
"""Seconds in the queue, microseconds to the first byte and in all, and the addresses and ports."""


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


def times_of_reused(times: ReusedTimes) -> Timings:
    """Return the timings of a transfer on a connection that was open already.

    Args:
        times: as libcurl gave them.
    """
    queue, first_byte, total, (peer, local, peer_port, local_port) = times
    return Timings(
        queue,
        0.0,
        0.0,
        0.0,
        first_byte * MICROSECOND,
        total * MICROSECOND,
        True,
        (peer, peer_port),
        (local, local_port),
    )
