"""Retry failed attempts; _policy/retry.py decides which failures allow that.

An attempt's response is let go of before the wait: no connection is held during a wait.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Iterator

from curlhttp._engine.engine import Clock, Layer, MakeWaiter, Send
from curlhttp._flow.hooks import AttemptEvent, Hooks, log
from curlhttp._flow.redirects import LEAST, store_cookies
from curlhttp._models.body import rewind
from curlhttp._models.errors import add_note
from curlhttp._models.redaction import redact_url
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._models.timings import Attempt
from curlhttp._policy.retry import (
    NO_RETRIES,
    OBJECTIONS,
    Objection,
    RetryBudget,
    RetryPolicy,
    outcomes,
    retry_after,
)
from curlhttp._policy.store import Store
from curlhttp.exceptions import (
    CircuitBreakerOpen,
    DeadlineExceeded,
    RequestException,
    StoreError,
    UnrewindableBodyError,
)

__all__ = ["is_paid_at", "retry"]


# --- The attempts of one request: the outcome of each, and what follows from that ---
#
# This part waits for nothing and sends nothing; `retry` below does.

_LEVEL = 20  # logging.INFO
# The other objections say no more than the error itself, or than the number of attempts.
_WORTH_A_NOTE = ("retry_after", "breaker", "deadline", "body", "budget")


class Attempts:
    """Record the attempts of one request, and decide whether another one follows."""

    # On the class, because most requests are sent once and need none of their own.
    _number = 0
    _begun = 0.0
    # Of the latest attempt: status, name of the error, seconds. Not the error itself: its frames
    # hold this object.
    _facts: tuple[int | None, str | None, float | None] = (None, None, None)
    _done: tuple[Attempt, ...] = ()
    _last: Response | RequestException | None = None
    _objection: Objection | None = None
    _may_have_arrived = False
    _unrewindable: UnrewindableBodyError | None = None
    _delays: Iterator[float] | None = None
    _paid_at: Store | None = None  # where the latest retry was paid for, None for in this process

    def __init__(
        self,
        request: Request,
        policy: RetryPolicy,
        clock: Clock,
        hooks: Hooks,
        make_waiter: MakeWaiter,
    ) -> None:
        self.request = request
        self.policy = policy
        self._clock = clock
        self._make_waiter = make_waiter
        self._hooks = hooks
        self.watches = hooks.watches_attempts

    # one attempt

    def begin(self) -> None:
        """Begin the next attempt.

        Raises:
            DeadlineExceeded: no time is left for it.
        """
        request, budget = self.request, self.policy.budget
        now = self._begun = self._clock.now()
        if request.deadline is not None and request.deadline - now < LEAST:
            raise self._too_late()
        self._number += 1
        # Each request pays in once; what its retries take out is a share of that.
        if self._number == 1 and budget is not None:
            budget.deposit(request.url.origin, now)

    def end(self, response: Response) -> None:
        """Take a response that is good for the final one."""
        elapsed = self._clock.now() - self._begun
        if self.watches:
            self._facts = (response.status_code, None, elapsed)
        # Most requests have one attempt: its record is made when somebody asks for it.
        if self._done:
            latest = Attempt(self._number, response.status_code, None, elapsed, None)
            response.attempts = (*self._done, latest)
        else:
            response._first_attempt = elapsed

    async def next_delay(self, failure: Response | RequestException) -> float | None:
        """Return the seconds to wait before the next attempt; None when there is to be none."""
        now = self._clock.now()
        found = await self._delay_or_objection(failure, now)
        delay = None if isinstance(found, str) else found
        self._objection = found if isinstance(found, str) else None
        status_code, error = _split(failure)
        latest = Attempt(self._number, status_code, error, now - self._begun, delay)
        name = None if error is None else type(error).__name__
        self._facts = (status_code, name, latest.elapsed)
        if delay is None:
            self._give_up(failure, latest)
        else:
            self._go_on(failure, latest)
        self._log(delay)
        return delay

    def _go_on(self, failure: Response | RequestException, latest: Attempt) -> None:
        self._done = (*self._done, latest)
        self._last = failure
        if isinstance(failure, RequestException):
            failure.with_traceback(None)  # its frames hold this object, which holds it
            self._may_have_arrived |= failure.request_sent and not failure.refused
        else:
            # A response was received, so the server has seen the request.
            self._may_have_arrived = True

    def _give_up(self, failure: Response | RequestException, latest: Attempt) -> None:
        failure.attempts = (*self._done, latest)
        failure.budget_exhausted = self._objection == "budget"
        if isinstance(failure, RequestException):
            self._annotate(failure)

    def _annotate(self, error: RequestException) -> None:
        """Let the error tell of the attempts before, which may have been processed."""
        # Of all attempts together: who repeats a POST by hand has to know of the first one, too.
        if self._may_have_arrived:
            error.request_sent, error.refused = True, False
        # The time ran out since the server failed: that error explains it.
        if isinstance(error, DeadlineExceeded) and isinstance(self._last, RequestException):
            error.__cause__ = self._last
        if self._done:
            add_note(error, f"attempts before this one: {outcomes(self._done)}")
        if self._objection in _WORTH_A_NOTE:
            add_note(error, f"not sent again: {self._unrewindable or OBJECTIONS[self._objection]}")

    def _too_late(self) -> DeadlineExceeded:
        request, last = self.request, self._last
        late = DeadlineExceeded(
            f"{request}: the total of {request.timeout.total} s ran out "
            f"before attempt {self._number + 1}",
            request=request,
            response=last if isinstance(last, Response) else None,
            request_sent=self._may_have_arrived,
        )
        late.attempts = self._done
        late.__cause__ = last if isinstance(last, RequestException) else None
        return late

    # what follows it

    async def _delay_or_objection(
        self, failure: Response | RequestException, now: float
    ) -> float | Objection:
        policy, deadline = self.policy, self.request.deadline
        is_open = isinstance(failure, CircuitBreakerOpen)
        if is_open:
            self._refund(now)
        elif (objection := policy.objection(self.request, failure)) is not None:
            return objection
        if self._number > policy.max_retries:
            return "max_retries"
        backoff = self._backoff()
        if backoff is None:
            return "max_retries"
        delay = self._delay(failure, backoff)
        if delay is None:
            return "retry_after"
        if is_open and deadline is None:
            return "breaker"  # to wait for it without a bound would be against its purpose
        if deadline is not None and now + delay > deadline - LEAST:
            return "breaker" if is_open else "deadline"
        return await self._obstacle(now) or delay

    async def _obstacle(self, now: float) -> Objection | None:
        """Make ready for another attempt, and return what is in its way."""
        # Before the budget is asked: a body that cannot be replayed must not cost a retry.
        self._unrewindable = rewind(self.request.body)
        if self._unrewindable is not None:
            return "body"
        budget = self.policy.budget
        if budget is not None and not await self._is_paid(budget, now):
            return "budget"
        return None

    async def _is_paid(self, budget: RetryBudget, now: float) -> bool:
        """Take what one retry costs, and return whether there was enough."""
        origin, store = self._origin, budget.store
        self._paid_at = None
        if store is not None:
            is_paid = await is_paid_at(store, budget, origin, self._make_waiter)
            if is_paid is not None:
                self._paid_at = store
                return is_paid
        return budget.withdraw(origin, now)

    def _backoff(self) -> float | None:
        """Return the next delay of the strategy, None where one of the user's has no more."""
        if self._delays is None:
            self._delays = self.policy.backoff_strategy.delays(self.policy.uniform)
        backoff = next(self._delays, None)
        # A strategy of the user's may give anything, NaN included.
        if backoff is not None and not 0 <= backoff < math.inf:
            raise ValueError(f"the backoff_strategy gave {backoff!r} for a number of seconds")
        return backoff

    def _delay(self, failure: Response | RequestException, backoff: float) -> float | None:
        if isinstance(failure, CircuitBreakerOpen):
            # An attempt before the circuit's next trial would be refused like this one.
            return max(backoff, failure.retry_after)
        if isinstance(failure, RequestException):
            return backoff
        if not self.policy.heeds_retry_after(failure.status_code):
            return backoff
        # Wall time: Retry-After may be a date.
        return self.policy.delay(backoff, retry_after(failure.headers, self._clock.wall()))

    def _refund(self, now: float) -> None:
        """Give back what a retry took that the breaker refused."""
        # The first attempt took nothing out.
        budget = self.policy.budget
        if self._number > 1 and budget is not None:
            if self._paid_at is None:
                budget.refund(self._origin, now)
            else:
                self._paid_at.tell(budget.refunding(self._origin))

    @property
    def _origin(self) -> str:
        return self.request.url.origin

    async def sleep(self, delay: float) -> None:
        """Wait.

        Raises:
            DeadlineExceeded: what was left of the failed response took the time for it.
        """
        deadline = self.request.deadline
        # Looked at again: to discard the response took time as well.
        if deadline is not None and self._clock.now() + delay > deadline:
            raise self._too_late()
        if self.watches:
            await self._tell("before_sleep", delay=delay)
        await self._clock.sleep(delay)

    # hooks and log

    async def announce(self) -> None:
        """Tell the hooks that an attempt begins."""
        self._facts = (None, None, None)
        await self._tell("before_attempt")

    async def report(self) -> None:
        """Tell the hooks the outcome of the attempt."""
        await self._tell("after_attempt")
        # Where nobody asked for retries, nothing was given up.
        if self._objection is not None and self.policy is not NO_RETRIES:
            await self._tell("on_give_up", reason=self._objection)

    async def _tell(
        self, event: str, *, delay: float | None = None, reason: Objection | None = None
    ) -> None:
        if self._hooks.hears(event):
            await self._hooks.tell(event, self._event(event, delay, reason))

    def _event(self, event: str, delay: float | None, reason: Objection | None) -> AttemptEvent:
        status_code, error, elapsed = self._facts
        request = self.request
        return AttemptEvent(
            event,
            request.method,
            redact_url(request.url),
            self._number,
            status_code,
            error,
            elapsed,
            delay,
            reason,
        )

    def _log(self, delay: float | None) -> None:
        logger = log()
        if not logger.isEnabledFor(_LEVEL) or self.policy is NO_RETRIES:
            return
        request, (status_code, error, _) = self.request, self._facts
        logger.log(
            _LEVEL,
            "%s %s: attempt %d: %s; %s",
            request.method,
            redact_url(request.url),
            self._number,
            error or status_code,
            self._objection if delay is None else f"the next in {delay:.3f} s",
        )


