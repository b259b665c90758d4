"""The event streams of both clients. Loaded by the first sse().

_features/sse/event_source.py reads events and reconnects.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from curlhttp._client.request_builder import check_options, check_raises
from curlhttp._features.sse.event_source import EventSource
from curlhttp._features.sse.policy import Reconnections
from curlhttp._http.errors import Unpicklable, check_number, closed_with_client
from curlhttp._http.headers import Headers
from curlhttp._http.request import RAISE_FOR_STATUS
from curlhttp._http.response import Response
from curlhttp._http.sse import ServerSentEvent
from curlhttp._http.unset import USE_CLIENT_DEFAULT
from curlhttp._runtime.run import run_sync

if TYPE_CHECKING:
    from curlhttp._client.base import BaseClient
    from curlhttp._client.options import RequestOptions
    from curlhttp._http.url import URL

# The standard sets the cache mode "no-store", for which Fetch adds this header field.
_HEADERS = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
_find_invalid = re.compile("[\0\r\n\ud800-\udfff]").search

Stream = TypeVar("Stream", bound="BaseEventStream")


def open_event_stream(
    kind: type[Stream],
    client: BaseClient,
    method: str,
    url: str | bytes | URL,
    options: RequestOptions,
    *,
    last_event_id: str | None,
    reconnect: bool | int,
    max_event_size: int | None,
) -> Stream:
    """Create a stream of class `kind`, which ends when its client closes; send nothing.

    The other arguments are those of Client.sse.
    """
    check_number("max_event_size", max_event_size, whole=True, unit="bytes", optional=True)
    if last_event_id is not None and not isinstance(last_event_id, str):
        raise TypeError(f"last_event_id must be a str, not {type(last_event_id).__name__}")
    if last_event_id and _find_invalid(last_event_id):
        raise ValueError("last_event_id must not contain a line end, a NUL or a lone surrogate")
    check_options(client, "sse", options)
    check_raises("sse", options)
    options["stream"] = True
    options["headers"] = Headers(_HEADERS).merged(options.get("headers"))
    # A stream has no end, so the size of each event is limited instead.
    if options.get("max_response_size", USE_CLIENT_DEFAULT) is USE_CLIENT_DEFAULT:
        options["max_response_size"] = None
    request = client.build_request(method, url, **options)
    # It raises itself, and keeps less of the body.
    request._extend(RAISE_FOR_STATUS, False)
    reconnections = Reconnections(request, reconnect)
    events = EventSource(
        lambda request: client._flow(request),  # looked up late, because it may be replaced
        client._runtime,
        client._chain.settings["hooks"],
        request,
        last_event_id or "",
        reconnections,
        max_event_size,
    )
    stream = kind(events)
    client._attach(stream)
    return stream


class BaseEventStream(Unpicklable):
    """The properties of both kinds of streams."""

    _why_not = "it holds a connection; pass on its events, which can be pickled"

    def __init__(self, events: EventSource) -> None:
        self._events = events

    @property
    def response(self) -> Response | None:
        """Return the response of the latest connection; None before the first."""
        return self._events.response

    @property
    def last_event_id(self) -> str:
        """Return the id of the last event, to continue from later; "" if there was none."""
        return self._events.last_event_id

    def _end_with_client(self) -> None:
        """End the stream with an error, unless it has ended."""
        self._events.fail(closed_with_client())


class EventStream(BaseEventStream):
    """The events of `Client.sse`: iterate over them in `with`."""

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> ServerSentEvent:
        event = self._events.get_ready_event()
        if event is None:
            event = run_sync(self._events.next_event)
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """End the stream, from any thread. A thread that waits for an event stops waiting."""
        self._events.close()

    def _end_with_client(self) -> None:
        """End the stream with an error, unless it has ended."""
        super()._end_with_client()
        self._events.close()  # so that a reading thread notices

    def __enter__(self) -> EventStream:
        run_sync(self._events.open)
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncEventStream(BaseEventStream):
    """The events of `AsyncClient.sse`: use `async for` in `async with`."""

    def __aiter__(self) -> AsyncEventStream:
        return self

    if not TYPE_CHECKING:  # type checkers reject `for`

        def __iter__(self):
            raise TypeError("sse() of AsyncClient needs `async for`, not `for`")

        def __enter__(self):
            raise TypeError("sse() of AsyncClient needs `async with`, not `with`")

        __exit__ = __enter__

    async def __anext__(self) -> ServerSentEvent:
        event = self._events.get_ready_event()
        if event is None:
            event = await self._events.next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        """End the stream."""
        self._events.close()

    async def __aenter__(self) -> AsyncEventStream:
        await self._events.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()
