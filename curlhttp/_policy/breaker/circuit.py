"""The circuit of one origin: its states, and what it remembers. What leads on is in rules.py.

    from          on                                                  to
    closed        a result, after which a rule is broken              open
    open          a call at or after the open time                    half_open
    half_open     as many results as probes, all or enough of them    closed, nothing counted
                  good
                  a result, after which a rule is broken              open, longer if it grows
    any           force_open, force_close, reset                      forced_open, forced_closed,
                                                                      closed

It reads no clock and takes no lock: whoever keeps a circuit lets one step at it at a time.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from curlhttp._policy.breaker.window import Window

__all__ = ["Admission", "Change", "Circuit", "Result", "State"]

State: TypeAlias = Literal["closed", "open", "half_open", "forced_open", "forced_closed"]


class Change(NamedTuple):
    """Two states, the one before and the one after."""

    old: State
    new: State


Result: TypeAlias = tuple[int, bool, float]
"""The number of the admission, whether the call failed, and how long it took, in seconds."""


class Admission(NamedTuple):
    """The answer to a call that wants through.

    Attributes:
        number: what its result is handed in with; unknown to a circuit that changed since.
        refused_for: seconds that it should wait, or None when it may go.
        is_probe: it takes one of the places of a half-open circuit.
        change: the state that this led to, or None.
    """

    number: int
    refused_for: float | None = None
    is_probe: bool = False
    change: Change | None = None


class Circuit:
    """Hold what is known of one origin; a plain value, which a store may write down.

    Args:
        first: the numbers that it gives out are greater; a successor needs others.
    """

    __slots__ = (
        "failures",
        "good",
        "last",
        "open_for",
        "opens",
        "probes",
        "refused",
        "reopens_at",
        "slow",
        "standing",
        "state",
        "window",
    )

    def __init__(self, first: int = 0) -> None:
        self.state: State = "closed"
        self.last = first + 1  # number given out
        self.standing = Admission(self.last)  # for every call while it is closed
        self.failures = 0  # in a row, or of the probes
        self.good = 0  # probes that succeeded
        self.slow = 0  # probes that were slow
        self.window: Window | None = None
        self.probes: dict[int, float] = {}  # number: when it was let through
        self.opens = 0  # since it was closed last
        self.open_for = 0.0  # seconds
        self.reopens_at = 0.0
        self.refused = 0

    def may_go(self, now: float) -> bool:
        """Return whether it may be forgotten for the sake of another origin's circuit."""
        if self.state == "open":
            return now >= self.reopens_at
        return self.state in ("closed", "half_open")
