"""Log an attempt, of whichever engine, when the logger "curlhttp" takes it. See _watch.py."""

from __future__ import annotations

from collections.abc import Awaitable

from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._watch import Watch

__all__ = ["logged"]


async def logged(request: Request, sent: Awaitable[Response]) -> Response:
    """Return the response of an attempt, and log it.

    Args:
        request: of the attempt.
        sent: gives the response, and has not begun yet.
    """
    with Watch(request) as watch:
        response = await sent
        watch.answered(response._head, response.timings, response.request)
    return response
