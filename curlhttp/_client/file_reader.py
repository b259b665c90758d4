"""Read a streamed body like a file: so many bytes, a line, or what has arrived."""

from __future__ import annotations

import io
from collections.abc import Callable, Coroutine
from typing import NoReturn, TypeAlias

Read: TypeAlias = Callable[[], Coroutine[object, None, bytes]]
"""Returns the next piece of a body, b"" at the end."""


class FileReader:
    """The position in a body, and the part of its last piece that was not read yet.

    Args:
        read: returns the pieces.
    """

    def __init__(self, read: Read) -> None:
        self._read = read
        self._piece = b""
        self._at = 0  # in the piece
        self._has_ended = False

    async def read(self, size: int | None = -1) -> bytes:
        """Return exactly this many bytes, fewer only at the end; -1 or None for all that are left.

        Args:
            size: bytes.
        """
        if size is None or size < 0:
            size = None
        part = await self.read1(size)
        if not part or len(part) == size:
            return part
        found = io.BytesIO(part)
        found.seek(0, io.SEEK_END)
        while part and found.tell() != size:
            part = await self.read1(None if size is None else size - found.tell())
            found.write(part)
        return found.getvalue()

    async def read1(self, size: int | None = -1) -> bytes:
        """Return what has arrived, at most this many bytes; wait only if nothing has."""
        if size == 0:
            return b""
        if not await self._fill():
            return b""
        end = len(self._piece) if size is None or size < 0 else self._at + size
        return self._take(end)

    async def readline(self, size: int | None = -1) -> bytes:
        r"""Return a line with its \n, at most this many bytes of it."""
        left = -1 if size is None else size
        parts = []
        while left and await self._fill():
            end = self._piece.find(b"\n", self._at) + 1
            if left > 0:
                end = min(end or len(self._piece), self._at + left)
            part = self._take(end or len(self._piece))
            parts.append(part)
            if part.endswith(b"\n"):
                break
            if left > 0:
                left -= len(part)
        return b"".join(parts)

    async def _fill(self) -> bool:
        """Return whether there are bytes that were not read yet."""
        if not self._piece and not self._has_ended:
            self._piece = await self._read()
            self._has_ended = not self._piece
        return not self._has_ended

    def _take(self, end: int) -> bytes:
        piece, start = self._piece, self._at
        if end < len(piece):
            self._at = end
            return piece[start:end]
        self._piece, self._at = b"", 0
        return piece[start:] if start else piece


class FileMethods:
    """What files have besides reading; a body can only be read from its start to its end."""

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return False."""
        return False

    def isatty(self) -> bool:
        """Return False."""
        return False

    def flush(self) -> None:
        """Do nothing: nothing is written."""

    def fileno(self) -> int:
        """Raise io.UnsupportedOperation: a body has no file descriptor."""
        _refuse("fileno")

    def seek(self, offset: int, whence: int = 0) -> int:
        """Raise io.UnsupportedOperation: save the body with download() to seek in it."""
        _refuse("seek")

    def tell(self) -> int:
        """Raise io.UnsupportedOperation, like all files that cannot seek."""
        _refuse("tell")

    def truncate(self, size: int | None = None) -> int:
        """Raise io.UnsupportedOperation."""
        _refuse("truncate")

    def write(self, data: object) -> int:
        """Raise io.UnsupportedOperation."""
        _refuse("write")


def _refuse(name: str) -> NoReturn:
    raise io.UnsupportedOperation(
        f"{name}: a streamed response can only be read, from its start to its end"
    )
