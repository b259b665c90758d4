"""Which attempt of a request each one is, over retries, hops, challenges and hedges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from curlhttp._models.request import Request

__all__ = ["next_number", "number_anyway", "number_sends", "numbers_of", "share_numbers"]

_KEY = "curlhttp.sends"


def number_sends(request: Request) -> None:
    """Begin to number the attempts of a request, and of all that is derived from it."""
    share_numbers(request, count())


def share_numbers(request: Request, numbers: Iterator[int]) -> None:
    """Number the attempts of a request on from those of another one."""
    request.extensions = {**(request.extensions or {}), _KEY: numbers}


def numbers_of(request: Request) -> Iterator[int] | None:
    """Return what numbers the attempts of a request, None if nothing does."""
    return (request.extensions or {}).get(_KEY)


def number_anyway(request: Request) -> None:
    """Begin to number attempts, unless that was done: a request may come past the layers."""
    if numbers_of(request) is None:
        number_sends(request)


def next_number(request: Request) -> int:
    """Return the number of one more attempt of a request that is numbered, from 0 on."""
    numbers = numbers_of(request)
    assert numbers is not None
    return next(numbers)
