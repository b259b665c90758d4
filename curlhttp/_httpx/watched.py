"""Log what libcurl did for a request of httpx, which logs at INFO itself."""

from __future__ import annotations

from collections.abc import Awaitable

from curlhttp._engine import Incoming
from curlhttp._models.request import Request
from curlhttp._watch import Watch

__all__ = ["watched"]


async def watched(request: Request, opening: Awaitable[Incoming]) -> Incoming:
    """Return the response on its way, and log the attempts up to its head at DEBUG.

    Args:
        request: as the engine gets it.
        opening: gives the response, and has not begun yet.
    """
    with Watch(request):
        return await opening
