"""Send each attempt to one of several endpoints; _features/endpoints/policy.py chooses it.

There are two layers: above retry, the request gets its first endpoint, so that budgets are those of
an origin; below retry, each later attempt gets another one, so that limits and breakers are too.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._features.breaker.circuit import Outcome, make_origin_classifier
from curlhttp._features.endpoints.policy import Endpoints, Rotation, URLs
from curlhttp._http.request import CHALLENGER, ENDPOINTS, ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.url import URL
from curlhttp._runtime.engine import Layer, Runtime, Send
from curlhttp._runtime.log import log
from curlhttp._runtime.race import is_extra, is_refusal
from curlhttp._runtime.run import Offload
from curlhttp.exceptions import ConnectionError

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient

_CLASSIFIER = make_origin_classifier()

# Those whose first list the running function returns.
_listed: ContextVar[Endpoints | None] = ContextVar("_listed", default=None)


def start(settings: Settings, host: Host) -> None:
    """Let the client send its credentials to the endpoints alone.

    Raises:
        TypeError: the endpoints are listed by a coroutine function, and this is Client.
    """
    endpoints: Endpoints = settings["endpoints"]
    if not host.is_async and inspect.iscoroutinefunction(endpoints._list_urls):
        raise TypeError("an async function that lists the endpoints needs AsyncClient")

    def withhold_credentials(request: ClientRequest, url: URL) -> None:
        if not endpoints._covers(request.url):
            request._shared_headers = request._shared_headers.without_credentials()
            if url.username is None:  # otherwise the auth is the URL's
                request.auth = None

    cast("BaseClient", host.client)._add_build_step(withhold_credentials)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer above retry, which gives a request its first endpoint."""
    endpoints: Endpoints = context.settings["endpoints"]
    runtime, run_blocking = context.runtime, context.host.run_blocking

    def wrap(send: Send) -> Send:
        async def through(request: ClientRequest) -> Response:
            canonical = request.url
            if not endpoints._covers(canonical):
                return await send(request)
            if not endpoints.urls:
                await _list_first(endpoints, request, runtime, run_blocking)
            elif endpoints._take_refresh(runtime.now()):
                await _refresh(endpoints, runtime, run_blocking)
            rotation = Rotation(endpoints, canonical, (request.extensions or {}).get(CHALLENGER))
            rotation.turn, url = rotation.next(runtime.now())
            request = request.derive(url=url)
            request._extend(ENDPOINTS, rotation)
            try:
                return await send(request)
            finally:
                if rotation.turn is not None:  # no attempt was made
                    rotation.turn.end(None, runtime.now())

        return through

    return wrap


async def _list_first(
    endpoints: Endpoints,
    request: ClientRequest,
    runtime: Runtime,
    run_blocking: Offload,
) -> None:
    """List the endpoints for the first time, or wait for the request that does.

    Raises:
        ConnectionError: the function failed. Each request that waited for it gets this error, and
            the next one calls the function again.
    """
    from curlhttp._features.auth.flow import fetch_once
    from curlhttp._features.auth.token_auth import CachedToken

    if _listed.get() is endpoints:
        raise _not_listed(
            request,
            "sends a request to them, which would wait for the list forever; use another client "
            "in it",
        )

    async def list_or_fail() -> CachedToken:
        begun, outer = runtime.now(), _listed.set(endpoints)
        try:
            endpoints._replace(await _call(endpoints, run_blocking))
        except Exception as error:
            return CachedToken(error, is_cached=False)
        finally:
            _listed.reset(outer)
        endpoints._end_refresh(begun)
        return CachedToken(None)

    token = await fetch_once(
        endpoints._first_list,
        request,
        list_or_fail,
        lambda _: bool(endpoints.urls),
        "lists the endpoints",
        runtime.now,
        runtime.make_waiter,
    )
    if token.value is not None:
        raise _not_listed(request, f"failed: {token.value!r}") from token.value


def _not_listed(request: ClientRequest, what: str) -> ConnectionError:
    text = f"{request}: the function that lists the endpoints {what}"
    error = ConnectionError(text, request=request)
    error._reason = "local"
    return error


async def _refresh(endpoints: Endpoints, runtime: Runtime, run_blocking: Offload) -> None:
    """List the endpoints again. If that fails, the old list stays in use."""
    begun: float | None = runtime.now()
    try:
        endpoints._replace(await _call(endpoints, run_blocking))
    except Exception as error:
        log.warn("the endpoints could not be listed again: %r", error)
    except BaseException:  # a cancellation of this request, so the next one has to list them
        begun = None
        raise
    finally:
        endpoints._end_refresh(begun)


async def _call(endpoints: Endpoints, run_blocking: Offload) -> URLs:
    """Return what the function of endpoints returns."""
    function = endpoints._list_urls
    assert function is not None
    if inspect.iscoroutinefunction(function):
        made: URLs = await function()
        return made
    found = await run_blocking(function)
    return await found if inspect.isawaitable(found) else found


def make_next_layer(context: LayerContext) -> Layer:
    """Return the layer below retry, which gives later attempts another endpoint."""
    runtime = context.runtime

    def wrap(send: Send) -> Send:
        def through(request: ClientRequest) -> Awaitable[Response]:
            rotation = get_rotation(request)
            return send(request) if rotation is None else _attempt(request, rotation, send, runtime)

        return through

    return wrap


async def _attempt(
    request: ClientRequest, rotation: Rotation, send: Send, runtime: Runtime
) -> Response:
    turn, rotation.turn = rotation.turn, None
    if turn is None:  # not the first attempt
        turn, url = rotation.next(runtime.now())
        request = request.derive(url=url)
    try:
        response = await send(request)
    except BaseException as error:
        turn.end(_CLASSIFIER.classify_error(error), runtime.now())
        if is_extra(request) and is_refusal(error):
            rotation.give_back(turn)
        raise
    outcome: Outcome | None = _CLASSIFIER.classify_status(response.status_code)

    def end(error: BaseException | None) -> None:
        turn.end(outcome if error is None else _CLASSIFIER.classify_error(error), runtime.now())

    response._at_end(end)
    return response


def get_rotation(request: ClientRequest) -> Rotation | None:
    """Return the rotation of a request, None if its URL is not one of endpoints."""
    extensions = request.extensions
    return None if extensions is None else extensions.get(ENDPOINTS)
