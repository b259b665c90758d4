"""What Cookies and requests' jar have in common as dictionaries: names, values and copies."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from http.cookiejar import Cookie, CookieJar
from typing import TypeVar

from curlhttp._models.cookies.store import CookieStore

__all__ = ["CookieConflictError", "NamedCookies", "remove_cookie_by_name", "twin_of"]

_Value = TypeVar("_Value")


class CookieConflictError(RuntimeError):
    """Report that several cookies have the name; give get() a domain or a path."""


class NamedCookies(CookieStore, MutableMapping[str, _Value]):
    """A CookieStore that is also a dictionary of names.

    Iterating over it gives Cookie objects; keys(), values() and items() speak of names and values.
    """

    def _value_of(self, cookie: Cookie) -> _Value:
        """Return a cookie's value as the dictionary has it."""
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
        """Return the names; one that several cookies have is there several times."""
        return [cookie.name for cookie in self]

    def values(self) -> list[_Value]:  # type: ignore[override]
        """Return the values in the order of keys()."""
        return [self._value_of(cookie) for cookie in self]

    def items(self) -> list[tuple[str, _Value]]:  # type: ignore[override]
        """Return names and values in the order of keys()."""
        return [(cookie.name, self._value_of(cookie)) for cookie in self]

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
        """Return names and values, of one domain and path when these are given."""
        found = _matching(self, None, domain, path)
        return {cookie.name: self._value_of(cookie) for cookie in found}

    def update(  # type: ignore[override]
        self,
        other: Mapping[str, _Value] | Iterable[tuple[str, _Value]] | CookieJar = (),
        **names: _Value,
    ) -> None:
        """Add the cookies of a jar, which are copied, or those of a mapping or pairs."""
        if isinstance(other, CookieJar):
            for cookie in other:
                self.set_cookie(twin_of(cookie))
            other = ()
        kind = type(other).__name__  # and no more of it: it may be a secret
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
                f"There are multiple cookies with name, {name!r}; say which by domain= and path="
            )
        return self._value_of(found[0])


def twin_of(cookie: Cookie) -> Cookie:
    """Return a copy of a cookie."""
    if type(cookie) is not Cookie:
        return copy.copy(cookie)
    twin = object.__new__(Cookie)  # copy() takes ten times as long
    twin.__dict__.update(cookie.__dict__)
    return twin


def remove_cookie_by_name(
    cookiejar: CookieJar, name: str, domain: str | None = None, path: str | None = None
) -> None:
    """Remove every cookie of a name, or those of a domain and path; none is no error."""
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
