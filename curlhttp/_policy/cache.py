"""What a cache may keep and what it may give (RFC 9111, RFC 5861). It keeps and sends nothing.

hishel decides what may be stored and what a 304 changes. What may be used, is decided here, since
hishel knows neither an upstream Age, nor a request's directives, nor RFC 5861, nor another clock.
"""

from __future__ import annotations

import calendar
import hashlib
import re
import uuid
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple
from urllib.parse import urljoin

import hishel

from curlhttp._models.headers import Headers
from curlhttp._models.redaction import is_secret_header
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._models.url import parse_url
from curlhttp.exceptions import RequestException

__all__ = [
    "FOR_EVER",
    "SAFE",
    "CacheLookup",
    "CachePolicy",
    "FreshnessDecision",
    "StoredResponse",
    "age_of",
    "date_of",
    "digest",
    "directives",
    "has_body",
    "head_of",
    "is_sealed",
    "seal",
    "seconds_of",
    "twins",
]


# --- Header fields that a cache reads: directives, dates and ages. No value makes them raise ---
#
# Stricter than hishel, whose parsers take a value that is none for one that is missing: what cannot
# be read makes a response stale.

FOR_EVER = 2**31  # seconds: RFC 9111, section 1.2.2

_DIRECTIVE = re.compile(r'([^\s,;="]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s,"]*))?[^,]*').finditer
_ESCAPED = re.compile(r"\\(.)")
_WHOLE = re.compile(r"[0-9]+").fullmatch

_DAY, _MONTHS = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)", "JanFebMarAprMayJunJulAugSepOctNovDec"
_MONTH, _TIME = f"({'|'.join(re.findall('...', _MONTHS))})", r"(\d\d):(\d\d):(\d\d)"
# RFC 9110, section 5.6.7: the form that is sent today, and the two that were.
_DATE = re.compile(rf"{_DAY}, (\d\d) {_MONTH} (\d{{4}}) {_TIME} GMT", re.IGNORECASE).fullmatch
_OLD_DATE = re.compile(
    rf"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (\d\d)-{_MONTH}-(\d\d) {_TIME} GMT"
).fullmatch
_OLDEST_DATE = re.compile(rf"{_DAY} {_MONTH} ([ \d]\d) {_TIME} (\d{{4}})").fullmatch


def directives(value: str | None) -> dict[str, str]:
    """Return the directives of a Cache-Control by their lower-case names, "" for no value.

    Of one that is there twice the first counts (RFC 9111, section 4.2.1).

    Args:
        value: of the field, all its lines joined, or None.
    """
    found: dict[str, str] = {}
    for match in _DIRECTIVE(value or ""):
        name, argument = match[1].lower(), match[2] or ""
        if argument.startswith('"'):
            argument = _ESCAPED.sub(r"\1", argument[1:-1])
        found.setdefault(name, argument)
    return found


def seconds_of(text: str | None) -> int | None:
    """Return a number of seconds, at most FOR_EVER; None where there is none to be read."""
    if text is None or not _WHOLE(text):
        return None
    return min(int(text), FOR_EVER) if len(text) < 12 else FOR_EVER


def age_of(text: str | None) -> int:
    """Return the seconds that an Age tells of, 0 where it is none (RFC 9111, section 5.1).

    Args:
        text: of the field, all its lines joined; the first counts.
    """
    return seconds_of((text or "").partition(",")[0].strip()) or 0


