"""From frames to messages: pieces are put together, text is decoded, and both are counted."""

from __future__ import annotations

import codecs
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from websockets.frames import Opcode

from curlhttp._models.parts import Parts

if TYPE_CHECKING:
    from websockets.frames import Frame

__all__ = ["Inbox", "Message"]

Message: TypeAlias = str | bytes

_BINARY = Opcode.BINARY
_OVERHEAD = 64  # bytes of an empty message
_MOST_EMPTY = 10_000  # pieces without data in a message
_INVALID, _VIOLATION = 1007, 1008  # close codes


class Inbox:
    """The messages that came in, and were not asked for yet.

    Attributes:
        messages: oldest first.
        size: bytes, or characters, of them together, about.
        discards: nobody wants messages any more.
    """

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        self.size: int = 0
        self.discards = False
        self._parts: Parts[bytes] = Parts()  # of a message whose end is missing
        self._texts: Parts[str] = Parts()  # likewise, if it is text
        self._empty = 0  # its pieces without data
        self._decoder: codecs.IncrementalDecoder | None = None  # of its pieces

    def pop(self) -> Message:
        """Take the oldest message out."""
        message = self.messages.popleft()
        self.size -= len(message) + _OVERHEAD
        return message

    def add(self, frame: Frame) -> tuple[int, str] | None:
        """Take a frame of data, whose place is right; return why to close if it is wrong."""
        opcode, data = frame.opcode, bytes(frame.data)
        try:
            if opcode is Opcode.CONT or not frame.fin:
                if opcode is not Opcode.CONT:
                    self._decoder = None if opcode is _BINARY else _new_decoder()
                    self._empty = 0
                if not data and not frame.fin:
                    # max_size does not count them: they could go on for ever.
                    self._empty += 1
                    if self._empty > _MOST_EMPTY:
                        return _VIOLATION, "too many pieces of a message without data"
                self._add_piece(data, frame.fin)
            else:
                # Most messages are one frame.
                self._put(data if opcode is _BINARY else str(data, "utf-8"))
        except UnicodeDecodeError:
            return _INVALID, "a text message is not UTF-8"
        return None

    def _add_piece(self, data: bytes, is_last: bool) -> None:
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
