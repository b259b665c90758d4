"""How long each phase of a transfer took, and the attempts of a request with their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from curlhttp._http.named_tuple import NamedTuple

if TYPE_CHECKING:
    from curlhttp._http.request import ClientRequest
    from curlhttp.exceptions import RequestException

MICROSECOND = 1e-6

CurlTimings: TypeAlias = tuple[
    float, int, int, tuple[str, str, int, int] | None, tuple[int, int, int] | None
]
"""Timings as libcurl counts them, which become Timings when they are first read.

Seconds in the queue; microseconds to the first byte and in total; addresses and ports, or None when
no server was reached; microseconds until the name was resolved, the connection made, and TLS ready
(0 without TLS), or None for a reused connection.
"""


class Timings(NamedTuple):
    """The duration of each phase of the last transfer, in seconds.

    Attributes:
        queue: waiting for a connection of the pool; 0 if one was free.
        dns: resolving the name; 0 on a reused connection.
        connect: the TCP (or QUIC) handshake; 0 on a reused connection.
        tls: the TLS handshake; 0 on a reused connection.
        first_byte: from the start of the transfer to the first byte of the response.
        total: from the start of the transfer to its end; of a streamed response, to the end of
            its head.
        reused: whether the connection was already open.
        peer: address and port of the server or proxy, or None if it was not reached.
        local: address and port on this side, or None.
        limit: waiting for a ConcurrencyLimit or an AdaptiveLimit, before the transfer.
        rate: waiting for a RateLimit, before the transfer.
        backoff: waiting to retry or to reconnect, before the transfer; also if the server asked for
            it.
        coalesce: waiting for the transfer of an equal request, which began before this one; the
            other times are those of that transfer.
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
    limit: float = 0.0
    rate: float = 0.0
    backoff: float = 0.0
    coalesce: float = 0.0


NO_TIME = Timings(0, 0, 0, 0, 0, 0, False, None)
"""For responses that took no time, or whose timings are unknown."""


def make_timings(counted: CurlTimings, request: ClientRequest | None = None) -> Timings:
    """Return the timings of a transfer.

    Args:
        counted: the numbers from libcurl.
        request: it carried, which may have waited before that; or None.
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
        *(() if request is None else _get_seconds(request)),
    )


# --- what a request waited for before its transfer ---

_WAITS = "curlhttp.waits"


def note_wait(request: ClientRequest, reason: str, seconds: float) -> ClientRequest:
    """Return a copy of a request that has waited.

    Args:
        request: of the next attempt. Later attempts are not derived from the copy.
        reason: see OriginStats.waits.
        seconds: how long.
    """
    made, waits = request.copy(), get_waits(request)
    waits = {**waits, reason: waits.get(reason, 0.0) + seconds}
    made._extend(_WAITS, waits)
    return made


def get_waits(request: ClientRequest) -> dict[str, float]:
    """Return what a request waited for before its transfer, in seconds by reason."""
    found: dict[str, float] = (getattr(request, "extensions", None) or {}).get(_WAITS, {})
    return found


def drop_waits(request: ClientRequest) -> None:
    """Remove the waits of an earlier attempt from a request that was derived from it."""
    if request.extensions is not None:
        request.extensions.pop(_WAITS, None)


def _get_seconds(request: ClientRequest) -> tuple[float, float, float]:
    waits = get_waits(request)
    backoff = sum(waits.get(name, 0.0) for name in ("backoff", "retry_after", "reconnect"))
    return waits.get("limit", 0.0), waits.get("rate", 0.0), backoff


def add_waits(times: Timings, request: ClientRequest) -> Timings:
    """Return timings with what the request waited for before its transfer."""
    if not get_waits(request):
        return times
    limit, rate, backoff = _get_seconds(request)
    return times._replace(limit=limit, rate=rate, backoff=backoff)


# --- Attempts of a request and their results ---


class Attempt(NamedTuple):
    """One attempt of a request, as a RetryPolicy counts them.

    Attributes:
        number: starts at 1.
        status_code: of the response, or None if there was none.
        error: raised instead of a response, or None; without its traceback unless it is the last.
        elapsed: seconds that it took; for a streamed response, to the end of its head.
        delay: seconds until the next attempt, None for the last.
    """

    number: int
    status_code: int | None
    error: RequestException | None
    elapsed: float
    delay: float | None
