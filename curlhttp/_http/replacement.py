"""Check and complete what a middleware or a hook sends in the place of a request.

A request that it creates has none of the client's settings, so it gets those of the request that it
replaces. Credentials only go where those of that request may go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from curlhttp._http.auth import BasicAuth, to_auth
from curlhttp._http.body import Body
from curlhttp._http.headers import Headers
from curlhttp._http.request import NEXT_ATTEMPT, ClientRequest
from curlhttp._http.url import URL, may_keep_credentials

if TYPE_CHECKING:
    from curlhttp._http.config import NetworkRoute

# The extension with a function that signs a request again, if it has changed.
SIGN_AGAIN = "curlhttp.sign_again"
_HARMLESS = frozenset({"user-agent", "accept", "accept-encoding"})


def check_request(request: object, original: ClientRequest, whose: str) -> ClientRequest:
    """Return the request that the user's code sends, ready to be sent.

    Args:
        request: what it sends.
        original: what it got.
        whose: the kind of code, for messages.

    Raises:
        TypeError: this is not a request, or its body is not a body.
    """
    if not isinstance(request, ClientRequest):
        kind = type(request).__name__
        raise TypeError(
            f"{whose} sent {kind}, not a ClientRequest: change the request, or send "
            "request.derive(...) or curlhttp.ClientRequest(method, url, ...)"
        )
    body = cast(object, request.body)
    if body is not None and not isinstance(body, Body):
        kind = type(body).__name__
        raise TypeError(
            f"{whose} set request.body to {kind}: set request.content, or send "
            "request.derive(data=...), derive(json=...) or derive(files=...)"
        )
    if is_incomplete(request):
        request = complete(request, original)
        if body is not None and original.body is not None:
            # With the caller's progress, and as a secret if it replaces one.
            request.body = original.body.replaced_by(body)
    return request


def is_incomplete(request: ClientRequest) -> bool:
    """Return whether a request was made by its constructor, without a client."""
    return cast("NetworkRoute | None", request.route) is None


def complete(own: ClientRequest, original: ClientRequest) -> ClientRequest:
    """Return a request with the settings of another one, where it has none.

    It has its own auth and that of its URL alone.

    Args:
        own: made by the constructor.
        original: whose settings it gets.
    """
    url = own.url
    auth = to_auth(own.auth)
    if auth is None and url.username is not None:
        auth = BasicAuth(url.username, url.password or "")
    request = original.copy()
    request.method, request.url, request.auth = own.method, url.without_userinfo(), auth
    request.headers = get_client_headers(original, url).merged(own.headers)
    request.body, request.cookies = own.body, own.cookies
    request.timeout = own.timeout or original.timeout
    if own.max_response_size is not None:
        request.max_response_size = own.max_response_size
    if not own.follow_redirects:
        request.follow_redirects = False
    request.retry = own.retry or original.retry
    if own.extensions is not None:
        request.extensions = {**(request.extensions or {}), **own.extensions}
    if request.extensions is not None and not may_keep_credentials(original.url, url):
        for name in (SIGN_AGAIN, NEXT_ATTEMPT):  # they would sign it
            request.extensions.pop(name, None)
    return request


def get_client_headers(original: ClientRequest, url: URL) -> Headers:
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
