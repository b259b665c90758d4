"""Write and read HAR 1.2 files: logs whose entries are exchanges.

The names of our own fields begin with "_", as the format requires of custom fields.

Source: http://www.softwareishard.com/blog/har-12-spec/
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from curlhttp._features.rename import rename_over
from curlhttp._http.body_redaction import Redactor
from curlhttp._http.decoding import decode_readable, parse_codings
from curlhttp._http.headers import Headers
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head
from curlhttp._http.timings import NO_TIME, Timings
from curlhttp._version import __version__

_WORDS = re.compile(r"[^\s&;=,:\"'/?#@(){}\[\]<>]{4,}").findall

# Any: JSON values. Values from files are validated before they are used.
JSONObject: TypeAlias = "dict[str, Any]"


@dataclass
class RecordedResponse:
    """The response of an exchange.

    Attributes:
        head: as received.
        content: the body.
        is_decoded: whether the body was decoded.
        pieces: the sizes in bytes of the pieces of a stream; () if it was not streamed.
        is_whole: whether the body is complete.
    """

    head: Head
    content: bytes
    is_decoded: bool
    pieces: Sequence[int] = ()
    is_whole: bool = True


@dataclass
class RecordedExchange:
    """One exchange with a server.

    Attributes:
        number: numbers exchanges in the order in which they began.
        request: the request that was sent.
        body: the body of the request.
        begun: when it began, in seconds since the epoch.
        timings: the timings up to the head of the response, or None.
        receive: seconds from there to the end of the body.
        response: the response, or None.
        error: the text of the error that ended it, or None.
        origin: the number of the client's request that it is an attempt of, or None.
        hedge: "won" or "lost" if there were several attempts at once, or "".
        is_cached: the response is from the client's cache, and nothing was sent.
    """

    number: int
    request: ClientRequest
    body: bytes
    begun: float
    timings: Timings | None
    receive: float
    response: RecordedResponse | None
    error: str | None = None
    origin: int | None = None
    hedge: str = ""
    is_cached: bool = False

    def to_entry(self, redactor: Redactor) -> JSONObject:
        """Return the entry of a log, with secrets masked."""
        timings = self.timings or NO_TIME
        spent = _make_phases(timings, self.receive)
        response = self.response
        version = response.head.http_version if response is not None else "HTTP/1.1"
        recorded = _make_no_response() if response is None else _make_response(response, redactor)
        entry = {
            "startedDateTime": _format_time(self.begun),
            "time": round(sum(max(0.0, spent[name]) for name in spent if name != "ssl"), 3),
            "request": _make_request(self.request, self.body, version, redactor),
            "response": recorded,
            "cache": {},
            "timings": spent,
            "_resourceType": "fetch",  # otherwise browsers show JSON responses as scripts
        }
        if self.origin is not None:
            entry["_request"] = self.origin
        if self.hedge:
            entry["_hedge"] = self.hedge
        if self.is_cached:
            entry["_fromCache"] = "disk"  # as browsers say
        if timings.peer is not None and timings.peer[0]:
            entry["serverIPAddress"] = timings.peer[0]
        if timings.local is not None:
            entry["connection"] = str(timings.local[1])
        if self.error is not None:
            entry["_error"] = self._redact_error(self.error, redactor)
        return entry

    def _redact_error(self, error: str, redactor: Redactor) -> str:
        """Return the text of an error with all secrets of the request masked."""
        request, body_text = self.request, self.body.decode("utf-8", "replace")
        fields = request.read_headers().multi_items()
        sent = [
            str(request.url),
            body_text,
            *(value for _, value in fields),
            *map(_decode_basic, fields),
        ]
        url, masked = redactor.url(request.url), redactor.headers(request.read_headers())
        body = redactor.body(self.body, request.get_header("content-type") or "")
        shown = [url, body.decode("utf-8", "replace"), *(value for _, value in masked)]
        secret = {*_find_words(" ".join(sent))} - {*_find_words(" ".join(shown))}
        text = redactor.words(error)
        for word in sorted(secret, key=len, reverse=True):
            text = text.replace(word, "***")
        return text


def _find_words(text: str) -> list[str]:
    return _WORDS(text) + _WORDS(unquote_plus(text))


def _decode_basic(field: tuple[str, str]) -> str:
    """Return the decoded credentials of a field with Basic authentication, or ""."""
    if not field[1].lower().startswith("basic "):
        return ""
    try:
        return base64.b64decode(field[1][6:]).decode("utf-8", "replace")
    except ValueError:
        return ""


def _format_time(wall: float) -> str:
    found = datetime.fromtimestamp(wall, timezone.utc).isoformat(timespec="milliseconds")
    return found.replace("+00:00", "Z")


def _make_phases(timings: Timings, receive: float) -> dict[str, float]:
    """Return milliseconds by phase; -1 for phases that do not apply."""
    wait = timings.first_byte - timings.dns - timings.connect - timings.tls
    # The format counts TLS as a part of "connect", and repeats it as "ssl".
    phases: dict[str, float | None] = {
        "blocked": timings.queue,
        "dns": None if timings.reused else timings.dns,
        "connect": None if timings.reused else timings.connect + timings.tls,
        "send": 0.0,  # libcurl counts it as a part of the wait
        "wait": max(0.0, wait),
        "receive": max(0.0, receive),
        "ssl": timings.tls or None,
    }
    return {
        name: -1 if seconds is None else round(seconds * 1000, 3)
        for name, seconds in phases.items()
    }


def _to_name_values(pairs: Sequence[tuple[str, str]]) -> list[JSONObject]:
    return [{"name": name, "value": value} for name, value in pairs]


def _make_cookies(crumbs: Sequence[str]) -> list[JSONObject]:
    split = [crumb.partition("=") for crumb in crumbs]
    return _to_name_values([(name, value) for name, _, value in split])


def _make_request(
    request: ClientRequest, body: bytes, version: str, redactor: Redactor
) -> JSONObject:
    url = redactor.url(request.url)
    headers = redactor.headers(request.headers)
    sent = [value for name, value in headers if name.lower() == "cookie"]
    found: JSONObject = {
        "method": request.method,
        "url": url,
        "httpVersion": version,
        "cookies": _make_cookies([crumb for value in sent for crumb in value.split("; ")]),
        "headers": _to_name_values(headers),
        "queryString": _to_name_values(parse_qsl(urlsplit(url).query, keep_blank_values=True)),
        "headersSize": -1,
        "bodySize": len(body),
    }
    if body:
        media_type = request.get_header("content-type") or ""
        plain = decode_readable(body, request.read_headers().get_list("content-encoding"))
        text, encoding = _encode_text(redactor.body(plain, media_type))
        found["postData"] = {"mimeType": media_type, "text": text}
        if plain is not body:
            found["postData"]["_decoded"] = True
        if encoding:
            found["postData"]["_encoding"] = encoding
    return found


def _make_response(response: RecordedResponse, redactor: Redactor) -> JSONObject:
    head = response.head
    received = Headers.from_block(head.block)
    headers = redactor.headers(received)
    location = [value for name, value in headers if name.lower() == "location"]
    set_cookies = [value for name, value in headers if name.lower() == "set-cookie"]
    is_coded = response.is_decoded and "content-encoding" in received
    return {
        "status": head.status_code,
        "statusText": head.reason_phrase,
        "httpVersion": head.http_version,
        "cookies": _make_cookies([value.partition(";")[0] for value in set_cookies]),
        "headers": _to_name_values(headers),
        "content": _make_content(response, received, redactor),
        "redirectURL": location[-1] if location else "",
        "headersSize": len(head.block),
        "bodySize": -1 if is_coded else len(response.content),
    }


def _make_content(response: RecordedResponse, headers: Headers, redactor: Redactor) -> JSONObject:
    media_type = headers.get("content-type", "")
    content, coded = response.content, headers.get_list("content-encoding")
    plain: bytes | None = content
    # The engine decodes nothing if one of the codings is unknown.
    if content and not (response.is_decoded and parse_codings(coded)):
        plain = decode_readable(content, coded, may_be_cut=not response.is_whole)
    masked = redactor.body(plain, media_type)
    text, encoding = _encode_text(masked)
    size = len(content if plain is None else plain)
    found: JSONObject = {"size": size, "mimeType": media_type, "text": text}
    if encoding:
        found["encoding"] = encoding
    if plain is None:  # corrupt, or with an unknown coding
        found["_coded"] = True
    if not response.is_whole:
        found["_cut"] = True
    if len(response.pieces) > 1 and sum(response.pieces) == len(masked):
        found["_pieces"] = list(response.pieces)
    return found


def _make_no_response() -> JSONObject:
    return {
        "status": 0,
        "statusText": "",
        "httpVersion": "",
        "cookies": [],
        "headers": [],
        "content": {"size": 0, "mimeType": ""},
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1,
    }


def _encode_text(data: bytes) -> tuple[str, str]:
    """Return bytes as text, and its encoding: "base64", or "" for UTF-8."""
    try:
        return data.decode(), ""
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"


def make_empty_log() -> JSONObject:
    """Return a log without entries."""
    return {
        "version": "1.2",
        "creator": {"name": "curlhttp", "version": __version__},
        "entries": [],
    }


def write_log(path: Path, log: JSONObject) -> None:
    """Write a file atomically, and create its folder if it is missing.

    Raises:
        OSError: it cannot be written; an existing file is unchanged. The error names the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    is_special = path.exists() and not path.is_file()  # such as /dev/null: not to be replaced
    part = path if is_special else path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        # Error messages of libcurl may contain bytes that are not valid text.
        with part.open("w", encoding="utf-8", errors="replace") as file:
            json.dump({"log": log}, file, ensure_ascii=False, indent=2)
            file.write("\n")
        if not is_special:
            rename_over(part, path)
    except OSError as error:
        if error.errno is not None:
            error.filename = str(path)  # not the temporary file, or none if the disk is full
        raise
    finally:
        if not is_special:
            part.unlink(missing_ok=True)


