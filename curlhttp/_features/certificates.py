"""Give each response over TLS the server's certificate, as `certificates=True` asks.

libcurl reports it only during a transfer (CURLINFO_CERTINFO), so all bodies are streamed.
"""

from __future__ import annotations

from collections.abc import Awaitable

from curlhttp._client.chain import LayerContext
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._http.request import READ_BY_LAYER, ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Layer, Send


def make_layer(context: LayerContext) -> Layer:
    """Return the layer, which is right above the engine."""

    def wrap(last: Send) -> Send:
        def send(request: ClientRequest) -> Awaitable[Response]:
            if request.url.scheme == "https":
                return _send_for_certificate(last, request)
            return last(request)

        return send

    return wrap


async def _send_for_certificate(last: Send, request: ClientRequest) -> Response:
    streamed = request
    if not request.stream:
        streamed = request.copy()  # because another attempt may use the same request
        streamed.stream = True
        streamed._extend(READ_BY_LAYER, True)
    response = await last(streamed)
    if not isinstance(response, BaseStreamedResponse):  # a redirect that is followed
        response.request = request
        return response
    certificate = response.certificate  # before the body ends, because it is unknown afterwards
    if request.stream:
        return response
    await response.load()
    whole = Response(request, response._head, response.content, response.timings)
    whole._certificate = certificate
    return whole