def _split(
    failure: Response | RequestException,
) -> tuple[int | None, RequestException | None]:
    if isinstance(failure, RequestException):
        return None, failure
    return failure.status_code, None


def retry(clock: Clock, hooks: Hooks, make_waiter: MakeWaiter) -> Layer:
    """Return the layer that sends again what failed, and tells hooks of each attempt.

    Args:
        clock: tells the time, and waits.
        hooks: the user's.
        make_waiter: makes a waiter of the engine.
    """

    def around(send: Send) -> Send:
        def retrying(request: Request) -> Awaitable[Response]:
            policy = request.retry
            if policy is None:
                # Without a policy, hooks still hear of the one attempt that there is.
                if not hooks.watches_attempts:
                    return send(request)
                policy = NO_RETRIES
            return _retry(Attempts(request, policy, clock, hooks, make_waiter), send)

        return retrying

    return around


async def _retry(attempts: Attempts, send: Send) -> Response:
    request, statuses = attempts.request, attempts.policy.statuses
    while True:
        attempts.begin()
        if attempts.watches:
            await attempts.announce()
        try:
            response = await send(request)
        # Nothing else is caught: a cancellation, Ctrl-C and the caller's own errors end all
        # attempts.
        except RequestException as error:
            delay = await attempts.next_delay(error)
            if attempts.watches:
                await attempts.report()
            if delay is None:
                raise
        else:
            if response.status_code in statuses:
                delay = await attempts.next_delay(response)
            else:
                delay = None
                attempts.end(response)
            if attempts.watches:
                await attempts.report()
            if delay is None:
                return response
            # Only now, because the final response keeps its body.
            await _discard(request, response)
        await attempts.sleep(delay)


async def _discard(request: Request, response: Response) -> None:
    store_cookies(request.jar, response)  # their layer sees the last response only
    try:
        await response.discard()
    except RequestException as error:
        # It was to be thrown away: how its end looked changes nothing for the next attempt.
        log().debug("the rest of a discarded response: %s", type(error).__name__)


# --- Pay for retries from a budget that processes share, at a store ---


async def is_paid_at(
    store: Store, budget: RetryBudget, origin: str, make_waiter: MakeWaiter
) -> bool | None:
    """Return whether there was enough for one retry, which is taken; None without an answer.

    What the attempt before failed with is what its caller has to hear, so that a store that is to
    be obeyed, and has no answer, pays for nothing.

    Args:
        store: where the budget is.
        budget: what it is taken from.
        origin: whom it would go to.
        make_waiter: makes a waiter of the engine.
    """
    try:
        answer = await store.ask(budget.withdrawing(origin), make_waiter)
    except StoreError:
        return False
    return None if answer is None else bool(answer[0])
