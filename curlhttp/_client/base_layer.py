"""The layer in every chain: deadline, credentials and cookies of each hop, and whether one follows.

Most requests need none of it. So it is one coroutine, which checks before and after each exchange
whether there is anything to do. The flow of an Auth and the request that follows a redirect are
features, which the first request that needs them loads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from curlhttp._client.chain import LayerContext
from curlhttp._client.features import load
from curlhttp._client.straight import mark
from curlhttp._http.auth import NO_AUTH, Auth, BasicAuth
from curlhttp._http.cookies import LazyCookieJar
from curlhttp._http.request import FLOW_REQUEST, ClientRequest
from curlhttp._http.response import REDIRECT_STATUSES, Response
from curlhttp._runtime.engine import Layer, Send
from curlhttp._runtime.network import network

FindCredentials: TypeAlias = Callable[[str], tuple[str, str] | None]
"""Returns user name and password for a host, or None."""

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


# --- credentials ---


def find_auth(request: ClientRequest, netrc: FindCredentials) -> Auth | None:
    """Return the Auth from netrc for a request without one.

    Args:
        request: of one hop, so that a redirect to another host uses the entry of that host.
        netrc: returns user name and password for a host, or None.
    """
    # The caller's own Authorization takes precedence.
    if request.get_header("authorization") is not None:
        return None
    credentials = netrc(request.url.host)
    return None if credentials is None else BasicAuth(*credentials)


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

    def wrap(send: Send) -> Send:
        send_with_cookies = cookies(send)

        async def through(request: ClientRequest, first: Response | None = None) -> Response:
            if request.timeout.total is not None and request.deadline is None:
                request = with_deadline(request, now)  # one for all layers below
            if network.counts_sends:
                load("attempt_numbers").number_attempts(request)
            followed = 0
            history: Sequence[Response] = ()
            while True:  # each hop goes through all layers below
                auth, jar = request.auth, request.jar
                if auth is None and netrc is not None:
                    auth = find_auth(request, netrc)
                if first is not None:
                    response, first = first, None
                    store_cookies(jar, response)
                elif auth is not None and auth is not NO_AUTH:
                    # Cookies below auth, so that the next request has the cookies of a challenge.
                    authenticate = load("auth.flow").authenticate
                    response = await authenticate(request, send_with_cookies, auth, context)
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
                following: ClientRequest | None = load("redirects").get_next_hop(
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
