"""Delay each request until the concurrency limit, then the rate limit, admits it.

The rate limit comes last, so that a request is sent as soon as it is admitted, and the server sees
that rate. With a store, processes share a limit; if the store does not answer, the process uses its
own limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, cast

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._features.limits.policy import (
    ConcurrencyLimit,
    Lease,
    RateLimit,
    Reservation,
    SharedLease,
    get_poll_interval,
)
from curlhttp._features.shared_store import Answer, Store, StoreCommand, connect, seconds
from curlhttp._features.waits import Waits, leave_place
from curlhttp._http.errors import check_object
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.timeout import MIN_ATTEMPT_SECONDS
from curlhttp._runtime.engine import Layer, MakeWaiter, Runtime, Send, Waiter
from curlhttp._runtime.log import WARN_AFTER, WARN_AGAIN, log
from curlhttp._runtime.outcomes import Outcomes
from curlhttp._runtime.race import AttemptRefused, is_extra, refuse_to_wait
from curlhttp.exceptions import (
    CircuitBreakerOpen,
    DeadlineExceeded,
    StoreError,
    Timeout,
)

if TYPE_CHECKING:
    from curlhttp._features.limits.adaptive import AdaptiveLimit


def start(settings: Settings, host: Host) -> None:
    """Check the limits, and connect their stores.

    Raises:
        TypeError: one is something else, such as a number.
    """
    rate: RateLimit | None = settings.get("rate_limit")
    concurrency: ConcurrencyLimit | None = settings.get("concurrency_limit")
    check_object("rate_limit", rate, "burst", "curlhttp.RateLimit(50)")
    check_object("concurrency_limit", concurrency, "in_use", "curlhttp.ConcurrencyLimit(20)")
    for limit in (rate, concurrency):
        if limit is not None:
            connect(limit._store)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that delays requests."""
    rate, concurrency = map(context.settings.get, ("rate_limit", "concurrency_limit"))
    outcomes = context.host.totals.outcomes
    return limits(rate, concurrency, context.runtime, outcomes)


def limits(
    rate: RateLimit | None,
    concurrency: ConcurrencyLimit | None,
    runtime: Runtime,
    outcomes: Outcomes | None = None,
) -> Layer:
    """Return the layer that delays requests.

    Args:
        rate: the rate limit, or None.
        concurrency: the concurrency limit, or None.
        runtime: of the engine.
        outcomes: of the client, which count the waits; or None.
    """
    waits = _LimitWaits(runtime.now, outcomes or Outcomes())

    def wrap(send: Send) -> Send:
        if concurrency is not None and concurrency._adapts:
            send = _observe(cast("AdaptiveLimit", concurrency), runtime, send)
        inner = send if rate is None else _limit_rate(rate, runtime, send, waits)
        if rate is not None and rate._store is not None:
            inner = _limit_shared_rate(rate, runtime, send, inner, waits)
        if concurrency is None:
            return inner
        if concurrency._store is not None:
            inner = _limit_shared_concurrency(concurrency, runtime, inner, waits)
        return _limit_concurrency(concurrency, runtime, inner, waits)

    return wrap


class _LimitWaits(Waits):
    """Count the waits of a client's requests, and warn of long ones."""

    _warned_at = -math.inf

    def warn(self, limit: ConcurrencyLimit, request: ClientRequest, seconds: float) -> None:
        """Log that a request waits for a slot while none becomes free, once in a while."""
        now = self.now()
        if now - self._warned_at < WARN_AGAIN:
            return
        self._warned_at = now
        _, streams = limit._describe_queue(request.url.origin)
        more = f" and {len(streams) - _NAMED} more" if len(streams) > _NAMED else ""
        log.warn(
            "%s has waited %.1f s for one of the %d slots of a concurrency limit, and none became "
            "free meanwhile. %d of them are held by streamed responses that have not ended%s%s. "
            "Read or close streamed responses, or raise the limit. To limit this wait, set "
            "timeout=Timeout(pool=...)",
            request,
            seconds,
            limit.limit,
            len(streams),
            ": " + ", ".join(map(str, streams[:_NAMED])) if streams else "",
            more,
        )


