"""Parse server-sent events from the pieces of a body. Nothing here waits or reconnects.

Source: "Server-sent events" of the HTML standard, https://html.spec.whatwg.org/.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from typing import Any, TypeVar, overload

from curlhttp._http.decoding import Parts, rechunk
from curlhttp._http.json_reading import convert_json, read_json
from curlhttp._http.named_tuple import NamedTuple
from curlhttp.exceptions import ResponseTooLarge

T = TypeVar("T")

_MEDIA_TYPE = "text/event-stream"
_BOM = b"\xef\xbb\xbf"
_MOST_DIGITS = 18  # of retry, in milliseconds: more than the age of the earth


class ServerSentEvent(NamedTuple):
    """An event from a server.

    Attributes:
        event: its type; "message" if the server names none.
        data: its lines, joined by line feeds.
        id: the latest id of the stream, from this event or an earlier one; "" without any.
        retry: milliseconds to wait before reconnecting, if this event sets them.
    """

    event: str = "message"
    data: str = ""
    id: str = ""
    retry: int | None = None

    @overload
    def json(self, *, type: type[T], **options: object) -> T: ...
    @overload
    def json(self, *, type: object = None, **options: object) -> Any: ...
    def json(self, *, type: object = None, **options: object) -> Any:  # Any: as of json.loads
        """Return the data read as JSON (RFC 8259).

        Args:
            type: the type of the result, as of `Response.json`; None for dicts, lists and so on.
            options: passed on to json.loads.

        Raises:
            JSONDecodeError: the data is not JSON.
            JSONTypeError: the value does not fit the type.
            TypeError: curlhttp cannot create values of this type.
        """
        value = read_json(self.data, options, None)
        return value if type is None else convert_json(value, type)


class EventParser:
    """Parse server-sent events from the pieces of a body, wherever it is cut.

        parser = curlhttp.EventParser()
        for piece in pieces:
            for event in parser.feed(piece):
                print(event.data)

    `sse()` and `iter_events()` use it; it is for bodies that come in another way.

    Args:
        last_event_id: from the previous connection; events without an id have it, too.
        max_event_size: bytes that the data of an event, and each line, may have; None for no limit.

    Attributes:
        last_event_id: the last id of the stream; a server can set it without an event.
        retry: the last milliseconds that the server asked to wait, or None.
        count: the number of events so far.
    """

    def __init__(self, last_event_id: str = "", max_event_size: int | None = None) -> None:
        # The standard empties it for each connection. Browsers do not, because an event without an
        # id would make them forget their position.
        self.last_event_id: str = last_event_id
        self._id = last_event_id
        self.retry: int | None = None
        self.count: int = 0
        self._limit: float = math.inf if max_event_size is None else max_event_size
        self._line: Parts[bytes] = Parts()  # the start of a line
        self._line_size = 0
        self._ends_in_cr = False
        self._is_first = True
        self._type = b""
        self._data: bytes | None = None  # its first line
        self._more_data: Parts[bytes] = Parts()  # the others, each with a line feed in front
        self._data_size = 0
        self._own_retry: int | None = None

    def feed(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that end in the next piece; consume all before the next call.

        Raises:
            ResponseTooLarge: an event is larger than max_event_size; those before it were yielded.
        """
        if self._ends_in_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._ends_in_cr = False
        if b"\r" in piece:
            self._ends_in_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *lines, rest = piece.split(b"\n")
        for line in lines:
            if self._line_size:
                line = self._line.take(line)
                self._line_size = 0
            if len(line) > self._limit:
                raise self._make_size_error()
            if self._is_first:
                self._is_first = False
                line = line.removeprefix(_BOM)
            if line:
                self._read_field(line)
            elif (event := self._dispatch()) is not None:
                yield event
        if rest:
            self._line.add(rest)
            self._line_size += len(rest)
            if self._line_size > self._limit:
                raise self._make_size_error()

    def _make_size_error(self) -> ResponseTooLarge:
        return ResponseTooLarge(f"an event is larger than max_event_size={self._limit} bytes")

    def _read_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self._add_data(value)
        elif name == b"event":
            self._type = value
        elif name == b"id":
            if b"\0" not in value:
                self._id = _decode(value)
        elif name == b"retry" and value.isdigit():
            # Truncated, because int() refuses thousands of digits.
            self.retry = self._own_retry = int(value.lstrip(b"0")[:_MOST_DIGITS] or b"0")

    def _add_data(self, value: bytes) -> None:
        if self._data is None:
            self._data, self._data_size = value, len(value)
            return
        self._data_size += 1 + len(value)
        if self._data_size > self._limit:
            raise self._make_size_error()
        self._more_data.add(b"\n" + value)

    def _dispatch(self) -> ServerSentEvent | None:
        # Also for a block without data, with which a server sets only the id.
        self.last_event_id = self._id
        kind, data, retry = self._type, self._data, self._own_retry
        self._type, self._data, self._own_retry = b"", None, None
        if data is None:
            return None
        if self._data_size > len(data):
            data += self._more_data.take(b"")
        self.count += 1
        name = _decode(kind) if kind else "message"
        return ServerSentEvent(name, _decode(data), self._id, retry)


