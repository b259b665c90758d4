"""Let one more attempt of a request through limits, breaker and budget at once, or not at all.

Nobody waits here: what may not go now does not go. The first attempt takes the way through the
layers, which may wait.
"""

from __future__ import annotations

from curlhttp._models.request import Request
from curlhttp._policy.breaker.breaker import CircuitBreaker, Permit, Transition, proxy_key
from curlhttp._policy.breaker.health import Judge, ProxyJudge, Verdict
from curlhttp._policy.budget import RetryBudget
from curlhttp._policy.concurrency import ConcurrencyLimit, Lease
from curlhttp._policy.rate import RateLimit
from curlhttp.exceptions import CircuitBreakerOpen

__all__ = ["ExtraAttempts", "Ticket"]


class Ticket:
    """Let one attempt be sent, and count it at its end.

    Args:
        lease: its place among the requests at once, or None.
        permits: of the breaker for all that take part, each with how things look to it.
    """

    __slots__ = ("_lease", "_permits")

    def __init__(self, lease: Lease | None, permits: list[tuple[Permit, Judge]]) -> None:
        self._lease = lease
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
        if self._lease is not None:
            self._lease.give()
        # The permits next: a proxy's circuit and the origin's each count what this attempt says of
        # them.
        changes = []
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
    """

    def __init__(
        self,
        rate: RateLimit | None,
        concurrency: ConcurrencyLimit | None,
        breaker: CircuitBreaker | None,
        budget: RetryBudget | None,
    ) -> None:
        self._rate = rate
        self._concurrency = concurrency
        self._breaker = breaker
        self._budget = budget

    def admit(self, request: Request, now: float) -> Ticket | None:
        """Return a ticket, or None when a policy says no; the other ones get back what they gave.

        Args:
            request: what would be sent.
            now: monotonic seconds.
        """
        origin = request.url.origin
        lease = None
        if self._concurrency is not None:
            lease = self._concurrency.take(origin)
            if lease is None:
                return None
        # In the order of their price: a place is given back without a trace, the rate nearly so.
        if self._rate is None or self._rate.take(origin, now):
            permits = self._permits(request, now)
            if permits is not None:
                # Last: what a limit or the breaker refuses must not cost a retry.
                if self._budget is None or self._budget.withdraw(origin, now):
                    return Ticket(lease, permits)
                _release(permits)
            # Not sent after all, so that it does not count for the rate.
            if self._rate is not None:
                self._rate.give_back(origin)
        if lease is not None:
            lease.give()
        return None

    def _permits(self, request: Request, now: float) -> list[tuple[Permit, Judge]] | None:
        breaker = self._breaker
        if breaker is None:
            return []
        proxy = request.transport.proxy
        # A proxy that fails hides what is behind it: both have a circuit, the proxy's is asked
        # first.
        parties: list[tuple[str, Judge]] = []
        if proxy is not None:
            parties.append((proxy_key(proxy.url), ProxyJudge()))
        parties.append((request.url.origin, breaker.judge(via_proxy=proxy is not None)))
        permits: list[tuple[Permit, Judge]] = []
        try:
            for key, judge in parties:
                permits.append((breaker.admit(key, now), judge))
        except CircuitBreakerOpen:
            _release(permits)
            return None
        return permits


def _release(permits: list[tuple[Permit, Judge]]) -> None:
    for permit, _ in permits:
        permit.release()


def _verdict(result: int | Exception | None, judge: Judge) -> Verdict:
    if result is None:
        # It was cut off because another attempt had won: that says nothing of the server.
        return Verdict.IGNORED
    return judge.of_status(result) if isinstance(result, int) else judge.of_error(result)
