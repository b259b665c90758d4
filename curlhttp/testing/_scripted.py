"""A scripted engine: it answers from a list, and its clock is a number. It decides nothing.

`Answer` and `Fault` are the steps of a script, and `Sent` is what the engine was asked to send.
"""

from __future__ import annotations

import copy
import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import parse_qsl

from curlhttp._engine.engine import AttemptResult, Engine, HedgePlan
from curlhttp._models.body import read_whole
from curlhttp._models.decoding import decode_content
from curlhttp._models.errors import client_closed
from curlhttp._models.headers import Headers
from curlhttp._models.request import KEEP_CODED, Request
from curlhttp._models.response import Head, Response, has_body
from curlhttp._models.timings import Timings
from curlhttp.exceptions import (
    ConnectionError,
    ConnectTimeout,
    DeadlineExceeded,
    ReadTimeout,
    RequestException,
    ResponseTooLarge,
    SSLError,
    WriteTimeout,
)

if TYPE_CHECKING:
    from curlhttp._models.inputs import JSON, HeadersInput

__all__ = [
    "Answer",
    "Fault",
    "Script",
    "ScriptedAttempt",
    "ScriptedEngine",
    "ScriptedIncoming",
    "ScriptedRace",
    "Sent",
    "Step",
    "as_step",
    "copy_of",
    "fields_of",
    "limited",
    "refused",
    "reset",
    "silent",
    "stream_refused",
    "unreachable",
    "unread",
    "unresolved",
    "untrusted",
]


# --- What an engine of tests was asked for, for assertions ---


class Sent(NamedTuple):
    """One attempt, as the engine got it.

    Attributes:
        at: the time on the engine's clock.
        method: such as "GET".
        url: without userinfo.
        headers: a copy of them.
        body: what of it was read, b"" when there is none.
        arrived: any byte of it left this machine, as far as the script says.
    """

    at: float
    method: str
    url: str
    headers: Headers
    body: bytes
    arrived: bool

    @property
    def text(self) -> str:
        """Return the body as UTF-8."""
        return self.body.decode()

    @property
    def params(self) -> dict[str, str | list[str]]:
        """Return the query; of a name that comes more than once, a list."""
        return fields_of(self.url.partition("#")[0].partition("?")[2])

    @property
    def form(self) -> dict[str, str | list[str]]:
        """Return the body of a form (application/x-www-form-urlencoded) likewise."""
        return fields_of(self.text)

    def json(self) -> Any:  # Any: what JSON holds
        """Return what the body holds as JSON.

        Raises:
            ValueError: it is no JSON.
        """
        return json.loads(self.body)


def fields_of(text: str) -> dict[str, str | list[str]]:
    """Return the fields of a query or form; of a name that comes more than once, a list."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


# --- What a script is made of: answers, and the ways in which there is none ---


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a request.

    What takes longer than the request's timeouts ends as they end it, on the engine's clock.

    Args:
        status_code: of three digits.
        headers: a mapping or pairs.
        content: the body, or its pieces as a streamed response gives them; str is sent as UTF-8.
        json: the body as JSON, in place of content; None is no body.
        delay: seconds until the head is in; math.inf for a server that never answers.
        pace: seconds before each piece of the body.
        error: what breaks the body off after the content.
    """

    status_code: int = 200
    headers: HeadersInput | None = None
    content: bytes | str | Sequence[bytes] = b""
    delay: float = 0.0
    pace: float = 0.0
    error: RequestException | None = None
    json: JSON = None

    def __post_init__(self) -> None:
        if self.json is not None and self.content:
            raise TypeError("content cannot go together with json")

    @property
    def all_headers(self) -> Headers:
        """Return the headers; with a Content-Type where the body is JSON and they have none."""
        headers = Headers(self.headers)
        if self.json is not None:
            headers.setdefault("Content-Type", "application/json")
        return headers

    @property
    def pieces(self) -> list[bytes]:
        """Return the body's pieces, none of them empty."""
        if self.json is not None:
            return [dumps(self.json).encode()]
        content = self.content.encode() if isinstance(self.content, str) else self.content
        return [piece for piece in ([content] if isinstance(content, bytes) else content) if piece]


@dataclass(frozen=True, slots=True)
class Fault:
    """Fail a request.

    Args:
        error: what is raised: a copy of it, with the request filled in. Its request_sent says
            whether the request left this machine: without that it is not among those that arrived.
        delay: seconds until then; math.inf for the time that it may take to connect or, with a
            WriteTimeout, to send.
    """

    error: RequestException
    delay: float = 0.0


Step: TypeAlias = "Answer | Fault | RequestException | int"
"""One step of a script; a number is the status of an answer without a body."""

Script: TypeAlias = "Iterable[Step] | Callable[[Request], Step]"


def as_step(step: Step) -> Answer | Fault:
    """Return the step that a number or an exception stands for.

    Raises:
        TypeError: it is no step.
    """
    if isinstance(step, int):
        return Answer(step)
    if isinstance(step, RequestException):
        return Fault(step)
    if not isinstance(step, (Answer, Fault)):
        raise TypeError(f"a step is an Answer, a Fault, a RequestException or a status: {step!r}")
    return step


