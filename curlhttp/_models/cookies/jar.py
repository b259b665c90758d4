"""The cookie jar: a CookieStore with RFC 6265's rules, and a dictionary of names.

Import it only when a jar is needed: http.cookiejar imports urllib.request and email.
The stdlib's jar reads the clock; this module does not.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, TypeVar, cast

from curlhttp._models.cookies.parsing import (
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
    from curlhttp._models.url import URL

__all__ = [
    "CookieConflictError",
    "Cookies",
    "NamedCookies",
    "cookie_header",
    "copy_cookie",
    "remove_cookie_by_name",
    "store_cookies",
]

_Value = TypeVar("_Value")


class CookieConflictError(RuntimeError):
    """Report that several cookies have the name; pass a domain or a path to get()."""


class NamedCookies(CookieStore, MutableMapping[str, _Value]):
    """A CookieStore that is also a dictionary of names.

    Iterating yields Cookie objects; keys(), values() and items() return names and values.
    """

    def _get_value(self, cookie: Cookie) -> _Value:
        """Return the value that the dictionary has for a cookie."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Cookie]:  # type: ignore[override]
        return super().__iter__()

    def __contains__(self, name: object) -> bool:
        return any(cookie.name == name for cookie in self)

    def __getitem__(self, name: str) -> _Value:
        return self._only(name)

    def __delitem__(self, name: str) -> None:
        remove_cookie_by_name(self, name)

    def keys(self) -> list[str]:  # type: ignore[override]
        """Return the names; a name that several cookies have is repeated."""
        return [cookie.name for cookie in self]

    def values(self) -> list[_Value]:  # type: ignore[override]
        """Return the values in the order of keys()."""
        return [self._get_value(cookie) for cookie in self]

    def items(self) -> list[tuple[str, _Value]]:  # type: ignore[override]
        """Return names and values in the order of keys()."""
        return [(cookie.name, self._get_value(cookie)) for cookie in self]

    def get(  # type: ignore[override]
        self,
        name: str,
        default: _Value | None = None,
        domain: str | None = None,
        path: str | None = None,
    ) -> _Value | None:
        """Return the value of the one cookie that matches, or the default.

        Raises:
            CookieConflictError: several cookies match.
        """
        try:
            return self._only(name, domain, path)
        except KeyError:
            return default

    def get_dict(self, domain: str | None = None, path: str | None = None) -> dict[str, _Value]:
        """Return names and values, optionally of one domain and path only."""
        found = _matching(self, None, domain, path)
        return {cookie.name: self._get_value(cookie) for cookie in found}

    def update(  # type: ignore[override]
        self,
        other: Mapping[str, _Value] | Iterable[tuple[str, _Value]] | CookieJar = (),
        **names: _Value,
    ) -> None:
        """Add copies of the cookies of a jar, or the names and values of a mapping or pairs."""
        if isinstance(other, CookieJar):
            for cookie in other:
                self.set_cookie(copy_cookie(cookie))
            other = ()
        kind = type(other).__name__  # only the type, because the value may be a secret
        if kind in ("str", "bytes") or not hasattr(other, "__iter__"):
            raise TypeError(
                f'cookies are a mapping, pairs or a jar, not {kind}: {{"name": "value"}}'
            )
        super().update(other, **names)

    def _only(self, name: str, domain: str | None = None, path: str | None = None) -> _Value:
        found = _matching(self, name, domain, path)
        if not found:
            raise KeyError(f"name={name!r}, domain={domain!r}, path={path!r}")
        if len(found) > 1:
            raise CookieConflictError(
                f"There are multiple cookies with name, {name!r}; pass domain= or path="
            )
        return self._get_value(found[0])


def copy_cookie(cookie: Cookie) -> Cookie:
    """Return a copy of a cookie."""
    if type(cookie) is not Cookie:
        return copy.copy(cookie)
    clone = object.__new__(Cookie)  # copy() is ten times slower
    clone.__dict__.update(cookie.__dict__)
    return clone


