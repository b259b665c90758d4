"""Engines whose attempts are traced: around those of one client, or of every client there is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar, cast
from weakref import WeakSet

from opentelemetry.instrumentation.utils import is_http_instrumentation_enabled

from curlhttp._engine import ByteStream, Engine, Exchange, Gate, HedgePlan, Incoming, connector
from curlhttp._flow.attempt_middleware import around_each
from curlhttp._models.attempts import ensure_numbered
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._network import StandIn, Waits
from curlhttp._otel.stream import TracedStream
from curlhttp._otel.tracing import Tracing

__all__ = ["ClientWatch", "NetworkWatch", "TracedEngine"]

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
        self.gate: Callable[[], Gate] = engine.gate
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


class NetworkWatch:
    """Trace the attempts of all engines that reach the network; see Watcher.

    Args:
        tracing: traces attempts.
    """

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    def over(self, mocked: StandIn | None) -> StandIn:
        """Return the stand-in that has each request traced, and leaves it to a mock, if any."""
        return _Over(self._tracing, mocked)


class _Over:
    def __init__(self, tracing: Tracing, mocked: StandIn | None) -> None:
        self._tracing = tracing
        self._mocked = mocked

    def engine_for(self, request: Request, engine: Waits) -> Engine | None:
        if id(request) not in _passing and is_http_instrumentation_enabled():
            return TracedEngine(self._tracing, cast("Engine", engine))
        return None if self._mocked is None else self._mocked.engine_for(request, engine)

    def skip(self, seconds: float) -> bool:
        return self._mocked is not None and self._mocked.skip(seconds)


class ClientWatch:
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

    def around(self, engine: Engine) -> Engine:
        """Return an engine whose attempts are traced."""
        self.engines.add(engine)
        return TracedEngine(self._tracing, engine)

    def close(self) -> None:
        """Do nothing: spans end with their attempts."""
