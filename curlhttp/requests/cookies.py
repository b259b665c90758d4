"""requests.cookies: the cookie jar, and functions that fill it.

The jar is a CookieStore with the standard library's policy, and a dictionary of names. MockRequest
and MockResponse have the methods that http.cookiejar calls on urllib's requests and responses.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from http import cookiejar as cookielib
from http.cookiejar import (  # type: ignore[attr-defined]
    Cookie,
    CookieJar,
    CookiePolicy,
    eff_request_host,
)
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlparse, urlunparse

from curlhttp._http.cookies.jar import (
    CookieConflictError,
    CookieStore,
    NamedCookies,
    copy_cookie,
    remove_cookie_by_name,
)
from curlhttp._http.cookies.parsing import SetCookies, lines_for_stdlib
from curlhttp.requests._internal_utils import GetAttr, make_getattr, to_native_string

if TYPE_CHECKING:
    from http.cookies import Morsel

    from curlhttp.requests._types import AnyRaw
    from curlhttp.requests.models import PreparedRequest

__all__ = [
    "CookieConflictError", "MockRequest", "MockResponse", "RequestsCookieJar",
    "cookiejar_from_dict", "cookielib", "create_cookie", "extract_cookies_to_jar",
    "get_cookie_header", "merge_cookies", "morsel_to_cookie", "remove_cookie_by_name",
]  # fmt: skip

__getattr__: GetAttr = make_getattr(__name__, {"auth": "threading", "compat": "MutableMapping"})

_Jar = TypeVar("_Jar", bound=CookieJar)


class RequestsCookieJar(NamedCookies["str | None"]):
    """A CookieJar that is also a dictionary of names and values.

    Iterating yields Cookie objects; keys(), values() and items() return names and values.
    """

    def _get_value(self, cookie: Cookie) -> str | None:
        return cookie.value

    def set(self, name: str, value: str | Morsel[Any] | None, **kwargs: Any) -> Cookie | None:
        """Store a cookie and return it.

        Args:
            name: its name.
            value: its value. A Morsel has its own name and attributes. None removes the cookies of
                that name (and of the domain and path, if given).
            kwargs: as for create_cookie().
        """
        if value is None:
            remove_cookie_by_name(self, name, kwargs.get("domain"), kwargs.get("path"))
            return None
        cookie = (
            create_cookie(name, value, **kwargs)
            if isinstance(value, str) or not _is_morsel(value)
            else morsel_to_cookie(value)
        )
        self.set_cookie(cookie)
        return cookie

    def iterkeys(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self.keys())

    def itervalues(self) -> Iterator[str | None]:
        """Yield the values."""
        return iter(self.values())

    def iteritems(self) -> Iterator[tuple[str, str | None]]:
        """Yield names with values."""
        return iter(self.items())

    def list_domains(self) -> list[str]:
        """Return the domains, each once."""
        return list(dict.fromkeys(cookie.domain for cookie in self))

    def list_paths(self) -> list[str]:
        """Return the paths, each once."""
        return list(dict.fromkeys(cookie.path for cookie in self))

    def multiple_domains(self) -> bool:
        """Return whether any domain has more than one cookie; the name misleads, as in requests."""
        domains = [cookie.domain for cookie in self if cookie.domain is not None]
        return len(set(domains)) < len(domains)

    def __setitem__(self, name: str, value: str | Morsel[Any] | None) -> None:
        self.set(name, value)

    def set_cookie(self, cookie: Cookie, *args: object, **kwargs: object) -> None:
        """Store a cookie; a quoted value loses its escaped quotes."""
        value = cookie.value
        if isinstance(value, str) and value.startswith('"') and value.endswith('"'):
            cookie.value = value.replace('\\"', "")
        super().set_cookie(cookie, *args, **kwargs)

    def update(self, other: Any) -> None:  # type: ignore[override]
        """Add the cookies of a jar, which are copied, or those of a mapping or pairs."""
        super().update(other)

    def make_cookies(self, response: Any, request: Any) -> Sequence[Cookie]:
        """Parse the Set-Cookie headers of a response, without storing anything."""
        if self._policy.rfc2965:  # the program chose the standard library's rules
            return CookieJar.make_cookies(self, response, request)
        cookies = super().make_cookies(response, request)
        for cookie in cookies:
            if not cookie.domain_specified:
                cookie.domain = eff_request_host(request)[1]  # where the policy looks for it
        return cookies

    def _get_hosts(self, request: Any) -> tuple[str, ...]:
        host, name = eff_request_host(request)
        return (host,) if host == name else (host, name)

    def _cookies_for_domain(self, domain: str, request: Any) -> list[Cookie]:
        # The policy would also return host-only cookies for subdomains.
        own = ("", *self._get_hosts(request))
        cookies: list[Cookie] = super()._cookies_for_domain(domain, request)  # type: ignore[misc]
        return [each for each in cookies if each.domain_specified or domain in own]

    def copy(self) -> RequestsCookieJar:
        """Return a jar with the same policy and copies of the cookies."""
        twin = RequestsCookieJar(self._policy)
        twin.update(self)
        return twin

    def get_policy(self) -> CookiePolicy:
        """Return the policy, which decides who may set and get cookies."""
        return cast(CookiePolicy, self._policy)


def _is_morsel(value: object) -> bool:
    from http.cookies import Morsel

    return isinstance(value, Morsel)


def remove_without_domain(jar: CookieJar) -> None:
    """Remove the cookies without a domain, because they would go to every host."""
    for cookie in list(jar):
        if not cookie.domain:
            jar.clear("", cookie.path, cookie.name)


def create_cookie(name: str, value: Any, **kwargs: Any) -> Cookie:
    """Make a cookie; without a domain it goes to every host.

    Args:
        name: its name.
        value: its value.
        kwargs: version, port, domain, path, secure, expires, discard, comment, comment_url,
            rest and rfc2109, as for http.cookiejar.Cookie.

    Raises:
        TypeError: there is another keyword.
    """
    facts: dict[str, Any] = {
        "version": 0,
        "port": None,
        "domain": "",
        "path": "/",
        "secure": False,
        "expires": None,
        "discard": True,
        "comment": None,
        "comment_url": None,
        "rest": {"HttpOnly": None},
        "rfc2109": False,
    }
    if unknown := sorted(kwargs.keys() - facts.keys()):
        raise TypeError(f"create_cookie() got unexpected keyword arguments: {unknown}")
    facts.update(kwargs)
    return Cookie(
        name=name,
        value=value,
        port_specified=bool(facts["port"]),
        domain_specified=bool(facts["domain"]),
        domain_initial_dot=facts["domain"].startswith("."),
        path_specified=bool(facts["path"]),
        **facts,
    )


def morsel_to_cookie(morsel: Morsel[Any]) -> Cookie:
    """Convert a Morsel to a cookie.

    Raises:
        TypeError: its max-age is not a number.
        ValueError: its expires does not look like "Thu, 01-Jan-1970 00:00:10 GMT".
    """
    return create_cookie(
        morsel.key,
        morsel.value,
        version=morsel["version"] or 0,
        domain=morsel["domain"],
        path=morsel["path"],
        secure=bool(morsel["secure"]),
        expires=_get_expiry(morsel),
        discard=False,
        comment=morsel["comment"],
        comment_url=bool(morsel["comment"]),
        rest={"HttpOnly": morsel["httponly"]},
    )


def _get_expiry(morsel: Morsel[Any]) -> int | None:
    import calendar
    import time

    if age := morsel["max-age"]:
        try:
            return int(time.time() + int(age))
        except ValueError:
            raise TypeError(f"max-age: {age} must be integer") from None
    if date := morsel["expires"]:
        return calendar.timegm(time.strptime(date, "%a, %d-%b-%Y %H:%M:%S GMT"))
    return None


class MockRequest:
    """Adapt a prepared request to http.cookiejar; added headers are stored separately.

    Args:
        request: the prepared request, which is not changed.
    """

    def __init__(self, request: PreparedRequest) -> None:
        self._r = request
        self._new_headers: dict[str, str] = {}
        self.type: str = urlparse(str(request.url)).scheme

    def get_type(self) -> str:
        """Return the scheme."""
        return self.type

    def get_host(self) -> str:
        """Return the URL's host, with its port."""
        return urlparse(str(self._r.url)).netloc

    def get_origin_req_host(self) -> str:
        """Return the host of the request that led here: this one's."""
        return self.get_host()

    def get_full_url(self) -> str:
        """Return the URL, with the host of the Host header when there is one."""
        host = self._r.headers.get("Host")
        if not host:
            return str(self._r.url)
        parts = urlparse(str(self._r.url))
        return str(urlunparse(parts._replace(netloc=to_native_string(host, "utf-8"))))

    def is_unverifiable(self) -> bool:
        """Return True: nobody confirmed the request."""
        return True

    def has_header(self, name: str) -> bool:
        """Return whether the request has the header, or it was added here."""
        return name in self._r.headers or name in self._new_headers

    def get_header(self, name: str, default: Any = None) -> Any:
        """Return a header of the request, else one that was added here."""
        return self._r.headers.get(name, self._new_headers.get(name, default))

    def add_header(self, key: str, val: str) -> None:
        """Raise, because http.cookiejar uses another method."""
        raise NotImplementedError("Cookie headers should be added with add_unredirected_header()")

    def add_unredirected_header(self, name: str, value: str) -> None:
        """Store a header."""
        self._new_headers[name] = value

    def get_new_headers(self) -> dict[str, str]:
        """Return the headers that were added here."""
        return self._new_headers

    @property
    def unverifiable(self) -> bool:
        """True: nobody confirmed the request."""
        return self.is_unverifiable()

    @property
    def origin_req_host(self) -> str:
        """The host of the request that led here."""
        return self.get_origin_req_host()

    @property
    def host(self) -> str:
        """The URL's host, with its port."""
        return self.get_host()


