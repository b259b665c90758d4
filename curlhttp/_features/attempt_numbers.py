"""Number the attempts of a request across retries, redirects, challenges and hedges.

Recordings and traces have these numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from curlhttp._http.request import ClientRequest

_KEY = "curlhttp.sends"


def number_attempts(request: ClientRequest) -> None:
    """Start to number the attempts of a request and of every request derived from it."""
    share_attempt_numbers(request, count())


def share_attempt_numbers(request: ClientRequest, numbers: Iterator[int]) -> None:
    """Continue the numbers of another request's attempts."""
    request._extend(_KEY, numbers)


def get_attempt_numbers(request: ClientRequest) -> Iterator[int] | None:
    """Return the counter of a request's attempts, None if they are not numbered."""
    return (request.extensions or {}).get(_KEY)


def ensure_numbered(request: ClientRequest) -> None:
    """Start to number attempts unless they are numbered: a request may skip the layers."""
    if get_attempt_numbers(request) is None:
        number_attempts(request)


def next_attempt_number(request: ClientRequest) -> int:
    """Return the number of the next attempt of a numbered request, starting at 0."""
    numbers = get_attempt_numbers(request)
    assert numbers is not None
    return next(numbers)
