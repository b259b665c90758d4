"""Give the engine a plan for requests that may be hedged. What is worth it: _policy/hedge.py.

The lowest layer, so that a retry repeats a race as a whole and the layers above count the attempt
that surfaces. Each extra attempt asks limits, breaker and budget for itself just
before it is sent, and is counted by what becomes of it; none of them ever waits to be let in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, cast

from curlhttp._engine.engine import AttemptResult, Exchange, Layer, MakeWaiter, Send
from curlhttp._flow.hooks import Hooks
from curlhttp._flow.retry import is_paid_at
from curlhttp._models.body import Body
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.breaker.breaker import CircuitBreaker, Permit, Transition, proxy_key
from curlhttp._policy.breaker.circuit import Outcome, OutcomeClassifier, ProxyClassifier
from curlhttp._policy.hedge import HEDGED_STATUSES, HeadTimes, Hedge, may_hedge
from curlhttp._policy.limits import ConcurrencyLimit, Lease, RateLimit
from curlhttp._policy.retry import RetryBudget
from curlhttp._policy.token_auth import SharedLease
from curlhttp.exceptions import CircuitBreakerOpen, RequestException, StoreError

if TYPE_CHECKING:
    from curlhttp._policy.breaker.shared import SharedPermit

__all__ = ["hedge"]


# --- Admit one more attempt of a request to limits, breaker and budget at once, or not at all ---
#
# Nothing waits here: an attempt that may not start now does not start. The first attempt goes
# through the layers, which may wait.

_Permitted: TypeAlias = "tuple[Permit | SharedPermit, OutcomeClassifier]"

__all__ = ["AttemptPermit", "HedgeAdmission"]


class AttemptPermit:
    """Let one attempt be sent, and count it at its end.

    Args:
        leases: its places among the requests at once.
        permits: of the breaker for all that take part, each with how things look to it.
    """

    __slots__ = ("_leases", "_permits")

    def __init__(self, leases: list[Lease | SharedLease], permits: list[_Permitted]) -> None:
        self._leases = leases
        self._permits = permits

    def settle(
        self, result: int | Exception | None, now: float, elapsed: float
    ) -> list[Transition]:
        """Count the attempt, and return the changes of state that it led to.

        Args:
            result: its status, its error, or None when it was cancelled.
            now: monotonic seconds.
            elapsed: seconds that it took.
        """
        for lease in self._leases:
            lease.give()
        # The permits next: a proxy's circuit and the origin's each count what this attempt says of
        # them.
        changes: list[Transition | None] = []
        for permit, judge in self._permits:
            settled = permit.settle(_verdict(result, judge), now, elapsed)
            changes += [permit.transition, settled]
        return [change for change in changes if change is not None]


class HedgeAdmission:
    """Admit an extra attempt only if budget, limits and breaker all admit it.

    Args:
        rate: requests per second, or None.
        concurrency: requests at once, or None.
        breaker: refuses attempts, or None.
        budget: what it is paid from, or None.
        now: gives monotonic seconds.
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

    async def admit(self, request: Request, make_waiter: MakeWaiter) -> AttemptPermit | None:
        """Return a ticket, or None when a policy says no; the other ones get back what they gave.

        Args:
            request: what would be sent.
            make_waiter: makes a waiter of the engine.
        """
        back: list[Callable[[], object]] = []  # what gives back what was given
        ticket = None
        try:
            ticket = await self._admitted(request, make_waiter, back)
        except (CircuitBreakerOpen, StoreError):
            pass  # the request goes on without it
        finally:
            if ticket is None:
                for give in reversed(back):
                    give()
        return ticket

    async def _admitted(
        self, request: Request, make_waiter: MakeWaiter, back: list[Callable[[], object]]
    ) -> AttemptPermit | None:
        leases: list[Lease | SharedLease] = []
        permits: list[_Permitted] = []
        # In the order of their price: a place is given back without a trace, the rate nearly so.
        if not await self._has_place(request, make_waiter, leases, back):
            return None
        if not await self._has_turn(request, make_waiter, back):
            return None
        await self._permit(request, make_waiter, permits, back)
        # Last: what a limit or the breaker refuses must not cost a retry.
        if not await self._is_paid(request, make_waiter):
            return None
        return AttemptPermit(leases, permits)

    async def _has_place(
        self,
        request: Request,
        make_waiter: MakeWaiter,
        leases: list[Lease | SharedLease],
        back: list[Callable[[], object]],
    ) -> bool:
        limit, origin = self._concurrency, request.url.origin
        if limit is None:
            return True
        lease = limit.take(origin)
        if lease is None:
            return False
        leases.append(lease)
        back.append(lease.give)
        if limit.store is None:
            return True
        shared = SharedLease(limit, limit.store, origin)
        leases.append(shared)
        back.append(shared.give)
        answer = await limit.store.ask(shared.taking(joins=False), make_waiter)
        if answer is not None and answer[0]:
            shared.start()
        return answer is None or bool(answer[0])

    async def _has_turn(
        self, request: Request, make_waiter: MakeWaiter, back: list[Callable[[], object]]
    ) -> bool:
        rate, origin = self._rate, request.url.origin
        if rate is None:
            return True
        if rate.store is not None:
            answer = await rate.store.ask(rate.reserving(origin, 0.0), make_waiter)
            if answer is not None:
                if answer[0]:
                    back.append(partial(rate.store.tell, rate.giving_back(origin, answer)))
                return bool(answer[0])
        if not rate.take(origin, self._now()):
            return False
        # Not sent after all, it does not count for the rate.
        back.append(partial(rate.give_back, origin))
        return True

    async def _permit(
        self,
        request: Request,
        make_waiter: MakeWaiter,
        permits: list[_Permitted],
        back: list[Callable[[], object]],
    ) -> None:
        """Get the permits of the breaker.

        Raises:
            CircuitBreakerOpen: there is none.
        """
        breaker = self._breaker
        if breaker is None:
            return
        shared = None
        if breaker.shared is not None:
            from curlhttp._flow.breaker import SharedBreaker

            shared = SharedBreaker(breaker, breaker.shared, self._now, make_waiter)
        proxy = request.transport.proxy
        # A proxy that fails hides what is behind it: both have a circuit, the proxy's is asked
        # first.
        parties: list[tuple[str, OutcomeClassifier]] = []
        if proxy is not None:
            parties.append((proxy_key(proxy.url), ProxyClassifier()))
        parties.append((request.url.origin, breaker.judge(via_proxy=proxy is not None)))
        for key, judge in parties:
            permit: Permit | SharedPermit
            if shared is None:
                permit = breaker.admit(key, self._now())
            else:
                permit = await shared.admit(key, request)
            permits.append((permit, judge))
            back.append(permit.release)

    async def _is_paid(self, request: Request, make_waiter: MakeWaiter) -> bool:
        budget, origin = self._budget, request.url.origin
        if budget is None:
            return True
        if budget.store is not None:
            is_paid = await is_paid_at(budget.store, budget, origin, make_waiter)
            if is_paid is not None:
                return is_paid
        return budget.withdraw(origin, self._now())


