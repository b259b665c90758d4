"""Cut the pieces of a body anew: into one size, into text, into lines.

They keep what is left over of one piece until the next; nothing here reads or waits.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Protocol, TypeVar

from curlhttp._models.charsets import Decoder
from curlhttp._models.parts import Parts

__all__ = ["ByteChunks", "Chunker", "LineChunks", "TextChunks", "rechunk"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Chunker(Protocol[T_co]):
    """Make other pieces of the pieces of a body."""

    def add(self, piece: bytes) -> Iterator[T_co]:
        """Give what can be given with one more piece."""

    def end(self) -> Iterator[T_co]:
        """Give the rest."""

    def fail(self) -> Iterator[T_co]:
        """Give what of the rest is good even though the body broke off."""


def rechunk(pieces: Iterable[bytes], chunker: Chunker[T]) -> Iterator[T]:
    """Give what a chunker makes of all pieces."""
    try:
        for piece in pieces:
            yield from chunker.add(piece)
    except Exception:
        yield from chunker.fail()
        raise
    yield from chunker.end()


class ByteChunks:
    """Cut pieces to one size; None leaves them as they are."""

    def __init__(self, size: int | None) -> None:
        if size is not None and size < 1:
            raise ValueError(f"chunk_size must be at least 1, not {size}")
        self._size = size
        self._held = bytearray()

    def add(self, piece: bytes) -> Generator[bytes, None, None]:
        """Give what can be given with one more piece."""
        size = self._size
        if size is None or (not self._held and len(piece) == size):
            yield piece
            return
        held = self._held
        held += piece
        whole = len(held) - len(held) % size
        for at in range(0, whole, size):
            yield bytes(held[at : at + size])
        del held[:whole]

    def end(self) -> Generator[bytes, None, None]:
        """Give the rest."""
        if self._held:
            yield bytes(self._held)

    fail = end


class TextChunks:
    """Decode pieces, characters that are split over two included; what is wrong is replaced."""

    def __init__(self, charset: str) -> None:
        self._decode = Decoder(charset).decode

    def add(self, piece: bytes) -> Generator[str, None, None]:
        """Give the text of one more piece."""
        if text := self._decode(piece):
            yield text

    def end(self) -> Generator[str, None, None]:
        """Give what the end of the body makes of the rest."""
        if text := self._decode(b"", True):
            yield text

    def fail(self) -> Iterator[str]:
        """Give nothing: half a character is none."""
        return iter(())


class LineChunks:
    """Cut text into lines; the start of a line is kept in parts, so that long ones stay cheap."""

    def __init__(self, charset: str = "utf_8") -> None:
        self._text = TextChunks(charset)
        self._held: Parts[str] = Parts()
        self._has_cr = False

    def add(self, piece: bytes) -> Generator[str, None, None]:
        """Give the lines that end in one more piece."""
        for text in self._text.add(piece):
            yield from self._split(text)

    def end(self) -> Generator[str, None, None]:
        """Give the last line, if it has no end."""
        for text in self._text.end():
            yield from self._split(text)
        if self._held or self._has_cr:
            yield self._held.take("")

    def fail(self) -> Iterator[str]:
        """Give nothing: half a line must not pass for one."""
        return iter(())

    def _split(self, text: str) -> Generator[str, None, None]:
        if self._has_cr:
            text = "\r" + text  # the \n of a \r\n may have come just now
        self._has_cr = text.endswith("\r")
        if self._has_cr:
            text = text[:-1]
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            yield self._held.take(line) if self._held else line
        if rest:
            self._held.add(rest)