def date_of(text: str | None, now: float = 0) -> float | None:
    """Return the seconds since the epoch of a date as HTTP has them, or None.

    Args:
        text: of a field.
        now: seconds since the epoch: where a year has two digits, it is not 50 years later.

    Source: RFC 9110, section 5.6.7.
    """
    if not text:
        return None
    if found := _DATE(text):
        day, month, year, *clock = found.groups()
    elif found := _OLD_DATE(text):
        day, month, year, *clock = found.groups()
        this_year = 1970 + int(now // 31556952)
        century = this_year // 100 * 100
        year = str(century + int(year) - (100 if century + int(year) > this_year + 50 else 0))
    elif found := _OLDEST_DATE(text):
        month, day, *clock, year = found.groups()
    else:
        return None
    number = _MONTHS.index(month.title()) // 3 + 1
    hour, minute, second = map(int, clock)
    if not (1 <= int(day) <= 31 and hour < 24 and minute < 60 and second <= 60 and int(year)):
        return None
    return float(calendar.timegm((int(year), number, int(day), hour, minute, second)))


# --- A stored response: its fields, its owner, the requests it answers, and when it was born ---
#
# No URL and no credential is in it: of these it has digests.

# Of a stored response, next to its own fields: no server can send a name with a colon.
BORN = ":born"  # when it would have had an Age of 0, in seconds since the epoch
GUARD, LINE, VARY, WHO = ":guard", ":line", ":vary", ":who"
STORED = ":stored"  # when it was stored or confirmed, in seconds since the epoch
BODY, SEAL = ":body", ":seal"  # digests: of the body, and of all else with that


def twins(entry: hishel.Entry, entries: Iterable[hishel.Entry]) -> list[hishel.Entry]:
    """Return those of some stored responses that answer the same requests as one."""
    about = entry.request.headers
    return [
        other
        for other in entries
        if all(other.request.headers.get(name) == about.get(name) for name in (GUARD, WHO, VARY))
    ]


def head_of(entry: hishel.Entry, age: float, line: str = "") -> bytes:
    """Return the head of a stored response with its Age, as it would be on the wire.

    Args:
        entry: what is stored.
        age: in seconds.
        line: another status line than the stored one.
    """
    headers = entry.response.headers
    lines = [line or entry.request.headers[LINE]]
    lines += [
        f"{name}: {value}"
        for name in headers
        if not name.startswith(":")
        for value in headers.get_list(name) or ()
    ]
    lines += [f"age: {int(age)}", "", ""]
    return "\r\n".join(lines).encode("latin-1", "replace")


def fields_of(headers: Headers) -> hishel.Headers:
    """Return the fields of a response as hishel has them, without names that are our own."""
    grouped: dict[str, str | list[str]] = {}
    for name, value in headers.multi_items():
        if not name.startswith(":"):
            grouped.setdefault(name.lower(), []).append(value)  # type: ignore[union-attr]
    return hishel.Headers(grouped)


def leave_out(headers: hishel.Headers, names: Iterable[str]) -> None:
    """Remove fields, if they are there."""
    for name in names:
        if name in headers:
            del headers[name]


def birth_of(headers: hishel.Headers, began: float, now: float) -> float:
    """Return when a response would have had an Age of 0 (RFC 9111, section 4.2.3)."""
    date = date_of(headers.get("date"), now)
    apparent = 0.0 if date is None else max(0.0, now - date)
    return now - max(apparent, age_of(headers.get("age")) + max(0.0, now - began))


def born_at(entry: hishel.Entry) -> float:
    """Return when a stored response would have had an Age of 0, in seconds since the epoch."""
    return float(entry.response.headers[BORN])


def stored_at(entry: hishel.Entry) -> float:
    """Return when a response was stored or confirmed last, in seconds since the epoch."""
    return float(entry.response.headers[STORED])


def seal(entry: hishel.Entry, key: str, body: bytes | None = None) -> None:
    """Note in a response what tells later whether all of it is there, and as it was.

    Args:
        entry: what is to be stored.
        key: what it is stored under.
        body: of it; None where that stays as it is.
    """
    headers = entry.response.headers
    if body is not None:
        leave_out(headers, (BODY,))
        headers[BODY] = _checksum(body)
    leave_out(headers, (SEAL,))
    headers[SEAL] = _seal_of(entry, key)


def is_sealed(entry: hishel.Entry, key: str) -> bool:
    """Return whether a response is, without its body, what was stored under a key."""
    return entry.response.headers.get(SEAL) == _seal_of(entry, key)


def has_body(entry: hishel.Entry, body: bytes) -> bool:
    """Return whether a body is the one that was stored with a response."""
    return entry.response.headers.get(BODY) == _checksum(body)


def _seal_of(entry: hishel.Entry, key: str) -> str:
    lines = [key, str(entry.response.status_code)]
    for headers in (entry.request.headers, entry.response.headers):
        names = sorted({name.lower() for name in headers} - {SEAL})
        lines += [f"{name}: {list(headers.get_list(name) or ())!r}" for name in names]
        lines.append("")
    return _checksum("\n".join(lines).encode("utf-8", "surrogateescape"))


def _checksum(data: bytes) -> str:
    # A CRC is as fast, and an edit by hand or two flipped blocks may keep it.
    return hashlib.blake2b(data, digest_size=16, usedforsecurity=False).hexdigest()


def owner_of(request: Request) -> str:
    """Return what tells whose request it is: a digest of its credentials, "" without any."""
    headers = request.read_headers()
    secrets = [
        f"{name.lower()}: {value}"
        for name, value in headers.multi_items()
        if is_secret_header(name) or name.lower() in headers.sensitive
    ]
    if request.transport.tls.cert is not None:
        secrets.append(repr(request.transport.tls.cert))
    return digest(sorted(secrets)) if secrets else ""


def guard_of(request: Request) -> str:
    """Return what tells which addresses it may be answered from, "" for any."""
    guard = request.transport.guard
    return "" if guard is None else digest([guard.name])


def variant_of(request: Request, vary: str | None) -> str:
    """Return a digest of the request's fields that a Vary names, "" without one."""
    if not vary:
        return ""
    names = sorted({name.strip().lower() for name in vary.split(",")} - {""})
    headers = request.read_headers()
    # Blanks around commas, and lines in place of commas, make no difference (section 4.1).
    return digest(
        f"{name}: {[part.strip() for part in ','.join(headers.get_list(name)).split(',')]}"
        for name in names
    )


def digest(parts: Iterable[str]) -> str:
    """Return what tells some texts from others, and from which none of them can be read."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"})  # RFC 9110, section 9.2.1

# Conditions of the caller that a cache does not answer.
_CONDITIONS = ("if-match", "if-unmodified-since", "if-range")
# RFC 9111, section 4.2.2, in RFC 9110, section 15.1; 206 is never stored.
_HEURISTIC = frozenset({200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501})
# hishel reads quotes that are not closed in quadratic time.
_LONGEST_CONTROL = 1024
_ERRORS = frozenset({500, 502, 503, 504})  # RFC 5861, section 4
_LONGEST_GUESS = 7 * 24 * 3600.0  # seconds
# RFC 9111, section 3.1, and what hishel leaves out. A cookie belongs to its own response: if it
# were replayed, an old one would replace a newer one.
_NOT_KEPT = ("set-cookie", "age")


class FreshnessDecision(Enum):
    """What may be done with a stored response."""

    FRESH = "fresh"  # give it
    REFRESH = "refresh"  # give it, and ask the server afterwards
    ASK = "ask"  # ask the server first


class CacheLookup(NamedTuple):
    """Whether a stored response may be given.

    Attributes:
        verdict: the answer.
        age: its age in seconds.
        ttl: seconds for which it stays fresh; negative once it is stale.
        on_error: it may be given if the server does not answer, or with a 5xx.
    """

    verdict: FreshnessDecision
    age: float
    ttl: float
    on_error: bool


class StoredResponse(NamedTuple):
    """A stored response with its body as it was on the wire."""

    entry: hishel.Entry
    body: bytes


class CachePolicy:
    """The rules of one cache.

    Args:
        shared: it serves several users, as a proxy's does.
    """

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self._options = hishel.CacheOptions(shared=shared, supported_methods=["GET"])

    # the request

    def left_alone(self, request: Request) -> str | None:
        """Return why a safe request goes past the cache, in words of RFC 9211, or None."""
        if request.method not in ("GET", "HEAD"):
            return "fwd=method"
        get = request.get_header
        if get("range") is not None:
            return "fwd=partial"
        # Whose ticket libcurl will send, nobody knows here.
        is_known = not request.transport.negotiate
        if not is_known or request.body is not None or get("upgrade") is not None:
            return "fwd=bypass"
        if any(get(name) is not None for name in _CONDITIONS):
            return "fwd=request"
        if "text/event-stream" in (get("accept") or ""):
            return "fwd=bypass"
        if "no-store" in directives(get("cache-control")):
            return "fwd=request"
        return None

    def key(self, request: Request, url: str | None = None) -> str:
        """Return what all responses to a URL are stored under; no URL can be read from it.

        Args:
            request: what is asked for.
            url: another one than the request's, or None.
        """
        transport = request.transport
        tls = transport.tls
        where = (
            (url or str(request.url)).partition("#")[0],
            request.get_header("host"),  # the caller's own; else the URL has it
            transport.unix_socket,
            transport.connect_to + transport.addresses,
            # What came from a server that nobody checked is not for those who check it.
            (tls.verify is not False, tls.check_hostname, transport.pins),
        )
        return digest(map(repr, where))

    def choose(self, request: Request, entries: Iterable[hishel.Entry]) -> hishel.Entry | None:
        """Return the newest of the stored responses that is this request's, or None."""
        who, guard = owner_of(request), guard_of(request)
        fit = [
            entry
            for entry in entries
            if LINE in entry.request.headers
            and entry.request.headers.get(GUARD, "") == guard
            and entry.request.headers.get(WHO, who) == who
            and entry.request.headers.get(VARY)
            == variant_of(request, entry.response.headers.get("vary"))
        ]
        return max(fit, key=born_at, default=None)

    def has_condition(self, request: Request) -> bool:
        """Return whether the caller wants a response only if it has changed."""
        get = request.get_header
        return get("if-none-match") is not None or get("if-modified-since") is not None

    def is_unchanged(self, request: Request, entry: hishel.Entry) -> bool:
        """Return whether a stored response is what the caller has (RFC 9111, section 4.3.2)."""
        headers, tags = entry.response.headers, request.get_header("if-none-match")
        if tags is not None:
            stored = headers.get("etag", "").removeprefix("W/")
            listed = [tag.strip().removeprefix("W/") for tag in tags.split(",")]
            return tags.strip() == "*" or bool(stored and stored in listed)
        born = born_at(entry)
        since = date_of(request.get_header("if-modified-since"), born)
        dates = (date_of(headers.get(name), born) for name in ("last-modified", "date"))
        modified = next((date for date in dates if date is not None), born)
        return since is not None and modified <= since

    def only_if_cached(self, request: Request) -> bool:
        """Return whether the server must not be asked (RFC 9111, section 5.2.1.7)."""
        return "only-if-cached" in directives(request.get_header("cache-control"))

    def use(self, request: Request, entry: hishel.Entry, now: float) -> CacheLookup:
        """Return whether a stored response may be given.

        Args:
            request: what is asked for.
            entry: what `choose` returned for it.
            now: seconds since the epoch.
        """
        asked = _asked(request)
        headers = entry.response.headers
        told = directives(headers.get("cache-control"))
        age = max(0.0, now - born_at(entry))
        ttl = self._lifetime(entry, told) - age
        stale = -ttl
        may_be_stale = not (
            "must-revalidate" in told
            or "no-cache" in told
            or (self.shared and ("proxy-revalidate" in told or "s-maxage" in told))
        )
        on_error = may_be_stale and any(
            stale <= (seconds_of(each["stale-if-error"]) or 0)
            for each in (told, asked)
            if "stale-if-error" in each
        )
        wanted = seconds_of(asked.get("max-age"))
        left = ttl - (seconds_of(asked.get("min-fresh")) or 0)
        verdict = FreshnessDecision.ASK
        if (
            # The clock was set back: nobody knows the age any more.
            now < stored_at(entry)
            or _is_bare(told, "no-cache")
            or "no-cache" in asked
            or (wanted is not None and age > wanted)
        ):
            pass
        elif left > 0:
            verdict = FreshnessDecision.FRESH
        elif not may_be_stale or "min-fresh" in asked:
            pass
        elif "max-stale" in asked and stale <= (
            FOR_EVER if asked["max-stale"] == "" else seconds_of(asked["max-stale"]) or 0
        ):
            verdict = FreshnessDecision.FRESH
        elif stale < (seconds_of(told.get("stale-while-revalidate")) or 0) and wanted is None:
            verdict = FreshnessDecision.REFRESH
        return CacheLookup(verdict, age, ttl, on_error)

    def _lifetime(self, entry: hishel.Entry, told: dict[str, str]) -> float:
        """Return the seconds for which a response is fresh (RFC 9111, section 4.2.1)."""
        headers = entry.response.headers
        names = ("s-maxage", "max-age") if self.shared else ("max-age",)
        for name in names:
            if name in told:
                return seconds_of(told[name]) or 0
        born = born_at(entry)
        date = date_of(headers.get("date"), born)
        if "expires" in headers:
            expires = date_of(headers["expires"], born)
            return -1 if expires is None else expires - (born if date is None else date)
        modified = date_of(headers.get("last-modified"), born)
        is_known = entry.response.status_code in _HEURISTIC or "public" in told
        if modified is None or not is_known:
            return 0
        return min(max(0.0, (born if date is None else date) - modified) / 10, _LONGEST_GUESS)

    # asking the server

    def conditional(self, request: Request, entry: hishel.Entry) -> Request:
        """Return the request that asks whether a stored response is still good."""
        headers = entry.response.headers
        request = request.copy()
        for name, validator in (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified")):
            if headers.get(validator):
                try:
                    request.headers[name] = headers[validator]
                except RequestException:
                    continue  # a server may send what no client may
        return request

    def is_error(self, status_code: int) -> bool:
        """Return whether a stale response may take an answer's place, where one allows it."""
        return status_code in _ERRORS

    def freshened(
        self, request: Request, entry: hishel.Entry, response: Response, began: float, now: float
    ) -> hishel.Entry | None:
        """Return a stored response with what a 304 says of it; None if it speaks of another.

        Args:
            request: the caller's.
            entry: what was asked for.
            response: the 304.
            began: when the request was sent, in seconds since the epoch.
            now: seconds since the epoch.
        """
        asked = hishel.Request("GET", "")
        answer = hishel.Response(304, fields_of(response.headers))
        if _is_absurd(answer.headers):
            return None
        state = hishel.NeedRevalidation(
            request=asked,
            original_request=asked,
            revalidating_entries=[entry],
            options=self._options,
        ).next(answer)
        if not isinstance(state, hishel.NeedToBeUpdated):
            return None
        fresh = state.updating_entries[0].response.headers
        leave_out(fresh, _NOT_KEPT)
        leave_out(fresh, (BORN, STORED))
        fresh[BORN], fresh[STORED] = repr(birth_of(answer.headers, began, now)), repr(now)
        return state.updating_entries[0]

    # storing

    def storable(
        self, request: Request, response: Response, began: float, now: float
    ) -> hishel.Entry | None:
        """Return what to store of a response, or None (RFC 9111, section 3).

        Args:
            request: as the caller sent it, without conditions of the cache.
            response: its head counts; the body may be on the wire still.
            began: when the request was sent, in seconds since the epoch.
            now: seconds since the epoch.
        """
        if request.method != "GET" or response.request.method != "GET":
            return None
        headers = response.headers
        fields = fields_of(headers)
        told = directives(fields.get("cache-control"))
        vary = fields.get("vary")
        is_stream = "text/event-stream" in fields.get("content-type", "")
        # hishel does not see a "no-store=...".
        if "no-store" in told or "*" in (vary or "") or is_stream or _is_absurd(fields):
            return None
        is_open = "public" in told or "s-maxage" in told
        if self.shared and ("set-cookie" in fields and not is_open):
            return None
        if self.shared and _is_bare(told, "private"):
            return None
        secret = {"authorization": "***"} if request.get_header("authorization") else {}
        asked = hishel.Request("GET", "", hishel.Headers(secret))
        state = hishel.CacheMiss(request=asked, options=self._options).next(
            hishel.Response(response.status_code, fields)
        )
        if not isinstance(state, hishel.StoreAndUse):
            return None
        kept = state.response
        leave_out(kept.headers, _NOT_KEPT)
        leave_out(kept.headers, _listed(headers.get_list("connection")))
        if "content-encoding" in fields and "content-encoding" not in kept.headers:
            return None  # a field names it that may not: the body could not be decoded
        kept.headers[BORN], kept.headers[STORED] = repr(birth_of(fields, began, now)), repr(now)
        line = f"{response.http_version} {response.status_code} {response.reason}".rstrip()
        about = {LINE: line, VARY: variant_of(request, vary), GUARD: guard_of(request)}
        # must-revalidate lets a shared cache store what an Authorization got, and share it.
        if not (is_open or (self.shared and "must-revalidate" in told and secret)):
            about[WHO] = owner_of(request)
        stored = hishel.Entry(
            uuid.UUID(int=0), hishel.Request("GET", "", hishel.Headers(about)), kept
        )
        if self._is_worth_it(stored, told):
            return stored
        return None

    def _is_worth_it(self, entry: hishel.Entry, told: dict[str, str]) -> bool:
        """Return whether a response can be of use: fresh, to be confirmed, or where all fails."""
        headers = entry.response.headers
        return (
            self._lifetime(entry, told) > 0
            or "etag" in headers
            or "last-modified" in headers
            or "stale-if-error" in told
            or "stale-while-revalidate" in told
        )

    def invalidated(self, request: Request, response: Response) -> list[str]:
        """Return the keys of what an unsafe request has changed (RFC 9111, section 4.4)."""
        if not 200 <= response.status_code < 400:
            return []
        keys = [self.key(request)]
        here = request.url
        for name in ("location", "content-location"):
            target = response.headers.get(name)
            if not target:
                continue
            try:
                url = parse_url(urljoin(str(here), target))
            except ValueError:  # all of RequestException's that a URL can have, and urljoin's
                continue
            if url.origin == here.origin:
                keys.append(self.key(request, str(url)))
        return keys


def _is_absurd(fields: hishel.Headers) -> bool:
    return len(fields.get("cache-control", "")) > _LONGEST_CONTROL


def _is_bare(told: dict[str, str], name: str) -> bool:
    """Return whether a directive is there, and not for some fields alone."""
    return told.get(name) == ""


def _asked(request: Request) -> dict[str, str]:
    value = request.get_header("cache-control")
    if value is None and "no-cache" in (request.get_header("pragma") or ""):
        return {"no-cache": ""}  # RFC 9111, section 5.4
    return directives(value)


def _listed(values: list[str]) -> list[str]:
    return [name.strip().lower() for value in values for name in value.split(",")]