_NAMED = 5  # streams that a message names


def _observe(limit: AdaptiveLimit, runtime: Runtime, send: Send) -> Send:
    """Return a function that sends a request and tells the limit what happened.

    It is below the rate limit, so that waits for that do not count as latency.

    Args:
        limit: of the attempts.
        runtime: of the engine.
        send: sends an attempt.
    """

    async def observed(request: ClientRequest) -> Response:
        origin, begun = request.url.origin, runtime.now()
        try:
            response = await send(request)
        # BaseException, because callers also limit the time of a request by cancelling it.
        except BaseException as error:
            limit._note_failure(origin, error, begun, runtime.now())
            raise
        times = response.timings
        latency = None  # a middleware or a mock made the response
        if times.first_byte:
            latency = times.first_byte - times.dns - times.connect - times.tls
        limit._note_response(origin, response.status_code, latency, begun, runtime.now())
        return response

    return observed


# --- per second ---


def _limit_rate(rate: RateLimit, runtime: Runtime, send: Send, waits: _LimitWaits) -> Send:
    async def rated(request: ClientRequest) -> Response:
        origin = request.url.origin
        if not rate._try_acquire(origin, runtime.now()):
            refuse_to_wait(request, "the rate limit")
            with waits.watch(request, "rate") as begun, leave_place(request, rate._key(origin)):
                await _wait_for_rate(rate, request, runtime)
            request = waits.end(request, "rate", begun)
        try:
            return await send(request)
        except (CircuitBreakerOpen, AttemptRefused):
            rate._refund(origin)  # not sent
            raise

    return rated


async def _wait_for_rate(rate: RateLimit, request: ClientRequest, runtime: Runtime) -> None:
    now, deadline = runtime.now(), request.deadline
    patience = math.inf if deadline is None else deadline - now
    woken = runtime.make_waiter()
    reservation = Reservation(rate, woken.wake)
    try:
        # Raises at once if the queue is longer than the request can wait.
        rate._enqueue(reservation, request.url.origin, now, patience)
        if not reservation.is_first:
            # The request ahead may be late, or in an event loop that was stopped.
            await woken.wait(None if deadline is None else patience)
            if not reservation.is_first:  # the deadline ended the wait
                raise _make_deadline_error(rate, request)
        # In a loop, because an event loop wakes late, and another request may have been sent.
        while (seconds := reservation.try_acquire(now := runtime.now())) > 0:
            if deadline is not None and now + seconds > deadline + MIN_ATTEMPT_SECONDS:
                raise _make_deadline_error(rate, request)
            await runtime.sleep(seconds)
    # BaseException, because those behind must not wait for a cancelled request.
    except BaseException as error:
        reservation.leave()
        _set_request(error, request)
        raise


def _set_request(error: BaseException, request: ClientRequest) -> None:
    if isinstance(error, Timeout) and error.request is None:
        error.request = request


def _make_deadline_error(rate: RateLimit, request: ClientRequest) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{request}: the total timeout of {request.timeout.total} s ran out while it "
        f"waited for the rate limit of {rate.rate:g} requests per second; it was not sent"
    )


# --- at the same time ---


def _limit_concurrency(
    limit: ConcurrencyLimit, runtime: Runtime, send: Send, waits: _LimitWaits
) -> Send:
    async def counted(request: ClientRequest) -> Response:
        origin = request.url.origin
        lease = limit._try_acquire(origin)
        if lease is None:
            refuse_to_wait(request, "the concurrency limit")
            with waits.watch(request, "limit") as begun, leave_place(request, limit._key(origin)):
                lease = await _wait_for_lease(limit, request, runtime.make_waiter, waits)
            request = waits.end(request, "limit", begun)
        try:
            response = await send(request)
        # BaseException, because a cancelled task has to release its slot as well.
        except BaseException:
            lease.release()
            raise
        # A streamed response occupies the server until its body ends or is abandoned.
        if request.stream:
            lease.note_stream(request)
            response._at_end(lease.end)
        else:
            lease.release()
        return response

    return counted


