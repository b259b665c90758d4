"""Run the shared flow without an event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

__all__ = ["NEEDS_A_LOOP", "Offload", "run_here", "run_sync", "send_sync"]

T = TypeVar("T")
R = TypeVar("R")


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


# Both below make the coroutine themselves, by a call without `*`: one that is passed would be left
# behind, with a warning, by a Ctrl-C that comes when they begin, and one that `call(*arguments)`
# made by a Ctrl-C that comes right then. The interpreter lets signals in there, and not between
# the two steps below.
def run_sync(call: Callable[[], Awaitable[T]]) -> T:
    """Return what a coroutine returns that never suspends.

    Args:
        call: makes the coroutine; the layers that it comes through promise no more.

    Raises:
        RuntimeError: it suspended: something in it awaits an event loop.
    """
    awaitable = call()
    try:
        awaitable.send(None)  # type: ignore[attr-defined]  # most are coroutines
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise _suspended(awaitable)


def send_sync(send: Callable[[R], Awaitable[T]], request: R) -> T:
    """Return what a coroutine returns for a request; see run_sync."""
    awaitable = send(request)
    try:
        awaitable.send(None)  # type: ignore[attr-defined]
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise _suspended(awaitable)


def _suspended(awaitable: Awaitable[object]) -> RuntimeError:
    awaitable.close()  # type: ignore[attr-defined]
    return RuntimeError(NEEDS_A_LOOP)
