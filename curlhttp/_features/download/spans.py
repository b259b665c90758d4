"""Which bytes of a file are there, and how the rest is divided into segments. Pure."""

from __future__ import annotations

import json
from binascii import crc32

LINE = 4096  # bytes of the line that stores spans, and of a page of the system
MIN_SEGMENT = 1024 * 1024  # bytes
_MOST = 90  # spans in a line: two numbers of 18 digits and a few signs each

Span = tuple[int, int]
"""The positions of the first byte, and after the last one."""


class Spans:
    """The bytes of a file that are there, as spans that do not touch.

    Args:
        spans: as sorted pairs of positions.
    """

    def __init__(self, spans: list[Span]) -> None:
        self._spans = spans

    @property
    def size(self) -> int:
        """Return how many bytes are there."""
        return sum(end - start for start, end in self._spans)

    @property
    def end(self) -> int:
        """Return the position after the last byte that is there."""
        return self._spans[-1][1] if self._spans else 0

    @property
    def prefix(self) -> int:
        """Return how many bytes are there from the beginning of the file on."""
        return self._spans[0][1] if self._spans and not self._spans[0][0] else 0

    def add(self, start: int, end: int) -> None:
        """Add bytes, some of which may be there already."""
        if start >= end:
            return
        apart = [span for span in self._spans if span[1] < start or span[0] > end]
        touching = [span for span in self._spans if span[1] >= start and span[0] <= end]
        merged = (
            min([start, *(span[0] for span in touching)]),
            max([end, *(span[1] for span in touching)]),
        )
        self._spans = sorted([*apart, merged])

    def missing(self, total: int) -> list[Span]:
        """Return the spans that are not there, of a file with `total` bytes."""
        starts = [0, *(end for _, end in self._spans)]
        ends = [*(start for start, _ in self._spans), total]
        return [(start, end) for start, end in zip(starts, ends, strict=True) if start < end]

    def to_line(self) -> bytes:
        """Return the spans as LINE bytes, the first of which begins a line.

        If they are too many, the smallest are left out.
        """
        spans = self._spans
        if len(spans) > _MOST:
            spans = sorted(sorted(spans, key=lambda span: span[0] - span[1])[:_MOST])
        text = json.dumps(spans, separators=(",", ":")).encode()
        return b"\n%s %08x" % (text, crc32(text)) + b" " * (LINE - len(text) - 10)

    @classmethod
    def from_line(cls, line: bytes) -> Spans | None:
        """Parse what to_line() returned, without its first byte; None if it is something else."""
        text, _, check = line.strip().partition(b" ")
        if check != b"%08x" % crc32(text):
            return None
        try:
            return cls([(int(start), int(end)) for start, end in json.loads(text)])
        except (ValueError, TypeError):
            return None


def divide(missing: list[Span], count: int) -> list[Span]:
    """Divide what is missing into at least so many segments, unless they would be too small.

    Args:
        missing: the spans.
        count: how many segments can be received at once.
    """
    parts = [1] * len(missing)

    def size_if_divided(index: int) -> int:
        start, end = missing[index]
        return (end - start) // (parts[index] + 1)

    while missing and sum(parts) < count:
        largest = max(range(len(missing)), key=size_if_divided)
        if size_if_divided(largest) < MIN_SEGMENT:
            break
        parts[largest] += 1
    return [
        (start + (end - start) * part // number, start + (end - start) * (part + 1) // number)
        for (start, end), number in zip(missing, parts, strict=True)
        for part in range(number)
    ]
