"""A scripted engine: it returns responses from a list, and its clock is a number.

`Answer` and `Fault` are the steps of a script, and `Sent` records a request for assertions.
"""

from __future__ import annotations

import copy
import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from errno import ECONNREFUSED
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast
from urllib.parse import parse_qsl

from curlhttp._engine.engine import AttemptResult, HedgePlan, Runtime
from curlhttp._models.body import read_whole
from curlhttp._models.errors import client_closed, read_timeout_error
from curlhttp._models.headers import Headers
from curlhttp._models.request import KEEP_CODED, ClientRequest
from curlhttp._models.response import Head, Response, has_body
from curlhttp._models.timings import Timings, add_waits
from curlhttp.exceptions import (
    ConnectionError,
    ConnectTimeout,
    DeadlineExceeded,
    RequestException,
    ResponseTooLarge,
    SSLError,
    WriteTimeout,
)

if TYPE_CHECKING:
    from curlhttp._models.inputs import JSON, HeadersInput

# --- Recorded requests, for assertions ---


class Sent(NamedTuple):
    """One attempt, as the engine received it.

    Attributes:
        at: when it was sent, in seconds on the engine's clock.
        method: such as "GET".
        url: without user name and password.
        headers: a copy of its headers.
        body: the part of the body that was read; b"" without a body.
        arrived: whether any byte of the request left this machine, according to the script.
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
        """Return the parameters of the query; a repeated name has a list of values."""
        return parse_fields(self.url.partition("#")[0].partition("?")[2])

    @property
    def form(self) -> dict[str, str | list[str]]:
        """Return the fields of a form (application/x-www-form-urlencoded), likewise."""
        return parse_fields(self.text)

    def json(self) -> Any:  # Any: as of json.loads
        """Return the body read as JSON.

        Raises:
            ValueError: the body is not JSON.
        """
        return json.loads(self.body)


def parse_fields(text: str) -> dict[str, str | list[str]]:
    """Return the fields of a query or form; a repeated name has a list of values."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(text, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


# --- The steps of a script: responses and failures ---

_BYTES = (bytes, bytearray, memoryview)


@dataclass(frozen=True, slots=True)
class Answer:
    """Respond to a request.

    If a delay is longer than a timeout of the request, the request fails with that timeout, on the
    engine's clock.

    Args:
        status_code: three digits.
        headers: a mapping or pairs.
        content: the body, a file, or an iterable of the pieces in which a streamed response returns
            the body; str is sent as UTF-8. Files and iterators are read now, to their end, so that
            each request that gets this response gets all of it.
        json: the body as JSON, instead of content; None for no JSON body.
        delay: seconds until the head is received; math.inf for a server that never responds.
        pace: seconds before each piece of the body.
        error: raised after the content, as if the connection broke there; None for a complete body.

    Raises:
        TypeError: you passed both content and json, or content is none of these.
    """

    status_code: int = 200
    headers: HeadersInput | None = None
    content: bytes | str | Iterable[bytes] = b""
    delay: float = 0.0
    pace: float = 0.0
    error: RequestException | None = None
    json: JSON = None

    def __post_init__(self) -> None:
        if self.json is not None and self.content:
            raise TypeError("content cannot be combined with json")
        object.__setattr__(self, "content", _read_content(self.content))
        if isinstance(self.headers, Iterator):
            object.__setattr__(self, "headers", tuple(self.headers))

    @property
    def all_headers(self) -> Headers:
        """Return the headers, with a Content-Type if the body is JSON."""
        headers = Headers(self.headers)
        if self.json is not None:
            headers.setdefault("Content-Type", "application/json")
        return headers

    @property
    def pieces(self) -> list[bytes]:
        """Return the pieces of the body, without empty ones."""
        if self.json is not None:
            return [json.dumps(self.json).encode()]
        content = cast("bytes | tuple[bytes, ...]", self.content)
        return [piece for piece in ([content] if isinstance(content, bytes) else content) if piece]


def _read_content(content: object) -> bytes | tuple[bytes, ...]:
    """Return a body, or its pieces."""
    if isinstance(content, (str, *_BYTES)):
        return _to_bytes(content)
    read = getattr(content, "read", None)
    if read is not None:
        return _to_bytes(read())
    if isinstance(content, Iterable) and not isinstance(content, Mapping):
        return tuple(map(_to_bytes, content))
    raise TypeError(
        f"content must be bytes, str, a file or an iterable of bytes, not {type(content).__name__}"
    )


