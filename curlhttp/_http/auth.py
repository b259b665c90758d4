"""Authentication: which credentials a request carries, and how a challenge is answered.

An Auth has a generator that both clients drive: it yields requests and is sent their responses. It
sends nothing itself, reads no clock and no file, and shows no secret in its repr.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import AsyncGenerator, Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

from curlhttp._http.credentials import encode_credential
from curlhttp._http.suggestions import with_suggestions

if TYPE_CHECKING:
    from curlhttp._http.inputs import AuthInput, UserRequest
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response

AuthFlow: TypeAlias = Generator["ClientRequest | UserRequest", "Response", None]
"""The return type of auth_flow and sync_auth_flow: yields requests, is sent their responses."""

AsyncAuthFlow: TypeAlias = AsyncGenerator["ClientRequest | UserRequest", "Response"]
"""The return type of async_auth_flow."""

_Prepared = TypeVar("_Prepared", bound=Any)  # the drop-in's request, which this cannot import


class Auth:
    """Base class for authentication. Subclass it, and write auth_flow.

        class TokenAuth(curlhttp.Auth):
            def auth_flow(self, request):
                response = yield curlhttp.ClientRequest("POST", "https://id.example.org/token")
                request.headers["Authorization"] = f"Bearer {response.json()['token']}"
                yield request

    One generator serves both clients, in any thread. If the flow has to wait for anything but
    responses, write two generators, under the names that httpx uses: `sync_auth_flow(request)` for
    Client, and the async generator `async_auth_flow(request)` for AsyncClient. They take precedence
    over `auth_flow`.

    The client sends each yielded request like the request itself: with its time limits, and through
    cookies, middleware, retries, limits and proxies. It does not apply this Auth to it. The caller
    gets the response to the last one, streamed and with redirects followed if they asked for that.
    A ClientRequest that the flow creates, to another origin, is sent without the client's own
    headers.

    Attributes:
        requires_request_body: the flow reads `request.content`, so the client reads a streamed body
            into memory first.
        requires_response_body: the flow reads the bodies of responses to streamed requests. The
            body of a response to a request that the flow makes can always be read, but an async
            generator first awaits `response.aread()` if the caller streams.
    """

    __slots__ = ()

    requires_request_body = False
    requires_response_body = False

    # See curlhttp._features.auth.token_auth.
    _fetches_token = False

    def auth_flow(self, request: ClientRequest) -> AuthFlow:
        """Yield the request, receive its response, and yield further requests if needed.

        Args:
            request: a copy of the request, which the flow may change.
        """
        raise TypeError(f"{type(self).__name__} has no auth_flow")

    def known_header(self) -> str | None:
        """Return the value of Authorization if it is always the same, None if it takes a flow."""
        return None

    def __call__(self, request: _Prepared) -> _Prepared:
        """Set Authorization for a Session of the drop-in, which calls its auth.

        Args:
            request: a PreparedRequest.

        Raises:
            TypeError: the value is not always the same, and a Session drives no flow.
        """
        value = self.known_header()
        if not value:
            raise TypeError(
                f"{type(self).__name__} is for Client and AsyncClient; the functions of curlhttp "
                "and a Session take (user, password), a BearerAuth with a constant token, or a "
                "function that changes a PreparedRequest and returns it"
            )
        request.headers["Authorization"] = value
        return request

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


@with_suggestions("BasicAuth")
class BasicAuth(Auth):
    """Send a user name and a password with every request (RFC 7617).

    Args:
        username: a str, which is sent as UTF-8, or bytes, which are sent as they are.
        password: the same.

    Raises:
        ValueError: the text has a lone surrogate, for which there is no UTF-8.
    """

    __slots__ = ("_value",)

    def __init__(self, username: str | bytes, password: str | bytes) -> None:
        pair = encode_credential(username) + b":" + encode_credential(password)
        self._value = "Basic " + b2a_base64(pair, newline=False).decode("ascii")

    def auth_flow(self, request: ClientRequest) -> AuthFlow:
        """Yield the request with its Authorization."""
        request.headers["Authorization"] = self._value
        yield request

    def known_header(self) -> str:
        """Return the value of Authorization."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BasicAuth) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


class _CallableAuth(Auth):
    """Authenticate with a function from request to request, as in requests."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[ClientRequest], ClientRequest | None]) -> None:
        self._function = function

    def auth_flow(self, request: ClientRequest) -> AuthFlow:
        """Yield the request that the function returns; for None, its argument."""
        changed = self._function(request)
        yield request if changed is None else changed


class _NoAuth(Auth):
    """No authentication: neither the client's nor that of netrc."""

    def known_header(self) -> str:
        """Return "", for no Authorization."""
        return ""

    def auth_flow(self, request: ClientRequest) -> AuthFlow:
        """Yield the request as it is."""
        yield request


NO_AUTH = _NoAuth()


def to_auth(value: AuthInput | None) -> Auth | None:
    """Return the Auth for an `auth=` argument.

    Args:
        value: None, (user, password), an Auth or an object with its methods, or a function from
            request to request.

    Raises:
        TypeError: the value is none of these.
    """
    if value is None or isinstance(value, Auth):
        return value
    if isinstance(value, type):
        raise TypeError(f"auth must be an object, not a class: write auth={value.__name__}(...)")
    if isinstance(value, tuple) and len(value) == 2:
        return BasicAuth(*value)
    if any(hasattr(value, name) for name in ("auth_flow", "sync_auth_flow", "async_auth_flow")):
        return cast(Auth, value)  # it has the methods of httpx.Auth
    if callable(value):
        return _CallableAuth(value)
    hint = ""
    if isinstance(value, (str, bytes)):
        hint = '; for a token, pass curlhttp.BearerAuth("...")'
    if isinstance(value, list):
        hint = "; write a tuple: auth=(user, password)"
    raise TypeError(
        "auth must be a (user, password) tuple, an Auth or a callable, not "
        f"{type(value).__name__}{hint}"
    )
