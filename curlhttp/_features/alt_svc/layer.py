"""Remember which origins offer HTTP/3; _features/alt_svc/policy.py reads the header."""

from __future__ import annotations

from curlhttp._client.chain import LayerContext
from curlhttp._features.alt_svc.policy import AltSvcCache
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Layer, Send


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
