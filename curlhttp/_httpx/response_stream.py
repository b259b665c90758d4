"""The body of a response that is still on the wire, for httpx to read or close."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from curlhttp._engine.engine import Engine, Incoming, get_reader
from curlhttp._engine.log import RequestLog
from curlhttp._engine.run import run_sync
from curlhttp._httpx.request import Event, Trace, body_events
from curlhttp._httpx.settings import Binding, RequestLike
from curlhttp._models.request import Request
from curlhttp.exceptions import RequestException

__all__ = ["AsyncWireStream", "BlockingWireStream", "WireStream", "stream_of", "tell", "watched"]


async def tell(trace: Trace, events: list[Event], *, awaits: bool) -> None:
    """Tell events to the function of the trace extension.

    Args:
        trace: the function.
        events: in their order.
        awaits: it must be a coroutine function, else it must be none.

    Raises:
        TypeError: it is of the other kind.
    """
    for name, facts in events:
        result = trace(name, facts)
        if inspect.isawaitable(result) is not awaits:
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(f"the trace function must {'' if awaits else 'not '}be async here")
        if awaits:
            await result  # type: ignore[misc]  # as was just asked


class WireStream:
    """Read a body from an engine; nothing of it is read ahead of the caller.

    A stream that is dropped unread gives its connection back when it is collected.

    Args:
        incoming: the response.
        engine: reads it.
        owner: is kept as long as the response, so that its engine is not closed before.
        binding: says which errors to raise.
        request: the library's request.
    """

    awaits = False

    def __init__(
        self,
        incoming: Incoming,
        engine: Engine,
        owner: object,
        binding: Binding,
        request: RequestLike,
    ) -> None:
        self._incoming: Incoming | None = incoming
        self._engine: Engine = get_reader(incoming, engine)
        self._owner = owner
        self._binding = binding
        self._request = request
        self._was_closed = False
        self._trace: Trace | None = None
        self._version: object = None

    def trace(self, trace: Trace, version: object) -> None:
        """Tell a function how the body ends.

        Args:
            trace: the function.
            version: the http_version of the response.
        """
        self._trace, self._version = trace, version

    async def _read(self) -> bytes:
        """Return the next piece, b"" at the end."""
        incoming = self._incoming
        if incoming is None:
            if self._was_closed:
                raise self._binding.module.StreamClosed
            return b""
        try:
            piece = await self._engine.read(incoming)
        except RequestException as error:
            self._incoming = None  # the engine let go of it
            await self._tell_end(error)
            raise self._binding.error_for(error, self._request) from error
        except BaseException:
            self._incoming = None
            raise
        if not piece:
            self._incoming = None
            await self._tell_end(None)
        return piece

    async def _tell_end(self, error: BaseException | None) -> None:
        trace, self._trace = self._trace, None
        if trace is not None:
            await tell(trace, body_events(self._version, self._request, error), awaits=self.awaits)

    async def _close(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is None:
            return None
        self._was_closed = True
        # What has come as a whole leaves its connection as good as it was.
        if incoming.done:
            try:
                while await self._engine.read(incoming):
                    pass
            except RequestException as error:
                return await self._tell_end(error)
        else:
            self._engine.abort(incoming)
        return await self._tell_end(None)

    def __del__(self) -> None:
        incoming = getattr(self, "_incoming", None)
        if incoming is not None:
            self._engine.abort_from_finalizer(incoming)


class BlockingWireStream(WireStream):
    """A body to be read in `for`."""

    def __iter__(self) -> Iterator[bytes]:
        while piece := run_sync(self._read):
            yield piece

    def close(self) -> None:
        """Give up the rest; its connection is closed unless all has come."""
        run_sync(self._close)


class AsyncWireStream(WireStream):
    """A body to be read in `async for`. No generator: one left early needs a loop to end."""

    awaits = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._read()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Give up the rest; its connection is closed unless all has come."""
        await self._close()


def stream_of(kind: type[WireStream], base: type[object]) -> type[WireStream]:
    """Return a kind of stream as one of a library's own.

    Args:
        kind: blocking or async.
        base: the library's SyncByteStream or AsyncByteStream, which its clients ask for.
    """
    return type(kind.__name__, (kind, base), {})


# --- Log what libcurl did for a request of httpx, which logs at INFO itself ---


async def watched(
    request: Request, engine: Engine, start: Callable[[Engine, Request], Awaitable[Incoming]]
) -> Incoming:
    """Return the response on its way, and log the attempts up to its head at DEBUG.

    Args:
        request: as the engine gets it.
        engine: sends it.
        start: has it sent, and gives the response.
    """
    with RequestLog(request):
        return await start(engine, request)