class MockResponse:
    """Adapt a response's headers to http.cookiejar.

    Args:
        headers: an object with get_all(), such as email's Message.
    """

    def __init__(self, headers: Any) -> None:
        self._headers = headers

    def info(self) -> Any:
        """Return the headers."""
        return self._headers

    def getheaders(self, name: str) -> Any:
        """Return the values of a header, as Python 2 did."""
        return self._headers.getheaders(name)


def extract_cookies_to_jar(jar: CookieJar, request: PreparedRequest, response: AnyRaw) -> None:
    """Store the cookies that a response set.

    Args:
        jar: receives them.
        request: the prepared request.
        response: an adapter's `raw`; without an `_original_response` it sets none.
    """
    original = getattr(response, "_original_response", None)
    if not original:
        return
    message, asked = original.msg, MockRequest(request)
    values = message.get_all("Set-Cookie", ())
    if values and not isinstance(jar, CookieStore) and not message.get_all("Set-Cookie2", ()):
        message = SetCookies(lines_for_stdlib(values, asked))
    if values or message.get_all("Set-Cookie2", ()):
        jar.extract_cookies(cast(Any, MockResponse(message)), cast(Any, asked))


def get_cookie_header(jar: CookieJar, request: PreparedRequest) -> str | None:
    """Return the Cookie header that the jar has for a prepared request, or None.

    It is None, too, when the request has a Cookie header already.
    """
    if type(jar) is RequestsCookieJar and not jar._cookies:
        return None
    mock = MockRequest(request)
    jar.add_cookie_header(cast(Any, mock))
    return mock.get_new_headers().get("Cookie")


