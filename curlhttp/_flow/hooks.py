"""Tell the user's hooks and the log what happens to attempts.

Neither may change what happens: a hook that raises is logged. Neither may leak: they are told
scrubbed URLs and names of errors, not the request itself.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from curlhttp._flow.observe import ATTEMPT_EVENTS, EVENTS

__all__ = ["AttemptEvent", "Hooks", "log"]

log = logging.getLogger("curlhttp")


class AttemptEvent(NamedTuple):
    """What a hook is told of an attempt.

    Attributes:
        event: "before_attempt", "after_attempt", "before_sleep" or "on_give_up".
        method: of the request.
        url: without userinfo and fragment, values of secret parameters masked.
        number: of the attempt, from 1 on.
        status_code: what came of it, or None.
        error: the name of the exception's class that came of it, or None.
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

    def __init__(self, functions: Mapping[str, list[Any]], *, awaits: bool) -> None:
        self._functions = {event: functions.get(event) or [] for event in EVENTS}
        self._awaits = awaits
        self.watches_attempts = any(self._functions[event] for event in ATTEMPT_EVENTS)

    def hears(self, event: str) -> bool:
        """Return whether there is a function for an event."""
        return bool(self._functions[event])

    async def tell(self, event: str, what: Any) -> None:
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
            except Exception:
                log.exception("the hook %r for %s raised", function, event)

    async def _awaited(self, result: Any) -> None:
        if not self._awaits:
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError("an async hook needs AsyncClient")
        await result
