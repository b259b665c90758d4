"""Parse server-sent events from the pieces of a body. Nothing here waits or reconnects.

Source: "Server-sent events" of the HTML standard, https://html.spec.whatwg.org/.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from curlhttp._models.decoding import Parts
from curlhttp._models.named_tuple import NamedTuple
from curlhttp._models.response import read_json
from curlhttp.exceptions import ResponseTooLarge

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

    def json(self, **options: Any) -> Any:  # Any: as of json.loads
        """Return the data read as JSON (RFC 8259).

        Args:
            options: passed on to json.loads.

        Raises:
            JSONDecodeError: the data is not JSON.
        """
        return read_json(self.data, options, None)


class EventParser:
    """Parse events from the pieces of a body, wherever it is cut.

    Args:
        last_event_id: from the previous connection; events without an id have it, too.
        max_size: bytes that the data of an event, and each line, may have; None for no limit.

    Attributes:
        last_event_id: the id of the last complete event.
        retry: the last milliseconds that the server asked to wait, or None.
        count: the number of events so far.
    """

    def __init__(self, last_event_id: str = "", max_size: int | None = None) -> None:
        # The standard empties it for each connection. Browsers do not, because an event without an
        # id would make them forget their position.
        self.last_event_id = self._id = last_event_id
        self.retry: int | None = None
        self.count = 0
        self._limit: float = math.inf if max_size is None else max_size
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
            ResponseTooLarge: an event is larger than max_size; those before it were yielded.
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


def _decode(value: bytes) -> str:
    return value.decode("utf-8", "replace")
