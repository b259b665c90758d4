"""What credentials a request carries and how a challenge is answered.

An Auth is a small coroutine that both clients drive: it yields requests and is sent responses.
It sends nothing itself, reads no clock and no file, and shows no secret in a repr.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, NoReturn, TypeAlias, cast

if TYPE_CHECKING:
    from curlhttp._models.inputs import AuthInput, UserRequest
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response

__all__ = [
    "NO_AUTH",
    "AsyncAuthFlow",
    "Auth",
    "AuthFlow",
    "BasicAuth",
    "as_auth",
    "encoded",
    "flow_method",
]


AuthFlow: TypeAlias = Generator["Request | UserRequest", "Response", None]
"""What auth_flow and sync_auth_flow return: yields requests, is sent their responses."""

AsyncAuthFlow: TypeAlias = AsyncGenerator["Request | UserRequest", "Response"]
"""What async_auth_flow returns."""

_IN_ASYNC_CLIENT, _IN_CLIENT = "async_auth_flow", "sync_auth_flow"


class Auth:
    """Authenticate requests, one at a time and from any thread; derive your own from this.

        class TokenAuth(curlhttp.Auth):
            def auth_flow(self, request):
                answer = yield curlhttp.Request("POST", "https://id.example.org/token")
                request.headers["Authorization"] = f"Bearer {answer.json()['token']}"
                yield request

    One generator serves both clients. A flow that has to wait for something else than responses
    is written as two, with the names that httpx has for them: `sync_auth_flow(request)`, for
    Client, and the async generator `async_auth_flow(request)`, for AsyncClient; each goes before
    `auth_flow`.

    What is yielded goes through cookies, middleware, retries, limits and proxies as the request
    itself does, with its time limits; redirects of it are not followed, and this Auth is not asked
    again. A `curlhttp.Request` is sent to another origin without the client's own headers.

    Attributes:
        requires_request_body: the flow reads `request.content`: a streamed body is read into
            memory first.
        requires_response_body: the flow reads bodies of responses to streamed requests. Those of
            a `curlhttp.Request` are always there.
    """

    __slots__ = ()

    requires_request_body = False
    requires_response_body = False

    # It obtains something first that requests share: see curlhttp._policy.token_auth.
    obtains = False

    def auth_flow(self, request: Request) -> AuthFlow:
        """Yield the request to send, receive its response, and perhaps yield another.

        Args:
            request: the request; its headers belong to this flow and may be changed.
        """
        raise TypeError(f"{type(self).__name__} has no auth_flow")

    def known_header(self) -> str | None:
        """Return the Authorization that goes out in any case, None where that takes a flow."""
        return None

    def __call__(self, request: object) -> NoReturn:
        """Refuse what the drop-in calls: a Session has no flow that could be driven."""
        raise TypeError(
            f"{type(self).__name__} is for Client and AsyncClient; a Session takes "
            "(user, password), or a function that changes a PreparedRequest"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


def flow_method(kind: type, *, is_async: bool) -> str:
    """Return the name of the method that gives the flow, of a class that may be httpx's.

    Args:
        kind: the class; what it says of its own goes before what it inherits.
        is_async: the client is AsyncClient.

    Raises:
        TypeError: the class has no flow for such a client.
    """
    special = _IN_ASYNC_CLIENT if is_async else _IN_CLIENT
    for each in kind.__mro__:
        if each is not Auth:
            for name in (special, "auth_flow"):
                if name in vars(each):
                    return name
    other = _IN_CLIENT if is_async else _IN_ASYNC_CLIENT
    needed = (
        f"needs {'Client' if is_async else 'AsyncClient'}: it has "
        if hasattr(kind, other)
        else "has "
    )
    raise TypeError(f"{kind.__name__} {needed}no {special} and no auth_flow")


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

    def auth_flow(self, request: Request) -> AuthFlow:
        """Yield the request with its Authorization."""
        request.headers["Authorization"] = self._value
        yield request

    def known_header(self) -> str:
        """Return the Authorization."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BasicAuth) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


class _CallableAuth(Auth):
    """Run requests' kind of auth: a function that takes a request and returns it."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[Request], Request | None]) -> None:
        self._function = function

    def auth_flow(self, request: Request) -> AuthFlow:
        """Yield what the function returns; None stands for the request itself."""
        changed = self._function(request)
        yield request if changed is None else changed


class _NoAuth(Auth):
    """Say that the caller wants none: neither the client's nor what netrc holds."""

    def known_header(self) -> str:
        """Return "", for none."""
        return ""

    def auth_flow(self, request: Request) -> AuthFlow:
        """Yield the request as it is."""
        yield request


NO_AUTH = _NoAuth()


def as_auth(value: AuthInput | None) -> Auth | None:
    """Return the Auth for what users give as auth=.

    Args:
        value: None, (user, password), an Auth or what has its methods, or a function from request
            to request.

    Raises:
        TypeError: it is none of these.
    """
    if value is None or isinstance(value, Auth):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return BasicAuth(*value)
    if any(hasattr(value, name) for name in ("auth_flow", _IN_CLIENT, _IN_ASYNC_CLIENT)):
        return cast(Auth, value)  # it has httpx's methods
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
