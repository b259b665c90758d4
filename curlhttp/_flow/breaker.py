"""Ask the circuit breaker before each attempt, and tell it what came of it.

_policy/breaker/health.py decides what counts as what, _policy/breaker/breaker.py what follows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING

from curlhttp._engine import Clock, Layer, MakeGate, Send
from curlhttp._flow.hooks import Hooks
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.breaker.breaker import CircuitBreaker, Permit, Transition, proxy_key
from curlhttp._policy.breaker.health import Judge, ProxyJudge, Verdict
from curlhttp.exceptions import CircuitBreakerOpen

if TYPE_CHECKING:
    from curlhttp._flow.shared_breaker import SharedBreaker
    from curlhttp._policy.breaker.shared import SharedPermit

__all__ = ["breaker"]

_EVENT = "breaker_transition"
_SUCCESS, _FAILURE = Verdict.SUCCESS, Verdict.FAILURE


def breaker(policy: CircuitBreaker, clock: Clock, hooks: Hooks, gate: MakeGate) -> Layer:
    """Return the layer that lets through only what the breaker permits.

    Args:
        policy: the breaker, which other clients may use as well.
        clock: tells the time.
        hooks: the user's; they hear of the transitions that this client's requests lead to.
        gate: makes a gate of the engine.
    """
    guard = _Guard(policy, clock, hooks)
    if policy.shared is not None:
        from curlhttp._flow.shared_breaker import SharedBreaker

        guard.shared = SharedBreaker(policy, policy.shared, clock.now, gate)
    origin, hidden_origin = policy.judge(), policy.judge(via_proxy=True)
    proxy = ProxyJudge()

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


class _Guard:
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

    async def send(self, request: Request, key: str, judge: Judge, send: Send) -> Response:
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
        self, permit: Permit | SharedPermit, verdict: Verdict, now: float, elapsed: float
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
        judge: Judge,
        verdict: Verdict,
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
