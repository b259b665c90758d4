"""What a forked child does with the connections of its parent: nothing, ever.

A child that uses them gets the parent's responses; one that closes or garbage-collects them
ends the parent's TLS sessions. So each handle gets a reference that is never given back, and the
engines start afresh.
"""

from __future__ import annotations

import os
from typing import Any, Protocol
from weakref import WeakSet

from curlhttp._curl.transfer import Transfer
from curlhttp.exceptions import ConnectionError

__all__ = ["forsake", "forsake_transfer", "survive"]


class _Engine(Protocol):
    def abandon(self) -> None: ...

    def part(self) -> None: ...


_engines: WeakSet[Any] = WeakSet()


def survive(engine: _Engine) -> None:
    """Have engine.abandon() called in forked children, and engine.part() in their parent."""
    _engines.add(engine)


def forsake(*handles: Any) -> None:
    """Keep pycurl objects from being freed, also when the interpreter exits."""
    import ctypes

    for handle in handles:
        if handle is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def forsake_transfer(transfer: Transfer) -> None:
    """Leave a transfer to the parent; whoever still reads its response here gets an error."""
    driver = transfer.driver
    forsake(transfer, transfer.easy, driver, None if driver is None else driver.multi)
    transfer.attached = None
    transfer.done = True
    transfer.failed = ConnectionError(
        "this response belongs to the process that this one was forked from"
    )


def _in_child() -> None:
    for engine in list(_engines):
        engine.abandon()


def _in_parent() -> None:
    for engine in list(_engines):
        engine.part()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child, after_in_parent=_in_parent)
