"""Engines whose attempts are traced: around those of one client, or of all clients.

Also the metric http.client.open_connections, as the engines count it.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from typing import Protocol, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
from opentelemetry.semconv.attributes import server_attributes

from curlhttp._engine.engine import (
    ByteStream,
    Engine,
    Exchange,
    HedgePlan,
    Incoming,
    Waiter,
    connector,
)
from curlhttp._engine.network import NetworkOverride, Waits
from curlhttp._flow.attempt_middleware import around_each
from curlhttp._models.request import Request
from curlhttp._models.response import Head, Response
from curlhttp._models.timings import Timings, ensure_numbered
from curlhttp.otel._tracing import TracedAttempt, Tracing

__all__ = ["ClientTracing", "NetworkTracing", "observe_connections"]


# --- A connection for another protocol, up to the answer to the request that asked for it (101) ---

_END_OF_HEAD = re.compile(rb"\r?\n\r?\n").search


class TracedStream:
    """A stream that tells an attempt of its answer; who reads it bounds what is read for that.

    Args:
        stream: the connection.
        under: the attempt, which ends with its answer.
    """

    def __init__(self, stream: ByteStream, under: TracedAttempt) -> None:
        self._stream = stream
        self._under: TracedAttempt | None = under
        self._head = b""
        self.write = stream.write
        self.drain = stream.drain
        self.unsent = stream.unsent
        self.timings: Callable[[], Timings] = stream.timings
        self.is_plain: bool = getattr(stream, "is_plain", False)

    @property
    def descriptor(self) -> int:
        """Return the socket below, -1 where there is none."""
        return getattr(self._stream, "descriptor", -1)

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes; see ByteStream."""
        piece = await self._stream.receive(seconds)
        if self._under is not None:
            self._look_at(piece, self._under)
        return piece

    def receive_now(self) -> bytes | None:
        """Return what `receive` would, None where it would have to wait."""
        return self._stream.receive_now()

    def _look_at(self, piece: bytes | None, under: TracedAttempt) -> None:
        self._head += piece or b""
        while (end := _END_OF_HEAD(self._head)) is not None:
            head, self._head = Head(self._head[: end.end()]), self._head[end.end() :]
            if head.status_code >= 200 or head.status_code == 101:
                self._under, self._head = None, b""
                under.answer(head, self._stream.timings())
                return

    def abort(self, error: Exception | None = None) -> None:
        """End the connection at once; without an answer its attempt has failed."""
        under, self._under = self._under, None
        if under is not None:
            # Who gives up a handshake does so while it handles what ended that, such as garbage.
            under.fail(error or sys.exc_info()[1] or ConnectionError())
        self._stream.abort(error)


T = TypeVar("T")

# By id: requests on their way from a TracedEngine to the engine, which asks who stands in for it.
_passing: set[int] = set()


class TracedEngine:
    """An engine around another one, with a span for each attempt.

    Args:
        tracing: traces attempts.
        engine: sends them.
    """

    def __init__(self, tracing: Tracing, engine: Engine) -> None:
        self._tracing = tracing
        self._engine = engine
        self.read: Callable[[Incoming], Coroutine[object, object, bytes]] = engine.read
        self.abort: Callable[[Incoming], None] = engine.abort
        self.abort_from_finalizer: Callable[[Incoming], None] = engine.abort_from_finalizer
        self.sleep = engine.sleep
        self.now = engine.now
        self.wall = engine.wall
        self.make_waiter: Callable[[], Waiter] = engine.make_waiter
        self.close = engine.close

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Send the request, and return the response with its body in memory."""
        if not is_http_instrumentation_enabled():
            return await self._perform(request, plan)
        ensure_numbered(request)
        if plan is None:
            # A copy: the context is of this attempt alone.
            return await self._tracing.around(request.copy(), self._perform)
        return await around_each([self._tracing.around], self._perform)(request, plan)

    async def open(self, request: Request, plan: HedgePlan | None = None) -> Incoming:
        """Send the request, and return once the head of the response is in."""
        if not is_http_instrumentation_enabled():
            return await self._open(request, plan)
        ensure_numbered(request)
        if plan is None:
            return await self._tracing.around(request.copy(), self._open)
        # What comes of a race of streams is no response yet; the middleware takes both.
        last = cast("Exchange", self._open)
        raced = around_each([self._tracing.around], last)(request, plan)
        return cast("Incoming", await raced)

    async def connect(self, request: Request) -> ByteStream:
        """Open a connection for another protocol; its span ends with the answer to the request."""
        engine = connector(self._engine)
        if not is_http_instrumentation_enabled():
            return await self._past(request, engine.connect)
        ensure_numbered(request)
        # The head of this very request is what the caller writes on the connection.
        under = self._tracing.begin(request)
        try:
            stream = await self._past(request, engine.connect)
        except BaseException as error:
            under.fail(error)
            raise
        return TracedStream(stream, under)

    def _perform(self, request: Request, plan: HedgePlan | None = None) -> Awaitable[Response]:
        return self._past(request, self._engine.perform, plan)

    def _open(self, request: Request, plan: HedgePlan | None = None) -> Awaitable[Incoming]:
        return self._past(request, self._engine.open, plan)

    async def _past(
        self, request: Request, send: Callable[..., Awaitable[T]], plan: HedgePlan | None = None
    ) -> T:
        """Return what the engine gives, which is not to ask for a traced one once more."""
        _passing.add(id(request))
        try:
            return await (send(request) if plan is None else send(request, plan))
        finally:
            _passing.discard(id(request))


class NetworkTracing:
    """Trace the attempts of all engines that reach the network; see Watcher.

    Args:
        tracing: traces attempts.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def over(self, mocked: NetworkOverride | None) -> NetworkOverride:
        """Return the stand-in that has each request traced, and leaves it to a mock, if any."""
        return _TracedOverride(self._tracing, mocked)


