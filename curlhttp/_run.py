"""Run the shared flow without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

__all__ = ["NEEDS_A_LOOP", "run_sync"]

T = TypeVar("T")

NEEDS_A_LOOP = (
    "a middleware, hook or auth of this Client awaited something that needs an event loop; "
    "use AsyncClient, or await nothing but send(request)"
)


def run_sync(awaitable: Awaitable[T]) -> T:
    """Return what a coroutine returns that never suspends.

    Args:
        awaitable: the coroutine; the layers that it comes through promise no more.

    Raises:
        RuntimeError: it suspended: something in it awaits an event loop.
    """
    coroutine: Any = awaitable  # an Awaitable has no `send`, of which this makes use
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError(NEEDS_A_LOOP)
