"""Send a slow request a second time; _policy/hedge.py decides which requests are hedged, and when.

Only the attempt middleware is below this layer. So a retry repeats the whole race, and the layers
above count only the attempt whose outcome the caller gets. Limits, breaker and budget must all
admit an extra attempt. If one of them refuses, the attempt is not sent: it never waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from curlhttp._engine.engine import AttemptResult, Exchange, Layer, MakeWaiter, Send
from curlhttp._flow.hooks import Hooks
from curlhttp._flow.retry import withdraw_from_store
from curlhttp._models.body import Body
from curlhttp._models.request import ENDPOINTS, ClientRequest
from curlhttp._models.response import Response
from curlhttp._models.timings import AttemptCancelled
from curlhttp._policy.breaker.breaker import CircuitBreaker, Permit, Transition, get_proxy_key
from curlhttp._policy.breaker.circuit import Outcome, OutcomeClassifier, ProxyClassifier
from curlhttp._policy.hedge import HEDGED_STATUSES, HeadTimes, Hedge, may_hedge
from curlhttp._policy.limits import ConcurrencyLimit, Lease, RateLimit, SharedLease
from curlhttp._policy.retry import RetryBudget
from curlhttp.exceptions import CircuitBreakerOpen, RequestException, StoreError

if TYPE_CHECKING:
    from curlhttp._policy.adaptive import AdaptiveLimit
    from curlhttp._policy.breaker.shared import SharedPermit
    from curlhttp._policy.endpoints import Turn

# --- Admit one more attempt of a request to limits, breaker and budget at once, or not at all ---
#
# Only the first attempt goes through the layers, which may wait.

_Permitted: TypeAlias = "tuple[Permit | SharedPermit, OutcomeClassifier]"


class AttemptPermit:
    """What an extra attempt holds while it is under way.

    Args:
        leases: of the concurrency limit.
        permits: of the breaker, for proxy and origin, each with what classifies the outcome for it.
    """

    __slots__ = ("_leases", "_permits")

    def __init__(self, leases: list[Lease | SharedLease], permits: list[_Permitted]) -> None:
        self._leases = leases
        self._permits = permits

    def settle(
        self, result: int | Exception | None, now: float, elapsed: float
    ) -> list[Transition]:
        """Release what the attempt holds and count its outcome; return the breaker's transitions.

        Args:
            result: the status code, the error, or None if the attempt was cancelled.
            now: monotonic seconds.
            elapsed: seconds that the attempt took.
        """
        for lease in self._leases:
            lease.release()
        changes: list[Transition | None] = []
        for permit, classifier in self._permits:
            settled = permit.settle(_classify(result, classifier), now, elapsed)
            changes += [permit.transition, settled]
        return [change for change in changes if change is not None]


class HedgeAdmission:
    """Admit an extra attempt only if limits, breaker and budget all admit it.

    Args:
        rate: the rate limit, or None.
        concurrency: the concurrency limit, or None.
        breaker: the circuit breaker, or None.
        budget: the budget that each extra attempt withdraws from, or None.
        now: returns monotonic seconds.
    """

    def __init__(
        self,
        rate: RateLimit | None,
        concurrency: ConcurrencyLimit | None,
        breaker: CircuitBreaker | None,
        budget: RetryBudget | None,
        now: Callable[[], float],
    ) -> None:
        self._rate = rate
        self._concurrency = concurrency
        self._breaker = breaker
        self._budget = budget
        self._now = now

    async def admit(self, request: ClientRequest, make_waiter: MakeWaiter) -> AttemptPermit | None:
        """Return a permit; None if one of them refuses, after undoing what the others granted.

        Args:
            request: what would be sent.
            make_waiter: makes a waiter of the engine.
        """
        undo: list[Callable[[], object]] = []
        permit = None
        try:
            permit = await self._admit_all(request, make_waiter, undo)
        except (CircuitBreakerOpen, StoreError):
            pass  # the request continues without it
        finally:
            if permit is None:
                for release in reversed(undo):
                    release()
        return permit

    def observe(
        self, origin: str, result: int | Exception | None, begun: float, now: float
    ) -> None:
        """Tell an adaptive limit about an attempt whose outcome the layers above do not see.

        Args:
            origin: of the request.
            result: the status code, the error, or None if the attempt was cancelled.
            begun: when it was sent; both are monotonic seconds.
            now: when it ended.
        """
        if self._concurrency is None or not self._concurrency.adapts:
            return
        limit = cast("AdaptiveLimit", self._concurrency)
        if isinstance(result, int):
            limit.note_response(origin, result, now - begun, begun, now)
        else:
            limit.note_failure(origin, result or AttemptCancelled(), begun, now)

    async def _admit_all(
        self, request: ClientRequest, make_waiter: MakeWaiter, undo: list[Callable[[], object]]
    ) -> AttemptPermit | None:
        leases: list[Lease | SharedLease] = []
        permits: list[_Permitted] = []
        # Cheapest to undo first: a released lease leaves no trace, a refunded rate hardly one.
        if not await self._acquire_slot(request, make_waiter, leases, undo):
            return None
        if not await self._reserve_rate(request, make_waiter, undo):
            return None
        await self._acquire_permits(request, make_waiter, permits, undo)
        # The budget last, because an attempt that a limit or the breaker refuses must cost nothing.
        if not await self._pay(request, make_waiter):
            return None
        return AttemptPermit(leases, permits)

    async def _acquire_slot(
        self,
        request: ClientRequest,
        make_waiter: MakeWaiter,
        leases: list[Lease | SharedLease],
        undo: list[Callable[[], object]],
    ) -> bool:
        limit, origin = self._concurrency, request.url.origin
        if limit is None:
            return True
        lease = limit.try_acquire(origin)
        if lease is None:
            return False
        leases.append(lease)
        undo.append(lease.release)
        if limit.store is None:
            return True
        shared = SharedLease(limit, limit.store, origin)
        leases.append(shared)
        undo.append(shared.release)
        answer = await limit.store.ask(shared.make_acquire_command(joins=False), make_waiter)
        if answer is not None and answer[0]:
            shared.start()
        return answer is None or bool(answer[0])

    async def _reserve_rate(
        self, request: ClientRequest, make_waiter: MakeWaiter, undo: list[Callable[[], object]]
    ) -> bool:
        rate, origin = self._rate, request.url.origin
        if rate is None:
            return True
        if rate.store is not None:
            answer = await rate.store.ask(rate.make_reserve_command(origin, 0.0), make_waiter)
            if answer is not None:
                if answer[0]:
                    undo.append(partial(rate.store.tell, rate.make_refund_command(origin, answer)))
                return bool(answer[0])
        if not rate.try_acquire(origin, self._now()):
            return False
        undo.append(partial(rate.refund, origin))
        return True

    async def _acquire_permits(
        self,
        request: ClientRequest,
        make_waiter: MakeWaiter,
        permits: list[_Permitted],
        undo: list[Callable[[], object]],
    ) -> None:
        """Get the breaker's permits for proxy and origin.

        Raises:
            CircuitBreakerOpen: one of the circuits is open.
        """
        breaker = self._breaker
        if breaker is None:
            return
        shared = None
        if breaker.shared is not None:
            from curlhttp._flow.breaker import SharedBreaker

            shared = SharedBreaker(breaker, breaker.shared, self._now, make_waiter)
        proxy = request.route.proxy
        # The proxy's circuit first, because a broken proxy says nothing about the origin.
        parties: list[tuple[str, OutcomeClassifier]] = []
        if proxy is not None:
            parties.append((get_proxy_key(proxy.url), ProxyClassifier()))
        parties.append((request.url.origin, breaker.get_classifier(via_proxy=proxy is not None)))
        for key, classifier in parties:
            permit: Permit | SharedPermit
            if shared is None:
                permit = breaker.admit(key, self._now())
            else:
                permit = await shared.admit(key, request)
            permits.append((permit, classifier))
            undo.append(permit.release)

    async def _pay(self, request: ClientRequest, make_waiter: MakeWaiter) -> bool:
        budget, origin = self._budget, request.url.origin
        if budget is None:
            return True
        if budget.store is not None:
            is_paid = await withdraw_from_store(budget.store, budget, origin, make_waiter)
            if is_paid is not None:
                return is_paid
        return budget.withdraw(origin, self._now())


def _classify(result: int | Exception | None, classifier: OutcomeClassifier) -> Outcome:
    if result is None:
        # Cancelled because another attempt won, which says nothing about the server.
        return Outcome.IGNORED
    return (
        classifier.classify_status(result)
        if isinstance(result, int)
        else classifier.classify_error(result)
    )


_EVENT = "breaker_transition"


def hedge(
    policy: Hedge,
    now: Callable[[], float],
    *,
    budget: RetryBudget | None = None,
    rate_limit: RateLimit | None = None,
    concurrency_limit: ConcurrencyLimit | None = None,
    breaker: CircuitBreaker | None = None,
    hooks: Hooks | None = None,
) -> Callable[[MakeWaiter], Layer]:
    """Return a function from an engine's waiters to the layer that hedges requests.

    Args:
        policy: which requests to hedge, and when.
        now: returns monotonic seconds.
        budget: of the retry policy, or None. The retry layer makes the deposits.
        rate_limit: the limit that the layer above applies to the first attempt, or None.
        concurrency_limit: likewise.
        breaker: likewise.
        hooks: the user's, or None; they are called for the breaker's transitions.
    """
    times = HeadTimes()
    # One budget for hedges and retries, because a failing server gets the sum of both.
    hedge_budget = policy.budget or budget or RetryBudget()
    admission = HedgeAdmission(rate_limit, concurrency_limit, breaker, hedge_budget, now)

    def wrap(make_waiter: MakeWaiter, send: Send) -> Send:
        exchange = cast(Exchange, send)  # below are attempt middleware and the engine

        def hedged(request: ClientRequest) -> Awaitable[Response]:
            if not may_hedge(request, policy):
                return send(request)
            # The retry layer has made the deposit if the budget is its own.
            if hedge_budget is not budget:
                hedge_budget.deposit(request.url.origin, now())
            plan = _HedgedRequest(request, policy, times, admission, make_waiter, now)
            return _race(plan, exchange, hooks)

        return hedged

    return lambda make_waiter: partial(wrap, make_waiter)


async def _race(plan: _HedgedRequest, exchange: Exchange, hooks: Hooks | None) -> Response:
    try:
        response = await exchange(plan.request, plan)
        plan.finish(response.status_code, response.request)
        return response
    except RequestException as error:
        plan.finish(error, error.request if isinstance(error.request, ClientRequest) else None)
        if plan.was_sent:  # by another attempt than the one that failed with this error
            error.request_sent, error.refused = True, False
        raise
    finally:
        # Always, because permits that are not released would block leases and circuits forever.
        plan.close()
        if hooks is not None:
            if plan.sent:
                hooks.totals.add("hedges", plan.sent)
            # Here, because the engine, which reports the attempts, cannot await a hook.
            for transition in plan.transitions:
                if transition.new == "open":
                    hooks.totals.outcomes.add_opening(transition.origin)
                await hooks.notify(_EVENT, transition)


class _HedgedRequest:
    """The HedgePlan of one request."""

    __slots__ = (
        "_admission",
        "_make_waiter",
        "_now",
        "_permits",
        "_times",
        "_turns",
        "after",
        "most",
        "request",
        "sent",
        "transitions",
        "was_sent",
    )

    def __init__(
        self,
        request: ClientRequest,
        policy: Hedge,
        times: HeadTimes,
        admission: HedgeAdmission,
        make_waiter: MakeWaiter,
        now: Callable[[], float],
    ) -> None:
        self.request = request
        self.after = policy.seconds(times, request.url.origin)
        self.most = policy.max
        self.transitions: list[Transition] = []
        self.sent = 0  # extra attempts
        self.was_sent = False  # by an attempt whose outcome was dropped
        self._times = times
        self._admission = admission
        self._make_waiter = make_waiter
        self._now = now
        self._permits: list[AttemptPermit] = []
        # With endpoints, an attempt has its own turn, permits and origin; by the request's id.
        self._turns: dict[int, tuple[ClientRequest, Turn, AttemptPermit]] = {}

    async def again(self) -> ClientRequest | None:
        """Return the request of one more attempt, or None if there may be none."""
        request, body = self.request, None
        if request.body is not None:
            body = _clone(request.body)
            if body is None:  # both attempts would read from the same body
                return None
        found = None if ENDPOINTS not in (request.extensions or ()) else self._take_turn()
        if found is not None:
            turn, request = found
        try:
            permit = await self._admission.admit(request, self._make_waiter)
        except BaseException:
            if body is not None:
                body.close()
            raise
        if permit is None:
            if body is not None:
                body.close()  # the clone may have opened the file a second time
            if found is not None:
                self._give_back(found[0])
            return None
        self.sent += 1
        attempt = request.for_next_attempt(body=body)
        if found is None:
            self._permits.append(permit)
        else:
            self._turns[id(attempt)] = attempt, turn, permit
        return attempt

    def _take_turn(self) -> tuple[Turn, ClientRequest] | None:
        from curlhttp._flow.endpoints import take_turn

        return take_turn(self.request, self._now())

    def _give_back(self, turn: Turn) -> None:
        from curlhttp._flow.endpoints import get_rotation

        rotation = get_rotation(self.request)
        assert rotation is not None
        rotation.give_back(turn)

    def is_good(self, status_code: int) -> bool:
        """Return whether a response with this status wins the race."""
        return status_code not in HEDGED_STATUSES

    def won(self, request: ClientRequest) -> None:
        """Ignore which attempt's outcome the engine returns or raises."""

    def dropped(
        self, request: ClientRequest, result: AttemptResult, elapsed: float, was_sent: bool
    ) -> None:
        """Count an attempt whose outcome the caller does not get.

        There is one permit for each of them: the layers above have admitted the other attempt.
        """
        self.was_sent = self.was_sent or was_sent
        outcome = result.status_code if isinstance(result, Response) else result
        now = self._now()
        if was_sent:
            self._admission.observe(request.url.origin, outcome, now - elapsed, now)
        if ENDPOINTS in (request.extensions or ()):
            self._end_turn(request, outcome, now, elapsed)
        elif self._permits:
            self.transitions += self._permits.pop().settle(outcome, now, elapsed)

    def _end_turn(
        self, request: ClientRequest, outcome: int | Exception | None, now: float, elapsed: float
    ) -> None:
        from curlhttp._flow.endpoints import classify, get_rotation

        found = self._turns.pop(id(request), None)
        if found is not None:
            _, turn, permit = found
            turn.end(classify(outcome), now)
            self.transitions += permit.settle(outcome, now, elapsed)
        elif (rotation := get_rotation(request)) is not None and rotation.turn is not None:
            rotation.turn.end(classify(outcome), now)  # of the first attempt

    def finish(self, outcome: int | Exception, winner: ClientRequest | None) -> None:
        """Count the outcome that the caller gets, if it is that of an extra attempt at an endpoint.

        Args:
            outcome: the status code or the error.
            winner: the request of the attempt, if known.
        """
        if winner is not None and id(winner) in self._turns:
            self._end_turn(winner, outcome, self._now(), 0.0)

    def timed(self, seconds: float) -> None:
        """Record how long a first attempt took up to its response head."""
        self._times.add(self.request.url.origin, seconds)

    def close(self) -> None:
        """Release the permits of attempts that were admitted and could not start."""
        while self._permits:
            self.dropped(self.request, None, 0.0, was_sent=False)
        for request, _, _ in tuple(self._turns.values()):
            self.dropped(request, None, 0.0, was_sent=False)


def _clone(body: Body) -> Body | None:
    try:
        return body.clone()
    except Exception:  # raised by the caller's function; the first attempt continues
        return None
