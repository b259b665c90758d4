"""Request bodies: from `content`, `data`, `json` and `files` to bytes that are read in pieces.

Values only: nothing here opens a connection, a file or a thread. A body is read by one exchange at
a time. Exceptions of the caller's file, iterator or function are passed on unchanged.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from json import JSONEncoder
from types import AsyncGeneratorType
from typing import TYPE_CHECKING, BinaryIO, cast

from curlhttp._http.url import encode_fields, get_fields, pairs
from curlhttp.exceptions import (
    InvalidHeader,
    InvalidJSONError,
    RequestException,
    UnrewindableBodyError,
)

if TYPE_CHECKING:
    from curlhttp._http.inputs import (
        ContentInput,
        DataInput,
        FilesInput,
        FormInput,
        JSONInput,
        Piece,
        Text,
    )

_PIECE = 64 * 1024


class Body:
    """One request body.

    Attributes:
        content_type: the Content-Type of the body, or None.
        length: its size in bytes, or None if unknown: it is then sent with chunked coding.
        data: the whole body if it is in memory, else None.
        replayable: whether rewind() works after something was read.
        is_async: whether it is read with next() instead of read().
        is_secret: whether it holds credentials; it is then left out of pickles.
    """

    __slots__ = ("content_type", "data", "length", "replayable")
    content_type: str | None
    length: int | None
    data: bytes | None
    replayable: bool
    is_async = False
    is_secret = False

    def read(self, size: int) -> bytes:
        """Return the next piece, of 1 to `size` bytes; b"" at the end."""
        raise NotImplementedError

    async def next(self) -> bytes:
        """Return the next piece of an async body, of any size; b"" at the end."""
        raise NotImplementedError

    def rewind(self) -> None:
        """Go back to the start of the body.

        Raises:
            UnrewindableBodyError: something was read that cannot be read again.
        """
        raise NotImplementedError

    def clone(self) -> Body | None:
        """Return a body with the same content that can be sent at the same time, or None."""
        return None

    def peek(self) -> bytes | None:
        """Return the whole body if it is in memory, without reading it."""
        return self.data

    def replaced_by(self, body: Body) -> Body:
        """Return a body that is sent instead of this one, with what else this one does."""
        return body

    def seek(self, offset: int) -> None:
        """Go to `offset` bytes after the start, by reading the bytes before it."""
        self.rewind()
        while offset > 0 and (piece := self.read(min(offset, _PIECE))):
            offset -= len(piece)

    def __repr__(self) -> str:
        from curlhttp._http.rendering import repr_of_body

        return repr_of_body(self)

    def current(self) -> Body:
        """Return what is read until the next rewind(), for who closes only that."""
        return self

    def close(self) -> None:
        """Release what the body itself opened; a caller's file stays open."""

    async def aclose(self) -> None:
        """Close an async generator that was started, so that it cleans up now."""


def rewind(body: Body | None) -> UnrewindableBodyError | None:
    """Rewind a body, if there is one; return the error if that fails."""
    if body is not None:
        try:
            body.rewind()
        except UnrewindableBodyError as error:
            return error
    return None


async def read_whole(body: Body | None) -> bytes:
    """Read a body, async or not, to its end; return b"" for None."""
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

    def clone(self) -> Body:
        return BytesBody(self.data, self.content_type)

    def seek(self, offset: int) -> None:
        self._at = offset


class StreamBody(Body):
    """A body that is read piece by piece, and checked against its length if that is known.

    Subclasses return pieces of any size from _pull(), and b"" at the end.

    Args:
        length: bytes that the body must have, or None. If it has more or fewer, read() or next()
            raises RequestException and does not return the piece that is too long.
    """

    __slots__ = ("_pulled", "_spare")

    def __init__(self, length: int | None) -> None:
        if length is not None and length < 0:
            raise ValueError(f"a body cannot have {length} bytes")
        self.content_type: str | None = None
        self.length = length
        self.data: bytes | None = None
        self.replayable = False
        self._restart()

    def _restart(self) -> None:
        self._pulled = 0
        self._spare = memoryview(b"")

    def clone(self) -> Body | None:
        # Two readers of one file would get half each, unless one has already read all of it.
        if not self.replayable or self._pulled != self.length or self._spare:
            return None
        self.rewind()
        return self

    def read(self, size: int) -> bytes:
        piece: Piece = self._spare
        if not piece:
            piece = self._count(self._pull(size))
            if piece and self._pulled == self.length:
                self._count(self._pull(1))  # is there more? A reader stops at the length
            if len(piece) <= size:
                return piece
        # A view, because an iterator may return one huge piece.
        rest = memoryview(piece)
        self._spare = rest[size:]
        return bytes(rest[:size])

    def _pull(self, size: int) -> bytes:
        raise NotImplementedError

    def _count(self, piece: bytes) -> bytes:
        self._pulled += len(piece)
        length = self.length
        if length is not None and (self._pulled > length or (not piece and self._pulled < length)):
            bound = "only" if self._pulled < length else "at least"
            raise RequestException(
                f"the body has {bound} {self._pulled} bytes, but {length} were announced"
            )
        return piece


