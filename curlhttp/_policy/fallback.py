"""Fallbacks: what a client may return in place of a failure. It sends nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.retry import STATUSES
from curlhttp.exceptions import RequestException

FallbackInput: TypeAlias = Callable[
    [Request, "Response | RequestException"], "Response | Awaitable[Response | None] | None"
]
"""A function of the request and what became of it: the response to return, or None."""


def is_failure(request: Request, response: Response) -> bool:
    """Return whether the status is one after which the request would be retried."""
    policy = request.retry
    return response.status_code in (STATUSES if policy is None else policy.statuses)
