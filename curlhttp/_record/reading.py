"""Read a HAR 1.2, whoever has written it, and say where it is wrong."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from curlhttp._models.decoding import decode_readable
from curlhttp._models.response import Head
from curlhttp._record.har import JSONObject

__all__ = ["Played", "read_log"]

T = TypeVar("T")


@dataclass
class Played:
    """An entry that can be played back.

    Attributes:
        place: in the log, for messages.
        method: of the request.
        url: with its secrets masked.
        media_type: of the request's body.
        body: of the request.
        head: of the response.
        pieces: of its body.
    """

    place: str
    method: str
    url: str
    media_type: str
    body: bytes
    head: Head
    pieces: list[bytes]


def read_log(path: Path) -> tuple[JSONObject, list[Played]]:
    """Return the log of a file as it is, and those of its entries that have a response.

    Raises:
        ValueError: it is no HAR 1.2; says which file, and where.
        OSError: it cannot be read.
    """
    try:
        whole = json.loads(path.read_bytes().decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise ValueError(f"{path}: {place}: no JSON: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"{path}: no JSON: {error}") from None
    reader = _Reader(path)
    log: JSONObject = reader.get(reader.typed(whole, dict, ""), "log", dict, "")
    version = reader.get(log, "version", str, "log")
    if version != "1.2":
        raise reader.wrong("log.version", f"it is {version!r:.50}; only HAR 1.2 can be read")
    entries = reader.get(log, "entries", list, "log")
    found = [reader.entry(entry, f"log.entries[{n}]") for n, entry in enumerate(entries)]
    return log, [played for played in found if played is not None]


class _Reader:
    """Read what may be anything, and say where it is wrong."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def wrong(self, place: str, what: str) -> ValueError:
        """Return the error for a place."""
        return ValueError(f"{self._path}: {place or 'the file'}: {what}")

    def typed(self, value: object, kind: type[T], place: str) -> T:
        """Return a value of the type that it must have."""
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise self.wrong(place, f"this is {type(value).__name__}, not {kind.__name__}")
        return value

    def get(self, found: JSONObject, name: str, kind: type[T], place: str) -> T:
        """Return a member of an object, of the type that it must have."""
        place = f"{place}.{name}" if place else name
        if name not in found:
            raise self.wrong(place, "it is missing")
        return self.typed(found[name], kind, place)

    def entry(self, entry: object, place: str) -> Played | None:
        """Return an entry that can be played back, or None if it has no response."""
        known = self.typed(entry, dict, place)
        request = self.get(known, "request", dict, place)
        response = self.get(known, "response", dict, place)
        status = self.get(response, "status", int, f"{place}.response")
        if status == 0:  # nothing came back: that is how the format says so
            return None
        if not 100 <= status <= 999:
            raise self.wrong(f"{place}.response.status", f"{status} is no status")
        media_type, body = self._body(request, f"{place}.request")
        return Played(
            place,
            self.get(request, "method", str, f"{place}.request"),
            self.get(request, "url", str, f"{place}.request").partition("#")[0],
            media_type,
            body,
            *self._answer(response, status, f"{place}.response"),
        )

    def _body(self, request: JSONObject, place: str) -> tuple[str, bytes]:
        if request.get("postData") is None:
            return "", b""
        data = self.get(request, "postData", dict, place)
        place = f"{place}.postData"
        text = self.get(data, "text", str, place) if "text" in data else ""
        body = self._bytes(text, data.get("_encoding"), f"{place}.text")
        if not data.get("_decoded"):
            plain = decode_readable(body, _codings(request))
            body = body if plain is None else plain
        return self.get(data, "mimeType", str, place), body

    def _bytes(self, text: str, encoding: object, place: str) -> bytes:
        if encoding != "base64":
            return text.encode("utf-8", "surrogatepass")
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.wrong(place, f"no base64: {error}") from None

    def _answer(self, response: JSONObject, status: int, place: str) -> tuple[Head, list[bytes]]:
        content = self.get(response, "content", dict, place)
        text = self.get(content, "text", str, f"{place}.content") if "text" in content else ""
        body = self._bytes(text, content.get("encoding"), f"{place}.content.text")
        fields = self._headers(response, place)
        if body:
            fields = _fitting(fields, len(body), is_coded=bool(content.get("_coded")))
        version = _version(self.get(response, "httpVersion", str, place))
        # As libcurl writes it: HTTP/2 and 3 have no reason.
        reason = response.get("statusText", "") if version.startswith("HTTP/1") else ""
        line = f"{version} {status} {self._line(reason, f'{place}.statusText')}"
        lines = [line, *(f"{name}: {value}" for name, value in fields), "", ""]
        head = Head("\r\n".join(lines).encode("latin-1", "replace"))
        return head, self._pieces(content, body, f"{place}.content")

    def _headers(self, response: JSONObject, place: str) -> list[tuple[str, str]]:
        found = []
        for number, field in enumerate(self.get(response, "headers", list, place)):
            here = f"{place}.headers[{number}]"
            known = self.typed(field, dict, here)
            name, value = (self.get(known, key, str, here) for key in ("name", "value"))
            if not name.startswith(":"):  # browsers write what HTTP/2 has in place of a status line
                found.append((self._line(name, here), self._line(value, here)))
        return found

    def _line(self, text: object, place: str) -> str:
        known = self.typed(text, str, place)
        if "\n" in known:  # it would end the line of the head
            raise self.wrong(place, "it has a line end")
        return known

    def _pieces(self, content: JSONObject, body: bytes, place: str) -> list[bytes]:
        sizes = content.get("_pieces")
        if sizes is None:
            return [body] if body else []
        found, at = [], 0
        for size in self.typed(sizes, list, f"{place}._pieces"):
            if self.typed(size, int, f"{place}._pieces") < 1:
                raise self.wrong(f"{place}._pieces", f"{size} is no size")
            found.append(body[at : at + size])
            at += size
        if at != len(body):
            raise self.wrong(f"{place}._pieces", f"they have {at} bytes, the body {len(body)}")
        return found


def _codings(request: JSONObject) -> list[str]:
    """Return the values of Content-Encoding in the headers of a request, if it has some."""
    fields = request.get("headers")
    return [
        str(field.get("value"))
        for field in (fields if isinstance(fields, list) else [])
        if isinstance(field, dict) and str(field.get("name")).lower() == "content-encoding"
    ]


def _fitting(fields: list[tuple[str, str]], size: int, *, is_coded: bool) -> list[tuple[str, str]]:
    """Return the fields of a response as they are true of the body that is recorded."""
    found = []
    for name, value in fields:
        if name.lower() == "content-length":
            value = str(size)  # that of the coded body, of all of it, or with what is masked
        if is_coded or name.lower() != "content-encoding":
            found.append((name, value))
    return found


def _version(name: str) -> str:
    """Return a version of HTTP as heads have it; browsers write others."""
    known = name.upper()
    if known in {"HTTP/2", "HTTP/2.0", "H2"}:
        return "HTTP/2"
    if known in {"HTTP/3", "HTTP/3.0", "H3"}:
        return "HTTP/3"
    return "HTTP/1.0" if known == "HTTP/1.0" else "HTTP/1.1"
