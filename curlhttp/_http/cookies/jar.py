"""The cookie jar: a CookieJar of the stdlib with RFC 6265's rules, and a dictionary of names.

Import it only when a jar is needed: http.cookiejar imports urllib.request and email.
The stdlib's jar reads the clock; this module does not.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from http.cookiejar import Cookie, CookieJar, DefaultCookiePolicy
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar, cast, overload

from curlhttp._http.cookies.parsing import (
    CONTROL,
    CookieRequest,
    CookieRules,
    SetCookies,
    bare_host,
    get_host_and_path,
    get_site,
    host_allowed,
    is_clean,
    lines_for_stdlib,
    matching_domains,
    new_cookie,
    parse_cookie,
    path_matches,
)
from curlhttp._http.suggestions import without_attributes
from curlhttp.exceptions import InvalidHeader

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import Request as UrllibRequest

    from curlhttp._http.inputs import CookiesInput
    from curlhttp._http.url import URL

# --- the store, by domain and within limits ---

# RFC 6265, section 6.1, requires at least 50 per domain, 4096 bytes each, and 3000 in all. Chrome
# keeps 180 per site; no honest response sets more than 50 at once.
MAX_COOKIES_PER_RESPONSE = 50
MAX_COOKIES_PER_SITE = 180
MAX_COOKIES = 3000
MAX_HEADER = 50 * 4096  # characters

_Key = TypeVar("_Key")
_CookieKey: TypeAlias = "tuple[str, str, str]"  # domain, path, name

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

    It uses the stdlib's storage with another parser of Set-Cookie. Limits apply to cookies that
    responses set. A program may store any number; when a response then sets more, cookies of the
    least recently used site are removed.
    """

    _cookies: dict[str, dict[str, dict[str, Cookie]]]
    _cookies_lock: threading.RLock
    _policy: DefaultCookiePolicy
    _now: int  # set by the stdlib's make_cookies
    _sites: _SiteCounts | None = None  # created when a response sets the first cookie

    def __iter__(self) -> Iterator[Cookie]:
        # In Python 3.10, the stdlib's sorts by name, and fails if another thread changes the jar.
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

    # storage

    def set_cookie(self, cookie: Cookie) -> None:
        """Store a cookie, which replaces one with the same name, domain and path."""
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

    # Set-Cookie

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

    # Cookie

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
        for domain in self._find_domains(request):
            cookies += self._cookies_for_domain(domain, request)  # type: ignore[attr-defined]
            self._drop_expired(domain)
        return cookies

    def _find_domains(self, request: UrllibRequest) -> list[str]:
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


# --- a dictionary of names ---

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


class CookieConflictError(RuntimeError):
    """Report that several cookies have the name; pass a domain or a path to get()."""


if TYPE_CHECKING:

    class _Names(Generic[_Value]):
        """What MutableMapping adds, except that it says that iterating yields the keys."""

        def __eq__(self, other: object) -> bool: ...
        def __setitem__(self, name: str, value: _Value) -> None: ...
        def setdefault(self, name: str, default: _Value) -> _Value: ...
        def popitem(self) -> tuple[str, _Value]: ...
        @overload
        def pop(self, name: str) -> _Value: ...
        @overload
        def pop(self, name: str, default: _Default) -> _Value | _Default: ...
        def pop(self, name: str, default: object = None) -> object: ...

else:
    _Names = MutableMapping


