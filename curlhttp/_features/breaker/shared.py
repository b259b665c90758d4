"""Circuits that processes share in a store: the commands, and this process's copies.

Each answer contains the state of the circuit. The copy of it is used for a moment, so that a call
to a healthy origin does not cost a command.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from curlhttp._features.breaker.circuit import (
    BreakerConfig,
    BreakerMetrics,
    Outcome,
    StateChange,
)
from curlhttp._features.shared_store import Answer, Store, StoreCommand, micros, seconds
from curlhttp._http.fork import register

if TYPE_CHECKING:
    from curlhttp._features.hook_events import State, Transition

FRESH = 0.25  # seconds for which a copy of a circuit is used
_MAX_COPIES = 1000  # the least recently used ones are dropped
_ADMITTED = -2  # instead of the time for which a call is refused
_FOREVER = -1


class StoredCircuit(NamedTuple):
    """A circuit as it was in the store.

    Attributes:
        at: when it was read, in monotonic seconds.
        number: of the permit that all calls share while the circuit is closed.
        half_opens_at: when an open circuit admits calls again, in monotonic seconds.
        metrics: what was counted.
        permit_number: of the permit for the call that sent the command.
        refused_for: seconds for which that call is refused, or None.
        is_probe: the call uses one of the permits of a half-open circuit.
        change: the change of state that the step led to, or None.
    """

    at: float
    number: str
    half_opens_at: float
    metrics: BreakerMetrics
    permit_number: str
    refused_for: float | None
    is_probe: bool
    change: StateChange | None

    @classmethod
    def of(cls, answer: Answer, now: float) -> StoredCircuit:
        """Parse the store's answer.

        Args:
            answer: of the store.
            now: monotonic seconds.
        """
        number, refused_for, is_probe, old, new, state, closed_permit = answer[:7]
        failures, calls, failed, slowed, probes, refused, reopens_in = map(int, answer[7:])
        wait = int(refused_for)
        found = cast("State", _text(state))
        return cls(
            at=now,
            number=_text(closed_permit),
            half_opens_at=now + reopens_in / 1e6,
            metrics=BreakerMetrics(found, calls, failed, slowed, failures, probes, refused),
            permit_number=_text(number),
            refused_for={_ADMITTED: None, _FOREVER: math.inf}.get(wait, seconds(wait)),
            is_probe=bool(is_probe),
            change=StateChange(cast("State", _text(old)), cast("State", _text(new)))
            if new
            else None,
        )

    def refuses_for(self, now: float) -> float:
        """Return the seconds for which this copy refuses calls, 0 if it may admit one.

        Args:
            now: monotonic seconds.
        """
        state = self.metrics.state
        if state == "forced_open":
            return math.inf
        return max(0.0, self.half_opens_at - now) if state == "open" else 0.0


class SharedPermit:
    """The permission for one call, whose outcome is recorded in the store.

    Args:
        circuits: of the breaker.
        origin: key of the circuit.
        number: of the permit.
        now: monotonic seconds.
        is_probe: the call uses one of the permits of a half-open circuit.

    Attributes:
        transition: that admitting the call led to, or None.
        is_probe: as given.
        origin: as given.
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

    def ignores_success(self) -> bool:
        """Return whether a success would change nothing, so that it need not be recorded."""
        circuits = self._circuits
        if self.is_probe or circuits.config.has_rates:
            return False
        known = circuits.copies.get(self.origin)
        if known is None or known.metrics.failures_in_a_row or known.number != self._number:
            return False
        # The success came later than this. The next command that records an outcome reports it.
        circuits.successes_at[self.origin] = self._begun
        return True

    def make_record_command(self, failed: bool, now: float, elapsed: float) -> StoreCommand | None:
        """Return the command that records the outcome; None the second time.

        Args:
            failed: the call counts as a failure.
            now: monotonic seconds.
            elapsed: seconds that the call took.
        """
        number, self._number = self._number, None
        if number is None:
            return None
        circuits, limit = self._circuits, self._circuits.config.slow_call_seconds
        successes_at = circuits.successes_at.pop(self.origin, None)
        good_for = -1 if successes_at is None else max(0, micros(now - successes_at))
        is_slow = limit is not None and elapsed >= limit
        return circuits.make_command(
            self.origin, "record", number, int(failed), int(is_slow), good_for
        )

    def settle(self, outcome: Outcome, now: float, elapsed: float) -> None:
        """Record the outcome without waiting for the answer. Safe in finalizers."""
        if outcome in (Outcome.SUCCESS, Outcome.FAILURE):
            self.defer_result(now, outcome is Outcome.FAILURE, elapsed)
        else:
            self.release()

    def defer_result(self, now: float, failed: bool, elapsed: float, notify: object = None) -> None:
        """Record the outcome without waiting for the answer. Safe in finalizers.

        Args:
            now: monotonic seconds.
            failed: the call counts as a failure.
            elapsed: seconds that the call took.
            notify: not called: the next call sees the transition.
        """
        command = self.make_record_command(failed, now, elapsed)
        if command is not None:
            self._circuits.store.tell(command)

    def release(self) -> None:
        """Count nothing, because the call says nothing about the origin. Safe in finalizers."""
        number, self._number = self._number, None
        if number is not None and self.is_probe and self._process is self._circuits.process:
            self._circuits.store.tell(self._circuits.make_command(self.origin, "release", number))

    def __del__(self) -> None:
        self.release()  # the call ended without an outcome


