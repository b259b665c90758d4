"""Assemble messages from frames: join fragments, decode text, and count sizes."""

from __future__ import annotations

import codecs
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from websockets.frames import Opcode

from curlhttp._http.decoding import Parts

if TYPE_CHECKING:
    from websockets.frames import Frame

Message: TypeAlias = str | bytes

_BINARY = Opcode.BINARY
_OVERHEAD = 64  # bytes that count for each message in addition to its data
_MAX_EMPTY = 10_000  # empty fragments per message
_INVALID, _VIOLATION = 1007, 1008  # close codes


class MessageBuffer:
    """The messages that arrived and were not received by the user yet.

    Attributes:
        messages: oldest first.
        size: their approximate total size, in bytes or characters.
        discards: whether to drop messages, because the WebSocket is closing.
    """

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.size: int = 0
        self.discards = False
        self._parts: Parts[bytes] = Parts()  # of an incomplete binary message
        self._texts: Parts[str] = Parts()  # of an incomplete text message
        self._empty = 0  # empty fragments of an incomplete message
        self._decoder: codecs.IncrementalDecoder | None = None  # None for binary messages

    def pop(self) -> Message:
        """Remove and return the oldest message."""
        message = self.messages.popleft()
        self.size -= len(message) + _OVERHEAD
        return message

    def add(self, frame: Frame) -> tuple[int, str] | None:
        """Add a data frame, whose sequence is valid; return why to close if its data is invalid."""
        opcode, data = frame.opcode, bytes(frame.data)
        try:
            if opcode is Opcode.CONT or not frame.fin:
                if opcode is not Opcode.CONT:
                    self._decoder = None if opcode is _BINARY else _new_decoder()
                    self._empty = 0
                if not data and not frame.fin:
                    # max_size does not limit them, so there could be any number of them.
                    self._empty += 1
                    if self._empty > _MAX_EMPTY:
                        return _VIOLATION, "too many pieces of a message without data"
                self._add_fragment(data, frame.fin)
            else:
                self._put(data if opcode is _BINARY else str(data, "utf-8"))
        except UnicodeDecodeError:
            return _INVALID, "a text message is not UTF-8"
        return None

    def add_message(self, data: bytes, *, is_text: bool) -> tuple[int, str] | None:
        """Add a whole message; return why to close if it is invalid."""
        try:
            message = str(data, "utf-8") if is_text else data
        except UnicodeDecodeError:
            return _INVALID, "a text message is not UTF-8"
        if not self.discards:  # as in _put; most messages come here
            self.messages.append(message)
            self.size += len(message) + _OVERHEAD
        return None

    def _add_fragment(self, data: bytes, is_last: bool) -> None:
        decoder = self._decoder
        if decoder is not None:
            text = decoder.decode(data, is_last)
            if is_last:
                self._put(self._texts.take(text))
            elif text:
                self._texts.add(text)
        elif is_last:
            self._put(self._parts.take(data))
        elif data:
            self._parts.add(data)

    def _put(self, message: Message) -> None:
        if not self.discards:
            self.messages.append(message)
            self.size += len(message) + _OVERHEAD


def _new_decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")()
