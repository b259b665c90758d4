"""Subrequests: what the flow of an Auth sends in addition to the request itself.

Only the author of the flow knows where a subrequest goes. So a subrequest to another origin has no
secrets of the request, unless the flow put them there itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from curlhttp._models.body import SecretBody
from curlhttp._models.headers import Headers
from curlhttp._models.redaction import is_secret_header
from curlhttp._models.request import ClientRequest
from curlhttp._policy.auth import NO_AUTH, BasicAuth, to_auth
from curlhttp._policy.redirects import drop_headers, may_keep_credentials

if TYPE_CHECKING:
    from curlhttp._models.config import NetworkRoute
    from curlhttp._models.cookies.jar import Cookies
    from curlhttp._models.inputs import (
        JSON,
        AuthInput,
        CookiesInput,
        DataInput,
        FilesInput,
        HeadersInput,
        ParamsInput,
        UserRequest,
    )
    from curlhttp._models.url import URL

_HARMLESS = frozenset({"user-agent", "accept", "accept-encoding"})
_SET_BY_LIBCURL = frozenset({"host", "content-length", "transfer-encoding"})


def is_subrequest(yielded: object, original: ClientRequest) -> bool:
    """Return whether a flow yielded a subrequest, and not the request itself.

    Args:
        yielded: what the flow yielded.
        original: the request to authenticate.
    """
    if not isinstance(yielded, ClientRequest) or cast("NetworkRoute | None", yielded.route) is None:
        return True
    return yielded.method != original.method or not may_keep_credentials(original.url, yielded.url)


def make_subrequest(
    yielded: object, original: ClientRequest, changed: ClientRequest, who: str
) -> ClientRequest:
    """Complete a subrequest with the time limits, proxies, TLS and cookies of the request.

    Args:
        yielded: a request of curlhttp or httpx; one derived from the request has its settings.
        original: the request to authenticate, as the caller built it.
        changed: the flow's copy of it, with its changes.
        who: the name of the flow's method, for messages.

    Raises:
        TypeError: the flow yielded no request.
        RequestException: the request is invalid.
    """
    if isinstance(yielded, ClientRequest):
        if cast("NetworkRoute | None", yielded.route) is None:
            return _complete(yielded, original, _no_cookies)
        return _derive(yielded, original, changed)
    if hasattr(yielded, "prepare"):
        return _from_user_request(cast("UserRequest", yielded), original)
    if all(hasattr(yielded, name) for name in ("method", "url", "headers", "read")):  # httpx's
        fields = yielded.headers.multi_items()  # type: ignore[attr-defined]
        own = ClientRequest(
            yielded.method,  # type: ignore[attr-defined]
            str(yielded.url),  # type: ignore[attr-defined]
            [field for field in fields if field[0].lower() not in _SET_BY_LIBCURL],
            content=yielded.read() or None,  # type: ignore[attr-defined]
        )
        return _complete(own, original, _no_cookies)
    raise TypeError(f"{who} must yield requests, not {type(yielded).__name__}")


def _no_cookies(url: URL) -> None:
    """Return None, because the request has no cookies of its own."""


def _from_user_request(yielded: UserRequest, original: ClientRequest) -> ClientRequest:
    """Complete a curlhttp.Request."""
    if any(dict(yielded.hooks or {}).values()):
        raise ValueError("hooks of one request are for Session; pass a client's to the client")
    own = ClientRequest(
        cast(str, yielded.method),
        cast(str, yielded.url),
        cast("HeadersInput | None", yielded.headers),
        cast("FilesInput | None", yielded.files),
        cast("DataInput | None", yielded.data or None),
        cast("ParamsInput | None", yielded.params),
        to_auth(cast("AuthInput | None", yielded.auth)),
        json=cast("JSON", yielded.json),
    )
    cookies = cast("CookiesInput | None", yielded.cookies)
    return _complete(
        own, original, lambda url: None if cookies is None else _bind_cookies(cookies, url)
    )


def _bind_cookies(cookies: CookiesInput, url: URL) -> Cookies:
    from curlhttp._models.cookies.jar import Cookies

    return Cookies(cookies).bind(url)


def _complete(
    own: ClientRequest, original: ClientRequest, cookies: Callable[[URL], Cookies | None]
) -> ClientRequest:
    url = own.url
    auth = to_auth(own.auth)
    if auth is None and url.username is not None:
        auth = BasicAuth(url.username, url.password or "")
    body = own.body
    # Most are forms with credentials, which must not end up in the pickle of an error.
    if body is not None and body.data is not None:
        body = SecretBody(body.data, body.content_type)
    request = original.derive(
        method=own.method,
        url=url.without_userinfo(),
        headers=_get_client_headers(original, url).merged(
            drop_headers(own.headers, _SET_BY_LIBCURL)
        ),
        body=body,
        auth=auth or NO_AUTH,
        cookies=own.cookies or cookies(url),
    )
    request.stream = request.follow_redirects = False
    request.decode = True
    request.extensions = None
    return request


def _get_client_headers(original: ClientRequest, url: URL) -> Headers:
    """Return the client's headers that may be sent to a URL."""
    if may_keep_credentials(original.url, url):
        # Without those that a redirect has dropped.
        kept = set(original.headers.multi_items())
        fields = [field for field in original._shared_headers.multi_items() if field in kept]
        found = [field for field in fields if field[0].lower() != "content-type"]
    else:
        fields = original._shared_headers.multi_items()
        found = [field for field in fields if field[0].lower() in _HARMLESS]
    return Headers(found, sensitive=original.sensitive)


def _derive(
    yielded: ClientRequest, original: ClientRequest, changed: ClientRequest
) -> ClientRequest:
    request = yielded.copy()
    request.stream = request.follow_redirects = False
    if request.auth is original.auth:
        request.auth = NO_AUTH
    if not may_keep_credentials(original.url, yielded.url):
        # Drop what was copied with the request, because it was meant for the request's origin.
        carried = {*original.headers.multi_items(), *changed.headers.multi_items()}
        secret = original.sensitive
        request.headers = Headers(
            [
                field
                for field in yielded.headers.multi_items()
                if field not in carried
                or not (field[0].lower() in secret or is_secret_header(field[0]))
            ],
            sensitive=yielded.sensitive,
        )
        request.cookies = None
    return request
