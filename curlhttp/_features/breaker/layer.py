"""Check the circuit breaker before each attempt, and record the outcome.

_features/breaker/circuit.py decides what counts as a failure and when a circuit opens.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._client.hooks import Hooks
from curlhttp._features.breaker.breaker import (
    CircuitBreaker,
    Permit,
    get_proxy_key,
    make_open_error,
)
from curlhttp._features.breaker.circuit import PROXY_CLASSIFIER, Outcome, OutcomeClassifier
from curlhttp._features.breaker.shared import SharedCircuits, SharedPermit
from curlhttp._features.hook_events import Transition
from curlhttp._features.limits.layer import ask_store
from curlhttp._features.shared_store import connect
from curlhttp._http.errors import check_object
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Layer, Runtime, Send
from curlhttp._runtime.network import report_refusal
from curlhttp._runtime.race import is_extra
from curlhttp.exceptions import CircuitBreakerOpen, StoreError

_EVENT = "breaker_transition"
_SUCCESS, _FAILURE = Outcome.SUCCESS, Outcome.FAILURE


def start(settings: Settings, host: Host) -> None:
    """Check the breaker, and connect its store.

    Raises:
        TypeError: it is something else, such as a number.
    """
    policy: CircuitBreaker = settings["breaker"]
    check_object("breaker", policy, "_shared", "curlhttp.CircuitBreaker(failure_threshold=5)")
    if policy._shared is not None:
        connect(policy._shared.store)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that sends only the requests that the breaker admits.

    Hooks are called for the transitions that this client's requests lead to.
    """
    runtime = context.runtime
    policy: CircuitBreaker = context.settings["breaker"]
    hooks: Hooks = context.settings["hooks"]
    layer = _BreakerLayer(policy, runtime, hooks)
    origin, hidden_origin = policy._get_classifier(), policy._get_classifier(via_proxy=True)

    def wrap(send: Send) -> Send:
        def send_permitted(request: ClientRequest) -> Awaitable[Response]:
            choose = request.choose_route
            route = request.route if choose is None else choose(request.url)
            # Here and not when the client is created, because a redirect may change the proxy.
            if route.proxy is None:
                return layer.send(request, request.url.origin, origin, send)

            # The proxy's circuit first: while it is open, nothing counts for the origins behind it.
            def send_to_origin(hop: ClientRequest) -> Awaitable[Response]:
                return layer.send(hop, hop.url.origin, hidden_origin, send)

            return layer.send(
                request, get_proxy_key(route.proxy.url), PROXY_CLASSIFIER, send_to_origin
            )

        return send_permitted

    return wrap


