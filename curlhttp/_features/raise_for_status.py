"""Raise HTTPError for a response with a status of 4xx or 5xx, as `raise_for_status=True` asks."""

from __future__ import annotations

from collections.abc import Awaitable

from curlhttp._client.chain import LayerContext
from curlhttp._client.straight import go_on, mark
from curlhttp._http.request import RAISE_FOR_STATUS, ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Layer, Send


def make_layer(context: LayerContext) -> Layer:
    """Return the layer, which raises for requests that ask for it, or for all others."""
    default: bool = context.settings.get("raise_for_status", False)

    def wrap(send: Send) -> Send:
        def through(request: ClientRequest, first: Response | None = None) -> Awaitable[Response]:
            extensions = request.extensions
            if default if extensions is None else extensions.get(RAISE_FOR_STATUS, default):
                return _raise_for_status(send, request)
            # Not send(request, *first): Ctrl-C can come after such a call, and lose the coroutine.
            return send(request) if first is None else go_on(send, request, first)

        if not default:
            mark(through, send)
        return through

    return wrap


async def _raise_for_status(send: Send, request: ClientRequest) -> Response:
    response = await send(request)
    if response.is_error:
        await response.load()  # so that the exception has the body
        response.raise_for_status()
    return response
