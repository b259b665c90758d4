"""Which attempt of a request each one is, over retries, hops, challenges and hedges."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import cast

from curlhttp._models.request import Request

__all__ = ["next_number", "number_anyway", "number_sends"]

_KEY = "curlhttp.sends"


def number_sends(request: Request) -> None:
    """Begin to number the attempts of a request, and of all that is derived from it."""
    request.extensions = {**(request.extensions or {}), _KEY: count()}


def number_anyway(request: Request) -> None:
    """Begin to number attempts, unless that was done: a request may come past the layers."""
    if _KEY not in (request.extensions or {}):
        number_sends(request)


def next_number(request: Request) -> int:
    """Return the number of one more attempt of a request that is numbered, from 0 on."""
    assert request.extensions is not None
    return next(cast("Iterator[int]", request.extensions[_KEY]))
