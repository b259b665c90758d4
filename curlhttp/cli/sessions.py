"""Cookies and sessions in files: -b, -c and --session.

Cookies are in Netscape's format, as in curl. A session holds the headers, credentials and cookies
for one origin. Nothing of it is sent if a redirect leads to another origin. Only the owner may read
the files, because they contain credentials.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from dataclasses import replace
from http.cookiejar import Cookie
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from curlhttp._client.base import make_client_headers
from curlhttp._http.cookies.jar import Cookies
from curlhttp._http.cookies.parsing import bare_host, host_allowed, matching_domains, new_cookie
from curlhttp._http.headers import Headers
from curlhttp._http.redaction import redact_url
from curlhttp._http.url import may_keep_credentials, parse_url
from curlhttp.cli.errors import READ_ERROR, WRITE_ERROR, CommandFailed, reading
from curlhttp.cli.files import replace_private_files, writing

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import Request as UrllibRequest

    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._http.url import URL
    from curlhttp._runtime.engine import Middleware, Send
    from curlhttp.cli.options import ConnectionOptions

_MAX_SIZE = 16 * 1024 * 1024  # bytes of a file that is read

_COOKIES_HEAD = "# Netscape HTTP Cookie File\n# https://curl.se/docs/http-cookies.html\n\n"
_match_head = re.compile(r"#(?: Netscape)? HTTP Cookie File").match
_match_expires = re.compile(r"[+-]?(\d{1,18})(?:\.\d{0,18})?", re.ASCII).fullmatch
_COOKIE_FIELDS = 7
_HTTP_ONLY = "HTTPOnly"  # as http.cookiejar spells it
_HTTP_ONLY_PREFIX = "#HttpOnly_"

# Headers that a session does not save, because they belong to one request: they describe its body,
# request a part of the response, or are set by the session's cookies or the URL.
_NOT_SAVED = re.compile(r"content-|if-|(?:range|cookie|host|transfer-encoding)$", re.IGNORECASE)
_SESSION_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_MAX_SHOWN = 200  # characters of an origin in an error message


# --- private files ---


def _read_private(path: Path) -> str | None:
    """Return the text of a file, or None if it does not exist.

    Raises:
        OSError: the file cannot be read, is too large, or is not a regular file: a FIFO would
            block.
        UnicodeDecodeError: the file is not UTF-8.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        return _read_limited(file)


def _read_limited(file: BinaryIO) -> str:
    """Return the text of an open file, which may be a pipe.

    Raises:
        OSError: the file cannot be read, or is too large.
        UnicodeDecodeError: the file is not UTF-8.
    """
    text = file.read(_MAX_SIZE + 1)
    if len(text) > _MAX_SIZE:
        raise OSError(errno.EFBIG, f"the file has more than {_MAX_SIZE:,} bytes")
    return text.decode()


# --- cookies ---


def load_cookies(path: Path) -> Cookies:
    """Load the cookies in a file.

    Raises:
        CommandFailed: the file cannot be read, or is not a cookie file.
    """
    with reading(path), path.open("rb") as file:
        text = _read_limited(file)
    return _parse_cookies(text, path)


def _parse_cookies(text: str, path: Path) -> Cookies:
    lines = text.removeprefix("\ufeff").split("\n")
    if not _match_head(lines[0]):
        what = "not a cookie file: the first line must be '# Netscape HTTP Cookie File'"
        raise CommandFailed(f"{path}: {what}", READ_ERROR)
    cookies = Cookies()
    for number, line in enumerate(lines, 1):
        is_comment = line.startswith(("#", "$")) and not line.startswith(_HTTP_ONLY_PREFIX)
        if not line.strip() or is_comment:
            continue
        cookie = _parse_cookie(line.removesuffix("\r"))
        if cookie is None:
            raise CommandFailed(f"{path}, line {number}: not a cookie", READ_ERROR)
        if not cookie.is_expired():
            cookies.set_cookie(cookie)
    return cookies


