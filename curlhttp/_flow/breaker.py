"""Ask the circuit breaker before each attempt, and tell it what came of it.

What counts as what is decided in _policy/outcome.py, what follows from it in _policy/breaker.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from curlhttp._flow.engine import Clock, Layer, Send
from curlhttp._flow.hooks import Hooks
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.breaker import CircuitBreaker, Permit, Transition, proxy_key
from curlhttp._policy.outcome import OfWay, Outcome, View
from curlhttp.exceptions import CircuitBreakerOpen

__all__ = ["breaker"]

_EVENT = "breaker_transition"
_SUCCESS, _FAILURE = Outcome.SUCCESS, Outcome.FAILURE


def breaker(circuits: CircuitBreaker, clock: Clock, hooks: Hooks) -> Layer:
    """Return the layer that lets through only what the breaker permits.

    Args:
        circuits: the breaker, which other clients may use as well.
        clock: tells the time.
        hooks: the user's; they hear of the transitions that this client's requests lead to.
    """
    guard = _Guard(circuits, clock, hooks)
    origin, hidden_origin, way = circuits.view(), circuits.view(via_proxy=True), OfWay()

    def around(send: Send) -> Send:
        def guarded(request: Request) -> Any:
            route = request.route
            transport = request.transport if route is None else route(request.url)
            if transport.proxy is None:
                return guard.send(request, request.url.origin, origin, send)
            beyond = partial(guard.send, key=request.url.origin, view=hidden_origin, send=send)
            return guard.send(request, proxy_key(transport.proxy.url), way, beyond)

        return guarded

    return around


class _Guard:
    """One breaker, around whatever is sent."""

    def __init__(self, circuits: CircuitBreaker, clock: Clock, hooks: Hooks) -> None:
        self._circuits = circuits
        self._now = clock.now
        self._tell = partial(hooks.tell, _EVENT) if hooks.hears(_EVENT) else None

    async def send(self, request: Request, key: str, view: View, send: Send) -> Response:
        """Send a request if the circuit of a key lets it through.

        Raises:
            CircuitBreakerOpen: it does not.
        """
        begun = self._now()
        try:
            permit = self._circuits.admit(key, begun)
        except CircuitBreakerOpen as error:
            error.request = request
            raise
        try:
            if permit.transition is not None:
                await self._notify(permit.transition)
            response = await send(request)
        except BaseException as error:
            now = self._now()
            await self._notify(permit.settle(view.of_error(error), now, now - begun))
            raise
        now = self._now()
        elapsed = response.timings.first_byte  # without the wait for a handle, and the body
        outcome = view.of_status(response.status_code)
        if request.stream and self._circuits.count_bodies:
            response._at_end(partial(self._on_end, permit, view, outcome, elapsed))
            return response
        if outcome is _SUCCESS:
            transition = permit.succeed(now, elapsed)
        else:
            transition = permit.settle(outcome, now, elapsed)
        if transition is not None:
            await self._notify(transition)
        return response

    async def _notify(self, transition: Transition | None) -> None:
        if transition is not None and self._tell is not None:
            await self._tell(transition)

    def _on_end(
        self,
        permit: Permit,
        view: View,
        outcome: Outcome,
        elapsed: float,
        error: BaseException | None,
    ) -> None:
        """Report a streamed response whose body has ended or was given up."""
        now = self._now()
        if error is not None:
            permit.settle(view.of_error(error), now, elapsed)
        elif outcome in (_SUCCESS, _FAILURE):
            permit.finish_later(now, outcome is _FAILURE, elapsed)
        else:
            permit.release()
