"""requests' cookie jar, and the making of single cookies.

The jar is a CookieStore with the standard library's policy, and a dictionary of names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http.cookiejar import (  # type: ignore[attr-defined]
    Cookie,
    CookieJar,
    CookiePolicy,
    eff_request_host,
)
from typing import TYPE_CHECKING, Any, cast

from curlhttp._models.cookies.jar import NamedCookies, remove_cookie_by_name

if TYPE_CHECKING:
    from http.cookies import Morsel

__all__ = [
    "RequestsCookieJar",
    "create_cookie",
    "morsel_to_cookie",
    "remove_unbound",
]


class RequestsCookieJar(NamedCookies["str | None"]):
    """Keep cookies; a CookieJar that is a dictionary of names and values as well.

    Iterating over the jar gives Cookie objects; keys(), values() and items() speak of names.
    """

    def _get_value(self, cookie: Cookie) -> str | None:
        return cookie.value

    def set(self, name: str, value: str | Morsel[Any] | None, **kwargs: Any) -> Cookie | None:
        """Store a cookie and return it.

        Args:
            name: its name.
            value: its value; a Morsel brings its own name and attributes, None removes the
                cookies of that name (and of the domain and path, when given).
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
        """Give the names."""
        return iter(self.keys())

    def itervalues(self) -> Iterator[str | None]:
        """Give the values."""
        return iter(self.values())

    def iteritems(self) -> Iterator[tuple[str, str | None]]:
        """Give names with values."""
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
        if self._policy.rfc2965:  # somebody wants the standard library's own rules
            return CookieJar.make_cookies(self, response, request)
        cookies = super().make_cookies(response, request)
        for cookie in cookies:
            if not cookie.domain_specified:
                cookie.domain = eff_request_host(request)[1]  # as the policy will look for it
        return cookies

    def _get_hosts(self, request: Any) -> tuple[str, ...]:
        host, name = eff_request_host(request)
        return (host,) if host == name else (host, name)

    def _cookies_for_domain(self, domain: str, request: Any) -> list[Cookie]:
        # The policy would let the subdomains of a host have what it set for itself alone.
        own = ("", *self._get_hosts(request))
        cookies: list[Cookie] = super()._cookies_for_domain(domain, request)  # type: ignore[misc]
        return [each for each in cookies if each.domain_specified or domain in own]

    def copy(self) -> RequestsCookieJar:
        """Return a jar with the same policy and copies of the cookies."""
        twin = RequestsCookieJar(self._policy)
        twin.update(self)
        return twin

    def get_policy(self) -> CookiePolicy:
        """Return the policy that says who may set and get cookies."""
        return cast(CookiePolicy, self._policy)


def _is_morsel(value: object) -> bool:
    from http.cookies import Morsel

    return isinstance(value, Morsel)


def remove_unbound(jar: CookieJar) -> None:
    """Remove the cookies that have no domain, and would go to every host."""
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
        TypeError: another keyword was given.
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
    """Make a cookie of a Morsel.

    Raises:
        TypeError: its max-age is not a number.
        ValueError: its expires is not such as "Thu, 01-Jan-1970 00:00:10 GMT".
    """
    return create_cookie(
        morsel.key,
        morsel.value,
        version=morsel["version"] or 0,
        domain=morsel["domain"],
        path=morsel["path"],
        secure=bool(morsel["secure"]),
        expires=_expiry(morsel),
        discard=False,
        comment=morsel["comment"],
        comment_url=bool(morsel["comment"]),
        rest={"HttpOnly": morsel["httponly"]},
    )


def _expiry(morsel: Morsel[Any]) -> int | None:
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