def remove_cookie_by_name(
    cookiejar: CookieJar, name: str, domain: str | None = None, path: str | None = None
) -> None:
    """Remove every cookie of a name, optionally of one domain and path only."""
    for cookie in _matching(cookiejar, name, domain, path):
        cookiejar.clear(cookie.domain, cookie.path, cookie.name)


def _matching(
    jar: CookieJar, name: str | None, domain: str | None, path: str | None
) -> list[Cookie]:
    return [
        cookie
        for cookie in jar
        if (name is None or cookie.name == name)
        and (domain is None or cookie.domain == domain)
        and (path is None or cookie.path == path)
    ]


class Cookies(NamedCookies[str]):
    """Keep cookies; a stdlib CookieJar that is also a dictionary of names, as requests' jar is.

    Iterating yields Cookie objects; keys(), values() and items() return names and values.
    A cookie without a domain is sent to every host; bind() restricts it to one.

    Args:
        cookies: a mapping or pairs of names and values, or another jar to copy from.
        policy: decides who may set and get cookies; CookieRules by default.
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

    def _get_value(self, cookie: Cookie) -> str:
        return cookie.value or ""

    def __setitem__(self, name: str, value: str | None) -> None:
        self.set(name, value)

    def __repr__(self) -> str:
        # Values are often session secrets, so only names are shown.
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
            domain: the host that gets it, with its sub-domains; empty means every host.
            path: the path below which it is sent.
            secure: True if it must only be sent over TLS.
            expires: epoch seconds, or None for the life of the jar.

        Raises:
            InvalidHeader: the name or the value holds control characters.
        """
        if value is None:
            self.delete(name, domain or None)
            return None
        if CONTROL.search(f"{name}{value}"):
            raise InvalidHeader("A cookie's name and value cannot contain control characters")
        cookie = new_cookie(name, value, domain.lower(), bool(domain), path, secure, expires)
        self.set_cookie(cookie)
        return cookie

    def delete(self, name: str, domain: str | None = None, path: str | None = None) -> None:
        """Delete every cookie of that name, optionally of one domain and path only."""
        with self._cookies_lock:
            remove_cookie_by_name(self, name, domain, path)

    # copies

    def copy(self) -> Cookies:
        """Return a jar with the same policy and copies of the cookies."""
        return type(self)(self, self._policy)

    def bind(self, url: URL) -> Cookies:
        """Return a copy whose cookies without a domain belong to the URL's host alone.

        The cookies of one request are meant for its host: a redirect to another host must not
        get them.
        """
        bound = type(self)(policy=self._policy)
        for cookie in self:
            clone = copy_cookie(cookie)
            clone.domain = cookie.domain or bare_host(url.host)
            bound.set_cookie(clone)
        return bound

    def get_policy(self) -> DefaultCookiePolicy:
        """Return the policy that decides who may set and get cookies."""
        return self._policy

    def set_cookie(self, cookie: Cookie) -> None:
        """Store a cookie; an expired one removes the stored cookie instead."""
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
            for domain in self._get_domains(host):
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


# --- called by the flow ---


def cookie_header(jar: CookieJar, url: URL) -> str | None:
    """Return the Cookie header that the jar has for the URL, or None."""
    if not getattr(jar, "_cookies", True):
        return None
    if isinstance(jar, Cookies) and type(jar._policy) is CookieRules:
        return jar.header_for(url)
    request = CookieRequest(url)
    jar.add_cookie_header(cast("UrllibRequest", request))
    return request.cookie


def store_cookies(jar: CookieJar, url: URL, set_cookie_values: Sequence[str]) -> None:
    """Store the cookies that a response from the URL sets."""
    request = CookieRequest(url)
    if not isinstance(jar, CookieStore):
        set_cookie_values = lines_for_stdlib(set_cookie_values, request)
    response = SetCookies(set_cookie_values)
    jar.extract_cookies(cast("HTTPResponse", response), cast("UrllibRequest", request))
