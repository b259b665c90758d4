"""Decide where a redirect leads, and which headers and credentials are sent there.

libcurl's own redirects are never used, because they leak credentials to other origins and follow
304 and 305. The loop over the hops is in _client/base_layer.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from curlhttp._http.auth import NO_AUTH, Auth, BasicAuth
from curlhttp._http.body import rewind
from curlhttp._http.headers import drop_headers, is_content_field
from curlhttp._http.request import REDIRECT_METHOD
from curlhttp._http.response import REDIRECT_STATUSES
from curlhttp._http.timings import drop_waits
from curlhttp._http.url import BLANKS, decode_reference, may_keep_credentials
from curlhttp.exceptions import RequestException, TooManyRedirects, UnrewindableBodyError

if TYPE_CHECKING:
    from curlhttp._http.body import Body
    from curlhttp._http.headers import Headers
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._http.url import URL

# The jar builds Cookie for each hop, and the engine adds a proxy's credentials.
_NEVER_FORWARDED = frozenset({"cookie", "proxy-authorization"})


class _LocationAuth(BasicAuth):
    """Credentials from a Location, for that redirect only."""


def get_location(status: int, headers: Headers) -> str | None:
    """Return the Location of a redirect; None if there is none, or an empty one.

    Args:
        status: the status code of the response.
        headers: of the response; the first Location that is not empty counts.
    """
    if status not in REDIRECT_STATUSES:
        return None
    values = [value.strip(BLANKS) for value in headers.get_list("location")]
    return next(filter(None, values), None)


def get_redirect_method(method: str, status: int) -> str:
    """Return the method of the request after a redirect, as in requests.

    After a 302, browsers keep other methods than POST.
    """
    if status in (302, 303) and method != "HEAD":
        return "GET"
    return "GET" if status == 301 and method == "POST" else method


def build_redirect(
    request: ClientRequest,
    response_status: int,
    location: str,
    sensitive_headers: frozenset[str],
    rebase: Callable[[URL], URL] | None = None,
    sent_to: URL | None = None,
) -> ClientRequest:
    """Return the next request, without the credentials that must not be sent there.

    If the method stays, the body and its fields stay. Otherwise they are dropped.

    Args:
        request: the request that was redirected.
        response_status: one of REDIRECT_STATUSES.
        location: of the response; see get_location().
        sensitive_headers: names of further headers that must not be sent to another origin.
        rebase: returns the URL to use for that of the location, None to use it as it is.
        sent_to: the URL that answered, if that of the request is another; see `rebase`.

    Raises:
        InvalidSchema: the location is neither http nor https.
        InvalidURL: the location is not a valid URL.
        UnrewindableBodyError: the body must be sent again and cannot be.
    """
    url = (sent_to or request.url).join_location(decode_reference(location))
    if rebase is not None:
        url = rebase(url)
    choose = (request.extensions or {}).get(REDIRECT_METHOD, get_redirect_method)
    method = choose(request.method, response_status)
    keeps_body = method == request.method
    dropped = set(_NEVER_FORWARDED)
    if url.origin != request.url.origin:
        dropped.add("host")
    auth = _choose_auth(request, url)
    if auth is not request.auth:  # credentials in Location, or in netrc, replace the header
        dropped.add("authorization")
    if not may_keep_credentials(request.url, url):
        dropped.update(("authorization", *map(str.lower, sensitive_headers)))
    if not keeps_body:
        dropped.update(name.lower() for name in request.read_headers() if is_content_field(name))
    made = request.derive(
        method=method,
        url=url.without_userinfo(),
        headers=drop_headers(request.headers, dropped),
        body=_rewind(request, response_status) if keeps_body else None,
        auth=auth,
    )
    drop_waits(made)
    return made


def _choose_auth(request: ClientRequest, url: URL) -> Auth | None:
    auth: Auth | None = request.auth
    if url.username is not None or url.password is not None:
        return _LocationAuth(url.username or "", url.password or "")
    if auth is NO_AUTH:
        return auth
    if isinstance(auth, _LocationAuth) or not may_keep_credentials(request.url, url):
        return None
    return auth


def _rewind(request: ClientRequest, status: int) -> Body | None:
    error = rewind(request.body)
    if error is not None:
        raise UnrewindableBodyError(
            f"{request}: after the {status}, the body must be sent again, but {error}"
        ) from error
    return request.body


def get_next_hop(
    request: ClientRequest,
    response: Response,
    sensitive_headers: frozenset[str],
    *,
    followed: int,
    max_redirects: int,
    rebase: Callable[[URL], URL] | None = None,
) -> ClientRequest | None:
    """Return the request that follows a redirect, None if the response is final.

    Args:
        request: that was redirected.
        response: has one of REDIRECT_STATUSES.
        sensitive_headers: lower-case header names that must not be sent to another origin.
        followed: number of redirects so far.
        max_redirects: maximum number of redirects.
        rebase: returns the URL to use for that of the redirect, None to use it as it is.

    Raises:
        TooManyRedirects: there were max_redirects already.
        RequestException: the location is invalid, or the body cannot be replayed.
    """
    if not response.is_redirect:
        return None
    location = get_location(response.status_code, response.headers)
    # As in requests, a 3xx without a usable Location is final.
    if location is None:
        return None
    if followed == max_redirects:
        raise TooManyRedirects(
            f"Exceeded {max_redirects} redirects. The response to {request} is another one; "
            "max_redirects= of the client sets the limit",
            request=request,
            response=response,
            request_sent=True,
            timings=response.timings,
        )
    try:
        sent_to = None if rebase is None else response.request.url
        return build_redirect(
            request, response.status_code, location, sensitive_headers, rebase, sent_to
        )
    except RequestException as error:
        # The next request was not sent, so the error belongs to this one.
        error.request, error.response = request, response
        error.request_sent, error.timings = True, response.timings
        raise
