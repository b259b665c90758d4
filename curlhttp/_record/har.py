"""HAR 1.2: exchanges as entries of a log, and a file of them. They are read in reading.py.

What is ours in an entry begins with "_", as the format has it for additions.

Source: http://www.softwareishard.com/blog/har-12-spec/
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, unquote_plus, urlsplit

from curlhttp._models.decoding import decode_readable, parse_codings
from curlhttp._models.headers import Headers
from curlhttp._models.redactor import Redactor
from curlhttp._models.request import Request
from curlhttp._models.response import Head
from curlhttp._models.timings import NO_TIME, Timings
from curlhttp._version import __version__

__all__ = ["Exchanged", "JSONObject", "Received", "empty_log", "write_log"]

_WORDS = re.compile(r"[^\s&;=,:\"'/?#@(){}\[\]<>]{4,}").findall

# Any: what JSON gives and takes; what is used of a file is looked at first, in reading.py.
JSONObject: TypeAlias = "dict[str, Any]"


@dataclass
class Received:
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
class Exchanged:
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
    """

    number: int
    request: Request
    body: bytes
    begun: float
    timings: Timings | None
    receive: float
    answer: Received | None
    error: str | None = None

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


def _response(answer: Received, masks: Redactor) -> JSONObject:
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


def _content(answer: Received, headers: Headers, masks: Redactor) -> JSONObject:
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
