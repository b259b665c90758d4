"""Put the layers in order, and build one `send` function from them.

A layer wraps the `send` below it. A layer that has nothing to do for a request returns
send(request), which costs a call but no coroutine. For the same reason, the steps that every chain
has are one layer. Retry and the layers below it are imported only if a client uses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from curlhttp._engine.engine import (
    Clock,
    Layer,
    MakeRace,
    MakeWaiter,
    Middleware,
    Send,
    Totals,
)
from curlhttp._engine.run import Offload
from curlhttp._flow.auth import AuthContext
from curlhttp._flow.hooks import ATTEMPT_EVENTS, Hooks, check_response, request_hooks
from curlhttp._flow.redirects import cookies, redirects
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response
from curlhttp._policy.alt_svc import AltSvcCache

if TYPE_CHECKING:
    from curlhttp._flow.cache import CacheContext
    from curlhttp._flow.hedge import Hedging
    from curlhttp._flow.hsts import HSTS
    from curlhttp._models.inputs import Hook
    from curlhttp._policy.breaker.breaker import CircuitBreaker
    from curlhttp._policy.endpoints import Endpoints
    from curlhttp._policy.hedge import Hedge
    from curlhttp._policy.limits import ConcurrencyLimit, RateLimit
    from curlhttp._policy.retry import RetryPolicy


_EVENTS = "text/event-stream"


class Chain:
    """The layers of a client, for one engine or several.

    Args:
        now: returns monotonic seconds.
        hooks: lists of functions by event.
        awaits_hooks: hooks may be coroutine functions that wait.
        max_redirects: how many to follow.
        sensitive_headers: lower-case header names that must not be sent to another origin.
        netrc: returns the user name and password of netrc for a host, or None.
        middleware: the user's, outermost first.
        attempt_middleware: the user's for each attempt, outermost first.
        retry: the policy of requests that have none themselves.
        rate_limit: of attempts, or None.
        concurrency_limit: of attempts, or None.
        breaker: of attempts, or None.
        hedge: when to send a slow request again, or None.
        run_blocking: calls a function that may block.
        certificates: responses contain the certificate of the server.
        alternatives: remembers which origins support HTTP/3; or None.
        coalesce: returns the layer that lets equal requests share a transfer, or None.
        endpoints: of the base URL, or None.
        fallback: the layer that replaces failures, or None.
        hsts: the hosts that require HTTPS, or None.
        cache: of the client, or None.
        raises: a status of 4xx or 5xx is an exception.
        totals: counts retries, hedges and so on; None for new ones.

    Attributes:
        retries: the chain needs the retry layer: a request may have a policy, or there are hooks
            on attempts.
        attempt_hooks: the hooks on attempts.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        hooks: Mapping[str, list[Hook]],
        awaits_hooks: bool,
        max_redirects: int,
        sensitive_headers: frozenset[str],
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
        alternatives: AltSvcCache | None = None,
        coalesce: Callable[[Clock, MakeWaiter, Totals], Layer] | None = None,
        endpoints: Endpoints | None = None,
        fallback: Callable[[Hooks], Layer] | None = None,
        hsts: HSTS | None = None,
        cache: CacheContext | None = None,
        totals: Totals | None = None,
        raises: bool = False,
    ) -> None:
        self.middleware: tuple[Middleware, ...] = tuple(middleware)
        # Hooks and middleware may set the policy of a request.
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
        self.attempt_hooks: Hooks = Hooks(hooks, awaits=awaits_hooks, totals=totals)
        self._max_redirects = max_redirects
        self._sensitive_headers = sensitive_headers
        self._attempt_middleware = tuple(attempt_middleware)
        self._netrc = netrc
        self._rate_limit = rate_limit
        self._concurrency_limit = concurrency_limit
        self._breaker = breaker
        self._cache = cache
        self._raises = raises
        self._coalesce = coalesce
        self._endpoints = endpoints
        self._fallback = None if fallback is None else fallback(self.attempt_hooks)
        # One for all engines, which share the times that a hedge measures.
        self._hedge = None if hedge is None else self._make_hedging(hedge, retry, now)

    def build(
        self,
        last: Send,
        clock: Clock,
        make_waiter: MakeWaiter,
        make_race: MakeRace,
        *,
        retries: bool | None = None,
        within_retry: Layer | None = None,
        plain: Send | None = None,
    ) -> Send:
        """Return the function that sends a request through all layers.

        Args:
            last: passes the request to the engine.
            clock: of the engine.
            make_waiter: makes a waiter of the engine.
            make_race: makes a race of the engine.
            retries: replaces the attribute, unless None.
            within_retry: a further layer, which is part of each attempt; or None. It does not apply
                to the subrequests of an Auth.
            plain: replaces `last` for the subrequests of an Auth, unless None.
        """
        hsts = self._hsts
        if self._certificates:
            last = self._with_certificates(last)
        below = partial(
            self._build_below_auth,
            clock=clock,
            make_waiter=make_waiter,
            make_race=make_race,
            retries=retries,
        )
        subrequest = None
        if within_retry is not None or self._fallback is not None:
            subrequest = partial(
                _with_cookies,
                partial(below, is_subrequest=True),
                last if plain is None else plain,
            )
        upgrade = None if hsts is None else hsts.upgrade
        auth_context = AuthContext(
            clock, make_waiter, self._is_async, self._run_blocking, subrequest, upgrade
        )
        layers: tuple[Layer, ...] = (
            # Downloads and WebSocket handshakes, which pass a layer, raise in their own way.
            *((raise_for_status,) if self._raises and within_retry is None else ()),
            request_hooks(self._hooks),  # first with the request, last with the final response
            *(() if hsts is None else (hsts.upgrade_layer,)),
            # Deadline, redirects, credentials and cookies.
            redirects(
                clock,
                self._max_redirects,
                self._sensitive_headers,
                self._netrc,
                auth_context,
                None if self._endpoints is None else self._endpoints.to_canonical,
            ),
            *(() if hsts is None else (hsts.learning_layer,)),
            *self._alt_svc_layers(),
        )
        # No handshake is hedged, because the second connection would be wasted.
        return _wrap(below(last, within_retry=within_retry, hedges=plain is None), layers)

    def _build_below_auth(
        self,
        last: Send,
        *,
        clock: Clock,
        make_waiter: MakeWaiter,
        make_race: MakeRace,
        retries: bool | None,
        within_retry: Layer | None = None,
        is_subrequest: bool = False,
        hedges: bool = True,
    ) -> Send:
        """Return the function that sends a request through all layers below authentication."""
        layers: tuple[Layer, ...] = (
            *map(_to_layer, self.middleware),
            *self._layers_of_responses(clock, make_waiter, within_retry, is_subrequest),
            # A cache hit is not an attempt: no layer below delays, counts or refuses it.
            *self._cache_layers(clock, within_retry),
            *self._attempt_layers(
                clock, make_waiter, make_race, retries, within_retry, hedges=hedges
            ),
        )
        return _wrap(last, layers)

    def build_below_cache(
        self, last: Send, clock: Clock, make_waiter: MakeWaiter, make_race: MakeRace
    ) -> Send:
        """Return the function with which the cache validates responses in the background."""
        return _wrap(last, self._attempt_layers(clock, make_waiter, make_race, None, None))

    def _attempt_layers(
        self,
        clock: Clock,
        make_waiter: MakeWaiter,
        make_race: MakeRace,
        retries: bool | None,
        within_retry: Layer | None,
        *,
        hedges: bool = True,
    ) -> tuple[Layer, ...]:
        hedge = self._hedge if hedges else None
        retry_layers = (
            self._retry_layers(clock, make_waiter)
            if (self.retries if retries is None else retries)
            else ()
        )
        next_layers: tuple[Layer, ...] = ()
        if self._endpoints is not None:
            first, following = self._endpoint_layers(self._endpoints, clock, make_waiter)
            retry_layers, next_layers = (first, *retry_layers), (following,)
        part = () if within_retry is None else (within_retry,)
        return (
            # Repeats all layers below, so that each attempt is admitted and counted.
            *retry_layers,
            # Each attempt of a hedge has its own endpoint.
            *((*next_layers, *part) if hedge is None else (*part, hedge.race(make_race))),
            *(() if hedge is None else next_layers),
            *self._limit_layers(clock, make_waiter),
            *self._breaker_layers(clock, make_waiter),
            *(() if hedge is None else (hedge.admit(make_waiter),)),
            *self._attempt_middleware_layers(),
            *(() if hedge is None else (hedge.watch,)),
        )

    def _layers_of_responses(
        self,
        clock: Clock,
        make_waiter: MakeWaiter,
        within_retry: Layer | None,
        is_subrequest: bool,
    ) -> Iterator[Layer]:
        if within_retry is not None:  # of downloads and WebSocket handshakes
            return
        # The user's response is none to the requests of an Auth, such as those for a token.
        if self._fallback is not None and not is_subrequest:
            yield self._fallback
        if self._coalesce is not None:
            yield self._coalesce(clock, make_waiter, self.attempt_hooks.totals)

    def _cache_layers(self, clock: Clock, within_retry: Layer | None) -> tuple[Layer, ...]:
        # Not for downloads and WebSocket handshakes, which pass a layer.
        if self._cache is None or within_retry is not None:
            return ()
        from curlhttp._flow.cache import cache_layer

        return (cache_layer(self._cache, clock),)

    def _alt_svc_layers(self) -> tuple[Layer, ...]:
        if self._alternatives is None:
            return ()

        return (alt_svc(self._alternatives),)

    def _with_certificates(self, last: Send) -> Send:
        from curlhttp._flow.exchange import with_certificates

        return with_certificates(last)

    def _retry_layers(self, clock: Clock, make_waiter: MakeWaiter) -> tuple[Layer, ...]:
        from curlhttp._flow.retry import retry

        return (retry(clock, self.attempt_hooks, make_waiter),)

    def _endpoint_layers(
        self, endpoints: Endpoints, clock: Clock, make_waiter: MakeWaiter
    ) -> tuple[Layer, Layer]:
        from curlhttp._flow.endpoints import first_endpoint, next_endpoints

        first = first_endpoint(endpoints, clock, make_waiter, self._run_blocking)
        return first, next_endpoints(clock)

    def _limit_layers(self, clock: Clock, make_waiter: MakeWaiter) -> tuple[Layer, ...]:
        if self._rate_limit is None and self._concurrency_limit is None:
            return ()
        from curlhttp._flow.limits import limits

        outcomes = self.attempt_hooks.totals.outcomes
        return (limits(self._rate_limit, self._concurrency_limit, clock, make_waiter, outcomes),)

    def _breaker_layers(self, clock: Clock, make_waiter: MakeWaiter) -> tuple[Layer, ...]:
        if self._breaker is None:
            return ()
        from curlhttp._flow.breaker import breaker

        return (breaker(self._breaker, clock, self.attempt_hooks, make_waiter),)

    def _attempt_middleware_layers(self) -> tuple[Layer, ...]:
        if not self._attempt_middleware:
            return ()
        from curlhttp._flow.attempt_middleware import attempt_middleware

        return (attempt_middleware(self._attempt_middleware),)

    def _make_hedging(
        self, policy: Hedge, retry: RetryPolicy | None, now: Callable[[], float]
    ) -> Hedging:
        from curlhttp._flow.hedge import Hedging

        budget = None if retry is None else retry.budget
        return Hedging(policy, now, self.attempt_hooks.totals, budget)


