"""Which lines are recorded already, in four bytes a line."""

from __future__ import annotations

from array import array
from typing import Literal

__all__ = ["Recorded"]

State = Literal["new", "done", "failed", "changed"]
_MORE = 1 << 16
_APART = 1 << 26  # lines, by which one recorded line comes after another at most: 256 MiB


class Recorded:
    """Remember lines by their number: what they asked for, and whether that went well.

    Attributes:
        done: how many went well.
        failed: how many did not.
    """

    def __init__(self) -> None:
        # A fingerprint of 30 bits, then 1 for failed, then 1 for recorded.
        self._lines = array("I")
        self.done: int = 0
        self.failed: int = 0

    def add(self, number: int, fingerprint: int, ok: bool) -> None:
        """Remember a line; what was known of it is forgotten.

        Args:
            number: of the line, from 1 on.
            fingerprint: see InputLine.
            ok: it need not be fetched again.

        Raises:
            ValueError: no line has such a number or fingerprint.
        """
        lines = self._lines
        if not (0 < number < len(lines) + _APART and 0 <= fingerprint < 1 << 30):
            raise ValueError("no line has such a number or fingerprint")
        if number >= len(lines):
            lines.frombytes(bytes(lines.itemsize * (number + _MORE - len(lines))))
        self.forget(number)
        lines[number] = fingerprint << 2 | (not ok) << 1 | 1
        self._count(lines[number], 1)

    def forget(self, number: int) -> None:
        """Forget a line, which is fetched again."""
        if number < len(self._lines):
            self._count(self._lines[number], -1)
            self._lines[number] = 0

    def _count(self, entry: int, change: int) -> None:
        if entry & 2:
            self.failed += change
        elif entry:
            self.done += change

    def state(self, number: int, fingerprint: int) -> State:
        """Return what is known of a line; one that failed and was edited since then is new.

        Args:
            number: of the line.
            fingerprint: of the line as it is now.
        """
        entry = self._lines[number] if number < len(self._lines) else 0
        same = entry >> 2 == fingerprint
        if not entry or (entry & 2 and not same):
            return "new"
        if entry & 2:
            return "failed"
        return "done" if same else "changed"
