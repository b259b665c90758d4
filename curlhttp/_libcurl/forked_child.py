"""Keep a forked child from using or closing the connections of its parent.

A child that uses them gets the parent's responses; one that closes or garbage-collects them ends
the parent's TLS sessions. So each handle gets a reference that is never released, and the engines
start with new handles.
"""

from __future__ import annotations

from curlhttp._libcurl.transfer import Transfer
from curlhttp._runtime.engine import Totals
from curlhttp.exceptions import ConnectionError


def leak(*handles: object) -> None:
    """Keep pycurl objects from being freed, also when the interpreter exits.

    Args:
        handles: pycurl objects, or objects that hold some; None is ignored.
    """
    import ctypes  # only forked children need it

    for handle in handles:
        if handle is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def leak_transfer(transfer: Transfer) -> None:
    """Leave a transfer to the parent process; reading its response here raises."""
    # The transfer as well, because the callbacks of the handle must not be freed before it.
    driver = transfer.driver
    leak(transfer, transfer.easy, driver, None if driver is None else driver.multi)
    transfer.attached, transfer.totals = None, Totals()  # the parent counts it
    transfer.done = True
    transfer.failed = ConnectionError(
        "this response belongs to the process that this one was forked from"
    )
