"""What traces the attempts of one client, or of all engines.

Also the metric http.client.open_connections, from the counters of the engines.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
from opentelemetry.semconv.attributes import server_attributes

from curlhttp._features.attempt_numbers import ensure_numbered
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head, Response
from curlhttp._http.timings import Timings
from curlhttp._runtime.engine import (
    ByteStream,
    Engine,
    Incoming,
    Runtime,
    Send,
    to_connector,
)
from curlhttp._runtime.network import NetworkOverride, OverriddenEngine
from curlhttp._runtime.race import Race
from curlhttp.otel._tracing import TracedAttempt, Tracing

if TYPE_CHECKING:
    from curlhttp._runtime.engine import ReportingEngine

# --- A connection for another protocol, traced up to the response to its request (101) ---

_END_OF_HEAD = re.compile(rb"\r?\n\r?\n").search


class TracedStream:
    """A stream that ends its attempt with the head, whose size the caller limits.

    Args:
        stream: the connection.
        attempt: the attempt.
    """

    def __init__(self, stream: ByteStream, attempt: TracedAttempt) -> None:
        self._stream = stream
        self._attempt: TracedAttempt | None = attempt
        self._head = b""
        self.write = stream.write
        self.drain = stream.drain
        self.unsent = stream.unsent
        self.timings: Callable[[], Timings] = stream.timings
        self.is_plain: bool = getattr(stream, "is_plain", False)

    @property
    def descriptor(self) -> int:
        """Return the file descriptor of the socket, -1 without one."""
        return getattr(self._stream, "descriptor", -1)

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes; see ByteStream."""
        piece = await self._stream.receive(seconds)
        if self._attempt is not None:
            self._parse_head(piece, self._attempt)
        return piece

    def receive_now(self) -> bytes | None:
        """Return what `receive` would return, None if it would have to wait."""
        return self._stream.receive_now()

    def _parse_head(self, piece: bytes | None, attempt: TracedAttempt) -> None:
        self._head += piece or b""
        while (end := _END_OF_HEAD(self._head)) is not None:
            head, self._head = Head(self._head[: end.end()]), self._head[end.end() :]
            if head.status_code >= 200 or head.status_code == 101:
                self._attempt, self._head = None, b""
                attempt.end_with_head(head, self._stream.timings())
                return

    def abort(self, error: Exception | None = None) -> None:
        """Close the connection; if no response was received, the attempt has failed."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            # A handshake is given up inside an `except` block, for example for an invalid head.
            attempt.fail(error or sys.exc_info()[1] or ConnectionError())
        self._stream.abort(error)


T = TypeVar("T")

# Ids of requests that were passed on in a span. When their engine looks for an override, it must
# not get a TracedEngine.
_untraced: set[int] = set()


class TracedEngine:
    """Wrap an engine, with a span for each attempt.

    Args:
        tracing: traces attempts.
        engine: sends them.
    """

    returns_to_engine = True  # so that the engine does not count its attempts here

    def __init__(self, tracing: Tracing, engine: Engine) -> None:
        self._tracing = tracing
        self._engine = engine
        self.runtime: Runtime = engine.runtime
        self.close = engine.close

    async def perform(self, request: ClientRequest) -> Response:
        """Send a request and return the response with its body in memory."""
        return await self._tracing.trace(request, partial(_send_untraced, self._engine.perform))

    async def open(self, request: ClientRequest) -> Incoming:
        """Send a request and return once the head of the response is received."""
        return await self._tracing.trace(request, partial(_send_untraced, self._engine.open))

    async def connect(self, request: ClientRequest) -> ByteStream:
        """Open a connection for another protocol; the span ends with the response on it."""
        engine = to_connector(self._engine)
        if not is_http_instrumentation_enabled():
            return await _send_untraced(engine.connect, request)
        ensure_numbered(request)
        # Not a copy: the caller writes the head of this request on the connection.
        attempt = self._tracing.begin(request)
        try:
            stream = await _send_untraced(engine.connect, request)
        except BaseException as error:
            attempt.fail(error)
            raise
        return TracedStream(stream, attempt)


async def _send_untraced(
    send: Callable[[ClientRequest], Awaitable[T]], request: ClientRequest
) -> T:
    """Send a request with what is wrapped, so that it is not traced twice."""
    _untraced.add(id(request))
    try:
        return await send(request)
    finally:
        _untraced.discard(id(request))


class NetworkTracing:
    """Trace the attempts of all engines that reach the network; see Instrumentation.

    Args:
        tracing: traces attempts.
        mocked: responds to the requests, if there is a mock.
    """

    def __init__(self, tracing: Tracing, mocked: NetworkOverride | None = None) -> None:
        self._tracing = tracing
        self._mocked = mocked

    def wrap(self, mocked: NetworkOverride | None) -> NetworkOverride:
        """Return an override that traces each request; a mock, if there is one, responds to it."""
        return NetworkTracing(self._tracing, mocked)

    def engine_for(self, request: ClientRequest, engine: OverriddenEngine) -> Engine | None:
        if id(request) not in _untraced and is_http_instrumentation_enabled():
            return TracedEngine(self._tracing, cast("Engine", engine))
        return None if self._mocked is None else self._mocked.engine_for(request, engine)

    def skip(self, seconds: float) -> bool:
        return self._mocked is not None and self._mocked.skip(seconds)

    def make_race(self) -> Race | None:
        return None if self._mocked is None else self._mocked.make_race()


class ClientTracing:
    """Trace the attempts of one client (an AttemptWrapper).

    Args:
        tracing: traces attempts.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    async def around(self, request: ClientRequest, send: Send, runtime: Runtime) -> Response:
        """Send a request in a span."""
        return await self._tracing.trace(request, partial(_send_untraced, send))


