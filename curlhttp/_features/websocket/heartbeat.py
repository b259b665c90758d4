"""Keepalive: decide when to send a ping, and when the server has been silent for too long."""

from __future__ import annotations

import struct


class SentPing:
    """A ping of the user, or a keepalive ping.

    Args:
        data: its payload.
        sent_at: in monotonic seconds.

    Attributes:
        latency: seconds until its pong arrived, or None.
    """

    __slots__ = ("__weakref__", "data", "latency", "sent_at")

    def __init__(self, data: bytes, sent_at: float) -> None:
        self.data: bytes = data
        self.sent_at: float = sent_at
        self.latency: float | None = None


class Heartbeat:
    """The keepalive pings of one WebSocket.

    Args:
        interval: seconds from a pong to the next ping, or None to send none.
        limit: seconds that the server may be silent after a ping, or None for no limit.
        now: monotonic seconds.

    Attributes:
        latency: seconds from the last ping to its pong, or None before the first.
        last_received: when bytes last arrived while a ping was pending, in monotonic seconds.
        due: when to send the next ping, or to check for a pong, in monotonic seconds.
        pending_ping: a ping whose pong has not come; None for none.
    """

    def __init__(self, interval: float | None, limit: float | None, now: float) -> None:
        self.latency: float | None = None
        self.last_received: float = now
        self.due: float = now + (interval or 0.0)
        self._interval = interval
        self._limit = limit
        self._count = 0
        self.pending_ping: SentPing | None = None

    def make_ping(self, now: float) -> SentPing | None:
        """Return a ping to send now, or None if none is due."""
        if self._interval is None or self.pending_ping is not None or now < self.due:
            return None
        self._count += 1
        self.pending_ping = SentPing(struct.pack("!I", self._count), now)
        self.due = now + (self._interval if self._limit is None else self._limit)
        return self.pending_ping

    def is_silent(self, now: float, *, has_read_all: bool) -> bool:
        """Return whether the server has been silent for too long.

        Args:
            now: monotonic seconds.
            has_read_all: whether everything that arrived was read; otherwise, a pong may wait
                behind unread messages.
        """
        if self.pending_ping is None or self._limit is None:
            return False
        if not has_read_all:
            self.last_received = now
        # Any bytes count, because a pong may be behind a long message.
        silent_at = max(self.pending_ping.sent_at, self.last_received) + self._limit
        self.due = max(self.due, silent_at)
        return now >= silent_at

    def note_pong(self, now: float) -> None:
        """Note that a pong has arrived, which may be that of the pending ping."""
        if self.pending_ping is not None and self.pending_ping.latency is not None:
            self.latency = self.pending_ping.latency
            self.pending_ping = None
            self.due = now + (self._interval or 0.0)
