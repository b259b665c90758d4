"""Run the user's middleware for each attempt: retries, redirects, challenges, hedges."""

from __future__ import annotations

from curlhttp._engine.engine import Layer, Middleware, Send
from curlhttp._flow.chain import Host, LayerContext, Settings
from curlhttp._flow.hooks import check_response
from curlhttp._flow.middleware import validate_functions
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response


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
    return lambda request: function(request, send)
