"""Decide what a cache may store, and when it may serve a stored response (RFC 9111, RFC 5861).

Pure: it stores and sends nothing. hishel decides what may be stored and what a 304 changes. This
module decides what may be served, because hishel ignores the Age of other caches, the directives of
requests and RFC 5861, and has its own clock.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

import hishel

from curlhttp._features.http_date import parse_http_date
from curlhttp._http.headers import Headers
from curlhttp._http.redaction import is_secret_header
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.url import decode_reference
from curlhttp.exceptions import RequestException

# --- Header fields: directives and ages. The parsers never raise ---
#
# Stricter than hishel, which treats an invalid value like a missing one. Here an invalid value
# makes a response stale.

FOR_EVER = 2**31  # seconds: RFC 9111, section 1.2.2

_DIRECTIVE = re.compile(r'([^\s,;="]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s,"]*))?[^,]*').finditer
_ESCAPED = re.compile(r"\\(.)")
_WHOLE = re.compile(r"[0-9]+").fullmatch


def parse_directives(value: str | None) -> dict[str, str]:
    """Return the directives of Cache-Control by lower-case name, with "" for no argument.

    The first of several with the same name counts (RFC 9111, section 4.2.1).

    Args:
        value: of all field lines, joined; or None.
    """
    found: dict[str, str] = {}
    for match in _DIRECTIVE(value or ""):
        name, argument = match[1].lower(), match[2] or ""
        if argument.startswith('"'):
            argument = _ESCAPED.sub(r"\1", argument[1:-1])
        found.setdefault(name, argument)
    return found


def parse_seconds(text: str | None) -> int | None:
    """Return a number of seconds, at most FOR_EVER; None if it is invalid."""
    if text is None or not _WHOLE(text):
        return None
    digits = text.lstrip("0") or "0"
    return min(int(digits), FOR_EVER) if len(digits) < 12 else FOR_EVER


def parse_age(text: str | None) -> int:
    """Return the seconds of an Age, 0 if it is invalid (RFC 9111, section 5.1).

    Args:
        text: of all field lines, joined; the first value counts.
    """
    return parse_seconds((text or "").partition(",")[0].strip()) or 0


# --- A stored response: its fields, its owner, the requests that it answers, and its age ---
#
# It contains no URL and no credentials, only hashes of them.

# Stored with the fields of a response. No server can send a name with a colon.
BORN = ":born"  # when its Age would have been 0, in seconds since the epoch
GUARD, LINE, VARY, WHO = ":guard", ":line", ":vary", ":who"
STORED = ":stored"  # when it was stored or confirmed, in seconds since the epoch
BODY, SEAL = ":body", ":seal"  # checksums: of the body, and of everything else including :body


def find_equivalent(entry: hishel.Entry, entries: Iterable[hishel.Entry]) -> list[hishel.Entry]:
    """Return the stored responses that answer the same requests as `entry`."""
    about = entry.request.headers
    return [
        other
        for other in entries
        if all(other.request.headers.get(name) == about.get(name) for name in (GUARD, WHO, VARY))
    ]


def build_head(entry: hishel.Entry, age: float, line: str = "") -> bytes:
    """Return the head of a stored response with its Age, as bytes of HTTP/1.1.

    Args:
        entry: the stored response.
        age: in seconds.
        line: a status line to use instead of the stored one.
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


def to_hishel_headers(headers: Headers) -> hishel.Headers:
    """Return the fields of a response as hishel.Headers, without names that start with a colon."""
    grouped: dict[str, str | list[str]] = {}
    for name, value in headers.multi_items():
        if not name.startswith(":"):
            grouped.setdefault(name.lower(), []).append(value)  # type: ignore[union-attr]
    return hishel.Headers(grouped)


def remove_fields(headers: hishel.Headers, names: Iterable[str]) -> None:
    """Remove fields, if they exist."""
    for name in names:
        if name in headers:
            del headers[name]


def compute_birth(headers: hishel.Headers, began: float, now: float) -> float:
    """Return when a response's Age would have been 0 (RFC 9111, section 4.2.3)."""
    date = parse_http_date(headers.get("date"), now)
    apparent = 0.0 if date is None else max(0.0, now - date)
    return now - max(apparent, parse_age(headers.get("age")) + max(0.0, now - began))


