"""A scripted engine: it returns responses from a list, and its clock is a number.

`Answer` and `Fault` are the steps of a script, and `Sent` records a request for assertions.
"""

from __future__ import annotations

import copy
import json
import math
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from errno import ECONNREFUSED
from functools import partial
from types import coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar, cast
from urllib.parse import parse_qsl

from curlhttp._http.body import read_whole
from curlhttp._http.errors import client_closed, read_timeout_error
from curlhttp._http.headers import Headers
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head, Response, has_body
from curlhttp._http.timings import Timings, add_waits
from curlhttp._runtime.engine import Runtime, decode_body
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
    from curlhttp._http.inputs import HeadersInput, JSONInput

A = TypeVar("A")

# --- Recorded requests, for assertions ---


Fields: TypeAlias = dict[str, Any]
"""Values by name: a str, or a list of them for a repeated name, which is why this is Any."""


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
    def params(self) -> Fields:
        """Return the parameters of the query; a str, or a list of them for a repeated name."""
        return parse_fields(self.url.partition("#")[0].partition("?")[2])

    @property
    def form(self) -> Fields:
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
    json: JSONInput = None

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


# --- Attempts: how long each takes until its head, and how it ends ---
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
        self.head_at = started + seconds

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


# --- The attempts of a hedge: coroutines that a script's clock continues in the order of time ---


class _ClockPause:
    """Awaited in a race until the clock is at a time."""

    def __init__(self, until: float) -> None:
        self.until = until

    def __await__(self) -> Generator[_ClockPause, None, None]:
        yield self


_stepping = threading.local()  # its `race` is the one whose coroutine this thread steps


async def pause_until(moment: float) -> bool:
    """In a race, let the other attempts run until a time; return whether that happened."""
    is_racing = getattr(_stepping, "race", None) is not None
    if is_racing:
        await _ClockPause(moment)
    return is_racing


class ScriptedRace:
    """Run the attempts of a request on a clock that only waits move.

    What they await for another reason is awaited in the task of the caller.

    Args:
        now: returns the time on the clock.
        wait_until: moves the clock to a time.
        on_cancel: called with the number of attempts that were cancelled.
    """

    def __init__(
        self,
        now: Callable[[], float],
        wait_until: Callable[[float], Awaitable[object]],
        on_cancel: Callable[[int], object] = id,
    ) -> None:
        self._now = now
        self._wait_until = wait_until
        self._on_cancel = on_cancel
        self._due: dict[Coroutine[object, object, None], float] = {}
        self._is_woken = False

    async def __aenter__(self) -> None:
        """Begin."""

    async def __aexit__(self, *exc: object) -> None:
        """Cancel the attempts that have not ended."""
        attempts = list(reversed(self._due))
        self._due.clear()
        self._on_cancel(len(attempts))
        for attempt in attempts:
            with suppress(GeneratorExit):
                await self._step(attempt, GeneratorExit())

    def start(self, call: Callable[[A], Awaitable[None]], argument: A) -> None:
        """Start an attempt at the present time."""
        self._due[cast("Coroutine[object, object, None]", call(argument))] = self._now()

    async def wait(self, seconds: float | None) -> None:
        """Wait until an attempt calls `wake`, or for so many seconds on the clock."""
        end = math.inf if seconds is None else self._now() + seconds
        while not self._is_woken:
            attempt = min(self._due, key=self._due.__getitem__, default=None)
            if attempt is None or self._due[attempt] > end:
                await self._wait_until(end)
                break
            await self._wait_until(self._due[attempt])
            await self._step(attempt)
        self._is_woken = False

    def wake(self) -> None:
        """End the wait."""
        self._is_woken = True

    @coroutine
    def _step(
        self, attempt: Coroutine[object, object, None], error: BaseException | None = None
    ) -> Generator[object, object, None]:
        """Continue an attempt until it waits for the clock, or ends."""
        received: object = None
        while True:
            _stepping.race = self
            try:
                found = attempt.send(received) if error is None else attempt.throw(error)
            except BaseException as raised:
                self._due.pop(attempt, None)
                if isinstance(raised, StopIteration):
                    return
                raise
            finally:
                _stepping.race = None
            if isinstance(found, _ClockPause):
                self._due[attempt] = found.until
                return
            received = error = None
            try:
                received = yield found
            except BaseException as raised:  # the caller was cancelled
                error = raised


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
        await self._wait(seconds)

    @property
    def runtime(self) -> Runtime:
        """Return the time of the script, and waits that take no time."""
        return Runtime(
            self.now, self.wall, self.sleep, partial(_ScriptedWaiter, self), self._make_race
        )

    def _make_race(self) -> ScriptedRace:
        return ScriptedRace(self.now, self._move_to, self._note_cancelled)

    def _note_cancelled(self, number: int) -> None:
        self.cancelled += number

    # exchanges

    async def perform(self, request: ClientRequest) -> Response:
        """Play the next step and return the response with its body in memory.

        Args:
            request: the request.

        Raises:
            RequestException: the step is a failure, or a timeout ended it.
            AssertionError: the script has no step left.
        """
        incoming = await self.open(request)
        pieces = []
        while piece := await incoming.read():
            pieces.append(piece)
        response = Response(request, incoming.head, b"".join(pieces), incoming.timings())
        if request.decode and response.content:
            decode_body(response, request)
        return response

    async def open(self, request: ClientRequest) -> ScriptedIncoming:
        """Play the next step up to the head of the response.

        Args:
            request: see perform.
        """
        attempt = await self._begin(request)
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

    async def _wait_until(self, moment: float) -> None:
        await pause_until(moment)
        await self._move_to(moment)

    async def _wait(self, seconds: float) -> None:
        if not await pause_until(self._now + seconds):
            self.advance(seconds)

    async def _move_to(self, moment: float) -> None:
        with self._lock:
            self._now = max(self._now, moment)

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
