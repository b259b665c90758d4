"""Files that only their owner may read: what is in them lets others in."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["write_private"]


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, with the mode 0600.

    Raises:
        OSError: it cannot be written.
    """
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{path.name[:200]}.{os.getpid()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
