"""What a forked child does with the connections of its parent: nothing, ever.

A child that uses them gets the parent's responses; one that closes or garbage-collects them
ends the parent's TLS sessions. So each handle gets a reference that is never given back, and the
engines start afresh.
"""

from __future__ import annotations

from curlhttp._curl.transfer import Transfer
from curlhttp.exceptions import ConnectionError

__all__ = ["leak", "leak_transfer"]


def leak(*handles: object) -> None:
    """Keep pycurl objects from being freed, also when the interpreter exits.

    Args:
        handles: of pycurl, or what holds some; None for nothing.
    """
    import ctypes  # late: only forked children need it

    for handle in handles:
        if handle is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def leak_transfer(transfer: Transfer) -> None:
    """Leave a transfer to the parent; whoever still reads its response here gets an error."""
    # The transfer as well: nothing that the handle calls back may be freed before it.
    driver = transfer.driver
    leak(transfer, transfer.easy, driver, None if driver is None else driver.multi)
    transfer.attached = None
    transfer.done = True
    transfer.failed = ConnectionError(
        "this response belongs to the process that this one was forked from"
    )
