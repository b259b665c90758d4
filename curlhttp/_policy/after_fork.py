"""What policies do in a forked child: keep their settings, forget what they counted.

The counts are the parent's, and a lock may be held by a thread that the child does not have.
"""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import WeakSet

__all__ = ["forget_after_fork"]


class _Counts(Protocol):
    def forget(self) -> None: ...


_counts: WeakSet[Any] = WeakSet()


def forget_after_fork(counts: _Counts) -> None:
    """Have counts.forget() called in forked children; it must take no lock."""
    _counts.add(counts)


def _in_child() -> None:
    for counts in list(_counts):
        counts.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
