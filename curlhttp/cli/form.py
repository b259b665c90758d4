"""The multipart form of -F and --form-string, with the syntax and the result of curl.

A field is NAME=TEXT, NAME=<FILE, NAME=@FILE[,FILE...], or NAME=( and =) around the parts of a
nested form. The parameters ;type=, ;filename=, ;headers= and ;encoder= may follow TEXT and FILE.
Both are quoted if they contain a semicolon or, for files, a comma. What curl sends in part, or with
broken headers, is an error here. No message shows a value, because it may be a secret.
"""

from __future__ import annotations

import binascii
import functools
import os
import re
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import click

from curlhttp._http.body import Body, BytesBody, open_body
from curlhttp._http.multipart import MultipartBody
from curlhttp.cli.errors import reading
from curlhttp.cli.files import encode_text, open_file
from curlhttp.cli.terminal import printable

_FORM = "multipart/form-data"
# curl guesses no other types, so that the same command sends the same form on each machine.
_TYPES = {
    ".gif": "image/gif",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".htm": "text/html",
    ".html": "text/html",
    ".pdf": "application/pdf",
    ".xml": "application/xml",
}
_TYPE_OF_FILES = "application/octet-stream"

_MIXED = "multipart/mixed"
_PIECE = 64 * 1024  # bytes

_BLANKS = " \t\n\r\v\f"
_match_quoted = re.compile(r'"((?:\\[\\"]|[^"\\]|\\(?![\\"]))*)"').match
_match_parameter = re.compile(f"(type|filename|headers|encoder)=[{_BLANKS}]*", re.IGNORECASE).match
_match_header = re.compile(r"[^\s:]+:[^\r\n]*").fullmatch
# WHATWG HTML, "multipart/form-data encoding algorithm".
_ESCAPES = str.maketrans({'"': "%22", "\r": "%0D", "\n": "%0A"})


class _FormPart(NamedTuple):
    """A part of a form.

    Attributes:
        content: its data, or the parts of a nested form.
        path: of the file on disk that it sends.
    """

    name: str | None
    content: Body | list[_FormPart]
    path: str | None = None
    filename: str | None = None
    media_type: str | None = None
    headers: tuple[str, ...] = ()
    encoder: str | None = None


def make_form(
    fields: Iterable[tuple[str, bool]], files: ExitStack, *, media_type: str | None, escapes: bool
) -> MultipartBody:
    """Return the form that fields describe.

    Args:
        fields: the values of -F and --form-string, in their order, and whether each is one of
            --form-string, in which no character has a meaning.
        files: closes the files that this function opens.
        media_type: the Content-Type that was given with -H, whose boundary is used if it has one.
        escapes: write backslashes before quotation marks in names, instead of %22.

    Raises:
        click.UsageError: a field is malformed.
        CommandFailed: a file cannot be read.
    """
    top: list[_FormPart] = []
    levels = [top]
    for text, is_literal in fields:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"{'--form-string' if is_literal else '-F'} needs NAME=VALUE")
        if is_literal:
            levels[-1].append(_FormPart(name or None, BytesBody(encode_text(value))))
        elif value == ")" and not name:
            if len(levels) == 1:
                raise click.UsageError("-F '=)' ends a nested form, but none was begun")
            levels.pop()
        else:
            part = _FieldParser(name, value, files).parse()
            levels[-1].append(part)
            if value.startswith("(") and isinstance(part.content, list):
                levels.append(part.content)
    return _join(top, media_type or _FORM, escapes)


# --- from text to parts ---


