"""From frames to messages: pieces are put together, text is decoded, and both are counted."""

from __future__ import annotations

import codecs
from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from websockets.frames import Opcode

if TYPE_CHECKING:
    from websockets.frames import Frame

__all__ = ["Inbox", "Message"]

Message: TypeAlias = str | bytes

_BINARY = Opcode.BINARY
_OVERHEAD = 64  # bytes of an empty message


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
        self._parts: list[bytes] = []  # of a message whose end is missing
        self._texts: list[str] = []  # likewise, if it is text
        self._decoder: codecs.IncrementalDecoder | None = None  # of its pieces

    def pop(self) -> Message:
        """Take the oldest message out."""
        message = self.messages.popleft()
        self.size -= len(message) + _OVERHEAD
        return message

    def add(self, frame: Frame) -> bool:
        """Take a frame of data, whose place is right; return False where text is not UTF-8."""
        opcode, data = frame.opcode, bytes(frame.data)
        try:
            if opcode is Opcode.CONT or not frame.fin:
                if opcode is not Opcode.CONT:
                    self._decoder = None if opcode is _BINARY else _new_decoder()
                self._add_piece(data, frame.fin)
            else:
                # Most messages are one frame.
                self._put(data if opcode is _BINARY else str(data, "utf-8"))
        except UnicodeDecodeError:
            return False
        return True

    def _add_piece(self, data: bytes, is_last: bool) -> None:
        decoder = self._decoder
        # max_size does not count pieces without data, of which there may be any number.
        if decoder is not None:
            if text := decoder.decode(data, is_last):
                self._texts.append(text)
        elif data:
            self._parts.append(data)
        if is_last:
            self._put(b"".join(self._parts) if decoder is None else "".join(self._texts))
            self._parts, self._texts = [], []

    def _put(self, message: Message) -> None:
        if not self.discards:
            self.messages.append(message)
            self.size += len(message) + _OVERHEAD


def _new_decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")()
