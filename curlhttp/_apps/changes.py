"""What the client's task and the app's tasks wait at, for the other side to get on."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

import anyio.lowlevel

from curlhttp._engine import Gate

__all__ = ["Changes"]

_STRETCH = 0.005  # seconds that an app may run between two of its messages that wait for nothing


class Changes:
    """Wake all who wait, in one event loop, whenever something may be otherwise.

    Args:
        make_gate: makes a gate of the loop.
    """

    def __init__(self, make_gate: Callable[[], Gate]) -> None:
        self._make_gate = make_gate
        self._waiting: set[Gate] = set()
        self._turn_due = monotonic() + _STRETCH

    def tell(self) -> None:
        """Wake all who wait."""
        for gate in self._waiting:
            gate.open()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until something may be otherwise, or for so long.

        Args:
            seconds: None for as long as it takes.
        """
        gate = self._make_gate()
        self._waiting.add(gate)
        try:
            await gate.wait(seconds)
        finally:
            self._waiting.discard(gate)

    async def give_turn(self) -> None:
        """Let the loop run others now and then, within a message of the app.

        An app whose messages never wait would keep the loop to itself: no timeout could end its
        request, and nobody could cancel it. A turn for every message would cost more than most
        messages do.
        """
        if monotonic() >= self._turn_due:
            for _ in range(2):  # anyio on asyncio cancels nobody who was told in the same turn
                await anyio.lowlevel.checkpoint()
            self._turn_due = monotonic() + _STRETCH
