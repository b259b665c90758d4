"""Follow redirects; apply the deadline, authentication and cookies to each hop.

_policy/redirect.py makes the request for the next hop and drops credentials that it must not get.

This is in every chain, and most requests need none of it. So it is one coroutine, which checks
before and after each exchange whether there is anything to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from curlhttp._engine.engine import Clock, Layer, Send
from curlhttp._engine.network import network
from curlhttp._flow.auth import AuthContext, FindCredentials, authenticate, method_from_netrc
from curlhttp._models.cookies import LazyCookieJar
from curlhttp._models.request import Request
from curlhttp._models.response import REDIRECT_STATUSES, Response
from curlhttp._models.timings import number_attempts
from curlhttp._policy.auth import NO_AUTH
from curlhttp._policy.redirect import location_of, next_request
from curlhttp.exceptions import RequestException, TooManyRedirects

__all__ = ["LEAST", "bounded", "cookies", "hops", "store_cookies"]


# --- Send the jar's cookies and store the response's. A client without cookies pays nothing ---


def cookies(send: Send) -> Send:
    """Return the layer that adds Cookie, unless the caller did, and stores what comes back."""

    async def through(request: Request) -> Response:
        jar = request.jar
        if jar is None:
            return await send(request)
        response = await send(with_cookies(request, jar))
        # Before the layers above see the response: another request that they send needs them.
        store_cookies(jar, response)
        return response

    return through


def with_cookies(request: Request, jar: LazyCookieJar) -> Request:
    """Return the request with the jar's cookies and its own; itself where there are none to add."""
    header = jar.header(request.url, request.cookies)
    if header is None or request.get_header("cookie") is not None:
        return request
    # In a copy: the caller may send this request again, when the jar holds others.
    request = request.copy()
    request.headers["Cookie"] = header
    return request


def store_cookies(jar: LazyCookieJar | None, response: Response) -> None:
    """Put what a response sets into a jar, if there are both."""
    if jar is not None and response.sets_cookies:
        jar.store(response.request.url, response.headers.get_list("set-cookie"))


# --- Turn the total timeout into a point in time, which bounds every wait and transfer below ---

LEAST = 0.001  # seconds without which an attempt is not worth beginning


def bounded(request: Request, now: Callable[[], float]) -> Request:
    """Return a copy of a request, which has a total, with its deadline.

    Args:
        request: the caller may send this one again, later.
        now: gives monotonic seconds.
    """
    total = request.timeout.total
    assert total is not None
    request = request.copy()
    request.deadline = now() + total
    return request


# --- Follow a redirect. Where it leads and what goes along is decided in _policy/redirect.py ---


def next_hop(
    request: Request,
    response: Response,
    sensitive: frozenset[str],
    *,
    followed: int,
    max_redirects: int,
) -> Request | None:
    """Return the request that a response asks for, or None.

    Args:
        request: what the response answers.
        response: has one of REDIRECT_STATUSES.
        sensitive: lower-case header names that must not reach another origin.
        followed: how many redirects led to the request.
        max_redirects: how many may.

    Raises:
        TooManyRedirects: it would be one too many.
        RequestException: it leads nowhere that can be requested, or the body cannot go there.
    """
    if not response.is_redirect:
        return None
    location = location_of(response.status_code, response.headers)
    # A 3xx without a usable Location is an answer like any other, as in requests.
    if location is None:
        return None
    # Raised with the response in it, so that the caller sees where the circle ends.
    if followed == max_redirects:
        raise TooManyRedirects(
            f"Exceeded {max_redirects} redirects. {request} would have been followed by one more; "
            "max_redirects= of the client sets how many are followed",
            request=request,
            response=response,
            request_sent=True,
            timings=response.timings,
        )
    try:
        return next_request(request, response.status_code, location, sensitive)
    except RequestException as error:
        # The target was never asked: what the error tells of is the request before it.
        error.request, error.response = request, response
        error.request_sent, error.timings = True, response.timings
        raise


def hops(
    clock: Clock,
    max_redirects: int,
    sensitive: frozenset[str],
    netrc: FindCredentials | None,
    auth_context: AuthContext,
) -> Layer:
    """Return the layer that takes a request through all its hops.

    Args:
        clock: tells the time.
        max_redirects: how many to follow, before TooManyRedirects.
        sensitive: lower-case header names that must not reach another origin.
        netrc: gives user name and password for a host; None when the environment is not asked.
        auth_context: what an Auth needs in addition; its `upgrade` is for each hop, too.
    """
    now, upgrade = clock.now, auth_context.upgrade

    def around(send: Send) -> Send:
        send_with_cookies = cookies(send)

        async def through(request: Request) -> Response:
            if request.timeout.total is not None and request.deadline is None:
                request = bounded(request, now)  # one budget over all below
            if network.counts_sends:
                number_attempts(request)
            followed = 0
            history: Sequence[Response] = ()
            while True:  # each hop goes through all below again
                method, jar = request.auth, request.jar
                if method is None and netrc is not None:
                    method = method_from_netrc(request, netrc)
                if method is not None and method is not NO_AUTH:
                    # Cookies are below: the answer to a challenge carries what the challenge set.
                    response = await authenticate(request, send_with_cookies, method, auth_context)
                elif jar is None:
                    response = await send(request)
                else:
                    has_cookies = jar.cookies is not None or request.cookies is not None
                    response = await send(with_cookies(request, jar) if has_cookies else request)
                    # Before the next hop, which needs them.
                    if response.sets_cookies:
                        store_cookies(jar, response)
                if followed:
                    response.history = [*history, *response.history]
                if response.status_code not in REDIRECT_STATUSES or not request.follow_redirects:
                    return response
                following = next_hop(
                    request, response, sensitive, followed=followed, max_redirects=max_redirects
                )
                if following is None:
                    return response
                followed += 1
                # A hop may have a history of its own: challenges that were answered on it.
                history = [*response.history, response]
                request = following if upgrade is None else upgrade(following)

        return through

    return around
