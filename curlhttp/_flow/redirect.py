"""Follow redirects. Where they lead and what goes along is decided in _policy/redirect.py."""

from __future__ import annotations

from typing import Any

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
        def following(request: Request) -> Any:
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
    while response.is_redirect:
        location = location_of(response.status_code, response.headers)
        if location is None:
            break
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
        error.request, error.response = request, response
        error.request_sent, error.timings = True, response.timings
        raise