class _TracedOverride:
    def __init__(self, tracing: Tracing, mocked: NetworkOverride | None) -> None:
        self._tracing = tracing
        self._mocked = mocked

    def engine_for(self, request: Request, engine: Waits) -> Engine | None:
        if id(request) not in _passing and is_http_instrumentation_enabled():
            return TracedEngine(self._tracing, cast("Engine", engine))
        return None if self._mocked is None else self._mocked.engine_for(request, engine)

    def skip(self, seconds: float) -> bool:
        return self._mocked is not None and self._mocked.skip(seconds)


class ClientTracing:
    """Trace the attempts of one client; see Around.

    Args:
        tracing: traces attempts.

    Attributes:
        engines: the client's.
    """

    def __init__(self, tracing: Tracing) -> None:
        self.engines: WeakSet[Engine] = WeakSet()
        self._tracing = tracing

    def found(self) -> list[Engine]:
        """Return the engines to count connections of."""
        return list(self.engines)

    def wrap(self, engine: Engine) -> Engine:
        """Return an engine whose attempts are traced."""
        self.engines.add(engine)
        return TracedEngine(self._tracing, engine)

    def close(self) -> None:
        """Do nothing: spans end with their attempts."""


# --- The metric http.client.open_connections: what the engines have open, as they count it ---

_NAME = "http.client.open_connections"  # still in development in the conventions
_STATE = "http.connection.state"


class _CountsConnections(Protocol):
    def open_connections(self) -> Counter[tuple[str, bool]]: ...


_Engines: TypeAlias = "Callable[[], Iterable[object]]"


class _Global:
    """Stands for the global MeterProvider, of whichever kind that is now."""


_GLOBAL = _Global()
# A meter keeps the callbacks of the first instrument of a name alone.
_observed: WeakKeyDictionary[MeterProvider | _Global, list[_Engines]] = WeakKeyDictionary()


def observe_connections(
    meter: Meter, provider: MeterProvider | None, engines: _Engines
) -> Callable[[], None]:
    """Have a meter ask how many connections are open; return what ends that.

    Args:
        meter: asks whenever it is read, in any thread.
        provider: gave the meter; None for the global one.
        engines: gives those that count theirs, among others.
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
        # An engine counts once, also if its client and all clients are observed.
        found = {id(each): each for engines in tuple(observed) for each in engines()}
        counts: Counter[tuple[str, bool]] = Counter()
        for engine in found.values():
            if hasattr(engine, "open_connections"):
                counts += cast("_CountsConnections", engine).open_connections()
        for (origin, is_used), number in counts.items():
            host, _, port = origin.partition("://")[2].rpartition(":")
            yield Observation(
                number,
                {
                    _STATE: "active" if is_used else "idle",
                    server_attributes.SERVER_ADDRESS: host.strip("[]"),
                    server_attributes.SERVER_PORT: int(port or 0),
                },
            )

    meter.create_observable_up_down_counter(
        _NAME,
        callbacks=[observe],
        unit="{connection}",
        description="Number of outbound HTTP connections that are active or idle on the client.",
    )
