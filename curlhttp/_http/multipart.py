"""Forms with files: multipart/form-data (RFC 7578). Loaded for the first request that has files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from curlhttp._http.body import Body, BytesBody, StreamBody, open_body
from curlhttp._http.headers import match_token
from curlhttp._http.url import pairs
from curlhttp.exceptions import InvalidHeader, RequestException

if TYPE_CHECKING:
    from curlhttp._http.inputs import FormInput, Text

_BREAKS = r"[\r\n\0]"
# RFC 2046, section 5.1.1. A blank needs quotes, and cannot be the last character.
_BOUNDARY = r"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]"
_PARAMETERS = r';[ \t]*([^\s;="]+)[ \t]*=[ \t]*("[^"]*"|[^;]*)'
# WHATWG HTML, "multipart/form-data encoding algorithm".
_ESCAPES = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
# Values up to this size are copied together, so that many small fields make few pieces.
_SMALL = 64 * 1024


class MultipartBody(StreamBody):
    """Parts with a boundary between them, streamed: a file is read while it is sent, never before.

    Its length is known if the length of every part is; it can be sent again if every part can.

    Args:
        parts: the headers of each with the empty line after them, and its body.
        content_type: of the request. Its boundary is used, or added.
        length: bytes of the whole body, if a part does not know its own length.
        boundary: to add; the default is a random one.

    Raises:
        ValueError: a part in memory contains the caller's boundary. A file that does raises
            RequestException when it is read.
        InvalidHeader: the boundary of the content type would break the message.
    """

    __slots__ = ("_before", "_index", "_mark", "_segments")

    def __init__(
        self,
        parts: Iterable[tuple[bytes, Body]],
        content_type: str,
        length: int | None = None,
        boundary: str | None = None,
    ) -> None:
        chosen = _find_boundary(content_type)
        boundary = chosen or boundary or os.urandom(16).hex()
        # What no part may contain. A random boundary is in none.
        self._mark = None if chosen is None else f"\n--{boundary}".encode()
        self._segments = _make_segments(boundary, parts, self._mark)
        self._index = 0
        self._before = b"\n"
        super().__init__(self._get_known_length() if length is None else length)
        self.replayable: bool = all(segment.replayable for segment in self._segments)
        if len(self._segments) == 1 and self.length == self._segments[0].length:
            self.data: bytes | None = self._segments[0].data
        if chosen is None:
            content_type = f"{content_type.rstrip('; ')}; boundary={boundary}"
        self.content_type: str | None = content_type

    def _get_known_length(self) -> int | None:
        total = 0
        for segment in self._segments:
            if segment.length is None:
                return None
            total += segment.length
        return total

    def _pull(self, size: int) -> bytes:
        while self._index < len(self._segments):
            segment = self._segments[self._index]
            if piece := segment.read(size):
                if self._mark is not None and segment.data is None:
                    self._check(piece, self._mark)
                return piece
            self._index += 1
            self._rewind_next()
        return b""

    def _check(self, piece: bytes, mark: bytes) -> None:
        """Check the next piece of a file for the caller's boundary, also across two pieces."""
        seen = self._before + piece
        if mark in seen:
            raise RequestException(_has_boundary("a file"))
        self._before = seen[1 - len(mark) :]

    def _rewind_next(self) -> None:
        self._before = b"\n"  # a part begins on a line of its own
        # One file may be several parts, each from its position at the start.
        if self._index < len(self._segments) and self._segments[self._index].replayable:
            self._segments[self._index].rewind()

    def rewind(self) -> None:
        for segment in self._segments:
            segment.rewind()
        self._index = 0
        self._before = b"\n"
        self._restart()

    def close(self) -> None:
        for segment in self._segments:
            segment.close()


def make_form(
    fields: Iterable[tuple[object, object]],
    files: Iterable[tuple[object, object]],
    length: int | None = None,
    boundary: str | None = None,
    content_type: str | None = None,
) -> MultipartBody:
    """Return a form with files.

    Args:
        fields: (name, value) pairs, sent first; a value that is neither bytes nor a bytearray is
            sent as its str().
        files: (field name, file) pairs. A file is `obj`, `(file name, obj)`, `(file name, obj,
            content type)` or `(file name, obj, content type, headers)`; `obj` is bytes, str, a
            binary file, an iterable of bytes or a callable that returns one of these. Without a
            file name, the name of a file on disk or the field name is sent; the file name None
            sends none. Files that are None are left out. Content-Disposition cannot be set.
        length: see MultipartBody.
        boundary: see MultipartBody.
        content_type: of the request, if the caller set it. Its boundary is used, or added if it is
            multipart.

    Raises:
        ValueError: a name holds NUL, or a file has another form; or see MultipartBody.
        InvalidHeader: a content type or header would break the message.
        TypeError: `obj` cannot be sent.
    """
    parts = (*map(_make_field_part, fields), *filter(None, map(_make_file_part, files)))
    if not content_type or content_type.lstrip(" \t")[:10].lower() == "multipart/":
        return MultipartBody(parts, content_type or "multipart/form-data", length, boundary)
    form = MultipartBody(parts, "multipart/form-data", length, boundary)
    form.content_type = content_type
    return form


