"""Decode bodies: charsets, guesses at them, lines and slices. `utils` exposes these functions."""

from __future__ import annotations

import codecs
import re
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from curlhttp._http.decoding import (
    Parts,
    TextChunks,
    chosen_charset,
    decode_text,
    known_charset,
    rechunk,
)
from curlhttp.requests._headers import get_encoding_from_headers

if TYPE_CHECKING:
    from curlhttp.requests.models import Response


def get_encodings_from_content(content: str) -> list[str]:
    """Return the encodings that HTML or XML names (deprecated)."""
    _warn_deprecated("get_encodings_from_content")
    found = re.findall(r"<meta[^>\n]*?charset=[\"']*([^\"'>\n]+)[\"'>]", content, re.IGNORECASE)
    declaration = re.match(r"<\?xml.*?encoding=[\"']*([^\"'>\n]+)[\"'>]", content)
    return found + ([declaration[1]] if declaration else [])


def get_unicode_from_response(r: Response) -> str | bytes | None:
    """Return the text of a response, decoded as its headers say, else as UTF-8 (deprecated)."""
    _warn_deprecated("get_unicode_from_response")
    content = r.content
    if not isinstance(content, (bytes, bytearray)):  # None, or already text
        return cast("str | None", content)
    charset = get_charset(get_encoding_from_headers(r.headers), r.headers)
    return decode_text(bytes(content), charset or "utf_8")


def get_charset(encoding: str | None, headers: Mapping[str, str] | None) -> str | None:
    """Return Python's name for the charset of a body.

    Args:
        encoding: the response's, or a guess. A program may set any text codec.
        headers: the response's. If they name an unknown charset, it means UTF-8.

    Returns:
        None if the program has set an unknown charset.
    """
    if not isinstance(encoding, str):
        return None
    known = known_charset(encoding)
    if known is None and headers and get_encoding_from_headers(headers) == encoding:
        return "utf_8"
    return known or chosen_charset(encoding)


def _warn_deprecated(name: str) -> None:
    warnings.warn(f"{name}() is deprecated", DeprecationWarning, stacklevel=3)


def stream_decode_response_unicode(iterator: Iterable[bytes], r: Response) -> Iterator[str | bytes]:
    """Decode pieces of a body by the response's encoding; without one they stay bytes."""
    if r.encoding is None:
        yield from iterator
        return
    charset = get_charset(r.encoding, getattr(r, "headers", None))
    if charset is None:
        raise LookupError(f"unknown encoding: {r.encoding}")
    yield from rechunk(iterator, TextChunks(charset))


def split_lines(pieces: Iterable[Any], delimiter: Any = None) -> Iterator[Any]:
    """Yield the lines of a text or body that arrives in pieces, each as soon as it ends.

    As in requests, a line end that is split between pieces counts twice, and a delimiter at the end
    of a piece ends an empty line.

    Args:
        pieces: str or bytes.
        delimiter: what ends a line, instead of the line ends of splitlines().
    """
    start = _LineStart(delimiter)
    for piece in pieces:
        if not start.extend(piece):
            text = start.parts.take(piece)
            lines = text.split(delimiter) if delimiter else text.splitlines()
            if lines and lines[-1] and lines[-1][-1] == text[-1]:
                start.hold(lines.pop())
            yield from lines
    if start.parts:
        yield start.parts.take(start.end[:0])


class _LineStart:
    """The start of a line that has not ended."""

    def __init__(self, delimiter: Any) -> None:
        self._delimiter = delimiter
        self._overlap = len(delimiter) - 1 if delimiter else 0
        self.end: Any = None  # a delimiter may begin here
        self.parts: Parts[Any] = Parts()

    def extend(self, piece: Any) -> bool:
        """Add a piece if all of it belongs to the line, and return whether it does."""
        if not self.parts:
            return False
        if self._delimiter:
            is_within = self._delimiter not in self.end + piece
        else:
            is_within = piece.splitlines() in ([], [piece])
        if is_within:
            self.hold(piece)
        return is_within

    def hold(self, part: Any) -> None:
        """Keep a part of the line."""
        text = self.end + part if self.parts else part
        self.end = text[len(text) - self._overlap :] if self._overlap < len(text) else text
        self.parts.add(part)


def iter_slices(string: Any, slice_length: int | None) -> Generator[Any, None, None]:
    """Yield slices of a string; all of it if the length is None or not positive."""
    if slice_length is None or slice_length <= 0:
        slice_length = len(string) or 1
    for start in range(0, len(string), slice_length):
        yield string[start : start + slice_length]


def guess_json_utf(data: bytes) -> str | None:
    """Return the UTF encoding of a JSON text, by its byte order mark or the position of zeros.

    JSON begins with two ASCII characters (RFC 4627, section 3). Returns None if no UTF fits.
    """
    start = data[:4]
    if start.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" not in start:
        return "utf-8"
    zeros = tuple(not byte for byte in start)
    return _UTF_OF_ZEROS.get(zeros)


_UTF_OF_ZEROS: dict[tuple[bool, ...], str] = {
    (True, False, True, False): "utf-16-be",
    (False, True, False, True): "utf-16-le",
    (True, True, True, False): "utf-32-be",
    (False, True, True, True): "utf-32-le",
}
