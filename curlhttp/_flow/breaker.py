"""Ask the circuit breaker before each attempt, and tell it its outcome.

_policy/breaker/health.py decides what counts as what, _policy/breaker/breaker.py what follows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from curlhttp._engine.engine import Clock, Layer, MakeWaiter, Send
from curlhttp._flow.hooks import Hooks
from curlhttp._flow.limits import asked
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.breaker.breaker import CircuitBreaker, Permit, Transition, proxy_key, refusal
from curlhttp._policy.breaker.circuit import Outcome, OutcomeClassifier, ProxyClassifier
from curlhttp._policy.breaker.shared import SharedCircuits, SharedPermit, StoredCircuit
from curlhttp.exceptions import CircuitBreakerOpen, StoreError

__all__ = ["SharedBreaker", "breaker"]


_EVENT = "breaker_transition"
_SUCCESS, _FAILURE = Outcome.SUCCESS, Outcome.FAILURE


def breaker(policy: CircuitBreaker, clock: Clock, hooks: Hooks, make_waiter: MakeWaiter) -> Layer:
    """Return the layer that lets through only what the breaker permits.

    Args:
        policy: the breaker, which other clients may use as well.
        clock: tells the time.
        hooks: the user's; they hear of the transitions that this client's requests lead to.
        make_waiter: makes a waiter of the engine.
    """
    guard = _BreakerLayer(policy, clock, hooks)
    if policy.shared is not None:
        guard.shared = SharedBreaker(policy, policy.shared, clock.now, make_waiter)
    origin, hidden_origin = policy.judge(), policy.judge(via_proxy=True)
    proxy = ProxyClassifier()

    def around(send: Send) -> Send:
        def guarded(request: Request) -> Awaitable[Response]:
            route = request.route
            transport = request.transport if route is None else route(request.url)
            # Decided here and not when the client is made: a redirect may lead to another proxy, or
            # to none.
            if transport.proxy is None:
                return guard.send(request, request.url.origin, origin, send)

            # The proxy first: while its circuit is open, the origins behind it are not asked, nor
            # blamed.
            def beyond(hop: Request) -> Awaitable[Response]:
                return guard.send(hop, hop.url.origin, hidden_origin, send)

            return guard.send(request, proxy_key(transport.proxy.url), proxy, beyond)

        return guarded

    return around


class _BreakerLayer:
    """One breaker, around whatever is sent.

    Attributes:
        shared: its circuits at a store, or None.
    """

    shared: SharedBreaker | None = None

    def __init__(self, breaker: CircuitBreaker, clock: Clock, hooks: Hooks) -> None:
        self._breaker = breaker
        self._now = clock.now
        self._tell = None
        if hooks.hears(_EVENT):
            self._tell = lambda transition: hooks.tell(_EVENT, transition)
        self._untold: deque[Transition] = deque()  # ends of bodies led to: no hook can run there

    async def send(
        self, request: Request, key: str, judge: OutcomeClassifier, send: Send
    ) -> Response:
        """Send a request if the circuit of a key lets it through.

        Raises:
            CircuitBreakerOpen: it does not.
        """
        # Of a failure, all of its time counts; of a response, that to its first byte.
        begun = self._now()
        permit: Permit | SharedPermit
        try:
            if self.shared is None:
                permit = self._breaker.admit(key, begun)
            else:
                permit = await self.shared.admit(key, request)
        except CircuitBreakerOpen as error:
            error.request = request
            if self._untold:
                await self._notify_late()
            raise
        try:
            if self._untold:
                await self._notify_late()
            if permit.transition is not None:
                await self._notify(permit.transition)
            response = await send(request)
        # A cancelled trial must give its permit back, or the circuit would stay half open for ever.
        except BaseException as error:
            now = self._now()
            await self._count(permit, judge.of_error(error), now, now - begun)
            raise
        # Whether a streamed response is good is known when its body has ended.
        waits = request.stream and self._breaker.count_bodies
        # The usual case costs no step of the circuit.
        if response.status_code not in judge.notable and not waits and permit.changes_nothing():
            return response
        verdict = judge.of_status(response.status_code)
        elapsed = response.timings.first_byte  # without the wait for a handle, and the body
        if waits:
            response._at_end(partial(self._on_end, permit, judge, verdict, elapsed))
        else:
            await self._count(permit, verdict, self._now(), elapsed)
        return response

    async def _count(
        self, permit: Permit | SharedPermit, verdict: Outcome, now: float, elapsed: float
    ) -> None:
        if self.shared is None:
            transition = permit.settle(verdict, now, elapsed)
        else:
            transition = await self.shared.settle(permit, verdict, now, elapsed)
        if transition is not None and self._tell is not None:
            await self._tell(transition)

    async def _notify(self, transition: Transition | None) -> None:
        if transition is not None and self._tell is not None:
            await self._tell(transition)

    async def _notify_late(self) -> None:
        while self._untold:
            await self._notify(self._untold.popleft())

    def _on_end(
        self,
        permit: Permit | SharedPermit,
        judge: OutcomeClassifier,
        verdict: Outcome,
        elapsed: float,
        error: BaseException | None,
    ) -> None:
        """Report a streamed response whose body has ended or was given up."""
        now = self._now()
        if error is not None:
            transition = permit.settle(judge.of_error(error), now, elapsed)
            if transition is not None:
                self._untold.append(transition)
        elif verdict in (_SUCCESS, _FAILURE):
            # Runs where the body ends, possibly in a finalizer: no lock may be waited for there.
            permit.finish_later(now, verdict is _FAILURE, elapsed, self._untold.append)
        else:
            permit.release()


# --- Circuits that processes share, in a store ---
#
# If the store gives no answer, an open circuit stays open for as long as it should. Otherwise the
# process uses circuits in its own memory.


class SharedBreaker:
    """The circuits of one breaker at a store, for one engine.

    Args:
        breaker: whose; lets calls through where the store has no answer.
        circuits: what is asked, and known.
        now: gives monotonic seconds.
        make_waiter: makes a waiter of the engine.
    """

    def __init__(
        self,
        breaker: CircuitBreaker,
        circuits: SharedCircuits,
        now: Callable[[], float],
        make_waiter: MakeWaiter,
    ) -> None:
        self._breaker = breaker
        self._circuits = circuits
        self._now = now
        self._make_waiter = make_waiter

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
        answer = await asked(
            circuits.store, circuits.admitting(key), self._make_waiter, request, left
        )
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
        self, permit: Permit | SharedPermit, verdict: Outcome, now: float, elapsed: float
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
        is_failure = verdict is Outcome.FAILURE
        # A success that closes nothing is worth no wait.
        if not is_failure and not (verdict is Outcome.SUCCESS and permit.is_probe):
            permit.settle(verdict, now, elapsed)
            return None
        key, question = permit.origin, permit.result(is_failure, now, elapsed)
        answer = None
        if question is not None:
            try:
                with suppress(StoreError):  # what the call itself led to is there
                    answer = await self._circuits.store.ask(question, self._make_waiter)
            except BaseException:
                if permit.is_probe:  # it may not have been sent; of a probe, one result counts
                    self._circuits.store.tell(question)
                raise
        if answer is None:
            return None
        return self._told(key, self._circuits.learn(key, answer, self._now()))

    def _told(self, key: str, found: StoredCircuit) -> Transition | None:
        return self._breaker.tell(key, found.change)