# --- files, iterables and functions ---

WHOLE = (str, bytes, bytearray, memoryview)
# Other subclasses of io.BufferedIOBase decompress, and find their end by reading up to it.
_SIZED = (io.BytesIO, io.BufferedReader, io.BufferedRandom)


class FileBody(StreamBody):
    """A binary file, from its current position to its end.

    Args:
        file: anything with a binary read(size).
        length: bytes from there on. With None it is determined by .len or len(), as in requests,
            or by seeking to the end; not by fstat(), which returns a GzipFile's compressed size.

    Raises:
        TypeError: the file is open in text mode.
    """

    __slots__ = ("_file", "_start")

    def __init__(self, file: object, length: int | None = None) -> None:
        if isinstance(file, io.TextIOBase):
            raise TypeError("the file is open in text mode; open it in binary mode, 'rb'")
        self._file = cast(BinaryIO, file)  # it may have only the method read
        self._start = _find_position(self._file)
        super().__init__(_find_length(self._file, self._start) if length is None else length)
        self.replayable = self._start is not None

    def _pull(self, size: int) -> bytes:
        return _to_bytes(self._file.read(size), "the file (open it in binary mode, 'rb')")

    def rewind(self) -> None:
        # Even if nothing was read here: the file may be used for two parts of one form.
        if self._start is not None:
            try:
                self._file.seek(self._start)
            except (OSError, ValueError) as error:
                raise UnrewindableBodyError(f"the file cannot be rewound: {error}") from error
        elif self._pulled:
            raise UnrewindableBodyError("the file cannot seek, so it cannot be sent again")
        self._restart()


class IterBody(StreamBody):
    """The pieces of an iterable of bytes; only a list or tuple can be sent again.

    Other iterables may be exhausted after one pass, and would then send an empty body.
    """

    __slots__ = ("_iterator", "_source")

    def __init__(self, source: Iterable[Piece], length: int | None = None) -> None:
        super().__init__(length)
        self._source = source
        self._iterator: Iterator[Piece] | None = None
        self.replayable = isinstance(source, (list, tuple))

    def _pull(self, size: int) -> bytes:
        if self._iterator is None:
            self._iterator = iter(self._source)
        for piece in self._iterator:
            # An empty piece is not the end.
            if data := _to_bytes(piece, "the iterable"):
                return data
        return b""

    def rewind(self) -> None:
        if self._iterator is not None and not self.replayable:
            raise UnrewindableBodyError("an iterator cannot be sent again; pass a callable")
        self._iterator = None
        self._restart()

    def clone(self) -> Body | None:
        return IterBody(self._source, self.length) if self.replayable else None


class AsyncIterBody(StreamBody):
    """The pieces of an async iterable of bytes, for AsyncClient."""

    __slots__ = ("_iterator", "_source")
    is_async = True

    def __init__(self, source: AsyncIterable[Piece], length: int | None = None) -> None:
        super().__init__(length)
        self._source = source
        self._iterator: AsyncIterator[Piece] | None = None

    def _pull(self, size: int) -> bytes:
        raise TypeError("an async body needs AsyncClient")

    async def next(self) -> bytes:
        if self._iterator is None:
            self._iterator = aiter(self._source)
        piece = self._count(await self._advance(self._iterator))
        if piece and self._pulled == self.length:
            self._count(await self._advance(self._iterator))
        return piece

    async def _advance(self, iterator: AsyncIterator[Piece]) -> bytes:
        async for piece in iterator:
            if data := _to_bytes(piece, "the async iterable"):
                return data
        return b""

    def rewind(self) -> None:
        if self._iterator is not None:
            raise UnrewindableBodyError("an async iterator cannot be sent again; pass a callable")

    async def aclose(self) -> None:
        if isinstance(self._iterator, AsyncGeneratorType):
            await self._iterator.aclose()


