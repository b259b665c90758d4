"""Follow redirects. Where they lead and what goes along is decided in _policy/redirect.py."""

from __future__ import annotations

from collections.abc import Awaitable

from curlhttp._engine import Layer, Send
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.redirect import location_of, next_request
from curlhttp.exceptions import RequestException, TooManyRedirects

__all__ = ["redirect"]


def redirect(max_redirects: int, sensitive: frozenset[str]) -> Layer:
    """Return the layer that follows redirects.

    Args:
        max_redirects: how many, before TooManyRedirects.
        sensitive: lower-case header names that must not reach another origin.
    """

    def around(send: Send) -> Send:
        def following(request: Request) -> Awaitable[Response]:
            if request.follow_redirects:
                return _follow(request, send, max_redirects, sensitive)
            return send(request)

        return following

    return around


async def _follow(
    request: Request, send: Send, max_redirects: int, sensitive: frozenset[str]
) -> Response:
    response = await send(request)
    followed = 0
    # A 3xx without a usable Location is an answer like any other, as in requests.
    while response.is_redirect:
        location = location_of(response.status_code, response.headers)
        if location is None:
            break
        # Raised with the response in it, so that the caller sees where the circle ends.
        if followed == max_redirects:
            raise TooManyRedirects(
                f"Exceeded {max_redirects} redirects.",
                request=request,
                response=response,
                request_sent=True,
                timings=response.timings,
            )
        followed += 1
        request = _next(request, response, location, sensitive)
        # A hop may have a history of its own: challenges that were answered on it.
        history = [*response.history, response]
        response = await send(request)
        response.history = [*history, *response.history]
    return response


def _next(
    request: Request, response: Response, location: str, sensitive: frozenset[str]
) -> Request:
    try:
        return next_request(request, response.status_code, location, sensitive)
    except RequestException as error:
        # The target was never asked: what the error tells of is the request before it.
        error.request, error.response = request, response
        error.request_sent, error.timings = True, response.timings
        raise
