"""A file that the caller opened, which a download writes to as it is: no lock, no rename.

It has the methods of PartialFile, so that downloads need not know which one they have.
"""

from __future__ import annotations

import io
import threading
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from curlhttp._features.download.partial_file import Checksum, Hasher
    from curlhttp._features.download.resume import ForeignFile, ResumeRecord


class WritableFile(Protocol):
    """A binary file, or anything else with its method `write`."""

    def write(self, data: bytes, /) -> object:
        """Write data; a number that is returned says how many bytes of it."""


class FileObject:
    """Write a download to a file from its current position on.

    Args:
        file: the file; it stays open.
        resumes: whether to continue after what was written if an attempt breaks off.
        checksum: the expected one, or None.

    Attributes:
        size: the bytes of the download so far.
        record: the source of these bytes, or None if no attempt can continue after them.

    Raises:
        TypeError: the file is a text file, or one for an event loop.
    """

    foreign: ForeignFile | None = None
    spans: None = None
    is_kept = False  # for a later call, which knows nothing of this one
    after_mismatch = "all of it was written to the file object"

    def __init__(self, file: WritableFile, *, resumes: bool, checksum: Checksum | None) -> None:
        if isinstance(cast(object, file), io.TextIOBase):
            raise TypeError("download() needs a binary file: open it with mode 'wb'")
        if not getattr(file, "writable", lambda: True)():
            raise TypeError("download() needs a file to write to: open it with mode 'wb'")
        if iscoroutinefunction(file.write):
            raise TypeError(
                "download() needs a path or an ordinary file, not an async one: AsyncClient writes "
                "in threads"
            )
        self._file = file
        self._resumes = resumes
        self._checksum = checksum
        self._lock = threading.Lock()
        self._skipped = 0  # bytes that the server sends again
        self._is_closed = False
        self.hasher: Hasher | None = None if checksum is None else checksum.make_hasher()
        self.size = 0
        self.record: ResumeRecord | None = None

    def restart(self, record: ResumeRecord | None) -> None:
        """Go back to where the download began.

        Raises:
            io.UnsupportedOperation: something was written, and the file cannot seek.
        """
        with self._lock:
            if self.size:
                self._go_back(self.size)
                self.size = 0
            if self._checksum is not None:
                self.hasher = self._checksum.make_hasher()
            self.record = record if self._resumes else None

    def _go_back(self, size: int) -> None:
        file: io.BufferedRandom = self._file  # type: ignore[assignment]  # it may be one
        if not getattr(file, "seekable", bool)():
            raise io.UnsupportedOperation(
                f"after {size} bytes the download has to start over, but the file object cannot "
                "seek; pass a path, or a file that can"
            )
        file.seek(-size, io.SEEK_CUR)
        file.truncate()

    def resume(self, start: int) -> None:
        """Continue after `start` bytes; what was written after them is not written again."""
        with self._lock:
            self._skipped = self.size - start
            self.size = start

    def adopt(self, start: int, record: ResumeRecord | None) -> None:
        """Do nothing: only a path can have a file of another program."""

    def discard(self) -> None:
        """Do nothing: the file is the caller's."""

    def write(self, pieces: list[bytes]) -> None:
        """Append bytes, unless the download was cancelled meanwhile."""
        with self._lock:
            for piece in pieces:
                if self._is_closed:
                    return
                new = piece[self._skipped :]
                self._skipped -= len(piece) - len(new)
                self._write(new)
                self.size += len(piece)
                if self.hasher is not None:
                    self.hasher.update(new)

    def _write(self, piece: bytes) -> None:
        while piece:
            written = self._file.write(piece)
            if not isinstance(written, int) or not 0 < written < len(piece):
                return
            piece = piece[written:]  # a raw file may write a part

    def hash_into(self, hasher: Hasher, offset: int) -> int:
        """Return 0: what was written is hashed already."""
        return 0

    def commit(self, modified: float | None) -> None:
        """Flush the file."""
        flush = getattr(self._file, "flush", None)
        if flush is not None:
            flush()

    def close(self) -> None:
        """Write nothing more, even if a thread still runs."""
        self._is_closed = True  # without the lock, because a write may block
