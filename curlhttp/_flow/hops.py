"""A request from its first hop to its last: deadline, redirects, credentials and cookies.

These are in every chain, and most requests need none of them. So they are one coroutine, which asks
before and after each exchange whether there is something to do; how it is done, their files say.
"""

from __future__ import annotations

from collections.abc import Sequence

from curlhttp._engine import Clock, Layer, Send
from curlhttp._flow.auth import FindCredentials, SignIn, authenticate, method_from_netrc
from curlhttp._flow.cookies import cookies, store_cookies, with_cookies
from curlhttp._flow.deadline import bounded
from curlhttp._flow.redirect import next_hop
from curlhttp._models.attempts import number_attempts
from curlhttp._models.request import Request
from curlhttp._models.response import REDIRECT_STATUSES, Response
from curlhttp._network import network
from curlhttp._policy.auth import NO_AUTH

__all__ = ["hops"]


def hops(
    clock: Clock,
    max_redirects: int,
    sensitive: frozenset[str],
    netrc: FindCredentials | None,
    sign_in: SignIn,
) -> Layer:
    """Return the layer that takes a request through all its hops.

    Args:
        clock: tells the time.
        max_redirects: how many to follow, before TooManyRedirects.
        sensitive: lower-case header names that must not reach another origin.
        netrc: gives user name and password for a host; None when the environment is not asked.
        sign_in: what an Auth needs beside; its `upgrade` is for each hop, too.
    """
    now, upgrade = clock.now, sign_in.upgrade

    def around(send: Send) -> Send:
        send_with_cookies = cookies(send)

        async def through(request: Request) -> Response:
            if request.timeout.total is not None and request.deadline is None:
                request = bounded(request, now)  # one budget over all below
            if network.numbers_sends:
                number_attempts(request)
            followed = 0
            history: Sequence[Response] = ()
            while True:  # each hop goes through all below anew
                method, jar = request.auth, request.jar
                if method is None and netrc is not None:
                    method = method_from_netrc(request, netrc)
                if method is not None and method is not NO_AUTH:
                    # Cookies are below: the answer to a challenge carries what the challenge set.
                    response = await authenticate(request, send_with_cookies, method, sign_in)
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