def _parse_cookie(line: str) -> Cookie | None:
    fields = line.removeprefix(_HTTP_ONLY_PREFIX).split("\t")
    match = _match_expires(fields[4] or "0") if len(fields) == _COOKIE_FIELDS else None
    if match is None or not fields[0]:  # a cookie without a domain would be sent to every host
        return None
    domain, spans, path, secure, _, name, value = fields
    # curl writes 0 for a cookie that expires with the session.
    expires = -1 if match[0].startswith("-") else int(match[1]) or None
    cookie = new_cookie(
        name, value, domain, spans == "TRUE", path or "/", secure == "TRUE", expires
    )
    if not name:
        cookie.name, cookie.value = value, None
    if line.startswith(_HTTP_ONLY_PREFIX):
        cookie.set_nonstandard_attr(_HTTP_ONLY, "")
    return cookie


def save_cookies(path: Path, cookies: Cookies | list[Cookie]) -> None:
    """Write cookies to a file that only its owner may read.

    Raises:
        CommandFailed: the file cannot be written.
    """
    replace_private_files((path, _format_cookies(cookies)))


def _format_cookies(cookies: Cookies | list[Cookie]) -> str:
    lines = [_format_cookie(cookie) for cookie in cookies if not cookie.is_expired()]
    return _COOKIES_HEAD + "".join(lines)


def _format_cookie(cookie: Cookie) -> str:
    """Format a cookie for curl, which allows only the last field to be empty."""
    prefix = _HTTP_ONLY_PREFIX if cookie.has_nonstandard_attr(_HTTP_ONLY) else ""
    value = cookie.value
    fields = (
        f"{prefix}{cookie.domain}",
        str(cookie.domain.startswith(".")).upper(),
        cookie.path,
        str(bool(cookie.secure)).upper(),
        str(cookie.expires or 0),
        cookie.name if value is not None else "",
        value if value is not None else cookie.name,
    )
    return "\t".join(fields) + "\n"


# --- sessions ---


class _SessionCookies(Cookies):
    """The cookies of one origin. Cookies of other origins are sent back to them, but not saved.

    The origin is checked, because a cookie applies to all ports, and its domain is what the server
    claims.

    Attributes:
        url: a URL of the origin.
        others: the cookies of all other origins.
    """

    url: URL
    others: Cookies

    def extract_cookies(self, response: HTTPResponse, request: UrllibRequest) -> None:
        """Store the cookies that a response sets, here or in `others`, by its origin."""
        url: URL = request.url  # type: ignore[attr-defined]  # the flow passes a CookieRequest
        if may_keep_credentials(self.url, url):
            super().extract_cookies(response, request)
        else:
            self.others.extract_cookies(response, request)

    def add(self, cookies: Cookies) -> None:
        """Add cookies of a file. Those of other hosts go to `others`."""
        host = bare_host(self.url.host)
        for cookie in cookies:
            is_ours = cookie.domain in matching_domains(host) and host_allowed(cookie, host)
            (self if is_ours else self.others).set_cookie(cookie)


