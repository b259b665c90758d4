"""Compressed files: lists that are read, and files to which whole members are appended.

A member is what a gzip file and a zstd file may have many of (RFC 1952, section 2.2; RFC 8878,
section 3.1). Each batch of records is one. So a file that a kill or a full disk has cut is valid up
to the end of its last whole member.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from curlhttp._features.fetch.formats import Coding
from curlhttp._http.decoding import ZSTD_MODULE

if TYPE_CHECKING:
    from types import ModuleType


class _CompressedFile(Protocol):
    def read(self, size: int, /) -> bytes: ...


class _MemberDecompressor(Protocol):
    """Of zlib, or of the module for zstd."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class _MemberCompressor(Protocol):
    """Likewise."""

    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


_BLOCK_SIZE = 1 << 16  # bytes
_MEMBER_BLOCK = 1 << 12  # bytes, of which gzip makes at most 4 MiB at once
_GZIP_WITH_HEADER = 31  # for zlib
_OPENERS: dict[bytes, Callable[[BinaryIO], _CompressedFile]] = {
    b"\x1f\x8b": lambda stream: gzip.GzipFile(fileobj=stream),
    b"\x28\xb5\x2f\xfd": lambda stream: load_zstd().ZstdFile(stream),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
_LONGEST = max(map(len, _OPENERS))


def load_zstd() -> ModuleType:
    """Import the module for zstd.

    Raises:
        ImportError: it is not installed.
    """
    if ZSTD_MODULE is None:
        raise ImportError("zstd needs a package: pip install 'curlhttp[zstd]'")
    return import_module(ZSTD_MODULE)


# --- lists ---


class _Decompressed(io.RawIOBase):
    """Read a compressed stream; what is wrong with it is an OSError."""

    def __init__(self, stream: _CompressedFile) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._stream.read(len(buffer))
        except (EOFError, zlib.error, lzma.LZMAError, OSError) as error:
            raise _make_damage_error(error) from None
        except Exception as error:  # of zstd, whose module may be missing
            raise _make_damage_error(error) from error
        buffer[: len(data)] = data
        return len(data)


def _make_damage_error(error: Exception) -> OSError:
    return OSError(f"the compressed list is damaged or cut off: {error}")


def decompress(stream: BinaryIO) -> BinaryIO | None:
    """Return a stream of the content of a compressed file, or None if it is not compressed.

    Args:
        stream: the file, at its begin; it can be peeked. Other streams are not compressed.

    Raises:
        ImportError: the module for zstd is not installed.
    """
    if not hasattr(stream, "peek"):  # such as a BytesIO in place of stdin
        return None
    begin = cast(io.BufferedReader, stream).peek(_LONGEST)
    for magic, opener in _OPENERS.items():
        if begin.startswith(magic):
            return io.BufferedReader(_Decompressed(opener(stream)), _BLOCK_SIZE)
    return None


# --- members ---


def compress_member(data: bytes, coding: Coding | None) -> bytes:
    """Return data as one member; without a coding, as it is."""
    if coding is None:
        return data
    if coding == "gzip":
        return gzip.compress(data, compresslevel=6, mtime=0)
    return cast(bytes, load_zstd().compress(data))


def compress_pieces(pieces: Iterable[bytes], coding: Coding | None) -> Iterator[bytes]:
    """Yield the pieces of one member; without a coding, as they are."""
    if coding is None:
        yield from pieces
        return
    if coding == "gzip":
        compressor: _MemberCompressor = zlib.compressobj(6, zlib.DEFLATED, _GZIP_WITH_HEADER)
    else:
        compressor = load_zstd().ZstdCompressor()
    for piece in pieces:
        if data := compressor.compress(piece):
            yield data
    yield compressor.flush()


def read_members(file: BinaryIO, coding: Coding) -> Iterator[bytes | int]:
    """Yield the content of whole members in pieces, and after each member the offset of its end.

    A member that is cut ends the iteration after its pieces, without an offset; so do zeros, which
    a power failure leaves where data was about to be written.

    Args:
        file: the file.
        coding: of the file.

    Raises:
        ValueError: the file is damaged, or not compressed in this way.
    """
    make = _make_decompressors(coding)
    end = 0
    while True:
        file.seek(end)
        decompressor, fed = make(), end
        while not decompressor.eof:
            block = file.read(_MEMBER_BLOCK)
            if not block:
                return
            try:
                data = decompressor.decompress(block)
            except Exception as error:  # of zlib or of the module for zstd
                if _is_cut(file, end, make()):
                    return
                raise ValueError(f"byte {end} begins no {coding}, or it is damaged") from error
            fed += len(block)
            if data:
                yield data
        end = fed - len(decompressor.unused_data)
        yield end


def read_lines(file: BinaryIO, coding: Coding | None) -> Iterator[tuple[bytes, int]]:
    """Yield the whole lines of a file, each with the offset of its end, or of its member's end.

    Args:
        file: the file, at its begin. A line or a member that is cut at its end is left out.
        coding: of the file.

    Raises:
        ValueError: see read_members; or a member ends within a line.
    """
    if coding is None:
        end = 0
        for line in file:
            end += len(line)
            if line.endswith(b"\n"):
                yield line, end
        return
    lines: list[bytes] = []
    pieces: list[bytes] = []  # of a line that is not complete yet
    for piece in read_members(file, coding):
        if isinstance(piece, int):
            if any(pieces):
                raise ValueError("a member ends within a line")
            for line in lines:
                yield line, piece
            lines = []
            continue
        first, *others = piece.split(b"\n")
        pieces.append(first)
        for other in others:
            lines.append(b"".join(pieces))
            pieces = [other]


def _make_decompressors(coding: Coding) -> Callable[[], _MemberDecompressor]:
    if coding == "gzip":
        return lambda: zlib.decompressobj(_GZIP_WITH_HEADER)
    return cast("Callable[[], _MemberDecompressor]", load_zstd().ZstdDecompressor)


def _is_cut(file: BinaryIO, begin: int, decompressor: _MemberDecompressor) -> bool:
    """Return whether a member lacks only its end, with zeros in its place."""
    size = file.seek(0, io.SEEK_END)
    while size > begin:
        start = max(begin, size - _BLOCK_SIZE)
        file.seek(start)
        size = start + len(file.read(size - start).rstrip(b"\0"))
        if size > start:
            break
    file.seek(begin)
    try:
        while file.tell() < size:
            decompressor.decompress(file.read(min(_BLOCK_SIZE, size - file.tell())))
    except Exception:  # of zlib or of the module for zstd
        return False
    return True
