"""client.sse, for both clients: what users iterate over. Loaded with the first.

_flow/events.py reads and reconnects; nothing is decided here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from curlhttp._flow.events import Events
from curlhttp._models.events import ServerSentEvent
from curlhttp._models.headers import Headers
from curlhttp._models.response import Response
from curlhttp._policy.reconnect import Reconnections
from curlhttp._run import run_sync

if TYPE_CHECKING:
    from curlhttp._building import RequestOptions
    from curlhttp._core import Core
    from curlhttp._models.url.url import URL

__all__ = ["AsyncEventStream", "EventStream", "events_of"]

# The cache mode "no-store" of the standard, as Fetch puts it into headers.
_HEADERS = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
_NO_ID = re.compile("[\0\r\n\ud800-\udfff]").search


def events_of(
    core: Core,
    url: str | bytes | URL,
    *,
    method: str,
    last_event_id: str | None,
    reconnect: bool | int,
    max_event_size: int | None,
    options: RequestOptions,
) -> Events:
    """Return the events of a URL; the arguments are those of Client.sse. Nothing is sent yet."""
    if max_event_size is not None and max_event_size < 0:
        raise ValueError(f"max_event_size must not be negative, as {max_event_size} is")
    if last_event_id and _NO_ID(last_event_id):
        raise ValueError("no last_event_id has a line end, a NUL or half a character")
    options["stream"] = True
    options["headers"] = Headers(_HEADERS).merged(options.get("headers"))
    # A stream has no end: its events are bounded, one by one.
    options.setdefault("max_response_size", None)
    request = core.build_request(method, url, **options)
    reconnections = Reconnections(request, reconnect)
    return Events(
        lambda request: core.flow(request),  # which may be another one by then
        core.clock,
        core.chain.told,
        request,
        last_event_id or "",
        reconnections,
        max_event_size,
    )


class _EventStream:
    """What both kinds of streams show of themselves."""

    def __init__(self, events: Events) -> None:
        self._events = events

    @property
    def response(self) -> Response | None:
        """Return the response of the latest connection; None before the first."""
        return self._events.response

    @property
    def last_event_id(self) -> str:
        """Return the id of the last event, to go on from later; "" without any."""
        return self._events.last_event_id


class EventStream(_EventStream):
    """The events of `Client.sse`: iterate over them, best in `with`."""

    _is_reading = False

    def __iter__(self) -> EventStream:
        return self

    def __next__(self) -> ServerSentEvent:
        event = self._events.take()
        if event is None:
            event = self._read()
        if event is None:
            raise StopIteration
        return event

    def _read(self) -> ServerSentEvent | None:
        self._is_reading = True
        try:
            return run_sync(self._events.next_event())
        finally:
            self._is_reading = False

    def close(self) -> None:
        """End the stream; one that another thread waits for, with the next bytes that come."""
        if self._is_reading:  # with a handle that belongs to that thread
            self._events.end()
        else:
            self._events.close()

    def __enter__(self) -> EventStream:
        run_sync(self._events.open())
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class AsyncEventStream(_EventStream):
    """The events of `AsyncClient.sse`: for `async for`, best in `async with`."""

    def __aiter__(self) -> AsyncEventStream:
        return self

    async def __anext__(self) -> ServerSentEvent:
        event = self._events.take()
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