def refused() -> Fault:
    """Return a connection that is refused: the request is not sent."""
    return Fault(ConnectionError("the connection was refused", curl_code=7))


def unresolved() -> Fault:
    """Return a host name that leads nowhere: the request is not sent."""
    return Fault(ConnectionError("the host name could not be resolved", curl_code=6))


def unreachable() -> Fault:
    """Return a host that does not react, until the connect timeout: the request is not sent."""
    return Fault(ConnectTimeout("no connection in time", curl_code=28), delay=math.inf)


def reset() -> Fault:
    """Return a connection that breaks before the answer: the request may have been processed."""
    broken = ConnectionError(
        "the connection broke before the response was complete", curl_code=56, request_sent=True
    )
    return Fault(broken)


def stream_refused() -> Fault:
    """Return HTTP/2's REFUSED_STREAM: the request was sent, and not processed."""
    error = ConnectionError(
        "the server refused the request unprocessed", curl_code=42, request_sent=True
    )
    error.refused = True
    return Fault(error)


def untrusted() -> Fault:
    """Return a certificate that does not hold: the request is not sent."""
    error = SSLError("TLS failed; check the certificate", curl_code=60)
    error.tls_failure = "untrusted"
    return Fault(error)


def silent() -> Answer:
    """Return a server that takes the request and never answers, until the read timeout."""
    return Answer(delay=math.inf)


def unread() -> Fault:
    """Return a server that stops reading the body, until the write timeout.

    Where the request has no body or no write timeout, it is silent until the read timeout.
    """
    error = WriteTimeout("no byte of the body went out in time", curl_code=28, request_sent=True)
    return Fault(error, delay=math.inf)


# --- What becomes of the attempts on a script: how long each takes, how it ends, which one wins ---
#
# Computed ahead, because nothing but the script has a say; the engine moves its clock accordingly.


class ScriptedAttempt:
    """One attempt, up to its head.

    Attributes:
        request: what was asked for.
        step: the step of the script.
        begun: when, on the engine's clock.
        ends: when its head is in, or it fails.
        error: what it fails with, or None.
        over: when a race counts it as ended: with its body, if that is not streamed.
        broken: what its body fails with, or None.
    """

    def __init__(self, request: Request, step: Answer | Fault, begun: float) -> None:
        self.request = request
        self.step = step
        self.begun = begun
        if isinstance(step, Answer):
            seconds, self.error = limited(request, step.delay, begun)
        else:
            delay, was_sent = step.delay, step.error.request_sent
            sends = isinstance(step.error, WriteTimeout) and math.isinf(delay)
            if sends:
                delay = (request.body and request.timeout.write) or math.inf
            elif math.isinf(delay):
                delay = request.timeout.connect or math.inf
            # As long as the write timeout counts, the read timeout does not.
            waits = was_sent and not (sends and delay < math.inf)
            seconds, late = limited(
                request, delay, begun, was_sent=was_sent, waits_for_answer=waits
            )
            self.error = late or copy_of(step.error, request)
        self.ends = self.over = begun + seconds
        self.broken: RequestException | None = None
        if isinstance(step, Answer) and self.error is None and not request.stream:
            self._read(step)

    def _read(self, answer: Answer) -> None:
        self.broken = answer.error
        for _ in _pieces(self.request, answer):
            seconds, late = limited(self.request, answer.pace, self.over)
            self.over += seconds
            if late is not None:
                self.broken = late
                return

    @property
    def outcome(self) -> Response | RequestException:
        """Return its response without the body, or its error."""
        failed = self.error or self.broken
        if failed is not None:
            return failed
        assert isinstance(self.step, Answer)
        answer = self.step
        return Response.of(self.request, answer.status_code, headers=answer.all_headers)

    def take_error(self) -> RequestException:
        """Return the error to raise, and forget it: its traceback will hold this attempt."""
        error, self.error = self.error, None
        assert error is not None
        return error


def limited(
    request: Request,
    seconds: float,
    now: float,
    *,
    was_sent: bool = True,
    waits_for_answer: bool = True,
) -> tuple[float, RequestException | None]:
    """Return how much of a delay its timeouts leave, and what they end it with.

    Args:
        request: whose timeouts.
        seconds: the delay.
        now: when it begins.
        was_sent: what the error says of the request.
        waits_for_answer: the read timeout counts.

    Raises:
        AssertionError: it would never end.
    """
    read = request.timeout.read if waits_for_answer else None
    silence = math.inf if read is None else read
    left = math.inf if request.deadline is None else max(0.0, request.deadline - now)
    limit = min(silence, left)
    if seconds <= limit and not math.isinf(seconds):
        return seconds, None
    if math.isinf(limit):
        raise AssertionError(f"{request} would wait for ever: no timeout")
    kind, what = (DeadlineExceeded, "total") if left <= silence else (ReadTimeout, "read timeout")
    return limit, kind(
        f"{request}: the {what} ran out",
        request=request,
        curl_code=28,
        request_sent=was_sent,
    )


