"""requests.cookies: the jar, and what comes into it from responses, dictionaries and other jars.

http.cookiejar asks MockRequest and MockResponse what it asks of urllib's requests and responses.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from http import cookiejar as cookielib
from http.cookiejar import CookieJar
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlparse, urlunparse

from curlhttp._models.cookies.jar import CookieConflictError, copy_cookie, remove_cookie_by_name
from curlhttp._models.cookies.parsing import SetCookies, lines_for_stdlib
from curlhttp._models.cookies.store import CookieStore
from curlhttp.requests._elsewhere import Names, names_of
from curlhttp.requests._internal_utils import to_native_string
from curlhttp.requests._jar import (
    RequestsCookieJar,
    create_cookie,
    morsel_to_cookie,
)

if TYPE_CHECKING:
    from curlhttp.requests._prepared import PreparedRequest
    from curlhttp.requests._types import AnyRaw

__all__ = [
    "CookieConflictError", "MockRequest", "MockResponse", "RequestsCookieJar",
    "cookiejar_from_dict", "cookielib", "create_cookie", "extract_cookies_to_jar",
    "get_cookie_header", "merge_cookies", "morsel_to_cookie", "remove_cookie_by_name",
]  # fmt: skip

__getattr__: Names = names_of(
    __name__, {"_jar": "Cookie CookiePolicy", "auth": "threading", "compat": "MutableMapping"}
)

_Jar = TypeVar("_Jar", bound=CookieJar)


class MockRequest:
    """Show a prepared request to http.cookiejar; the headers it adds are kept apart.

    Args:
        request: the prepared request, which stays as it is.
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
        """Return whether the request has the header, or was given it here."""
        return name in self._r.headers or name in self._new_headers

    def get_header(self, name: str, default: Any = None) -> Any:
        """Return a header of the request, else one that was added here."""
        return self._r.headers.get(name, self._new_headers.get(name, default))

    def add_header(self, key: str, val: str) -> None:
        """Refuse: http.cookiejar has another method for it."""
        raise NotImplementedError("Cookie headers should be added with add_unredirected_header()")

    def add_unredirected_header(self, name: str, value: str) -> None:
        """Keep a header."""
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
    """Show a response's headers to http.cookiejar.

    Args:
        headers: an object with get_all(), such as email's Message.
    """

    def __init__(self, headers: Any) -> None:
        self._headers = headers

    def info(self) -> Any:
        """Return the headers."""
        return self._headers

    def getheaders(self, name: str) -> Any:
        """Return what the headers hold under a name, in the way of old Python."""
        return self._headers.getheaders(name)


def extract_cookies_to_jar(jar: CookieJar, request: PreparedRequest, response: AnyRaw) -> None:
    """Store the cookies that a response set.

    Args:
        jar: where they go.
        request: the prepared request that was answered.
        response: what an adapter calls `raw`; one without `_original_response` sets none.
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
        overwrite: False leaves cookies of the jar alone that have such a name.

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
    """Add cookies to a jar and return it; those of a dict only under names that are new.

    Raises:
        ValueError: it is no jar.
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
