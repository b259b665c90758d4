"""Follow redirects; apply the deadline, authentication and cookies to each hop.

policy.py builds the request for the next hop, and drops credentials that it must not get. This
layer is in every chain, and most requests need none of it. So it is one coroutine, which checks
before and after each exchange whether there is anything to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from curlhttp._client.chain import LayerContext
from curlhttp._client.straight import mark
from curlhttp._features.auth.layer import (
    AuthContext,
    FindCredentials,
    auth_from_netrc,
    authenticate,
)
from curlhttp._features.redirects.policy import build_redirect, get_location
from curlhttp._http.auth import NO_AUTH
from curlhttp._http.cookies import LazyCookieJar
from curlhttp._http.request import FLOW_REQUEST, ClientRequest
from curlhttp._http.response import REDIRECT_STATUSES, Response
from curlhttp._http.url import URL
from curlhttp._runtime.engine import Layer, Send
from curlhttp._runtime.network import network
from curlhttp.exceptions import RequestException, TooManyRedirects

# --- cookies ---


def cookies(send: Send) -> Send:
    """Return the layer that adds Cookie, unless the caller did, and stores Set-Cookie."""

    async def through(request: ClientRequest) -> Response:
        jar = request.jar
        if jar is None:
            return await send(request)
        response = await send(with_cookies(request, jar))
        # Before the layers above see the response, because their next request needs the cookies.
        store_cookies(jar, response)
        return response

    return through


def with_cookies(request: ClientRequest, jar: LazyCookieJar) -> ClientRequest:
    """Return the request with the jar's cookies and its own, unchanged if there are none to add."""
    header = jar.header(request.url, request.cookies)
    if header is None or request.get_header("cookie") is not None:
        return request
    # In a copy, because the caller may send this request again with other cookies in the jar.
    request = request.copy()
    request.headers["Cookie"] = header
    return request


def store_cookies(jar: LazyCookieJar | None, response: Response) -> None:
    """Store the cookies of a response in a jar, if there are any."""
    if jar is not None and response.sets_cookies:
        jar.store(response.request.url, response.headers.get_list("set-cookie"))


# --- the deadline: the point in time at which the total timeout ends ---


def with_deadline(request: ClientRequest, now: Callable[[], float]) -> ClientRequest:
    """Return a copy with a deadline, because the caller may send the request again later.

    Args:
        request: has a total timeout.
        now: returns monotonic seconds.
    """
    total = request.timeout.total
    assert total is not None
    request = request.copy()
    request.deadline = now() + total
    return request


# --- redirects ---


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


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that follows redirects, with what each hop needs."""
    settings, now = context.settings, context.runtime.now
    max_redirects: int = settings["max_redirects"]
    # Lower-case header names that must not be sent to another origin.
    sensitive_headers: frozenset[str] = settings["sensitive_headers"]
    netrc: FindCredentials | None = settings.get("netrc")
    upgrade = settings["hsts"].upgrade if "hsts" in settings else None
    # Returns the URL to use for that of a redirect.
    rebase = settings["endpoints"]._to_canonical if "endpoints" in settings else None
    below_auth = context.subrequest
    auth_context = AuthContext(
        context.runtime,
        context.host.is_async,
        context.host.run_blocking,
        None if below_auth is None else lambda: cookies(below_auth()),
        upgrade,
        context.finish,
    )

    def wrap(send: Send) -> Send:
        send_with_cookies = cookies(send)

        async def through(request: ClientRequest, first: Response | None = None) -> Response:
            if request.timeout.total is not None and request.deadline is None:
                request = with_deadline(request, now)  # one for all layers below
            if network.counts_sends:
                from curlhttp._features.attempt_numbers import number_attempts

                number_attempts(request)
            followed = 0
            history: Sequence[Response] = ()
            while True:  # each hop goes through all layers below
                auth, jar = request.auth, request.jar
                if auth is None and netrc is not None:
                    auth = auth_from_netrc(request, netrc)
                if first is not None:
                    response, first = first, None
                    store_cookies(jar, response)
                elif auth is not None and auth is not NO_AUTH:
                    # Cookies below auth, so that the next request has the cookies of a challenge.
                    response = await authenticate(request, send_with_cookies, auth, auth_context)
                elif jar is None:
                    response = await send(request)
                else:
                    if jar.cookies is None and request.cookies is None:
                        response = await send(request)
                    else:
                        response = await send(with_cookies(request, jar))
                    # As sets_cookies, without a call.
                    if "\nset-cookie:" in response._head.lower:
                        store_cookies(jar, response)
                if followed:
                    response.history = [*history, *response.history]
                if response.status_code not in REDIRECT_STATUSES or not request.follow_redirects:
                    return response
                extensions = response.request.extensions
                if extensions is not None and FLOW_REQUEST in extensions:
                    request = extensions[FLOW_REQUEST]  # the last one of the flow of an Auth
                    await response.load()  # nobody else reads the body of a redirect
                following = get_next_hop(
                    request,
                    response,
                    sensitive_headers,
                    followed=followed,
                    max_redirects=max_redirects,
                    rebase=rebase,
                )
                if following is None:
                    return response
                followed += 1
                # With the history of this hop, which contains its challenges.
                history = [*response.history, response]
                request = following if upgrade is None else upgrade(following)

        if netrc is None:
            mark(through, send)
        return through

    return wrap
