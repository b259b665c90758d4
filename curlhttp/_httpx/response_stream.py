"""The body of a response, which httpx reads piece by piece or closes."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator

from curlhttp._httpx.request import Event, Trace, make_body_events
from curlhttp._httpx.settings import Library, RequestLike
from curlhttp._runtime.engine import Incoming
from curlhttp._runtime.run import run_sync
from curlhttp.exceptions import RequestException


async def send_events(trace: Trace, events: list[Event], *, is_async: bool) -> None:
    """Call the function of the trace extension for each event.

    Args:
        trace: the function.
        events: in their order.
        is_async: whether it must be a coroutine function, or a plain one.

    Raises:
        TypeError: it is of the other kind.
    """
    for name, info in events:
        result = trace(name, info)
        if inspect.isawaitable(result) is not is_async:
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(f"the trace function must {'' if is_async else 'not '}be async here")
        if is_async:
            await result  # type: ignore[misc]  # isawaitable() was checked above


class ResponseStream:
    """Read a body from an engine, only when the caller reads it.

    A stream that is garbage-collected unread releases its connection.

    Args:
        incoming: the response.
        owner: the transport, kept alive so that its engine stays open.
        library: its errors are raised.
        request: the library's request.
    """

    is_async = False

    @classmethod
    def derive(cls, base: type[object]) -> type[ResponseStream]:
        """Return a subclass that is also one of a library's own stream classes.

        Args:
            base: SyncByteStream or AsyncByteStream, because the library's clients check for it.
        """
        return type(cls.__name__, (cls, base), {})

    def __init__(
        self,
        incoming: Incoming,
        owner: object,
        library: Library,
        request: RequestLike,
    ) -> None:
        self._incoming: Incoming | None = incoming
        self._owner = owner
        self._library = library
        self._request = request
        self._was_closed = False
        self._trace: Trace | None = None
        self._version: object = None

    def trace(self, trace: Trace, version: object) -> None:
        """Call a trace function at the end of the body.

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
                raise self._library.module.StreamClosed
            return b""
        try:
            piece = await incoming.read()
        except RequestException as error:
            self._incoming = None  # the engine has released it
            await self._trace_end(error)
            raise self._library.make_error(error, self._request) from error
        except BaseException:
            self._incoming = None
            raise
        if not piece:
            self._incoming = None
            await self._trace_end(None)
        return piece

    async def _trace_end(self, error: BaseException | None) -> None:
        trace, self._trace = self._trace, None
        if trace is not None:
            await send_events(
                trace, make_body_events(self._version, self._request, error), is_async=self.is_async
            )

    async def _close(self) -> None:
        incoming, self._incoming = self._incoming, None
        if incoming is None:
            return
        self._was_closed = True
        close = getattr(incoming, "aclose", None)
        if close is None:
            incoming.abort()
        else:
            await close()
        await self._trace_end(None)

    def __del__(self) -> None:
        incoming = getattr(self, "_incoming", None)
        if incoming is not None:
            self._incoming = None  # another finalizer may keep the stream, and close it
            incoming.abort_from_finalizer()


class BlockingResponseStream(ResponseStream):
    """A body for `for`."""

    def __iter__(self) -> Iterator[bytes]:
        while piece := run_sync(self._read):
            yield piece

    def close(self) -> None:
        """Discard the rest; this closes the connection, unless all of the body has arrived."""
        run_sync(self._close)


class AsyncResponseStream(ResponseStream):
    """A body for `async for`. Not a generator, because one left early needs a loop to close it."""

    is_async = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._read()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """Discard the rest; this closes the connection, unless all of the body has arrived."""
        await self._close()
