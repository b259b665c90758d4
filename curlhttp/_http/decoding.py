"""Decode bodies: their content codings, then their charset, as a whole or piece by piece.

Pure computation: no I/O, no policy, no clock. Nothing here may ever decode without an output limit.
Codecs are imported at their first use, so that `import curlhttp` stays fast.
"""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from encodings.aliases import aliases
from functools import lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any, AnyStr, Generic, Protocol, TypeVar

from curlhttp.exceptions import ContentDecodingError, ResponseTooLarge

if TYPE_CHECKING:
    import zlib

    from curlhttp._http.headers import Headers

# --- Join small parts of bytes or text, with little more memory than their content ---
#
# A list of pieces of two bytes takes twenty times their size, and adding each piece to one string
# takes quadratic time.

MANY = 256  # parts: this many are joined at once


class Parts(Generic[AnyStr]):
    """Collect parts until they are joined."""

    __slots__ = ("_folded", "_parts")

    def __init__(self) -> None:
        self._parts: list[AnyStr] = []
        self._folded = 0

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, part: AnyStr) -> None:
        """Add one more part."""
        self._parts.append(part)
        if len(self._parts) - self._folded >= MANY:
            self._folded = fold(self._parts, self._folded)

    def take(self, last: AnyStr) -> AnyStr:
        """Return all parts and a last one, joined, and start over."""
        parts, self._parts, self._folded = self._parts, [], 0
        if last or not parts:
            parts.append(last)
        return last[:0].join(parts)  # one part alone is not copied


def fold(parts: list[AnyStr], folded: int) -> int:
    """Join the parts that were not joined before; return how many parts are left.

    Args:
        parts: changed in place.
        folded: how many of them, from the start, are already joined.
    """
    parts[folded:] = [parts[folded][:0].join(parts[folded:])]
    return folded + 1


# --- content codings, one at a time ---

_GZIP_MAGIC = b"\x1f\x8b"
# RFC 9659: a content coding may use a window of at most 8 MiB; zstd's own limit is 128 MiB.
_ZSTD_WINDOW_LOG = 23
# Starting a frame takes 13 us, and 1 us with gzip: a megabyte of the smallest frames would take
# over a second. This many frames are free, and beyond that frames need this many bytes on average.
_FREE_FRAMES = 4096
_BYTES_PER_FRAME = 64


def _zstd_module() -> str | None:
    if sys.version_info >= (3, 14):
        # compression.zstd always exists, but some builds lack the C module.
        return "compression.zstd" if find_spec("_zstd") else None
    name = "backports.zstd"
    # Without importing `backports`, which loads more than this module.
    if PathFinder.find_spec(name, [f"{folder}/backports" for folder in sys.path]):
        return name
    try:
        return name if find_spec(name) else None
    except ModuleNotFoundError:
        return None


ZSTD_MODULE = _zstd_module()


class Codec:
    """Decode one content coding; subclasses implement it."""

    name: str
    error: type[Exception]
    needs_input = True  # decode() needs input before it can continue
    _tail = b""  # input that was not consumed

    def decode(self, data: bytes, limit: int) -> bytes:
        """Return up to about `limit` bytes of output; `data` is empty unless needs_input."""
        raise NotImplementedError

    def complete(self) -> bool:
        """Return whether the input may end here."""
        raise NotImplementedError


