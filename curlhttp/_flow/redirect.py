"""Follow a redirect. Where it leads and what goes along is decided in _policy/redirect.py."""

from __future__ import annotations

from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.redirect import location_of, next_request
from curlhttp.exceptions import RequestException, TooManyRedirects

__all__ = ["next_hop"]


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