def _to_bytes(piece: object) -> bytes:
    if isinstance(piece, str):
        return piece.encode()
    if isinstance(piece, _BYTES):
        return bytes(piece)
    raise TypeError(f"the pieces of content must be bytes, not {type(piece).__name__}")


@dataclass(frozen=True, slots=True)
class Fault:
    """Fail a request.

    Args:
        error: a copy of it is raised, with the request set. If its request_sent is False, the
            request has not arrived; see `Sent.arrived`.
        delay: seconds until it fails; math.inf for the request's connect timeout or, with a
            WriteTimeout, for its write timeout.
    """

    error: RequestException
    delay: float = 0.0


Step: TypeAlias = Answer | Fault | RequestException | int
"""One step of a script, or what a function returns for a request; an int is a status code."""

Script: TypeAlias = "Iterable[Step] | Callable[[ClientRequest], Step]"


def to_step(step: Step) -> Answer | Fault:
    """Return the step for a status or an exception.

    Raises:
        TypeError: it is none of the kinds of steps.
    """
    if isinstance(step, int):
        return Answer(step)
    if isinstance(step, RequestException):
        return Fault(step)
    if not isinstance(step, (Answer, Fault)):
        raise TypeError(f"a step is an Answer, a Fault, a RequestException or a status: {step!r}")
    return step


def refused() -> Fault:
    """Return a refused connection: the request is not sent."""
    error = ConnectionError("the connection was refused", curl_code=7)
    error.errno = ECONNREFUSED
    return Fault(error)


def unresolved() -> Fault:
    """Return a host name that cannot be resolved: the request is not sent."""
    return Fault(ConnectionError("the host name could not be resolved", curl_code=6))


def unreachable() -> Fault:
    """Return a host that is silent until the connect timeout: the request is not sent."""
    return Fault(ConnectTimeout("no connection in time", curl_code=28), delay=math.inf)


def reset() -> Fault:
    """Return a connection that breaks before the response: the request may have been processed."""
    error = ConnectionError(
        "the connection broke before the response was complete", curl_code=56, request_sent=True
    )
    return Fault(error)


def stream_refused() -> Fault:
    """Return HTTP/2's REFUSED_STREAM: the request was sent, but not processed."""
    error = ConnectionError(
        "the server refused the request unprocessed", curl_code=42, request_sent=True
    )
    error.refused = True
    return Fault(error)


def untrusted() -> Fault:
    """Return an untrusted certificate: the request is not sent."""
    error = SSLError("TLS failed; check the certificate", curl_code=60)
    error.tls_failure = "untrusted"
    return Fault(error)


def silent() -> Answer:
    """Return a server that accepts the request and is silent until the read timeout."""
    return Answer(delay=math.inf)


def unread() -> Fault:
    """Return a server that does not read the body, until the write timeout.

    If the request has no body or no write timeout, the server is silent until the read timeout.
    """
    error = WriteTimeout("no byte of the body was sent in time", curl_code=28, request_sent=True)
    return Fault(error, delay=math.inf)


# --- Attempts: how long each takes, how it ends, and which one of a hedge wins ---
#
# Computed in advance, because only the script decides it; the engine then moves its clock.