class _BreakerLayer:
    """Sends the requests that one breaker admits."""

    def __init__(self, breaker: CircuitBreaker, runtime: Runtime, hooks: Hooks) -> None:
        self._breaker = breaker
        self._circuits = breaker._shared
        self._now = runtime.now
        self._make_waiter = runtime.make_waiter
        self._outcomes = hooks.totals.outcomes
        self._call_hooks = None
        if hooks.has(_EVENT):
            self._call_hooks = lambda transition: hooks.notify(_EVENT, transition)
        self._pending: deque[Transition] = deque()  # from ends of bodies, where no hook can run

    async def send(
        self, request: ClientRequest, key: str, classifier: OutcomeClassifier, send: Send
    ) -> Response:
        """Send a request if the circuit of a key admits it.

        Raises:
            CircuitBreakerOpen: it does not.
        """
        begun = self._now()
        permit: Permit | SharedPermit
        try:
            if self._circuits is None:
                permit = self._breaker._admit(key, begun)
            else:
                permit = await self._admit_shared(self._circuits, key, request)
        except CircuitBreakerOpen as error:
            error.request = request
            if is_extra(request):  # the first attempt goes on
                raise
            self._outcomes.add_refusal(key)
            self._outcomes.add_failure(key, error, "", None)
            report_refusal(self._outcomes, request, error)
            if self._pending:
                await self._notify_late()
            raise
        try:
            if self._pending:
                await self._notify_late()
            if permit.transition is not None:
                self._count_opening(permit.transition)
                await self._notify(permit.transition)
            response = await send(request)
        # BaseException, because a cancelled probe that keeps its permit blocks the circuit.
        except BaseException as error:
            now = self._now()
            await self._count(permit, classifier.classify_error(error), now, now - begun)
            raise
        counts_body = request.stream and self._breaker.count_bodies
        # In the usual case, nothing changes in the circuit.
        if (
            response.status_code not in classifier.notable
            and not counts_body
            and permit.ignores_success()
        ):
            return response
        outcome = classifier.classify_status(response.status_code)
        # To the first byte, without the wait for a handle. An exception counts with its whole time.
        elapsed = response.timings.first_byte
        if counts_body:
            response._at_end(partial(self._on_end, permit, classifier, outcome, elapsed))
        else:
            await self._count(permit, outcome, self._now(), elapsed)
        return response

    async def _count(
        self, permit: Permit | SharedPermit, outcome: Outcome, now: float, elapsed: float
    ) -> None:
        if isinstance(permit, Permit):
            transition = permit.settle(outcome, now, elapsed)
        else:
            transition = await self._settle_shared(permit, outcome, now, elapsed)
        if transition is not None:
            self._count_opening(transition)
            await self._notify(transition)

    def _count_opening(self, transition: Transition) -> None:
        if transition.new == "open":
            self._outcomes.add_opening(transition.origin)

    async def _notify(self, transition: Transition) -> None:
        if self._call_hooks is not None:
            await self._call_hooks(transition)

    def _note_late(self, transition: Transition) -> None:
        self._count_opening(transition)
        self._pending.append(transition)

    async def _notify_late(self) -> None:
        while self._pending:
            await self._notify(self._pending.popleft())

    def _on_end(
        self,
        permit: Permit | SharedPermit,
        classifier: OutcomeClassifier,
        outcome: Outcome,
        elapsed: float,
        error: BaseException | None,
    ) -> None:
        """Record a streamed response whose body has ended or was abandoned."""
        now = self._now()
        if error is not None:
            transition = permit.settle(classifier.classify_error(error), now, elapsed)
            if transition is not None:
                self._note_late(transition)
        elif outcome in (_SUCCESS, _FAILURE):
            # Possibly in a finalizer, which must not wait for a lock.
            permit.defer_result(now, outcome is _FAILURE, elapsed, self._note_late)
        else:
            permit.release()

    # circuits that processes share, in a store
    #
    # If the store does not answer, the process uses circuits in its own memory. A circuit that was
    # open in the store's last answer stays open until its time is over.

    async def _admit_shared(
        self, circuits: SharedCircuits, key: str, request: ClientRequest
    ) -> Permit | SharedPermit:
        """Return a permit for a call.

        Raises:
            CircuitBreakerOpen: the call is refused; its retry_after says for how long.
            StoreError: see Store.ask.
        """
        breaker = self._breaker
        now = self._now()
        if breaker._forced is not None:  # in this process, for all origins
            return breaker._admit(key, now)
        known = circuits.fresh(key, now)
        if known is not None:
            if seconds := known.refuses_for(now):
                raise make_open_error(key, seconds)
            return SharedPermit(circuits, key, known.number, now)
        left = math.inf if request.deadline is None else request.deadline - now
        answer = await ask_store(
            circuits.store, circuits.make_admit_command(key), self._make_waiter, request, left
        )
        now = self._now()
        if answer is None:
            known = circuits.copies.get(key)
            if known is not None and (seconds := known.refuses_for(now)):
                raise make_open_error(key, seconds)
            return breaker._admit(key, now)
        found = circuits.update(key, answer, now)
        if found.refused_for is not None:
            raise make_open_error(key, found.refused_for)
        permit = SharedPermit(circuits, key, found.permit_number, now, is_probe=found.is_probe)
        permit.transition = breaker._notify(key, found.change)
        return permit

    async def _settle_shared(
        self, permit: SharedPermit, outcome: Outcome, now: float, elapsed: float
    ) -> Transition | None:
        """Record an outcome in the store; return the transition that it led to."""
        circuits = self._circuits
        assert circuits is not None
        is_failure = outcome is Outcome.FAILURE
        # Do not wait for the answer to a success that cannot close a circuit.
        if not is_failure and not (outcome is Outcome.SUCCESS and permit.is_probe):
            permit.settle(outcome, now, elapsed)
            return None
        key, command = permit.origin, permit.make_record_command(is_failure, now, elapsed)
        answer = None
        if command is not None:
            try:
                with suppress(StoreError):  # the caller gets the result of the call itself
                    answer = await circuits.store.ask(command, self._make_waiter)
            except BaseException:
                if permit.is_probe:  # the command may not have been sent; only one counts
                    circuits.store.tell(command)
                raise
        if answer is None:
            return None
        found = circuits.update(key, answer, self._now())
        return self._breaker._notify(key, found.change)
