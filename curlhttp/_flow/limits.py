"""Hold requests back until the limits have room for them, which the policies tell.

A place among those under way comes first, and the rate after it: what was let go by the rate
goes at once, so that the server sees the rate.
"""

from __future__ import annotations

import math

from curlhttp._engine import Clock, Layer, MakeGate, Send
from curlhttp._flow.deadline import LEAST
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.concurrency import ConcurrencyLimit, Lease
from curlhttp._policy.rate import RateLimit, Turn
from curlhttp.exceptions import CircuitBreakerOpen, DeadlineExceeded

__all__ = ["limits"]


def limits(
    rate: RateLimit | None, concurrency: ConcurrencyLimit | None, clock: Clock, gate: MakeGate
) -> Layer:
    """Return the layer that keeps limits, which other clients may share.

    Args:
        rate: requests per second, or None.
        concurrency: requests at once, or None.
        clock: tells the time, and sleeps.
        gate: makes a gate of the engine, to wait at.
    """

    def around(send: Send) -> Send:
        inner = send if rate is None else _rated(rate, clock, gate, send)
        if rate is not None and rate.store is not None:
            from curlhttp._flow.shared_limits import rated_together

            inner = rated_together(rate, clock, gate, send, inner)
        if concurrency is None:
            return inner
        if concurrency.store is not None:
            from curlhttp._flow.shared_limits import counted_together

            inner = counted_together(concurrency, clock, gate, inner)
        return _counted(concurrency, clock, gate, inner)

    return around


# --- per second ---


def _rated(rate: RateLimit, clock: Clock, gate: MakeGate, send: Send) -> Send:
    async def rated(request: Request) -> Response:
        origin = request.url.origin
        if not rate.take(origin, clock.now()):
            await _wait_for_turn(rate, request, clock, gate)
        try:
            return await send(request)
        except CircuitBreakerOpen:
            rate.give_back(origin)  # nothing was sent
            raise

    return rated


async def _wait_for_turn(rate: RateLimit, request: Request, clock: Clock, gate: MakeGate) -> None:
    now, deadline = clock.now(), request.deadline
    # A line that is longer than this is not joined at all: the error comes at once.
    patience = math.inf if deadline is None else deadline - now
    woken = gate()
    turn = Turn(rate, woken.open)
    try:
        rate.join(turn, request.url.origin, now, patience)
        if not turn.is_first:
            # The request before this one may be late, or in an event loop that was stopped.
            await woken.wait(None if deadline is None else patience)
            # Woken by the time limit: the turn has not come.
            if not turn.is_first:
                raise _too_late(rate, request)
        # Asked again after each sleep: an event loop wakes late, and another may have used the
        # time.
        while (seconds := turn.take(now := clock.now())) > 0:
            if deadline is not None and now + seconds > deadline + LEAST:
                raise _too_late(rate, request)
            await clock.sleep(seconds)
    except BaseException as error:
        # Whatever ended the wait, those behind must not wait for a turn that nobody takes.
        turn.leave()
        if isinstance(error, DeadlineExceeded):
            error.request = request
        raise


def _too_late(rate: RateLimit, request: Request) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{request}: the total of {request.timeout.total} s ran out in the "
        f"line for the rate limit of {rate.rate:g} requests per second; it was not sent"
    )


# --- at once ---


def _counted(limit: ConcurrencyLimit, clock: Clock, gate: MakeGate, send: Send) -> Send:
    async def counted(request: Request) -> Response:
        lease = limit.take(request.url.origin)
        if lease is None:
            lease = await _wait_for_lease(limit, request, clock, gate)
        try:
            response = await send(request)
        # BaseException, since a cancelled task has to give its place back as well.
        except BaseException:
            lease.give()
            raise
        # A stream occupies the server until its body has ended or was given up.
        if request.stream:
            response._at_end(lease.end)
        else:
            lease.give()
        return response

    return counted


async def _wait_for_lease(
    limit: ConcurrencyLimit, request: Request, clock: Clock, gate: MakeGate
) -> Lease:
    woken = gate()
    lease = Lease(limit, woken.open)
    try:
        limit.join(lease, request.url.origin)
        # Pool timeout and deadline, whichever comes first.
        await woken.wait(request.pool_seconds(clock.now()))
        if not lease.granted:
            raise limit.no_room(request, clock.now())
        # The policy keeps newcomers out until those that it woke have gone on.
        lease.go_on()
    except BaseException:
        lease.give()
        raise
    return lease