class ScriptedAttempt:
    """One attempt, up to its head.

    Attributes:
        request: the request of this attempt.
        step: the step of the script.
        started: when it was sent; all times are seconds on the engine's clock.
        head_at: when its head is received, or when it fails.
        error: raised instead of its head, or None.
        ends_at: when it ends in a hedge: with its body, unless that is streamed.
        body_error: raised while its body is read, or None.
    """

    def __init__(self, request: ClientRequest, step: Answer | Fault, started: float) -> None:
        self.request = request
        self.step = step
        self.started = started
        if isinstance(step, Answer):
            seconds, self.error = apply_timeouts(request, step.delay, started)
        else:
            delay, was_sent = step.delay, step.error.request_sent
            sends = isinstance(step.error, WriteTimeout) and math.isinf(delay)
            if sends:
                delay = (request.body and request.timeout.write) or math.inf
            elif math.isinf(delay):
                delay = request.timeout.connect or math.inf
            # The read timeout does not run while the write timeout does.
            waits = was_sent and not (sends and delay < math.inf)
            seconds, late = apply_timeouts(
                request, delay, started, was_sent=was_sent, waits_for_response=waits
            )
            self.error = late or copy_error(step.error, request)
        self.head_at = self.ends_at = started + seconds
        self.body_error: RequestException | None = None
        if isinstance(step, Answer) and self.error is None and not request.stream:
            self._read(step)

    def _read(self, answer: Answer) -> None:
        self.body_error = answer.error
        for _ in _pieces(self.request, answer):
            seconds, late = apply_timeouts(self.request, answer.pace, self.ends_at)
            self.ends_at += seconds
            if late is not None:
                self.body_error = late
                return

    @property
    def outcome(self) -> Response | RequestException:
        """Return the response without its body, or the error."""
        error = self.error or self.body_error
        if error is not None:
            return error
        assert isinstance(self.step, Answer)
        return Response.of(self.request, self.step.status_code, headers=self.step.all_headers)

    def pop_error(self) -> RequestException:
        """Return the error to raise and drop it here, because its traceback refers to this."""
        error, self.error = self.error, None
        assert error is not None
        return error


def apply_timeouts(
    request: ClientRequest,
    seconds: float,
    now: float,
    *,
    was_sent: bool = True,
    waits_for_response: bool = True,
) -> tuple[float, RequestException | None]:
    """Return how long a delay lasts, and the error if a timeout ends it.

    Args:
        request: its timeouts apply.
        seconds: the delay.
        now: when the delay begins.
        was_sent: the error's `request_sent`.
        waits_for_response: whether the read timeout applies.

    Raises:
        AssertionError: the delay is infinite and no timeout applies.
    """
    read = request.timeout.read if waits_for_response else None
    silence = math.inf if read is None else read
    left = math.inf if request.deadline is None else max(0.0, request.deadline - now)
    limit = min(silence, left)
    if seconds <= limit and not math.isinf(seconds):
        return seconds, None
    if math.isinf(limit):
        raise AssertionError(f"{request} would wait forever: it has no timeout")
    error: RequestException
    if left <= silence:
        error = DeadlineExceeded(
            f"{request}: the total timeout of {request.timeout.total} s ran out",
            request=request,
            curl_code=28,
        )
    else:
        error = read_timeout_error(request, has_head=False)
    error.request_sent = was_sent
    return limit, error


def copy_error(
    error: RequestException, request: ClientRequest, was_sent: bool = False
) -> RequestException:
    """Return a copy of an error for one attempt, because raising it sets its traceback."""
    clone = copy.copy(error)
    clone.errno = error.errno  # which copy() leaves out
    clone.request = request
    clone.request_sent = clone.request_sent or was_sent
    return clone


def _pieces(request: ClientRequest, answer: Answer) -> list[bytes]:
    return answer.pieces if has_body(request.method, answer.status_code) else []


class ScriptedIncoming:
    """A response whose head was received and whose body was not read yet.

    Args:
        request: the request that it answers.
        answer: the step of the script.
        seconds: the time until its head was received.
        engine: has the clock, and counts what is aborted.
    """

    def __init__(
        self, request: ClientRequest, answer: Answer, seconds: float, engine: ScriptedEngine
    ) -> None:
        made = Response.of(request, answer.status_code, headers=answer.all_headers)
        self.request = request
        self._engine = engine
        self.head: Head = made._head
        self.pieces: list[bytes] = _pieces(request, answer)
        self.error: RequestException | None = answer.error
        self.pace: float = answer.pace
        self.size = 0
        self.done = False  # because reading may take time on the engine's clock
        self._seconds = seconds

    def timings(self) -> Timings:
        """Return the time until the head was received, on the engine's clock."""
        times = Timings(0.0, 0.0, 0.0, 0.0, self._seconds, self._seconds, False, None)
        return add_waits(times, self.request)

    def certificate(self) -> None:
        """Return None, because there was no TLS."""

    async def read(self) -> bytes:
        """Return the next piece of the body, b"" at its end.

        Raises:
            RequestException: the body breaks off, is too large, or a timeout ended it.
        """
        if not self.pieces:
            if self.error is not None:
                raise copy_error(self.error, self.request, was_sent=True)
            return b""
        seconds, error = apply_timeouts(self.request, self.pace, self._engine.now())
        await self._engine._wait(seconds)
        if error is not None:
            try:
                raise error
            finally:
                del error  # to break the reference cycle with its traceback
        piece = self.pieces.pop(0)
        self.size += len(piece)
        limit = self.request.max_response_size
        if limit is not None and self.size > limit:
            raise ResponseTooLarge(
                f"the response body is larger than max_response_size={limit} bytes",
                request=self.request,
                request_sent=True,
            )
        return piece

    def abort(self) -> None:
        """Close the response before its end."""
        self._engine.aborted += 1
        self.pieces.clear()

    abort_from_finalizer = abort


