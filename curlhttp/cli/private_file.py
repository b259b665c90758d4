"""Files that only their owner may read: what is in them lets others in."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

__all__ = ["read_bounded", "read_private", "write_private"]

_LARGEST = 16 * 1024 * 1024  # bytes; more is none of ours


def read_private(path: Path) -> str | None:
    """Return the text of a file, or None where there is none.

    Raises:
        OSError: it cannot be read, is too large or no file, such as a FIFO, which would block.
        UnicodeDecodeError: it is not UTF-8.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "this is no file")
        return read_bounded(file)


def read_bounded(file: BinaryIO) -> str:
    """Return the text of an open file, which may be a pipe.

    Raises:
        OSError: it cannot be read, or is too large.
        UnicodeDecodeError: it is not UTF-8.
    """
    text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise OSError(errno.EFBIG, f"this has more than {_LARGEST:,} bytes")
    return text.decode()


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, with the mode 0600.

    Raises:
        OSError: it cannot be written.
    """
    path = Path(os.path.realpath(path))
    # A name of chance: a run that was killed left its own behind.
    descriptor, beside = tempfile.mkstemp(".new", f".{path.name[:50]}.", path.parent)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
