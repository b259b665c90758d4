"""Let one more attempt of a request through limits, breaker and budget at once, or not at all.

Nobody waits here: what may not go now does not go. The first attempt takes the way through the
layers, which may wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from curlhttp._engine import MakeGate
from curlhttp._flow.shared_budget import is_paid_at
from curlhttp._models.request import Request
from curlhttp._policy.breaker.breaker import CircuitBreaker, Permit, Transition, proxy_key
from curlhttp._policy.breaker.health import Judge, ProxyJudge, Verdict
from curlhttp._policy.budget import RetryBudget
from curlhttp._policy.concurrency import ConcurrencyLimit, Lease
from curlhttp._policy.rate import RateLimit
from curlhttp._policy.shared_lease import SharedLease
from curlhttp.exceptions import CircuitBreakerOpen, StoreError

if TYPE_CHECKING:
    from curlhttp._policy.breaker.shared import SharedPermit

_Permitted: TypeAlias = "tuple[Permit | SharedPermit, Judge]"

__all__ = ["ExtraAttempts", "Ticket"]


class Ticket:
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


class ExtraAttempts:
    """Let further attempts in by all that an attempt must be let in by.

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

    async def admit(self, request: Request, gate: MakeGate) -> Ticket | None:
        """Return a ticket, or None when a policy says no; the other ones get back what they gave.

        Args:
            request: what would be sent.
            gate: makes a gate of the engine.
        """
        back: list[Callable[[], object]] = []  # what gives back what was given
        ticket = None
        try:
            ticket = await self._admitted(request, gate, back)
        except (CircuitBreakerOpen, StoreError):
            pass  # the request goes on without it
        finally:
            if ticket is None:
                for give in reversed(back):
                    give()
        return ticket

    async def _admitted(
        self, request: Request, gate: MakeGate, back: list[Callable[[], object]]
    ) -> Ticket | None:
        leases: list[Lease | SharedLease] = []
        permits: list[_Permitted] = []
        # In the order of their price: a place is given back without a trace, the rate nearly so.
        if not await self._has_place(request, gate, leases, back):
            return None
        if not await self._has_turn(request, gate, back):
            return None
        await self._permit(request, gate, permits, back)
        # Last: what a limit or the breaker refuses must not cost a retry.
        if not await self._is_paid(request, gate):
            return None
        return Ticket(leases, permits)

    async def _has_place(
        self,
        request: Request,
        gate: MakeGate,
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
        answer = await limit.store.ask(shared.taking(joins=False), gate)
        if answer is not None and answer[0]:
            shared.start()
        return answer is None or bool(answer[0])

    async def _has_turn(
        self, request: Request, gate: MakeGate, back: list[Callable[[], object]]
    ) -> bool:
        rate, origin = self._rate, request.url.origin
        if rate is None:
            return True
        if rate.store is not None:
            answer = await rate.store.ask(rate.reserving(origin, 0.0), gate)
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
        gate: MakeGate,
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
            from curlhttp._flow.shared_breaker import SharedBreaker

            shared = SharedBreaker(breaker, breaker.shared, self._now, gate)
        proxy = request.transport.proxy
        # A proxy that fails hides what is behind it: both have a circuit, the proxy's is asked
        # first.
        parties: list[tuple[str, Judge]] = []
        if proxy is not None:
            parties.append((proxy_key(proxy.url), ProxyJudge()))
        parties.append((request.url.origin, breaker.judge(via_proxy=proxy is not None)))
        for key, judge in parties:
            permit: Permit | SharedPermit
            if shared is None:
                permit = breaker.admit(key, self._now())
            else:
                permit = await shared.admit(key, request)
            permits.append((permit, judge))
            back.append(permit.release)

    async def _is_paid(self, request: Request, gate: MakeGate) -> bool:
        budget, origin = self._budget, request.url.origin
        if budget is None:
            return True
        if budget.store is not None:
            is_paid = await is_paid_at(budget.store, budget, origin, gate)
            if is_paid is not None:
                return is_paid
        return budget.withdraw(origin, self._now())


def _verdict(result: int | Exception | None, judge: Judge) -> Verdict:
    if result is None:
        # It was cut off because another attempt had won: that says nothing of the server.
        return Verdict.IGNORED
    return judge.of_status(result) if isinstance(result, int) else judge.of_error(result)
