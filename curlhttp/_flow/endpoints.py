"""Send each attempt to one of several endpoints; _policy/endpoints.py chooses it.

There are two layers: above retry, the request gets its first endpoint, so that budgets are those of
an origin; below retry, each later attempt gets another one, so that limits and breakers are too.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from contextvars import ContextVar

from curlhttp._engine.engine import Clock, Layer, MakeWaiter, Send
from curlhttp._engine.race import is_extra, is_refusal
from curlhttp._engine.run import Offload
from curlhttp._flow.chain import LayerContext
from curlhttp._flow.hooks import log
from curlhttp._models.request import CHALLENGER, ENDPOINTS, ClientRequest
from curlhttp._models.response import Response
from curlhttp._policy.breaker.circuit import FAILURE_STATUSES, OriginClassifier, Outcome
from curlhttp._policy.endpoints import Endpoints, Rotation, URLs
from curlhttp.exceptions import ConnectionError

_CLASSIFIER = OriginClassifier(FAILURE_STATUSES, count_tls=False, via_proxy=False)

# Those whose first list the running function returns.
_listed: ContextVar[Endpoints | None] = ContextVar("_listed", default=None)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer above retry, which gives a request its first endpoint."""
    endpoints: Endpoints = context.settings["endpoints"]
    clock, make_waiter, run_blocking = context.clock, context.make_waiter, context.host.run_blocking

    def wrap(send: Send) -> Send:
        async def through(request: ClientRequest) -> Response:
            canonical = request.url
            if not endpoints.covers(canonical):
                return await send(request)
            if not endpoints.urls:
                await _list_first(endpoints, request, clock, make_waiter, run_blocking)
            elif endpoints.take_refresh(clock.now()):
                await _refresh(endpoints, clock, run_blocking)
            rotation = Rotation(endpoints, canonical, (request.extensions or {}).get(CHALLENGER))
            rotation.turn, url = rotation.next(clock.now())
            request = request.derive(url=url)
            request.extensions = {**(request.extensions or {}), ENDPOINTS: rotation}
            try:
                return await send(request)
            finally:
                if rotation.turn is not None:  # no attempt was made
                    rotation.turn.end(None, clock.now())

        return through

    return wrap


async def _list_first(
    endpoints: Endpoints,
    request: ClientRequest,
    clock: Clock,
    make_waiter: MakeWaiter,
    run_blocking: Offload,
) -> None:
    """List the endpoints for the first time, or wait for the request that does.

    Raises:
        ConnectionError: the function failed. Each request that waited for it gets this error, and
            the next one calls the function again.
    """
    from curlhttp._flow.auth import fetch_once
    from curlhttp._policy.token_auth import CachedToken

    if _listed.get() is endpoints:
        raise ConnectionError(
            f"{request}: the function that lists the endpoints sends a request to them, which "
            "would wait for the list forever; use another client in it",
            request=request,
        )

    async def list_or_fail() -> CachedToken:
        begun, outer = clock.now(), _listed.set(endpoints)
        try:
            endpoints.replace(await _call(endpoints, run_blocking))
        except Exception as error:
            return CachedToken(error, is_cached=False)
        finally:
            _listed.reset(outer)
        endpoints.end_refresh(begun)
        return CachedToken(None)

    token = await fetch_once(
        endpoints.first_list,
        request,
        list_or_fail,
        lambda _: bool(endpoints.urls),
        "lists the endpoints",
        clock.now,
        make_waiter,
    )
    if token.value is not None:
        raise ConnectionError(
            f"{request}: the function that lists the endpoints failed: {token.value!r}",
            request=request,
        ) from token.value


async def _refresh(endpoints: Endpoints, clock: Clock, run_blocking: Offload) -> None:
    """List the endpoints again. If that fails, the old list stays in use."""
    begun: float | None = clock.now()
    try:
        endpoints.replace(await _call(endpoints, run_blocking))
    except Exception as error:
        log().warning("the endpoints could not be listed again: %r", error)
    except BaseException:  # a cancellation of this request, so the next one has to list them
        begun = None
        raise
    finally:
        endpoints.end_refresh(begun)


async def _call(endpoints: Endpoints, run_blocking: Offload) -> URLs:
    """Return what the function of endpoints returns."""
    function = endpoints.list_urls
    assert function is not None
    if inspect.iscoroutinefunction(function):
        made: URLs = await function()
        return made
    found = await run_blocking(function)
    return await found if inspect.isawaitable(found) else found


def make_next_layer(context: LayerContext) -> Layer:
    """Return the layer below retry, which gives later attempts another endpoint."""
    clock = context.clock

    def wrap(send: Send) -> Send:
        def through(request: ClientRequest) -> Awaitable[Response]:
            rotation = get_rotation(request)
            return send(request) if rotation is None else _attempt(request, rotation, send, clock)

        return through

    return wrap


async def _attempt(
    request: ClientRequest, rotation: Rotation, send: Send, clock: Clock
) -> Response:
    turn, rotation.turn = rotation.turn, None
    if turn is None:  # not the first attempt
        turn, url = rotation.next(clock.now())
        request = request.derive(url=url)
    try:
        response = await send(request)
    except BaseException as error:
        turn.end(_CLASSIFIER.classify_error(error), clock.now())
        if is_extra(request) and is_refusal(error):
            rotation.give_back(turn)
        raise
    outcome: Outcome | None = _CLASSIFIER.classify_status(response.status_code)

    def end(error: BaseException | None) -> None:
        turn.end(outcome if error is None else _CLASSIFIER.classify_error(error), clock.now())

    response._at_end(end)
    return response


def get_rotation(request: ClientRequest) -> Rotation | None:
    """Return the rotation of a request, None if its URL is not one of endpoints."""
    extensions = request.extensions
    return None if extensions is None else extensions.get(ENDPOINTS)
