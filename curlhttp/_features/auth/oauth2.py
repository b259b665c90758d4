"""OAuth 2.0 access tokens (RFC 6749): token requests, and validation of the token responses.

Pure: its steps yield a request and are sent the response. No secret appears in a repr, a message or
a pickle.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote_plus, urlencode

from curlhttp._features.auth.subrequest import SecretBody
from curlhttp._features.auth.token_auth import (
    BearerTokenAuth,
    CachedToken,
    Function,
    FunctionCall,
    Steps,
    is_valid_token,
)
from curlhttp._http.auth import Auth, BasicAuth
from curlhttp._http.errors import check_number
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.suggestions import with_suggestions
from curlhttp._http.url import URL, parse_url
from curlhttp.exceptions import OAuth2Error, RequestException

_MAX_RESPONSE = 256 * 1024  # bytes
_MAX_LIFETIME = 10 * 366 * 86_400  # seconds
_MAX_TEXT = 200  # characters of the server's texts in an error
_FORM = "application/x-www-form-urlencoded"
_HEADERS = {"Accept": "application/json", "Content-Type": _FORM}
_Fields: TypeAlias = "dict[str, Any]"  # of JSON
_DIGITS = re.compile(r"[0-9]+")
_NOT_PRINTABLE = re.compile(r"[^\x20-\x7e]+")


class _TokenResponse(NamedTuple):
    """A successful token response (RFC 6749, section 5.1).

    Attributes:
        token: the access token.
        lifetime: seconds for which it is valid, or None if the server does not say.
        refresh_token: a new refresh token, or None to keep the old one.
    """

    token: str
    lifetime: float | None
    refresh_token: str | None


class _OAuth2Auth(BearerTokenAuth):
    """Send an access token of a token server (RFC 6749, RFC 6750)."""

    __slots__ = ("_client_auth", "_client_id", "_client_secret", "_form", "_leeway", "_url")

    def __init__(
        self,
        token_url: str | URL,
        client_id: str | None,
        client_secret: str | None,
        *,
        form: Mapping[str, str],
        client_auth: Literal["basic", "post"],
        leeway: float,
    ) -> None:
        super().__init__()
        if client_auth not in ("basic", "post"):
            raise ValueError(f"client_auth must be 'basic' or 'post', not {client_auth!r}")
        check_number("leeway", leeway, unit="seconds")
        for name, value in (("client_id", client_id), ("client_secret", client_secret)):
            if value is not None and not isinstance(value, str):
                raise TypeError(f"{name} must be a str, not {type(value).__name__}")
        self._url = parse_url(token_url)
        self._client_id = client_id
        self._client_secret = client_secret
        self._client_auth = client_auth
        self._leeway = leeway
        self._form = form

    def _build_request(self, **grant: str) -> ClientRequest:
        """Return the request for a token (RFC 6749, sections 2.3.1, 4.4.2 and 6)."""
        form, auth = {**grant, **self._form}, None
        if self._client_secret is not None and self._client_auth == "basic":
            auth = _client_auth_header(self._client_id or "", self._client_secret)
        else:
            pairs = (("client_id", self._client_id), ("client_secret", self._client_secret))
            form.update((name, value) for name, value in pairs if value is not None)
        return ClientRequest(
            "POST",
            self._url,
            _HEADERS,
            auth=auth,
            body=SecretBody(urlencode(form).encode("ascii")),
            max_response_size=_MAX_RESPONSE,
        )

    def _to_cached_token(self, grant: _TokenResponse, begun: float) -> CachedToken:
        if grant.lifetime is None:
            return CachedToken(grant.token)
        # Half at most, because a token with a short life would be expired at once.
        leeway = min(self._leeway, grant.lifetime / 2)
        return CachedToken(grant.token, begun + grant.lifetime - leeway)

    def _secrets(self) -> list[str]:
        return [self._client_secret or ""]


@with_suggestions("OAuth2ClientCredentials")
class OAuth2ClientCredentials(_OAuth2Auth):
    """Authenticate with the OAuth 2.0 client credentials grant (RFC 6749, section 4.4).

    The first request fetches an access token. It is fetched again before it expires, and after a
    response with status 401, which is retried once. Requests that need a token at the same time, in
    any threads and event loops, share one fetch. It is sent by the client that needs the token.

    Args:
        token_url: absolute URL of the token endpoint.
        client_id: the client identifier.
        client_secret: the client secret.
        scope: the scopes to request: several, or one str separated by spaces.
        audience: the audience, if the server requires one.
        parameters: further fields of the form.
        client_auth: how to send the client secret: "basic" in the Authorization header
            (client_secret_basic), or "post" in the form (client_secret_post).
        leeway: how many seconds before it expires a token is replaced; at most half of its
            lifetime.

    Raises:
        InvalidURL, MissingSchema, InvalidSchema: token_url is not a valid URL.
        ValueError: another argument is invalid.
        OAuth2Error: when sending: the server returned no token.
    """

    __slots__ = ()

    def __init__(
        self,
        token_url: str | URL,
        client_id: str,
        client_secret: str,
        *,
        scope: str | Iterable[str] | None = None,
        audience: str | None = None,
        parameters: Mapping[str, str] | None = None,
        client_auth: Literal["basic", "post"] = "basic",
        leeway: float = 30.0,
    ) -> None:
        super().__init__(
            token_url,
            client_id,
            client_secret,
            form=_build_form(scope, audience, parameters),
            client_auth=client_auth,
            leeway=leeway,
        )

    def steps(self, now: Callable[[], float]) -> Steps:
        """Request a token."""
        begun = now()
        request = self._build_request(grant_type="client_credentials")
        response: Response = yield request
        return self._to_cached_token(_parse_response(response, request, self._secrets()), begun)


@with_suggestions("OAuth2RefreshToken")
class OAuth2RefreshToken(_OAuth2Auth):
    """Authenticate with an OAuth 2.0 refresh token (RFC 6749, section 6).

    The server may return a new refresh token each time, which invalidates the old one. Use `save`
    to store it for the next start of your program. Only one process may use a refresh token at a
    time.

    Args:
        token_url: absolute URL of the token endpoint.
        refresh_token: the current refresh token.
        client_id: the client identifier, or None if the server requires none.
        client_secret: the client secret; None for a public client.
        scope: see OAuth2ClientCredentials; None for the scopes that were granted first.
        audience: see OAuth2ClientCredentials.
        parameters: see OAuth2ClientCredentials.
        client_auth: see OAuth2ClientCredentials.
        leeway: see OAuth2ClientCredentials.
        save: called with each new refresh token, before any request uses the access token that came
            with it. AsyncClient calls it in a thread, unless it is a coroutine function. If it
            raises an error, all requests that wait for the token raise that error.

    Raises:
        InvalidURL, MissingSchema, InvalidSchema: token_url is not a valid URL.
        ValueError: another argument is invalid.
        TypeError: when sending with Client: `save` is async.
        OAuth2Error: when sending: the server returned no token.
    """

    __slots__ = ("_refresh_token", "_save")

    def __init__(
        self,
        token_url: str | URL,
        refresh_token: str,
        client_id: str | None = None,
        client_secret: str | None = None,
        *,
        scope: str | Iterable[str] | None = None,
        audience: str | None = None,
        parameters: Mapping[str, str] | None = None,
        client_auth: Literal["basic", "post"] = "basic",
        leeway: float = 30.0,
        save: Callable[[str], object] | Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        super().__init__(
            token_url,
            client_id,
            client_secret,
            form=_build_form(scope, audience, parameters),
            client_auth=client_auth,
            leeway=leeway,
        )
        self._refresh_token = refresh_token
        self._save = save

    @property
    def functions(self) -> tuple[Function, ...]:
        """Return the function that saves refresh tokens."""
        return () if self._save is None else (self._save,)

    def steps(self, now: Callable[[], float]) -> Steps:
        """Request a token, and save the refresh token that comes with it."""
        begun = now()
        known = self._refresh_token
        request = self._build_request(grant_type="refresh_token", refresh_token=known)
        response: Response = yield request
        grant = _parse_response(response, request, [*self._secrets(), known])
        if grant.refresh_token not in (None, known):
            self._refresh_token = grant.refresh_token
            if self._save is not None:
                yield FunctionCall(partial(self._save, grant.refresh_token), blocks=True)
        return self._to_cached_token(grant, begun)


def _build_form(
    scope: str | Iterable[str] | None, audience: str | None, parameters: Mapping[str, str] | None
) -> dict[str, str]:
    words = scope
    if isinstance(scope, Iterable) and not isinstance(scope, (str, bytes)):
        words = " ".join(map(str, scope))
    if words is not None and not isinstance(words, str):
        raise TypeError(f"scope must be a str or a list of them, not {type(scope).__name__}")
    if parameters is not None and not isinstance(parameters, Mapping):
        raise TypeError(f"parameters must be a mapping, not {type(parameters).__name__}")
    fields = {"scope": words, "audience": audience, **(parameters or {})}
    return {name: value for name, value in fields.items() if value is not None}


def _client_auth_header(client_id: str, client_secret: str) -> Auth:
    # Form-encoded, so that the name contains no colon (RFC 6749, section 2.3.1).
    return BasicAuth(quote_plus(client_id), quote_plus(client_secret))


# --- token responses ---


def _parse_response(
    response: Response, request: ClientRequest, secrets: list[str]
) -> _TokenResponse:
    """Parse a token response (RFC 6749, section 5.1).

    Raises:
        OAuth2Error: it is an error, or contains no usable token.
    """
    try:
        answer = response.json()
    except RequestException:
        answer = None
    fields: _Fields = answer if isinstance(answer, dict) else {}
    status = response.status_code
    # Some servers send errors with status 200.
    if status not in (200, 201) or isinstance(fields.get("error"), str):
        raise _make_error(request, status, fields, secrets)
    try:
        return _parse_token(fields)
    except _InvalidResponseError as error:
        raise OAuth2Error(
            f"{request}: the token server's response {error}",
            request=request.without_credentials(),
            request_sent=True,
            status_code=status,
        ) from None


class _InvalidResponseError(Exception):
    """What is wrong with a token response."""


def _parse_token(fields: _Fields) -> _TokenResponse:
    token, kind = fields.get("access_token"), fields.get("token_type")
    if token is None:
        raise _InvalidResponseError("has no access_token")
    if not is_valid_token(token):
        raise _InvalidResponseError("has an access_token that cannot be sent")
    # A client must not use a token of an unknown type (RFC 6749, section 7.1).
    if kind is not None and not (isinstance(kind, str) and kind.lower() == "bearer"):
        raise _InvalidResponseError("has a token_type other than Bearer")
    lifetime = fields.get("expires_in")
    # Some servers, such as Azure's version 1, send the number as a string.
    if isinstance(lifetime, str) and _DIGITS.fullmatch(lifetime):
        lifetime = float(lifetime)  # int() refuses thousands of digits
    if lifetime is not None and not _is_lifetime(lifetime):
        raise _InvalidResponseError("has an expires_in that is not a number of seconds")
    refresh_token = fields.get("refresh_token")
    if not (refresh_token is None or (isinstance(refresh_token, str) and refresh_token)):
        raise _InvalidResponseError("has an invalid refresh_token")
    return _TokenResponse(
        token, None if lifetime is None else float(min(lifetime, _MAX_LIFETIME)), refresh_token
    )


def _is_lifetime(value: object) -> bool:
    # Not NaN, and not a bool, which is an int.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _make_error(
    request: ClientRequest,
    status: int,
    fields: _Fields,
    secrets: list[str],
) -> OAuth2Error:
    """Return the error for an error response (RFC 6749, section 5.2)."""
    names = ("error", "error_description", "error_uri")
    error, description, uri = (_redact(fields.get(name), secrets) for name in names)
    text = ": ".join(filter(None, (error, description)))
    return OAuth2Error(
        f"{request}: the token server answered {status}{' ' if text else ''}{text}",
        request=request.without_credentials(),
        request_sent=True,
        status_code=status,
        error=error,
        error_description=description,
        error_uri=uri,
    )


def _redact(text: object, secrets: list[str]) -> str | None:
    """Return a text of the server for a message, without the secrets that it may repeat."""
    if not isinstance(text, str):
        return None
    for secret in filter(None, secrets):
        for form in (secret, quote_plus(secret)):
            text = text.replace(form, "***")
    return _NOT_PRINTABLE.sub(" ", text)[:_MAX_TEXT]