def get_birth(entry: hishel.Entry) -> float:
    """Return when a stored response's Age would have been 0, in seconds since the epoch."""
    return float(entry.response.headers[BORN])


def get_stored_time(entry: hishel.Entry) -> float:
    """Return when a response was last stored or validated, in seconds since the epoch."""
    return float(entry.response.headers[STORED])


def add_checksums(entry: hishel.Entry, key: str, body: bytes | None = None) -> None:
    """Add checksums to a response, so that damage is noticed later.

    Args:
        entry: the response to store.
        key: the key that it is stored under.
        body: of the response; None if the body does not change.
    """
    headers = entry.response.headers
    if body is not None:
        remove_fields(headers, (BODY,))
        headers[BODY] = _checksum(body)
    remove_fields(headers, (SEAL,))
    headers[SEAL] = _compute_checksum(entry, key)


def is_intact(entry: hishel.Entry, key: str) -> bool:
    """Return whether a response, except for its body, is what was stored under a key."""
    return entry.response.headers.get(SEAL) == _compute_checksum(entry, key)


def is_body_intact(entry: hishel.Entry, body: bytes) -> bool:
    """Return whether a body is the one that was stored with a response."""
    return entry.response.headers.get(BODY) == _checksum(body)


def _compute_checksum(entry: hishel.Entry, key: str) -> str:
    lines = [key, str(entry.response.status_code)]
    for headers in (entry.request.headers, entry.response.headers):
        names = sorted({name.lower() for name in headers} - {SEAL})
        lines += [f"{name}: {list(headers.get_list(name) or ())!r}" for name in names]
        lines.append("")
    return _checksum("\n".join(lines).encode("utf-8", "surrogateescape"))


def _checksum(data: bytes) -> str:
    # Not a CRC: it is not faster, and misses some changes.
    return hashlib.blake2b(data, digest_size=16, usedforsecurity=False).hexdigest()


def hash_credentials(request: ClientRequest) -> str:
    """Return a hash of a request's credentials, "" without any."""
    headers = request.read_headers()
    secrets = [
        f"{name.lower()}: {value}"
        for name, value in headers.multi_items()
        if is_secret_header(name) or name.lower() in headers.sensitive
    ]
    if request.route.tls.cert is not None:
        secrets.append(repr(request.route.tls.cert))
    return hash_texts(sorted(secrets)) if secrets else ""


def hash_guard(request: ClientRequest) -> str:
    """Return a hash of the addresses that a request may be sent to, "" for any."""
    guard = request.route.guard
    return "" if guard is None else hash_texts([guard._name])


def hash_vary(request: ClientRequest, vary: str | None) -> str:
    """Return a hash of the request's fields that Vary names, "" without Vary."""
    if not vary:
        return ""
    names = sorted({name.strip().lower() for name in vary.split(",")} - {""})
    headers = request.read_headers()
    # Blanks around commas, and separate lines, make no difference (RFC 9111, section 4.1).
    return hash_texts(
        f"{name}: {[part.strip() for part in ','.join(headers.get_list(name)).split(',')]}"
        for name in names
    )


def hash_texts(parts: Iterable[str]) -> str:
    """Return a hash of several texts."""
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"})  # RFC 9110, section 9.2.1

# Conditions of the caller that the cache does not evaluate.
_CONDITIONS = ("if-match", "if-unmodified-since", "if-range")
# RFC 9111, section 4.2.2, in RFC 9110, section 15.1; 206 is never stored.
_HEURISTIC = frozenset({200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501})
# hishel takes quadratic time for quotes that are not closed.
_LONGEST_CONTROL = 1024
_ERRORS = frozenset({500, 502, 503, 504})  # RFC 5861, section 4
_LONGEST_GUESS = 7 * 24 * 3600.0  # seconds
# RFC 9111, section 3.1, and what hishel leaves out. No cookies, because a stored response would
# replace newer cookies with old ones.
_NOT_KEPT = ("set-cookie", "age")


