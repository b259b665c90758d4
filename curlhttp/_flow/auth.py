"""Carry out an Auth object's flow: send what it yields, hand it the response, until it is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from curlhttp._engine import Layer, Send
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.auth import NO_AUTH, Auth, BasicAuth
from curlhttp.exceptions import RequestException

__all__ = ["auth"]


def auth(netrc: Callable[[str], tuple[str, str] | None] | None) -> Layer:
    """Return the layer that authenticates.

    Args:
        netrc: gives user name and password for a host; None when the environment is not asked.
    """

    def around(send: Send) -> Send:
        def authenticated(request: Request) -> Awaitable[Response]:
            # auth=None of a call: not even netrc is asked.
            if request.auth is NO_AUTH:
                return send(request)
            if request.auth is not None:
                return _authenticate(request, send, request.auth)
            # The caller's own Authorization wins over a file that is not of the program's.
            if netrc is not None and request.get_header("authorization") is None:
                # Asked for each hop: a redirect to another host has that host's entry, or none.
                credentials = netrc(request.url.host)
                if credentials is not None:
                    return _authenticate(request, send, BasicAuth(*credentials))
            return send(request)

        return authenticated

    return around


async def _authenticate(request: Request, send: Send, method: Auth) -> Response:
    # A copy: the Authorization must not be seen by the next hop of a redirect.
    flow = method.flow(request.copy())
    history: list[Response] = []
    try:
        outgoing = next(flow)
        while True:
            response = await send(outgoing)
            # What a redirect below has put there came later than the challenges.
            response.history = [*history, *response.history]
            try:
                outgoing = flow.send(response)
            except StopIteration:
                return response
            except RequestException as error:  # such as a body that cannot be sent again
                error.request, error.response = outgoing, response
                error.request_sent, error.timings = True, response.timings
                raise
            # The next request of the flow can use its connection, if little of the body is left.
            await response.discard()
            history.append(response)
    finally:
        # Cancelled or failed in the middle: the generator's own finally runs now, not at some time.
        flow.close()
