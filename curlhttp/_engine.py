"""The seam between the flow, which decides in what order, and the engines, which move bytes.

Everything above is written once, as coroutines that suspend in an engine's methods only. The
blocking engine's never suspend, so that `run_sync` can drive the same code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeAlias

from curlhttp._models.request import Request
from curlhttp._models.response import Response

__all__ = ["Clock", "Engine", "Gate", "Layer", "Middleware", "Send"]


class Engine(Protocol):
    """Move the bytes of one request at a time.

    An `incoming` is a response still on the wire, in the engine's own terms; its `head` is in.
    """

    async def perform(self, request: Request, plan: Any = None) -> Response:
        """Send the request and return the response with its body in memory.

        Args:
            request: complete.
            plan: when to send it again while it is under way: _flow/hedge.py. None for never.
        """

    async def open(self, request: Request, plan: Any = None) -> Any:
        """Send the request and return once the head of the response is in.

        Args:
            request: complete.
            plan: see perform.
        """

    async def read(self, incoming: Any) -> bytes:
        """Return the next piece of the body as it came, b"" at the end."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def now(self) -> float:
        """Return monotonic seconds, as time.monotonic() does."""

    def wall(self) -> float:
        """Return the time of day in seconds since the epoch, as time.time() does."""

    def gate(self) -> Gate:
        """Return a closed gate, for a caller to wait at."""

    def abort(self, incoming: Any) -> None:
        """Let go of a response; never waits."""

    def orphan(self, incoming: Any) -> None:
        """Let go of a response from a finalizer, in whatever thread that runs."""

    def close(self) -> None:
        """Close all connections."""


class Gate(Protocol):
    """Something that one caller waits at until somebody opens it."""

    def open(self) -> object:
        """Let the caller go on; from any thread, never waits, may be called twice."""

    async def wait(self, seconds: float | None) -> None:
        """Wait until it is open, or for so long."""


class Clock(NamedTuple):
    """The time as the engine has it; real engines have the machine's, a scripted one its own.

    Attributes:
        now: gives monotonic seconds.
        wall: gives the time of day in seconds since the epoch.
        sleep: waits for seconds; to be awaited.
    """

    now: Callable[[], float]
    wall: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]


Send: TypeAlias = Callable[[Request], Awaitable[Response]]
Layer: TypeAlias = Callable[[Send], Send]
Middleware: TypeAlias = Callable[[Request, Send], Awaitable[Response]]
