"""Run the shared flow without an event loop."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

__all__ = ["NEEDS_A_LOOP", "Offload", "ThreadGate", "run_here", "run_sync", "send_sync"]


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


# --- Where one thread waits until another one lets it go on ---


class ThreadGate:
    """Something that one thread waits at until it is opened, from any.

    No threading.Event: a finalizer that opens one in the thread that waits for it would wait for
    itself, and of Ctrl-C in its wait it may make a RuntimeError.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """Let the thread go on; never waits, may be called twice."""
        with suppress(RuntimeError):  # it was open
            self._lock.release()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until it is open, or for so long."""
        self.pass_within(seconds)

    def pass_within(self, seconds: float | None = None) -> bool:
        """Wait as `wait` does, without a coroutine; return whether the gate was opened."""
        return self._lock.acquire(
            timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX)
        )
