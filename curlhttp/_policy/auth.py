"""What credentials a request carries and how a challenge is answered.

An Auth is a small coroutine that both clients drive: it yields requests and is sent responses.
It sends nothing itself, reads no clock and no file, and shows no secret in a repr.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from binascii import b2a_base64
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from curlhttp.exceptions import InvalidHeader

if TYPE_CHECKING:
    from curlhttp._models.inputs import AuthInput
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response

__all__ = ["NO_AUTH", "Auth", "AuthFlow", "BasicAuth", "BearerAuth", "as_auth", "encoded"]

AuthFlow = Generator["Request", "Response", None]

_VISIBLE = re.compile(r"[\x21-\x7e]+")


class Auth(ABC):
    """Authenticate requests, one at a time and from any thread."""

    @abstractmethod
    def flow(self, request: Request) -> AuthFlow:
        """Yield the request to send, receive its response, and perhaps yield another.

        Args:
            request: the request; its headers belong to this flow and may be changed.
        """

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


# --- credentials that need no challenge ---


class BasicAuth(Auth):
    """Send a user name and a password with every request (RFC 7617).

    Args:
        username: str (Latin-1 where possible, else UTF-8) or bytes.
        password: the same.
    """

    __slots__ = ("_value",)

    def __init__(self, username: str | bytes, password: str | bytes) -> None:
        pair = encoded(username) + b":" + encoded(password)
        self._value = "Basic " + b2a_base64(pair, newline=False).decode("ascii")

    def flow(self, request: Request) -> AuthFlow:
        """Yield the request with its Authorization."""
        request.headers["Authorization"] = self._value
        yield request

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BasicAuth) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


class BearerAuth(Auth):
    """Send a bearer token with every request (RFC 6750).

    Args:
        token: the token, or a function that returns the one to use now.

    Raises:
        InvalidHeader: the token is empty or not visible ASCII.
    """

    __slots__ = ("_token",)

    def __init__(self, token: str | Callable[[], str]) -> None:
        self._token = token if callable(token) else _checked_token(token)

    def flow(self, request: Request) -> AuthFlow:
        """Yield the request with its Authorization."""
        token = self._token
        value = _checked_token(token()) if callable(token) else token
        request.headers["Authorization"] = f"Bearer {value}"
        yield request


class _CallableAuth(Auth):
    """Run requests' kind of auth: a function that takes a request and returns it."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[Request], Request | None]) -> None:
        self._function = function

    def flow(self, request: Request) -> AuthFlow:
        """Yield what the function returns; None stands for the request itself."""
        changed = self._function(request)
        yield request if changed is None else changed


class _NoAuth(Auth):
    """Say that the caller wants none: neither the client's nor what netrc holds."""

    def flow(self, request: Request) -> AuthFlow:
        """Yield the request as it is."""
        yield request


NO_AUTH = _NoAuth()


def as_auth(value: AuthInput | None) -> Auth | None:
    """Return the Auth for what users give as auth=.

    Args:
        value: None, (user, password), an Auth, or a function from request to request.

    Raises:
        TypeError: it is none of these.
    """
    if value is None or isinstance(value, Auth):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return BasicAuth(*value)
    if callable(value):
        return _CallableAuth(value)
    raise TypeError(
        f"auth must be a (user, password) tuple, an Auth or a callable, not {type(value).__name__}"
    )


def encoded(text: str | bytes) -> bytes:
    """Return a user name or password as it is sent: Latin-1 where possible, else UTF-8."""
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise TypeError(f"a user name or password is str or bytes, not {type(text).__name__}")
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _checked_token(token: str) -> str:
    if not isinstance(token, str):
        raise TypeError(f"a bearer token is a str, not {type(token).__name__}")
    if not _VISIBLE.fullmatch(token):
        raise InvalidHeader("A bearer token must be visible ASCII without blanks")
    return token