class EventChunks:
    """Turn the pieces of a body into events: a Chunker.

    Args:
        max_size: see EventParser.
        refuse: called when an event is too large; returns the error to raise.
    """

    def __init__(
        self, max_size: int | None, refuse: Callable[[ResponseTooLarge], ResponseTooLarge]
    ) -> None:
        self._parser = EventParser(max_event_size=max_size)
        self._refuse = refuse

    def add(self, piece: bytes) -> Iterator[ServerSentEvent]:
        """Yield the events that end in the next piece of the body."""
        try:
            yield from self._parser.feed(piece)
        except ResponseTooLarge as error:
            raise self._refuse(error) from None

    def end(self) -> Iterator[ServerSentEvent]:
        """Return nothing: the standard drops an event without the empty line at its end."""
        return iter(())

    fail = end

    def iterate(self, pieces: Iterable[bytes]) -> ResponseEvents:
        """Return the events of all pieces of a body."""
        return ResponseEvents(rechunk(pieces, self), self._parser)

    def aiterate(self, events: AsyncIterator[ServerSentEvent]) -> AsyncResponseEvents:
        """Return the events that this object makes when they are awaited."""
        return AsyncResponseEvents(events, self._parser)


class _Position:
    """How far an iterator has come."""

    _parser: EventParser

    @property
    def last_event_id(self) -> str:
        """Return the last id of the stream, to continue from later; "" if there was none.

        A server can set it without an event, so it may be later than the id of the last event.
        """
        return self._parser.last_event_id

    @property
    def retry(self) -> int | None:
        """Return the milliseconds that the server last asked to wait; None if it did not ask."""
        return self._parser.retry


class ResponseEvents(_Position):
    """The events of `response.iter_events()`: iterate over them."""

    def __init__(self, events: Iterator[ServerSentEvent], parser: EventParser) -> None:
        self._events = events
        self._parser = parser

    def __iter__(self) -> ResponseEvents:
        return self

    def __next__(self) -> ServerSentEvent:
        return next(self._events)


class AsyncResponseEvents(_Position):
    """The events of `response.aiter_events()`: use `async for`."""

    def __init__(self, events: AsyncIterator[ServerSentEvent], parser: EventParser) -> None:
        self._events = events
        self._parser = parser

    def __aiter__(self) -> AsyncResponseEvents:
        return self

    def __anext__(self) -> Awaitable[ServerSentEvent]:
        return self._events.__anext__()


def is_event_stream(content_types: list[str]) -> bool:
    """Return whether a response has server-sent events.

    Args:
        content_types: the values of Content-Type, of which the last one counts.
    """
    return (
        bool(content_types)
        and content_types[-1].partition(";")[0].strip(" \t").lower() == _MEDIA_TYPE
    )


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")