class NamedCookies(CookieStore, _Names[_Value]):
    """A CookieStore that is also a dictionary of names.

    Iterating yields Cookie objects; keys(), values() and items() return names and values.
    """

    def _get_value(self, cookie: Cookie) -> _Value:
        """Return the value that the dictionary has for a cookie."""
        raise NotImplementedError

    def __contains__(self, name: object) -> bool:
        return any(cookie.name == name for cookie in self)

    def __getitem__(self, name: str) -> _Value:
        return self._get_only(name)

    def __delitem__(self, name: str) -> None:
        remove_cookie_by_name(self, name)

    def keys(self) -> list[str]:
        """Return the names; a name that several cookies have is repeated."""
        return [cookie.name for cookie in self]

    def values(self) -> list[_Value]:
        """Return the values in the order of keys()."""
        return [self._get_value(cookie) for cookie in self]

    def items(self) -> list[tuple[str, _Value]]:
        """Return names and values in the order of keys()."""
        return [(cookie.name, self._get_value(cookie)) for cookie in self]

    def get(
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
            return self._get_only(name, domain, path)
        except KeyError:
            return default

    def get_dict(self, domain: str | None = None, path: str | None = None) -> dict[str, _Value]:
        """Return names and values, optionally of one domain and path only."""
        found = _find_cookies(self, None, domain, path)
        return {cookie.name: self._get_value(cookie) for cookie in found}

    def update(
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
        if not hasattr(other, "keys"):
            other = tuple(other)
            if not all(isinstance(each, (tuple, list)) and len(each) == 2 for each in other):
                raise TypeError('cookies are a mapping, pairs or a jar, such as {"name": "value"}')
        MutableMapping.update(self, other, **names)

    def _get_only(self, name: str, domain: str | None = None, path: str | None = None) -> _Value:
        found = _find_cookies(self, name, domain, path)
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
    for cookie in _find_cookies(cookiejar, name, domain, path):
        cookiejar.clear(cookie.domain, cookie.path, cookie.name)


def _find_cookies(
    jar: CookieJar, name: str | None, domain: str | None, path: str | None
) -> list[Cookie]:
    return [
        cookie
        for cookie in jar
        if (name is None or cookie.name == name)
        and (domain is None or cookie.domain == domain)
        and (path is None or cookie.path == path)
    ]


@without_attributes("cookies", "clear_domain cookies filter_cookies load save update_cookies")
class Cookies(NamedCookies[str]):
    """Store cookies: a stdlib CookieJar that is also a dictionary of names, like requests' jar.

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
        self._created: dict[_CookieKey, int] = {}
        self._last_created = 0
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
            domain: the host that gets it, with its subdomains; an empty domain means every host.
            path: the path below which it is sent.
            secure: True if it must only be sent over TLS.
            expires: epoch seconds, or None for the life of the jar.

        Raises:
            InvalidHeader: the name or the value contains control characters.
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
        get them, and one from https to http must not send them in the clear.
        """
        bound = type(self)(policy=self._policy)
        for cookie in self:
            clone = copy_cookie(cookie)
            if not cookie.domain:
                clone.domain = bare_host(url.host)
                clone.secure = cookie.secure or url.scheme == "https"
            bound.set_cookie(clone)
        return bound

    def get_policy(self) -> DefaultCookiePolicy:
        """Return the policy that decides who may set and get cookies."""
        return self._policy

    def set_cookie(self, cookie: Cookie) -> None:
        """Store a cookie; an expired one removes the stored cookie instead."""
        if cookie.expires is None or not cookie.is_expired():
            with self._cookies_lock:
                super().set_cookie(cookie)
                self._last_created += 1
                # One that replaces another keeps its place (RFC 6265, section 5.3, step 11.3).
                self._created.setdefault(_get_key(cookie), self._last_created)
        else:
            self._remove(cookie)

    def clear(
        self, domain: str | None = None, path: str | None = None, name: str | None = None
    ) -> None:
        """Remove one cookie, or all of a path, a domain or the jar.

        Raises:
            KeyError: no such cookie.
        """
        with self._cookies_lock:
            super().clear(domain, path, name)
            if domain is None or path is None or name is None:
                self._created = {
                    key: number for key, number in self._created.items() if self._find(*key)
                }
            else:
                self._created.pop((domain, path, name), None)

    # by age

    def _get_age(self, cookie: Cookie) -> int:
        return self._created.get(_get_key(cookie), 0)

    def __iter__(self) -> Iterator[Cookie]:
        with self._cookies_lock:
            return iter(sorted(super().__iter__(), key=self._get_age))

    def _cookies_for_request(self, request: UrllibRequest) -> list[Cookie]:
        return sorted(super()._cookies_for_request(request), key=self._get_age)

    def __getstate__(self) -> dict[str, object]:
        with self._cookies_lock:
            return {**super().__getstate__(), "_created": self._created.copy()}

    # Cookie

    def header_for(self, url: URL) -> str | None:
        """Return the Cookie header for the URL, or None.

        Longer paths come first, then older cookies (RFC 6265, section 5.4).
        """
        host, path, secure = bare_host(url.host), url.path or "/", url.scheme == "https"
        found: list[Cookie] = []
        with self._cookies_lock:
            domains = self._get_domains(host)
            for domain in domains:
                # cookie_header calls this only if the policy is a CookieRules.
                if not self._policy.domain_allowed(domain):  # type: ignore[attr-defined]
                    continue
                expired = False
                for cookie in _find_cookies_below(self._cookies[domain], path):
                    if cookie.expires is not None and cookie.is_expired():
                        expired = True
                    elif (secure or not cookie.secure) and host_allowed(cookie, host):
                        found.append(cookie)
                if expired:
                    self._drop_expired(domain)
            if len(domains) > 1:  # within a domain, those of one path are in this order already
                found.sort(key=self._get_age)
        return _join(found)


def _get_key(cookie: Cookie) -> _CookieKey:
    return cookie.domain, cookie.path, cookie.name


def _find_cookies_below(paths: Mapping[str, Mapping[str, Cookie]], path: str) -> Iterator[Cookie]:
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
