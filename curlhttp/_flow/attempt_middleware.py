"""Run the user's middleware for each attempt: retries, redirects, challenges, hedges.

The attempts of a hedge run at the same time in the engine, which returns the outcome of one. So the
middleware runs once per attempt, and is paused where it calls `send`: the engine gets the request,
and the middleware continues when the race is decided. All of it runs in the caller's task.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator, Sequence
from types import coroutine
from typing import cast

from curlhttp._engine.engine import AttemptResult, Exchange, HedgePlan, Layer, Middleware, Send
from curlhttp._flow.hooks import check_response, log
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response
from curlhttp._models.timings import AttemptCancelled
from curlhttp.exceptions import RequestException


def attempt_middleware(functions: Sequence[Middleware]) -> Layer:
    """Return the layer that runs middleware for each attempt.

    Args:
        functions: the user's middleware, outermost first.
    """
    return lambda send: _checked(wrap_exchange(functions, cast(Exchange, send)))


def _checked(exchange: Exchange) -> Exchange:
    async def send(request: ClientRequest, plan: HedgePlan | None = None) -> Response:
        return check_response(await exchange(request, plan), "an attempt_middleware")

    return send


def wrap_exchange(functions: Sequence[Middleware], exchange: Exchange) -> Exchange:
    """Return a last step of the flow whose attempts go through middleware.

    Args:
        functions: the user's middleware, outermost first.
        exchange: passes the request to the engine.
    """
    alone = _compose(functions, exchange)

    def send(request: ClientRequest, plan: HedgePlan | None = None) -> Awaitable[Response]:
        # A copy, so that changes for one attempt affect neither the next nor the layers above.
        if plan is None:
            return alone(request.copy())
        return _send_hedged(_Race(functions, plan), request.copy(), exchange)

    return send


def _compose(functions: Sequence[Middleware], send: Send) -> Send:
    for function in reversed(functions):
        send = _apply(function, send)
    return send


def _apply(function: Middleware, send: Send) -> Send:
    return lambda request: function(request, send)


async def _send_hedged(race: _Race, request: ClientRequest, exchange: Exchange) -> Response:
    try:
        first = race.begin(request)
        await first.advance()
        if first.sent is not None:
            await race.decide(await _get_outcome(exchange, first.sent, race), exchange)
        return race.final_run.result()
    finally:
        race.close()


async def _get_outcome(
    exchange: Exchange, request: ClientRequest, plan: HedgePlan | None = None
) -> Response | BaseException:
    try:
        return await exchange(request, plan)
    except BaseException as error:  # any error, because the middleware has to get it
        return error


class _Race:
    """A HedgePlan that runs the middleware for each attempt of one request.

    Args:
        functions: the user's middleware, outermost first.
        plan: of the hedge layer.
    """

    def __init__(self, functions: Sequence[Middleware], plan: HedgePlan) -> None:
        self.after = plan.after
        self.most = plan.most
        self.timed = plan.timed
        self.is_good = plan.is_good
        self._functions = functions
        self._plan = plan
        self._runs: list[_PausedMiddleware] = []
        self._final_run: _PausedMiddleware | None = None

    def begin(self, request: ClientRequest) -> _PausedMiddleware:
        """Return the middleware for one more attempt."""
        run = _PausedMiddleware(_compose(self._functions, _Breakpoint), request)
        self._runs.append(run)
        return run

    async def again(self) -> ClientRequest | None:
        """Return the request of one more attempt, as the middleware sends it, or None."""
        request = await self._plan.again()
        if request is None:
            return None
        run = self.begin(request)
        try:
            await run.advance()
        finally:
            if run.sent is None:
                self._runs.remove(run)
        sent = run.sent
        if sent is None:
            # The middleware failed, or returned its own response. The first attempt continues.
            run.forget()
            return None
        if sent.choose_route is not None:
            sent.route = sent.choose_route(sent.url)  # the middleware may have changed the URL
        return sent

    def won(self, request: ClientRequest) -> None:
        """Note which attempt's outcome the engine returns or raises."""
        self._final_run = self._find_run(request)
        self._plan.won(request)

    def dropped(
        self, request: ClientRequest, result: AttemptResult, elapsed: float, was_sent: bool
    ) -> None:
        """Count an attempt whose outcome the caller does not get."""
        self._find_run(request).outcome = result
        self._plan.dropped(request, result, elapsed, was_sent)

    def _find_run(self, request: ClientRequest) -> _PausedMiddleware:
        # A wrapper of the engine may send a copy of the first request.
        return next((run for run in self._runs if run.sent is request), self._runs[0])

    @property
    def final_run(self) -> _PausedMiddleware:
        """Return the run whose outcome the caller gets."""
        return self._final_run or self._runs[-1]

    async def decide(self, outcome: Response | BaseException, exchange: Exchange) -> None:
        """Run all middleware to its end.

        Args:
            outcome: of the attempt that the engine returned.
            exchange: sends further requests of that run, such as a second attempt.
        """
        # A cancellation passes through all runs, as through the frames of a stack, up to the one
        # whose timeout it was.
        is_cancelled = isinstance(outcome, BaseException) and not isinstance(outcome, Exception)
        cancelled = cast(BaseException, outcome) if is_cancelled else None
        winner = self.final_run if cancelled is None else None
        # Hold no reference here: if the middleware drops a stream, its connection becomes free.
        given = [outcome]
        del outcome
        # The newest first, so that runs leave what they have entered, such as a timeout, in reverse
        # order.
        for run in reversed(self._runs):
            if winner is None or run is winner:
                await run.advance(given.pop() if cancelled is None else cancelled)
                while run.sent is not None:
                    winner = run
                    await run.advance(await _get_outcome(exchange, run.sent))
                if cancelled is not None and not run.raises(cancelled):
                    winner = run
                continue
            lost = run.outcome
            await run.advance(AttemptCancelled() if lost is None else lost)
            while run.sent is not None:  # the race is decided
                await run.advance(AttemptCancelled())
            run.forget()
        self._final_run = winner or self._runs[0]

    def close(self) -> None:
        """Close all runs, including those that have not ended."""
        for run in reversed(self._runs):
            run.close()