class FactoryBody(StreamBody):
    """The body that a callable returns; the callable is called again for each send.

    The first call is immediate, because the kind and length of the body decide how the request is
    sent.

    Args:
        make: returns bytes, a file, an iterable or an async iterable, which is closed at its end,
            on rewind() and on close().
    """

    __slots__ = ("_fresh", "_inner", "_made", "_make", "is_async")

    def __init__(self, make: Callable[[], object], length: int | None = None) -> None:
        self._make = make
        self._renew()
        super().__init__(self._inner.length if length is None else length)
        self.replayable = True
        self.is_async = self._inner.is_async

    def _renew(self) -> None:
        self._made = self._make()
        self._inner = open_body(self._made, factory=False)
        self._fresh = True

    def _pull(self, size: int) -> bytes:
        self._fresh = False
        piece = self._inner.read(size)
        if not piece:
            self.close()
            self._inner = BytesBody(b"")
        return piece

    async def next(self) -> bytes:
        self._fresh = False
        piece = self._count(await self._inner.next())
        if piece and self._pulled == self.length:
            self._count(await self._inner.next())
        return piece

    def rewind(self) -> None:
        if not self._fresh:
            self.close()
            self._renew()
        self._restart()

    def clone(self) -> Body:
        return FactoryBody(self._make, self.length)

    def current(self) -> Body:
        return self._inner

    def close(self) -> None:
        self._fresh = False
        close = getattr(self._made, "close", None)
        if close is not None:
            close()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _to_bytes(piece: object, source_name: str) -> bytes:
    if isinstance(piece, bytes):
        return piece
    if isinstance(piece, (bytearray, memoryview)):
        return bytes(piece)  # a copy: the source may reuse the buffer
    raise TypeError(f"{source_name} returned {type(piece).__name__}, not bytes")


def _find_position(file: BinaryIO) -> int | None:
    """Return the offset to seek back to, None for a file that cannot seek."""
    try:
        if not hasattr(file, "seek") or not getattr(file, "seekable", lambda: True)():
            return None
        return int(file.tell())
    except (AttributeError, OSError, TypeError):
        return None


def _find_length(file: object, start: int | None) -> int | None:
    total = len(file) if hasattr(file, "__len__") else getattr(file, "len", None)
    if isinstance(total, int):
        return max(0, total - (start or 0))
    if start is None or (isinstance(file, io.BufferedIOBase) and not isinstance(file, _SIZED)):
        return None
    return _seek_length(cast(BinaryIO, file), start)


def _seek_length(file: BinaryIO, start: int) -> int | None:
    try:
        file.seek(0, io.SEEK_END)
        size = int(file.tell()) - start
        # Files of /proc have size 0 and content.
        return size if size > 0 else None if file.read(1) else 0
    except (OSError, TypeError, ValueError):
        return None
    finally:
        file.seek(start)


def open_body(source: object, length: int | None = None, factory: bool = True) -> Body:
    """Return a body that sends `source` as it is.

    Args:
        source: bytes, str (sent as UTF-8), a binary file, an iterable or async iterable of
            bytes, or a callable that returns one of these.
        length: its size in bytes, if that cannot be determined.
        factory: whether a callable is allowed.

    Raises:
        TypeError: `source` is something else.
        InvalidHeader: `length` is wrong.
    """
    if isinstance(source, Body):
        return source
    if isinstance(source, WHOLE):
        data = source.encode() if isinstance(source, str) else bytes(source)
        if length is not None and length != len(data):
            raise InvalidHeader(f"the body has {len(data)} bytes, but {length} were announced")
        return BytesBody(data)
    kind = _find_body_class(source)
    if kind is None or (kind is FactoryBody and not factory):
        hint = ""
        if isinstance(source, Mapping):
            hint = "; data= takes a form, and json= any JSON"
        elif hasattr(source, "__await__"):
            hint = "; await it"
        raise TypeError(
            "a body is bytes, str, a binary file, an iterable or async iterable of bytes,"
            f" or a callable that returns one of these, not {type(source).__name__}{hint}"
        )
    return kind(source, length)


