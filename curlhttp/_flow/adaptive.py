"""Tell an adaptive limit how each attempt went; _policy/adaptive.py draws the conclusions.

This layer is below the rate limit, so that waits for it do not count as latency. The layer of
_flow/limits.py, above both, waits for a slot.
"""

from __future__ import annotations

from curlhttp._engine.engine import Clock, Send
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.adaptive import AdaptiveLimit


def observe(limit: AdaptiveLimit, clock: Clock, send: Send) -> Send:
    """Return a function that sends a request and tells the limit what happened.

    Args:
        limit: of the attempts.
        clock: of the engine.
        send: sends an attempt.
    """

    async def observed(request: Request) -> Response:
        origin, begun = request.url.origin, clock.now()
        try:
            response = await send(request)
        # BaseException, because callers also limit the time of a request by cancelling it.
        except BaseException as error:
            limit.note_failure(origin, error, begun, clock.now())
            raise
        times = response.timings
        latency = times.first_byte - times.dns - times.connect - times.tls
        limit.note_response(origin, response.status_code, latency, begun, clock.now())
        return response

    return observed
