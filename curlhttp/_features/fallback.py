"""Replace a failure by the response of the user's function.

This layer is above the cache and all layers of attempts, so it sees what is left after retries. A
cancellation is no failure. An Auth's own requests, such as those for a token, do not pass it. If a
flow ends with such a request, its outcome is that of the user's request, and passes it.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, TypeAlias

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._client.hooks import Hooks, check_response
from curlhttp._client.streamed_response import BaseStreamedResponse, StoredBody
from curlhttp._features.hook_events import AttemptEvent
from curlhttp._features.retry.policy import STATUSES
from curlhttp._http.redaction import redact_url
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Layer, Send
from curlhttp._runtime.network import network
from curlhttp.exceptions import ClientClosed, RequestException

if TYPE_CHECKING:
    from curlhttp._http.inputs import FallbackInput

Failure: TypeAlias = "Response | RequestException"

_EVENT = "on_fallback"
_NEEDS_ASYNC_CLIENT = "an async fallback needs AsyncClient"


def is_failure(request: ClientRequest, response: Response) -> bool:
    """Return whether the status is one after which the request would be retried."""
    policy = request.retry
    return response.status_code in (STATUSES if policy is None else policy.statuses)


def start(settings: Settings, host: Host) -> None:
    """Validate the function.

    Raises:
        TypeError: it is not a function, or the client cannot await it.
    """
    function: object = settings["fallback"]
    if not callable(function):
        raise TypeError(
            "fallback must be a function of (request, outcome) that returns a response or None, "
            f"not {type(function).__name__}"
        )
    called = type(function).__call__  # of an object that is not a function
    if not host.is_async and any(map(inspect.iscoroutinefunction, (function, called))):
        raise TypeError(_NEEDS_ASYNC_CLIENT)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that calls the fallback of a client."""
    settings = context.settings
    return fallback(
        settings["fallback"], settings["hooks"], settings["streamed"], context.host.is_async
    )


def fallback(
    function: FallbackInput, hooks: Hooks, streamed: type[BaseStreamedResponse], awaits: bool
) -> Layer:
    """Return the layer that calls a fallback for requests that failed.

    Args:
        function: from the user.
        hooks: the user's; "on_fallback" is called for each response that replaces a failure.
        streamed: the class of streamed responses.
        awaits: whether the client can await coroutine functions.
    """

    async def replace(request: ClientRequest, failure: Failure) -> Response | None:
        found = function(request, failure)
        if inspect.isawaitable(found):
            if not awaits:
                if inspect.iscoroutine(found):  # otherwise Python warns that it was never awaited
                    found.close()
                raise TypeError(_NEEDS_ASYNC_CLIENT)
            found = await found
        if found is None:
            return None
        response = check_response(found, "the fallback")
        if response is failure:
            return None
        response.is_fallback = True
        response.attempts = failure.attempts
        hooks.totals.add("fallbacks")
        for observe in network.fallback_observers:
            observe(request, failure)
        if hooks.has(_EVENT):
            await hooks.notify(_EVENT, _make_event(request, failure))
        return _to_stream(request, response, streamed) if request.stream else response

    def wrap(send: Send) -> Send:
        async def through(request: ClientRequest) -> Response:
            try:
                response = await send(request)
            except ClientClosed:  # a mistake of the program, which a fallback would hide
                raise
            except RequestException as error:
                replacement = await replace(request, error)
                if replacement is None:
                    raise
                return replacement
            if not is_failure(request, response):
                return response
            try:
                replacement = await replace(request, response)
            except BaseException:
                response.abort()
                raise
            if replacement is None:
                return response
            await response.discard()
            return replacement

        return through

    return wrap


def _to_stream(
    request: ClientRequest, response: Response, streamed: type[BaseStreamedResponse]
) -> Response:
    if isinstance(response, BaseStreamedResponse):
        return response
    stored = StoredBody(response._head, [response.content], response.timings)
    made = streamed(request, stored)
    made.is_fallback, made.attempts = True, response.attempts
    return made


def _make_event(request: ClientRequest, failure: Failure) -> AttemptEvent:
    status_code, error = None, None
    if isinstance(failure, Response):
        status_code = failure.status_code
    else:
        error = type(failure).__name__
    number = max(1, len(failure.attempts))
    url = redact_url(request.url)
    return AttemptEvent(_EVENT, request.method, url, number, status_code, error)
