"""Retry failed attempts; _features/retry/policy.py decides which failures allow that.

A response is a failure if the policy names its status. The attempts and the time that are left, the
delay and the budget are decided here, because they need a count or a clock.

The response of a failed attempt is discarded before the wait, so that no wait holds a connection.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Iterator

from curlhttp._client.base_layer import store_cookies
from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._client.hooks import Hooks
from curlhttp._client.straight import mark
from curlhttp._features.hook_events import AttemptEvent
from curlhttp._features.retry.policy import (
    GIVE_UP_REASONS,
    NO_RETRIES,
    GiveUpReason,
    RetryBudget,
    RetryPolicy,
    describe_outcomes,
    parse_retry_after,
)
from curlhttp._features.shared_store import Store, connect
from curlhttp._features.waits import leave_place
from curlhttp._http.body import rewind
from curlhttp._http.errors import add_note
from curlhttp._http.redaction import redact_url
from curlhttp._http.request import ENDPOINTS, ClientRequest
from curlhttp._http.response import Response
from curlhttp._http.timeout import MIN_ATTEMPT_SECONDS
from curlhttp._http.timings import Attempt, note_wait
from curlhttp._runtime.engine import Layer, MakeWaiter, Runtime, Send
from curlhttp._runtime.log import DEBUG, INFO, log
from curlhttp.exceptions import (
    CircuitBreakerOpen,
    DeadlineExceeded,
    RequestException,
    StoreError,
    UnrewindableBodyError,
)

# --- The attempts of one request: the outcome of each, and whether another one follows ---

# The other reasons add nothing to the error and the number of attempts.
_WORTH_A_NOTE = ("retry_after", "breaker", "deadline", "body", "budget")


class Attempts:
    """Record the attempts of one request, and decide whether another one follows."""

    # On the class, because most requests are sent once and change none of them.
    _number = 0
    _renewed_after = 0  # attempts; those after them count
    _is_free = False  # the latest retry, which cost the budget nothing
    _begun = 0.0
    # Status, name of the error and seconds of the latest attempt. Not the error itself, because its
    # frames hold this object.
    _facts: tuple[int | None, str | None, float | None] = (None, None, None)
    _done: tuple[Attempt, ...] = ()
    _last: Response | RequestException | None = None
    _reason: GiveUpReason | None = None
    _may_have_arrived = False
    _unrewindable: UnrewindableBodyError | None = None
    _delays: Iterator[float] | None = None
    _waits_for = "backoff"
    _paid_at: Store | None = None  # that the latest retry was withdrawn from; None: this process

    def __init__(
        self,
        request: ClientRequest,
        policy: RetryPolicy,
        runtime: Runtime,
        hooks: Hooks,
    ) -> None:
        self.request = request
        self.policy = policy
        self._runtime = runtime
        self._hooks = hooks
        self.watches = hooks.watches_attempts

    # one attempt

    def begin(self) -> None:
        """Begin the next attempt.

        Raises:
            DeadlineExceeded: no time is left.
        """
        request, budget = self.request, self.policy.budget
        now = self._begun = self._runtime.now()
        if request.deadline is not None and request.deadline - now < MIN_ATTEMPT_SECONDS:
            raise self._make_deadline_error()
        self._number += 1
        # One deposit per request, whatever the number of its attempts.
        if self._number > 1:
            self._hooks.totals.add("retries")
        elif budget is not None:
            budget._deposit(request.url.origin, now)

    def end(self, response: Response) -> None:
        """Record the attempts in the final response."""
        elapsed = self._runtime.now() - self._begun
        if self.watches:
            self._facts = (response.status_code, None, elapsed)
        # Most requests have one attempt, whose record is made on demand.
        if self._done:
            latest = Attempt(self._number, response.status_code, None, elapsed, None)
            response.attempts = (*self._done, latest)
        else:
            response._first_attempt = elapsed

    async def next_delay(self, failure: Response | RequestException) -> float | None:
        """Return the seconds to wait before the next attempt; None to give up."""
        now = self._runtime.now()
        found = await self._delay_or_reason(failure, now)
        delay = None if isinstance(found, str) else found
        self._reason = found if isinstance(found, str) else None
        status_code, error = _split(failure)
        latest = Attempt(self._number, status_code, error, now - self._begun, delay)
        name = None if error is None else type(error).__name__
        self._facts = (status_code, name, latest.elapsed)
        if delay is None:
            self._give_up(failure, latest)
        else:
            self._record_failure(failure, latest)
        self._log(delay)
        return delay

    def _record_failure(self, failure: Response | RequestException, latest: Attempt) -> None:
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
        failure.budget_exhausted = self._reason == "budget"
        if isinstance(failure, RequestException):
            self._annotate(failure)

    def _annotate(self, error: RequestException) -> None:
        """Add to an error what is known of earlier attempts, which may have been processed."""
        # If you repeat a POST yourself, you have to know about all attempts.
        if self._may_have_arrived:
            error.request_sent, error.refused = True, False
        # The earlier failure explains why the time ran out, or why the circuit opened.
        if isinstance(error, (DeadlineExceeded, CircuitBreakerOpen)):
            if isinstance(self._last, RequestException):
                error.__cause__ = self._last
            elif error.response is None:
                error.response = self._last
        if self._done:
            add_note(error, f"attempts before this one: {describe_outcomes(self._done)}")
        if self._reason in _WORTH_A_NOTE:
            add_note(
                error, f"not sent again: {self._unrewindable or GIVE_UP_REASONS[self._reason]}"
            )

    def _make_deadline_error(self) -> DeadlineExceeded:
        request, last = self.request, self._last
        late = DeadlineExceeded(
            f"{request}: the total timeout of {request.timeout.total} s ran out "
            f"before attempt {self._number + 1}",
            request=request,
            response=last if isinstance(last, Response) else None,
            request_sent=self._may_have_arrived,
        )
        late.attempts = self._done
        late.__cause__ = last if isinstance(last, RequestException) else None
        return late

    # whether another attempt follows

    async def _delay_or_reason(
        self, failure: Response | RequestException, now: float
    ) -> float | GiveUpReason:
        policy, deadline = self.policy, self.request.deadline
        if isinstance(failure, CircuitBreakerOpen):
            self._refund(now)
            if not self._moves:  # at another endpoint, the circuit may be closed
                return "breaker"
        elif (reason := policy._get_give_up_reason(self.request, failure)) is not None:
            return reason
        self._is_free = isinstance(failure, RequestException) and failure._has_progressed
        if self._is_free:  # as if it were the first attempt, of a request for the rest
            self._renewed_after, self._delays = self._number - 1, None
        if self._number - self._renewed_after > policy.max_retries:
            return "max_retries"
        backoff = self._backoff()
        if backoff is None:
            return "max_retries"
        delay = self._delay(failure, backoff)
        if delay is None:
            return "retry_after"
        if deadline is not None and now + delay > deadline - MIN_ATTEMPT_SECONDS:
            return "deadline"
        return await self._prepare_retry(now) or delay

    async def _prepare_retry(self, now: float) -> GiveUpReason | None:
        """Prepare another attempt; return why there can be none, or None if there can."""
        # The body before the budget, because a body that cannot be replayed must not cost a retry.
        self._unrewindable = rewind(self.request.body)
        if self._unrewindable is not None:
            return "body"
        budget = self.policy.budget
        if budget is not None and not self._is_free and not await self._pay(budget, now):
            return "budget"
        return None

    async def _pay(self, budget: RetryBudget, now: float) -> bool:
        """Withdraw the cost of one retry; return whether there was enough."""
        origin, make_waiter = self._origin, self._runtime.make_waiter
        is_paid = await withdraw_from_store(budget, origin, make_waiter)
        self._paid_at = None if is_paid is None else budget.store
        return budget._withdraw(origin, now) if is_paid is None else is_paid

    def _backoff(self) -> float | None:
        """Return the next delay of the strategy; None if it is the user's and has ended."""
        if self._delays is None:
            self._delays = self.policy.backoff_strategy.delays(self.policy._uniform)
        backoff = next(self._delays, None)
        # A strategy of the user may return anything, including NaN.
        if backoff is not None and not 0 <= backoff < math.inf:
            raise ValueError(f"the backoff_strategy returned {backoff!r}, not a number of seconds")
        return backoff

    def _delay(self, failure: Response | RequestException, backoff: float) -> float | None:
        self._waits_for = "backoff"
        if self._moves:
            return backoff  # what one endpoint asks for is nothing to another
        if isinstance(failure, RequestException):
            return backoff
        if not self.policy._heeds_retry_after(failure.status_code):
            return backoff
        # Wall time: Retry-After may be a date.
        asked = parse_retry_after(failure.headers, self._runtime.wall())
        if asked is not None and asked > backoff:
            self._waits_for = "retry_after"
        return self.policy._delay(backoff, asked)

    @property
    def _moves(self) -> bool:
        """Return whether the next attempt goes to an endpoint that had none yet."""
        rotation = (self.request.extensions or {}).get(ENDPOINTS)
        return rotation is not None and rotation.has_more(self._runtime.now())

    def _refund(self, now: float) -> None:
        """Refund the cost of a retry that the breaker refused."""
        # The first attempt cost nothing.
        budget = self.policy.budget
        if self._number > 1 and not self._is_free and budget is not None:
            if self._paid_at is None:
                budget._refund(self._origin, now)
            else:
                self._paid_at.tell(budget._make_refund_command(self._origin))

    @property
    def _origin(self) -> str:
        return self.request.url.origin

    async def sleep(self, delay: float) -> None:
        """Wait.

        Raises:
            DeadlineExceeded: discarding the failed response took too long.
        """
        deadline = self.request.deadline
        # Checked again, because discarding the response took time.
        if deadline is not None and self._runtime.now() + delay > deadline:
            raise self._make_deadline_error()
        if self.watches:
            await self._notify("before_sleep", delay=delay)
        begun = self._runtime.now()
        try:
            with leave_place(self.request, None):
                await self._runtime.sleep(delay)
        except BaseException:  # cancelled
            delay = self._runtime.now() - begun
            raise
        finally:
            self._hooks.totals.outcomes.add_wait(self._origin, self._waits_for, delay)

    def next_request(self, request: ClientRequest, delay: float) -> ClientRequest:
        """Return the request of the next attempt.

        Args:
            request: of the latest attempt.
            delay: that it has waited.
        """
        made = request.for_next_attempt()
        return note_wait(made, self._waits_for, delay) if delay else made

    # hooks and log

    async def announce(self) -> None:
        """Call the before_attempt hooks."""
        self._facts = (None, None, None)
        await self._notify("before_attempt")

    async def report(self) -> None:
        """Call the after_attempt hooks, and on_give_up if there is no further attempt."""
        await self._notify("after_attempt")
        # Without a policy there was nothing to give up.
        if self._reason is not None and self.policy is not NO_RETRIES:
            await self._notify("on_give_up", reason=self._reason)

    async def _notify(
        self, event: str, *, delay: float | None = None, reason: GiveUpReason | None = None
    ) -> None:
        if self._hooks.has(event):
            await self._hooks.notify(event, self._event(event, delay, reason))

    def _event(self, event: str, delay: float | None, reason: GiveUpReason | None) -> AttemptEvent:
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
        if not log.is_enabled_for(INFO) or self.policy is NO_RETRIES:
            return
        request, (status_code, error, _) = self.request, self._facts
        log.write(
            INFO,
            "%s %s: attempt %d: %s; %s",
            request.method,
            redact_url(request.url),
            self._number,
            error or status_code,
            self._reason if delay is None else f"the next in {delay:.3f} s",
        )


