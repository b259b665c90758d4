"""The cookie jar: a CookieStore with RFC 6265's rules, and a dictionary of names.

Import it only when a jar is needed: http.cookiejar drags in urllib.request and email.
It reads no clock of its own (the stdlib's jar does) and knows nothing of transfers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, cast

from curlhttp._models.cookies.named import NamedCookies, remove_cookie_by_name, twin_of
from curlhttp._models.cookies.rules import (
    CONTROL,
    CookieRequest,
    CookieRules,
    SetCookies,
    bare_host,
    host_allowed,
    is_clean,
    lines_for_stdlib,
    new_cookie,
    path_matches,
)
from curlhttp._models.cookies.store import CookieStore, join_pairs
from curlhttp.exceptions import InvalidHeader

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import Request as UrllibRequest

    from curlhttp._models.inputs import CookiesInput
    from curlhttp._models.url.url import URL

__all__ = [
    "CookieRules",
    "Cookies",
    "cookie_header",
    "store_cookies",
]


class Cookies(NamedCookies[str]):
    """Keep cookies; a stdlib CookieJar that is also a dictionary of names, as requests' jar is.

    Iterating yields Cookie objects; keys(), values() and items() speak of names and values.
    A cookie that is set without a domain goes to every host: bind() ties it to one.

    Args:
        cookies: a mapping or pairs of names and values, or another jar to copy from.
        policy: who may set and get cookies; CookieRules by default.
    """

    def __init__(
        self,
        cookies: CookiesInput | None = None,
        policy: DefaultCookiePolicy | None = None,
    ) -> None:
        super().__init__(policy or CookieRules())
        if cookies is not None:
            self.update(cookies)

    # a dictionary of names

    def _value_of(self, cookie: Cookie) -> str:
        return cookie.value or ""

    def __setitem__(self, name: str, value: str | None) -> None:
        self.set(name, value)

    def __repr__(self) -> str:
        # Values are often session secrets: name them, do not show them.
        names = ", ".join(f"{cookie.name} for {cookie.domain}{cookie.path}" for cookie in self)
        return f"<{type(self).__name__} [{names}]>"

    __str__ = __repr__

    def set(
        self,
        name: str,
        value: str | None,
        domain: str = "",
        path: str = "/",
        secure: bool = False,
        expires: float | None = None,
    ) -> Cookie | None:
        """Store a cookie and return it; a value of None deletes it.

        Args:
            name: its name.
            value: its value, sent as it is.
            domain: the host and its sub-domains that get it; empty means every host.
            path: the path below which it is sent.
            secure: True when it must only go out over TLS.
            expires: epoch seconds, or None for the life of the jar.

        Raises:
            InvalidHeader: the name or the value holds control characters.
        """
        if value is None:
            self.delete(name, domain or None)
            return None
        if CONTROL.search(f"{name}{value}"):
            raise InvalidHeader("A cookie's name and value cannot hold control characters")
        cookie = new_cookie(name, value, domain.lower(), bool(domain), path, secure, expires)
        self.set_cookie(cookie)
        return cookie

    def delete(self, name: str, domain: str | None = None, path: str | None = None) -> None:
        """Delete every cookie of that name, or those of a domain and path; none is no error."""
        with self._cookies_lock:
            remove_cookie_by_name(self, name, domain, path)

    # copies

    def copy(self) -> Cookies:
        """Return a jar with the same policy and copies of the cookies."""
        return type(self)(self, self._policy)

    def bind(self, url: URL) -> Cookies:
        """Return a copy whose cookies without a domain belong to the URL's host alone.

        Cookies given with one request are the user's for that host: a redirect elsewhere
        must not carry them along.
        """
        bound = type(self)(policy=self._policy)
        for cookie in self:
            twin = twin_of(cookie)
            twin.domain = cookie.domain or bare_host(url.host)
            bound.set_cookie(twin)
        return bound

    def get_policy(self) -> DefaultCookiePolicy:
        """Return the policy that is asked who may set and get cookies."""
        return self._policy

    def set_cookie(self, cookie: Cookie) -> None:
        """Store a cookie; one that has expired removes its namesake instead."""
        if cookie.expires is None or not cookie.is_expired():
            super().set_cookie(cookie)
        else:
            self._remove(cookie)

    # what requests carry

    def header_for(self, url: URL) -> str | None:
        """Return the Cookie header for the URL, or None; longer paths come first (RFC 6265)."""
        host, path, secure = bare_host(url.host), url.path or "/", url.scheme == "https"
        found: list[Cookie] = []
        with self._cookies_lock:
            for domain in self._domains_of(host):
                # cookie_header asks only jars that have CookieRules.
                if not self._policy.domain_allowed(domain):  # type: ignore[attr-defined]
                    continue
                expired = False
                for cookie in _below(self._cookies[domain], path):
                    if cookie.expires is not None and cookie.is_expired():
                        expired = True
                    elif (secure or not cookie.secure) and host_allowed(cookie, host):
                        found.append(cookie)
                if expired:
                    self._drop_expired(domain)
        return _join(found)


def _below(paths: Mapping[str, Mapping[str, Cookie]], path: str) -> Iterator[Cookie]:
    for cookie_path, named in paths.items():
        if cookie_path == "/" or path_matches(path, cookie_path):
            yield from named.values()


def _join(cookies: list[Cookie]) -> str | None:
    if len(cookies) > 1:
        cookies.sort(key=lambda cookie: -len(cookie.path))
    pairs = list(map(_pair, cookies))
    header = join_pairs(pairs)
    if CONTROL.search(header):
        header = join_pairs(list(map(_pair, filter(is_clean, cookies))))
    return header or None


def _pair(cookie: Cookie) -> str:
    return cookie.name if cookie.value is None else f"{cookie.name}={cookie.value}"


# --- what the flow calls ---


def cookie_header(jar: CookieJar, url: URL) -> str | None:
    """Return the Cookie header that the jar has for the URL, None at once when it is empty."""
    if not getattr(jar, "_cookies", True):
        return None
    if isinstance(jar, Cookies) and type(jar._policy) is CookieRules:
        return jar.header_for(url)
    request = CookieRequest(url)
    jar.add_cookie_header(cast("UrllibRequest", request))
    return request.cookie


def store_cookies(jar: CookieJar, url: URL, set_cookie_values: Sequence[str]) -> None:
    """Store what a response from the URL sets; call it only when Set-Cookie came."""
    request = CookieRequest(url)
    if not isinstance(jar, CookieStore):
        set_cookie_values = lines_for_stdlib(set_cookie_values, request)
    response = SetCookies(set_cookie_values)
    jar.extract_cookies(cast("HTTPResponse", response), cast("UrllibRequest", request))