def _find_body_class(source: object) -> Callable[..., StreamBody] | None:
    if isinstance(source, type):  # a class also has the methods of its instances
        return FactoryBody
    if hasattr(source, "__aiter__"):
        return AsyncIterBody
    if hasattr(source, "read"):
        return FileBody
    if hasattr(source, "__iter__") and not isinstance(source, Mapping):
        return IterBody
    return FactoryBody if callable(source) else None


# --- multipart/form-data (RFC 7578) ---

# Patterns are compiled when they are first used, because few programs send files.
_TCHARS = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
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
        fields: (name, value) pairs, sent first; a value that is not bytes is sent as its str().
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
    data = value if isinstance(value, bytes) else str(value).encode()
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
    if not re.fullmatch(_TCHARS, name) or re.search(_BREAKS, text):
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


# --- from the arguments of a request to its body ---

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_to_json = JSONEncoder(allow_nan=False).encode  # json.dumps(allow_nan=False) makes one per call
_FORMS = (dict, list, tuple, Mapping)  # in this order, because an ABC is slow to check


def encode_body(
    *,
    content: ContentInput | None = None,
    data: DataInput | None = None,
    json: JSONInput = None,
    files: FilesInput | None = None,
    length: int | None = None,
    encode: Callable[[JSONInput], bytes] | None = None,
    content_type: str | None = None,
) -> Body | None:
    """Return the body for a request's arguments of the same names, by requests' rules; or None.

    Args:
        content: sent as it is, see open_body(); without Content-Type.
        data: a mapping or list of pairs is sent as a form, anything else like content.
        json: any value but None.
        files: a mapping or list of pairs (field name, file), see make_form; the fields of data are
            sent first.
        length: bytes of a streamed body whose size cannot be determined.
        encode: returns the JSON of a value, None for Python's json.
        content_type: that the caller set for the request, for the boundary of files.

    Raises:
        TypeError: content or json together with another argument, or a value that cannot be a body.
        ValueError: data is a string together with files.
        InvalidJSONError: json holds NaN, an infinity, or itself.
        InvalidHeader: `length` is wrong, or a content type, its boundary or a header of a file
            would break the message.
    """
    if json is not None and (files or not _is_empty(data)):
        raise TypeError(
            f"a request has one body: json cannot be combined with {'files' if files else 'data'}"
        )
    if content is None and not files:
        if data is not None and not _is_empty(data):
            return _make_data_body(data, length)
        return None if json is None else BytesBody(encode_json(json, encode), _JSON)
    if content is not None:
        if files or json is not None or not _is_empty(data):
            raise TypeError("content cannot be combined with data, files or json")
        return open_body(content, length)
    if not hasattr(files, "__iter__"):
        kind = type(files).__name__
        raise TypeError(f'files are a mapping or pairs, not {kind}: {{"field": open(path, "rb")}}')
    fields, parts = _get_file_fields(data), pairs(cast("FormInput", files))
    return make_form(fields, parts, length, content_type=content_type)


def encode_json(value: JSONInput, encode: Callable[[JSONInput], bytes] | None) -> bytes:
    """Return the JSON of a value.

    Args:
        value: any value, also None.
        encode: the user's function, None for Python's json.

    Raises:
        InvalidJSONError: the value holds NaN, an infinity, or itself.
        TypeError: JSON cannot express the value.
    """
    try:
        return _to_json(value).encode() if encode is None else encode(value)
    except ValueError as error:
        raise InvalidJSONError(str(error)) from error
    except TypeError as error:
        if encode is not None:  # an error of the user's function
            raise
        raise TypeError(
            f"json: {error}; convert it, or create the client with json=curlhttp.JSON(dumps=...), "
            "a function that can"
        ) from None


def _make_data_body(data: DataInput, length: int | None) -> Body:
    if isinstance(data, _FORMS):
        form = encode_fields("data", cast("FormInput", data))
        return BytesBody(form.encode("ascii"), _FORM)
    return open_body(data, length)


def _is_empty(data: object) -> bool:
    return data is None or (not data and isinstance(data, (*WHOLE, *_FORMS)))


def _get_file_fields(data: DataInput | None) -> Iterable[tuple[object, object]]:
    """Return the fields that are sent before the files."""
    if isinstance(data, WHOLE):
        raise ValueError("data must not be a string when there are files")
    if data is not None and not isinstance(data, _FORMS):
        raise NotImplementedError("a streamed body and files are mutually exclusive")
    return get_fields("data", cast("FormInput", data or ()))
