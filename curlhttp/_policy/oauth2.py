"""Access tokens of OAuth 2.0 (RFC 6749): what is asked for, and what of the answers is believed.

It sends nothing: it yields the request, and is sent the response. No secret is in a repr, a
message or a pickle.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias
from urllib.parse import quote_plus, urlencode

from curlhttp._models.body import SecretBody
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._models.url import URL, parse_url
from curlhttp._policy.auth import Auth, BasicAuth
from curlhttp._policy.token_auth import (
    CachedToken,
    Function,
    Steps,
    TokenAuth,
    TokenRequest,
    Value,
    bearer_refused,
    is_token,
)
from curlhttp.exceptions import OAuth2Error, RequestException

__all__ = ["OAuth2ClientCredentials", "OAuth2RefreshToken"]

_LARGEST = 256 * 1024  # bytes of an answer
_LONGEST_LIFE = 10 * 366 * 86_400  # seconds
_LONGEST_SHOWN = 200  # characters of what the server says
_FORM = "application/x-www-form-urlencoded"
_HEADERS = {"Accept": "application/json", "Content-Type": _FORM}
_Fields: TypeAlias = "dict[str, Any]"  # of JSON
_DIGITS = re.compile(r"[0-9]{1,15}")
_UNSHOWN = re.compile(r"[^\x20-\x7e]+")


class _TokenResponse(NamedTuple):
    """What a token server gave.

    Attributes:
        token: the access token.
        lifetime: seconds that it is good for, or None where the server does not say.
        refresh_token: the one to use from now on, or None for the same.
    """

    token: str
    lifetime: float | None
    refresh_token: str | None


class _OAuth2Auth(TokenAuth):
    """Send the access token that a token server gives (RFC 6749, RFC 6750)."""

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
        if not leeway >= 0:
            raise ValueError(f"leeway must not be below 0 seconds, as {leeway!r} is")
        self._url = parse_url(token_url)
        self._client_id = client_id
        self._client_secret = client_secret
        self._client_auth = client_auth
        self._leeway = leeway
        self._form = form

    def apply(self, request: Request, value: Value) -> Request:
        """Return the request with its Authorization (RFC 6750, section 2.1)."""
        request.headers["Authorization"] = f"Bearer {value}"
        return request

    def refuses(self, response: Response) -> bool:
        """Return whether the response says that the token is not valid."""
        return bearer_refused(response)

    def _request(self, **grant: str) -> Request:
        """Return the request for a token (RFC 6749, sections 2.3.1, 4.4.2 and 6)."""
        form, auth = {**grant, **self._form}, None
        if self._client_secret is not None and self._client_auth == "basic":
            auth = _basic(self._client_id or "", self._client_secret)
        else:
            pairs = (("client_id", self._client_id), ("client_secret", self._client_secret))
            form.update((name, value) for name, value in pairs if value is not None)
        return Request(
            "POST",
            self._url,
            _HEADERS,
            auth=auth,
            body=SecretBody(urlencode(form).encode("ascii")),
            max_response_size=_LARGEST,
        )

    def _obtained(self, grant: _TokenResponse, begun: float) -> CachedToken:
        if grant.lifetime is None:
            return CachedToken(grant.token)
        # A token of a few seconds would else be too old at once.
        leeway = min(self._leeway, grant.lifetime / 2)
        return CachedToken(grant.token, begun + grant.lifetime - leeway)

    def _secrets(self) -> list[str]:
        return [self._client_secret or ""]


class OAuth2ClientCredentials(_OAuth2Auth):
    """Fetch access tokens with a client's own credentials (RFC 6749, section 4.4).

    The token is fetched by the first request, and again before it expires, and once more for a
    request that is answered by 401. Requests that need it at the same time wait for one fetch, in
    whatever threads and event loops they are. The fetch goes through the client that needs it.

    Args:
        token_url: the token server's, absolute.
        client_id: the client's name.
        client_secret: its password.
        scope: what the token is to be good for: words, or one str of them.
        audience: for whom it is to be, where the server asks for that.
        parameters: more fields of the form.
        client_auth: how the client shows who it is: "basic" in a header (client_secret_basic), or
            "post" in the form (client_secret_post).
        leeway: seconds before its end at which a token is fetched again; at most half of its life.

    Raises:
        InvalidURL, MissingSchema, InvalidSchema: token_url is none.
        ValueError: another argument is wrong.
        OAuth2Error: of a request: the server gave no token.
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
            form=_form_of(scope, audience, parameters),
            client_auth=client_auth,
            leeway=leeway,
        )

    def steps(self, now: Callable[[], float]) -> Steps:
        """Ask for a token."""
        begun = now()
        request = self._request(grant_type="client_credentials")
        response: Response = yield request
        return self._obtained(_granted(response, request, self._secrets()), begun)


