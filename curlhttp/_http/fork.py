"""Call objects that hold connections or locks after a fork, in the child and in the parent.

The connections belong to the parent, and a lock may be held by a thread that the child does not
have. Each object handles this on its own.
"""

from __future__ import annotations

import os
from typing import Any, Protocol, TypeVar
from weakref import WeakSet


class _AfterFork(Protocol):
    def _after_fork_in_child(self) -> None: ...


_T = TypeVar("_T")
_TRIES = 10

_in_children: WeakSet[Any] = WeakSet()
_in_parents: WeakSet[Any] = WeakSet()


def register(obj: _AfterFork) -> None:
    """Call obj._after_fork_in_child() in forked children.

    Also call obj.after_fork_in_parent() in this process, if the object has that method.

    Args:
        obj: an object, which this does not keep alive. In the child it must not acquire locks.
    """
    _in_children.add(obj)
    if hasattr(obj, "after_fork_in_parent"):
        _in_parents.add(obj)


def registered() -> list[object]:
    """Return the registered objects that are alive; any thread may call this."""
    return _list(_in_children)


def _list(objects: WeakSet[_T]) -> list[_T]:
    for _ in range(_TRIES):
        try:
            return list(objects)
        except RuntimeError:  # another thread has registered one meanwhile
            continue
    return []


def _notify_in_child() -> None:
    for obj in list(_in_children):
        obj._after_fork_in_child()


def _notify_in_parent() -> None:
    for obj in _list(_in_parents):
        obj.after_fork_in_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_notify_in_child, after_in_parent=_notify_in_parent)
