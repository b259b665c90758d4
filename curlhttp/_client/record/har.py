"""HAR 1.2: exchanges as entries of a log, and a file of them.

What is ours in an entry begins with "_", as the format has it for additions.

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

from curlhttp._models.body_redaction import Redactor
from curlhttp._models.decoding import decode_readable, parse_codings
from curlhttp._models.headers import Headers
from curlhttp._models.request import Request
from curlhttp._models.response import Head
from curlhttp._models.timings import NO_TIME, Timings
from curlhttp._version import __version__

_WORDS = re.compile(r"[^\s&;=,:\"'/?#@(){}\[\]<>]{4,}").findall

# Any: what JSON gives and takes; what is used of a file is checked first.
JSONObject: TypeAlias = "dict[str, Any]"


@dataclass
class RecordedResponse:
    """What came back.

    Attributes:
        head: as received.
        content: the body.
        is_decoded: its content coding was undone.
        pieces: how many bytes each piece of a stream had; () for none.
        is_whole: the body came to its end.
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
        number: in the order in which they began.
        request: what was sent.
        body: of it.
        begun: seconds since the epoch.
        timings: up to the head.
        receive: seconds from there to the end of the body.
        answer: what came back, or None.
        error: what ended it, or None.
        origin: the number of the client's request that it is an attempt of, or None.
        hedge: "won" or "lost" if there were several attempts at once, or "".
        is_cached: the response is from the client's cache, and nothing was sent.
    """

    number: int
    request: Request
    body: bytes
    begun: float
    timings: Timings | None
    receive: float
    answer: RecordedResponse | None
    error: str | None = None
    origin: int | None = None
    hedge: str = ""
    is_cached: bool = False

    def entry(self, masks: Redactor) -> JSONObject:
        """Return it as an entry of a log, without its secrets."""
        timings = self.timings or NO_TIME
        spent = _phases(timings, self.receive)
        answer = self.answer
        version = answer.head.http_version if answer is not None else "HTTP/1.1"
        entry = {
            "startedDateTime": _time(self.begun),
            "time": round(sum(max(0.0, spent[name]) for name in spent if name != "ssl"), 3),
            "request": _request(self.request, self.body, version, masks),
            "response": _no_response() if answer is None else _response(answer, masks),
            "cache": {},
            "timings": spent,
            "_resourceType": "fetch",  # or browsers take answers in JSON for scripts
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
            entry["_error"] = self._shown_error(self.error, masks)
        return entry

    def _shown_error(self, error: str, masks: Redactor) -> str:
        """Return what was said of it without the secrets of the request, whatever their names."""
        request, text = self.request, self.body.decode("utf-8", "replace")
        fields = request.read_headers().multi_items()
        sent = [str(request.url), text, *(value for _, value in fields), *map(_basic, fields)]
        url, masked = masks.url(request.url), masks.headers(request.read_headers())
        body = masks.body(self.body, request.get_header("content-type") or "")
        shown = [url, body.decode("utf-8", "replace"), *(value for _, value in masked)]
        secret = {*_words(" ".join(sent))} - {*_words(" ".join(shown))}
        said = masks.words(error)
        for word in sorted(secret, key=len, reverse=True):
            said = said.replace(word, "***")
        return said


def _words(text: str) -> list[str]:
    return _WORDS(text) + _WORDS(unquote_plus(text))


def _basic(field: tuple[str, str]) -> str:
    """Return the name and the password that are in a field, or ""."""
    if not field[1].lower().startswith("basic "):
        return ""
    try:
        return base64.b64decode(field[1][6:]).decode("utf-8", "replace")
    except ValueError:
        return ""


def _time(wall: float) -> str:
    found = datetime.fromtimestamp(wall, timezone.utc).isoformat(timespec="milliseconds")
    return found.replace("+00:00", "Z")


def _phases(timings: Timings, receive: float) -> dict[str, float]:
    """Return milliseconds by phase; -1 for those that there were not."""
    wait = timings.first_byte - timings.dns - timings.connect - timings.tls
    # The format counts TLS as a part of connecting, and names it once more by itself.
    phases: dict[str, float | None] = {
        "blocked": timings.queue,
        "dns": None if timings.reused else timings.dns,
        "connect": None if timings.reused else timings.connect + timings.tls,
        "send": 0.0,  # libcurl does not tell it from the wait
        "wait": max(0.0, wait),
        "receive": max(0.0, receive),
        "ssl": timings.tls or None,
    }
    return {
        name: -1 if seconds is None else round(seconds * 1000, 3)
        for name, seconds in phases.items()
    }


def _fields(pairs: Sequence[tuple[str, str]]) -> list[JSONObject]:
    return [{"name": name, "value": value} for name, value in pairs]


def _cookies(crumbs: Sequence[str]) -> list[JSONObject]:
    split = [crumb.partition("=") for crumb in crumbs]
    return _fields([(name, value) for name, _, value in split])


def _request(request: Request, body: bytes, version: str, masks: Redactor) -> JSONObject:
    url = masks.url(request.url)
    headers = masks.headers(request.headers)
    sent = [value for name, value in headers if name.lower() == "cookie"]
    found: JSONObject = {
        "method": request.method,
        "url": url,
        "httpVersion": version,
        "cookies": _cookies([crumb for value in sent for crumb in value.split("; ")]),
        "headers": _fields(headers),
        "queryString": _fields(parse_qsl(urlsplit(url).query, keep_blank_values=True)),
        "headersSize": -1,
        "bodySize": len(body),
    }
    if body:
        media_type = request.get_header("content-type") or ""
        plain = decode_readable(body, request.read_headers().get_list("content-encoding"))
        text, encoding = _as_text(masks.body(plain, media_type))
        found["postData"] = {"mimeType": media_type, "text": text}
        if plain is not body:
            found["postData"]["_decoded"] = True
        if encoding:
            found["postData"]["_encoding"] = encoding
    return found


def _response(answer: RecordedResponse, masks: Redactor) -> JSONObject:
    head = answer.head
    received = Headers.from_block(head.block)
    headers = masks.headers(received)
    location = [value for name, value in headers if name.lower() == "location"]
    set_cookies = [value for name, value in headers if name.lower() == "set-cookie"]
    is_coded = answer.is_decoded and "content-encoding" in received
    return {
        "status": head.status_code,
        "statusText": head.reason_phrase,
        "httpVersion": head.http_version,
        "cookies": _cookies([value.partition(";")[0] for value in set_cookies]),
        "headers": _fields(headers),
        "content": _content(answer, received, masks),
        "redirectURL": location[-1] if location else "",
        "headersSize": len(head.block),
        "bodySize": -1 if is_coded else len(answer.content),
    }


def _content(answer: RecordedResponse, headers: Headers, masks: Redactor) -> JSONObject:
    media_type = headers.get("content-type", "")
    content, coded = answer.content, headers.get_list("content-encoding")
    plain: bytes | None = content
    if content and not (
        answer.is_decoded and parse_codings(coded)
    ):  # of unknown ones none is undone
        plain = decode_readable(content, coded, may_be_cut=not answer.is_whole)
    masked = masks.body(plain, media_type)
    text, encoding = _as_text(masked)
    size = len(content if plain is None else plain)
    found: JSONObject = {"size": size, "mimeType": media_type, "text": text}
    if encoding:
        found["encoding"] = encoding
    if plain is None:  # corrupt, or of an unknown coding
        found["_coded"] = True
    if not answer.is_whole:
        found["_cut"] = True
    if len(answer.pieces) > 1 and sum(answer.pieces) == len(masked):
        found["_pieces"] = list(answer.pieces)
    return found


def _no_response() -> JSONObject:
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


def _as_text(data: bytes) -> tuple[str, str]:
    """Return bytes as text, and the encoding that it needs, or ""."""
    try:
        return data.decode(), ""
    except UnicodeDecodeError:
        return base64.b64encode(data).decode(), "base64"


def empty_log() -> JSONObject:
    """Return a log without entries."""
    return {
        "version": "1.2",
        "creator": {"name": "curlhttp", "version": __version__},
        "entries": [],
    }


def write_log(path: Path, log: JSONObject) -> None:
    """Put a file in the place of what is there, in one step; make its folder.

    Raises:
        OSError: it cannot be written; what was there is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        # libcurl's own words, in an error, may be no text: what is none of them is replaced.
        with part.open("w", encoding="utf-8", errors="replace") as file:
            json.dump({"log": log}, file, ensure_ascii=False, indent=2)
            file.write("\n")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


# --- Read a HAR 1.2, whoever has written it, and say where it is wrong ---

T = TypeVar("T")


@dataclass
class PlaybackEntry:
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


def read_log(path: Path) -> tuple[JSONObject, list[PlaybackEntry]]:
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

    def entry(self, entry: object, place: str) -> PlaybackEntry | None:
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
        return PlaybackEntry(
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
