"""Bearer tokens (RFC 6750): given, or fetched by a function."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from curlhttp._policy.auth import AuthFlow
from curlhttp._policy.single_flight import (
    CachedToken,
    Function,
    Steps,
    TokenAuth,
    TokenRequest,
    Value,
)
from curlhttp.exceptions import InvalidHeader

if TYPE_CHECKING:
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response

__all__ = ["BearerAuth", "bearer_refused", "is_token"]

_VISIBLE = re.compile(r"[\x21-\x7e]+")
# RFC 6750, section 3; any other error is nothing that a new token would change.
_ERROR = re.compile(r"""\bbearer\b.*?\berror\s*=\s*"?([^",\s]*)""", re.IGNORECASE | re.DOTALL)

_GetToken: TypeAlias = Callable[[], str] | Callable[[], Awaitable[str]]


class BearerAuth(TokenAuth):
    """Send a bearer token with every request (RFC 6750).

    A function is called for each request, and once for all requests that wait for it at the same
    time; with `expires`, what it returned is kept for that long, or until a 401 says that it is
    good no more: then it is called again, and the request is sent a second time.

    Args:
        token: the token, or a function that returns the one to use now; in AsyncClient it may be
            a coroutine function.
        expires: seconds for which a token of the function is good, or None.

    Raises:
        InvalidHeader: the token is empty or not visible ASCII.
        TypeError: the token is neither; of a request in Client: the function is async.
        ValueError: `expires` is not more than 0, or there is no function.
    """

    __slots__ = ("_expires", "_function", "_value")

    def __init__(self, token: str | _GetToken, *, expires: float | None = None) -> None:
        if expires is not None and not (expires > 0 and callable(token)):
            raise ValueError("expires is more than 0 seconds, and for a function")
        super().__init__()
        self._function = token if callable(token) else None
        self._value = "" if callable(token) else f"Bearer {checked_token(token)}"
        self._expires = expires

    @property
    def obtains(self) -> bool:  # type: ignore[override]  # else an attribute of the class
        """Return whether a function has to be called."""
        return self._function is not None

    def known_header(self) -> str | None:
        """Return the Authorization, None where a function gives it."""
        return self._value or None

    @property
    def functions(self) -> tuple[Function, ...]:
        """Return the function that gives tokens."""
        return () if self._function is None else (self._function,)

    def auth_flow(self, request: Request) -> AuthFlow:
        """Yield the request with its Authorization."""
        value = self._value
        if self._function is not None:  # in the flow of somebody's own
            value = f"Bearer {checked_token(self._function())}"
        request.headers["Authorization"] = value
        yield request

    def steps(self, now: Callable[[], float]) -> Steps:
        """Call the function."""
        assert self._function is not None
        begun = now()
        token = checked_token((yield TokenRequest(self._function)))
        expires = self._expires
        if expires is None:
            return CachedToken(token, is_kept=False)
        return CachedToken(token, begun + expires)

    def apply(self, request: Request, value: Value) -> Request:
        """Return the request with its Authorization."""
        request.headers["Authorization"] = f"Bearer {value}"
        return request

    def refuses(self, response: Response) -> bool:
        """Return whether the response says that the token is not valid."""
        return bearer_refused(response)


def bearer_refused(response: Response) -> bool:
    """Return whether a response says that its request's token is not valid.

    A 401 does, unless it names another error. RFC 6750, section 3.1.
    """
    if response.status_code != 401:
        return False
    found = _ERROR.search(", ".join(response.headers.get_list("www-authenticate"))[:4096])
    return found is None or found[1].lower() in ("", "invalid_token")


def is_token(token: object) -> bool:
    """Return whether something may be sent as a token: visible ASCII."""
    return isinstance(token, str) and _VISIBLE.fullmatch(token) is not None


def checked_token(token: object) -> str:
    """Return a token.

    Raises:
        TypeError: it is no str.
        InvalidHeader: it is empty, or not visible ASCII.
    """
    if not isinstance(token, str):
        raise TypeError(f"a bearer token is a str, not {type(token).__name__}")
    if not is_token(token):
        raise InvalidHeader("A bearer token must be visible ASCII without blanks")
    return token