async def _wait_for_lease(
    limit: ConcurrencyLimit, request: ClientRequest, make_waiter: MakeWaiter, waits: _LimitWaits
) -> Lease:
    woken, now = make_waiter(), waits.now
    lease = Lease(limit, woken.wake)
    try:
        limit._enqueue(lease, request.url.origin)
        # Pool timeout and deadline, whichever comes first.
        await _wait_and_warn(lease, limit, woken, make_waiter, request, waits)
        if not lease.granted:
            raise limit._make_timeout_error(request, now())
        lease.confirm()  # until then, the limit refuses newcomers
    except BaseException as error:
        lease.release()
        _set_request(error, request)
        raise
    return lease


async def _wait_and_warn(
    lease: Lease,
    limit: ConcurrencyLimit,
    woken: Waiter,
    make_waiter: MakeWaiter,
    request: ClientRequest,
    waits: _LimitWaits,
) -> None:
    """Wait for a queued lease; log a warning while no slot becomes free."""
    begun = moved_at = waits.now()
    patience = limit._get_patience(request, begun)
    moves, _ = limit._describe_queue(request.url.origin)
    while True:  # also if it was granted at once: those that were woken earlier go first
        left = None if patience is None else max(0.0, begun + patience - waits.now())
        # Some waiters cannot: to notice a wait without end, they have to know that it is one.
        look = getattr(woken, "can_look_around", None)
        if look is None or not look(left) or (left is not None and left <= WARN_AFTER):
            await woken.wait(left)
            return
        await woken.wait(WARN_AFTER)
        if lease.granted:
            return
        before, (moves, _) = moves, limit._describe_queue(request.url.origin)
        now = waits.now()
        if moves != before:
            moved_at = now
        elif now - moved_at >= WARN_AFTER:
            waits.warn(limit, request, now - begun)
        woken = make_waiter()  # because some can wait only once
        if lease.replace_wake(woken.wake):  # granted, and the earlier waiter was woken
            return


# --- Limits that processes share ---


async def ask_store(
    store: Store,
    command: StoreCommand,
    make_waiter: MakeWaiter,
    request: ClientRequest,
    patience: float,
) -> Answer | None:
    """Return a store's answer to a command, or None if there is none in time.

    Args:
        store: executes the command.
        command: of the policy.
        make_waiter: makes a waiter of the engine.
        request: the request that waits for the answer.
        patience: seconds that the request has; inf without a limit.

    Raises:
        StoreError: see Store.ask.
    """
    within = partial(_BoundedWaiter, make_waiter, time.monotonic() + patience)
    try:
        return await store.ask(command, make_waiter if patience == math.inf else within)
    except StoreError as error:
        error.request = request
        raise


class _BoundedWaiter:
    """A waiter whose wait never ends later than a request.

    Args:
        make_waiter: makes a waiter of the engine.
        ends: when the request's time is over, in monotonic seconds.
    """

    __slots__ = ("_ends", "_waiter", "wake")

    def __init__(self, make_waiter: MakeWaiter, ends: float) -> None:
        self._waiter = make_waiter()
        self._ends = ends
        self.wake = self._waiter.wake

    def wait(self, seconds: float | None = None) -> Awaitable[object]:
        left = max(0.0, self._ends - time.monotonic())
        return self._waiter.wait(left if seconds is None else min(seconds, left))


def _limit_shared_rate(
    rate: RateLimit,
    runtime: Runtime,
    send: Send,
    local: Send,
    waits: _LimitWaits,
) -> Send:
    """Return the layer for a rate limit with a store; without an answer, it uses `local`."""
    store = cast(Store, rate._store)

    async def rated(request: ClientRequest) -> Response:
        with waits.watch(request, "rate") as begun:
            reserved = await _reserve(rate, store, request, runtime)
        if reserved is None:
            return await local(request)
        request = waits.end(request, "rate", begun)
        try:
            return await send(request)
        except (CircuitBreakerOpen, AttemptRefused):
            store.tell(rate._make_refund_command(request.url.origin, reserved))  # not sent
            raise

    return rated


