"""Findings: each kind is printed once with its first example, and all are counted."""

from __future__ import annotations

import sys
import threading
import traceback
from collections import Counter
from pathlib import Path

_ROOT = Path(__file__).parents[2]


class Findings:
    """Collect findings of many threads.

    Args:
        quiet: print none of them at once.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.texts: dict[str, str] = {}
        self._quiet = quiet
        self._lock = threading.Lock()

    def add(self, kind: str, text: str) -> None:
        """Count a finding, and print the first of its kind.

        Args:
            kind: what it has in common with others of the same cause.
            text: how to reproduce this one.
        """
        with self._lock:
            self.counts[kind] += 1
            if kind in self.texts:
                return
            self.texts[kind] = text
            if not self._quiet:
                print_line(f"\n=== {kind}\n{text}")

    def summary(self) -> str:
        """Return a line for each kind, the most frequent first."""
        lines = [f"{count:6}  {kind}" for kind, count in self.counts.most_common()]
        return "\n".join(lines) or "no findings"

    def __len__(self) -> int:
        return sum(self.counts.values())


def print_line(text: str) -> None:
    """Write a line to stderr, where progress goes."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def find_place(error: BaseException) -> str:
    """Return where an exception was raised: the last line of ours in its traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "curlhttp" in frame.filename]
    for frame in reversed(ours or frames):
        path = Path(frame.filename)
        name = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else path.name
        return f"{name}:{frame.name}"
    return "nowhere"
