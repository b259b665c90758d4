"""Ask for the certificate of the server with each response, for clients that want it.

libcurl tells it while a transfer is under way (CURLINFO_CERTINFO): so all bodies are read as those
of streams are.
"""

from __future__ import annotations

from collections.abc import Awaitable

from curlhttp._engine.engine import Exchange, HedgePlan
from curlhttp._flow.streamed import Streamed
from curlhttp._models.request import Request
from curlhttp._models.response import Response

__all__ = ["with_certificates"]


def with_certificates(last: Exchange) -> Exchange:
    """Return the flow's last step, whose responses over TLS have the certificate.

    Args:
        last: hands the request to the engine.
    """

    def send(request: Request, plan: HedgePlan | None = None) -> Awaitable[Response]:
        if request.url.scheme == "https":
            return _sent(last, request, plan)
        return last(request) if plan is None else last(request, plan)

    return send


async def _sent(last: Exchange, request: Request, plan: HedgePlan | None) -> Response:
    asked = request
    if not request.stream:
        asked = request.copy()  # the same request may be under way a second time
        asked.stream = True
    response = await (last(asked) if plan is None else last(asked, plan))
    if not isinstance(response, Streamed):  # a redirect, whose body is read
        response.request = request
        return response
    certificate = response.certificate  # it is known no more when the body has ended
    if request.stream:
        return response
    await response.load()
    whole = Response(request, response._head, response.content, response.timings)
    whole._certificate = certificate
    return whole
