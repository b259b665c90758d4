"""Base class of Cookies and of requests' jar: stores cookies by domain, within limits.

It uses http.cookiejar's storage with limits that RFC 6265, section 6.1, allows, and another parser
of Set-Cookie. The stdlib's jar reads the clock; this module does not.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from itertools import islice
from typing import TYPE_CHECKING, TypeVar, cast

from curlhttp._models.cookies.parsing import (
    CookieRules,
    SetCookies,
    get_host_and_path,
    get_site,
    matching_domains,
    parse_cookie,
    path_matches,
)

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import Request as UrllibRequest

__all__ = ["MAX_COOKIES", "CookieStore", "join_pairs"]

# RFC 6265, section 6.1, requires at least 50 per domain, 4096 bytes each, and 3000 in all. Chrome
# keeps 180 per site; no honest response sets more than 50 at once.
MAX_COOKIES_PER_RESPONSE = 50
MAX_COOKIES_PER_SITE = 180
MAX_COOKIES = 3000
MAX_HEADER = 50 * 4096  # characters

_Key = TypeVar("_Key")

_BY_DOMAIN = (DefaultCookiePolicy.domain_return_ok, CookieRules.domain_return_ok)


class _SiteCounts:
    """Count the cookies of a jar by site, in the order in which the sites were last used.

    Attributes:
        cookies: the dictionary whose cookies are counted.
        sizes: how many cookies each domain has, by site.
        totals: how many cookies each site has.
        total: how many cookies there are.
        secure: how many Secure cookies each domain has, by site and name.
    """

    def __init__(self, cookies: dict[str, dict[str, dict[str, Cookie]]]) -> None:
        self.cookies = cookies
        self.sizes: dict[str, dict[str, int]] = {}
        self.totals: dict[str, int] = {}
        self.total = 0
        self.secure: dict[tuple[str, str], dict[str, int]] = {}
        for paths in cookies.values():
            for named in paths.values():
                for cookie in named.values():
                    self.count(cookie, 1)

    def count(self, cookie: Cookie, change: int) -> None:
        """Record that a cookie was added (1) or removed (-1)."""
        site = get_site(cookie.domain)
        self.total += change
        _add(self.totals, site, change)
        _count_in(self.sizes, site, cookie.domain, change)
        if cookie.secure:
            _count_in(self.secure, (site, cookie.name), cookie.domain, change)

    def touch(self, site: str) -> None:
        """Record that a site's cookies were used."""
        sizes = self.sizes.pop(site, None)
        if sizes:
            self.sizes[site] = sizes


def _add(counts: dict[str, int], key: str, change: int) -> None:
    count = counts.get(key, 0) + change
    if count > 0:
        counts[key] = count
    else:
        counts.pop(key, None)


def _count_in(counts: dict[_Key, dict[str, int]], key: _Key, domain: str, change: int) -> None:
    within = counts.setdefault(key, {})
    _add(within, domain, change)
    if not within:
        del counts[key]


