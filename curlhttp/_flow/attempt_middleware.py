"""Run the user's middleware around each attempt: retries, hops, answers to challenges, hedges.

The attempts of a hedge run at once, on an engine that returns the one that surfaces. So each has a
run of its own through the middleware, which stops where that sends: the engine gets what it sends,
and the run goes on when the race is decided. All of that happens in the caller's own task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator, Sequence
from types import coroutine
from typing import cast

from curlhttp._engine.engine import AttemptResult, Exchange, HedgePlan, Layer, Middleware, Send
from curlhttp._flow.hooks import check_answer, log
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._models.timings import AttemptCancelled
from curlhttp.exceptions import RequestException

__all__ = ["around_each", "attempt_middleware"]


def attempt_middleware(functions: Sequence[Middleware]) -> Layer:
    """Return the layer that runs middleware around each attempt.

    Args:
        functions: the user's, outermost first.
    """
    return lambda send: _checked(around_each(functions, cast(Exchange, send)))


def _checked(exchange: Exchange) -> Exchange:
    async def send(request: Request, plan: HedgePlan | None = None) -> Response:
        return check_answer(await exchange(request, plan), "an attempt_middleware")

    return send


def around_each(functions: Sequence[Middleware], exchange: Exchange) -> Exchange:
    """Return a last step of the flow whose attempts go through middleware.

    Args:
        functions: outermost first.
        exchange: the last step, which hands a request to the engine.
    """
    alone = _composed(functions, exchange)

    def send(request: Request, plan: HedgePlan | None = None) -> Awaitable[Response]:
        # A copy: what is changed for one attempt is not seen by the next, nor by those above.
        if plan is None:
            return alone(request.copy())
        return _raced(_Race(functions, plan), request.copy(), exchange)

    return send


def _composed(functions: Sequence[Middleware], send: Send) -> Send:
    for function in reversed(functions):
        send = _around(function, send)
    return send


def _around(function: Middleware, send: Send) -> Send:
    return lambda request: function(request, send)


async def _raced(race: _Race, request: Request, exchange: Exchange) -> Response:
    try:
        first = race.begin(request)
        await first.go_on()
        if first.sent is not None:
            await race.decide(await _outcome(exchange, first.sent, race), exchange)
        return race.surfacing.result()
    finally:
        race.close()


async def _outcome(
    exchange: Exchange, request: Request, plan: HedgePlan | None = None
) -> Response | BaseException:
    try:
        return await exchange(request, plan)
    except BaseException as error:  # whatever it is, it is for the middleware to see
        return error


class _Race:
    """The attempts of one request that may run at once, each with its run; see HedgePlan.

    Args:
        functions: the middleware, outermost first.
        plan: the hedge's.
    """

    def __init__(self, functions: Sequence[Middleware], plan: HedgePlan) -> None:
        self.after = plan.after
        self.most = plan.most
        self.timed = plan.timed
        self.is_good = plan.is_good
        self._functions = functions
        self._plan = plan
        self._runs: list[_PausedMiddleware] = []
        self._surfacing: _PausedMiddleware | None = None

    def begin(self, request: Request) -> _PausedMiddleware:
        """Return the run of one more attempt."""
        run = _PausedMiddleware(_composed(self._functions, _Breakpoint), request)
        self._runs.append(run)
        return run

    async def again(self) -> Request | None:
        """Return one more attempt's request as the middleware sends it, or None."""
        request = await self._plan.again()
        if request is None:
            return None
        run = self.begin(request)
        try:
            await run.go_on()
        finally:
            if run.sent is None:
                self._runs.remove(run)
        sent = run.sent
        if sent is None:
            # It failed, or was answered without the engine: the first is not worse off for it.
            run.forget()
            return None
        if sent.route is not None:
            sent.transport = sent.route(sent.url)  # by the URL as it is now
        return sent

    def won(self, request: Request) -> None:
        """Hear which attempt's outcome the engine returns or raises."""
        self._surfacing = self._run_of(request)
        self._plan.won(request)

    def dropped(
        self, request: Request, result: AttemptResult, elapsed: float, was_sent: bool
    ) -> None:
        """Count an attempt that does not surface."""
        self._run_of(request).outcome = result
        self._plan.dropped(request, result, elapsed, was_sent)

    def _run_of(self, request: Request) -> _PausedMiddleware:
        # What stands around an engine may send a copy of the first one.
        return next((run for run in self._runs if run.sent is request), self._runs[0])

    @property
    def surfacing(self) -> _PausedMiddleware:
        """Return the run whose outcome is the request's."""
        return self._surfacing or self._runs[-1]

    async def decide(self, outcome: Response | BaseException, exchange: Exchange) -> None:
        """Let all runs go on to their end.

        Args:
            outcome: of the attempt that surfaces.
            exchange: sends what that run sends in addition, such as a second time.
        """
        # A cancellation goes through all of them, as through the frames of a stack, up to the one
        # whose timeout it was.
        is_cancelled = isinstance(outcome, BaseException) and not isinstance(outcome, Exception)
        cancelled = cast(BaseException, outcome) if is_cancelled else None
        winner = self.surfacing if cancelled is None else None
        # Not held here: where the middleware lets go of a stream, what it sends next has its place.
        given = [outcome]
        del outcome
        # The newest first: what a run has entered, such as a timeout, it leaves before those do
        # that had entered something before it.
        for run in reversed(self._runs):
            if winner is None or run is winner:
                await run.go_on(given.pop() if cancelled is None else cancelled)
                while run.sent is not None:
                    winner = run
                    await run.go_on(await _outcome(exchange, run.sent))
                if cancelled is not None and not run.raises(cancelled):
                    winner = run
                continue
            lost = run.outcome
            await run.go_on(AttemptCancelled() if lost is None else lost)
            while run.sent is not None:  # the race is decided
                await run.go_on(AttemptCancelled())
            run.forget()
        self._surfacing = winner or self._runs[0]

    def close(self) -> None:
        """Let go of all runs, those included that have not come to their end."""
        for run in reversed(self._runs):
            run.close()