def copy_of(error: RequestException, request: Request, was_sent: bool = False) -> RequestException:
    """Return an error for this attempt alone: it gets attributes and a traceback of its own."""
    twin = copy.copy(error)
    twin.request = request
    twin.request_sent = twin.request_sent or was_sent
    return twin


def _pieces(request: Request, answer: Answer) -> list[bytes]:
    return answer.pieces if has_body(request.method, answer.status_code) else []


class ScriptedIncoming:
    """A response on the wire, as far as there is one.

    Args:
        request: what was asked for.
        answer: the step of the script.
        seconds: what it took up to the head.
        engine: reads it.
    """

    def __init__(self, request: Request, answer: Answer, seconds: float, engine: Engine) -> None:
        made = Response.of(request, answer.status_code, headers=answer.all_headers)
        self.request = request
        self.engine = engine
        self.head: Head = made._head
        self.pieces: list[bytes] = _pieces(request, answer)
        self.error: RequestException | None = answer.error
        self.pace: float = answer.pace
        self.size = 0
        self.done = False  # reading may take time on the engine's clock
        self._seconds = seconds

    def timings(self) -> Timings:
        """Return the time to the head, as the engine's clock has it."""
        return Timings(0.0, 0.0, 0.0, 0.0, self._seconds, self._seconds, False, None)

    def certificate(self) -> None:
        """Return None: there was no TLS."""


class ScriptedRace:
    """The attempts of one hedged request.

    Args:
        first: the first attempt.
        plan: the hedge's, see _flow/hedge.py.
    """

    def __init__(self, first: ScriptedAttempt, plan: HedgePlan) -> None:
        self._first = first
        self._plan = plan
        self._left = plan.most
        self._running = [first]
        self._latest = first.begun

    @property
    def winner(self) -> ScriptedAttempt:
        """Return the attempt that surfaces."""
        return min(self._running, key=lambda attempt: attempt.over)

    def due(self) -> float | None:
        """Return when one more attempt is due, after those that end before; None for never."""
        after = self._plan.after
        while True:
            due = self._latest + after if self._left and after is not None else math.inf
            attempt = self.winner
            if due < attempt.over:
                if not any(each.error is None and each.ends <= due for each in self._running):
                    return due
                self._left = 0  # a slow body is no reason
                continue
            if len(self._running) == 1 or self._is_good(attempt):
                return None
            self._running.remove(attempt)
            self._drop(attempt, attempt.outcome, attempt.over)

    def add(self, attempt: ScriptedAttempt | None) -> None:
        """Take in one more attempt, or hear that there shall be none."""
        if attempt is None:
            self._left = 0
            return
        self._left -= 1
        self._latest = attempt.begun
        self._running.append(attempt)

    def cancel_others(self) -> int:
        """Cancel what runs concurrently with the winner, and return how many attempts that were."""
        first, winner = self._first, self.winner
        self._plan.won(winner.request)
        if first in self._running and (first is not winner or first.error is None):
            self._plan.timed(min(first.ends, winner.over) - first.begun)
        others = [attempt for attempt in self._running if attempt is not winner]
        for attempt in others:
            self._drop(attempt, None, winner.over)
        return len(others)

    def _is_good(self, attempt: ScriptedAttempt) -> bool:
        outcome = attempt.outcome
        return isinstance(outcome, Response) and self._plan.is_good(outcome.status_code)

    def _drop(self, attempt: ScriptedAttempt, result: AttemptResult, now: float) -> None:
        was_sent = isinstance(attempt.step, Answer) or attempt.step.error.request_sent
        self._plan.dropped(attempt.request, result, now - attempt.begun, was_sent)


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

    def make_waiter(self) -> _ScriptedWaiter:
        """Return a new waiter."""
        return _ScriptedWaiter(self)

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

    async def _begin(self, request: Request) -> ScriptedAttempt:
        if self._is_closed:
            raise client_closed(request)
        begun = self._now
        step = self._next(request)
        arrives = isinstance(step, Answer) or step.error.request_sent
        body = await read_whole(request.body) if arrives else b""
        headers = request.headers.copy()
        self.sent.append(Sent(begun, request.method, str(request.url), headers, body, arrives))
        return ScriptedAttempt(request, step, begun)

    async def _race(self, first: ScriptedAttempt, plan: HedgePlan) -> ScriptedAttempt:
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


class _ScriptedWaiter:
    """Something that a request waits at, for another one that the script may not have."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self._is_open = False

    def wake(self) -> None:
        """Let the request go on."""
        self._is_open = True

    async def wait(self, seconds: float | None = None) -> None:
        """Let the time go by, unless it is open."""
        if self._is_open:
            return
        if seconds is None:
            raise AssertionError("a request would wait for ever for one that does not end")
        await self._engine.sleep(seconds)