# --- Read HAR 1.2 files of any program, and report where they are invalid ---

T = TypeVar("T")


@dataclass
class PlaybackEntry:
    """An entry that can be played back.

    Attributes:
        place: where it is in the log, for messages.
        method: the method of the request.
        url: the URL of the request, with secrets masked.
        media_type: the media type of the request's body.
        body: the body of the request.
        head: the head of the response.
        pieces: the pieces of the response's body.
    """

    place: str
    method: str
    url: str
    media_type: str
    body: bytes
    head: Head
    pieces: list[bytes]


def read_log(path: Path) -> tuple[JSONObject, list[PlaybackEntry]]:
    """Return the log of a file, and its entries that have a response.

    Raises:
        ValueError: it is not HAR 1.2; the message names the file and the place.
        OSError: it cannot be read.
    """
    try:
        whole = json.loads(path.read_bytes().decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise ValueError(f"{path}: {place}: not JSON: {error.msg}") from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    reader = _Reader(path)
    log: JSONObject = reader.get(reader.typed(whole, dict, ""), "log", dict, "")
    version = reader.get(log, "version", str, "log")
    if version != "1.2":
        raise reader.make_error("log.version", f"it is {version!r:.50}; only 1.2 can be read")
    entries = reader.get(log, "entries", list, "log")
    found = [reader.entry(entry, f"log.entries[{n}]") for n, entry in enumerate(entries)]
    return log, [played for played in found if played is not None]


class _Reader:
    """Read untrusted JSON values, and report where they are invalid."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make_error(self, place: str, what: str) -> ValueError:
        """Return the error for a place."""
        return ValueError(f"{self._path}: {place or 'the file'}: {what}")

    def typed(self, value: object, kind: type[T], place: str) -> T:
        """Return a value that must be of a type."""
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
            raise self.make_error(place, f"this is {type(value).__name__}, not {kind.__name__}")
        return value

    def get(self, found: JSONObject, name: str, kind: type[T], place: str) -> T:
        """Return a member of an object, which must be of a type."""
        place = f"{place}.{name}" if place else name
        if name not in found:
            raise self.make_error(place, "it is missing")
        return self.typed(found[name], kind, place)

    def entry(self, entry: object, place: str) -> PlaybackEntry | None:
        """Return an entry that can be played back, or None if it has no response."""
        known = self.typed(entry, dict, place)
        request = self.get(known, "request", dict, place)
        response = self.get(known, "response", dict, place)
        status = self.get(response, "status", int, f"{place}.response")
        if status == 0:  # there was no response
            return None
        if not 100 <= status <= 999:
            raise self.make_error(f"{place}.response.status", f"{status} is not a status code")
        media_type, body = self._parse_body(request, f"{place}.request")
        return PlaybackEntry(
            place,
            self.get(request, "method", str, f"{place}.request"),
            self.get(request, "url", str, f"{place}.request").partition("#")[0],
            media_type,
            body,
            *self._parse_response(response, status, f"{place}.response"),
        )

    def _parse_body(self, request: JSONObject, place: str) -> tuple[str, bytes]:
        if request.get("postData") is None:
            return "", b""
        data = self.get(request, "postData", dict, place)
        place = f"{place}.postData"
        text = self.get(data, "text", str, place) if "text" in data else ""
        body = self._decode_text(text, data.get("_encoding"), f"{place}.text")
        if not data.get("_decoded"):
            plain = decode_readable(body, _get_codings(request))
            body = body if plain is None else plain
        return self.get(data, "mimeType", str, place), body

    def _decode_text(self, text: str, encoding: object, place: str) -> bytes:
        if encoding != "base64":
            return text.encode("utf-8", "surrogatepass")
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.make_error(place, f"not base64: {error}") from None

    def _parse_response(
        self, response: JSONObject, status: int, place: str
    ) -> tuple[Head, list[bytes]]:
        content = self.get(response, "content", dict, place)
        text = self.get(content, "text", str, f"{place}.content") if "text" in content else ""
        body = self._decode_text(text, content.get("encoding"), f"{place}.content.text")
        fields = self._parse_headers(response, place)
        if body:
            fields = _adjust_fields(fields, len(body), is_coded=bool(content.get("_coded")))
        version = _version(self.get(response, "httpVersion", str, place))
        # As libcurl writes it: HTTP/2 and HTTP/3 have no reason phrase.
        reason = response.get("statusText", "") if version.startswith("HTTP/1") else ""
        line = f"{version} {status} {self._check_line(reason, f'{place}.statusText')}"
        lines = [line, *(f"{name}: {value}" for name, value in fields), "", ""]
        head = Head("\r\n".join(lines).encode("latin-1", "replace"))
        return head, self._split_body(content, body, f"{place}.content")

    def _parse_headers(self, response: JSONObject, place: str) -> list[tuple[str, str]]:
        found = []
        for number, field in enumerate(self.get(response, "headers", list, place)):
            here = f"{place}.headers[{number}]"
            known = self.typed(field, dict, here)
            name, value = (self.get(known, key, str, here) for key in ("name", "value"))
            if not name.startswith(":"):  # browsers also write the pseudo-headers of HTTP/2
                found.append((self._check_line(name, here), self._check_line(value, here)))
        return found

    def _check_line(self, text: object, place: str) -> str:
        known = self.typed(text, str, place)
        if "\n" in known:  # it would start another line of the head
            raise self.make_error(place, "it contains a line end")
        return known

    def _split_body(self, content: JSONObject, body: bytes, place: str) -> list[bytes]:
        sizes = content.get("_pieces")
        if sizes is None:
            return [body] if body else []
        found, at = [], 0
        for size in self.typed(sizes, list, f"{place}._pieces"):
            if self.typed(size, int, f"{place}._pieces") < 1:
                raise self.make_error(f"{place}._pieces", f"{size} is not a size")
            found.append(body[at : at + size])
            at += size
        if at != len(body):
            raise self.make_error(
                f"{place}._pieces", f"they have {at} bytes, but the body has {len(body)}"
            )
        return found


def _get_codings(request: JSONObject) -> list[str]:
    """Return the values of Content-Encoding in the headers of a request."""
    fields = request.get("headers")
    return [
        str(field.get("value"))
        for field in (fields if isinstance(fields, list) else [])
        if isinstance(field, dict) and str(field.get("name")).lower() == "content-encoding"
    ]


def _adjust_fields(
    fields: list[tuple[str, str]], size: int, *, is_coded: bool
) -> list[tuple[str, str]]:
    """Return the fields of a response, changed to describe the recorded body."""
    found = []
    for name, value in fields:
        if name.lower() == "content-length":
            value = str(size)  # the recorded body may be decoded, incomplete or masked
        if is_coded or name.lower() != "content-encoding":
            found.append((name, value))
    return found


def _version(name: str) -> str:
    """Return the HTTP version as in a status line; browsers write other names."""
    known = name.upper()
    if known in {"HTTP/2", "HTTP/2.0", "H2"}:
        return "HTTP/2"
    if known in {"HTTP/3", "HTTP/3.0", "H3"}:
        return "HTTP/3"
    return "HTTP/1.0" if known == "HTTP/1.0" else "HTTP/1.1"
