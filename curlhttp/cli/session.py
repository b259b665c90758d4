"""What requests to one origin have in common, kept on disk under a name: --session.

It belongs to that origin: a redirect to another one takes nothing of it along.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curlhttp._models.cookies.jar import Cookies
from curlhttp._models.cookies.parsing import bare_host, host_allowed, matching_domains
from curlhttp._models.headers import Headers
from curlhttp._models.redaction import redact_url
from curlhttp._models.url import parse_url
from curlhttp._policy.redirect import may_keep_credentials
from curlhttp._settings import client_headers
from curlhttp.cli.cookie_file import cookies_in, write_cookies
from curlhttp.cli.exits import READ_ERROR, WRITE_ERROR, CommandFailed
from curlhttp.cli.private_file import read_private, write_private

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import Request as UrllibRequest

    from curlhttp._engine import Middleware, Send
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response
    from curlhttp._models.url import URL
    from curlhttp.cli.connection import ConnectionOptions

__all__ = ["KeptSession"]

# Of one request and not of all: what is in its body, how much of the answer is wanted, and what
# the kept cookies say already.
_NOT_KEPT = re.compile(r"content-|if-|(?:range|cookie|host|transfer-encoding)$", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_LONGEST_SHOWN = 200  # characters of an origin that a file names


class _SessionCookies(Cookies):
    """The cookies of one origin. What others set is sent back to them, and nobody keeps it.

    Cookies know no ports, and of hosts only what the server says of them.

    Attributes:
        url: of the origin.
        others: cookies of all other origins.
    """

    url: URL
    others: Cookies

    def extract_cookies(self, response: HTTPResponse, request: UrllibRequest) -> None:
        """Store what a response sets, with those of its origin."""
        url: URL = request.url  # type: ignore[attr-defined]  # the flow gives a CookieRequest
        if may_keep_credentials(self.url, url):
            super().extract_cookies(response, request)
        else:
            self.others.extract_cookies(response, request)

    def add(self, cookies: Cookies) -> None:
        """Take cookies of a file; those of other hosts go with the others'."""
        host = bare_host(self.url.host)
        for cookie in cookies:
            is_ours = cookie.domain in matching_domains(host) and host_allowed(cookie, host)
            (self if is_ours else self.others).set_cookie(cookie)


class KeptSession:
    """Headers, credentials and cookies, in two files that only their owner may read.

    Args:
        name: of the session, one for each origin; or the path of its file.
        url: that the request goes to.

    Attributes:
        cookies: those that were kept, for the client.

    Raises:
        CommandFailed: a file cannot be read, is none of ours, or is of another origin, which
            must not get the credentials.
    """

    def __init__(self, name: str, url: str) -> None:
        self._url = parse_url(url)
        self._origin = self._url.origin
        self._path = self._path_of(name)
        self._headers: list[tuple[str, str]] = []
        self._user: str | None = None
        text = self._text_of(self._path)
        if text is not None:
            self._read(text)
        self.cookies: _SessionCookies = self._read_cookies()

    def _read_cookies(self) -> _SessionCookies:
        text = self._text_of(self._cookie_path)
        cookies = _SessionCookies(None if text is None else cookies_in(text, self._cookie_path))
        cookies.url, cookies.others = self._url, Cookies()
        return cookies

    def keeping(self, connection: ConnectionOptions) -> Middleware:
        """Return a middleware that keeps from other origins what belongs to this session.

        Args:
            connection: as joined() returned it.
        """
        defaults = client_headers(None, frozenset())
        names = {name for name, _ in connection.header if not _NOT_KEPT.match(name)}

        async def around(request: Request, send: Send) -> Response:
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

        return around

    def joined(self, connection: ConnectionOptions) -> ConnectionOptions:
        """Return options with what was kept; what is given now comes before that."""
        given = connection.with_password()
        agent = given.user_agent
        header = given.header if agent is None else (("User-Agent", agent), *given.header)
        now = {name.lower() for name, _ in header}
        kept = [each for each in self._headers if each[0].lower() not in now]
        return replace(
            given, user_agent=None, header=(*kept, *header), user=given.user or self._user
        )

    def write(self, connection: ConnectionOptions) -> None:
        """Keep what a request was sent with, and the cookies as they are now.

        Args:
            connection: as joined() returned it.

        Raises:
            OSError: they cannot be written.
        """
        kept = {
            "origin": self._origin,
            "user": connection.user,
            "headers": [
                [name, value]
                for name, value in connection.header
                if value is not None and not _NOT_KEPT.match(name)
            ],
        }
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self._path, json.dumps(kept, indent=2) + "\n")
        write_cookies(self._cookie_path, self.cookies)

    @property
    def _cookie_path(self) -> Path:
        return self._path.with_suffix(".cookies")

    def _path_of(self, name: str) -> Path:
        if "/" in name or "\\" in name or name.endswith(".json"):
            file = Path(name).with_suffix(".json")
            if not file.parent.is_dir():
                raise CommandFailed(f"{file}: there is no such folder", WRITE_ERROR)
            return file
        if not _NAME.fullmatch(name) or not name.strip("."):
            raise CommandFailed(f"--session: {name!r} has other characters than letters and ._-", 2)
        folder = re.sub(r"[^A-Za-z0-9.-]+", "_", self._origin)
        return Path(click.get_app_dir("curlhttp"), "sessions", folder, f"{name}.json")

    def _text_of(self, path: Path) -> str | None:
        try:
            return read_private(path)
        except OSError as error:
            raise CommandFailed(f"{path}: {error.strerror}", READ_ERROR) from None
        except UnicodeDecodeError:
            raise self._no_session(path) from None

    def _no_session(self, path: Path) -> CommandFailed:
        return CommandFailed(f"{path}: this is no session", READ_ERROR)

    def _read(self, text: str) -> None:
        try:
            kept = json.loads(text)
            origin, user = kept["origin"], kept["user"]
            headers = [_field(*pair) for pair in kept["headers"] if isinstance(pair, list)]
            if not isinstance(origin, str) or len(headers) != len(kept["headers"]):
                raise TypeError
            if user is not None:
                str.encode(user)
        except (ValueError, TypeError, LookupError, RecursionError):
            raise self._no_session(self._path) from None
        if origin != self._origin:
            shown = redact_url(origin[:_LONGEST_SHOWN])
            what = f"this session is of {shown}, and its credentials are not for {self._origin}"
            raise CommandFailed(f"{self._path}: {what}", 2)
        self._headers = [each for each in headers if not _NOT_KEPT.match(each[0])]
        self._user = user


def _field(name: str, value: str) -> tuple[str, str]:
    """Return a header field of a file.

    Raises:
        TypeError: it is no text.
        ValueError: it cannot be sent.
    """
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError
    Headers([(name, value)]).lines()
    return name, value
