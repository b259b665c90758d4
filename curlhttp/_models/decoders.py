"""Undo the content codings of a response body, with bounded output per step.

Pure computation: no I/O, no policy, no clock. How one coding is undone is the business of
codecs.py. Nothing here may ever decode without an output limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from curlhttp._models.charsets import known_charset
from curlhttp._models.codecs import CODECS, Codec
from curlhttp.exceptions import ContentDecodingError, ResponseTooLarge

if TYPE_CHECKING:
    from curlhttp._models.headers import Headers

__all__ = [
    "ACCEPT_ENCODING",
    "MAX_CODINGS",
    "ContentDecoder",
    "codings",
    "decode",
    "decode_content",
    "decode_readable",
]

MAX_CODINGS = 5

# Input goes to a codec in slices of this size: what a codec does not consume it copies, on every
# call, so handing it a whole body would make small reads (and many small members) quadratic.
_SLICE = 16 * 1024
# What one step of a codec may produce, however little the caller asked for.
_STEP = 64 * 1024
# Bodies up to this wire size, giving up to this much, skip the general path in decode().
_SMALL_WIRE = 32 * 1024
_SMALL_BODY = 256 * 1024

# Input that a codec may swallow between two bytes of output: padding, empty members and skippable
# frames cost time and never reach max_size, least of all when another coding expands into them.
_MAX_FRUITLESS = 1024 * 1024

_NO_CODINGS = frozenset({"7bit", "8bit", "binary", "identity", "none"})

ACCEPT_ENCODING = "gzip, deflate, br" + (", zstd" if "zstd" in CODECS else "")


def codings(headers: Iterable[str]) -> tuple[str, ...]:
    """List the codings that the Content-Encoding field names, in the order they were applied.

    Args:
        headers: every value of the field, each of which may be a list.

    Returns:
        Names for ContentDecoder, without identity. Empty when there is nothing to undo, or when
        any name is unknown: the bytes then reach the caller as they came, as in requests.

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
        raise ContentDecodingError(f"{len(names)} content codings, {MAX_CODINGS} at most")
    return names if all(name in CODECS for name in names) else ()