async def _reserve(
    rate: RateLimit, store: Store, request: ClientRequest, runtime: Runtime
) -> Answer | None:
    """Reserve a time and wait for it; return the store's answer, None if there is none."""
    origin, deadline = request.url.origin, request.deadline
    while True:
        patience = math.inf if deadline is None else deadline - runtime.now()
        longest = 0.0 if is_extra(request) else patience
        answer = await ask_store(
            store,
            rate._make_reserve_command(origin, longest),
            runtime.make_waiter,
            request,
            patience,
        )
        if answer is None:
            return None
        now, wait = runtime.now(), seconds(answer[1])
        if not answer[0]:
            refuse_to_wait(request, "the rate limit")
            error = rate._make_deadline_error(wait, patience)
            error.request = request
            raise error
        if not wait:
            return answer
        try:
            if deadline is not None and now + wait > deadline + MIN_ATTEMPT_SECONDS:
                raise _make_wait_error(request)
            with leave_place(request, rate._key(origin)):
                await runtime.sleep(wait)
        # BaseException, because another request can use the reservation of a cancelled task.
        except BaseException:
            store.tell(rate._make_refund_command(origin, answer))
            raise
        # If the process was stopped, the request is far too late, and would exceed the rate now.
        # It queues again.
        if rate._accept_lateness(runtime.now() - now - wait):
            return answer


def _make_wait_error(request: ClientRequest) -> DeadlineExceeded:
    return DeadlineExceeded(
        f"{request}: the total timeout of {request.timeout.total} s would run out before the "
        "rate limit admits it; it was not sent",
        request=request,
    )


def _limit_shared_concurrency(
    limit: ConcurrencyLimit, runtime: Runtime, send: Send, waits: _LimitWaits
) -> Send:
    """Return the layer for a concurrency limit with a store.

    It is below the layer for this process, so that only requests that may be sent query the store.
    """
    store = cast(Store, limit._store)

    async def counted(request: ClientRequest) -> Response:
        lease = SharedLease(limit, store, request.url.origin)
        try:
            with waits.watch(request, "limit") as begun:
                await _acquire_shared(lease, limit, store, request, runtime, waits)
            response = await send(waits.end(request, "limit", begun))
        except BaseException:
            lease.release()
            raise
        if request.stream:
            response._at_end(lease.end)
        else:
            lease.release()
        return response

    return counted


async def _acquire_shared(
    lease: SharedLease,
    limit: ConcurrencyLimit,
    store: Store,
    request: ClientRequest,
    runtime: Runtime,
    waits: _LimitWaits,
) -> None:
    """Wait for a slot; return without one if the store has no answer."""
    begun = runtime.now()
    patience = request.pool_seconds(begun)
    ends = math.inf if patience is None else begun + patience
    before, since = -1, begun
    while True:
        # Without the pool timeout: if that is short, the request would be sent without a slot.
        left = math.inf
        if patience is not None and request.deadline is not None:
            left = request.deadline - runtime.now()
        answer = await ask_store(
            store,
            lease.make_acquire_command(joins=not is_extra(request)),
            runtime.make_waiter,
            request,
            left,
        )
        if answer is None:
            return
        if answer[0]:
            lease.start()
            return
        refuse_to_wait(request, "the concurrency limit")
        now = runtime.now()
        if now >= ends:
            raise limit._make_timeout_error(request, now)
        if answer[1] != before:  # the queue has moved
            before, since = int(answer[1]), now
        elif now - since > WARN_AFTER:
            waits.warn(limit, request, now - begun)
        with leave_place(request, limit._key(request.url.origin)):
            await runtime.sleep(min(get_poll_interval(before, now - since), ends - now))
