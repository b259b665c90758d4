"""What the client's task and the app's tasks wait at, for the other side to get on."""

from __future__ import annotations

from collections.abc import Callable

from curlhttp._engine import Gate

__all__ = ["Changes"]


class Changes:
    """Wake all who wait, in one event loop, whenever something may be otherwise.

    Args:
        make_gate: makes a gate of the loop.
    """

    def __init__(self, make_gate: Callable[[], Gate]) -> None:
        self._make_gate = make_gate
        self._waiting: set[Gate] = set()

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
