"""Circuits that processes share at a store: what is asked there, and what a process knows of them.

Each answer brings the circuit as it is. That copy is believed for a moment, so that a healthy
origin costs a question now and then, not one for each call.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from curlhttp._models.fork import register
from curlhttp._policy.breaker.circuit import (
    BreakerConfig,
    BreakerMetrics,
    Outcome,
    State,
    StateChange,
)
from curlhttp._policy.store import Answer, Store, StoreCommand, micros, seconds

if TYPE_CHECKING:
    from curlhttp._policy.breaker.breaker import Transition

__all__ = ["FRESH", "SharedCircuits", "SharedPermit", "StoredCircuit"]

FRESH = 0.25  # seconds for which a copy of a circuit is believed
_KEPT = 1000  # copies; those that were not used for longest go
_GOES = -2  # in place of the time for which a call is refused
_FOREVER = -1


class StoredCircuit(NamedTuple):
    """A circuit as a store had it.

    Attributes:
        at: when it was read, in monotonic seconds of this process.
        number: of the passage that every call has while it is closed.
        reopens_at: when an open one lets calls through again, in monotonic seconds.
        metrics: what was counted.
        passage: the number of the call that asked.
        refused_for: seconds for which that is refused, or None.
        is_probe: it takes one of the places of a half-open circuit.
        change: the state that the step led to, or None.
    """

    at: float
    number: str
    reopens_at: float
    metrics: BreakerMetrics
    passage: str
    refused_for: float | None
    is_probe: bool
    change: StateChange | None

    @classmethod
    def of(cls, answer: Answer, now: float) -> StoredCircuit:
        """Return what an answer says.

        Args:
            answer: of the store.
            now: monotonic seconds.
        """
        number, refused_for, is_probe, old, new, state, standing = answer[:7]
        failures, calls, failed, slowed, probes, refused, reopens_in = map(int, answer[7:])
        wait = int(refused_for)
        found = cast("State", _text(state))
        return cls(
            at=now,
            number=_text(standing),
            reopens_at=now + reopens_in / 1e6,
            metrics=BreakerMetrics(found, calls, failed, slowed, failures, probes, refused),
            passage=_text(number),
            refused_for={_GOES: None, _FOREVER: math.inf}.get(wait, seconds(wait)),
            is_probe=bool(is_probe),
            change=StateChange(cast("State", _text(old)), cast("State", _text(new)))
            if new
            else None,
        )

    def refuses_for(self, now: float) -> float:
        """Return for how many seconds a call is refused by this copy, 0 for not surely.

        Args:
            now: monotonic seconds.
        """
        state = self.metrics.state
        if state == "forced_open":
            return math.inf
        return max(0.0, self.reopens_at - now) if state == "open" else 0.0


class SharedPermit:
    """Let one call through; its result is for the store.

    Args:
        circuits: where the result goes.
        origin: key of the circuit.
        number: what the result is handed in with.
        now: monotonic seconds.

    Attributes:
        transition: what asking for it led to, or None.
        is_probe: it takes one of the places of a half-open circuit.
    """

    __slots__ = ("_begun", "_circuits", "_number", "_process", "is_probe", "origin", "transition")

    def __init__(
        self,
        circuits: SharedCircuits,
        origin: str,
        number: str,
        now: float,
        *,
        is_probe: bool = False,
    ) -> None:
        self._circuits = circuits
        self._process = circuits.process
        self.origin = origin
        self._number: str | None = number
        self._begun = now
        self.is_probe = is_probe
        self.transition: Transition | None = None

    def changes_nothing(self) -> bool:
        """Return whether a success would: then it need not be told, and the permit is done with."""
        circuits = self._circuits
        if self.is_probe or circuits.rules.has_rates:
            return False
        known = circuits.copies.get(self.origin)
        if known is None or known.metrics.failures_in_a_row or known.number != self._number:
            return False
        circuits.good_at[self.origin] = self._begun  # at least; goes along with the next failure
        return True

    def result(self, failed: bool, now: float, elapsed: float) -> StoreCommand | None:
        """Return what hands the result in, once; None when that was done.

        Args:
            failed: it counts as a failure.
            now: monotonic seconds.
            elapsed: seconds that the call took.
        """
        number, self._number = self._number, None
        if number is None:
            return None
        circuits, limit = self._circuits, self._circuits.rules.slow_call_seconds
        good_at = circuits.good_at.pop(self.origin, None)
        good_for = -1 if good_at is None else max(0, micros(now - good_at))
        is_slow = limit is not None and elapsed >= limit
        return circuits.question(self.origin, "record", number, int(failed), int(is_slow), good_for)

    def settle(self, verdict: Outcome, now: float, elapsed: float) -> None:
        """Hand in what a verdict says, and hear nothing of it. Safe in finalizers."""
        if verdict in (Outcome.SUCCESS, Outcome.FAILURE):
            self.finish_later(now, verdict is Outcome.FAILURE, elapsed)
        else:
            self.release()

    def finish_later(self, now: float, failed: bool, elapsed: float, tell: object = None) -> None:
        """Hand the result in, and hear nothing of it. Safe in finalizers.

        Args:
            now: monotonic seconds.
            failed: it counts as a failure.
            elapsed: seconds that the call took.
            tell: not called: what it leads to is seen with the next call.
        """
        question = self.result(failed, now, elapsed)
        if question is not None:
            self._circuits.store.tell(question)

    def release(self) -> None:
        """Count nothing: the call told nothing of the origin. Safe in finalizers."""
        number, self._number = self._number, None
        if number is not None and self.is_probe and self._process is self._circuits.process:
            self._circuits.store.tell(self._circuits.question(self.origin, "release", number))

    def __del__(self) -> None:
        self.release()  # the call that had it ended without a result


class SharedCircuits:
    """The circuits of one breaker at a store.

    Args:
        store: where they are.
        rules: when they open and close.

    Attributes:
        copies: of circuits as they were when the store answered last.
        good_at: when calls succeeded of which the store was not told, in monotonic seconds.
        process: stands for this process.
    """

    def __init__(self, store: Store, rules: BreakerConfig) -> None:
        self.store = store
        self.rules = rules
        self.copies: OrderedDict[str, StoredCircuit] = OrderedDict()
        self.good_at: dict[str, float] = {}
        self.process: object = object()
        register(self)
        self._settings = hashlib.blake2b(repr(rules).encode(), digest_size=6).hexdigest()
        self._numbers = (
            rules.failure_threshold or 0,
            -1 if rules.failure_rate is None else rules.failure_rate,
            -1 if rules.slow_call_rate is None else rules.slow_call_rate,
            rules.window,
            micros(rules.window_seconds or 0),
            rules.minimum_calls,
            micros(rules.recovery_timeout),
            micros(rules.recovery_timeout_max),
            rules.growth,
            rules.half_open_permits,
            micros(rules.half_open_timeout),
        )

    def after_fork_in_child(self) -> None:
        """Leave the probes of the parent to it."""
        self.process = object()

    def fresh(self, origin: str, now: float) -> StoredCircuit | None:
        """Return a copy that is to be believed, unless its circuit may let a probe through.

        Args:
            origin: whose.
            now: monotonic seconds.
        """
        known = self.copies.get(origin)
        if known is None or not known.at <= now < known.at + FRESH:
            return None
        state = known.metrics.state
        if state == "half_open" or (state == "open" and now >= known.reopens_at):
            return None
        return known

    def admitting(self, origin: str) -> StoreCommand:
        """Return what asks for a permit."""

        def undo(answer: Answer) -> StoreCommand | None:
            found = StoredCircuit.of(answer, 0.0)
            return self.question(origin, "release", found.passage) if found.is_probe else None

        return self.question(origin, "admit")._replace(undo=undo)

    def question(self, origin: str, step: str, *arguments: int | str) -> StoreCommand:
        """Return what has a step taken.

        Args:
            origin: of the circuit.
            step: "admit", "record", "release", "force" or "look".
            arguments: of the step.
        """
        return StoreCommand(
            "breaker", f"{self._settings}:{origin}", (step, *self._numbers, *arguments)
        )

    def learn(self, origin: str, answer: Answer, now: float) -> StoredCircuit:
        """Keep what an answer says of a circuit, and return it.

        Args:
            origin: of the circuit.
            answer: of the store.
            now: monotonic seconds.
        """
        reading = StoredCircuit.of(answer, now)
        self.copies[origin] = reading
        with suppress(KeyError):  # another thread may have forgotten it, or all of them
            self.copies.move_to_end(origin)
            while len(self.copies) > _KEPT:
                oldest, _ = self.copies.popitem(last=False)
                self.good_at.pop(oldest, None)
        return reading

    # from outside, where blocking is no harm

    def metrics(self, origin: str) -> BreakerMetrics | None:
        """Return what was counted of an origin, or None where the store does not answer."""
        answer = self.store.ask_here(self.question(origin, "look"))
        return None if answer is None else StoredCircuit.of(answer, 0.0).metrics

    def force(self, origin: str, state: State) -> StateChange | None:
        """Bring a circuit into a state, and return what that changed."""
        answer = self.store.ask_here(self.question(origin, "force", state))
        self.copies.pop(origin, None)  # the next call asks
        return None if answer is None else StoredCircuit.of(answer, 0.0).change


def _text(part: int | bytes) -> str:
    return str(part, "ascii") if isinstance(part, bytes) else str(part)
