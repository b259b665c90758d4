"""Rename a file over another one, for which Windows needs a moment at times."""

from __future__ import annotations

import errno
import os
import threading

_IS_WINDOWS = os.name == "nt"
_PAUSES = (0.01, 0.05, 0.2, 0.5)  # seconds; virus scanners open files for a moment


def rename_over(path: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Rename a file over another, which on Windows no program may have open.

    Raises:
        OSError: it cannot be renamed. The error names the target.
    """
    for pause in (*_PAUSES, None):
        try:
            os.replace(path, target)
            return
        except PermissionError as error:
            if not _IS_WINDOWS:
                raise
            if pause is None:
                reason = "another program has the file open, or it is read-only"
                raise PermissionError(errno.EACCES, reason, os.fspath(target)) from error
        _wait(pause)


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)