class _FieldParser:
    """Parse the value of one -F from left to right."""

    def __init__(self, name: str, value: str, files: ExitStack) -> None:
        self._name = name or None
        self._text = value
        self._at = 0
        self._files = files

    def parse(self) -> _FormPart:
        """Return the part: one that contains others for several files, or for a nested form."""
        kind = self._text[:1]
        if kind not in ("@", "<", "("):
            text, part = self._parse_words(_FormPart(self._name, []))
            return self._encode(part._replace(content=BytesBody(encode_text(text))))
        self._at = 1
        if kind == "(":
            return self._parse_words(_FormPart(self._name, []), without=("filename", "encoder"))[1]
        if kind == "<":
            return self._parse_file(_FormPart(self._name, []), without=("filename",))
        parts = [self._parse_file(_FormPart(self._name, []), ends=",")]
        while self._take(","):
            parts.append(self._parse_file(_FormPart(self._name, []), ends=","))
        if len(parts) == 1:
            return parts[0]
        return _FormPart(self._name, [part._replace(name=None) for part in parts])

    def _parse_file(
        self, part: _FormPart, ends: str = "", without: tuple[str, ...] = ()
    ) -> _FormPart:
        path, part = self._parse_words(part, ends, without)
        if part.filename is None and "filename" not in without:
            part = part._replace(filename=Path(path).name)
        file = open_file(path, self._files)
        body = open_body(file)
        if path == "-" and body.length is None:  # a pipe, which curl reads to its end, too
            with reading(path):
                body = BytesBody(file.read())
        return self._encode(part._replace(content=body, path=None if path == "-" else path))

    def _parse_words(
        self, part: _FormPart, ends: str = "", without: tuple[str, ...] = ()
    ) -> tuple[str, _FormPart]:
        """Return the text or path, and the part with the parameters that follow.

        Args:
            part: the part.
            ends: characters that end a word, besides the semicolon.
            without: parameters that have no effect here.
        """
        word = self._parse_word(ends)
        while self._take(";"):
            self._skip_blanks()
            match = _match_parameter(self._text, self._at)
            if match is None:
                if self._parse_word(ends):
                    self._warn("the text after a semicolon is left out; to send it, put the value "
                               "in quotation marks, or use --form-string")  # fmt: skip
                continue
            self._at = match.end()
            key = match[1].lower()
            if key == "type":
                part = part._replace(media_type=self._parse_media_type(ends))
            elif key == "headers":
                part = part._replace(headers=(*part.headers, *self._parse_headers(ends)))
            else:
                value = self._parse_word(ends)
                if key in without:
                    self._warn(f"{key}= has no effect here")
                elif key == "encoder":
                    part = part._replace(encoder=value)
                else:
                    part = part._replace(filename=value)
        return word, part

    def _parse_word(self, ends: str) -> str:
        """Return the text up to a separator, without blanks or quotation marks around it."""
        self._skip_blanks()
        quoted = _match_quoted(self._text, self._at)
        start = self._at if quoted is None else quoted.end()
        match = re.compile(f"[^;{ends}]*").match(self._text, start)
        assert match is not None  # it may be empty
        self._at = match.end()
        rest = match[0].rstrip(_BLANKS)
        if quoted is None:
            return rest
        if rest:
            self._warn("the text after the quotation mark is left out")
        return re.sub(r'\\([\\"])', r"\1", quoted[1])

    def _parse_media_type(self, ends: str) -> str:
        """Return the media type with its parameters, which are not those of -F."""
        known = f"[{_BLANKS}]*(?:filename|headers|encoder)="
        pattern = rf"[^/ ]+/[^;, \n]+[^;{ends}]*(?:;(?!{known})[^;{ends}]*)*"
        match = re.compile(pattern, re.IGNORECASE).match(self._text, self._at)
        if match is None or not match[0].isprintable():
            raise self._make_error("type= needs a media type such as text/plain")
        self._at = match.end()
        return match[0].rstrip(_BLANKS)

    def _parse_headers(self, ends: str) -> list[str]:
        """Return the header of headers=, or those in the file of headers=@FILE."""
        if not (self._take("@") or self._take("<")):
            lines = [self._parse_word(ends)]
        else:
            path = self._parse_word(ends)
            with reading(path), ExitStack() as files:
                text = open_file(path, files).read().decode("utf-8", "surrogateescape")
            unfolded = re.sub(r"\n(?=[ \t])", "", text.replace("\r", ""))
            lines = [line.rstrip(_BLANKS) for line in unfolded.split("\n") if line[:1] != "#"]
            lines = [line for line in lines if line]
        if not all(map(_match_header, lines)):
            raise self._make_error("headers= needs a header such as 'X-Name: value', or @FILE")
        return lines

    def _encode(self, part: _FormPart) -> _FormPart:
        if part.encoder is None:
            return part
        name = part.encoder.lower()
        if name not in _ENCODERS:
            raise self._make_error(f"encoder= needs one of {', '.join(_ENCODERS)}")
        encode = _ENCODERS[name]
        if encode is not None and isinstance(part.content, Body):
            data = b"".join(iter(functools.partial(part.content.read, _PIECE), b""))
            try:
                part = part._replace(content=BytesBody(encode(data)))
            except ValueError as error:
                raise self._make_error(str(error)) from None
        return part._replace(encoder=name)

    def _skip_blanks(self) -> None:
        while self._text[self._at : self._at + 1] in (*_BLANKS,):
            self._at += 1

    def _take(self, character: str) -> bool:
        """Return whether this character is next, and skip it."""
        is_next = self._text[self._at : self._at + 1] == character
        self._at += is_next
        return is_next

    def _make_error(self, what: str) -> click.UsageError:
        return click.UsageError(f"-F {self._name or ''}=...: {what}")

    def _warn(self, what: str) -> None:
        click.echo(f"curlhttp: -F {printable(self._name or '')}=...: {what}", err=True)


