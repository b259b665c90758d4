"""Put the layers in order, and build one `send` function from them.

A layer is made around the `send` below it. One that has nothing to do for a request returns
send(request) itself, which costs a call and no coroutine. What is in every chain is one layer for
the same reason. Retry and the layers below it are loaded only if a client uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from curlhttp._engine.engine import Clock, Exchange, Layer, MakeWaiter, Middleware, Send
from curlhttp._engine.run import Offload
from curlhttp._flow.auth import AuthContext
from curlhttp._flow.hooks import ATTEMPT_EVENTS, Hooks, check_answer, observe
from curlhttp._flow.redirects import cookies, hops
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.alt_svc import Alternatives

if TYPE_CHECKING:
    from curlhttp._flow.cache import Caching
    from curlhttp._flow.hsts import HSTS
    from curlhttp._models.inputs import Hook
    from curlhttp._policy.breaker.breaker import CircuitBreaker
    from curlhttp._policy.hedge import Hedge
    from curlhttp._policy.limits import ConcurrencyLimit, RateLimit
    from curlhttp._policy.retry import RetryPolicy

__all__ = ["Chain", "alt_svc"]


class Chain:
    """The settings of all layers of a client, which may end in several engines.

    Args:
        now: gives monotonic seconds.
        hooks: lists of functions by event.
        awaits_hooks: hooks may be coroutine functions that wait.
        max_redirects: how many to follow.
        sensitive: lower-case header names that must not reach another origin.
        netrc: gives the user name and password that netrc has for a host, or None.
        middleware: the user's own, outermost first.
        attempt_middleware: the user's own around each attempt, outermost first.
        retry: the policy of requests that have none of their own.
        rate_limit: of attempts, or None.
        concurrency_limit: of attempts, or None.
        breaker: refuses attempts, or None.
        hedge: when to send a slow request again, or None.
        run_blocking: calls what may block.
        certificates: responses have the certificate of the server.
        alternatives: where to keep which origins speak HTTP/3, or None.
        hsts: which hosts want HTTPS, or None to ask as the caller says.
        cache: what the client's cache is used by, or None.

    Attributes:
        retries: requests may have a retry policy, or hooks want to hear of attempts.
        told: the hooks that hear of attempts.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        hooks: Mapping[str, list[Hook]],
        awaits_hooks: bool,
        max_redirects: int,
        sensitive: frozenset[str],
        netrc: Callable[[str], tuple[str, str] | None] | None,
        middleware: Sequence[Middleware],
        attempt_middleware: Sequence[Middleware] = (),
        retry: RetryPolicy | None,
        rate_limit: RateLimit | None,
        concurrency_limit: ConcurrencyLimit | None,
        breaker: CircuitBreaker | None,
        hedge: Hedge | None,
        run_blocking: Offload,
        certificates: bool = False,
        alternatives: Alternatives | None = None,
        hsts: HSTS | None = None,
        cache: Caching | None = None,
    ) -> None:
        self.middleware: tuple[Middleware, ...] = tuple(middleware)
        # Hooks and middleware may give a request a policy of its own.
        self.retries: bool = bool(
            retry is not None
            or any(map(hooks.get, ("request", *ATTEMPT_EVENTS)))
            or self.middleware
            or hedge is not None
        )
        self._hooks = hooks
        self._is_async = awaits_hooks
        self._run_blocking = run_blocking
        self._certificates = certificates
        self._alternatives = alternatives
        self._hsts = hsts
        self.told: Hooks = Hooks(hooks, awaits=awaits_hooks)
        self._max_redirects = max_redirects
        self._sensitive = sensitive
        self._attempt_middleware = tuple(attempt_middleware)
        self._netrc = netrc
        self._rate_limit = rate_limit
        self._concurrency_limit = concurrency_limit
        self._breaker = breaker
        self._cache = cache
        # One for all engines: what a hedge learns of origins holds for each of them.
        self._hedge = None if hedge is None else self._hedging(hedge, retry, now)

    def ending_in(
        self,
        last: Exchange,
        clock: Clock,
        make_waiter: MakeWaiter,
        *,
        retries: bool | None = None,
        within_retry: Layer | None = None,
        plain: Exchange | None = None,
    ) -> Send:
        """Return the function that takes a request through all layers to an engine.

        Args:
            last: hands the request to the engine.
            clock: the engine's.
            make_waiter: makes a waiter of the engine.
            retries: what to take in place of the attribute, or None.
            within_retry: one more layer, whose work is part of each attempt, or None. It is not
                for the subrequests of an Auth.
            plain: the last step of the subrequests of an Auth, or None for the same.
        """
        hsts = self._hsts
        if self._certificates:
            last = self._with_certificates(last)
        below = partial(self._below, clock=clock, make_waiter=make_waiter, retries=retries)
        subrequest = None
        if within_retry is not None:
            subrequest = partial(_with_cookies, below, last if plain is None else plain)
        upgrade = None if hsts is None else hsts.upgrade
        auth_context = AuthContext(
            clock, make_waiter, self._is_async, self._run_blocking, subrequest, upgrade
        )
        layers: tuple[Layer, ...] = (
            observe(self._hooks),  # sees the request first and the final response last
            *(() if hsts is None else (hsts.around,)),
            # Deadline, redirects, credentials and cookies.
            hops(clock, self._max_redirects, self._sensitive, self._netrc, auth_context),
            *(() if hsts is None else (hsts.listening,)),
            *self._hear_of_http3(),
        )
        return _around(below(last, within_retry=within_retry), layers)

    def _below(
        self,
        last: Exchange,
        *,
        clock: Clock,
        make_waiter: MakeWaiter,
        retries: bool | None,
        within_retry: Layer | None = None,
    ) -> Send:
        """Return what takes a request through all layers below its credentials."""
        layers: tuple[Layer, ...] = (
            *map(_layer, self.middleware),
            # A hit is no attempt: nothing below waits for it, counts it, or refuses it.
            *self._caching(clock, within_retry),
            *self._attempts(clock, make_waiter, retries, within_retry),
        )
        return _around(last, layers)

    def below_cache(self, last: Exchange, clock: Clock, make_waiter: MakeWaiter) -> Send:
        """Return what the cache asks when no caller waits; the arguments are those of ending_in."""
        return _around(last, self._attempts(clock, make_waiter, None, None))

    def _attempts(
        self,
        clock: Clock,
        make_waiter: MakeWaiter,
        retries: bool | None,
        within_retry: Layer | None,
    ) -> tuple[Layer, ...]:
        return (
            # Repeats all below: each attempt is admitted and counted by itself.
            *(
                self._retry(clock, make_waiter)
                if (self.retries if retries is None else retries)
                else ()
            ),
            *(() if within_retry is None else (within_retry,)),
            *self._limits(clock, make_waiter),
            *self._guard(clock, make_waiter),
            *(() if self._hedge is None else (self._hedge(make_waiter),)),
            # Below all of them, because a hedge is an attempt, too, and is made by the engine.
            *self._around_attempts(),
        )

    def _caching(self, clock: Clock, within_retry: Layer | None) -> tuple[Layer, ...]:
        # Downloads and handshakes, whose answers are no one else's, bring a layer of their own.
        if self._cache is None or within_retry is not None:
            return ()
        from curlhttp._flow.cache import caching

        return (caching(self._cache, clock),)

    def _hear_of_http3(self) -> tuple[Layer, ...]:
        if self._alternatives is None:
            return ()

        return (alt_svc(self._alternatives),)

    def _with_certificates(self, last: Exchange) -> Exchange:
        from curlhttp._flow.exchange import with_certificates

        return with_certificates(last)

    def _retry(self, clock: Clock, make_waiter: MakeWaiter) -> tuple[Layer, ...]:
        from curlhttp._flow.retry import retry

        return (retry(clock, self.told, make_waiter),)

    def _limits(self, clock: Clock, make_waiter: MakeWaiter) -> tuple[Layer, ...]:
        if self._rate_limit is None and self._concurrency_limit is None:
            return ()
        from curlhttp._flow.limits import limits

        return (limits(self._rate_limit, self._concurrency_limit, clock, make_waiter),)

    def _guard(self, clock: Clock, make_waiter: MakeWaiter) -> tuple[Layer, ...]:
        if self._breaker is None:
            return ()
        from curlhttp._flow.breaker import breaker

        return (breaker(self._breaker, clock, self.told, make_waiter),)

    def _around_attempts(self) -> tuple[Layer, ...]:
        if not self._attempt_middleware:
            return ()
        from curlhttp._flow.attempt_middleware import attempt_middleware

        return (attempt_middleware(self._attempt_middleware),)

    def _hedging(
        self, policy: Hedge, retry: RetryPolicy | None, now: Callable[[], float]
    ) -> Callable[[MakeWaiter], Layer]:
        from curlhttp._flow.hedge import hedge

        return hedge(
            policy,
            now,
            budget=None if retry is None else retry.budget,
            rate_limit=self._rate_limit,
            concurrency_limit=self._concurrency_limit,
            breaker=self._breaker,
            hooks=self.told,
        )


def _around(send: Send, layers: tuple[Layer, ...]) -> Send:
    for layer in reversed(layers):
        send = layer(send)
    return send


def _with_cookies(below: Callable[[Exchange], Send], last: Exchange) -> Send:
    return cookies(below(last))


def _layer(middleware: Middleware) -> Layer:
    """Return a user's middleware as a layer."""

    def around(send: Send) -> Send:
        async def through(request: Request) -> Response:
            return check_answer(await middleware(request, send), "a middleware")

        return through

    return around


# --- Hear which origins speak HTTP/3, for the requests that follow ---


def alt_svc(alternatives: Alternatives) -> Layer:
    """Return the layer that takes Alt-Svc in, on each hop.

    Args:
        alternatives: where it is kept.
    """

    def around(send: Send) -> Send:
        async def through(request: Request) -> Response:
            response = await send(request)
            if request.url.scheme == "https":
                values = response.headers.get_list("alt-svc")
                if values:
                    alternatives.note(request.url, ", ".join(values))
            return response

        return through

    return around
