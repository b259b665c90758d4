"""An engine around another one: it plays back what was recorded, and records the rest.

Which of the two a request gets is for the recorder to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from curlhttp._client.record.har import PlaybackEntry, RecordedExchange, RecordedResponse
from curlhttp._engine.engine import Engine, HedgePlan, Incoming, connector, reader_of
from curlhttp._models.body import BytesBody, read_whole
from curlhttp._models.errors import client_closed
from curlhttp._models.request import Request
from curlhttp._models.response import Head, Response
from curlhttp._models.timings import NO_TIME, Timings, make_timings
from curlhttp.exceptions import RequestException, ResponseTooLarge

if TYPE_CHECKING:
    from curlhttp._engine.engine import ByteStream, Gate

__all__ = ["RecordingEngine"]


class Recorder(Protocol):
    """What the engine asks for each request."""

    @property
    def records(self) -> bool:
        """Return whether requests are sent that cannot be played back."""

    def find(self, request: Request, body: bytes) -> PlaybackEntry | None:
        """Return what to play back, or None to record."""

    def begin(self) -> int:
        """Return the number of one more exchange."""

    def add(self, exchange: RecordedExchange) -> None:
        """Take down an exchange that has ended."""


class RecordingEngine:
    """An engine around another one."""

    def __init__(self, recorder: Recorder, engine: Engine) -> None:
        self._recorder = recorder
        self._engine = engine
        self.sleep = engine.sleep
        self.now = engine.now
        self.wall = engine.wall
        self.gate: Callable[[], Gate] = engine.gate
        self.close = engine.close

    async def connect(self, request: Request) -> ByteStream:
        """Open a connection for another protocol; of what goes over it nothing is recorded.

        Raises:
            AssertionError: the network is not to be touched.
        """
        if not self._recorder.records:
            raise AssertionError(
                f"{request}: this is not HTTP, of which alone there is a recording"
            )
        return await connector(self._engine).connect(request)

    def _find(self, request: Request, body: bytes) -> PlaybackEntry | None:
        if getattr(self._engine, "is_closed", False):  # the real one would say so itself
            raise client_closed(request)
        return self._recorder.find(request, body)

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Play the response back, or send the request and record what comes."""
        request, body = await _in_memory(request)
        played = self._find(request, body)
        if played is not None:
            content = b"".join(_bounded(played, request))
            return Response(request, played.head, content, NO_TIME)
        taking = _RecordingExchange(self._recorder, self._engine, request, body)
        try:
            response = await (
                self._engine.perform(request)
                if plan is None
                else self._engine.perform(request, plan)
            )
        except RequestException as error:
            taking.fail(error)
            raise
        taking.take(response)
        return response

    async def open(self, request: Request, plan: HedgePlan | None = None) -> Incoming:
        """Play the head of a response back, or send the request and record what comes."""
        request, body = await _in_memory(request)
        played = self._find(request, body)
        if played is not None:
            return _PlaybackIncoming(played.head, _bounded(played, request))
        taking = _RecordingExchange(self._recorder, self._engine, request, body)
        try:
            incoming = await (
                self._engine.open(request) if plan is None else self._engine.open(request, plan)
            )
        except RequestException as error:
            taking.fail(error)
            raise
        return _RecordingIncoming(taking, incoming, reader_of(incoming, self._engine))

    async def read(self, incoming: _PlaybackIncoming | _RecordingIncoming) -> bytes:
        """Return the next piece of the body."""
        return await incoming.read()

    def abort(self, incoming: _PlaybackIncoming | _RecordingIncoming) -> None:
        """Let go of a response; what was read of it is recorded."""
        incoming.abort()

    def abort_from_finalizer(self, incoming: _PlaybackIncoming | _RecordingIncoming) -> None:
        """Let go of a response from a finalizer."""
        incoming.abort(from_finalizer=True)


async def _in_memory(request: Request) -> tuple[Request, bytes]:
    """Return a request whose body is in memory, and the body."""
    body = request.body
    if body is None:
        return request, b""
    if body.data is not None:
        return request, body.data
    try:
        data = await read_whole(body)
    finally:
        body.close()
        await body.aclose()
    request = request.copy()
    request.body = BytesBody(data, body.content_type)
    return request, data


