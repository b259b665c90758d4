"""Cookies. A jar is loaded only when it is needed, because http.cookiejar is slow to import."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from http.cookiejar import CookieJar

    from curlhttp._http.inputs import CookiesInput
    from curlhttp._http.url import URL


class LazyCookieJar:
    """Hold the cookies of a client or of one call, in a jar that is made for the first cookie.

    Args:
        cookies: a CookieJar to use, anything that `Cookies` accepts, or None.

    Attributes:
        cookies: the jar, or None before there is a cookie.
    """

    __slots__ = ("cookies",)

    def __init__(self, cookies: CookiesInput | None = None) -> None:
        self.cookies: CookieJar | None = None
        if cookies is not None:
            self.replace(cookies)

    def replace(self, cookies: CookiesInput | None) -> None:
        """Replace the cookies: a CookieJar is used as it is, anything else is copied."""
        from http.cookiejar import CookieJar

        from curlhttp._http.cookies.jar import Cookies

        self.cookies = cookies if isinstance(cookies, CookieJar) else Cookies(cookies)

    def open(self) -> CookieJar:
        """Return the jar, and make it if there is none."""
        if self.cookies is None:
            from curlhttp._http.cookies.jar import Cookies

            self.cookies = Cookies()
        return self.cookies

    def header(self, url: URL, own: CookieJar | None = None) -> str | None:
        """Return the Cookie header for a URL, or None.

        Args:
            url: where the request goes.
            own: cookies of the request alone, which take precedence over the jar's.
        """
        if own is None and self.cookies is None:
            return None
        from curlhttp._http.cookies.jar import cookie_header

        ours = None if self.cookies is None else cookie_header(self.cookies, url)
        theirs = None if own is None else cookie_header(own, url)
        if ours is None or theirs is None:
            return ours or theirs
        names = {pair.partition("=")[0] for pair in theirs.split("; ")}
        kept = [pair for pair in ours.split("; ") if pair.partition("=")[0] not in names]
        return "; ".join([*kept, theirs])

    def store(self, url: URL, values: Sequence[str]) -> None:
        """Store the cookies that a response sets.

        Args:
            url: where the response came from.
            values: its Set-Cookie fields.
        """
        from curlhttp._http.cookies.jar import store_cookies

        store_cookies(self.open(), url, values)
