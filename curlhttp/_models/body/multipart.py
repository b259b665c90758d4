"""multipart/form-data (RFC 7578), streamed: a file is read while it is sent, never before.

Encodes only; nothing here parses, guesses content types or opens files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from curlhttp._models.body.body import Body, BytesBody, StreamBody
from curlhttp._models.body.streams import open_body
from curlhttp._models.url.params import pairs
from curlhttp.exceptions import InvalidHeader

if TYPE_CHECKING:
    from curlhttp._models.inputs import FormInput, Text

__all__ = ["MultipartBody"]

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
_BREAKS = re.compile(r"[\r\n\0]").search
# WHATWG HTML, "multipart/form-data encoding algorithm".
_ESCAPES = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})
# Values up to this size are copied together, so that many small fields make few pieces.
_SMALL = 64 * 1024


class MultipartBody(StreamBody):
    """A form with files.

    Its length is known when that of every part is; it can be sent again when every part can.

    Args:
        fields: (name, value) pairs, sent first; a value that is not bytes is sent as its str().
        files: (field name, file) pairs, a file being `obj`, `(file name, obj)`, `(file name,
            obj, content type)` or `(file name, obj, content type, headers)`, and `obj` bytes,
            str, a binary file, an iterable of bytes or a callable that returns one of these.
            Without a file name, that of a file on disk or else the field name is sent; the file
            name None sends none. `obj` None is left out. Content-Disposition cannot be set.
        length: bytes of the whole, when a part does not know its own.

    Raises:
        ValueError: a name holds NUL, or a file is not as above.
        InvalidHeader: a content type or header would break the message.
        TypeError: `obj` cannot be sent.
    """

    __slots__ = ("_index", "_segments")

    def __init__(
        self,
        fields: Iterable[tuple[object, object]],
        files: Iterable[tuple[object, object]],
        length: int | None = None,
        boundary: str | None = None,
    ) -> None:
        boundary = boundary or os.urandom(16).hex()
        self._segments = _segments(boundary, fields, files)
        self._index = 0
        super().__init__(self._known_length() if length is None else length)
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self.replayable = all(segment.replayable for segment in self._segments)
        if len(self._segments) == 1 and self.length == self._segments[0].length:
            self.data = self._segments[0].data

    def _known_length(self) -> int | None:
        total = 0
        for segment in self._segments:
            if segment.length is None:
                return None
            total += segment.length
        return total

    def _pull(self, size: int) -> bytes:
        while self._index < len(self._segments):
            if piece := self._segments[self._index].read(size):
                return piece
            self._index += 1
            self._rewind_next()
        return b""

    def _rewind_next(self) -> None:
        # One file may be several parts, each from where the file stood at the start.
        if self._index < len(self._segments) and self._segments[self._index].replayable:
            self._segments[self._index].rewind()

    def rewind(self) -> None:
        for segment in self._segments:
            segment.rewind()
        self._index = 0
        self._restart()

    def close(self) -> None:
        for segment in self._segments:
            segment.close()


def _segments(
    boundary: str, fields: Iterable[tuple[object, object]], files: Iterable[tuple[object, object]]
) -> list[Body]:
    """Lay out the form as text in memory and bodies between."""
    segments: list[Body] = []
    text = bytearray()
    start = f"--{boundary}\r\n".encode()
    for head, body in (*map(_field, fields), *filter(None, map(_file, files))):
        text += start + head
        if body.data is not None and len(body.data) <= _SMALL:
            text += body.data
        else:
            segments += (BytesBody(bytes(text)), body)
            text.clear()
        text += b"\r\n"
    text += f"--{boundary}--\r\n".encode()
    return [*segments, BytesBody(bytes(text))]


def _field(field: tuple[object, object]) -> tuple[bytes, Body]:
    name, value = field
    data = value if isinstance(value, bytes) else str(value).encode()
    return _head(name), BytesBody(data)


def _file(field: tuple[object, object]) -> tuple[bytes, Body] | None:
    name, spec = field
    if not isinstance(spec, (tuple, list)):
        spec = (_file_name(spec) or name, spec)
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
    return _head(name, filename, content_type, headers), body


def _file_name(file: object) -> str | None:
    name = getattr(file, "name", None)  # an int for an open descriptor
    if not isinstance(name, (str, bytes)):
        return None
    name = os.fsdecode(name)
    is_made_up = name.startswith("<") and name.endswith(">")  # <stdin>
    return None if is_made_up else os.path.basename(name)


def _head(
    name: object, filename: object = None, content_type: object = None, headers: object = None
) -> bytes:
    lines = f'Content-Disposition: form-data; name="{_escaped(name)}"'
    if filename is not None:
        lines += f'; filename="{_escaped(filename)}"'
    extra = _named(pairs(cast("FormInput", headers))) if headers else {}
    if content_type is not None:
        extra = {"Content-Type": content_type, **_without(extra, "content-type")}
    for key, value in _without(extra, "content-disposition").items():
        lines += _header_line(key, value)
    # surrogateescape: a file name of the disk that is not UTF-8 goes out as its bytes.
    return f"{lines}\r\n\r\n".encode("utf-8", "surrogateescape")


def _named(headers: Iterable[tuple[Text, object]]) -> dict[str, object]:
    return {_text(name): value for name, value in dict(headers).items() if value is not None}


def _without(headers: Mapping[str, object], name: str) -> dict[str, object]:
    return {key: value for key, value in headers.items() if key.lower() != name}


def _header_line(name: str, value: object) -> str:
    text = _text(value)
    if not _TOKEN(name) or _BREAKS(text):
        raise InvalidHeader(f"a part cannot have the header {name!r} with this value")
    return f"\r\n{name}: {text}"


def _escaped(name: object) -> str:
    text = _text(name)
    if "\0" in text:
        raise ValueError("a field or file name cannot hold NUL")
    return text.translate(_ESCAPES)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if not isinstance(value, str):
        raise TypeError(f"names and headers of a form are str or bytes, not {type(value).__name__}")
    return value
