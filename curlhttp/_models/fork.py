"""What is to happen in both processes after a fork, for objects that hold connections or locks.

Connections are the parent's, and a lock may be held by a thread that the child does not have. This
only calls: what an object does about it is its own affair.
"""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import WeakSet

__all__ = ["register", "registered"]


class _AfterFork(Protocol):
    def after_fork_in_child(self) -> None: ...


_TRIES = 10

_in_children: WeakSet[Any] = WeakSet()
_in_parents: WeakSet[Any] = WeakSet()


def register(obj: _AfterFork) -> None:
    """Call obj.after_fork_in_child() in forked children.

    Call obj.after_fork_in_parent() in this process, where the object has such a method.

    Args:
        obj: is not kept alive by this. What it does in the child must take no lock.
    """
    _in_children.add(obj)
    if hasattr(obj, "after_fork_in_parent"):
        _in_parents.add(obj)


def registered() -> list[object]:
    """Return the objects that are registered and alive; may be called from any thread."""
    for _ in range(_TRIES):
        try:
            return list(_in_children)
        except RuntimeError:  # another thread registered one meanwhile
            continue
    return []


def _in_child() -> None:
    for obj in list(_in_children):
        obj.after_fork_in_child()


def _in_parent() -> None:
    for obj in list(_in_parents):
        obj.after_fork_in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child, after_in_parent=_in_parent)
