"""Who may set and who gets a cookie (RFC 6265), and Set-Cookie values turned into cookies.

Stores nothing: the jar in cookies.py does. Import it only with a jar, http.cookiejar is heavy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from http.cookiejar import (  # type: ignore[attr-defined]
    Cookie,
    DefaultCookiePolicy,
    time2netscape,
)
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from curlhttp._models.cookies.date import parse_cookie_date
from curlhttp._models.cookies.public_suffix import is_public_suffix
from curlhttp._models.url.origin import bracketed

if TYPE_CHECKING:
    from urllib.request import Request as UrllibRequest

    from curlhttp._models.url.url import URL

__all__ = [
    "CONTROL",
    "MAX_COOKIE_SIZE",
    "CookieRequest",
    "CookieRules",
    "SetCookies",
    "bare_host",
    "host_allowed",
    "is_clean",
    "lines_for_stdlib",
    "matching_domains",
    "new_cookie",
    "parse_cookie",
    "path_matches",
    "place_of",
]

MAX_COOKIE_SIZE = 4096  # RFC 6265bis: name and value together
MAX_LINE_SIZE = 8192
MAX_AGE = 400 * 24 * 3600  # seconds; RFC 6265bis, section 5.5

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CONTROL_BUT_TAB = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_DELTA_SECONDS = re.compile(r"-?[0-9]+", re.ASCII)
_STANDARD = frozenset({"domain", "path", "secure", "expires", "max-age", "version", "port"})


# --- whose cookie is it ---


def bare_host(host: str) -> str:
    """Return the host as cookies name it: lower case, no brackets, no trailing dot."""
    return host.strip("[]").rstrip(".").lower()


def _is_ip(host: str) -> bool:
    # URLs are canonical here: an IPv4 address ends in a number, a DNS name never does.
    return ":" in host or host.rpartition(".")[2].isdigit()


@lru_cache(maxsize=1024)
def matching_domains(host: str) -> tuple[str, ...]:
    """Return every Cookie.domain that the host may get cookies from, RFC 6265 section 5.1.3."""
    domains = ["", host]  # "": a cookie that the user set for every host
    if "." not in host:
        domains.append(_local(host))
    if _is_ip(host):
        return tuple(domains)
    domains.append(f".{host}")
    parent = host.partition(".")[2]
    while parent:
        domains += (parent, f".{parent}")
        parent = parent.partition(".")[2]
    return tuple(domains)


def host_allowed(cookie: Cookie, host: str) -> bool:
    """Return whether a cookie of a matching domain may go to the host: host-only or not."""
    return cookie.domain_specified or cookie.domain in ("", host, _local(host))


def _local(host: str) -> str:
    """Return how the stdlib's jar files a name without dots, such as localhost, or IPv6."""
    return f"[{host}].local" if ":" in host else f"{host}.local"


def path_matches(path: str, cookie_path: str) -> bool:
    """Return whether a path lies at or below the cookie's, RFC 6265 section 5.1.4."""
    if not path.startswith(cookie_path):
        return False
    return path == cookie_path or cookie_path[-1:] == "/" or path[len(cookie_path)] == "/"


# --- what http.cookiejar wants to see of a request and of a response ---


class HasURL(Protocol):
    """What is read of a request, ours or an urllib-like one."""

    def get_full_url(self) -> str:
        """Return the URL."""


class CookieRequest:
    """Show a URL to http.cookiejar as the urllib request that it expects."""

    __slots__ = ("cookie", "host", "origin_req_host", "type", "url")

    unverifiable = False

    def __init__(self, url: URL) -> None:
        self.url = url
        self.type = url.scheme
        self.host = self.origin_req_host = bare_host(url.host)
        self.cookie: str | None = None

    def get_full_url(self) -> str:
        """Return the URL with the host as cookies name it."""
        return f"{self.type}://{bracketed(self.host)}:{self.url.port}{self.url.path or '/'}"

    def has_header(self, name: str) -> bool:
        """Return False: the flow has looked for a Cookie header already."""
        return False

    def get_header(self, name: str, default: str | None = None) -> str | None:
        """Return the default."""
        return default

    def header_items(self) -> list[tuple[str, str]]:
        """Return no headers."""
        return []

    def add_unredirected_header(self, name: str, value: str) -> None:
        """Keep the Cookie header that the jar has built."""
        if name == "Cookie":
            self.cookie = value


