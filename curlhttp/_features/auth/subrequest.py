"""Subrequests: what the flow of an Auth sends in addition to the request itself.

Only the author of the flow knows where a subrequest goes. So a subrequest to another origin has no
secrets of the request, unless the flow put them there itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from curlhttp._http.auth import NO_AUTH, to_auth
from curlhttp._http.body import Body, BytesBody
from curlhttp._http.headers import Headers, drop_headers
from curlhttp._http.redaction import is_secret_header
from curlhttp._http.replacement import complete, is_incomplete
from curlhttp._http.request import DECODE_JSON, ENCODE_JSON, FLOW_REQUEST, ClientRequest
from curlhttp._http.response import DEFAULT_ENCODING, FIND_CHARSET
from curlhttp._http.url import may_keep_credentials

if TYPE_CHECKING:
    from curlhttp._http.cookies.jar import Cookies
    from curlhttp._http.inputs import (
        AuthInput,
        CookiesInput,
        DataInput,
        FilesInput,
        HeadersInput,
        JSONInput,
        ParamsInput,
        UserRequest,
    )
    from curlhttp._http.url import URL

_KEPT = (DECODE_JSON, DEFAULT_ENCODING, ENCODE_JSON, FIND_CHARSET)
_SET_BY_LIBCURL = frozenset({"host", "content-length", "transfer-encoding"})


class SecretBody(BytesBody):
    """A body in memory that holds credentials."""

    __slots__ = ()
    is_secret = True

    def clone(self) -> Body:
        return SecretBody(self.data, self.content_type)

    def replaced_by(self, body: Body) -> Body:
        return body if body.data is None else SecretBody(body.data, body.content_type)


def is_subrequest(yielded: object, original: ClientRequest) -> bool:
    """Return whether a flow yielded a subrequest, and not the request itself.

    Args:
        yielded: what the flow yielded.
        original: the request to authenticate.
    """
    if not isinstance(yielded, ClientRequest) or is_incomplete(yielded):
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
        if is_incomplete(yielded):
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


def as_last_request(request: ClientRequest, original: ClientRequest) -> bool:
    """Let a subrequest be sent as the caller sent the request, because it may be the last one.

    Args:
        request: the subrequest, which is changed.
        original: the request to authenticate.

    Returns:
        Whether it opens the caller's WebSocket.
    """
    if original._opens_websocket:
        return request._opens_websocket and request.method == original.method
    request.stream = original.stream
    if original.follow_redirects:
        followed = request.copy()
        followed.follow_redirects = True
        request._extend(FLOW_REQUEST, followed)
    return False


def _no_cookies(url: URL) -> None:
    """Return None, because the request has no cookies of its own."""


def _from_user_request(yielded: UserRequest, original: ClientRequest) -> ClientRequest:
    """Complete a curlhttp.requests.Request."""
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
        json=cast("JSONInput", yielded.json),
    )
    cookies = cast("CookiesInput | None", yielded.cookies)
    return _complete(
        own, original, lambda url: None if cookies is None else _bind_cookies(cookies, url)
    )


def _bind_cookies(cookies: CookiesInput, url: URL) -> Cookies:
    from curlhttp._http.cookies.jar import Cookies

    return Cookies(cookies).bind(url)


def _complete(
    own: ClientRequest, original: ClientRequest, cookies: Callable[[URL], Cookies | None]
) -> ClientRequest:
    own = own.copy()
    own.headers = drop_headers(own.headers, _SET_BY_LIBCURL)
    request = complete(own, original)
    body = own.body
    # Most are forms with credentials, which must not end up in the pickle of an error.
    if body is not None and body.data is not None:
        request.body = SecretBody(body.data, body.content_type)
    request.auth = request.auth or NO_AUTH
    request.cookies = own.cookies or cookies(own.url)
    request.stream = request.follow_redirects = False
    request.decode = True
    # Those that say how its response is read.
    found = {name: each for name, each in (original.extensions or {}).items() if name in _KEPT}
    request.extensions = found or None
    return request


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
