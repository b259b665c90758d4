"""Run the user's hooks: on requests and responses, and for what happens to attempts.

Those for a request and a response may put another one in its place. Those for attempts may not
change what happens: one that raises is logged. Nor may they leak: they are told scrubbed URLs and
names of errors, not the request itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from curlhttp._engine.engine import Layer, Send
from curlhttp._models.request import Request
from curlhttp._models.response import Response

if TYPE_CHECKING:
    from logging import Logger

    from curlhttp._models.inputs import Hook
    from curlhttp._policy.breaker.breaker import Transition

__all__ = ["ATTEMPT_EVENTS", "EVENTS", "AttemptEvent", "Hooks", "check_answer", "log", "observe"]

ATTEMPT_EVENTS = ("before_attempt", "after_attempt", "before_sleep", "on_give_up")
EVENTS = (*ATTEMPT_EVENTS, "breaker_transition")

T = TypeVar("T")


def log() -> Logger:
    """Return the package's logger. A client that logs nothing does not load `logging`."""
    import logging

    return logging.getLogger("curlhttp")


def check_answer(response: object, whose: str) -> Response:
    """Return what a user's function has returned.

    Args:
        response: that; the function may have forgotten to return one.
        whose: the kind of the function, for the message.

    Raises:
        TypeError: it is no response.
    """
    if isinstance(response, Response):
        return response
    kind = type(response).__name__
    raise TypeError(f"{whose} returned {kind}, not a Response, such as send(request) gives")


# --- on requests and responses ---


def observe(hooks: Mapping[str, list[Hook]]) -> Layer:
    """Return the layer that runs the hooks on requests and responses.

    Args:
        hooks: lists of functions by event: "request" gets the Request, "response" the Response;
            what they return, if not None, takes its place. Coroutine functions are awaited.
    """

    def around(send: Send) -> Send:
        # Known when the client is made, so that a layer without hooks is not there at all.
        if not (hooks["request"] or hooks["response"]):
            return send
        return lambda request: _observed(request, send, hooks)

    return around


async def _observed(request: Request, send: Send, hooks: Mapping[str, list[Hook]]) -> Response:
    request = await _run(hooks["request"], request)
    return await _run(hooks["response"], await send(request))


async def _run(hooks: list[Hook], subject: T) -> T:
    for hook in hooks:
        result = hook(subject)
        if inspect.isawaitable(result):
            result = await result
        # None is what a function without a return gives: it wanted to look, not to replace.
        if result is not None:
            subject = cast(T, result)
    return subject


# --- on attempts ---


class AttemptEvent(NamedTuple):
    """What a hook is told of an attempt.

    Attributes:
        event: "before_attempt", "after_attempt", "before_sleep" or "on_give_up".
        method: of the request.
        url: without userinfo and fragment, values of secret parameters masked.
        number: of the attempt, from 1 on.
        status_code: its outcome, or None.
        error: the name of the exception's class that resulted, or None.
        elapsed: seconds that the attempt took, None before it.
        delay: seconds until the next attempt; before_sleep alone has them.
        reason: why there is no other attempt, such as "max_retries"; on_give_up alone has it.
    """

    event: str
    method: str
    url: str
    number: int
    status_code: int | None = None
    error: str | None = None
    elapsed: float | None = None
    delay: float | None = None
    reason: str | None = None


class Hooks:
    """The user's functions by event.

    Args:
        functions: lists of functions, called with one event each.
        awaits: functions may return something to await, as in AsyncClient.
    """

    def __init__(self, functions: Mapping[str, list[Hook]], *, awaits: bool) -> None:
        self._functions = {event: functions.get(event) or [] for event in EVENTS}
        self._awaits = awaits
        self.watches_attempts: bool = any(self._functions[event] for event in ATTEMPT_EVENTS)

    def hears(self, event: str) -> bool:
        """Return whether there is a function for an event."""
        return bool(self._functions[event])

    async def tell(self, event: str, what: AttemptEvent | Transition) -> None:
        """Call an event's functions; what they return counts for nothing.

        Args:
            event: one of EVENTS.
            what: the one argument.
        """
        for function in self._functions[event]:
            try:
                result = function(what)
                if inspect.isawaitable(result):
                    await self._awaited(result)
            # A hook that watches must not end a request that went well.
            except Exception:
                log().exception("the hook %r for %s raised", function, event)

    async def _awaited(self, result: Awaitable[object]) -> None:
        if not self._awaits:
            # Else Python warns of a coroutine that was never awaited, far from here.
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError("an async hook needs AsyncClient")
        await result
