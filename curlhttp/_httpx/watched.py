"""Log what libcurl did for a request of httpx, which logs at INFO itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from curlhttp._engine import Engine, Incoming
from curlhttp._models.request import Request
from curlhttp._watch import Watch

__all__ = ["watched"]


async def watched(
    request: Request, engine: Engine, start: Callable[[Engine, Request], Awaitable[Incoming]]
) -> Incoming:
    """Return the response on its way, and log the attempts up to its head at DEBUG.

    Args:
        request: as the engine gets it.
        engine: sends it.
        start: has it sent, and gives the response.
    """
    with Watch(request):
        return await start(engine, request)
