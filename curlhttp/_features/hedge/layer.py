"""Send a slow request a second time; policy.py decides which requests are hedged, and when.

The layer that races attempts is below retry, so a retry repeats the whole race. The layers below it
treat each attempt as an ordinary one, except that an extra attempt never waits for permission: if
limits, breaker or budget refuse it, it is not sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from curlhttp._client.chain import Host, LayerContext, Settings
from curlhttp._client.streamed_response import BaseStreamedResponse
from curlhttp._features.hedge.policy import HEDGED_STATUSES, HeadTimes, Hedge, may_hedge
from curlhttp._features.retry.layer import withdraw_from_store
from curlhttp._features.retry.policy import RetryBudget, RetryPolicy
from curlhttp._http.body import Body
from curlhttp._http.errors import check_object
from curlhttp._http.request import READ_BY_LAYER, ClientRequest
from curlhttp._http.response import Response
from curlhttp._runtime.engine import Layer, MakeRace, MakeWaiter, Send, Totals, decode_body
from curlhttp._runtime.log import ERROR, log
from curlhttp._runtime.race import (
    AttemptRefused,
    RacingAttempt,
    get_attempt,
    is_refusal,
    mark,
    unmark,
)
from curlhttp.exceptions import RequestException

_EARLY = 0.001  # seconds that a loop's timer may fire early; uvloop's clock counts milliseconds


def start(settings: Settings, host: Host) -> None:
    """Check the policy, and share its times and its budget among all engines of the client.

    Raises:
        TypeError: it is something else, such as a number.
    """
    policy: Hedge = settings["hedge"]
    check_object("hedge", policy, "after", "curlhttp.Hedge(after=0.3)")
    retry: RetryPolicy | None = settings.setdefault("retry", None)
    budget = None if retry is None else retry.budget
    settings["hedge"] = Hedging(policy, host.runtime.now, host.totals, budget)


def make_layer(context: LayerContext) -> Layer:
    """Return the layer that sends a request again while it is slow."""
    hedging: Hedging = context.settings["hedge"]
    return partial(hedging.race, context.runtime.make_race)


def make_admitting_layer(context: LayerContext) -> Layer:
    """Return the layer that an attempt passes once limits and breaker have admitted it."""
    hedging: Hedging = context.settings["hedge"]
    return partial(hedging.admit, context.runtime.make_waiter)


def make_watching_layer(context: LayerContext) -> Layer:
    """Return the layer that notes when the head of a response arrives."""
    hedging: Hedging = context.settings["hedge"]
    return hedging.watch


class Hedging:
    """The layers of a client that hedges, for all its engines.

    Args:
        policy: which requests to hedge, and when.
        now: returns monotonic seconds.
        totals: of the client, which count the extra attempts.
        budget: of the retry policy, or None. The retry layer makes the deposits.
    """

    def __init__(
        self,
        policy: Hedge,
        now: Callable[[], float],
        totals: Totals,
        budget: RetryBudget | None = None,
    ) -> None:
        self.policy: Hedge = policy
        self.now: Callable[[], float] = now
        self.times: HeadTimes = HeadTimes()
        self._totals = totals
        # One budget for hedges and retries, because a failing server gets the sum of both.
        self._budget = policy.budget or budget or RetryBudget()
        self._deposits = self._budget is not budget

    def race(self, make_race: MakeRace, send: Send) -> Send:
        """Return the layer that sends a request again while it is slow."""

        def hedged(request: ClientRequest) -> Awaitable[Response]:
            if not may_hedge(request, self.policy):
                return send(request)
            if self._deposits:
                self._budget._deposit(request.url.origin, self.now())
            return _HedgedRequest(self, request, send, make_race).send()

        return hedged

    def admit(self, make_waiter: MakeWaiter, send: Send) -> Send:
        """Return the layer that an attempt passes once limits and breaker have admitted it."""

        def admitted(request: ClientRequest) -> Awaitable[Response]:
            attempt = get_attempt(request)
            if attempt is None:
                return send(request)
            return self._admit(request, attempt, send, make_waiter)

        return admitted

    async def _admit(
        self, request: ClientRequest, attempt: RacingAttempt, send: Send, make_waiter: MakeWaiter
    ) -> Response:
        if attempt.is_extra:
            # Last, because an attempt that a limit or the breaker refuses must cost nothing.
            if not await self._pay(request.url.origin, make_waiter):
                raise AttemptRefused(f"{request}: the budget is empty", request=request)
            self._totals.add("hedges")
        attempt.begin(self.now())
        return await send(request)

    async def _pay(self, origin: str, make_waiter: MakeWaiter) -> bool:
        is_paid = await withdraw_from_store(self._budget, origin, make_waiter)
        return self._budget._withdraw(origin, self.now()) if is_paid is None else is_paid

    def watch(self, send: Send) -> Send:
        """Return the last layer, which notes when the head of a response arrives."""

        def watched(request: ClientRequest) -> Awaitable[Response]:
            attempt = get_attempt(request)
            return send(request) if attempt is None else self._watch(request, attempt, send)

        return watched

    async def _watch(self, request: ClientRequest, attempt: RacingAttempt, send: Send) -> Response:
        if attempt.result == "lost":  # a middleware has caught its cancellation
            raise AttemptRefused(f"{request}: another attempt has won", request=request)
        streamed = request
        if not request.stream:
            streamed = request.copy()
            streamed.stream = True
            streamed._extend(READ_BY_LAYER, True)
        response = await send(streamed)
        attempt.head_at = self.now()
        if not request.stream and isinstance(response, BaseStreamedResponse):
            return await self._load(request, response, attempt.head_at)
        return response

    async def _load(
        self, request: ClientRequest, streamed: BaseStreamedResponse, begun: float
    ) -> Response:
        """Read a body, as an engine does that returns a whole response."""
        pieces: list[bytes] = []

        def make() -> Response:
            times = streamed.timings
            times = times._replace(total=times.total + self.now() - begun)
            response = Response(request, streamed._head, b"".join(pieces), times)
            response._certificate = streamed._certificate
            return response

        try:
            while piece := await streamed._read_raw():
                pieces.append(piece)
        except RequestException as error:
            error.request = request
            if error.response is None:
                error.response = make()
            raise
        response = make()
        if request.decode and pieces:
            decode_body(response, request)
        return response


class _HedgedRequest:
    """The attempts of one request.

    Args:
        hedging: decides.
        request: to send.
        send: sends an attempt.
        make_race: makes a race of the engine.
    """

    def __init__(
        self, hedging: Hedging, request: ClientRequest, send: Send, make_race: MakeRace
    ) -> None:
        self._hedging = hedging
        self._request = request
        self._send = send
        self._race = make_race()
        self._attempts: list[RacingAttempt] = []
        self._running: list[RacingAttempt] = []
        self._failed: RacingAttempt | None = None  # the last one that was sent and is no success
        self._was_sent = False  # by an attempt whose outcome is dropped

    async def send(self) -> Response:
        """Return the response that wins, or raise the last error."""
        try:
            async with self._race:
                winner = await self._run()
                self._decide(winner)
            return self._get_outcome(winner)
        finally:
            self._drop_all()

    async def _run(self) -> RacingAttempt:
        """Start attempts until one has won, and return it."""
        now, policy = self._hedging.now, self._hedging.policy
        after = policy._seconds(self._hedging.times, self._request.url.origin)
        left = 0 if after is None else policy.max
        latest = self._start(self._request, is_extra=False)
        while (winner := self._find_winner()) is None:
            if not left or after is None or latest.begun is None:
                await self._race.wait(None)
            elif (seconds := latest.begun + after - now()) > _EARLY:
                await self._race.wait(seconds)
            else:
                request = self._derive_extra()
                left = 0 if request is None else left - 1
                if request is not None:
                    latest = self._start(request, is_extra=True)
        return winner

    def _derive_extra(self) -> ClientRequest | None:
        """Return the request of one more attempt, None if there may be none."""
        # A slow body is no reason for another attempt.
        if any(each.head_at is not None for each in self._running):
            return None
        request, body = self._request, None
        if request.body is not None:
            body = _clone(request.body)
            if body is None:  # both attempts would read from the same body
                return None
        return request.for_next_attempt(body=body)

    def _start(self, request: ClientRequest, *, is_extra: bool) -> RacingAttempt:
        attempt = RacingAttempt(self._race, is_extra=is_extra)
        self._attempts.append(attempt)
        self._running.append(attempt)
        self._race.start(partial(self._attempt, attempt), mark(request, attempt))
        return attempt

    async def _attempt(self, attempt: RacingAttempt, request: ClientRequest) -> None:
        try:
            attempt.response = await self._send(request)
        except (Exception, KeyboardInterrupt, SystemExit) as error:
            attempt.error = error
        except BaseException as error:  # a cancellation, perhaps by nobody
            attempt.error = error
            raise
        finally:
            attempt.is_done = True
            self._race.wake()
            if attempt.is_extra and is_refusal(attempt.error) and request.body is not None:
                request.body.close()  # the clone may have opened the file a second time

    def _find_winner(self) -> RacingAttempt | None:
        """Return the first attempt that succeeded, or the last one if all have failed."""
        for attempt in tuple(self._running):
            if not attempt.is_done:
                continue
            self._running.remove(attempt)
            error, response = attempt.error, attempt.response
            is_good = response is not None and response.status_code not in HEDGED_STATUSES
            if is_good or (error is not None and not isinstance(error, Exception)):
                return attempt  # Ctrl-C ends everything, too
            if not (attempt.is_extra and _is_unsent(error)):
                self._note_failed(self._failed)
                self._failed = attempt
        return None if self._running else self._failed

    def _note_failed(self, attempt: RacingAttempt | None) -> None:
        """Note what became of an attempt whose outcome the caller does not get."""
        if attempt is not None:
            error = attempt.error
            self._was_sent = self._was_sent or (
                error.request_sent if isinstance(error, RequestException) else error is None
            )

    def _decide(self, winner: RacingAttempt) -> None:
        """Tell all attempts the result, before those that run are cancelled."""
        if winner is not self._failed:
            self._note_failed(self._failed)
        self._note_time(winner)
        sent = [
            each for each in self._attempts if each.begun is not None and not is_refusal(each.error)
        ]
        for attempt in sent:
            if attempt is not winner:
                attempt.decide("lost")
        winner.decide("won" if len(sent) > 1 else "alone")

    def _note_time(self, winner: RacingAttempt) -> None:
        """Note how long the first attempt took up to the head of its response.

        Only the first attempt is a fair sample, because the others run when it was slow.
        """
        first = self._attempts[0]
        if first.begun is None or not (first is winner or first in self._running):
            return
        ended = first.head_at
        if ended is None and first is not winner:
            ended = self._hedging.now()
        if ended is not None:
            self._hedging.times.add(self._request.url.origin, ended - first.begun)

    def _get_outcome(self, winner: RacingAttempt) -> Response:
        error, response = winner.error, winner.response
        winner.error = winner.response = None
        if response is not None:
            unmark(response.request)
            return response
        assert error is not None
        if isinstance(error, RequestException):
            if self._was_sent:  # by another attempt than the one that failed with this error
                error.request_sent, error.refused = True, False
            if isinstance(error.request, ClientRequest):
                unmark(error.request)
        try:
            raise error
        finally:
            del error, winner  # otherwise they and this frame would hold each other

    def _drop_all(self) -> None:
        """Close the responses that nobody gets, and let go of the errors and their frames."""
        for attempt in self._attempts:
            if isinstance(attempt.response, BaseStreamedResponse):
                attempt.response.abort()
            attempt.response = attempt.error = attempt.race = None


def _is_unsent(error: BaseException | None) -> bool:
    """Return whether an extra attempt was not sent, or failed for a reason of the user's code."""
    if error is None or isinstance(error, RequestException):
        return is_refusal(error)
    log.write(ERROR, "an attempt_middleware raised in an extra attempt", error=error)
    return True


def _clone(body: Body) -> Body | None:
    try:
        return body.clone()
    except Exception:  # raised by the caller's function; the first attempt continues
        return None