class SharedCircuits:
    """The circuits of one breaker in a store.

    Args:
        store: of the breaker.
        config: when circuits open and close.

    Attributes:
        copies: the circuits as they were in the latest answers.
        successes_at: when calls succeeded that are not recorded yet, in monotonic seconds.
        process: identifies this process.
    """

    def __init__(self, store: Store, config: BreakerConfig) -> None:
        self.store = store
        self.config = config
        self.copies: OrderedDict[str, StoredCircuit] = OrderedDict()
        self.successes_at: dict[str, float] = {}
        self.process: object = object()
        register(self)
        self._settings = hashlib.blake2b(repr(config).encode(), digest_size=6).hexdigest()
        self._arguments = (
            config.failure_threshold or 0,
            -1 if config.failure_rate is None else config.failure_rate,
            -1 if config.slow_call_rate is None else config.slow_call_rate,
            config.window,
            micros(config.window_seconds or 0),
            config.minimum_calls,
            micros(config.recovery_timeout),
            micros(config.recovery_timeout_max),
            config.growth,
            config.half_open_permits,
            micros(config.half_open_timeout),
        )

    def _after_fork_in_child(self) -> None:
        """Leave the parent's probes to the parent."""
        self.process = object()

    def fresh(self, origin: str, now: float) -> StoredCircuit | None:
        """Return a copy that is recent enough, unless its circuit may admit a probe.

        Args:
            origin: key of the circuit.
            now: monotonic seconds.
        """
        known = self.copies.get(origin)
        if known is None or not known.at <= now < known.at + FRESH:
            return None
        state = known.metrics.state
        if state == "half_open" or (state == "open" and now >= known.half_opens_at):
            return None
        return known

    def make_admit_command(self, origin: str) -> StoreCommand:
        """Return the command that asks for a permit."""

        def undo(answer: Answer) -> StoreCommand | None:
            found = StoredCircuit.of(answer, 0.0)
            return (
                self.make_command(origin, "release", found.permit_number)
                if found.is_probe
                else None
            )

        return self.make_command(origin, "admit")._replace(undo=undo)

    def make_command(self, origin: str, step: str, *arguments: int | str) -> StoreCommand:
        """Return the command for a step.

        Args:
            origin: key of the circuit.
            step: "admit", "record", "release", "force" or "look".
            arguments: of the step.
        """
        return StoreCommand(
            "breaker", f"{self._settings}:{origin}", (step, *self._arguments, *arguments)
        )

    def update(self, origin: str, answer: Answer, now: float) -> StoredCircuit:
        """Update the copy of a circuit from an answer, and return it.

        Args:
            origin: key of the circuit.
            answer: of the store.
            now: monotonic seconds.
        """
        circuit = StoredCircuit.of(answer, now)
        self.copies[origin] = circuit
        with suppress(KeyError):  # another thread may have dropped it, or all of them
            self.copies.move_to_end(origin)
            while len(self.copies) > _MAX_COPIES:
                oldest, _ = self.copies.popitem(last=False)
                self.successes_at.pop(oldest, None)
        return circuit

    # called by the user; these may block

    def metrics(self, origin: str) -> BreakerMetrics | None:
        """Return what was counted for an origin, None if the store does not answer."""
        answer = self.store.ask_here(self.make_command(origin, "look"))
        return None if answer is None else StoredCircuit.of(answer, 0.0).metrics

    def force(self, origin: str, state: State) -> StateChange | None:
        """Set the state of a circuit; return the change."""
        answer = self.store.ask_here(self.make_command(origin, "force", state))
        self.copies.pop(origin, None)  # so that the next call queries the store
        return None if answer is None else StoredCircuit.of(answer, 0.0).change


def _text(part: int | bytes) -> str:
    return str(part, "ascii") if isinstance(part, bytes) else str(part)
