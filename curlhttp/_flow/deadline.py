"""Turn the total timeout into a point in time, which bounds every wait and transfer below."""

from __future__ import annotations

from collections.abc import Awaitable

from curlhttp._engine import Clock, Layer, Send
from curlhttp._models.request import Request
from curlhttp._models.response import Response

__all__ = ["LEAST", "deadline"]

LEAST = 0.001  # seconds without which an attempt is not worth beginning


def deadline(clock: Clock) -> Layer:
    """Return the layer that sets the deadline of what is sent.

    Args:
        clock: tells the time.
    """
    now = clock.now

    def around(send: Send) -> Send:
        def bounded(request: Request) -> Awaitable[Response]:
            total = request.timeout.total
            if total is not None and request.deadline is None:
                request = request.copy()  # the caller may send this one again, later
                request.deadline = now() + total
            return send(request)

        return bounded

    return around
