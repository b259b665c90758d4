"""Where the circuits of one process are kept."""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from curlhttp._fork import register
from curlhttp._policy.breaker.circuit import Circuit

__all__ = ["MemoryStore", "Step"]

A = TypeVar("A")
T = TypeVar("T")
Step: TypeAlias = Callable[[Circuit, float, A], T]


class MemoryStore:
    """Keep circuits in this process, those used last.

    Args:
        max_origins: circuits to keep. One that is open, or was forced, stays; where all stay,
            calls of further origins are let through and not counted.
    """

    def __init__(self, max_origins: int = 1000) -> None:
        if max_origins < 1:
            raise ValueError(f"max_origins must be at least 1, not {max_origins!r}")
        self.max_origins = max_origins
        self._lock = threading.Lock()
        self._set(OrderedDict())
        self._serials = itertools.count()
        register(self)

    def change(self, origin: str, now: float, step: Step[A, T], what: A) -> T:
        """Return step(circuit, now, what); a circuit that is not there yet is made for it.

        Args:
            origin: "scheme://host:port", or "proxy scheme://host:port" of a proxy.
            now: monotonic seconds.
            step: to be called with the circuit of the origin, one at a time for each.
            what: passed on to the step.
        """
        with self._lock:
            circuit = self._circuits.get(origin)
            if circuit is not None:
                self._circuits.move_to_end(origin)
                return step(circuit, now, what)
            # Numbers of its own: a late result for the one that was here before must not fit.
            circuit = Circuit(next(self._serials) << 32)
            result = step(circuit, now, what)
            if self._has_room(now) or not circuit.may_go(now):
                self._circuits[origin] = circuit
            return result

    def _set(self, circuits: OrderedDict[str, Circuit]) -> None:
        self._circuits = circuits
        # Not every look counts as use: a circuit that nothing changes is no loss.
        self.peek = circuits.get

    def origins(self) -> list[str]:
        """Return the origins that have circuits."""
        with self._lock:
            return list(self._circuits)

    def _has_room(self, now: float) -> bool:
        if len(self._circuits) < self.max_origins:
            return True
        for origin, circuit in self._circuits.items():  # the longest unused first
            if circuit.may_go(now):
                del self._circuits[origin]
                return True
        return False

    def after_fork_in_child(self) -> None:
        """Start afresh in a forked child, but for what was forced."""
        self._lock = threading.Lock()
        circuits = self._circuits
        self._set(OrderedDict())
        for origin, circuit in circuits.items():
            if circuit.state in ("forced_open", "forced_closed"):
                self._circuits[origin] = circuit
