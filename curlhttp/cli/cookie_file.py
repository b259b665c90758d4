"""Cookies on disk, in Netscape's format as curl has it: -b and -c."""

from __future__ import annotations

import re
from http.cookiejar import Cookie
from pathlib import Path

from curlhttp._models.cookies.jar import Cookies
from curlhttp._models.cookies.parsing import new_cookie
from curlhttp.cli.exits import READ_ERROR, CommandFailed
from curlhttp.cli.private_file import read_bounded, write_private

__all__ = ["cookies_in", "read_cookies", "write_cookies"]

_HEAD = "# Netscape HTTP Cookie File\n# https://curl.se/docs/http-cookies.html\n\n"
_IS_HEAD = re.compile(r"#(?: Netscape)? HTTP Cookie File").match
_EXPIRES = re.compile(r"[+-]?(\d{1,18})(?:\.\d{0,18})?", re.ASCII).fullmatch
_FIELDS = 7
_HTTP_ONLY = "HTTPOnly"  # as http.cookiejar has it
_MARK = "#HttpOnly_"


def read_cookies(path: Path) -> Cookies:
    """Return the cookies of a file.

    Raises:
        CommandFailed: it cannot be read, or is in another format.
    """
    try:
        with path.open("rb") as file:
            return cookies_in(read_bounded(file), path)
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}", READ_ERROR) from None
    except UnicodeDecodeError:
        raise CommandFailed(f"{path}: this is not UTF-8", READ_ERROR) from None


def cookies_in(text: str, path: Path) -> Cookies:
    """Return the cookies in the text of a file.

    Args:
        text: all of it.
        path: of the file, for the message.

    Raises:
        CommandFailed: it is in another format.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    if not _IS_HEAD(lines[0]):
        what = "is no cookie file, which begins with '# Netscape HTTP Cookie File'"
        raise CommandFailed(f"{path}: this {what}", READ_ERROR)
    cookies = Cookies()
    for number, line in enumerate(lines, 1):
        if not line.strip() or (line.startswith(("#", "$")) and not line.startswith(_MARK)):
            continue
        cookie = _cookie(line.removesuffix("\r"))
        if cookie is None:
            raise CommandFailed(f"{path}, line {number}: this is no cookie", READ_ERROR)
        if not cookie.is_expired():
            cookies.set_cookie(cookie)
    return cookies


def _cookie(line: str) -> Cookie | None:
    fields = line.removeprefix(_MARK).split("\t")
    expires = _EXPIRES(fields[4] or "0") if len(fields) == _FIELDS else None
    if expires is None or not fields[0]:  # without a domain it would go to every host
        return None
    domain, spans, path, secure, _, name, value = fields
    # curl writes 0 for one that ends with the session.
    ends = -1 if expires[0].startswith("-") else int(expires[1]) or None
    cookie = new_cookie(name, value, domain, spans == "TRUE", path or "/", secure == "TRUE", ends)
    if not name:
        cookie.name, cookie.value = value, None
    if line.startswith(_MARK):
        cookie.set_nonstandard_attr(_HTTP_ONLY, "")
    return cookie


def write_cookies(path: Path, cookies: Cookies | list[Cookie]) -> None:
    """Write cookies to a file that only its owner may read.

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
