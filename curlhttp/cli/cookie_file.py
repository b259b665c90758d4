"""Cookies on disk, in Netscape's format as curl has it: -b and -c."""

from __future__ import annotations

import os
from http.cookiejar import Cookie, LoadError, MozillaCookieJar
from pathlib import Path

from curlhttp._models.cookies.jar import Cookies
from curlhttp.cli.exits import READ_ERROR, CommandFailed
from curlhttp.cli.private_file import write_private

__all__ = ["read_cookies", "write_cookies"]

_HEAD = "# Netscape HTTP Cookie File\n# https://curl.se/docs/http-cookies.html\n\n"
_HTTP_ONLY = "HTTPOnly"  # as http.cookiejar has it
_MARK = "#HttpOnly_"


def read_cookies(path: Path) -> Cookies:
    """Return the cookies of a file.

    Raises:
        CommandFailed: it cannot be read, or is in another format.
    """
    jar = MozillaCookieJar()
    try:
        jar.load(os.fspath(path), ignore_discard=True, ignore_expires=True)
    except (LoadError, ValueError):
        what = "is no cookie file, which begins with '# Netscape HTTP Cookie File'"
        raise CommandFailed(f"{path}: this {what}", READ_ERROR) from None
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", READ_ERROR) from None
    cookies = Cookies()
    for cookie in jar:
        if not cookie.expires:  # curl's way to write one that ends with the session
            cookie.expires, cookie.discard = None, True
        if not cookie.is_expired():
            cookies.set_cookie(cookie)
    return cookies


def write_cookies(path: Path, cookies: Cookies) -> None:
    """Write all cookies to a file that only its owner may read.

    Raises:
        OSError: it cannot be written.
    """
    lines = [_line(cookie) for cookie in cookies if not cookie.is_expired()]
    write_private(path, _HEAD + "".join(lines))


def _line(cookie: Cookie) -> str:
    """Return a cookie as curl reads it; no field may be empty but the last."""
    mark = _MARK if cookie.has_nonstandard_attr(_HTTP_ONLY) else ""
    value = cookie.value
    fields = (
        f"{mark}{cookie.domain}",
        str(cookie.domain.startswith(".")).upper(),
        cookie.path,
        str(bool(cookie.secure)).upper(),
        str(cookie.expires or 0),
        cookie.name if value is not None else "",
        value if value is not None else cookie.name,
    )
    return "\t".join(fields) + "\n"
