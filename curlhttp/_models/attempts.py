"""Attempts of a request: their results, and how they are numbered."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from curlhttp._models.request import Request
    from curlhttp.exceptions import RequestException

__all__ = [
    "Attempt",
    "AttemptCancelled",
    "ensure_numbered",
    "get_attempt_numbers",
    "next_attempt_number",
    "number_attempts",
    "share_attempt_numbers",
]


class AttemptCancelled(BaseException):
    """Report to an attempt middleware, from `send`, that another attempt of a hedge has won.

    It is not a failure of the server, so neither `except RequestException` nor `except Exception`
    catches it. It does not propagate beyond the middleware.
    """


class Attempt(NamedTuple):
    """One attempt of a request, as a RetryPolicy counts them.

    Attributes:
        number: starts at 1.
        status_code: of the response, or None if there was none.
        error: raised in place of a response, or None; without its traceback unless it is the last.
        elapsed: seconds that it took; for a streamed response, to the end of its head.
        delay: seconds until the next attempt, None for the last.
    """

    number: int
    status_code: int | None
    error: RequestException | None
    elapsed: float
    delay: float | None


# --- numbers across retries, redirects, challenges and hedges ---

_KEY = "curlhttp.sends"


def number_attempts(request: Request) -> None:
    """Start to number the attempts of a request and of every request derived from it."""
    share_attempt_numbers(request, count())


def share_attempt_numbers(request: Request, numbers: Iterator[int]) -> None:
    """Continue the numbers of another request's attempts."""
    request.extensions = {**(request.extensions or {}), _KEY: numbers}


def get_attempt_numbers(request: Request) -> Iterator[int] | None:
    """Return the counter of a request's attempts, None if they are not numbered."""
    return (request.extensions or {}).get(_KEY)


def ensure_numbered(request: Request) -> None:
    """Start to number attempts unless they are numbered: a request may skip the layers."""
    if get_attempt_numbers(request) is None:
        number_attempts(request)


def next_attempt_number(request: Request) -> int:
    """Return the number of the next attempt of a numbered request, starting at 0."""
    numbers = get_attempt_numbers(request)
    assert numbers is not None
    return next(numbers)