class ScriptedRace:
    """The attempts of one hedged request.

    Args:
        first: the first attempt.
        plan: when to send further attempts, see _flow/hedge.py.
    """

    def __init__(self, first: ScriptedAttempt, plan: HedgePlan) -> None:
        self._first = first
        self._plan = plan
        self._left = plan.most
        self._running = [first]
        self._latest = first.started

    @property
    def winner(self) -> ScriptedAttempt:
        """Return the attempt whose outcome is returned or raised."""
        return min(self._running, key=lambda attempt: attempt.ends_at)

    def due(self) -> float | None:
        """Return when the next attempt is due, None for never; drop those that fail before."""
        after = self._plan.after
        while True:
            due = self._latest + after if self._left and after is not None else math.inf
            attempt = self.winner
            if due < attempt.ends_at:
                if not any(each.error is None and each.head_at <= due for each in self._running):
                    return due
                self._left = 0  # a head was received, and a slow body needs no other attempt
                continue
            if len(self._running) == 1 or self._is_good(attempt):
                return None
            self._running.remove(attempt)
            self._drop(attempt, attempt.outcome, attempt.ends_at)

    def add(self, attempt: ScriptedAttempt | None) -> None:
        """Add the next attempt; None if there are no more."""
        if attempt is None:
            self._left = 0
            return
        self._left -= 1
        self._latest = attempt.started
        self._running.append(attempt)

    def cancel_others(self) -> int:
        """Cancel all attempts but the winner, and return how many there were."""
        first, winner = self._first, self.winner
        self._plan.won(winner.request)
        if first in self._running and (first is not winner or first.error is None):
            self._plan.timed(min(first.head_at, winner.ends_at) - first.started)
        others = [attempt for attempt in self._running if attempt is not winner]
        for attempt in others:
            self._drop(attempt, None, winner.ends_at)
        return len(others)

    def _is_good(self, attempt: ScriptedAttempt) -> bool:
        outcome = attempt.outcome
        return isinstance(outcome, Response) and self._plan.is_good(outcome.status_code)

    def _drop(self, attempt: ScriptedAttempt, result: AttemptResult, now: float) -> None:
        was_sent = isinstance(attempt.step, Answer) or attempt.step.error.request_sent
        self._plan.dropped(attempt.request, result, now - attempt.started, was_sent)