class SetCookies:
    """Show Set-Cookie values to http.cookiejar as the response that it expects."""

    __slots__ = ("_values",)

    def __init__(self, values: Sequence[str]) -> None:
        self._values = values

    def info(self) -> SetCookies:
        """Return the headers: this object itself."""
        return self

    def get_all(self, name: str, default: Sequence[str] = ()) -> Sequence[str]:
        """Return the values of the header."""
        return self._values if name.lower() == "set-cookie" else default


def place_of(request: HasURL) -> tuple[str, str]:
    """Return host and path of our request or of any urllib-like one."""
    if isinstance(request, CookieRequest):
        return request.host, request.url.path or "/"
    try:
        parts = urlsplit(request.get_full_url())
    except ValueError:  # a Host header that is none
        return "", "/"
    return bare_host(parts.hostname or ""), parts.path or "/"


# --- the rules ---


class CookieRules(DefaultCookiePolicy):
    """Hold RFC 6265's rules where the stdlib's policy is laxer.

    Host-only cookies stay on their host, Secure ones are neither set nor sent without TLS, and
    none is for a public suffix: by the Public Suffix List with the extra `psl`, else by a rule of
    thumb (.com, .co.uk, .github.io).
    """

    def set_ok(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Return whether the response to the request may set the cookie."""
        if cookie.secure and request.type not in ("https", "wss"):
            return False
        return super().set_ok(cookie, request)

    def set_ok_domain(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Return whether the request's host may set cookies for the cookie's domain."""
        host, _ = place_of(request)
        if cookie.domain not in matching_domains(host) or not host_allowed(cookie, host):
            return False
        if cookie.domain_specified and is_public_suffix(cookie.domain.lstrip(".")):
            return False
        return super().set_ok_domain(cookie, request)

    def domain_return_ok(self, domain: str, request: UrllibRequest) -> bool:
        """Return whether the request's host may get any cookie of the domain."""
        host, _ = place_of(request)
        return domain in matching_domains(host) and self.domain_allowed(domain)

    def domain_allowed(self, domain: str) -> bool:
        """Return whether the user's block and allow lists let the domain's cookies out."""
        return not (self.is_blocked(domain) or self.is_not_allowed(domain))

    def path_return_ok(self, path: str, request: UrllibRequest) -> bool:
        """Return whether the request's path lies below the cookie's."""
        return path_matches(place_of(request)[1], path)

    def return_ok_domain(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Return whether the request's host may get this very cookie."""
        return host_allowed(cookie, place_of(request)[0])

    def return_ok(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Return whether the cookie may go out with the request."""
        return is_clean(cookie) and super().return_ok(cookie, request)


def is_clean(cookie: Cookie) -> bool:
    """Return whether name and value are free of control characters."""
    return not CONTROL.search(f"{cookie.name}{cookie.value or ''}")


# --- Set-Cookie to Cookie ---


def parse_cookie(line: str, request: HasURL, now: int) -> Cookie | None:
    """Parse one Set-Cookie value by RFC 6265, section 5.2; None when it must be ignored."""
    if len(line) > MAX_LINE_SIZE or _CONTROL_BUT_TAB.search(line):
        return None
    pair, *items = line.split(";")
    name, equals, value = (part.strip(" \t") for part in pair.partition("="))
    if not equals or not name or len(name) + len(value) > MAX_COOKIE_SIZE:
        return None
    if "\t" in name or "\t" in value:
        return None
    attributes = [_attribute(item) for item in items]
    return _build_cookie(name, value, attributes, request, now)


def lines_for_stdlib(lines: Sequence[str], request: HasURL) -> list[str]:
    """Return those Set-Cookie values that a jar of the standard library may see.

    Its own parser fails at a date that is none, and then drops the other cookies as well.
    """
    return [_with_sure_date(line) for line in lines if parse_cookie(line, request, 0)]


def _with_sure_date(line: str) -> str:
    kept, moment = [], None
    for item in line.split(";"):
        key, value = _attribute(item)
        if key.lower() == "expires":
            moment = parse_cookie_date(value)
        else:
            kept.append(item)
    if moment is not None:
        kept.append(f"Expires={time2netscape(moment)}")
    return ";".join(kept)


def _attribute(item: str) -> tuple[str, str]:
    key, _, value = item.partition("=")
    return key.strip(" \t"), value.strip(" \t")


def _build_cookie(
    name: str, value: str, attributes: list[tuple[str, str]], request: HasURL, now: int
) -> Cookie | None:
    known = {key.lower(): text for key, text in attributes}
    host, request_path = place_of(request)
    scope = _scope(known.get("domain", ""), host)
    if scope is None or not host or not _prefix_holds(name.lower(), known):
        return None
    domain, domain_specified = scope
    path = known.get("path", "")
    path_specified = path.startswith("/")
    cookie = new_cookie(
        name,
        value,
        domain,
        domain_specified,
        path if path_specified else request_path[: request_path.rfind("/")] or "/",
        "secure" in known,
        _expiry(known, now),
    )
    cookie.path_specified = path_specified
    for key, text in attributes:
        if key.lower() not in _STANDARD:
            cookie.set_nonstandard_attr(key, text)
    return cookie


def new_cookie(
    name: str,
    value: str,
    domain: str,
    domain_specified: bool,
    path: str,
    secure: bool,
    expires: float | None,
) -> Cookie:
    """Make a cookie; it lives as long as the jar when `expires` (epoch seconds) is None."""
    return Cookie(
        version=0,
        name=name,
        value=value,
        port=None,
        port_specified=False,
        domain=domain,
        domain_specified=domain_specified,
        domain_initial_dot=domain.startswith("."),
        path=path,
        path_specified=True,
        secure=secure,
        expires=expires,
        discard=expires is None,
        comment=None,
        comment_url=None,
        rest={},
    )


def _scope(attribute: str, host: str) -> tuple[str, bool] | None:
    """Return (domain, whether it spans sub-domains) for a Domain attribute, None when foreign."""
    wanted = bare_host(attribute.removeprefix("."))
    alone = _is_ip(host) or "." not in host
    if not wanted or (alone and wanted == host):
        return host, False
    if alone or not f".{host}".endswith(f".{wanted}"):
        return None
    if is_public_suffix(wanted):  # RFC 6265, section 5.3, step 5
        return (host, False) if wanted == host else None
    return f".{wanted}", True


def _prefix_holds(name: str, known: Mapping[str, str]) -> bool:
    """Return whether a __Secure- or __Host- name keeps its promise, RFC 6265bis section 4.1.3."""
    if name.startswith("__host-"):
        return "secure" in known and known.get("path") == "/" and not known.get("domain")
    return not name.startswith("__secure-") or "secure" in known


def _expiry(known: Mapping[str, str], now: int) -> int | None:
    """Return when the cookie expires (epoch seconds); Max-Age wins over Expires."""
    age = known.get("max-age", "")
    if _DELTA_SECONDS.fullmatch(age):
        # A cut number of 12 digits is still far beyond MAX_AGE; int() refuses 4300 of them.
        return now + min(int(age[:12]), MAX_AGE)
    moment = parse_cookie_date(known.get("expires", ""))
    return None if moment is None else min(moment, now + MAX_AGE)
