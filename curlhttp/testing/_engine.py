"""An engine whose network is a script and whose clock is a number. It decides nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from curlhttp._engine.engine import HedgePlan
from curlhttp._models.body import read_whole
from curlhttp._models.decoding import decode_content
from curlhttp._models.errors import client_closed
from curlhttp._models.request import KEEP_CODED, Request
from curlhttp._models.response import Response
from curlhttp.exceptions import RequestException, ResponseTooLarge
from curlhttp.testing._attempt import Attempted, ScriptedIncoming, ScriptedRace, copy_of, limited
from curlhttp.testing._script import Answer, Fault, Script, Step, as_step
from curlhttp.testing._sent import Sent

__all__ = ["ScriptedEngine"]


class ScriptedEngine:
    """Answer from a script instead of the network: `Client(transport=ScriptedEngine([...]))`.

    Its clock stands still, but for the delays of the script, the waits of the client, and
    `advance`. All requests share it, those of threads and tasks too: a wait of one moves it for
    all, and nothing ever waits for another request.

    Args:
        script: steps, one per attempt: an Answer, a Fault, an exception, or a status code; or a
            function that returns the step for a Request.
        now: what the clock shows at first, in monotonic seconds.
        wall: the time of day at first, in seconds since the epoch.

    Attributes:
        sent: a Sent for each attempt, oldest first.
        sleeps: how long the client waited each time, in seconds.
        aborted: responses that were let go of before their end.
        cancelled: attempts of hedges that lost.
    """

    def __init__(self, script: Script, *, now: float = 0.0, wall: float = 1_750_000_000.0) -> None:
        self.sent: list[Sent] = []
        self.sleeps: list[float] = []
        self.aborted: int = 0
        self.cancelled: int = 0
        self._steps: Iterator[Step] | None = None if callable(script) else iter(script)
        self._choose: Callable[[Request], Step] | None = script if callable(script) else None
        self._now = now
        self._epoch = wall - now
        self._lock = threading.Lock()
        self._is_closed = False

    # the clock

    def now(self) -> float:
        """Return what the clock shows, in monotonic seconds."""
        return self._now

    def wall(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self._epoch + self._now

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        with self._lock:
            self._now += seconds

    async def sleep(self, seconds: float) -> None:
        """Wait, which takes no time."""
        self.sleeps.append(seconds)
        self.advance(seconds)

    def gate(self) -> _ScriptedGate:
        """Return a closed gate."""
        return _ScriptedGate(self)

    # exchanges

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Play the next step and return the response with its body in memory.

        Args:
            request: what is asked for.
            plan: of a hedge, whose attempts are steps of the script as well; None without one.
        """
        incoming = await self.open(request, plan)
        pieces = []
        while piece := await self.read(incoming):
            pieces.append(piece)
        request = incoming.request  # of a race, the one that came through
        response = Response(request, incoming.head, b"".join(pieces), incoming.timings())
        self._decode(response, request)
        return response

    async def open(self, request: Request, plan: HedgePlan | None = None) -> ScriptedIncoming:
        """Play the next step up to the head of the response.

        Args:
            request: what is asked for.
            plan: see perform.
        """
        first = await self._begin(request)
        attempt = first if plan is None else await self._race(first, plan)
        await self._wait_until(attempt.ends)
        if attempt.error is not None:
            raise attempt.take_error()
        assert isinstance(attempt.step, Answer)
        seconds = attempt.ends - attempt.begun
        return ScriptedIncoming(attempt.request, attempt.step, seconds, self)

    async def _begin(self, request: Request) -> Attempted:
        if self._is_closed:
            raise client_closed(request)
        begun = self._now
        step = self._next(request)
        arrives = isinstance(step, Answer) or step.error.request_sent
        body = await read_whole(request.body) if arrives else b""
        headers = request.headers.copy()
        self.sent.append(Sent(begun, request.method, str(request.url), headers, body, arrives))
        return Attempted(request, step, begun)

    async def _race(self, first: Attempted, plan: HedgePlan) -> Attempted:
        """Return the attempt that surfaces; the others are cancelled."""
        race = ScriptedRace(first, plan)
        while (due := race.due()) is not None:
            await self._wait_until(due)
            again = await plan.again()
            race.add(None if again is None else await self._begin(again))
        self.cancelled += race.cancel_others()
        return race.winner

    async def _wait_until(self, moment: float) -> None:
        with self._lock:
            self._now = max(self._now, moment)

    async def _wait(self, seconds: float) -> None:
        self.advance(seconds)

    async def read(self, incoming: ScriptedIncoming) -> bytes:
        """Return the next piece of a body, b"" at its end."""
        if not incoming.pieces:
            if incoming.error is not None:
                raise copy_of(incoming.error, incoming.request, was_sent=True)
            return b""
        seconds, error = limited(incoming.request, incoming.pace, self.now())
        await self._wait(seconds)
        if error is not None:
            try:
                raise error
            finally:
                del error  # or its traceback would hold it, in a circle
        piece = incoming.pieces.pop(0)
        incoming.size += len(piece)
        limit = incoming.request.max_response_size
        if limit is not None and incoming.size > limit:
            raise ResponseTooLarge(
                f"the response body is larger than max_response_size={limit} bytes",
                request=incoming.request,
                request_sent=True,
            )
        return piece

    def abort(self, incoming: ScriptedIncoming) -> None:
        """Let go of a response before its end."""
        self.aborted += 1
        incoming.pieces.clear()

    def abort_from_finalizer(self, incoming: ScriptedIncoming) -> None:
        """Let go of a response that was dropped."""
        self.abort(incoming)

    def close(self) -> None:
        """Raise ClientClosed from now on."""
        self._is_closed = True

    # the script

    def _next(self, request: Request) -> Answer | Fault:
        with self._lock:
            choose = self._choose or self._next_in_turn
            return as_step(choose(request))

    def _next_in_turn(self, request: Request) -> Step:
        assert self._steps is not None
        for step in self._steps:
            return step
        raise AssertionError(
            f"the script has no step left for {request}, after {len(self.sent)} attempts"
        )

    def _decode(self, response: Response, request: Request) -> None:
        if not (request.decode and response._content):
            return
        if request.decode == KEEP_CODED:
            response._coded = response._content
        try:
            limit = request.max_response_size
            response._content = decode_content(response._content, response.headers, limit)
        except RequestException as error:
            error.request, error.response, error.request_sent = request, response, True
            raise


class _ScriptedGate:
    """Something that a request waits at, for another one that the script may not have."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self._is_open = False

    def open(self) -> None:
        """Let the request go on."""
        self._is_open = True

    async def wait(self, seconds: float | None = None) -> None:
        """Let the time go by, unless it is open."""
        if self._is_open:
            return
        if seconds is None:
            raise AssertionError("a request would wait for ever for one that does not end")
        await self._engine.sleep(seconds)