class OAuth2RefreshToken(_OAuth2Auth):
    """Fetch access tokens with a refresh token (RFC 6749, section 6).

    A server may give another refresh token each time, which makes the one before worthless: `save`
    is where it is kept for the next start of the program. One process at a time uses it.

    Args:
        token_url: the token server's, absolute.
        refresh_token: the one that is good now.
        client_id: the client's name, or None where the server asks for none.
        client_secret: its password; None for a public client.
        scope: see OAuth2ClientCredentials; None for what was granted first.
        audience: see there.
        parameters: see there.
        client_auth: see there.
        leeway: see there.
        save: called with each new refresh token, before any request uses what came with it; in
            AsyncClient in a thread, unless it is a coroutine function. What it raises, the
            requests that wait raise.

    Raises:
        InvalidURL, MissingSchema, InvalidSchema: token_url is none.
        ValueError: another argument is wrong.
        TypeError: of a request in Client: `save` is async.
        OAuth2Error: of a request: the server gave no token.
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
            form=_form_of(scope, audience, parameters),
            client_auth=client_auth,
            leeway=leeway,
        )
        self._refresh_token = refresh_token
        self._save = save

    @property
    def functions(self) -> tuple[Function, ...]:
        """Return what is called when the refresh token changes."""
        return () if self._save is None else (self._save,)

    def steps(self, now: Callable[[], float]) -> Steps:
        """Ask for a token, and save the refresh token that comes with it."""
        begun = now()
        known = self._refresh_token
        request = self._request(grant_type="refresh_token", refresh_token=known)
        response: Response = yield request
        grant = _granted(response, request, [*self._secrets(), known])
        if grant.refresh_token not in (None, known):
            self._refresh_token = grant.refresh_token
            if self._save is not None:
                yield TokenRequest(partial(self._save, grant.refresh_token), blocks=True)
        return self._obtained(grant, begun)


def _form_of(
    scope: str | Iterable[str] | None, audience: str | None, parameters: Mapping[str, str] | None
) -> dict[str, str]:
    words = scope if scope is None or isinstance(scope, str) else " ".join(scope)
    fields = {"scope": words, "audience": audience, **(parameters or {})}
    return {name: value for name, value in fields.items() if value is not None}


def _basic(client_id: str, client_secret: str) -> Auth:
    # RFC 6749, section 2.3.1: each of them as a form has it, so that no colon is in the name.
    return BasicAuth(quote_plus(client_id), quote_plus(client_secret))


# --- what a server says ---


def _granted(response: Response, request: Request, secrets: list[str]) -> _TokenResponse:
    """Return what a token server gave (RFC 6749, section 5.1).

    Raises:
        OAuth2Error: it gave nothing that can be used.
    """
    try:
        answer = response.json()
    except RequestException:
        answer = None
    fields: _Fields = answer if isinstance(answer, dict) else {}
    status = response.status_code
    # Some servers say 200 to an error.
    if status not in (200, 201) or isinstance(fields.get("error"), str):
        raise _refusal(request, status, fields, secrets)
    try:
        return _read_grant(fields)
    except _UnusableError as error:
        raise OAuth2Error(
            f"{request}: the token server's answer {error}",
            request=request.without_credentials(),
            request_sent=True,
            status_code=status,
        ) from None


class _UnusableError(Exception):
    """Report what is wrong with an answer."""


def _read_grant(fields: _Fields) -> _TokenResponse:
    token, kind = fields.get("access_token"), fields.get("token_type")
    if token is None:
        raise _UnusableError("has no access_token")
    if not is_token(token):
        raise _UnusableError("has an access_token that cannot be sent")
    # RFC 6749, section 7.1: a token of a type that is not understood must not be used.
    if kind is not None and not (isinstance(kind, str) and kind.lower() == "bearer"):
        raise _UnusableError("has a token_type other than Bearer")
    lifetime = fields.get("expires_in")
    # Some servers, such as Azure's of version 1, write the number as a string.
    if isinstance(lifetime, str) and _DIGITS.fullmatch(lifetime):
        lifetime = int(lifetime)
    if lifetime is not None and not _is_time(lifetime):
        raise _UnusableError("has an expires_in that is no number of seconds")
    refresh_token = fields.get("refresh_token")
    if not (refresh_token is None or (isinstance(refresh_token, str) and refresh_token)):
        raise _UnusableError("has a refresh_token that is none")
    return _TokenResponse(
        token, None if lifetime is None else float(min(lifetime, _LONGEST_LIFE)), refresh_token
    )


def _is_time(value: object) -> bool:
    # Neither NaN nor a bool, which is an int.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0


def _refusal(
    request: Request,
    status: int,
    fields: _Fields,
    secrets: list[str],
) -> OAuth2Error:
    """Return the error for a refusal (RFC 6749, section 5.2)."""
    names = ("error", "error_description", "error_uri")
    error, description, uri = (_shown(fields.get(name), secrets) for name in names)
    said = ": ".join(filter(None, (error, description)))
    return OAuth2Error(
        f"{request}: the token server answered {status}{' ' if said else ''}{said}",
        request=request.without_credentials(),
        request_sent=True,
        status_code=status,
        error=error,
        error_description=description,
        error_uri=uri,
    )


def _shown(text: object, secrets: list[str]) -> str | None:
    """Return what a server says, fit for a message: without what it may repeat of ours."""
    if not isinstance(text, str):
        return None
    for secret in filter(None, secrets):
        for form in (secret, quote_plus(secret)):
            text = text.replace(form, "***")
    return _UNSHOWN.sub(" ", text)[:_LONGEST_SHOWN]
