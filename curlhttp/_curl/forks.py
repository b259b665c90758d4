"""What a forked child does with the connections of its parent: nothing, ever.

A child that uses them gets the parent's responses; one that closes or garbage-collects them
ends the parent's TLS sessions. So each handle gets a reference that is never given back, and the
engines start afresh.
"""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import WeakSet

__all__ = ["forsake", "survive"]


class _Engine(Protocol):
    def abandon(self) -> None: ...


_engines: WeakSet[Any] = WeakSet()


def survive(engine: _Engine) -> None:
    """Have engine.abandon() called in forked children."""
    _engines.add(engine)


def forsake(*handles: Any) -> None:
    """Keep pycurl objects from being freed, also when the interpreter exits."""
    import ctypes

    for handle in handles:
        if handle is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def _in_child() -> None:
    for engine in list(_engines):
        engine.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