def _verdict(result: int | Exception | None, judge: OutcomeClassifier) -> Outcome:
    if result is None:
        # It was cut off because another attempt had won: that says nothing of the server.
        return Outcome.IGNORED
    return judge.of_status(result) if isinstance(result, int) else judge.of_error(result)


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
    """Return what makes the layer that has slow requests sent again, for a factory of waiters.

    Args:
        policy: when to do so.
        now: gives monotonic seconds.
        budget: the retry policy's, which that layer puts into; or None.
        rate_limit: what the layer above asks for the first attempt, or None.
        concurrency_limit: as rate_limit.
        breaker: as rate_limit.
        hooks: the user's, or None; they hear of what the breaker does.
    """
    times = HeadTimes()
    # Hedges and retries pay from one budget: together they are what a failing server gets more.
    pays = policy.budget or budget or RetryBudget()
    extra = HedgeAdmission(rate_limit, concurrency_limit, breaker, pays, now)

    def around(make_waiter: MakeWaiter, send: Send) -> Send:
        exchange = cast(Exchange, send)  # below are attempt middleware and the engine

        def hedged(request: Request) -> Awaitable[Response]:
            if not may_hedge(request, policy):
                return send(request)
            # The retry layer pays into its own budget, which must not be paid into twice.
            if pays is not budget:
                pays.deposit(request.url.origin, now())
            return _race(
                _HedgedRequest(request, policy, times, extra, make_waiter, now), exchange, hooks
            )

        return hedged

    return lambda make_waiter: partial(around, make_waiter)