class ScriptedEngine:
    """Return responses from a script: `Client(transport=ScriptedEngine([...]))`.

    Only delays in the script, waits of the client, and `advance` move the clock. All requests share
    it, even across threads and tasks: the wait of one moves it for all, and no request ever waits
    for another.

    Args:
        script: steps, one per attempt: an Answer, a Fault, an exception, or a status code; or a
            function that returns the step for a ClientRequest.
        now: the start of the clock, in monotonic seconds.
        wall: the time of day at that moment, in seconds since the epoch.

    Attributes:
        sent: a Sent for each attempt, oldest first.
        sleeps: the waits of the client, in seconds each.
        aborted: how many responses were closed before their end.
        cancelled: how many attempts of hedges were cancelled.
    """

    def __init__(self, script: Script, *, now: float = 0.0, wall: float = 1_750_000_000.0) -> None:
        self.sent: list[Sent] = []
        self.sleeps: list[float] = []
        self.aborted: int = 0
        self.cancelled: int = 0
        self._steps: Iterator[Step] | None = None if callable(script) else iter(script)
        self._choose: Callable[[ClientRequest], Step] | None = script if callable(script) else None
        self._now = now
        self._epoch = wall - now
        self._lock = threading.Lock()
        self._is_closed = False

    # the clock

    def now(self) -> float:
        """Return the time on the clock, in monotonic seconds."""
        return self._now

    def wall(self) -> float:
        """Return the time of day, in seconds since the epoch."""
        return self._epoch + self._now

    def advance(self, seconds: float) -> None:
        """Move the clock forward by some seconds."""
        with self._lock:
            self._now += seconds

    async def sleep(self, seconds: float) -> None:
        """Move the clock forward and record the wait in `sleeps`."""
        self.sleeps.append(seconds)
        self.advance(seconds)

    @property
    def runtime(self) -> Runtime:
        """Return the time of the script, and waits that take no time."""
        return Runtime(self.now, self.wall, self.sleep, partial(_ScriptedWaiter, self))

    # exchanges

    async def perform(self, request: ClientRequest, plan: HedgePlan | None = None) -> Response:
        """Play the next step and return the response with its body in memory.

        Args:
            request: the request.
            plan: when to send further attempts of a hedge, which are steps of the script as well;
                None without a hedge.

        Raises:
            RequestException: the step is a failure, or a timeout ended it.
            AssertionError: the script has no step left.
        """
        incoming = await self.open(request, plan)
        pieces = []
        while piece := await incoming.read():
            pieces.append(piece)
        request = incoming.request  # of a hedge, the winner's
        response = Response(request, incoming.head, b"".join(pieces), incoming.timings())
        self._decode(response, request)
        return response

    async def open(self, request: ClientRequest, plan: HedgePlan | None = None) -> ScriptedIncoming:
        """Play the next step up to the head of the response.

        Args:
            request: see perform.
            plan: see perform.
        """
        first = await self._begin(request)
        attempt = first if plan is None else await self._race(first, plan)
        await self._wait_until(attempt.head_at)
        if attempt.error is not None:
            raise attempt.pop_error()
        assert isinstance(attempt.step, Answer)
        seconds = attempt.head_at - attempt.started
        return ScriptedIncoming(attempt.request, attempt.step, seconds, self)

    async def _begin(self, request: ClientRequest) -> ScriptedAttempt:
        if self._is_closed:
            raise client_closed(request)
        started = self._now
        step = self._next(request)
        arrives = isinstance(step, Answer) or step.error.request_sent
        body = await read_whole(request.body) if arrives else b""
        request.request_identity_of_range()
        headers = request.headers.copy()
        self.sent.append(Sent(started, request.method, str(request.url), headers, body, arrives))
        return ScriptedAttempt(request, step, started)

    async def _race(self, first: ScriptedAttempt, plan: HedgePlan) -> ScriptedAttempt:
        """Return the attempt that wins, and cancel the others."""
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

    def close(self) -> None:
        """Make every further request raise ClientClosed."""
        self._is_closed = True

    # the script

    def _next(self, request: ClientRequest) -> Answer | Fault:
        with self._lock:
            choose = self._choose or self._next_in_turn
            return to_step(choose(request))

    def _next_in_turn(self, request: ClientRequest) -> Step:
        assert self._steps is not None
        for step in self._steps:
            return step
        raise AssertionError(
            f"the script has no step left for {request}, after {len(self.sent)} attempts"
        )

    def _decode(self, response: Response, request: ClientRequest) -> None:
        if not (request.decode and response._content):
            return
        if request.decode == KEEP_CODED:
            response._coded = response._content
        try:
            limit = request.max_response_size
            response._content = response._decode(response._content, limit)
        except RequestException as error:
            error.request, error.response, error.request_sent = request, response, True
            raise


class _ScriptedWaiter:
    """Let a request wait for another one, which cannot happen later: the clock is the script's."""

    def __init__(self, engine: ScriptedEngine) -> None:
        self._engine = engine
        self._was_woken = False

    def wake(self) -> None:
        """Let the request continue."""
        self._was_woken = True

    async def wait(self, seconds: float | None = None) -> None:
        """Move the clock forward, unless the waiter was woken."""
        if self._was_woken:
            return
        if seconds is None:
            raise AssertionError("a request would wait forever for one that does not end")
        await self._engine.sleep(seconds)