class _PausedMiddleware:
    """Run the middleware for one attempt, and pause it where it calls `send`.

    Args:
        through: takes a request through it, and stops.
        request: of the attempt.

    Attributes:
        sent: what the middleware sends, as long as it waits for the response.
        outcome: the outcome of an attempt that does not surface; None: it was cancelled.
    """

    __slots__ = ("_coroutine", "_error", "_request", "_response", "_through", "outcome", "sent")

    def __init__(self, through: Send, request: Request) -> None:
        self._through, self._request = through, request
        self._coroutine: Coroutine[object, object, Response] | None = None  # it has not begun
        self._response: Response | None = None
        self._error: BaseException | None = None
        self.sent: Request | None = None
        self.outcome: AttemptResult = None

    @coroutine
    def go_on(
        self, outcome: Response | BaseException | None = None
    ) -> Generator[object, object, None]:
        """Go on until the middleware sends, or to its end; what else it awaits is awaited.

        Args:
            outcome: of what it has sent, None to begin.

        Raises:
            BaseException: a cancellation, or Ctrl-C, that is not the outcome.
        """
        self.sent = None
        if self._coroutine is None:
            self._coroutine = _begun(self._through, self._request)
        coroutine = self._coroutine
        try:
            found = _resumed(coroutine, outcome)
            while not isinstance(found, _Breakpoint):
                try:
                    received = yield found
                except BaseException as error:  # a cancellation, for the one who waits
                    found = coroutine.throw(error)
                else:
                    found = coroutine.send(received)
        except StopIteration as stop:
            self._response = stop.value
        except BaseException as error:
            if error is not outcome and not isinstance(error, (Exception, AttemptCancelled)):
                raise
            self._error = error
        else:
            self.sent = found.request
        finally:
            del outcome  # its traceback has this frame: else it would hold itself, in a circle

    def result(self) -> Response:
        """Return what the middleware returned, or raise what it raised."""
        error, self._error = self._error, None
        if error is None:
            return cast(Response, self._response)
        try:
            raise error
        finally:
            del error  # or its traceback would hold it, in a circle

    def raises(self, outcome: BaseException) -> bool:
        """Return whether the middleware has passed on what it got."""
        return self._error is outcome

    def forget(self) -> None:
        """Do without the result; an error of the middleware's own is logged."""
        error, self._error = self._error, None
        if error is not None and not isinstance(error, (RequestException, AttemptCancelled)):
            log().error("an attempt_middleware raised outside the race", exc_info=error)

    def close(self) -> None:
        """Let go of the middleware, wherever it is."""
        self._error = self.outcome = None  # they hold frames that hold this
        if self._coroutine is not None:
            self._coroutine.close()


def _resumed(
    coroutine: Coroutine[object, object, Response], outcome: Response | BaseException | None
) -> object:
    try:
        if isinstance(outcome, BaseException):
            return coroutine.throw(outcome)
        return coroutine.send(outcome)
    finally:
        del outcome  # or its traceback would hold this frame, in a circle


async def _begun(through: Send, request: Request) -> Response:
    return await through(request)


class _Breakpoint:
    """Where a middleware pauses at `send`, if its attempt may run concurrently with others.

    Args:
        request: what the middleware sends.
    """

    __slots__ = ("request",)

    def __init__(self, request: Request) -> None:
        self.request = request

    def __await__(self) -> Generator[_Breakpoint, Response, Response]:
        return (yield self)

    def __repr__(self) -> str:
        # An event loop that gets it shows it in its error.
        return (
            f"<send({self.request}): where requests may be hedged, an attempt_middleware awaits "
            "send(request) itself, and in no other task>"
        )
