"""What the flow of an Auth may send in addition to the request, and what may go along.

Nobody looks at where such a request goes but the program that wrote the flow: so nothing secret
that belongs to one origin is in a request to another that the flow did not put there itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from curlhttp._models.body import SecretBody
from curlhttp._models.headers import Headers
from curlhttp._models.redaction import is_secret_header
from curlhttp._models.request import Request
from curlhttp._policy.auth import NO_AUTH, Auth, BasicAuth, as_auth
from curlhttp._policy.redirect import may_keep_credentials

if TYPE_CHECKING:
    from curlhttp._models.config import Transport
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

__all__ = ["is_subrequest", "make_subrequest"]


_ANYWHERE = frozenset({"user-agent", "accept", "accept-encoding"})
_OF_LIBCURL = frozenset({"host", "content-length", "transfer-encoding"})


def is_subrequest(wanted: object, asked: Request) -> bool:
    """Return whether what a flow yields is another request than the one that it is about.

    Args:
        wanted: what it yielded.
        asked: the request that is to be authenticated.
    """
    if not isinstance(wanted, Request) or cast("Transport | None", wanted.transport) is None:
        return True
    return wanted.method != asked.method or not may_keep_credentials(asked.url, wanted.url)


def make_subrequest(wanted: object, asked: Request, changed: Request, who: str) -> Request:
    """Return another request that a flow yielded, complete.

    Its time limits, proxies, TLS and cookies are those of the request itself.

    Args:
        wanted: a Request of curlhttp or httpx, or one that was derived from the request.
        asked: the request that is to be authenticated, as it came.
        changed: the same, with what the flow has done to it up to now.
        who: the name of the method, for messages.

    Raises:
        TypeError: it is no request.
        RequestException: it cannot be sent as it is.
    """
    if isinstance(wanted, Request):
        if cast("Transport | None", wanted.transport) is None:
            return _completed(wanted, asked, _no_cookies)
        return _derived(wanted, asked, changed)
    if hasattr(wanted, "prepare"):
        return _of_users(cast("UserRequest", wanted), asked)
    if all(hasattr(wanted, name) for name in ("method", "url", "headers", "read")):  # httpx's
        fields = wanted.headers.multi_items()  # type: ignore[attr-defined]
        own = Request(
            wanted.method,  # type: ignore[attr-defined]
            str(wanted.url),  # type: ignore[attr-defined]
            [field for field in fields if field[0].lower() not in _OF_LIBCURL],
            content=wanted.read() or None,  # type: ignore[attr-defined]
        )
        return _completed(own, asked, _no_cookies)
    raise TypeError(f"{who} must yield requests, not {type(wanted).__name__}")


def _no_cookies(url: URL) -> None:
    """Give no cookies of the request's own."""


def _of_users(wanted: UserRequest, asked: Request) -> Request:
    """Return what a curlhttp.Request asks for."""
    if any(dict(wanted.hooks or {}).values()):
        raise ValueError("hooks of one request are for Session; give a client's to the client")
    own = Request(
        cast(str, wanted.method),
        cast(str, wanted.url),
        cast("HeadersInput | None", wanted.headers),
        cast("FilesInput | None", wanted.files),
        cast("DataInput | None", wanted.data or None),
        cast("ParamsInput | None", wanted.params),
        as_auth(cast("AuthInput | None", wanted.auth)),
        json=cast("JSON", wanted.json),
    )
    cookies = cast("CookiesInput | None", wanted.cookies)
    return _completed(own, asked, lambda url: None if cookies is None else _bound(cookies, url))


def _bound(cookies: CookiesInput, url: URL) -> Cookies:
    from curlhttp._models.cookies.jar import Cookies

    return Cookies(cookies).bind(url)


def _completed(own: Request, asked: Request, cookies: Callable[[URL], Cookies | None]) -> Request:
    url = own.url
    auth: Auth | None = own.auth
    if auth is None and url.username is not None:
        auth = BasicAuth(url.username, url.password or "")
    body = own.body
    # Most are forms with credentials: an error that holds one may end up in a pickle.
    if body is not None and body.data is not None:
        body = SecretBody(body.data, body.content_type)
    request = asked.derive(
        method=own.method,
        url=url.without_userinfo(),
        headers=_of_client(asked, url).merged(_without(own.headers, _OF_LIBCURL)),
        body=body,
        auth=auth or NO_AUTH,
        cookies=own.cookies or cookies(url),
    )
    request.stream = request.follow_redirects = False
    request.decode = True
    request.extensions = None
    return request


def _of_client(asked: Request, url: URL) -> Headers:
    """Return those of the client's headers that may go to a URL."""
    if may_keep_credentials(asked.url, url):
        # What a redirect has taken away stays away.
        kept = set(asked.headers.multi_items())
        fields = [field for field in asked._shared_headers.multi_items() if field in kept]
        found = [field for field in fields if field[0].lower() != "content-type"]
    else:
        fields = asked._shared_headers.multi_items()
        found = [field for field in fields if field[0].lower() in _ANYWHERE]
    return Headers(found, sensitive=asked.sensitive)


def _derived(wanted: Request, asked: Request, changed: Request) -> Request:
    request = wanted.copy()
    request.stream = request.follow_redirects = False
    if request.auth is asked.auth:
        request.auth = NO_AUTH
    if not may_keep_credentials(asked.url, wanted.url):
        # Copied together with the request: they were meant for its own origin.
        carried = {*asked.headers.multi_items(), *changed.headers.multi_items()}
        secret = asked.sensitive
        request.headers = Headers(
            [
                field
                for field in wanted.headers.multi_items()
                if field not in carried
                or not (field[0].lower() in secret or is_secret_header(field[0]))
            ],
            sensitive=wanted.sensitive,
        )
        request.cookies = None
    return request


def _without(headers: Headers, names: Iterable[str]) -> Headers:
    return Headers(
        [field for field in headers.multi_items() if field[0].lower() not in names],
        sensitive=headers.sensitive,
    )
