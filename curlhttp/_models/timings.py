"""How long each phase of a transfer took."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

__all__ = ["MICROSECOND", "NO_TIME", "CurlTimings", "Timings", "make_timings"]

MICROSECOND = 1e-6

CurlTimings: TypeAlias = tuple[
    float, int, int, tuple[str, str, int, int] | None, tuple[int, int, int] | None
]
"""Timings as libcurl counts them; they become Timings when somebody looks at them.

Seconds in the queue; microseconds to the first byte and in total; addresses and ports, or None when
no server was reached; microseconds until the name was resolved, the connection made, and TLS ready
(0 without TLS), or None for a reused connection.
"""


class Timings(NamedTuple):
    """Hold the duration of each phase of the last transfer, in seconds.

    Attributes:
        queue: waiting for a free handle and, on HTTP/2, for a connection.
        dns: resolving the name; 0 on a reused connection.
        connect: the TCP (or QUIC) handshake; 0 on a reused connection.
        tls: the TLS handshake; 0 on a reused connection.
        first_byte: from the start of the transfer to the first byte of the response.
        total: from the start of the transfer to its end; of a streamed response, to the end of
            its head.
        reused: whether the connection was already open.
        peer: address and port of the server or proxy, or None if it was not reached.
        local: address and port on this side, or None.
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
"""For responses that took no time, or whose timings are unknown."""


def make_timings(counted: CurlTimings) -> Timings:
    """Return the timings of a transfer.

    Args:
        counted: the numbers from libcurl.
    """
    queue, first_byte, total, route, steps = counted
    dns = connect = tls = 0.0
    if steps is not None:
        named, connected, secured = steps
        dns = named * MICROSECOND
        connect = max(0, connected - named) * MICROSECOND
        tls = max(0, secured - connected) * MICROSECOND if secured else 0.0
    return Timings(
        queue,
        dns,
        connect,
        tls,
        first_byte * MICROSECOND,
        total * MICROSECOND,
        steps is None,
        None if route is None else (route[0], route[2]),
        None if route is None else (route[1], route[3]),
    )
