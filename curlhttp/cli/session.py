"""What requests to one origin have in common, kept on disk under a name: --session."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from curlhttp._models.url.url import parse_url
from curlhttp.cli.cookie_file import read_cookies, write_cookies
from curlhttp.cli.exits import READ_ERROR, WRITE_ERROR, CommandFailed
from curlhttp.cli.private_file import write_private

if TYPE_CHECKING:
    from curlhttp._models.cookies.jar import Cookies
    from curlhttp.cli.connection import ConnectionOptions

__all__ = ["KeptSession"]

# Of one request and not of all: what is in its body, how much of the answer is wanted, and what
# the kept cookies say already.
_NOT_KEPT = re.compile(r"content-|if-|(?:range|cookie|host|transfer-encoding)$", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class KeptSession:
    """Headers, credentials and cookies, in two files that only their owner may read.

    Args:
        name: of the session, one for each origin; or the path of its file.
        url: that the request goes to.

    Raises:
        CommandFailed: the file cannot be read, is none of ours, or is of another origin, which
            must not get the credentials.
    """

    def __init__(self, name: str, url: str) -> None:
        self._origin = parse_url(url).origin
        self._path = self._path_of(name)
        self._headers: list[tuple[str, str]] = []
        self._user: str | None = None
        if self._path.exists():
            self._read()

    def cookies(self) -> Cookies | None:
        """Return the cookies that were kept; None before the first time."""
        return read_cookies(self._cookie_path) if self._cookie_path.exists() else None

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

    def write(self, connection: ConnectionOptions, cookies: Cookies) -> None:
        """Keep what a request was sent with, and the cookies as they are now.

        Args:
            connection: as joined() returned it.
            cookies: of the client.

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
        write_cookies(self._cookie_path, cookies)

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

    def _read(self) -> None:
        try:
            kept = json.loads(self._path.read_text("utf-8"))
            origin, user = kept["origin"], kept["user"]
            headers = [(str(name), str(value)) for name, value in kept["headers"]]
        except OSError as error:
            raise CommandFailed(f"{self._path}: {error.strerror}", READ_ERROR) from None
        except (ValueError, TypeError, LookupError):
            raise CommandFailed(f"{self._path}: this is no session", READ_ERROR) from None
        if origin != self._origin:
            what = f"this session is of {origin}, and its credentials are not for {self._origin}"
            raise CommandFailed(f"{self._path}: {what}", 2)
        self._headers = headers
        self._user = None if user is None else str(user)