async def _race(plan: _HedgedRequest, exchange: Exchange, hooks: Hooks | None) -> Response:
    try:
        return await exchange(plan.request, plan)
    except RequestException as error:
        if plan.was_sent:  # by an attempt before the one that tells of its own failure
            error.request_sent, error.refused = True, False
        raise
    finally:
        # In any case: a ticket that is not given back would hold a place and a permit for ever.
        plan.close()
        if hooks is not None:
            # Told here, because the engine, which counts the attempts, cannot await a hook.
            for transition in plan.transitions:
                await hooks.tell(_EVENT, transition)


class _HedgedRequest:
    """What the engine asks about the attempts of one request; see HedgePlan."""

    __slots__ = (
        "_extra",
        "_make_waiter",
        "_now",
        "_tickets",
        "_times",
        "after",
        "most",
        "request",
        "transitions",
        "was_sent",
    )

    def __init__(
        self,
        request: Request,
        policy: Hedge,
        times: HeadTimes,
        extra: HedgeAdmission,
        make_waiter: MakeWaiter,
        now: Callable[[], float],
    ) -> None:
        self.request = request
        self.after = policy.seconds(times, request.url.origin)
        self.most = policy.max
        self.transitions: list[Transition] = []
        self.was_sent = False  # by an attempt that did not surface
        self._times = times
        self._extra = extra
        self._make_waiter = make_waiter
        self._now = now
        self._tickets: list[AttemptPermit] = []

    async def again(self) -> Request | None:
        """Return one more attempt's request, admitted and paid for, or None."""
        request, body = self.request, None
        if request.body is not None:
            body = _clone(request.body)
            # One that cannot be had twice at the same time: both attempts would read from it.
            if body is None:
                return None
        try:
            ticket = await self._extra.admit(request, self._make_waiter)
        except BaseException:
            if body is not None:
                body.close()
            raise
        if ticket is None:
            # A clone may have opened the file again.
            if body is not None:
                body.close()
            return None
        self._tickets.append(ticket)
        return request.derive(body=body)

    def is_good(self, status_code: int) -> bool:
        """Return whether an answer wins while other attempts are under way."""
        return status_code not in HEDGED_STATUSES

    def won(self, request: Request) -> None:
        """Hear which attempt's outcome the engine returns or raises."""

    def dropped(
        self, request: Request, result: AttemptResult, elapsed: float, was_sent: bool
    ) -> None:
        """Count an attempt that does not surface.

        There are as many as tickets: the layers above have one for the attempt that does.
        """
        self.was_sent = self.was_sent or was_sent
        if self._tickets:
            ticket = self._tickets.pop()
            outcome = result.status_code if isinstance(result, Response) else result
            self.transitions += ticket.settle(outcome, self._now(), elapsed)

    def timed(self, seconds: float) -> None:
        """Learn how long a first attempt takes."""
        self._times.add(self.request.url.origin, seconds)

    def close(self) -> None:
        """Give back the tickets of attempts that were let in and could not begin."""
        while self._tickets:
            self.dropped(self.request, None, 0.0, was_sent=False)


def _clone(body: Body) -> Body | None:
    try:
        return body.clone()
    except Exception:  # the caller's factory; the first attempt is not worse off for it
        return None
