"""Give the engine a plan for requests that may be hedged. What is worth it: _policy/hedge.py.

The lowest layer, so that a retry repeats a race as a whole and the layers above count the attempt
that surfaces. Each attempt beside the first asks limits, breaker and budget for itself just
before it is sent, and is counted by what becomes of it; none of them ever waits to be let in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from curlhttp._engine import AttemptResult, Exchange, Layer, MakeGate, Send
from curlhttp._flow.extra_attempt import ExtraAttempts, Ticket
from curlhttp._flow.hooks import Hooks
from curlhttp._models.body import Body
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._policy.breaker.breaker import CircuitBreaker, Transition
from curlhttp._policy.budget import RetryBudget
from curlhttp._policy.concurrency import ConcurrencyLimit
from curlhttp._policy.hedge import HEDGED_STATUSES, HeadTimes, Hedge, may_hedge
from curlhttp._policy.rate import RateLimit
from curlhttp.exceptions import RequestException

__all__ = ["hedge"]

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
) -> Callable[[MakeGate], Layer]:
    """Return what makes the layer that has slow requests sent again, of what makes a gate.

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
    extra = ExtraAttempts(rate_limit, concurrency_limit, breaker, pays, now)

    def around(gate: MakeGate, send: Send) -> Send:
        exchange = cast(Exchange, send)  # below are attempt middleware and the engine

        def hedged(request: Request) -> Awaitable[Response]:
            if not may_hedge(request, policy):
                return send(request)
            # The retry layer pays into its own budget, which must not be paid into twice.
            if pays is not budget:
                pays.deposit(request.url.origin, now())
            return _race(_HedgedRequest(request, policy, times, extra, gate, now), exchange, hooks)

        return hedged

    return lambda gate: partial(around, gate)


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
            # Told here, since the engine, which counts the attempts, cannot await a hook.
            for transition in plan.transitions:
                await hooks.tell(_EVENT, transition)


class _HedgedRequest:
    """What the engine asks about the attempts of one request; see HedgePlan."""

    __slots__ = (
        "_extra",
        "_gate",
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
        extra: ExtraAttempts,
        gate: MakeGate,
        now: Callable[[], float],
    ) -> None:
        self.request = request
        self.after = policy.seconds(times, request.url.origin)
        self.most = policy.max
        self.transitions: list[Transition] = []
        self.was_sent = False  # by an attempt that did not surface
        self._times = times
        self._extra = extra
        self._gate = gate
        self._now = now
        self._tickets: list[Ticket] = []

    async def again(self) -> Request | None:
        """Return one more attempt's request, admitted and paid for, or None."""
        request, body = self.request, None
        if request.body is not None:
            body = _twin(request.body)
            # One that cannot be had twice at the same time: both attempts would read from it.
            if body is None:
                return None
        try:
            ticket = await self._extra.admit(request, self._gate)
        except BaseException:
            if body is not None:
                body.close()
            raise
        if ticket is None:
            # A twin may have opened the file anew.
            if body is not None:
                body.close()
            return None
        self._tickets.append(ticket)
        return request.derive(body=body)

    def is_good(self, status_code: int) -> bool:
        """Return whether an answer wins while other attempts are under way."""
        return status_code not in HEDGED_STATUSES

    def surfaces(self, request: Request) -> None:
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


def _twin(body: Body) -> Body | None:
    try:
        return body.twin()
    except Exception:  # the caller's factory; the first attempt is not worse off for it
        return None
