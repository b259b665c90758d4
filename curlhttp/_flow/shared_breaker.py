"""Ask a store about circuits that processes share.

Where it has no answer, an open circuit stays so as long as it was to; else the process goes on with
circuits of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from curlhttp._engine import MakeGate
from curlhttp._flow.shared_limits import asked
from curlhttp._models.request import Request
from curlhttp._policy.breaker.breaker import CircuitBreaker, Permit, Transition
from curlhttp._policy.breaker.health import Verdict
from curlhttp._policy.breaker.keys import refusal
from curlhttp._policy.breaker.shared import Reading, SharedCircuits, SharedPermit
from curlhttp.exceptions import StoreError

__all__ = ["SharedBreaker"]


class SharedBreaker:
    """The circuits of one breaker at a store, for one engine.

    Args:
        breaker: whose; lets calls through where the store has no answer.
        circuits: what is asked, and known.
        now: gives monotonic seconds.
        gate: makes a gate of the engine.
    """

    def __init__(
        self,
        breaker: CircuitBreaker,
        circuits: SharedCircuits,
        now: Callable[[], float],
        gate: MakeGate,
    ) -> None:
        self._breaker = breaker
        self._circuits = circuits
        self._now = now
        self._gate = gate

    async def admit(self, key: str, request: Request) -> Permit | SharedPermit:
        """Return a permit for a call.

        Args:
            key: of the circuit.
            request: asks for it.

        Raises:
            CircuitBreakerOpen: not now; its retry_after says when.
            StoreError: see Store.ask.
        """
        breaker, circuits = self._breaker, self._circuits
        now = self._now()
        if breaker.forced is not None:  # in this process, for all origins
            return breaker.admit(key, now)
        known = circuits.fresh(key, now)
        if known is not None:
            if seconds := known.refuses_for(now):
                raise refusal(key, seconds)
            return SharedPermit(circuits, key, known.number, now)
        left = math.inf if request.deadline is None else request.deadline - now
        answer = await asked(circuits.store, circuits.admitting(key), self._gate, request, left)
        now = self._now()
        if answer is None:
            return self._admit_alone(key, now)
        found = circuits.learn(key, answer, now)
        if found.refused_for is not None:
            raise refusal(key, found.refused_for)
        permit = SharedPermit(circuits, key, found.passage, now, is_probe=found.is_probe)
        permit.transition = self._told(key, found)
        return permit

    def _admit_alone(self, key: str, now: float) -> Permit:
        known = self._circuits.copies.get(key)
        if known is not None and (seconds := known.refuses_for(now)):
            raise refusal(key, seconds)
        return self._breaker.admit(key, now)

    async def settle(
        self, permit: Permit | SharedPermit, verdict: Verdict, now: float, elapsed: float
    ) -> Transition | None:
        """Hand in what a verdict says; return the change of state that it led to.

        Args:
            permit: of the call; one of this process alone is settled there.
            verdict: on the health of whatever the permit is for.
            now: monotonic seconds.
            elapsed: seconds that the call took.
        """
        if isinstance(permit, Permit):
            return permit.settle(verdict, now, elapsed)
        is_failure = verdict is Verdict.FAILURE
        # A success that closes nothing is worth no wait.
        if not is_failure and not (verdict is Verdict.SUCCESS and permit.is_probe):
            permit.settle(verdict, now, elapsed)
            return None
        key, question = permit.origin, permit.result(is_failure, now, elapsed)
        answer = None
        if question is not None:
            try:
                with suppress(StoreError):  # what the call itself led to is there
                    answer = await self._circuits.store.ask(question, self._gate)
            except BaseException:
                if permit.is_probe:  # it may not have been sent; of a probe, one result counts
                    self._circuits.store.tell(question)
                raise
        if answer is None:
            return None
        return self._told(key, self._circuits.learn(key, answer, self._now()))

    def _told(self, key: str, found: Reading) -> Transition | None:
        return self._breaker.tell(key, found.change)
