"""Carry out an Auth object's flow: send what it yields, hand it the response, until it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from curlhttp._engine import Send
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.auth import Auth, BasicAuth
from curlhttp.exceptions import RequestException

__all__ = ["FindCredentials", "authenticate", "method_from_netrc"]

FindCredentials: TypeAlias = Callable[[str], tuple[str, str] | None]
"""Gives user name and password for a host, or None."""


def method_from_netrc(request: Request, netrc: FindCredentials) -> Auth | None:
    """Return how to authenticate a request for which the program says nothing.

    Args:
        request: of one hop: a redirect to another host has that host's entry, or none.
        netrc: gives user name and password for a host, or None.
    """
    # The caller's own Authorization wins over a file that is not of the program's.
    if request.get_header("authorization") is not None:
        return None
    credentials = netrc(request.url.host)
    return None if credentials is None else BasicAuth(*credentials)


async def authenticate(request: Request, send: Send, method: Auth) -> Response:
    """Send a request as a method wants it, and what the method sends in answer to challenges.

    Args:
        request: what to send; a copy of it is changed.
        send: takes each of them through all below.
        method: is not NO_AUTH.

    Raises:
        RequestException: no response came of it.
    """
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
