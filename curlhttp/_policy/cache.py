"""What a cache may keep and what it may give (RFC 9111, RFC 5861). It keeps and sends nothing.

hishel decides what may be stored and what a 304 changes. What may be used, is decided here, since
hishel knows neither an upstream Age, nor a request's directives, nor RFC 5861, nor another clock.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple
from urllib.parse import urljoin

import hishel

from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._models.url import parse_url
from curlhttp._policy.cache_entry import (
    BORN,
    GUARD,
    LINE,
    STORED,
    VARY,
    WHO,
    birth_of,
    born_at,
    digest,
    fields_of,
    guard_of,
    leave_out,
    owner_of,
    stored_at,
    variant_of,
)
from curlhttp._policy.cache_fields import FOR_EVER, date_of, directives, seconds_of
from curlhttp.exceptions import RequestException

__all__ = ["SAFE", "CachePolicy", "Kept", "Reuse", "Use"]

SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"})  # RFC 9110, section 9.2.1

# Conditions of the caller that a cache does not answer.
_CONDITIONS = ("if-match", "if-unmodified-since", "if-range")
# RFC 9111, section 4.2.2, in RFC 9110, section 15.1; 206 is never stored.
_HEURISTIC = frozenset({200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501})
# hishel reads quotes that are not closed in quadratic time.
_LONGEST_CONTROL = 1024
_ERRORS = frozenset({500, 502, 503, 504})  # RFC 5861, section 4
_LONGEST_GUESS = 7 * 24 * 3600.0  # seconds
# RFC 9111, section 3.1, beside those that hishel leaves out. A cookie belongs to its own answer:
# given again, an old one would take the place of a newer one.
_NOT_KEPT = ("set-cookie", "age")


class Reuse(Enum):
    """What may be done with a stored response."""

    FRESH = "fresh"  # give it
    REFRESH = "refresh"  # give it, and ask the server afterwards
    ASK = "ask"  # ask the server first


class Use(NamedTuple):
    """Whether a stored response may be given.

    Attributes:
        verdict: the answer.
        age: its age in seconds.
        ttl: seconds for which it stays fresh; negative once it is stale.
        on_error: it may be given if the server does not answer, or with a 5xx.
    """

    verdict: Reuse
    age: float
    ttl: float
    on_error: bool


class Kept(NamedTuple):
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

    def use(self, request: Request, entry: hishel.Entry, now: float) -> Use:
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
        verdict = Reuse.ASK
        if (
            # The clock was set back: nobody knows the age any more.
            now < stored_at(entry)
            or _is_bare(told, "no-cache")
            or "no-cache" in asked
            or (wanted is not None and age > wanted)
        ):
            pass
        elif left > 0:
            verdict = Reuse.FRESH
        elif not may_be_stale or "min-fresh" in asked:
            pass
        elif "max-stale" in asked and stale <= (
            FOR_EVER if asked["max-stale"] == "" else seconds_of(asked["max-stale"]) or 0
        ):
            verdict = Reuse.FRESH
        elif stale < (seconds_of(told.get("stale-while-revalidate")) or 0) and wanted is None:
            verdict = Reuse.REFRESH
        return Use(verdict, age, ttl, on_error)

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
