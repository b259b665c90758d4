"""Make asyncio use uvloop."""

from __future__ import annotations

import asyncio
import warnings


def install_uvloop() -> bool:
    """Make asyncio use uvloop from now on, if uvloop is installed.

    Returns:
        Whether it does; without uvloop nothing changes.
    """
    install = getattr(asyncio, "set_event_loop_policy", None)  # Python 3.16 has none
    try:
        from uvloop import EventLoopPolicy
    except ImportError:
        return False
    if install is None:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.14
        install(EventLoopPolicy())
    return True
