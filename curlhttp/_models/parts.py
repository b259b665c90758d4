"""Collect small parts of bytes or text and join them, with little more memory than their content.

A list of pieces of two bytes takes twenty times their size, and adding each piece to one string
takes quadratic time.
"""

from __future__ import annotations

from typing import AnyStr, Generic

__all__ = ["MANY", "Parts", "fold"]

MANY = 256  # parts: this many are joined at once


class Parts(Generic[AnyStr]):
    """Collect parts until they are joined."""

    __slots__ = ("_folded", "_parts")

    def __init__(self) -> None:
        self._parts: list[AnyStr] = []
        self._folded = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, part: AnyStr) -> None:
        """Add one more part."""
        self._parts.append(part)
        if len(self._parts) - self._folded >= MANY:
            self._folded = fold(self._parts, self._folded)

    def take(self, last: AnyStr) -> AnyStr:
        """Return all parts and a last one, joined, and start over."""
        parts, self._parts, self._folded = self._parts, [], 0
        if last or not parts:
            parts.append(last)
        return last[:0].join(parts)  # one part alone is not copied


def fold(parts: list[AnyStr], folded: int) -> int:
    """Join the parts that were not joined before; return how many parts are left.

    Args:
        parts: changed in place.
        folded: how many of them, from the start, are already joined.
    """
    parts[folded:] = [parts[folded][:0].join(parts[folded:])]
    return folded + 1
