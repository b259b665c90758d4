"""Continue the attempt numbers of a request over the redirects of a Session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from curlhttp._models.attempts import get_attempt_numbers, share_attempt_numbers

if TYPE_CHECKING:
    from curlhttp._models.request import Request as CoreRequest
    from curlhttp.requests._prepared import PreparedRequest
    from curlhttp.requests._response import Response

__all__ = ["go_on_numbering", "hand_numbers_on"]

_NAME = "_numbers"


def hand_numbers_on(response: Response, following: PreparedRequest) -> None:
    """Let a hop know the numbers of the response that leads to it."""
    received = getattr(response.raw, "received", None)  # of another library's pool, there is none
    if received is not None:
        following.__dict__[_NAME] = get_attempt_numbers(received.request)


def go_on_numbering(request: PreparedRequest, sent: CoreRequest) -> None:
    """Number a hop's attempts after those before it; whoever sends it once more starts anew."""
    numbers = request.__dict__.pop(_NAME, None)
    if numbers is not None:
        share_attempt_numbers(sent, numbers)