class FreshnessDecision(Enum):
    """What may be done with a stored response."""

    FRESH = "fresh"  # serve it
    SERVE_AND_REVALIDATE = "refresh"  # serve it, and validate it in the background
    REVALIDATE = "revalidate"  # validate it first


class CacheLookup(NamedTuple):
    """Whether a stored response may be served.

    Attributes:
        decision: what may be done with it.
        age: its age in seconds.
        ttl: seconds for which it stays fresh; negative once it is stale.
        on_error: it may be served if the request fails, or has a response with a 5xx.
    """

    decision: FreshnessDecision
    age: float
    ttl: float
    on_error: bool


class StoredResponse(NamedTuple):
    """A stored response with its encoded body."""

    entry: hishel.Entry
    body: bytes


class CachePolicy:
    """The rules of one cache.

    Args:
        shared: the cache serves several users, like that of a proxy.
    """

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self._options = hishel.CacheOptions(shared=shared, supported_methods=["GET"])

    # the request

    def get_bypass_reason(self, request: ClientRequest) -> str | None:
        """Return why a safe request bypasses the cache, in the terms of RFC 9211, or None."""
        if request.method not in ("GET", "HEAD"):
            return "fwd=method"
        get = request.get_header
        if get("range") is not None:
            return "fwd=partial"
        # With Negotiate, libcurl chooses the credentials.
        if request.route.negotiate or request.body is not None or get("upgrade") is not None:
            return "fwd=bypass"
        if any(get(name) is not None for name in _CONDITIONS):
            return "fwd=request"
        if "text/event-stream" in (get("accept") or ""):
            return "fwd=bypass"
        if "no-store" in parse_directives(get("cache-control")):
            return "fwd=request"
        return None

    def key(self, request: ClientRequest, url: str | None = None) -> str:
        """Return the key of all responses to a URL, a hash that does not reveal the URL.

        Args:
            request: to look up.
            url: to use instead of the request's URL, or None.
        """
        route = request.route
        tls = route.tls
        where = (
            (url or str(request.url)).partition("#")[0],
            request.get_header("host"),  # if the caller sets it
            route.unix_socket,
            route.connect_to + route.addresses,
            # A response from a server that was not verified is not for clients that verify.
            (tls.verify is not False, tls.check_hostname, route.pins),
        )
        return hash_texts(map(repr, where))

    def choose(
        self, request: ClientRequest, entries: Iterable[hishel.Entry]
    ) -> hishel.Entry | None:
        """Return the newest stored response that may answer this request, or None."""
        who, guard = hash_credentials(request), hash_guard(request)
        fit = [
            entry
            for entry in entries
            if LINE in entry.request.headers
            and entry.request.headers.get(GUARD, "") == guard
            and entry.request.headers.get(WHO, who) == who
            and entry.request.headers.get(VARY)
            == hash_vary(request, entry.response.headers.get("vary"))
        ]
        return max(fit, key=get_birth, default=None)

    def has_condition(self, request: ClientRequest) -> bool:
        """Return whether the caller made the request conditional."""
        get = request.get_header
        return get("if-none-match") is not None or get("if-modified-since") is not None

    def is_unchanged(self, request: ClientRequest, entry: hishel.Entry) -> bool:
        """Return whether the caller already has the stored response (RFC 9111, section 4.3.2)."""
        headers, tags = entry.response.headers, request.get_header("if-none-match")
        if tags is not None:
            stored = headers.get("etag", "").removeprefix("W/")
            listed = [tag.strip().removeprefix("W/") for tag in tags.split(",")]
            return tags.strip() == "*" or bool(stored and stored in listed)
        born = get_birth(entry)
        since = parse_http_date(request.get_header("if-modified-since"), born)
        dates = (parse_http_date(headers.get(name), born) for name in ("last-modified", "date"))
        modified = next((date for date in dates if date is not None), born)
        return since is not None and modified <= since

    def only_if_cached(self, request: ClientRequest) -> bool:
        """Return whether the request must not be sent to the server (RFC 9111, 5.2.1.7)."""
        return "only-if-cached" in parse_directives(request.get_header("cache-control"))

    def evaluate(self, request: ClientRequest, entry: hishel.Entry, now: float) -> CacheLookup:
        """Return whether a stored response may be served.

        Args:
            request: to answer.
            entry: that `choose` returned for it.
            now: seconds since the epoch.
        """
        asked = _get_request_directives(request)
        headers = entry.response.headers
        directives = parse_directives(headers.get("cache-control"))
        age = max(0.0, now - get_birth(entry))
        ttl = self._lifetime(entry, directives) - age
        stale = -ttl
        may_be_stale = not (
            "must-revalidate" in directives
            or "no-cache" in directives
            or (self.shared and ("proxy-revalidate" in directives or "s-maxage" in directives))
        )
        on_error = may_be_stale and any(
            stale <= (parse_seconds(each["stale-if-error"]) or 0)
            for each in (directives, asked)
            if "stale-if-error" in each
        )
        wanted = parse_seconds(asked.get("max-age"))
        left = ttl - (parse_seconds(asked.get("min-fresh")) or 0)
        decision = FreshnessDecision.REVALIDATE
        if (
            # The clock was set back, so the age is unknown.
            now < get_stored_time(entry)
            or _is_unqualified(directives, "no-cache")
            or "no-cache" in asked
            or (wanted is not None and age > wanted)
        ):
            pass
        elif left > 0:
            decision = FreshnessDecision.FRESH
        elif not may_be_stale or "min-fresh" in asked:
            pass
        elif "max-stale" in asked and stale <= (
            FOR_EVER if asked["max-stale"] == "" else parse_seconds(asked["max-stale"]) or 0
        ):
            decision = FreshnessDecision.FRESH
        elif (
            stale < (parse_seconds(directives.get("stale-while-revalidate")) or 0)
            and wanted is None
        ):
            decision = FreshnessDecision.SERVE_AND_REVALIDATE
        return CacheLookup(decision, age, ttl, on_error)

    def _lifetime(self, entry: hishel.Entry, directives: dict[str, str]) -> float:
        """Return the seconds for which a response is fresh (RFC 9111, section 4.2.1)."""
        headers = entry.response.headers
        names = ("s-maxage", "max-age") if self.shared else ("max-age",)
        for name in names:
            if name in directives:
                return parse_seconds(directives[name]) or 0
        born = get_birth(entry)
        date = parse_http_date(headers.get("date"), born)
        if "expires" in headers:
            expires = parse_http_date(headers["expires"], born)
            return -1 if expires is None else expires - (born if date is None else date)
        modified = parse_http_date(headers.get("last-modified"), born)
        is_known = entry.response.status_code in _HEURISTIC or "public" in directives
        if modified is None or not is_known:
            return 0
        return min(max(0.0, (born if date is None else date) - modified) / 10, _LONGEST_GUESS)

    # validation by the server

    def make_conditional(self, request: ClientRequest, entry: hishel.Entry) -> ClientRequest:
        """Return the conditional request that validates a stored response."""
        headers = entry.response.headers
        request = request.copy()
        for name, validator in (("If-None-Match", "etag"), ("If-Modified-Since", "last-modified")):
            if headers.get(validator):
                try:
                    request.headers[name] = headers[validator]
                except RequestException:
                    continue  # a server may send values that a client must not send
        return request

    def is_error(self, status_code: int) -> bool:
        """Return whether stale-if-error applies to a status (RFC 5861, section 4)."""
        return status_code in _ERRORS

    def freshen(
        self, entry: hishel.Entry, response: Response, began: float, now: float
    ) -> hishel.Entry | None:
        """Return a stored response updated by a 304; None if the 304 is about another response.

        Args:
            entry: the stored response.
            response: the 304.
            began: when the request was sent, in seconds since the epoch.
            now: seconds since the epoch.
        """
        asked = hishel.Request("GET", "")
        answer = hishel.Response(304, to_hishel_headers(response.headers))
        if _has_huge_directives(answer.headers):
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
        remove_fields(fresh, _NOT_KEPT)
        remove_fields(fresh, (BORN, STORED))
        fresh[BORN], fresh[STORED] = repr(compute_birth(answer.headers, began, now)), repr(now)
        return state.updating_entries[0]

    # storing

    def make_entry(
        self, request: ClientRequest, response: Response, began: float, now: float
    ) -> hishel.Entry | None:
        """Return the entry to store for a response, or None (RFC 9111, section 3).

        Args:
            request: of the caller, without the conditions that the cache adds.
            response: its head; the body may not have been received yet.
            began: when the request was sent, in seconds since the epoch.
            now: seconds since the epoch.
        """
        if request.method != "GET" or response.request.method != "GET":
            return None
        headers = response.headers
        fields = to_hishel_headers(headers)
        directives = parse_directives(fields.get("cache-control"))
        vary = fields.get("vary")
        is_stream = "text/event-stream" in fields.get("content-type", "")
        # hishel does not see a "no-store=...".
        if (
            "no-store" in directives
            or "*" in (vary or "")
            or is_stream
            or _has_huge_directives(fields)
        ):
            return None
        is_open = "public" in directives or "s-maxage" in directives
        if self.shared and ("set-cookie" in fields and not is_open):
            return None
        if self.shared and _is_unqualified(directives, "private"):
            return None
        secret = {"authorization": "***"} if request.get_header("authorization") else {}
        asked = hishel.Request("GET", "", hishel.Headers(secret))
        state = hishel.CacheMiss(request=asked, options=self._options).next(
            hishel.Response(response.status_code, fields)
        )
        if not isinstance(state, hishel.StoreAndUse):
            return None
        kept = state.response
        remove_fields(kept.headers, _NOT_KEPT)
        remove_fields(kept.headers, _split_list(headers.get_list("connection")))
        if "content-encoding" in fields and "content-encoding" not in kept.headers:
            return None  # Connection must not name it, and the body could not be decoded
        kept.headers[BORN], kept.headers[STORED] = (
            repr(compute_birth(fields, began, now)),
            repr(now),
        )
        line = f"{response.http_version} {response.status_code} {response.reason}".rstrip()
        about = {LINE: line, VARY: hash_vary(request, vary), GUARD: hash_guard(request)}
        # must-revalidate lets a shared cache store responses to requests with Authorization.
        if not (is_open or (self.shared and "must-revalidate" in directives and secret)):
            about[WHO] = hash_credentials(request)
        stored = hishel.Entry(
            uuid.UUID(int=0), hishel.Request("GET", "", hishel.Headers(about)), kept
        )
        if self._is_reusable(stored, directives):
            return stored
        return None

    def _is_reusable(self, entry: hishel.Entry, directives: dict[str, str]) -> bool:
        """Return whether a response can be fresh, validated, or served if the server fails."""
        headers = entry.response.headers
        return (
            self._lifetime(entry, directives) > 0
            or "etag" in headers
            or "last-modified" in headers
            or "stale-if-error" in directives
            or "stale-while-revalidate" in directives
        )

    def get_invalidated_keys(self, request: ClientRequest, response: Response) -> list[str]:
        """Return the keys that an unsafe request invalidates (RFC 9111, section 4.4)."""
        if not 200 <= response.status_code < 400:
            return []
        keys = [self.key(request)]
        here = request.url
        for name in ("location", "content-location"):
            target = response.headers.get(name)
            if not target:
                continue
            try:
                url = here.join(decode_reference(target))
            except ValueError:  # an InvalidURL, or an InvalidSchema
                continue
            if url.origin == here.origin:
                keys.append(self.key(request, str(url)))
        return keys


def _has_huge_directives(fields: hishel.Headers) -> bool:
    return len(fields.get("cache-control", "")) > _LONGEST_CONTROL


def _is_unqualified(directives: dict[str, str], name: str) -> bool:
    """Return whether a directive exists, and is not limited to some fields."""
    return directives.get(name) == ""


def _get_request_directives(request: ClientRequest) -> dict[str, str]:
    value = request.get_header("cache-control")
    if value is None and "no-cache" in (request.get_header("pragma") or ""):
        return {"no-cache": ""}  # RFC 9111, section 5.4
    return parse_directives(value)


def _split_list(values: list[str]) -> list[str]:
    return [name.strip().lower() for value in values for name in value.split(",")]
