"""Send each attempt to one of several endpoints; _policy/endpoints.py chooses it.

There are two layers: above retry, the request gets its first endpoint, so that budgets are those of
an origin; below retry, each later attempt gets another one, so that limits and breakers are too.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable

from curlhttp._engine.engine import Clock, Layer, Send
from curlhttp._engine.run import Offload
from curlhttp._flow.hooks import log
from curlhttp._models.request import CHALLENGER, ENDPOINTS, ClientRequest
from curlhttp._models.response import Response
from curlhttp._policy.breaker.circuit import FAILURE_STATUSES, OriginClassifier, Outcome
from curlhttp._policy.endpoints import Endpoints, Rotation, Turn
from curlhttp.exceptions import ConnectionError

_CLASSIFIER = OriginClassifier(FAILURE_STATUSES, count_tls=False, via_proxy=False)


def first_endpoint(endpoints: Endpoints, clock: Clock, run_blocking: Offload) -> Layer:
    """Return the layer above retry, which gives a request its first endpoint.

    Args:
        endpoints: of the client.
        clock: of the engine.
        run_blocking: calls a function that may block.
    """

    def wrap(send: Send) -> Send:
        async def through(request: ClientRequest) -> Response:
            canonical = request.url
            if not endpoints.covers(canonical):
                return await send(request)
            if endpoints.take_refresh(clock.now()):
                await _refresh(endpoints, request, clock, run_blocking)
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


async def _refresh(
    endpoints: Endpoints, request: ClientRequest, clock: Clock, run_blocking: Offload
) -> None:
    """List the endpoints. If that fails, the old list stays in use."""
    function, begun = endpoints.list_urls, clock.now()
    assert function is not None
    try:
        if inspect.iscoroutinefunction(function):
            found = await function()
        else:
            found = await run_blocking(function)
            if inspect.isawaitable(found):
                found = await found
        endpoints.replace(found)
    except Exception as error:
        if endpoints.urls:
            log().warning("the endpoints could not be listed again: %r", error)
            return
        raise ConnectionError(
            f"{request}: the function that lists the endpoints failed: {error!r}", request=request
        ) from error
    endpoints.due = begun + (endpoints.refresh_after or float("inf"))


def next_endpoints(clock: Clock) -> Layer:
    """Return the layer below retry, which gives later attempts another endpoint.

    Args:
        clock: of the engine.
    """

    def wrap(send: Send) -> Send:
        def through(request: ClientRequest) -> Awaitable[Response]:
            rotation = get_rotation(request)
            return send(request) if rotation is None else _attempt(request, rotation, send, clock)

        return through

    return wrap


async def _attempt(
    request: ClientRequest, rotation: Rotation, send: Send, clock: Clock
) -> Response:
    turn = rotation.turn
    if turn is None:  # not the first attempt
        turn, url = rotation.next(clock.now())
        request = request.derive(url=url)
    rotation.turn = turn  # a hedge ends it if another attempt wins
    try:
        response = await send(request)
    except BaseException as error:
        turn.end(_CLASSIFIER.classify_error(error), clock.now())
        raise
    finally:
        rotation.turn = None
    outcome: Outcome | None = _CLASSIFIER.classify_status(response.status_code)
    if not turn.sent(response.request.url):  # that of a hedge, which has its own turn
        outcome = None

    def end(error: BaseException | None) -> None:
        turn.end(outcome if error is None else _CLASSIFIER.classify_error(error), clock.now())

    response._at_end(end)
    return response


def get_rotation(request: ClientRequest) -> Rotation | None:
    """Return the rotation of a request, None if its URL is not one of endpoints."""
    extensions = request.extensions
    return None if extensions is None else extensions.get(ENDPOINTS)


def classify(result: int | Exception | None) -> Outcome | None:
    """Return what a status or an error says about an endpoint; None for a cancelled attempt."""
    if result is None:
        return None
    if isinstance(result, int):
        return _CLASSIFIER.classify_status(result)
    return _CLASSIFIER.classify_error(result)


def take_turn(request: ClientRequest, now: float) -> tuple[Turn, ClientRequest] | None:
    """Return a turn for a hedge of a request and its request there, None without endpoints.

    Args:
        request: of the first attempt.
        now: monotonic seconds.
    """
    rotation = get_rotation(request)
    if rotation is None:
        return None
    turn, url = rotation.next(now)
    return turn, request.derive(url=url)
