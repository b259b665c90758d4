"""Remember which origins offer HTTP/3; _policy/alt_svc.py reads the header."""

from __future__ import annotations

from curlhttp._engine.engine import Layer, Send
from curlhttp._flow.chain import LayerContext
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response
from curlhttp._policy.alt_svc import AltSvcCache


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that stores the Alt-Svc of each hop."""
    alternatives: AltSvcCache = context.settings["alternatives"]

    def wrap(send: Send) -> Send:
        async def through(request: ClientRequest) -> Response:
            response = await send(request)
            if request.url.scheme == "https":
                values = response.headers.get_list("alt-svc")
                if values:
                    alternatives.note(request.url, ", ".join(values))
            return response

        return through

    return wrap