class _Gzip(Codec):
    """Decode each member (RFC 1952, section 2.2), and ignore padding and garbage after them.

    Trailing bytes that start like a member count as one, and must be complete and valid.
    """

    name = "gzip"

    def __init__(self) -> None:
        import zlib

        self.error = zlib.error
        self._new = zlib.decompressobj
        self._member: zlib._Decompress | None = None
        self._had_member = False  # a member has ended, so the next bytes need not be one
        self._is_finished = False

    def decode(self, data: bytes, limit: int) -> bytes:
        if self._is_finished:
            return b""
        self._tail += data
        self.needs_input, out = False, b""
        while not (out or self.needs_input):
            member = self._member
            if member is None:
                self._begin()
            else:
                out = self._inflate(member, limit)
        return out

    def _begin(self) -> None:
        """Start the next member, or wait for enough bytes to see whether there is one."""
        if self._had_member:
            self._tail = self._tail.lstrip(b"\0")
        if self._had_member and not self._tail.startswith(_GZIP_MAGIC):
            self._is_finished = not _GZIP_MAGIC.startswith(self._tail)
            self._tail = b"" if self._is_finished else self._tail
            self.needs_input = True
        else:
            self._member = self._new(31)

    def _inflate(self, member: zlib._Decompress, limit: int) -> bytes:
        out = member.decompress(self._tail, limit)
        if member.eof:
            self._member, self._had_member, self._tail = None, True, member.unused_data
            self.needs_input = not self._tail
        else:
            self._tail = member.unconsumed_tail
            # If the output is full, there may be more, even without input.
            self.needs_input = not self._tail and len(out) < limit
        return out

    def complete(self) -> bool:
        return self._member is None and not self._tail


class _Deflate(Codec):
    """Decode the zlib format or, as some servers send it, bare deflate; ignore trailing bytes."""

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
        self.needs_input = self._stream.eof or (not self._tail and len(out) < limit)
        return out

    def complete(self) -> bool:
        return not self._tail if self._stream is None else self._stream.eof


def _has_zlib_header(data: bytes) -> bool:
    # RFC 1950, section 2.2. Bare deflate never starts like this: it would be a stored block with
    # padding bits set.
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
        # It also accepts data when only output is left: a full output may mean more.
        self.needs_input = self._stream.can_accept_more_data() and len(out) < limit
        return out

    def complete(self) -> bool:
        return not self._started or self._stream.is_finished()