# --- The metric http.client.open_connections ---

_METRIC = "http.client.open_connections"  # in development in the conventions
_STATE_ATTRIBUTE = "http.connection.state"


_Engines: TypeAlias = "Callable[[], Iterable[object]]"


class _Global:
    """Stand for the global MeterProvider, which may be replaced later."""


_GLOBAL = _Global()
# A meter only keeps the callbacks of the first instrument with a name.
_observed: WeakKeyDictionary[MeterProvider | _Global, list[_Engines]] = WeakKeyDictionary()


def observe_connections(
    meter: Meter, provider: MeterProvider | None, engines: _Engines
) -> Callable[[], None]:
    """Report the number of open connections to a meter; return a function that stops it.

    Args:
        meter: reads the number at any time, in any thread.
        provider: the provider of the meter; None for the global one.
        engines: returns objects; those that are engines count their connections.
    """
    key = _GLOBAL if provider is None else provider
    found = _observed.get(key)
    if found is None:
        found = _observed[key] = []
        _create(meter, found)
    found.append(engines)

    def end() -> None:
        found.remove(engines)

    return end


def _create(meter: Meter, observed: list[_Engines]) -> None:
    def observe(options: CallbackOptions) -> Iterator[Observation]:
        # Each engine counts once, even if both its client and all clients are observed.
        found = {id(each): each for engines in tuple(observed) for each in engines()}
        counts: Counter[tuple[str, bool]] = Counter()
        for engine in found.values():
            if hasattr(engine, "tell_state"):
                connections = cast("ReportingEngine", engine).tell_state().connections
                for (origin, _, is_used), number in connections.items():
                    counts[origin, is_used] += number
        for (origin, is_used), number in counts.items():
            host, _, port = origin.partition("://")[2].rpartition(":")
            yield Observation(
                number,
                {
                    _STATE_ATTRIBUTE: "active" if is_used else "idle",
                    server_attributes.SERVER_ADDRESS: host.strip("[]"),
                    server_attributes.SERVER_PORT: int(port or 0),
                },
            )

    meter.create_observable_up_down_counter(
        _METRIC,
        callbacks=[observe],
        unit="{connection}",
        description="Number of outbound HTTP connections that are active or idle on the client.",
    )
