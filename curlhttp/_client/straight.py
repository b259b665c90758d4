"""The straight path: a request that the flow would only pass on goes past it, to the engine.

The base layer marks the flow that it makes, and so do layers that only single requests
need. If that is all of a client's flow, nothing else has to see a request without a total timeout,
credentials and cookies. What is left is to look at its response. `BaseClient` has the conditions;
docs/decisions/one-flow.md has all places that leave.
"""

from __future__ import annotations

from collections.abc import Awaitable

from curlhttp._http.request import ClientRequest
from curlhttp._http.response import REDIRECT_STATUSES, Response
from curlhttp._runtime.engine import Send

_MARK = "sends"


def mark(flow: Send, send: Send) -> None:
    """Mark the flow of a layer, which only passes most requests on.

    Args:
        flow: that of an outermost layer also takes the first response to a request, and goes on
            from there.
        send: what it passes them to.
    """
    setattr(flow, _MARK, send)


def is_straight(flow: Send, last: Send) -> bool:
    """Return whether marked layers are all that a flow has above its last step."""
    while (below := getattr(flow, _MARK, None)) is not None:
        flow = below
    return flow is last


def is_final(response: Response) -> bool:
    """Return whether a straight flow would return a response as it is."""
    head = response._head
    return "\nset-cookie:" not in head.lower and head.status_code not in REDIRECT_STATUSES


def go_on(flow: Send, request: ClientRequest, first: Response) -> Awaitable[Response]:
    """Go on in a straight flow, from the first response to a request."""
    return flow(request, first)  # type: ignore[call-arg]
