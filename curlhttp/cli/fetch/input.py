"""Read the list to fetch: one URL or JSON object per line."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

from curlhttp._features.typed_urls import complete_url
from curlhttp.cli.errors import READ_ERROR, CommandFailed

_BOM = b"\xef\xbb\xbf"
_FIELDS = {"url", "method", "headers", "body", "body_base64", "json", "id"}
_BODIES = {"body", "body_base64", "json"}
_MAX_LINE = 64 * 1024 * 1024  # bytes
_USERINFO = re.compile(r"//[^\s/?#\"]*@")


class InvalidLine(ValueError):
    """The line is not a request. The message shows only its field names, not its values."""


class InputLine(NamedTuple):
    """One request of the list.

    Attributes:
        number: the number of the line, starting at 1. Lines without a request count as well.
        fingerprint: a checksum of the request without its headers and credentials, which may change
            between runs. 0 if the line is invalid.
        url: the URL, as in the line.
        options: further arguments of build_request(), such as "method".
        id: the "id" of the line, or None.
        problem: why the line is invalid, or "".
    """

    number: int
    fingerprint: int = 0
    url: str = ""
    options: dict[str, Any] = {}  # Any: build_request validates them
    id: str | int | None = None
    problem: str = ""

    @property
    def is_url(self) -> bool:
        """Return whether the request is a URL alone, without a method, headers or a body."""
        options = self.options
        return not (self.problem or options.keys() - {"headers"} or options.get("headers"))


class InputLines:
    """Read a list line by line.

    Args:
        stream: the list, as a binary file.

    Attributes:
        position: the number of bytes read so far.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.position: int = 0

    def __iter__(self) -> Iterator[InputLine]:
        for number, raw in enumerate(iter(self._read, b""), 1):
            if len(raw) > _MAX_LINE:
                self._skip(raw)
                yield InputLine(number, problem=f"longer than {_MAX_LINE} bytes")
                continue
            text = (raw.removeprefix(_BOM) if number == 1 else raw).strip()
            if text and not text.startswith(b"#"):
                try:
                    yield _parse_line(number, text)
                except InvalidLine as error:
                    yield InputLine(number, problem=str(error))

    def _read(self) -> bytes:
        try:
            raw = self._stream.readline(_MAX_LINE + 1)
        except OSError as error:
            raise CommandFailed(f"FILE: {error.strerror or error}", READ_ERROR) from None
        self.position += len(raw)
        return raw

    def _skip(self, raw: bytes) -> None:
        """Read past the rest of a line."""
        while raw and not raw.endswith(b"\n"):
            raw = self._read()


def _parse_line(number: int, raw: bytes) -> InputLine:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise InvalidLine("not UTF-8") from None
    if not text.startswith("{"):
        return InputLine(number, _hash_request(text), complete_url(text))
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidLine(f"not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError):
        raise InvalidLine("a number is too large, or the nesting is too deep") from None
    return _parse_fields(number, fields)


def _parse_fields(number: int, fields: dict[str, Any]) -> InputLine:  # Any: JSON
    unknown = fields.keys() - _FIELDS
    if unknown:
        known = ", ".join(sorted(_FIELDS))
        raise InvalidLine(f"unknown field {min(unknown)[:40]!r}: the fields are {known}")
    url, name = fields.pop("url", None), fields.pop("id", None)
    if not isinstance(url, str):
        raise InvalidLine("no url")
    if not _is_valid_id(name):
        raise InvalidLine("id must be a string or a 64-bit integer")
    headers = fields.pop("headers", {})
    if not isinstance(headers, dict):
        raise InvalidLine("headers must be an object")
    if "json" in fields and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = "application/json"
    request = json.dumps([url, sorted(fields.items())])
    options = {**_parse_options(fields), "headers": headers}
    return InputLine(number, _hash_request(request), complete_url(url), options, name)


def _is_valid_id(name: object) -> bool:
    """Return whether all output formats can store this id."""
    if isinstance(name, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in name)
    return name is None or (isinstance(name, int) and -(2**63) <= name < 2**63)


def _parse_options(fields: dict[str, Any]) -> dict[str, object]:  # Any: JSON
    bodies = fields.keys() & _BODIES
    if len(bodies) > 1:
        raise InvalidLine(f"{' and '.join(sorted(bodies))} cannot be combined")
    options: dict[str, object] = {}
    for name in ("method", "body", "body_base64"):
        if not isinstance(fields.get(name, ""), str):
            raise InvalidLine(f"{name} must be a string")
    if "method" in fields:
        options["method"] = fields["method"]
    if "body" in fields:
        options["content"] = fields["body"].encode("utf-8", "surrogatepass")
    if "body_base64" in fields:
        try:
            options["content"] = base64.b64decode(fields["body_base64"], validate=True)
        except (binascii.Error, ValueError):
            raise InvalidLine("body_base64 is not base64") from None
    if "json" in fields:
        options["content"] = json.dumps(fields["json"]).encode()
    return options


def _hash_request(request: str) -> int:
    """Return a checksum of 30 bits, not 0, to detect an edited line."""
    return crc32(_USERINFO.sub("//", request).encode("utf-8", "surrogatepass")) & 0x3FFFFFFF or 1
