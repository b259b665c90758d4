"""Run the user's middleware for each attempt: retries, redirects, challenges, hedges."""

from __future__ import annotations

from collections.abc import Sequence

from curlhttp._engine.engine import Layer, Middleware, Send
from curlhttp._flow.hooks import check_response
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response


def attempt_middleware(functions: Sequence[Middleware]) -> Layer:
    """Return the layer that runs middleware for each attempt.

    Args:
        functions: the user's middleware, outermost first.
    """

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
