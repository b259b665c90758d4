"""Read and write frames that contain one whole message, as most frames do.

The package `websockets` parses all other frames: fragments, control frames, compressed messages and
violations of the protocol. It takes five times as long, because it parses with coroutines.
"""

from __future__ import annotations

import math
import os
from struct import Struct

from websockets.frames import apply_mask  # type: ignore[attr-defined]  # in C if available

from curlhttp._http.decoding import Parts

TEXT, BINARY = 0x81, 0x82  # the first byte of a frame that is a message (RFC 6455, section 5.2)
_MESSAGES = (TEXT, BINARY)
_MASKED = 0x80
_TWO_BYTES, _EIGHT_BYTES = 126, 127  # in place of a size: the size follows in 2 or 8 bytes
_MASKS = 256  # to make at a time
_TWO, _EIGHT = Struct("!H"), Struct("!Q")
_HEAD, _TWO_HEAD, _EIGHT_HEAD = Struct("!BB"), Struct("!BBH"), Struct("!BBQ")


def pack_message(first: int, data: bytes) -> bytes:
    """Return a message as one client frame, masked with unpredictable bytes.

    Args:
        first: TEXT or BINARY.
        data: the payload.
    """
    size = len(data)
    if size < _TWO_BYTES:
        head = _HEAD.pack(first, _MASKED | size)
    elif size < 1 << 16:
        head = _TWO_HEAD.pack(first, _MASKED | _TWO_BYTES, size)
    else:
        head = _EIGHT_HEAD.pack(first, _MASKED | _EIGHT_BYTES, size)
    try:
        mask = _masks.pop()
    except IndexError:  # at first, or another thread was faster
        mask = _make_mask()
    return b"".join((head, mask, apply_mask(data, mask)))


# A system call for each mask takes as long as the rest of a small frame.
_masks: list[bytes] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_masks.clear)


def _make_mask() -> bytes:
    """Return four bytes that nobody can predict (RFC 6455, section 5.3), and keep more of them."""
    random = os.urandom(4 * _MASKS)
    mask, *others = [random[at : at + 4] for at in range(0, len(random), 4)]
    _masks.extend(others)
    return mask


class FrameBuffer:
    """The received bytes that are not parsed yet; splits them at the ends of frames.

    Args:
        data: the first bytes.
        max_size: the maximum size of a message in bytes, or None.

    Attributes:
        data: what can be parsed before more bytes arrive.
        held: the size in bytes of an incomplete frame that is kept until it is complete.
    """

    def __init__(self, data: bytes, max_size: int | None) -> None:
        self.data = memoryview(data)
        self._max_size: float = math.inf if max_size is None else max_size
        self._rest = 0  # bytes of the current frame that the other parser still needs
        self._parts: Parts[bytes] = Parts()  # of the held frame
        self._missing = 0  # bytes until its head, or the whole frame, is complete
        self.held: int = 0

    @property
    def size(self) -> int:
        """Return the number of bytes that are not parsed yet."""
        return len(self.data) + self.held

    def add(self, data: bytes) -> None:
        """Append received bytes."""
        if self.held:
            self._missing -= len(data)
            self.held += len(data)
            if self._missing > 0:
                self._parts.add(data)
                return
            data = self._parts.take(data)
            self.held = 0
        elif self.data:
            data = b"".join((self.data, data))
        self.data = memoryview(data)

    def take_whole(self, data: bytes) -> bytes | None:
        """Return the payload of received bytes that are one small message; else None.

        None, too, if bytes before these are not parsed yet.
        """
        size = len(data) - 2
        if (
            0 <= size < _TWO_BYTES
            and data[1] == size
            and data[0] in _MESSAGES
            and size <= self._max_size
            and not (self.held or self._rest or self.data)
        ):
            return data[2:]
        return None

    def clear(self) -> None:
        """Drop all bytes."""
        self.data, self._parts, self.held = memoryview(b""), Parts(), 0

    def take(self, most: int, *, messages: bool) -> tuple[int, memoryview]:
        """Return the first byte and payload of a message, or (0, bytes) for `websockets` to parse.

        The bytes are empty if a frame is still incomplete.

        Args:
            most: the maximum number of bytes for `websockets`.
            messages: False if `websockets` needs all frames.
        """
        data = self.data
        if not self._rest:
            if messages and len(data) > 1 and data[0] in _MESSAGES:
                size = data[1]
                end = 2 + size
                if size < _TWO_BYTES and end <= len(data) and size <= self._max_size:
                    self.data = data[end:]  # most messages are small and come as a whole
                    return data[0], data[2:end]
            begin, size = _read_head(data)
            end = begin + size
            if begin > len(data):
                return 0, self._hold(begin)
            if messages and data[0] in _MESSAGES and data[1] < _MASKED and size <= self._max_size:
                if end > len(data):
                    return 0, self._hold(end)
                self.data = data[end:]
                return data[0], data[begin:end]
            self._rest = end
        taken = data[: min(most, self._rest)]
        self._rest -= len(taken)
        self.data = data[len(taken) :]
        return 0, taken

    def _hold(self, needed: int) -> memoryview:
        """Keep the beginning of a frame until `needed` bytes of it have arrived."""
        self._missing = needed - len(self.data)
        self.held = len(self.data)
        self._parts.add(bytes(self.data))
        self.data = memoryview(b"")
        return self.data


def _read_head(data: memoryview) -> tuple[int, int]:
    """Return the sizes of a frame's head and payload.

    If the head is incomplete, return how many bytes of it are needed, and 0.
    """
    if len(data) < 2:
        return 2, 0
    size, mask = data[1], 0
    if size >= _MASKED:
        size, mask = size - _MASKED, 4
    if size < _TWO_BYTES:
        return 2 + mask, size
    field, begin = (_TWO, 4) if size == _TWO_BYTES else (_EIGHT, 10)
    return begin + mask, field.unpack_from(data, 2)[0] if len(data) >= begin else 0
