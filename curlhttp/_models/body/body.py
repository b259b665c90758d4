"""What a request sends, pulled in pieces: what all bodies have in common, and one in memory.

Values only: nothing here opens a connection, a file or a thread. A body is read by one exchange
at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from curlhttp.exceptions import RequestException, UnrewindableBodyError

if TYPE_CHECKING:
    from curlhttp._models.inputs import Piece

__all__ = ["Body", "BytesBody", "SecretBody", "StreamBody", "read_whole", "rewind"]

_PIECE = 64 * 1024


class Body:
    """One request body.

    Attributes:
        content_type: the Content-Type it brings along, or None.
        length: its size in bytes, or None when that is not known: chunked transfer coding.
        data: all of it when it is in memory, else None.
        replayable: rewind() will work after something was read.
        is_async: it is read with next(), not with read().
        is_secret: it holds credentials, and is in no pickle.
    """

    __slots__ = ("content_type", "data", "length", "replayable")
    content_type: str | None
    length: int | None
    data: bytes | None
    replayable: bool
    is_async = False
    is_secret = False

    def read(self, size: int) -> bytes:
        """Give the next piece, of 1 to `size` bytes; b"" at the end."""
        raise NotImplementedError

    async def next(self) -> bytes:
        """Give the next piece of an async body, of any size; b"" at the end."""
        raise NotImplementedError

    def rewind(self) -> None:
        """Go back to where the body started.

        Raises:
            UnrewindableBodyError: something was read and cannot be read again.
        """
        raise NotImplementedError

    def twin(self) -> Body | None:
        """Return a body of the same content that can be sent while this one is, or None."""
        return None

    def seek(self, offset: int) -> None:
        """Go to `offset` bytes after the start, by reading up to there."""
        self.rewind()
        while offset > 0 and (piece := self.read(min(offset, _PIECE))):
            offset -= len(piece)

    def __repr__(self) -> str:
        from curlhttp._models.as_sent import shown_body

        return shown_body(self)

    def close(self) -> None:
        """Let go of what the body itself made; a caller's file stays open."""

    async def aclose(self) -> None:
        """End an async generator that was begun, so that it cleans up now."""


def rewind(body: Body | None) -> UnrewindableBodyError | None:
    """Let a body start over, if there is one; return the error if it cannot."""
    if body is not None:
        try:
            body.rewind()
        except UnrewindableBodyError as error:
            return error
    return None


async def read_whole(body: Body | None) -> bytes:
    """Read a body of either kind to its end; b"" where there is none."""
    if body is None:
        return b""
    pieces = []
    while piece := (await body.next() if body.is_async else body.read(_PIECE)):
        pieces.append(piece)
    return b"".join(pieces)


class BytesBody(Body):
    """A body in memory."""

    __slots__ = ("_at",)

    def __init__(self, data: bytes, content_type: str | None = None) -> None:
        self.content_type = content_type
        self.data: bytes = data
        self.length: int = len(data)
        self.replayable = True
        self._at = 0

    def read(self, size: int) -> bytes:
        at = self._at
        piece = self.data[at : at + size]
        self._at = at + len(piece)
        return piece

    def rewind(self) -> None:
        self._at = 0

    def twin(self) -> Body:
        return BytesBody(self.data, self.content_type)

    def seek(self, offset: int) -> None:
        self._at = offset


class SecretBody(BytesBody):
    """A body in memory that holds credentials."""

    __slots__ = ()
    is_secret = True

    def twin(self) -> Body:
        return SecretBody(self.data, self.content_type)


class StreamBody(Body):
    """A body that comes piece by piece and is held to its length, when it has one.

    Subclasses give pieces of any size in _pull(); b"" is the end.

    Args:
        length: bytes that the body must have, or None. A body with more or fewer raises
            RequestException from read() or next(), with the piece too many not given.
    """

    __slots__ = ("_pulled", "_spare")

    def __init__(self, length: int | None) -> None:
        if length is not None and length < 0:
            raise ValueError(f"a body cannot have {length} bytes")
        self.content_type = None
        self.length = length
        self.data = None
        self.replayable = False
        self._restart()

    def _restart(self) -> None:
        self._pulled = 0
        self._spare = memoryview(b"")

    def twin(self) -> Body | None:
        # Two readers of one file would get half each; one that has all needs it no more.
        if not self.replayable or self._pulled != self.length or self._spare:
            return None
        self.rewind()
        return self

    def read(self, size: int) -> bytes:
        piece: Piece = self._spare
        if not piece:
            piece = self._counted(self._pull(size))
            if piece and self._pulled == self.length:
                self._counted(self._pull(1))  # whoever has it all will not ask again
            if len(piece) <= size:
                return piece
        # A view, because an iterator may give one huge piece.
        rest = memoryview(piece)
        self._spare = rest[size:]
        return bytes(rest[:size])

    def _pull(self, size: int) -> bytes:
        raise NotImplementedError

    def _counted(self, piece: bytes) -> bytes:
        self._pulled += len(piece)
        length = self.length
        if length is not None and (self._pulled > length or (not piece and self._pulled < length)):
            self._mismatch(length)
        return piece

    def _mismatch(self, length: int) -> NoReturn:
        gave = "only" if self._pulled < length else "at least"
        raise RequestException(f"the body has {gave} {self._pulled} bytes, its length is {length}")