def _wrap(send: Send, layers: tuple[Layer, ...]) -> Send:
    for layer in reversed(layers):
        send = layer(send)
    return send


def _with_cookies(below: Callable[[Send], Send], last: Send) -> Send:
    return cookies(below(last))


def _to_layer(middleware: Middleware) -> Layer:
    """Return a user's middleware as a layer."""

    def wrap(send: Send) -> Send:
        async def through(request: ClientRequest) -> Response:
            sent = middleware(request, send)
            if sent is None or isinstance(sent, Response):  # `def` instead of `async def`
                raise TypeError(f"a middleware must be `async def`, but {middleware!r} is not")
            return check_response(await sent, "a middleware")

        return through

    return wrap


def raise_for_status(send: Send) -> Send:
    """Return the layer that raises HTTPError for a status of 4xx or 5xx."""

    async def through(request: ClientRequest) -> Response:
        response = await send(request)
        if response.is_error and request.get_header("accept") != _EVENTS:  # sse() decides itself
            await response.load()  # so that the exception has the body
            response.raise_for_status()
        return response

    return through


def alt_svc(alternatives: AltSvcCache) -> Layer:
    """Return the layer that stores the Alt-Svc of each hop.

    Args:
        alternatives: remembers which origins support HTTP/3.
    """

    def wrap(send: Send) -> Send:
        async def through(request: ClientRequest) -> Response:
            response = await send(request)
            if request.url.scheme == "https":
                values = response.headers.get_list("alt-svc")
                if values:
                    alternatives.note(request.url, ", ".join(values))
            return response

        return through

    return wrap
