"""Run the user's middleware for each attempt: retries, redirects, challenges, hedges."""

from __future__ import annotations

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._client.hooks import check_response
from curlhttp._features.middleware import complete_below_auth, validate_functions
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Layer, Middleware, Send


def start(settings: Settings, host: Host) -> None:
    """Validate the functions.

    Raises:
        TypeError: this is not a list of functions.
    """
    validate_functions(settings, "attempt_middleware")


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that runs a client's middleware for each attempt, the first outermost."""
    functions: tuple[Middleware, ...] = context.settings["attempt_middleware"]

    def wrap(send: Send) -> Send:
        for function in reversed(functions):
            send = _apply(function, send)

        async def through(request: ClientRequest) -> Response:
            # A copy, so that changes for one attempt affect neither the next nor the layers above.
            return check_response(await send(request.copy()), "an attempt_middleware")

        return through

    return wrap


def _apply(function: Middleware, send: Send) -> Send:
    return lambda request: function(
        request, lambda changed: send(complete_below_auth(changed, request))
    )