class CookieStore(CookieJar):
    """A CookieJar that finds a host's cookies by domain, and whose size no server can exceed.

    Limits apply to cookies that responses set. A program may store any number; when a response then
    sets more, cookies of the least recently used site are removed.
    """

    _cookies: dict[str, dict[str, dict[str, Cookie]]]
    _cookies_lock: threading.RLock
    _policy: DefaultCookiePolicy
    _now: int  # set by the stdlib's make_cookies
    _sites: _SiteCounts | None = None  # created when a response sets the first cookie

    def __iter__(self) -> Iterator[Cookie]:
        # The stdlib's (3.10) sorts by name, and fails if the jar changes meanwhile.
        with self._cookies_lock:
            return iter(
                [
                    cookie
                    for paths in self._cookies.values()
                    for named in paths.values()
                    for cookie in named.values()
                ]
            )

    def __getstate__(self) -> dict[str, object]:
        with self._cookies_lock:
            state = self.__dict__.copy()
            state["_cookies"] = {
                domain: {path: dict(named) for path, named in paths.items()}
                for domain, paths in self._cookies.items()
            }
        del state["_cookies_lock"]
        state.pop("_sites", None)
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._cookies_lock = threading.RLock()

    # what is stored

    def set_cookie(self, cookie: Cookie) -> None:
        """Store a cookie, in place of one with the same name, domain and path."""
        with self._cookies_lock:
            old = self._find(cookie.domain, cookie.path, cookie.name)
            super().set_cookie(cookie)
            if self._sites is not None:
                self._sites.count(cookie, 1)
                if old is not None:
                    self._sites.count(old, -1)

    def clear(
        self, domain: str | None = None, path: str | None = None, name: str | None = None
    ) -> None:
        """Remove one cookie, or all of a path, a domain or the jar.

        Raises:
            KeyError: no such cookie.
        """
        with self._cookies_lock:
            if domain is None or path is None or name is None:
                self._sites = None
                super().clear(domain, path, name)
                return
            old = self._find(domain, path, name)
            super().clear(domain, path, name)
            # The stdlib leaves empty dictionaries behind: a server could fill the memory with them.
            paths = self._cookies[domain]
            if not paths[path]:
                del paths[path]
            if not paths:
                del self._cookies[domain]
            if self._sites is not None and old is not None:
                self._sites.count(old, -1)

    def _find(self, domain: str, path: str, name: str) -> Cookie | None:
        return self._cookies.get(domain, {}).get(path, {}).get(name)

    def _remove(self, cookie: Cookie) -> None:
        """Remove the stored cookie with the same name, domain and path, if any."""
        with self._cookies_lock:
            if self._find(cookie.domain, cookie.path, cookie.name) is not None:
                self.clear(cookie.domain, cookie.path, cookie.name)

    # what servers set

    def extract_cookies(self, response: HTTPResponse, request: UrllibRequest) -> None:
        """Store the response's cookies that the policy allows."""
        with self._cookies_lock:
            for cookie in self.make_cookies(response, request):
                if not self._is_guarded(cookie, request) and self._policy.set_ok(cookie, request):
                    self._store_received(cookie)

    def make_cookies(self, response: HTTPResponse, request: UrllibRequest) -> Sequence[Cookie]:
        """Parse the response's Set-Cookie headers, without storing anything.

        The stdlib's parser fails at dates, and deletes cookies that a response expires even if
        another site owns them. Here an expired cookie has to pass the policy like any other.
        """
        self._set_now(request)
        lines = response.info().get_all("Set-Cookie", ())
        parsed = (parse_cookie(line, request, self._now) for line in lines)
        return list(islice(filter(None, parsed), MAX_COOKIES_PER_RESPONSE))

    def _set_now(self, request: UrllibRequest) -> None:
        super().make_cookies(cast("HTTPResponse", SetCookies(())), request)

    def _store_received(self, cookie: Cookie) -> None:
        """Store a cookie that a server set, and make room for it."""
        if cookie.is_expired():
            self._remove(cookie)
            return
        sites = self._get_sites()
        before = sites.total
        self.set_cookie(cookie)
        site = get_site(cookie.domain)
        sites.touch(site)
        if sites.total <= before:
            return
        if sites.totals[site] > MAX_COOKIES_PER_SITE:
            self._evict(site, cookie)
        if sites.total > MAX_COOKIES:
            self._evict(next(filter(None, sites.sizes)), cookie)  # "": the program's own

    def _get_sites(self) -> _SiteCounts:
        sites = self._sites
        if sites is None or sites.cookies is not self._cookies:
            sites = self._sites = _SiteCounts(self._cookies)
        return sites

    def _evict(self, site: str, newest: Cookie) -> None:
        """Remove a cookie of a site, from the domain that has the most.

        So a host that sets too many loses its own cookies, not those of its neighbours. Of the
        oldest cookies an expired one is removed first, then one that is not Secure.
        """
        sizes = self._get_sites().sizes[site]
        domain = max(islice(sizes, MAX_COOKIES_PER_SITE), key=sizes.__getitem__)
        cookies = (
            cookie for named in self._cookies.get(domain, {}).values() for cookie in named.values()
        )
        oldest = [old for old in islice(cookies, MAX_COOKIES_PER_SITE) if old is not newest]
        if oldest:
            self._remove(min(oldest, key=lambda old: (not old.is_expired(), old.secure)))

    def _is_guarded(self, cookie: Cookie, request: UrllibRequest) -> bool:
        """Return whether a response without TLS would replace a Secure one (RFC 6265bis, 5.7)."""
        if request.type in ("https", "wss"):
            return False
        return any(
            old.secure and path_matches(cookie.path, old.path) for old in self._find_secure(cookie)
        )

    def _find_secure(self, cookie: Cookie) -> Iterator[Cookie]:
        """Yield Secure cookies of that name whose domains contain this one's, or are within it."""
        own = cookie.domain.lstrip(".")
        secure = self._get_sites().secure
        for site in ("", get_site(own)):
            for domain in secure.get((site, cookie.name), ()):
                if _are_related(domain.lstrip("."), own):
                    for named in self._cookies.get(domain, {}).values():
                        if (found := named.get(cookie.name)) is not None:
                            yield found

    # what requests carry

    def add_cookie_header(self, request: UrllibRequest) -> None:
        """Add the Cookie header, unless the request has one, and remove expired cookies."""
        if self._policy.rfc2965:
            super().add_cookie_header(request)
            return
        with self._cookies_lock:
            self._set_now(request)
            attributes = self._cookie_attrs(self._cookies_for_request(request))  # type: ignore[attr-defined]
            if attributes and not request.has_header("Cookie"):
                request.add_unredirected_header("Cookie", join_pairs(attributes))

    def _cookies_for_request(self, request: UrllibRequest) -> list[Cookie]:
        cookies: list[Cookie] = []
        for domain in self._domains_for(request):
            cookies += self._cookies_for_domain(domain, request)  # type: ignore[attr-defined]
            self._drop_expired(domain)
        return cookies

    def _domains_for(self, request: UrllibRequest) -> list[str]:
        """Return the jar's domains whose cookies a request may have, in the jar's order."""
        if type(self._policy).domain_return_ok not in _BY_DOMAIN:
            return list(self._cookies)  # the policy may decide otherwise about domains
        found = self._get_domains(*self._get_hosts(request))
        return found if len(found) < 2 else [each for each in self._cookies if each in found]

    def _get_hosts(self, request: UrllibRequest) -> tuple[str, ...]:
        """Return the names that a request's host has in cookies."""
        return (get_host_and_path(request)[0],)

    def _get_domains(self, *hosts: str) -> list[str]:
        """Return the jar's domains whose cookies the hosts may have."""
        cookies = self._cookies
        found = [each for host in hosts for each in matching_domains(host) if each in cookies]
        if found and self._sites is not None:
            self._sites.touch(get_site(hosts[0]))
        return found

    def _drop_expired(self, domain: str) -> None:
        expired = [
            cookie
            for named in self._cookies[domain].values()
            for cookie in named.values()
            if cookie.expires is not None and cookie.is_expired()
        ]
        for cookie in expired:
            self._remove(cookie)


def join_pairs(pairs: Sequence[str]) -> str:
    """Return a Cookie header of "name=value" pairs, without those beyond MAX_HEADER."""
    header = "; ".join(pairs)
    if len(header) <= MAX_HEADER:
        return header
    kept, left = [], MAX_HEADER
    for pair in pairs:
        size = len(pair) + 2
        if size <= left:
            kept.append(pair)
            left -= size
    return "; ".join(kept)


def _are_related(one: str, other: str) -> bool:
    return not one or f".{one}".endswith(f".{other}") or other.endswith(f".{one}")
