"""Turn the total timeout into a point in time, which bounds every wait and transfer below."""

from __future__ import annotations

from time import monotonic
from typing import Any

from curlhttp._flow.engine import Send
from curlhttp._models.request import Request

__all__ = ["deadline"]


def deadline(send: Send) -> Send:
    """Return the layer that sets the deadline of what is sent."""

    def bounded(request: Request) -> Any:
        total = request.timeout.total
        if total is not None and request.deadline is None:
            request = request.copy()  # the caller may send this one again, later
            request.deadline = monotonic() + total
        return send(request)

    return bounded
