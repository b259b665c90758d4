"""Make the engine of an event loop, and close those of loops that have ended.

Loaded with the first AsyncClient.
"""

from __future__ import annotations

import asyncio

from curlhttp._http.config import Limits
from curlhttp._libcurl.engines.event_loop import EventLoopEngine
from curlhttp._libcurl.engines.on_asyncio import AsyncioEngine
from curlhttp._runtime.loops import Loop


def make_engine(
    engines: dict[Loop, EventLoopEngine], loop: Loop, limits: Limits, *, multiplexes: bool
) -> EventLoopEngine:
    """Make and store the engine for an event loop; close those of loops that have ended.

    Args:
        engines: the client's engines by loop.
        loop: an asyncio loop, or anyio's token for another kind.
        limits: the client's limits.
        multiplexes: see MultiEngine.
    """
    engine: EventLoopEngine
    if isinstance(loop, asyncio.AbstractEventLoop):
        engine = AsyncioEngine(limits, multiplexes=multiplexes, loop=loop)
    else:
        from curlhttp._libcurl.engines.on_trio import TrioEngine

        engine = TrioEngine(limits, multiplexes=multiplexes)
    for ended in _ended(engines):
        ended.close()
    engines[loop] = engine
    return engine


async def close_engines(engines: dict[Loop, EventLoopEngine], loop: Loop) -> None:
    """Close the engine of the running loop, and those of loops that have ended.

    Args:
        engines: the client's engines by loop.
        loop: the running loop, see running_loop.
    """
    own = engines.pop(loop, None)
    for ended in _ended(engines):
        ended.close()
    if own is not None:
        await own.aclose()


def close_from_outside(engines: dict[Loop, EventLoopEngine]) -> list[str]:
    """Close the engines of all loops, in a thread that runs none of them.

    Returns what a loop still has to end, which runs in another thread.

    Args:
        engines: the client's engines by loop.
    """
    left = []
    for loop in list(engines):
        engine = engines.pop(loop, None)
        if engine is None:  # another thread closes it
            continue
        # A loop that only pauses runs no tasks, so nothing else uses its engine.
        pauses = isinstance(loop, asyncio.AbstractEventLoop) and not loop.is_running()
        number = engine.running
        if pauses or engine.has_ended() or not engine.close_soon():
            engine.close()
        else:
            requests = "request" if number == 1 else "requests"
            left.append(
                f"{number} {requests} and the connections of an event loop of another thread, "
                "which ends them soon"
            )
    return left


def _ended(engines: dict[Loop, EventLoopEngine]) -> list[EventLoopEngine]:
    """Remove and return the engines of ended loops."""
    ended = []
    for loop, engine in list(engines.items()):
        # Another thread may remove it at the same time; only one gets it.
        if engine.has_ended() and engines.pop(loop, None) is not None:
            ended.append(engine)
    return ended
