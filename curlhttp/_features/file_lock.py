"""Lock an open file against other processes: flock(2), on Windows LockFile, otherwise nothing."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

# Position of the byte to lock on Windows, beyond the end of any file, because nobody can read it.
_FAR = 2**43


def lock_file(descriptor: int) -> None:
    """Lock a file until its descriptor is closed; do nothing if the system has no locks.

    Raises:
        BlockingIOError: the file is locked.
    """
    try:
        import fcntl
    except ImportError:
        _lock_byte(descriptor)
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        pass  # a file system without locks


def _lock_byte(descriptor: int) -> None:
    try:
        import msvcrt
    except ImportError:
        return
    locking, how = msvcrt.locking, msvcrt.LK_NBLCK  # type: ignore[attr-defined]  # of Windows
    at = os.lseek(descriptor, 0, os.SEEK_CUR)
    try:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        locking(descriptor, how, 1)
    except OSError as error:
        if error.errno in (errno.EACCES, 0):  # wine has no number for it
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error
    finally:
        with suppress(OSError):
            os.lseek(descriptor, at, os.SEEK_SET)