def _bounded(played: PlaybackEntry, request: Request) -> list[bytes]:
    limit = request.max_response_size
    if limit is not None and sum(map(len, played.pieces)) > limit:
        raise ResponseTooLarge(
            f"{request}: the response body is larger than max_response_size={limit} bytes",
            request=request,
            request_sent=True,
        )
    return [] if request.method == "HEAD" else played.pieces.copy()


class _RecordingExchange:
    """One exchange that is being recorded."""

    def __init__(self, recorder: Recorder, engine: Engine, request: Request, body: bytes) -> None:
        self.now = engine.now
        self._recorder = recorder
        self._request = request
        self._body = body
        self._number = recorder.begin()
        self._begun = engine.wall()

    def take(self, response: Response) -> None:
        """Take down a response with its body in memory."""
        request, timings = response.request, response.timings
        # The engine undoes the coding, but of redirects that are followed: nobody reads those.
        is_decoded = bool(request.decode) and not (
            request.follow_redirects and response.is_redirect
        )
        answer = RecordedResponse(response._head, response._content or b"", is_decoded)
        self.end(timings, timings.total - timings.first_byte, answer)

    def fail(self, error: RequestException) -> None:
        """Take down that no whole response came."""
        response = error.response
        answer = None
        if response is not None and response._content is not None:
            answer = RecordedResponse(
                response._head, response._content, is_decoded=False, is_whole=False
            )
        self.end(error.timings, 0.0, answer, error)

    def end(
        self,
        timings: Timings | None,
        receive: float,
        answer: RecordedResponse | None,
        error: RequestException | None = None,
    ) -> None:
        """Take down how the exchange ended."""
        exchange = RecordedExchange(
            self._number, self._request, self._body, self._begun, timings, receive, answer
        )
        if error is not None:
            exchange.error = f"{type(error).__name__}: {error}"
        self._recorder.add(exchange)


class _RecordingIncoming:
    """A response on the wire whose body is recorded as it is read."""

    def __init__(self, taking: _RecordingExchange, incoming: Incoming, engine: Engine) -> None:
        self._taking = taking
        head = incoming.head
        assert head is not None
        self.head: Head = head  # kept, as the engine may use its own for another request
        self._incoming = incoming
        self._engine = engine
        self._pieces: list[bytes] = []
        self._is_over = False
        times = incoming.timings()
        self._times = times if isinstance(times, Timings) else make_timings(times)
        self._since = taking.now()

    @property
    def done(self) -> bool:
        """Return whether reading the rest does not wait."""
        return self._incoming.done

    def timings(self) -> Timings:
        """Return where the time went up to the head."""
        return self._times

    def certificate(self) -> str | None:
        """Return the server's certificate as PEM, if this opened the connection."""
        return self._incoming.certificate()

    async def read(self) -> bytes:
        """Return the next piece of the body, and keep it."""
        try:
            piece = await self._engine.read(self._incoming)
        except RequestException as error:
            self._end(error)
            raise
        except BaseException:  # a cancellation: the engine has let go of it
            self._end()
            raise
        if piece:
            self._pieces.append(piece)
        else:
            self._end(is_whole=True)
        return piece

    def abort(self, *, from_finalizer: bool = False) -> None:
        """Let go of the rest of the body."""
        if from_finalizer:
            self._engine.abort_from_finalizer(self._incoming)
        else:
            self._engine.abort(self._incoming)
        self._end()

    def _end(self, error: RequestException | None = None, *, is_whole: bool = False) -> None:
        if self._is_over:
            return
        self._is_over = True
        sizes = tuple(map(len, self._pieces))
        answer = RecordedResponse(self.head, b"".join(self._pieces), False, sizes, is_whole)
        self._taking.end(self._times, self._taking.now() - self._since, answer, error)


class _PlaybackIncoming:
    """A response that is played back, piece by piece."""

    def __init__(self, head: Head, pieces: list[bytes]) -> None:
        self.head: Head = head
        self.done: bool = True
        self._pieces = pieces

    def timings(self) -> Timings:
        """Return that it took no time."""
        return NO_TIME

    def certificate(self) -> None:
        """Return None: there was no TLS."""

    async def read(self) -> bytes:
        """Return the next piece of the body."""
        return self._pieces.pop(0) if self._pieces else b""

    def abort(self, *, from_finalizer: bool = False) -> None:
        """Let go of the rest of the body."""
        self._pieces.clear()
