"""One content coding undone at a time, with bounded output per step.

The modules behind the codecs load at their first use, so that importing curlhttp does not pay for
them. Nothing here may ever decode without an output limit, or pull its own input.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import zlib

__all__ = ["CODECS", "Codec"]

_GZIP_MAGIC = b"\x1f\x8b"
# RFC 9659: a content coding may ask for a window of 8 MiB at most; zstd's own limit is 128 MiB.
_ZSTD_WINDOW_LOG = 23
# To begin a frame takes 13 us, where one of gzip takes 1: a megabyte of the smallest would take
# over a second. So many are free, and beyond that frames must have so many bytes on the average.
_FREE_FRAMES = 4096
_BYTES_PER_FRAME = 64


def _zstd_module() -> str | None:
    if sys.version_info >= (3, 14):
        # compression.zstd itself is always there; the C module of a lean build is not.
        return "compression.zstd" if find_spec("_zstd") else None
    try:
        return "backports.zstd" if find_spec("backports.zstd") else None
    except ModuleNotFoundError:
        return None


_ZSTD = _zstd_module()


class Codec:
    """One coding being undone; subclasses say how."""

    name: str
    error: type[Exception]
    hungry = True  # decode() has nothing to go on with until it is given input
    _tail = b""  # input that came and was not consumed

    def decode(self, data: bytes, limit: int) -> bytes:
        """Give the next output, about `limit` bytes at most; `data` is empty unless hungry."""
        raise NotImplementedError

    def complete(self) -> bool:
        """Return whether the input may end here."""
        raise NotImplementedError


class _Gzip(Codec):
    """Every member in turn (RFC 1952, section 2.2), then ignore padding and garbage.

    Trailing bytes that begin like a member are one: cut or corrupt, they are an error.
    """

    name = "gzip"

    def __init__(self) -> None:
        import zlib

        self.error = zlib.error
        self._new = zlib.decompressobj
        self._member: zlib._Decompress | None = None
        self._later = False  # a member has ended, so what follows need not be one
        self._over = False

    def decode(self, data: bytes, limit: int) -> bytes:
        if self._over:
            return b""
        self._tail += data
        self.hungry, out = False, b""
        while not (out or self.hungry):
            member = self._member
            if member is None:
                self._begin()
            else:
                out = self._inflate(member, limit)
        return out

    def _begin(self) -> None:
        """Open the member that begins here, or wait until it shows whether one does."""
        if self._later:
            self._tail = self._tail.lstrip(b"\0")
        if self._later and not self._tail.startswith(_GZIP_MAGIC):
            self._over = not _GZIP_MAGIC.startswith(self._tail)
            self._tail = b"" if self._over else self._tail
            self.hungry = True
        else:
            self._member = self._new(31)

    def _inflate(self, member: zlib._Decompress, limit: int) -> bytes:
        out = member.decompress(self._tail, limit)
        if member.eof:
            self._member, self._later, self._tail = None, True, member.unused_data
            self.hungry = not self._tail
        else:
            self._tail = member.unconsumed_tail
            # A full output may hide more, even when the input is used up.
            self.hungry = not self._tail and len(out) < limit
        return out

    def complete(self) -> bool:
        return self._member is None and not self._tail


class _Deflate(Codec):
    """The zlib format or, as some servers send it, bare deflate; what follows is ignored."""

    name = "deflate"

    def __init__(self) -> None:
        import zlib

        self.error = zlib.error
        self._new = zlib.decompressobj
        self._stream: zlib._Decompress | None = None

    def decode(self, data: bytes, limit: int) -> bytes:
        data = self._tail + data
        if self._stream is None:
            if len(data) < 2:
                self._tail = data
                return b""
            self._stream = self._new(15 if _has_zlib_header(data) else -15)
        if self._stream.eof:
            return b""
        out = self._stream.decompress(data, limit)
        self._tail = self._stream.unconsumed_tail
        self.hungry = self._stream.eof or (not self._tail and len(out) < limit)
        return out

    def complete(self) -> bool:
        return not self._tail if self._stream is None else self._stream.eof


def _has_zlib_header(data: bytes) -> bool:
    # RFC 1950, section 2.2. Bare deflate never looks so: it would be a stored block with padding
    # bits set.
    return data[0] & 0x8F == 0x08 and (data[0] << 8 | data[1]) % 31 == 0


class _Brotli(Codec):
    name = "br"

    def __init__(self) -> None:
        import brotli

        self.error = brotli.error
        self._stream = brotli.Decompressor()
        self._started = False

    def decode(self, data: bytes, limit: int) -> bytes:
        self._started = True
        out: bytes = self._stream.process(data, output_buffer_limit=limit)
        # It says so, too, when only output is left: a full output may hide more.
        self.hungry = self._stream.can_accept_more_data() and len(out) < limit
        return out

    def complete(self) -> bool:
        return not self._started or self._stream.is_finished()


class _Zstd(Codec):
    """Every frame in turn (RFC 8878, section 3)."""

    name = "zstd"

    def __init__(self) -> None:
        module = import_module(_ZSTD or "compression.zstd")
        self.error = module.ZstdError
        self._new = module.ZstdDecompressor
        self._options = {module.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        self._frame: Any = None  # a decompressor of one of two modules
        self._frames = self._fed = 0

    def decode(self, data: bytes, limit: int) -> bytes:
        self._fed += len(data)
        data = self._tail + data
        out = b""
        while not out and (data or not self.hungry):
            frame = self._frame = self._frame or self._new(options=self._options)
            out = frame.decompress(data, max_length=limit)
            data, self.hungry = b"", frame.needs_input
            if frame.eof:
                self._frame, data = None, frame.unused_data
                self.hungry = not data
                self._count()
        self._tail = data
        return out

    def _count(self) -> None:
        self._frames += 1
        if self._frames > _FREE_FRAMES + self._fed // _BYTES_PER_FRAME:
            raise self.error(f"{self._frames} frames in {self._fed} bytes are too many")

    def complete(self) -> bool:
        return self._frame is None and not self._tail


CODECS: dict[str, Callable[[], Codec]] = {"gzip": _Gzip, "deflate": _Deflate, "br": _Brotli}
if _ZSTD:
    CODECS["zstd"] = _Zstd