class SavedSession:
    """Headers, credentials and cookies in two files that only their owner may read.

    Args:
        name: the name of the session, or the path of its file. A name is separate for each origin.
        url: the URL of the request.

    Attributes:
        cookies: the saved cookies, for the client.

    Raises:
        CommandFailed: a file cannot be read, is not a session, or belongs to another origin, whose
            credentials must not be sent to this one.
    """

    def __init__(self, name: str, url: str) -> None:
        self._url = parse_url(url)
        self._origin = self._url.origin
        self._path = self._get_path(name)
        self._headers: list[tuple[str, str]] = []
        self._user: str | None = None
        text = self._read(self._path)
        if text is not None:
            self._load(text)
        self.cookies: _SessionCookies = self._load_cookies()

    def _load_cookies(self) -> _SessionCookies:
        text = self._read(self._cookie_path)
        cookies = _SessionCookies(None if text is None else _parse_cookies(text, self._cookie_path))
        cookies.url, cookies.others = self._url, Cookies()
        return cookies

    def middleware(self, connection: ConnectionOptions) -> Middleware:
        """Return a middleware that removes the session's data from requests to other origins.

        Args:
            connection: the return value of apply_to().
        """
        defaults = make_client_headers(None, frozenset())
        names = {name for name, _ in connection.header if not _NOT_SAVED.match(name)}

        async def remove_for_others(request: ClientRequest, send: Send) -> Response:
            if may_keep_credentials(self._url, request.url):
                return await send(request)
            request = request.copy()
            for name in ("Cookie", *names):
                request.headers.pop(name, None)
                if name in defaults:
                    request.headers[name] = defaults[name]
            cookies = self.cookies.others.header_for(request.url)
            if cookies is not None:
                request.headers["Cookie"] = cookies
            return await send(request)

        return remove_for_others

    def apply_to(self, connection: ConnectionOptions) -> ConnectionOptions:
        """Return options that include the saved values. Options that were given take precedence."""
        given = connection.with_password()
        agent = given.user_agent
        header = given.header if agent is None else (("User-Agent", agent), *given.header)
        names = {name.lower() for name, _ in header}
        if given.user is not None:
            names.add("authorization")
        saved = [each for each in self._headers if each[0].lower() not in names]
        user = self._user if given.user is None and self._url.username is None else given.user
        return replace(given, user_agent=None, header=(*saved, *header), user=user)

    def save(self, connection: ConnectionOptions) -> None:
        """Save the headers and credentials of a request, and the current cookies.

        Args:
            connection: the return value of apply_to().

        Raises:
            CommandFailed: a file cannot be written.
        """
        saved = {
            "origin": self._origin,
            "user": connection.user,
            "headers": [
                [name, value]
                for name, value in connection.header
                if value is not None and not _NOT_SAVED.match(name)
            ],
        }
        with writing(self._path):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_private_files(
            (self._path, json.dumps(saved, indent=2) + "\n"),
            (self._cookie_path, _format_cookies(self.cookies)),
        )

    @property
    def _cookie_path(self) -> Path:
        return self._path.with_suffix(".cookies")

    def _get_path(self, name: str) -> Path:
        if "/" in name or "\\" in name or name.endswith(".json"):
            file = Path(name).with_suffix(".json")
            if not file.parent.is_dir():
                raise CommandFailed(f"{file}: the folder does not exist", WRITE_ERROR)
            return file
        if not _SESSION_NAME.fullmatch(name) or not name.strip("."):
            raise CommandFailed(
                f"--session: {name!r} has characters other than letters, digits and ._-", 2
            )
        folder = re.sub(r"[^A-Za-z0-9.-]+", "_", self._origin)
        return Path(click.get_app_dir("curlhttp"), "sessions", folder, f"{name}.json")

    def _read(self, path: Path) -> str | None:
        try:
            return _read_private(path)
        except OSError as error:
            raise CommandFailed(f"{path}: {error.strerror}", READ_ERROR) from None
        except UnicodeDecodeError:
            raise self._make_invalid_error(path) from None

    def _make_invalid_error(self, path: Path) -> CommandFailed:
        return CommandFailed(f"{path}: not a session", READ_ERROR)

    def _load(self, text: str) -> None:
        try:
            saved = json.loads(text)
            origin, user = saved["origin"], saved["user"]
            headers = [
                _validate_field(*pair) for pair in saved["headers"] if isinstance(pair, list)
            ]
            if not isinstance(origin, str) or len(headers) != len(saved["headers"]):
                raise TypeError
            if user is not None:
                str.encode(user)
        except (ValueError, TypeError, LookupError, RecursionError):
            raise self._make_invalid_error(self._path) from None
        if origin != self._origin:
            shown = redact_url(origin[:_MAX_SHOWN])
            what = f"this session belongs to {shown}, so it cannot be used for {self._origin}"
            raise CommandFailed(f"{self._path}: {what}", 2)
        self._headers = [each for each in headers if not _NOT_SAVED.match(each[0])]
        self._user = user


def _validate_field(name: str, value: str) -> tuple[str, str]:
    """Return a header field of a file if it can be sent.

    Raises:
        TypeError: the name or the value is not a string.
        ValueError: the field cannot be sent.
    """
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError
    Headers([(name, value)]).lines()
    return name, value
