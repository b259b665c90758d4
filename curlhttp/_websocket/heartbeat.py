"""When a WebSocket sends a ping, and when it gives up on a server. It sends and reads nothing."""

from __future__ import annotations

import struct

__all__ = ["Heartbeat"]


class Heartbeat:
    """The keepalive pings of one WebSocket.

    Args:
        interval: seconds from a pong to the next ping, or None for none.
        limit: seconds that the server may be silent after a ping, or None for any time.
        now: monotonic.

    Attributes:
        latency: seconds from the last ping to its pong, or None.
        heard_at: the monotonic time when the server was heard last.
        due: the monotonic time of the next ping, or of the next look whether there was a pong.
    """

    def __init__(self, interval: float | None, limit: float | None, now: float) -> None:
        self.latency: float | None = None
        self.heard_at: float = now
        self.due: float = now + (interval or 0.0)
        self._interval = interval
        self._limit = limit
        self._count = 0
        self._waits_for: tuple[bytes, float] | None = None  # a ping without its pong, and since

    def ping(self, now: float) -> bytes | None:
        """Return what a ping has to say that is to be sent now, or None."""
        if self._interval is None or self._waits_for is not None or now < self.due:
            return None
        self._count += 1
        data = struct.pack("!I", self._count)
        self._waits_for = data, now
        self.due = now + (self._interval if self._limit is None else self._limit)
        return data

    def is_silent(self, now: float, *, looks: bool) -> bool:
        """Return whether the server has been silent for too long.

        Args:
            now: monotonic.
            looks: all that came was read: else a pong may wait behind what nobody takes.
        """
        if self._waits_for is None or self._limit is None:
            return False
        if not looks:
            self.heard_at = now
        # Anything that it sends will do: a pong may be behind a long message.
        silent_at = max(self._waits_for[1], self.heard_at) + self._limit
        self.due = max(self.due, silent_at)
        return now >= silent_at

    def pong(self, data: bytes, now: float) -> None:
        """Take a pong; one may answer several pings (RFC 6455, section 5.5.3)."""
        if self._waits_for is not None and data == self._waits_for[0]:
            self.latency = now - self._waits_for[1]
            self._waits_for = None
            self.due = now + (self._interval or 0.0)
