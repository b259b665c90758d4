"""Hear which origins speak HTTP/3, for the requests that follow."""

from __future__ import annotations

from curlhttp._engine.engine import Layer, Send
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.alt_svc import Alternatives

__all__ = ["alt_svc"]


def alt_svc(alternatives: Alternatives) -> Layer:
    """Return the layer that takes Alt-Svc in, on each hop.

    Args:
        alternatives: where it is kept.
    """

    def around(send: Send) -> Send:
        async def through(request: Request) -> Response:
            response = await send(request)
            if request.url.scheme == "https":
                values = response.headers.get_list("alt-svc")
                if values:
                    alternatives.note(request.url, ", ".join(values))
            return response

        return through

    return around