class _PausedMiddleware:
    """Run the middleware for one attempt, and pause it where it calls `send`.

    Args:
        through: sends a request through the middleware, and pauses there.
        request: of the attempt.

    Attributes:
        sent: the request that the middleware has sent, while it waits for the response.
        outcome: of an attempt whose outcome the caller does not get; None if it was cancelled.
    """

    __slots__ = ("_coroutine", "_error", "_request", "_response", "_through", "outcome", "sent")

    def __init__(self, through: Send, request: ClientRequest) -> None:
        self._through, self._request = through, request
        self._coroutine: Coroutine[object, object, Response] | None = None  # it has not begun
        self._response: Response | None = None
        self._error: BaseException | None = None
        self.sent: ClientRequest | None = None
        self.outcome: AttemptResult = None

    @coroutine
    def advance(
        self, outcome: Response | BaseException | None = None
    ) -> Generator[object, object, None]:
        """Run until the middleware calls `send` or ends; await everything else that it awaits.

        Args:
            outcome: of the request that it has sent; None to begin.

        Raises:
            BaseException: a cancellation or Ctrl-C that is not `outcome`.
        """
        self.sent = None
        if self._coroutine is None:
            self._coroutine = _start(self._through, self._request)
        coroutine = self._coroutine
        try:
            found = _resume(coroutine, outcome)
            while not isinstance(found, _Breakpoint):
                try:
                    received = yield found
                except BaseException as error:  # a cancellation
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
            del outcome  # otherwise it and this frame would hold each other

    def result(self) -> Response:
        """Return what the middleware returned, or raise what it raised."""
        error, self._error = self._error, None
        if error is None:
            return cast(Response, self._response)
        try:
            raise error
        finally:
            del error  # otherwise it and this frame would hold each other

    def raises(self, outcome: BaseException) -> bool:
        """Return whether the middleware has raised the outcome that it got."""
        return self._error is outcome

    def forget(self) -> None:
        """Drop the result, and log an error that the middleware raised itself."""
        error, self._error = self._error, None
        if error is not None and not isinstance(error, (RequestException, AttemptCancelled)):
            log().error("an attempt_middleware raised outside the race", exc_info=error)

    def close(self) -> None:
        """Close the middleware, even if it has not ended."""
        self._error = self.outcome = None  # their frames hold this object
        if self._coroutine is not None:
            self._coroutine.close()


def _resume(
    coroutine: Coroutine[object, object, Response], outcome: Response | BaseException | None
) -> object:
    try:
        if isinstance(outcome, BaseException):
            return coroutine.throw(outcome)
        return coroutine.send(outcome)
    finally:
        del outcome  # otherwise it and this frame would hold each other


async def _start(through: Send, request: ClientRequest) -> Response:
    return await through(request)


class _Breakpoint:
    """Where a middleware pauses at `send`, if its attempt may run concurrently with others.

    Args:
        request: what the middleware sends.
    """

    __slots__ = ("request",)

    def __init__(self, request: ClientRequest) -> None:
        self.request = request

    def __await__(self) -> Generator[_Breakpoint, Response, Response]:
        return (yield self)

    def __repr__(self) -> str:
        # An event loop that receives this object shows the text in its error.
        return (
            f"<send({self.request}): if requests may be hedged, an attempt_middleware must await "
            "send(request) directly, and not in another task>"
        )