def cookiejar_from_dict(
    cookie_dict: Mapping[str, str | None] | None,
    cookiejar: CookieJar | None = None,
    overwrite: bool = True,
) -> CookieJar:
    """Put names and values into a jar.

    Args:
        cookie_dict: names and values, or None.
        cookiejar: the jar; a new one by default.
        overwrite: False keeps the jar's cookies of the same name.

    Returns:
        The jar.
    """
    jar = RequestsCookieJar() if cookiejar is None else cookiejar
    if cookie_dict is not None:
        present = set() if overwrite else {cookie.name for cookie in jar}
        for name in cookie_dict:
            if name not in present:
                jar.set_cookie(create_cookie(name, cookie_dict[name]))
    return jar


def merge_cookies(cookiejar: _Jar, cookies: Mapping[str, str | None] | CookieJar | None) -> _Jar:
    """Add cookies to a jar and return it. A dict's cookies do not replace those of the same name.

    Raises:
        ValueError: cookiejar is not a CookieJar.
    """
    if not isinstance(cookiejar, CookieJar):
        raise ValueError("You can only merge into CookieJar")
    if isinstance(cookies, dict):
        cookiejar_from_dict(cookies, cookiejar, overwrite=False)
    elif isinstance(cookies, CookieJar):
        if hasattr(cookiejar, "update"):
            cookiejar.update(cookies)
        else:
            for cookie in cookies:
                cookiejar.set_cookie(cookie)
    return cookiejar


def _copy_cookie_jar(jar: CookieJar | None) -> CookieJar | None:
    if jar is None:
        return None
    if hasattr(jar, "copy"):
        return cast(CookieJar, jar.copy())
    twin = copy.copy(jar)
    twin.clear()
    for cookie in jar:
        twin.set_cookie(copy_cookie(cookie))
    return twin