class _Wire:
    """The bytes as they came, handed out in slices."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data

    def pull(self, limit: int) -> bytes:
        piece = bytes(self._data[:limit])
        del self._data[:limit]  # moves the start, not the bytes
        return piece


class _Layer:
    """A codec with the place where its input comes from: the wire or another layer."""

    def __init__(self, codec: Codec, pull: Callable[[int], bytes]) -> None:
        self.codec = codec
        self._source = pull
        self._fruitless = 0

    def pull(self, limit: int) -> bytes:
        """Give the next output, b"" when the input is used up; it may exceed `limit` a little."""
        codec = self.codec
        while True:
            data = self._source(_SLICE) if codec.hungry else b""
            if not data and codec.hungry:
                return b""
            out = self._decode(data, limit)
            if out:
                self._fruitless = 0
                return out
            self._fruitless += len(data)
            if self._fruitless > _MAX_FRUITLESS:
                raise ContentDecodingError(f"{self._fruitless} bytes of {codec.name} gave nothing")

    def _decode(self, data: bytes, limit: int) -> bytes:
        try:
            return self.codec.decode(data, limit)
        except self.codec.error as error:
            name = self.codec.name
            raise ContentDecodingError(f"the {name} body is corrupt: {error}") from error


class ContentDecoder:
    """Undo the codings of one body as it comes.

    feed() wire bytes, take() until it gives b"", and so on; finish() after the last. What take()
    works on is bounded, so a body that decodes to gigabytes costs no more than what is taken.

    Bytes after the end of gzip or deflate data are ignored, as in requests.

    Args:
        codings: as given by codings(), in the order they were applied.

    Raises:
        ContentDecodingError: from take() when a coding is corrupt.
    """

    def __init__(self, codings: Sequence[str]) -> None:
        self._wire = _Wire()
        self._layers: list[_Layer] = []
        pull: Callable[[int], bytes] = self._wire.pull
        for name in reversed(codings):
            layer = _Layer(CODECS[name](), pull)
            self._layers.append(layer)
            pull = layer.pull
        self._pull = pull
        self._ready = b""
        self._given = 0  # how much of _ready was taken

    def feed(self, data: bytes) -> None:
        """Give the next wire bytes; what is not needed yet is kept."""
        self._wire.feed(data)

    def take(self, limit: int = _STEP) -> bytes:
        """Give at most `limit` decoded bytes, b"" when more input is needed or none is left."""
        if self._given == len(self._ready):
            self._ready, self._given = self._pull(max(limit, _STEP)), 0
            if len(self._ready) <= limit:
                self._given = len(self._ready)
                return self._ready
        piece = self._ready[self._given : self._given + limit]
        self._given += len(piece)
        return piece

    def finish(self) -> None:
        """Check that the body is whole; call it once all of it was fed and taken.

        Raises:
            ContentDecodingError: a coding does not end where the body does. A body of no bytes
                at all (HEAD, 204, 304) is whole.
        """
        for layer in self._layers:
            if not layer.codec.complete():
                raise ContentDecodingError(f"the {layer.codec.name} body is cut short")


def decode(data: bytes, codings: Sequence[str], max_size: int | None = None) -> bytes:
    """Undo the codings of a whole body.

    Args:
        data: the body as it came.
        codings: as given by codings(), in the order they were applied.
        max_size: decoded bytes allowed; None for any number.

    Raises:
        ContentDecodingError: a coding is corrupt or cut.
        ResponseTooLarge: more than max_size bytes; no more than a step beyond it is ever held.
    """
    body = _small_gzip(data) if tuple(codings) == ("gzip",) else None
    if body is None:
        return _decode_in_steps(data, codings, max_size)
    if max_size is not None and len(body) > max_size:
        raise _too_large(max_size)
    return body


def decode_content(data: bytes, headers: Headers, max_size: int | None = None) -> bytes:
    """Undo the coding of a whole body that its headers name, if they do.

    Args:
        data: the body as it came.
        headers: those of its message.
        max_size: see `decode`.

    Raises:
        ContentDecodingError: a coding is corrupt or cut, or there are too many.
        ResponseTooLarge: see `decode`.
    """
    coded = codings(headers.get_list("content-encoding")) if data else ()
    return decode(data, coded, max_size) if coded else data


def decode_readable(
    data: bytes, fields: Iterable[str], *, may_be_cut: bool = False
) -> bytes | None:
    """Undo the codings of a whole body, or return None where nobody can tell what is in it.

    Other than decode_content this takes no unknown coding for none. Names of charsets, which some
    servers send, are none.

    Args:
        data: the body as it came.
        fields: every value of Content-Encoding.
        may_be_cut: return as much as there is.
    """
    names = [name for field in fields for part in field.split(",")
             if (name := part.strip(" \t").lower())]  # fmt: skip
    coded = [name for name in names if name not in _NO_CODINGS and known_charset(name) is None]
    if not coded or not data:
        return data
    try:
        known = codings([",".join(coded)])
        if may_be_cut and known:
            return _decode_beginning(data, known)
        return decode(data, known) if known else None
    except ContentDecodingError:
        return None


def _decode_beginning(data: bytes, codings: Sequence[str]) -> bytes:
    decoder = ContentDecoder(codings)
    decoder.feed(data)
    body = BytesIO()
    while piece := decoder.take():
        body.write(piece)
    return body.getvalue()


def _small_gzip(data: bytes) -> bytes | None:
    """Decode the everyday body in one call; None for any other, sound or not."""
    if not data or len(data) > _SMALL_WIRE:
        return None
    import zlib

    member = zlib.decompressobj(31)
    try:
        body = member.decompress(data, _SMALL_BODY)
    except zlib.error:
        return None
    return body if member.eof and not member.unused_data else None


def _decode_in_steps(data: bytes, codings: Sequence[str], max_size: int | None) -> bytes:
    decoder = ContentDecoder(codings)
    decoder.feed(data)
    body = BytesIO()  # getvalue() hands over the buffer: a join would hold the body twice
    while piece := decoder.take():
        if body.write(piece) and max_size is not None and body.tell() > max_size:
            raise _too_large(max_size)
    decoder.finish()
    return body.getvalue()


def _too_large(max_size: int) -> ResponseTooLarge:
    return ResponseTooLarge(f"the decoded body is larger than {max_size} bytes")
