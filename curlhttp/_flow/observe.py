"""Run the user's hooks: on the request before anything is sent, on the response at the end."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from curlhttp._engine import Layer, Send
from curlhttp._models.request import Request
from curlhttp._models.response import Response

__all__ = ["ATTEMPT_EVENTS", "EVENTS", "observe"]

# What _flow/hooks.py tells of; here, since that is loaded only where somebody listens.
ATTEMPT_EVENTS = ("before_attempt", "after_attempt", "before_sleep", "on_give_up")
EVENTS = (*ATTEMPT_EVENTS, "breaker_transition")

T = TypeVar("T")


def observe(hooks: dict[str, list[Any]]) -> Layer:
    """Return the layer that runs hooks.

    Args:
        hooks: lists of functions by event: "request" gets the Request, "response" the Response;
            what they return, if not None, takes its place. Coroutine functions are awaited.
    """

    def around(send: Send) -> Send:
        if not (hooks["request"] or hooks["response"]):
            return send
        return lambda request: _observed(request, send, hooks)

    return around


async def _observed(request: Request, send: Send, hooks: dict[str, list[Any]]) -> Response:
    request = await _run(hooks["request"], request)
    return await _run(hooks["response"], await send(request))


async def _run(hooks: list[Any], subject: T) -> T:
    for hook in hooks:
        result = hook(subject)
        if inspect.isawaitable(result):
            result = await result
        if result is not None:
            subject = result
    return subject
