"""Run the shared flow without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

__all__ = ["NEEDS_A_LOOP", "Offload", "run_here", "run_sync"]

T = TypeVar("T")


class Offload(Protocol):
    """Call a function where it may block."""

    # Any: the arguments are those of the function.
    def __call__(self, call: Callable[..., T], /, *arguments: Any) -> Awaitable[T]:
        """Return what gives the function's result."""


async def run_here(call: Callable[..., T], /, *arguments: Any) -> T:  # Any: see Offload
    """Call a function right here: in Client, everything may block."""
    return call(*arguments)


NEEDS_A_LOOP = (
    "a middleware, hook or auth of this Client awaited something that needs an event loop; "
    "use AsyncClient, or await nothing but send(request)"
)


# Any: the arguments are those of the call.
def run_sync(call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
    """Return what a coroutine returns that never suspends.

    Args:
        call: makes the coroutine; the layers that it comes through promise no more. A coroutine
            itself would be left behind, with a warning, by a Ctrl-C that comes when this function
            begins: the interpreter lets signals in there, and never between the two steps below.
        arguments: of the call.

    Raises:
        RuntimeError: it suspended: something in it awaits an event loop.
    """
    awaitable = call(*arguments)
    try:
        awaitable.send(None)  # type: ignore[attr-defined]  # most are coroutines
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    awaitable.close()  # type: ignore[attr-defined]
    raise RuntimeError(NEEDS_A_LOOP)
