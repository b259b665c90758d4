"""Where a redirect leads and what of the request may go there. It follows nothing itself.

libcurl's own redirects are never used: they leak user-set credentials to other origins and
follow 304 and 305.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from curlhttp._models.headers import Headers
from curlhttp._models.response import REDIRECT_STATUSES
from curlhttp._policy.auth import NO_AUTH, Auth, BasicAuth

if TYPE_CHECKING:
    from curlhttp._models.body import Body
    from curlhttp._models.request import Request
    from curlhttp._models.url import URL

__all__ = [
    "REDIRECT_STATUSES",
    "as_utf8",
    "location_of",
    "may_keep_credentials",
    "next_request",
    "redirect_method",
]

_KEEPS_BODY = frozenset({307, 308})
# The jar builds Cookie again on each hop; the engine knows who gets the proxy's credentials.
_NEVER_FORWARDED = frozenset({"cookie", "proxy-authorization"})
_OF_THE_BODY = frozenset(
    {
        "content-encoding",
        "content-language",
        "content-length",
        "content-location",
        "content-type",
        "digest",
        "expect",
        "last-modified",
        "trailer",
        "transfer-encoding",
    }
)


class _LocationAuth(BasicAuth):
    """Credentials out of a Location: good for the request that it leads to, not for the next."""


def location_of(status: int, headers: Headers) -> str | None:
    """Return the Location of a response that redirects, or None; an empty one does not.

    Args:
        status: the response's status code.
        headers: its headers; of several Location fields the first counts.
    """
    if status not in REDIRECT_STATUSES:
        return None
    return next((text for value in headers.get_list("location") if (text := value.strip())), None)


def redirect_method(method: str, status: int) -> str:
    """Return the method that follows a redirect, as browsers and requests have it."""
    if status in (302, 303) and method != "HEAD":
        return "GET"
    return "GET" if status == 301 and method == "POST" else method


def may_keep_credentials(old: URL, new: URL) -> bool:
    """Return whether credentials for one URL may go to another: the same origin, or its upgrade.

    The upgrade is requests' exception: from http on port 80 to https on port 443 of one host.
    """
    if old.origin == new.origin:
        return True
    upgrade = (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)
    return upgrade and old.host == new.host


def next_request(
    request: Request, response_status: int, location: str, sensitive: frozenset[str]
) -> Request:
    """Return the request that a redirect asks for.

    Args:
        request: the request that was redirected.
        response_status: one of REDIRECT_STATUSES.
        location: the value of Location, as location_of() gives it.
        sensitive: more header names that must not reach another origin.

    Raises:
        InvalidSchema: the location is neither http nor https.
        InvalidURL: the location is no URL that can be requested.
        UnrewindableBodyError: the body must be sent again and cannot be.
    """
    url = request.url.join(as_utf8(location))
    keeps_body = response_status in _KEEPS_BODY
    dropped = set(_NEVER_FORWARDED)
    if url.origin != request.url.origin:
        dropped.add("host")
    auth = _auth_for(request, url)
    if auth is not request.auth:
        dropped.add("authorization")
    if not may_keep_credentials(request.url, url):
        dropped.update(("authorization", *map(str.lower, sensitive)))
    if not keeps_body:
        dropped |= _OF_THE_BODY
    return request.derive(
        method=redirect_method(request.method, response_status),
        url=url.without_userinfo(),
        headers=_without(request.headers, dropped),
        body=_rewound(request.body) if keeps_body else None,
        auth=auth,
    )


def as_utf8(location: str) -> str:
    """Return a Location as the server meant it: header values are read as Latin-1."""
    try:
        return location.encode("latin-1").decode()
    except UnicodeError:
        return location


def _auth_for(request: Request, url: URL) -> Auth | None:
    auth: Auth | None = request.auth
    if url.username is not None or url.password is not None:
        return _LocationAuth(url.username or "", url.password or "")
    if auth is NO_AUTH:
        return auth
    if isinstance(auth, _LocationAuth) or not may_keep_credentials(request.url, url):
        return None
    return auth


def _without(headers: Headers, dropped: Iterable[str]) -> Headers:
    return Headers(
        [(name, value) for name, value in headers.multi_items() if name.lower() not in dropped],
        sensitive=headers.sensitive,
    )


def _rewound(body: Body | None) -> Body | None:
    if body is not None:
        body.rewind()
    return body
