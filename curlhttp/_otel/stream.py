"""A connection for another protocol, up to the answer to the request that asked for it (101)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable

from curlhttp._engine import ByteStream
from curlhttp._models.response import Head
from curlhttp._models.timings import Timings
from curlhttp._otel.tracing import Under

__all__ = ["TracedStream"]

_END_OF_HEAD = re.compile(rb"\r?\n\r?\n").search


class TracedStream:
    """A stream that tells an attempt of its answer; who reads it bounds what is read for that.

    Args:
        stream: the connection.
        under: the attempt, which ends with its answer.
    """

    def __init__(self, stream: ByteStream, under: Under) -> None:
        self._stream = stream
        self._under: Under | None = under
        self._head = b""
        self.write = stream.write
        self.drain = stream.drain
        self.unsent = stream.unsent
        self.timings: Callable[[], Timings] = stream.timings
        self.is_plain: bool = getattr(stream, "is_plain", False)

    @property
    def descriptor(self) -> int:
        """Return the socket below, -1 where there is none."""
        return getattr(self._stream, "descriptor", -1)

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes; see ByteStream."""
        piece = await self._stream.receive(seconds)
        if self._under is not None:
            self._look_at(piece, self._under)
        return piece

    def receive_now(self) -> bytes | None:
        """Return what `receive` would, None where it would have to wait."""
        return self._stream.receive_now()

    def _look_at(self, piece: bytes | None, under: Under) -> None:
        self._head += piece or b""
        while (end := _END_OF_HEAD(self._head)) is not None:
            head, self._head = Head(self._head[: end.end()]), self._head[end.end() :]
            if head.status_code >= 200 or head.status_code == 101:
                self._under, self._head = None, b""
                under.answer(head, self._stream.timings())
                return

    def abort(self, error: Exception | None = None) -> None:
        """End the connection at once; without an answer its attempt has failed."""
        under, self._under = self._under, None
        if under is not None:
            # Who gives up a handshake does so while it handles what ended that, such as garbage.
            under.fail(error or sys.exc_info()[1] or ConnectionError())
        self._stream.abort(error)