def _split(
    failure: Response | RequestException,
) -> tuple[int | None, RequestException | None]:
    if isinstance(failure, RequestException):
        return None, failure
    return failure.status_code, None


def start(settings: Settings, host: Host) -> None:
    """Connect the store of the budget."""
    policy: RetryPolicy | None = settings["retry"]
    if policy is not None and policy.budget is not None:
        connect(policy.budget.store)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that retries failed requests, and calls the hooks on attempts."""
    runtime = context.runtime
    hooks: Hooks = context.settings["hooks"]

    def wrap(send: Send) -> Send:
        def retrying(request: ClientRequest) -> Awaitable[Response]:
            policy = request.retry
            if policy is None:
                # Without a policy, hooks are still called for the only attempt.
                if not hooks.watches_attempts:
                    return send(request)
                policy = NO_RETRIES
            return _retry(Attempts(request, policy, runtime, hooks), send)

        if context.settings.get("retry") is None and not hooks.watches_attempts:
            mark(retrying, send)
        return retrying

    return wrap


async def _retry(attempts: Attempts, send: Send) -> Response:
    request, statuses = attempts.request, attempts.policy.statuses
    while True:
        attempts.begin()
        if attempts.watches:
            await attempts.announce()
        try:
            response = await send(request)
        # Nothing else: cancellation, Ctrl-C and the caller's own errors end all attempts.
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
            # Only here, because the final response keeps its body.
            await _discard(request, response)
        await attempts.sleep(delay)
        request = attempts.next_request(request, delay)


async def _discard(request: ClientRequest, response: Response) -> None:
    store_cookies(request.jar, response)  # because the cookie layer sees only the last response
    try:
        await response.discard()
    except RequestException as error:
        log.write(DEBUG, "the rest of a discarded response: %s", type(error).__name__)


async def withdraw_from_store(
    budget: RetryBudget, origin: str, make_waiter: MakeWaiter
) -> bool | None:
    """Withdraw one retry from a shared budget; return whether there was enough, None if unknown.

    If the store raises, there is no retry, so that the caller gets the error of the failed attempt.

    Args:
        budget: to withdraw from; it is unknown without a store.
        origin: of the request.
        make_waiter: makes a waiter of the engine.
    """
    if budget.store is None:
        return None
    try:
        answer = await budget.store.ask(budget._make_withdraw_command(origin), make_waiter)
    except StoreError:
        return False
    return None if answer is None else bool(answer[0])
