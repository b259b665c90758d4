"""Raise HTTPError for a response with a status of 4xx or 5xx, as `raise_for_status=True` asks."""

from __future__ import annotations

from curlhttp._engine.engine import Layer, Send
from curlhttp._flow.chain import LayerContext
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response

_EVENTS = "text/event-stream"


def make_layer(context: LayerContext) -> Layer:
    """Return the layer."""
    return raise_for_status


def raise_for_status(send: Send) -> Send:
    """Return a function that sends a request and raises for the status of its response."""

    async def through(request: ClientRequest) -> Response:
        response = await send(request)
        if response.is_error and request.get_header("accept") != _EVENTS:  # sse() decides itself
            await response.load()  # so that the exception has the body
            response.raise_for_status()
        return response

    return through
