"""What hooks receive: an event of an attempt, or a transition of a circuit."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

State: TypeAlias = Literal["closed", "open", "half_open", "forced_open", "forced_closed"]
"""A state of a circuit."""


class AttemptEvent(NamedTuple):
    """What a hook receives about an attempt.

    Attributes:
        event: "before_attempt", "after_attempt", "before_sleep", "on_give_up" or "on_fallback".
        method: of the request.
        url: of the request, without userinfo and fragment, and with secret parameters masked.
        number: of the attempt, from 1 on.
        status_code: of the response, or None.
        error: the class name of the exception, or None.
        elapsed: seconds that the attempt took, None before it.
        delay: seconds until the next attempt; only for before_sleep.
        reason: why there is no further attempt, such as "max_retries"; only for on_give_up.
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


class Transition(NamedTuple):
    """A circuit's change of state, as passed to hooks.

    Attributes:
        origin: "scheme://host:port", or "proxy scheme://host:port" for a proxy.
        old: the state before.
        new: the state after.
    """

    origin: str
    old: State
    new: State
