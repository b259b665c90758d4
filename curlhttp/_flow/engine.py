"""The seam between the flow, which decides in what order, and the engines, which move bytes.

Everything above is written once, as coroutines that suspend in an engine's methods only. The
blocking engine's never suspend, so that `run_sync` can drive the same code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from curlhttp._models.request import Request
from curlhttp._models.response import Response

__all__ = ["Engine", "Layer", "Middleware", "Send"]


class Engine(Protocol):
    """Move the bytes of one request at a time.

    An `incoming` is a response still on the wire, in the engine's own terms; its `head` is in.
    """

    async def perform(self, request: Request) -> Response:
        """Send the request and return the response with its body in memory."""

    async def open(self, request: Request) -> Any:
        """Send the request and return once the head of the response is in."""

    async def read(self, incoming: Any) -> bytes:
        """Return the next piece of the body as it came, b"" at the end."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    def abort(self, incoming: Any) -> None:
        """Let go of a response; never waits."""

    def orphan(self, incoming: Any) -> None:
        """Let go of a response from a finalizer, in whatever thread that runs."""

    def close(self) -> None:
        """Close all connections."""


Send: TypeAlias = Callable[[Request], Awaitable[Response]]
Layer: TypeAlias = Callable[[Send], Send]
Middleware: TypeAlias = Callable[[Request, Send], Awaitable[Response]]