class _Zstd(Codec):
    """Decode each frame (RFC 8878, section 3)."""

    name = "zstd"

    def __init__(self) -> None:
        module = import_module(ZSTD_MODULE or "compression.zstd")
        self.error = module.ZstdError
        self._new = module.ZstdDecompressor
        self._options = {module.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        self._frame: Any = None  # a decompressor from one of two modules
        self._frames = self._fed = 0

    def decode(self, data: bytes, limit: int) -> bytes:
        self._fed += len(data)
        data = self._tail + data
        out = b""
        while not out and (data or not self.needs_input):
            frame = self._frame = self._frame or self._new(options=self._options)
            out = frame.decompress(data, max_length=limit)
            data, self.needs_input = b"", frame.needs_input
            if frame.eof:
                self._frame, data = None, frame.unused_data
                self.needs_input = not data
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
if ZSTD_MODULE:
    CODECS["zstd"] = _Zstd


# --- content codings of a body ---

MAX_CODINGS = 5

# Input goes to a codec in slices of this size. On every call a codec copies the input that it does
# not consume, so a whole body at once would make small reads and small members quadratic.
_SLICE = 16 * 1024
# The output of one step of a codec, however little the caller asked for.
_STEP = 64 * 1024
# Bodies up to this size, coded and decoded, skip the general path in undo_codings().
_SMALL_WIRE = 32 * 1024
_SMALL_BODY = 256 * 1024

# Input that a codec may consume without output: padding, empty members and skippable frames cost
# time and never reach max_size, above all when another coding expands to them.
_MAX_WITHOUT_OUTPUT = 1024 * 1024

_NO_CODINGS = frozenset({"7bit", "8bit", "binary", "identity", "none"})

ACCEPT_ENCODING = "gzip, deflate, br" + (", zstd" if "zstd" in CODECS else "")


def parse_codings(headers: Iterable[str]) -> tuple[str, ...]:
    """Return the codings that Content-Encoding names, in the order in which they were applied.

    Args:
        headers: every value of the field, each of which may be a list.

    Returns:
        Names for ContentDecoder, without identity. Empty if there is nothing to decode, or if any
        name is unknown: the caller then gets the bytes as received, as in requests.

    Raises:
        ContentDecodingError: more than MAX_CODINGS codings.

    Source: RFC 9110, section 8.4 (x-gzip is gzip).
    """
    names = tuple(
        "gzip" if name == "x-gzip" else name
        for value in headers
        for part in value.split(",")
        if (name := part.strip(" \t").lower()) and name != "identity"
    )
    if len(names) > MAX_CODINGS:
        raise ContentDecodingError(
            f"{len(names)} content codings, but at most {MAX_CODINGS} are allowed"
        )
    return names if all(name in CODECS for name in names) else ()


class _ReceivedBytes:
    """The received bytes, returned in slices."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data

    def pull(self, limit: int) -> bytes:
        piece = bytes(self._data[:limit])
        del self._data[:limit]  # moves the start without copying
        return piece


class _CodecLayer:
    """A codec with the source of its input: the wire or another layer."""

    def __init__(self, codec: Codec, pull: Callable[[int], bytes]) -> None:
        self.codec = codec
        self._source = pull
        self._without_output = 0

    def pull(self, limit: int) -> bytes:
        """Return the next output, slightly above `limit` at most; b"" if more input is needed."""
        codec = self.codec
        while True:
            data = self._source(_SLICE) if codec.needs_input else b""
            if not data and codec.needs_input:
                return b""
            out = self._decode(data, limit)
            if out:
                self._without_output = 0
                return out
            self._without_output += len(data)
            if self._without_output > _MAX_WITHOUT_OUTPUT:
                raise ContentDecodingError(
                    f"{self._without_output} bytes of {codec.name} decode to nothing"
                )

    def _decode(self, data: bytes, limit: int) -> bytes:
        try:
            return self.codec.decode(data, limit)
        except self.codec.error as error:
            name = self.codec.name
            raise ContentDecodingError(f"the {name} body is corrupt: {error}") from error


class ContentDecoder:
    """Decode one body while it is received.

    Call feed() with received bytes, then take() until it returns b"", and repeat; at the end, call
    finish(). The work of take() is bounded, so that a body that decodes to gigabytes costs no more
    than the bytes that you take.

    Bytes after the end of gzip or deflate data are ignored, as in requests.

    Args:
        codings: from parse_codings(), in the order in which they were applied.

    Raises:
        ContentDecodingError: from take() if a coding is corrupt.
    """

    def __init__(self, codings: Sequence[str]) -> None:
        self._wire = _ReceivedBytes()
        self._layers: list[_CodecLayer] = []
        pull: Callable[[int], bytes] = self._wire.pull
        for name in reversed(codings):
            layer = _CodecLayer(CODECS[name](), pull)
            self._layers.append(layer)
            pull = layer.pull
        self._pull = pull
        self._ready = b""
        self._returned = 0  # how much of _ready was taken

    def feed(self, data: bytes) -> None:
        """Add wire bytes; they are kept until they are needed."""
        self._wire.feed(data)

    def take(self, limit: int = _STEP) -> bytes:
        """Return at most `limit` decoded bytes; b"" if more input is needed, or at the end."""
        if self._returned == len(self._ready):
            self._ready, self._returned = self._pull(max(limit, _STEP)), 0
            if len(self._ready) <= limit:
                self._returned = len(self._ready)
                return self._ready
        piece = self._ready[self._returned : self._returned + limit]
        self._returned += len(piece)
        return piece

    def finish(self) -> None:
        """Check that the body is complete; call it after all of it was fed and taken.

        Raises:
            ContentDecodingError: a coding does not end with the body. An empty body (HEAD, 204,
                304) is complete.
        """
        for layer in self._layers:
            if not layer.codec.complete():
                raise ContentDecodingError(f"the {layer.codec.name} body is truncated")


def undo_codings(data: bytes, codings: Sequence[str], max_size: int | None = None) -> bytes:
    """Decode the content codings of a whole body.

    Args:
        data: the body as received.
        codings: from parse_codings(), in the order in which they were applied.
        max_size: decoded bytes allowed; None for any number.

    Raises:
        ContentDecodingError: a coding is corrupt or truncated.
        ResponseTooLarge: more than max_size bytes; at most one step more is in memory.
    """
    body = _small_gzip(data) if tuple(codings) == ("gzip",) else None
    if body is None:
        return _decode_in_steps(data, codings, max_size)
    if max_size is not None and len(body) > max_size:
        raise _make_size_error(max_size)
    return body


def decode_content(data: bytes, headers: Headers, max_size: int | None = None) -> bytes:
    """Decode the content codings of a whole body that its headers name, if any.

    Args:
        data: the body as received.
        headers: the headers of its message.
        max_size: see `undo_codings`.

    Raises:
        ContentDecodingError: a coding is corrupt or truncated, or there are too many.
        ResponseTooLarge: see `undo_codings`.
    """
    coded = parse_codings(headers.get_list("content-encoding")) if data else ()
    return undo_codings(data, coded, max_size) if coded else data


def decode_readable(
    data: bytes, fields: Iterable[str], *, may_be_cut: bool = False
) -> bytes | None:
    """Decode the content codings of a whole body, or return None if its content is unreadable.

    Unlike decode_content, an unknown coding makes it unreadable. Names of charsets, which some
    servers send, are ignored.

    Args:
        data: the body as received.
        fields: every value of Content-Encoding.
        may_be_cut: whether the body may be truncated; then the readable part is returned.
    """
    names = [name for field in fields for part in field.split(",")
             if (name := part.strip(" \t").lower())]  # fmt: skip
    coded = [name for name in names if name not in _NO_CODINGS and known_charset(name) is None]
    if not coded or not data:
        return data
    try:
        known = parse_codings([",".join(coded)])
        return _decode_in_steps(data, known, may_be_cut=may_be_cut) if known else None
    except ContentDecodingError:
        return None


def _small_gzip(data: bytes) -> bytes | None:
    """Decode a common body in one call; return None for any other, valid or not."""
    if not data or len(data) > _SMALL_WIRE:
        return None
    import zlib

    member = zlib.decompressobj(31)
    try:
        body = member.decompress(data, _SMALL_BODY)
    except zlib.error:
        return None
    return body if member.eof and not member.unused_data else None


def _decode_in_steps(
    data: bytes, codings: Sequence[str], max_size: int | None = None, *, may_be_cut: bool = False
) -> bytes:
    decoder = ContentDecoder(codings)
    decoder.feed(data)
    body = BytesIO()  # getvalue() does not copy: a join would hold the body twice
    while piece := decoder.take():
        if body.write(piece) and max_size is not None and body.tell() > max_size:
            raise _make_size_error(max_size)
    if not may_be_cut:
        decoder.finish()
    return body.getvalue()


def _make_size_error(max_size: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"the decoded body is larger than {max_size} bytes")


# --- charsets ---

_OTHER_THAN_LETTERS = "[^a-z0-9]+"
_LONGEST_NAME = 40  # characters

# A server may name any of Python's codecs. Some are not charsets, some take quadratic time, and
# Python would cache each unknown name. So a received name means one of these or none; a
# name that the caller chose may be any other text codec. These are Python's names for the charsets
# of the WHATWG's Encoding standard, close relatives, and charsets of old systems; without UTF-7,
# which hides markup.
_NAMES = """
    ascii big5 big5hkscs cp437 cp720 cp737 cp775 cp850 cp852 cp855 cp857 cp858 cp860 cp861 cp862
    cp863 cp864 cp865 cp866 cp869 cp874 cp932 cp949 cp950 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255
    cp1256 cp1257 cp1258 euc_jis_2004 euc_jisx0213 euc_jp euc_kr gb18030 gb2312 gbk hz iso2022_jp
    iso2022_jp_1 iso2022_jp_2 iso2022_jp_2004 iso2022_jp_3 iso2022_jp_ext iso2022_kr iso8859_2
    iso8859_3 iso8859_4 iso8859_5 iso8859_6 iso8859_7 iso8859_8 iso8859_9 iso8859_10 iso8859_11
    iso8859_13 iso8859_14 iso8859_15 iso8859_16 johab koi8_r koi8_t koi8_u kz1048 latin_1
    mac_cyrillic mac_greek mac_iceland mac_latin2 mac_roman mac_turkish ptcp154 shift_jis
    shift_jis_2004 shift_jisx0213 tis_620 utf_16 utf_16_be utf_16_le utf_32 utf_32_be utf_32_le
    utf_8 utf_8_sig
"""
_CHARSETS = frozenset(_NAMES.split())
# Names of the Encoding standard that Python does not know, or before 3.15 mapped to a narrower
# charset.
_MORE_NAMES = {
    "cn_big5": "big5",
    "dos_874": "cp874",
    "iso_8859_8_e": "iso8859_8",
    "iso_8859_8_i": "iso8859_8",
    "koi": "koi8_r",
    "koi8": "koi8_r",
    "korean": "cp949",
    "ks_c_5601": "cp949",
    "ks_c_5601_1987": "cp949",
    "ks_x_1001": "cp949",
    "ksc5601": "cp949",
    "ksx1001": "cp949",
    "unicode_1_1_utf_8": "utf_8",
    "windows_874": "cp874",
    "windows_949": "cp949",
    "x_cp1250": "cp1250",
    "x_cp1251": "cp1251",
    "x_cp1252": "cp1252",
    "x_euc_jp": "euc_jp",
    "x_gbk": "gbk",
    "x_mac_cyrillic": "mac_cyrillic",
    "x_mac_roman": "mac_roman",
    "x_sjis": "shift_jis",
    "x_x_big5": "big5",
}
# Text codecs that are not for bodies: they fail whatever the error handler.
_UNFIT = ("idna", "punycode", "undefined")
_MARKS = {
    "utf_16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf_32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}


@lru_cache(maxsize=256)
def known_charset(name: str) -> str | None:
    """Return Python's name for a charset, or None if HTTP does not use it.

    Args:
        name: as received, such as "UTF-8", "latin1" or "windows-1252".
    """
    if len(name) > _LONGEST_NAME:
        return None
    plain = re.sub(_OTHER_THAN_LETTERS, "_", name.lower()).strip("_")
    found = _MORE_NAMES.get(plain) or aliases.get(plain, plain)
    return found if found in _CHARSETS else None


def chosen_charset(name: str) -> str | None:
    """Return Python's name for a charset that the caller chose, or None if it is not one.

    Args:
        name: the name of a charset, or of any text codec.
    """
    known = known_charset(name)
    if known is not None:
        return known
    try:
        b"a".decode(name, errors="replace")  # fails if it is not a charset, such as base64
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    return None if found in _UNFIT else found


def decode_text(content: bytes, charset: str) -> str:
    """Return a whole body as text; invalid bytes are replaced.

    Args:
        content: the body.
        charset: from known_charset or chosen_charset.
    """
    return content.decode(_with_byte_order(charset, content), errors="replace")


def _with_byte_order(charset: str, begin: bytes) -> str:
    """Return the charset with a byte order: little-endian without a mark."""
    marks = _MARKS.get(charset)
    return charset if marks is None or begin.startswith(marks) else f"{charset}_le"


class CharsetFinder(Protocol):
    """Find the charset of a body from how it begins."""

    def find(self, begin: bytes) -> str:
        """Return Python's name for the charset."""

    def is_certain(self, begin: bytes) -> bool:
        """Return whether more bytes of the body would not change what find() returns."""


class TextDecoder(codecs.IncrementalDecoder):
    """Decode a body to text piece by piece, with the same result as decode_text().

    Args:
        charset: from known_charset or chosen_charset, or what finds it in how the body begins.
        errors: how to handle invalid bytes.
    """

    def __init__(self, charset: str | CharsetFinder, errors: str = "replace") -> None:
        super().__init__(errors)
        self._finder = None if isinstance(charset, str) else charset
        self._charset = charset if isinstance(charset, str) else ""
        self._longest_mark = len(_MARKS[charset][0]) if charset in _MARKS else 0
        self._held = b""
        self._inner: codecs.IncrementalDecoder | None = None

    def decode(self, piece: bytes, final: bool = False) -> str:  # type: ignore[override]
        """Return the text of the next piece."""
        if self._held:
            piece, self._held = self._held + piece, b""
        if self._inner is None:
            if self._finder is not None:
                if not final and not self._finder.is_certain(piece):
                    self._held = piece
                    return ""
                self._charset = self._finder.find(piece)
            if len(piece) < self._longest_mark and not final:
                self._held = piece
                return ""
            kind = codecs.getincrementaldecoder(_with_byte_order(self._charset, piece))
            self._inner = kind(errors=self.errors)
        try:
            return self._inner.decode(piece, final)
        except UnicodeError:  # Python's ISO-2022 fails at endless escape sequences
            if self.errors != "replace":
                raise
            self._inner.reset()
            return "\ufffd" + decode_text(piece, self._charset)


# --- pieces of one size, text and lines ---

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Chunker(Protocol[T_co]):
    """Turn the pieces of a body into other pieces; an incomplete one waits for the next call."""

    def add(self, piece: bytes) -> Iterator[T_co]:
        """Yield the pieces that are complete with the next piece of the body."""

    def end(self) -> Iterator[T_co]:
        """Yield the incomplete piece at the end of the body."""

    def fail(self) -> Iterator[T_co]:
        """Yield the usable part of the incomplete piece, after the body ended early."""


def rechunk(pieces: Iterable[bytes], chunker: Chunker[T]) -> Iterator[T]:
    """Yield the pieces that a chunker makes from all pieces of a body."""
    try:
        for piece in pieces:
            yield from chunker.add(piece)
    except Exception:
        yield from chunker.fail()
        raise
    yield from chunker.end()


class ByteChunks:
    """Pass pieces on as they arrive, cut to a maximum size; None leaves them unchanged."""

    def __init__(self, size: int | None) -> None:
        if size is not None and size < 1:
            raise ValueError(f"chunk_size must be at least 1, not {size}")
        self._size = size

    def add(self, piece: bytes) -> Iterator[bytes]:
        """Return the parts of the next piece of the body."""
        size = self._size
        if size is None or len(piece) <= size:
            return iter((piece,))
        return (piece[at : at + size] for at in range(0, len(piece), size))

    def end(self) -> Iterator[bytes]:
        """Return nothing: no part is kept, because the next one of a live stream may come late."""
        return iter(())

    fail = end


class TextChunks:
    """Decode pieces to text, also characters that are split; invalid bytes are replaced."""

    def __init__(self, charset: str | CharsetFinder) -> None:
        self._decode = TextDecoder(charset).decode

    def add(self, piece: bytes) -> Generator[str, None, None]:
        """Yield the text of the next piece."""
        if text := self._decode(piece):
            yield text

    def end(self) -> Generator[str, None, None]:
        """Yield the text of an incomplete character at the end."""
        if text := self._decode(b"", True):
            yield text

    def fail(self) -> Iterator[str]:
        """Return nothing: half a character is not text."""
        return iter(())


class LineChunks:
    """Split text into lines; the start of a line is kept in parts, so that long lines are cheap."""

    def __init__(self, charset: str | CharsetFinder = "utf_8") -> None:
        self._text = TextChunks(charset)
        self._held: Parts[str] = Parts()
        self._ended_in_cr = False

    def add(self, piece: bytes) -> Generator[str, None, None]:
        """Yield the lines that end in the next piece."""
        for text in self._text.add(piece):
            yield from self._split(text)

    def end(self) -> Generator[str, None, None]:
        """Yield the last line, if it has no line ending."""
        for text in self._text.end():
            yield from self._split(text)
        if self._held:
            yield self._held.take("")

    def fail(self) -> Iterator[str]:
        """Return nothing: half a line must not look like a line."""
        return iter(())

    def _split(self, text: str) -> Generator[str, None, None]:
        if self._ended_in_cr:
            text = text.removeprefix("\n")  # of a \r\n, whose line did not wait for it
            self._ended_in_cr = False
            if not text:
                return
        self._ended_in_cr = text.endswith("\r")
        *lines, rest = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        for line in lines:
            yield self._held.take(line) if self._held else line
        if rest:
            self._held.add(rest)