def _find_boundary(content_type: str) -> str | None:
    """Return the boundary that a Content-Type names, None if it names none.

    Raises:
        InvalidHeader: it cannot be a boundary, or there are two.
    """
    found = [
        value for name, value in re.findall(_PARAMETERS, content_type) if name.lower() == "boundary"
    ]
    if not found:
        return None
    value = str(found[0]).strip(" \t")
    quoted = len(value) > 1 and value[0] == value[-1] == '"'
    boundary = value[1:-1] if quoted else value
    if len(found) > 1 or not re.fullmatch(_BOUNDARY, boundary) or (" " in boundary and not quoted):
        raise InvalidHeader(
            f"Invalid boundary in Content-Type {content_type!r:.200}: there must be one, of 1 to "
            "70 letters, digits and '()+_,-./:=? (RFC 2046, section 5.1.1); without one in the "
            "header, a random one is added"
        )
    return boundary


def _has_boundary(part: str) -> str:
    return (
        f"{part} contains the boundary that Content-Type names, so the server would see other "
        "parts; without a boundary in the header, a random one is added"
    )


def _make_segments(
    boundary: str,
    parts: Iterable[tuple[bytes, Body]],
    mark: bytes | None,
) -> list[Body]:
    """Return the form as bodies: text in memory and files, alternately."""
    segments: list[Body] = []
    text = bytearray()
    start = f"--{boundary}\r\n".encode()
    for head, body in parts:
        text += start + head
        if mark is not None and body.data is not None and mark in b"\n" + body.data:
            raise ValueError(_has_boundary("a part of the form"))
        if body.data is not None and len(body.data) <= _SMALL:
            text += body.data
        else:
            segments += (BytesBody(bytes(text)), body)
            text.clear()
        text += b"\r\n"
    text += f"--{boundary}--\r\n".encode()
    return [*segments, BytesBody(bytes(text))]


def _make_field_part(field: tuple[object, object]) -> tuple[bytes, Body]:
    name, value = field
    data = bytes(value) if isinstance(value, (bytes, bytearray)) else str(value).encode()
    return _make_part_head(name), BytesBody(data)


def _make_file_part(field: tuple[object, object]) -> tuple[bytes, Body] | None:
    if not (isinstance(cast(object, field), (tuple, list)) and len(field) == 2):
        kind = type(field).__name__
        raise ValueError(
            f"files are a mapping or pairs of field name and file, not of {kind}: "
            f'{{"field": open(path, "rb")}}'
        )
    name, spec = field
    if not isinstance(spec, (tuple, list)):
        spec = (_get_file_name(spec) or name, spec)
    if not 2 <= len(spec) <= 4:
        raise ValueError(
            f"a file is given by (name, file[, type[, headers]]), not {len(spec)} values"
        )
    filename, source, content_type, headers = (*spec, None, None)[:4]
    if source is None:
        return None
    body = open_body(source)
    if body.is_async:
        raise TypeError("a part of a form cannot be an async iterable")
    return _make_part_head(name, filename, content_type, headers), body


def _get_file_name(file: object) -> str | None:
    name = getattr(file, "name", None)  # an int for an open descriptor
    if not isinstance(name, (str, bytes)):
        return None
    name = os.fsdecode(name)
    is_placeholder = name.startswith("<") and name.endswith(">")  # <stdin>
    return None if is_placeholder else os.path.basename(name)


def _make_part_head(
    name: object, filename: object = None, content_type: object = None, headers: object = None
) -> bytes:
    lines = f'Content-Disposition: form-data; name="{_escape(name)}"'
    if filename is not None:
        lines += f'; filename="{_escape(filename)}"'
    extra = _header_names(pairs(cast("FormInput", headers))) if headers else {}
    if content_type is not None:
        extra = {"Content-Type": content_type, **_without(extra, "content-type")}
    for key, value in _without(extra, "content-disposition").items():
        lines += _make_header_line(key, value)
    # surrogateescape: a file name on disk that is not UTF-8 is sent as its bytes.
    return f"{lines}\r\n\r\n".encode("utf-8", "surrogateescape")


def _header_names(headers: Iterable[tuple[Text, object]]) -> dict[str, object]:
    return {_to_text(name): value for name, value in dict(headers).items() if value is not None}


def _without(headers: Mapping[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in headers.items() if key.lower() != name}


def _make_header_line(name: str, value: object) -> str:
    text = _to_text(value)
    if not match_token(name) or re.search(_BREAKS, text):
        raise InvalidHeader(f"a part cannot have the header {name!r} with this value")
    return f"\r\n{name}: {text}"


def _escape(name: object) -> str:
    text = _to_text(name)
    if "\0" in text:
        raise ValueError("a field or file name cannot contain NUL")
    return text.translate(_ESCAPES)


def _to_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError(f"names and headers of a form are str or bytes, not {type(value).__name__}")
    return value
