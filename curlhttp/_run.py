"""Run the shared flow without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["run_sync"]

T = TypeVar("T")


def run_sync(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns that never suspends.

    Raises:
        RuntimeError: it suspended: something in it awaits an event loop.
    """
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError(
        "a middleware, hook or auth of this Client awaited something that needs an event loop; "
        "use AsyncClient, or await nothing but send(request)"
    )
