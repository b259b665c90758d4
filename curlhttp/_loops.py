"""Which engine serves which event loop. Loaded with the first request of an AsyncClient."""

from __future__ import annotations

import asyncio
from typing import Any

from curlhttp._config import Limits
from curlhttp._curl.engine_anyio import AnyioEngine
from curlhttp._curl.engine_async import AsyncEngine
from curlhttp._curl.engine_asyncio import AsyncioEngine

__all__ = ["close_engines", "make_engine"]


def make_engine(
    engines: dict[Any, AsyncEngine], loop: Any, limits: Limits, *, multiplexes: bool
) -> AsyncEngine:
    """Make the engine for an event loop and note it; close those of loops that have ended.

    Args:
        engines: the client's engines by loop.
        loop: an asyncio loop, or anyio's token for another kind.
        limits: the client's limits.
        multiplexes: see AsyncEngine.
    """
    engine: AsyncEngine
    if isinstance(loop, asyncio.AbstractEventLoop):
        engine = AsyncioEngine(limits, multiplexes=multiplexes, loop=loop)
    else:
        engine = AnyioEngine(limits, multiplexes=multiplexes)
    for ended in _ended(engines):
        ended.close()
    engines[loop] = engine
    return engine


async def close_engines(engines: dict[Any, AsyncEngine], loop: Any) -> None:
    """Close the engine of the running loop, and those of loops that have ended.

    Args:
        engines: the client's engines by loop.
        loop: what stands for the running loop.
    """
    own = engines.pop(loop, None)
    for ended in _ended(engines):
        ended.close()
    if own is not None:
        await own.aclose()


def _ended(engines: dict[Any, AsyncEngine]) -> list[AsyncEngine]:
    """Take the engines of ended loops out."""
    loops = [loop for loop in list(engines) if _has_ended(loop)]
    return [engines.pop(loop) for loop in loops]


def _has_ended(loop: Any) -> bool:
    if isinstance(loop, asyncio.AbstractEventLoop):
        return loop.is_closed()
    native = getattr(loop, "native_token", None)
    runner = getattr(native, "_runner", None)  # trio keeps no public word on a finished run
    return bool(runner is not None and not getattr(runner, "tasks", True))
