"""The list to fetch: one URL or JSON object a line. A bad line is told by its number."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple
from zlib import crc32

__all__ = ["BadLine", "InputLine", "InputLines"]

_BOM = b"\xef\xbb\xbf"
_FIELDS = {"url", "method", "headers", "body", "body_base64", "json", "id"}
_BODIES = {"body", "body_base64", "json"}
_LONGEST = 64 * 1024 * 1024  # bytes of a line
_USERINFO = re.compile(r"//[^\s/?#\"]*@")


class BadLine(ValueError):
    """Report a line that is no request; the message shows no more of it than names."""


class InputLine(NamedTuple):
    """One request of the list.

    Attributes:
        number: of the line, from 1 on; lines without a request count as well.
        fingerprint: of what is asked for, without headers and credentials, which may change; 0
            if it could not be read.
        url: as in the line.
        options: further arguments of build_request, perhaps with "method".
        id: what the line calls itself, or None.
        problem: why it is a bad line, or "".
    """

    number: int
    fingerprint: int = 0
    url: str = ""
    options: dict[str, Any] = {}  # Any: build_request checks them
    id: str | int | None = None
    problem: str = ""


class InputLines:
    """Read a list line by line.

    Args:
        stream: of bytes.

    Attributes:
        position: how many bytes of it have been read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.position: int = 0

    def __iter__(self) -> Iterator[InputLine]:
        for number, raw in enumerate(iter(self._read, b""), 1):
            if len(raw) > _LONGEST:
                self._skip(raw)
                yield InputLine(number, problem=f"longer than {_LONGEST} bytes")
                continue
            text = (raw.removeprefix(_BOM) if number == 1 else raw).strip()
            if text and not text.startswith(b"#"):
                try:
                    yield _line(number, text)
                except BadLine as error:
                    yield InputLine(number, problem=str(error))

    def _read(self) -> bytes:
        raw = self._stream.readline(_LONGEST + 1)
        self.position += len(raw)
        return raw

    def _skip(self, raw: bytes) -> None:
        """Read on to the end of a line."""
        while raw and not raw.endswith(b"\n"):
            raw = self._read()


def _line(number: int, raw: bytes) -> InputLine:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadLine("not UTF-8") from None
    if not text.startswith("{"):
        return InputLine(number, _fingerprint(text), text)
    try:
        fields = json.loads(text)
    except json.JSONDecodeError as error:
        raise BadLine(f"not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError):
        raise BadLine("a number or a nesting beyond what can be read") from None
    return _from_fields(number, fields)


def _from_fields(number: int, fields: dict[str, Any]) -> InputLine:  # Any: JSON
    unknown = fields.keys() - _FIELDS
    if unknown:
        known = ", ".join(sorted(_FIELDS))
        raise BadLine(f"unknown field {min(unknown)[:40]!r}: there are {known}")
    url, name = fields.pop("url", None), fields.pop("id", None)
    if not isinstance(url, str):
        raise BadLine("no url")
    if not _is_id(name):
        raise BadLine("id must be a string or a number of 64 bits")
    headers = fields.pop("headers", {})
    if not isinstance(headers, dict):
        raise BadLine("headers must be an object")
    if "json" in fields and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = "application/json"
    asked = json.dumps([url, sorted(fields.items())])
    return InputLine(
        number, _fingerprint(asked), url, {**_options(fields), "headers": headers}, name
    )


def _is_id(name: object) -> bool:
    """Return whether a name can be recorded as it is in all kinds of output."""
    if isinstance(name, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in name)
    return name is None or (isinstance(name, int) and -(2**63) <= name < 2**63)


def _options(fields: dict[str, Any]) -> dict[str, object]:  # Any: JSON
    bodies = fields.keys() & _BODIES
    if len(bodies) > 1:
        raise BadLine(f"{' and '.join(sorted(bodies))} exclude each other")
    options: dict[str, object] = {}
    for name in ("method", "body", "body_base64"):
        if not isinstance(fields.get(name, ""), str):
            raise BadLine(f"{name} must be a string")
    if "method" in fields:
        options["method"] = fields["method"]
    if "body" in fields:
        options["content"] = fields["body"].encode("utf-8", "surrogatepass")
    if "body_base64" in fields:
        try:
            options["content"] = base64.b64decode(fields["body_base64"], validate=True)
        except (binascii.Error, ValueError):
            raise BadLine("body_base64 is not base64") from None
    if "json" in fields:
        options["content"] = json.dumps(fields["json"]).encode()
    return options


def _fingerprint(asked: str) -> int:
    """Return 30 bits other than 0: enough to notice an edited line."""
    return crc32(_USERINFO.sub("//", asked).encode("utf-8", "surrogatepass")) & 0x3FFFFFFF or 1