# --- the encoders ---


def _check_seven_bits(data: bytes) -> bytes:
    if not data.isascii():
        raise ValueError("the data has bytes that are not 7-bit")
    return data


def _encode_base64(data: bytes) -> bytes:
    size = 57  # bytes in a line of 76 characters
    lines = [binascii.b2a_base64(data[at : at + size]) for at in range(0, len(data), size)]
    return b"".join(lines).replace(b"\n", b"\r\n").removesuffix(b"\r\n")


def _encode_quoted(data: bytes) -> bytes:
    """Return data as quoted-printable (RFC 2045, section 6.7). Only CRLF is a line break."""
    lines = []
    for line in data.split(b"\r\n"):
        # A blank is encoded at the end of a line only.
        words = [
            bytes([byte]) if byte in _PRINTABLE or (byte in b" \t" and at < len(line) - 1)
            else f"={byte:02X}".encode()
            for at, byte in enumerate(line)
        ]  # fmt: skip
        room = _LONGEST_LINE
        for at, word in enumerate(words):
            # One more must fit: the sign that the line goes on, unless this is its end.
            if len(word) + (at < len(words) - 1) > room:
                words[at] = b"=\r\n" + word
                room = _LONGEST_LINE
            room -= len(word)
        lines.append(b"".join(words))
    return b"\r\n".join(lines)


_PRINTABLE = frozenset(range(33, 127)) - {ord("=")}
_LONGEST_LINE = 76
_ENCODERS: dict[str, Callable[[bytes], bytes] | None] = {
    "binary": None,
    "8bit": None,
    "7bit": _check_seven_bits,
    "base64": _encode_base64,
    "quoted-printable": _encode_quoted,
}


# --- from parts to a body ---


def _join(parts: list[_FormPart], media_type: str, escapes: bool) -> MultipartBody:
    """Return a multipart body with a Content-Type, which gets a boundary if it has none."""
    is_form = re.match(rf"{_FORM}(?![^\s;])", media_type, re.IGNORECASE)
    disposition = "form-data" if is_form else None
    bodies = []
    for part in parts:
        content = part.content
        if isinstance(content, list):
            content = _join(content, _get_media_type(part) or _MIXED, escapes)
            part = part._replace(media_type=content.content_type)
        bodies.append((_make_head(part, disposition, escapes), content))
    try:
        return MultipartBody(bodies, media_type)
    except ValueError as error:  # about a boundary that was given with -H
        raise click.UsageError(str(error)) from None


def _make_head(part: _FormPart, disposition: str | None, escapes: bool) -> bytes:
    """Return the headers of a part, and the empty line after them."""
    lines = [line for line in part.headers if not line.lower().startswith("content-type:")]
    if part.encoder is not None:
        lines.insert(0, f"Content-Transfer-Encoding: {part.encoder}")
    media_type = _get_media_type(part) or _guess_media_type(part)
    if media_type is not None:
        lines.insert(0, f"Content-Type: {media_type}")
    names = [("name", part.name), ("filename", part.filename)]
    given = [f'; {key}="{_escape(value, escapes)}"' for key, value in names if value is not None]
    if disposition is None and given:
        disposition = "attachment"
    is_set = any(line.lower().startswith("content-disposition:") for line in lines)
    if disposition is not None and not is_set:
        lines.insert(0, f"Content-Disposition: {disposition}{''.join(given)}")
    return encode_text("".join(f"{line}\r\n" for line in [*lines, ""]))


def _get_media_type(part: _FormPart) -> str | None:
    """Return the type of ;type=, or else that of ;headers=."""
    if part.media_type is not None:
        return part.media_type
    for line in part.headers:
        name, _, value = line.partition(":")
        if name.lower() == "content-type":
            return value.strip()
    return None


def _guess_media_type(part: _FormPart) -> str | None:
    for path in (part.filename, part.path):
        suffix = os.path.splitext(path or "")[1].lower()
        if suffix in _TYPES:
            # It is the default of a form's fields (RFC 7578, section 4.4).
            is_default = _TYPES[suffix] == "text/plain" and part.filename is None
            return None if is_default else _TYPES[suffix]
    return None if part.path is None or part.filename is None else _TYPE_OF_FILES


def _escape(name: str, escapes: bool) -> str:
    if escapes:
        return name.translate({**_ESCAPES, ord("\\"): "\\\\", ord('"'): '\\"'})
    return name.translate(_ESCAPES)
