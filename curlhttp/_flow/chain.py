"""The order of the layers, in one visible tuple, and how they become one function.

A layer is made around the `send` below it. One that has nothing to do for a request returns
send(request) itself: that costs a call and no coroutine of its own. Those that keep a request
going when a server fails are in the chain, and loaded, only where they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from curlhttp._engine import Clock, Gate, Layer, Middleware, Send
from curlhttp._flow.auth import auth
from curlhttp._flow.cookies import cookies
from curlhttp._flow.deadline import deadline
from curlhttp._flow.observe import observe
from curlhttp._flow.redirect import redirect
from curlhttp._models.request import Request

if TYPE_CHECKING:
    from curlhttp._flow.hooks import Hooks
    from curlhttp._policy.breaker.breaker import CircuitBreaker
    from curlhttp._policy.concurrency import ConcurrencyLimit
    from curlhttp._policy.hedge import Hedge
    from curlhttp._policy.rate import RateLimit
    from curlhttp._policy.retry import RetryPolicy

__all__ = ["build", "hedging"]


def build(
    last: Send,
    *,
    clock: Clock,
    gate: Callable[[], Gate],
    hooks: dict[str, list[Any]],
    awaits_hooks: bool,
    max_redirects: int,
    sensitive: frozenset[str],
    netrc: Callable[[str], tuple[str, str] | None] | None,
    middleware: Sequence[Middleware],
    retries: bool = False,
    within_retry: Layer | None = None,
    rate_limit: RateLimit | None = None,
    concurrency_limit: ConcurrencyLimit | None = None,
    breaker: CircuitBreaker | None = None,
    hedge: Layer | None = None,
) -> Send:
    """Return the function that takes a request through all layers to the engine.

    Args:
        last: hands the request to the engine.
        clock: the engine's.
        gate: makes a gate of the engine.
        hooks: lists of functions by event.
        awaits_hooks: hooks may be coroutine functions that wait.
        max_redirects: how many to follow.
        sensitive: lower-case header names that must not reach another origin.
        netrc: gives the user name and password that netrc has for a host, or None.
        middleware: the user's own, outermost first.
        retries: requests may have a retry policy, or hooks want to hear of attempts.
        within_retry: one more layer, whose work is part of each attempt, or None.
        rate_limit: of attempts, or None.
        concurrency_limit: of attempts, or None.
        breaker: or None.
        hedge: what hedging() returned, the same for all chains of a client, or None.
    """
    told = _hooks(hooks, awaits_hooks) if retries or breaker is not None else None
    layers: tuple[Layer, ...] = (
        observe(hooks),  # sees the request first and the final response last
        deadline(clock),  # one budget over all below
        redirect(max_redirects, sensitive),  # each hop goes through all below anew
        auth(netrc),
        cookies,  # below auth: the answer to a challenge carries what the challenge set
        *map(_layer, middleware),
        *_retry(retries, clock, told),  # repeats all below: each attempt is admitted and counted
        *(() if within_retry is None else (within_retry,)),
        *_limits(rate_limit, concurrency_limit, clock, gate),
        *_breaker(breaker, clock, told),
        *(() if hedge is None else (hedge,)),
    )
    send = last
    for layer in reversed(layers):
        send = layer(send)
    return send


def _layer(middleware: Middleware) -> Layer:
    """Return a user's middleware as a layer."""

    def around(send: Send) -> Send:
        def through(request: Request) -> Any:
            return middleware(request, send)

        return through

    return around


def _hooks(functions: dict[str, list[Any]], awaits: bool) -> Hooks:
    from curlhttp._flow.hooks import Hooks

    return Hooks(functions, awaits=awaits)


def _retry(retries: bool, clock: Clock, hooks: Any) -> tuple[Layer, ...]:
    if not retries:
        return ()
    from curlhttp._flow.retry import retry

    return (retry(clock, hooks),)


def _limits(
    rate_limit: RateLimit | None,
    concurrency_limit: ConcurrencyLimit | None,
    clock: Clock,
    gate: Callable[[], Gate],
) -> tuple[Layer, ...]:
    if rate_limit is None and concurrency_limit is None:
        return ()
    from curlhttp._flow.limits import limits

    return (limits(rate_limit, concurrency_limit, clock, gate),)


def _breaker(breaker: CircuitBreaker | None, clock: Clock, hooks: Any) -> tuple[Layer, ...]:
    if breaker is None:
        return ()
    from curlhttp._flow.breaker import breaker as layer

    return (layer(breaker, clock, hooks),)


def hedging(
    policy: Hedge | None,
    now: Callable[[], float],
    *,
    hooks: dict[str, list[Any]],
    awaits_hooks: bool,
    retry: RetryPolicy | None,
    rate_limit: RateLimit | None,
    concurrency_limit: ConcurrencyLimit | None,
    breaker: CircuitBreaker | None,
) -> Layer | None:
    """Return the layer that hedges, with what it learns and spends; None where nothing does.

    Args:
        policy: when to hedge, or None.
        now: gives monotonic seconds.
        hooks: see build.
        awaits_hooks: see build.
        retry: the policy of requests that have none of their own.
        rate_limit: see build; it lets each further attempt in by itself.
        concurrency_limit: the same.
        breaker: the same.
    """
    if policy is None:
        return None
    from curlhttp._flow.hedge import hedge

    return hedge(
        policy,
        now,
        budget=None if retry is None else retry.budget,
        rate_limit=rate_limit,
        concurrency_limit=concurrency_limit,
        breaker=breaker,
        hooks=_hooks(hooks, awaits_hooks),
    )
