"""Turn the total timeout into a point in time, which bounds every wait and transfer below."""

from __future__ import annotations

from time import monotonic
from typing import Any

from curlhttp._flow.engine import Send
from curlhttp._models.request import Request

__all__ = ["deadline"]


def deadline(send: Send) -> Send:
    """Return the layer that sets the request's deadline."""

    def bounded(request: Request) -> Any:
        total = request.timeout.total
        if total is not None and request.deadline is None:
            request.deadline = monotonic() + total
        return send(request)

    return bounded
