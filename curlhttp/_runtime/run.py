"""Run the shared flow without an event loop."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from sys import is_finalizing
from typing import Any, Protocol, TypeVar

from curlhttp._http.exiting import exit_error
from curlhttp._runtime.running_maps import (
    ENDLESS,
    LOOK_AGAIN,
    is_only_thread,
    running,
    wait_and_step,
)
from curlhttp.exceptions import PoolTimeout

T = TypeVar("T")
R = TypeVar("R")


class Offload(Protocol):
    """Call a function where it may block."""

    # Any: the arguments are those of the function.
    def __call__(self, call: Callable[..., T], /, *arguments: Any) -> Awaitable[T]:
        """Return an awaitable of the function's result."""


async def run_here(call: Callable[..., T], /, *arguments: Any) -> T:  # Any: see Offload
    """Call a function directly, because everything may block in Client."""
    return call(*arguments)


NEEDS_A_LOOP = (
    "a middleware, hook or auth of this Client awaited something that needs an event loop; "
    "use AsyncClient, or await nothing but send(request)"
)


# These functions make the coroutine themselves, by a call without `*`. If they received a
# coroutine, a Ctrl-C at their start would drop it unawaited, with a warning. So would a Ctrl-C
# right after `call(*arguments)`. The interpreter handles signals at these points, but not between
# the two steps below.
def run_sync(call: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine that never suspends, and return its result.

    Args:
        call: makes the coroutine, although its type only promises an awaitable.

    Raises:
        RuntimeError: it suspended, because something in it needs an event loop.
        ClientClosed: Python is exiting.
    """
    if is_finalizing():
        raise exit_error()
    awaitable = call()
    try:
        awaitable.send(None)  # type: ignore[attr-defined]  # most are coroutines
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise _make_suspended_error(awaitable)


def send_sync(send: Callable[[R], Awaitable[T]], request: R) -> T:
    """Run a coroutine with one argument, such as a request, and return its result; see run_sync.

    The caller has checked that Python is not exiting.
    """
    awaitable = send(request)
    try:
        awaitable.send(None)  # type: ignore[attr-defined]
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise _make_suspended_error(awaitable)


def _make_suspended_error(awaitable: Awaitable[object]) -> RuntimeError:
    awaitable.close()  # type: ignore[attr-defined]
    return RuntimeError(NEEDS_A_LOOP)


# --- Run the attempts of a request in a thread, where they cannot suspend ---


class SequentialRace:
    """Runs each coroutine to its end when it starts: nothing in it can wait without the thread."""

    async def __aenter__(self) -> None:
        """Do nothing."""

    async def __aexit__(self, *exc: object) -> None:
        """Do nothing: no coroutine is running."""

    def start(self, call: Callable[[R], Awaitable[None]], argument: R) -> None:
        """Run a coroutine."""
        coroutine = call(argument)
        step(coroutine)

    async def wait(self, seconds: float | None) -> None:
        """Do nothing, because every coroutine has ended."""

    def wake(self) -> None:
        """Do nothing."""


def step(coroutine: Awaitable[None], pause: object = None) -> bool:
    """Continue a coroutine; return whether it has ended.

    Args:
        coroutine: gets a RuntimeError if it suspends in another way than with `pause`.
        pause: the object that it may yield to suspend; None for nothing.
    """
    try:
        found = coroutine.send(None)  # type: ignore[attr-defined]
        while pause is None or found is not pause:
            found = coroutine.throw(RuntimeError(NEEDS_A_LOOP))  # type: ignore[attr-defined]
    except StopIteration:
        return True
    return False


# --- Make a thread wait until another one wakes it ---


# Seconds of one wait for a lock: on Windows, Ctrl-C does not end it.
_SLICE = 0.5 if sys.platform == "win32" else threading.TIMEOUT_MAX


class ThreadWaiter:
    """A waiter for one thread, which any thread may wake.

    It does not use threading.Event: a finalizer that sets the event in the waiting thread would
    deadlock, and Ctrl-C during a wait may become a RuntimeError.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        """Wake the thread. Never blocks, and may be called twice."""
        with suppress(RuntimeError):  # it was already woken
            self._lock.release()

    def can_look_around(self, seconds: float | None) -> bool:
        """Return whether a wait may be split; not if `wait` has to find out that it has no end."""
        return seconds is not None or not (running or is_only_thread())

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until `wake` is called, or for so many seconds.

        Raises:
            PoolTimeout: the wait has no end.
        """
        self.wait_blocking(seconds)

    def wait_blocking(self, seconds: float | None = None) -> bool:
        """Wait as `wait` does, without a coroutine; return whether `wake` was called."""
        if running:
            return wait_and_step(self._wait, seconds)
        if seconds is not None:
            return self._wait(seconds)
        while not is_only_thread():
            if self._wait(LOOK_AGAIN):
                return True
            if running:
                return wait_and_step(self._wait, None)
        if not self._wait(0):
            gc.collect()  # a response that nobody refers to any more may hold it
            if not self._wait(0):
                raise PoolTimeout(ENDLESS)
        return True

    def _wait(self, seconds: float) -> bool:
        while seconds > _SLICE:
            if self._lock.acquire(timeout=_SLICE):
                return True
            seconds -= _SLICE
        return self._lock.acquire(timeout=seconds)
