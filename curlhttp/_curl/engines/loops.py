"""Which engine serves which event loop. Loaded with the first AsyncClient."""

from __future__ import annotations

import asyncio
import warnings
from asyncio import _get_running_loop, current_task
from functools import partial
from typing import TypeAlias

from anyio.lowlevel import EventLoopToken, current_token
from anyio.to_thread import run_sync as in_thread

from curlhttp._curl.engines.event_loop import EventLoopEngine
from curlhttp._curl.engines.on_asyncio import AsyncioEngine
from curlhttp._models.config import Limits

__all__ = ["Loop", "in_thread", "install_uvloop", "running_loop"]

Loop: TypeAlias = asyncio.AbstractEventLoop | EventLoopToken

# A task that is cancelled leaves its thread behind, to end when it can.
in_thread_or_leave = partial(in_thread, abandon_on_cancel=True)


def install_uvloop() -> bool:
    """Make asyncio use uvloop's event loops from now on, where uvloop is installed.

    Returns:
        Whether it does. Without uvloop nothing changes.
    """
    install = getattr(asyncio, "set_event_loop_policy", None)  # Python 3.16 has none
    try:
        from uvloop import EventLoopPolicy
    except ImportError:
        return False
    if install is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.14
        install(EventLoopPolicy())
    return True


def running_loop() -> Loop:
    """Return what stands for the running event loop: the asyncio loop, or anyio's token."""
    loop = _get_running_loop()
    # In trio's guest mode there is a host loop, but this is no task of it.
    if loop is not None and current_task(loop) is not None:
        return loop
    return current_token()


def make_engine(
    engines: dict[Loop, EventLoopEngine], loop: Loop, limits: Limits, *, multiplexes: bool
) -> EventLoopEngine:
    """Make the engine for an event loop and note it; close those of loops that have ended.

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
        from curlhttp._curl.engines.on_trio import TrioEngine

        engine = TrioEngine(limits, multiplexes=multiplexes)
    for ended in _ended(engines):
        ended.close()
    engines[loop] = engine
    return engine


async def close_engines(engines: dict[Loop, EventLoopEngine], loop: Loop) -> None:
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


def _ended(engines: dict[Loop, EventLoopEngine]) -> list[EventLoopEngine]:
    """Take the engines of ended loops out."""
    ended = []
    for loop, engine in list(engines.items()):
        # Another thread may take it out at the same time: only one gets it.
        if engine.has_ended() and engines.pop(loop, None) is not None:
            ended.append(engine)
    return ended
