"""Turn the total timeout into a point in time, which bounds every wait and transfer below."""

from __future__ import annotations

from collections.abc import Callable

from curlhttp._models.request import Request

__all__ = ["LEAST", "bounded"]

LEAST = 0.001  # seconds without which an attempt is not worth beginning


def bounded(request: Request, now: Callable[[], float]) -> Request:
    """Return a copy of a request, which has a total, with its deadline.

    Args:
        request: the caller may send this one again, later.
        now: gives monotonic seconds.
    """
    total = request.timeout.total
    assert total is not None
    request = request.copy()
    request.deadline = now() + total
    return request
