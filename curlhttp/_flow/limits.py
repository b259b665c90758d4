"""Delay each request until the concurrency limit, then the rate limit, admits it.

A place among those under way comes first, and the rate after it: what was let go by the rate
goes at once, so that the server sees the rate.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from functools import partial
from typing import cast

from curlhttp._engine.engine import Clock, Layer, MakeWaiter, Send
from curlhttp._flow.redirects import LEAST
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.limits import ConcurrencyLimit, Lease, RateLimit, Reservation
from curlhttp._policy.store import Answer, Store, StoreCommand, seconds
from curlhttp._policy.token_auth import SharedLease, pause
from curlhttp.exceptions import CircuitBreakerOpen, DeadlineExceeded, StoreError

__all__ = ["asked", "limits"]


def limits(
    rate: RateLimit | None,
    concurrency: ConcurrencyLimit | None,
    clock: Clock,
    make_waiter: MakeWaiter,
) -> Layer:
    """Return the layer that keeps limits, which other clients may share.

    Args:
        rate: requests per second, or None.
        concurrency: requests at once, or None.
        clock: tells the time, and sleeps.
        make_waiter: makes a waiter of the engine.
    """

    def around(send: Send) -> Send:
        inner = send if rate is None else _rated(rate, clock, make_waiter, send)
        if rate is not None and rate.store is not None:
            inner = rated_together(rate, clock, make_waiter, send, inner)
        if concurrency is None:
            return inner
        if concurrency.store is not None:
            inner = counted_together(concurrency, clock, make_waiter, inner)
        return _counted(concurrency, clock, make_waiter, inner)

    return around


# --- per second ---


def _rated(rate: RateLimit, clock: Clock, make_waiter: MakeWaiter, send: Send) -> Send:
    async def rated(request: Request) -> Response:
        origin = request.url.origin
        if not rate.take(origin, clock.now()):
            await _wait_for_turn(rate, request, clock, make_waiter)
        try:
            return await send(request)
        except CircuitBreakerOpen:
            rate.give_back(origin)  # nothing was sent
            raise

    return rated


async def _wait_for_turn(
    rate: RateLimit, request: Request, clock: Clock, make_waiter: MakeWaiter
) -> None:
    now, deadline = clock.now(), request.deadline
    # A line that is longer than this is not joined at all: the error comes at once.
    patience = math.inf if deadline is None else deadline - now
    woken = make_waiter()
    turn = Reservation(rate, woken.wake)
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


def _counted(limit: ConcurrencyLimit, clock: Clock, make_waiter: MakeWaiter, send: Send) -> Send:
    async def counted(request: Request) -> Response:
        lease = limit.take(request.url.origin)
        if lease is None:
            lease = await _wait_for_lease(limit, request, clock, make_waiter)
        try:
            response = await send(request)
        # BaseException, because a cancelled task has to give its place back as well.
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
    limit: ConcurrencyLimit, request: Request, clock: Clock, make_waiter: MakeWaiter
) -> Lease:
    woken = make_waiter()
    lease = Lease(limit, woken.wake)
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


# --- Hold requests back by limits that processes share, at a store ---
#
# Where the store has no answer, the process holds them back by itself.


async def asked(
    store: Store, question: StoreCommand, make_waiter: MakeWaiter, request: Request, patience: float
) -> Answer | None:
    """Return a store's answer for a request, or None when there is none in its time.

    Args:
        store: has the answer.
        question: what is asked.
        make_waiter: makes a waiter of the engine.
        request: for which it is asked.
        patience: seconds that it has; inf without a limit.

    Raises:
        StoreError: see Store.ask.
    """
    within = partial(_BoundedWaiter, make_waiter, max(0.0, patience))
    try:
        return await store.ask(question, make_waiter if patience == math.inf else within)
    except StoreError as error:
        error.request = request
        raise


class _BoundedWaiter:
    """A waiter that waits no longer than its request has time.

    Args:
        make_waiter: makes one.
        most: seconds.
    """

    __slots__ = ("_most", "_waiter", "wake")

    def __init__(self, make_waiter: MakeWaiter, most: float) -> None:
        self._waiter = make_waiter()
        self._most = most
        self.wake = self._waiter.wake

    def wait(self, seconds: float | None = None) -> Awaitable[object]:
        return self._waiter.wait(self._most if seconds is None else min(seconds, self._most))


# --- per second ---


def rated_together(
    rate: RateLimit, clock: Clock, make_waiter: MakeWaiter, send: Send, alone: Send
) -> Send:
    """Return what sends a request when it is its turn among those of all processes.

    Args:
        rate: has a store.
        clock: tells the time, and sleeps.
        make_waiter: makes a waiter of the engine.
        send: sends it.
        alone: sends it when it is its turn in this process.
    """
    store = cast(Store, rate.store)

    async def rated(request: Request) -> Response:
        turn = await _turn(rate, store, request, clock, make_waiter)
        if turn is None:
            return await alone(request)
        try:
            return await send(request)
        except CircuitBreakerOpen:
            store.tell(rate.giving_back(request.url.origin, turn))  # nothing was sent
            raise

    return rated


async def _turn(
    rate: RateLimit, store: Store, request: Request, clock: Clock, make_waiter: MakeWaiter
) -> Answer | None:
    """Wait for a turn, and return what reserved it."""
    origin, deadline = request.url.origin, request.deadline
    while True:
        patience = math.inf if deadline is None else deadline - clock.now()
        answer = await asked(
            store, rate.reserving(origin, patience), make_waiter, request, patience
        )
        if answer is None:
            return None
        now, wait = clock.now(), seconds(answer[1])
        if not answer[0]:
            error = rate.too_long(wait, patience)
            error.request = request
            raise error
        if not wait:
            return answer
        try:
            if deadline is not None and now + wait > deadline + LEAST:
                raise _asked_too_long(request)
            await clock.sleep(wait)
        # BaseException, because the turn of a cancelled task is good for another request.
        except BaseException:
            store.tell(rate.giving_back(origin, answer))
            raise
        # Much too late, because its process stood still, it would come on top of those whose turn
        # it is now: it stands in line again.
        if rate.came_late(clock.now() - now - wait):
            return answer


def _asked_too_long(request: Request) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{request}: the total of {request.timeout.total} s would run out before its turn "
        "at the rate limit; it was not sent",
        request=request,
    )


# --- at once ---


def counted_together(
    limit: ConcurrencyLimit, clock: Clock, make_waiter: MakeWaiter, send: Send
) -> Send:
    """Return what sends a request when it has a place among those of all processes.

    It has one among those of this process before, so that no more ask than may go.

    Args:
        limit: has a store.
        clock: tells the time, and sleeps.
        make_waiter: makes a waiter of the engine.
        send: sends it.
    """
    store = cast(Store, limit.store)

    async def counted(request: Request) -> Response:
        lease = SharedLease(limit, store, request.url.origin)
        try:
            await _wait_for(lease, limit, store, request, clock, make_waiter)
            response = await send(request)
        except BaseException:
            lease.give()
            raise
        if request.stream:
            response._at_end(lease.end)
        else:
            lease.give()
        return response

    return counted


async def _wait_for(
    lease: SharedLease,
    limit: ConcurrencyLimit,
    store: Store,
    request: Request,
    clock: Clock,
    make_waiter: MakeWaiter,
) -> None:
    """Wait for a place; return without one where the store has no answer."""
    begun = clock.now()
    patience = request.pool_seconds(begun)
    ends = math.inf if patience is None else begun + patience
    before, since = -1, begun
    while True:
        # Not the time for a place: whoever has little of that would go without one.
        left = math.inf
        if patience is not None and request.deadline is not None:
            left = request.deadline - clock.now()
        answer = await asked(store, lease.taking(joins=True), make_waiter, request, left)
        if answer is None:
            return
        if answer[0]:
            lease.start()
            return
        now = clock.now()
        if now >= ends:
            raise limit.no_room(request, now)
        if answer[1] != before:  # the line moves on
            before, since = int(answer[1]), now
        await clock.sleep(min(pause(before, now - since), ends - now))
