"""Parts of a body or a text that become one: in memory little more than what they hold.

A list of pieces of two bytes takes twenty times their bytes, and to add each to what is there takes
a time that grows with the square of it.
"""

from __future__ import annotations

from typing import AnyStr, Generic

__all__ = ["MANY", "Parts", "fold"]

MANY = 256  # parts: as many are joined as soon as they are there


class Parts(Generic[AnyStr]):
    """Collect parts until they are joined."""

    __slots__ = ("_folded", "_parts")

    def __init__(self) -> None:
        self._parts: list[AnyStr] = []
        self._folded = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, part: AnyStr) -> None:
        """Keep one more."""
        self._parts.append(part)
        if len(self._parts) - self._folded >= MANY:
            self._folded = fold(self._parts, self._folded)

    def take(self, last: AnyStr) -> AnyStr:
        """Return all of them and a last one, joined, and begin anew."""
        parts, self._parts, self._folded = self._parts, [], 0
        if last or not parts:
            parts.append(last)
        return last[:0].join(parts)  # of one part, that part itself


def fold(parts: list[AnyStr], folded: int) -> int:
    """Join the parts behind those that were joined before; return how many parts that leaves.

    Args:
        parts: is changed.
        folded: how many of them are joined from many.
    """
    parts[folded:] = [parts[folded][:0].join(parts[folded:])]
    return folded + 1
