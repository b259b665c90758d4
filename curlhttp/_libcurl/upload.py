"""A request body that libcurl reads piece by piece, because it is not in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol


class Feed(Protocol):
    """A task that reads a body for libcurl, piece by piece, while the caller does other things."""

    def take(self, size: int, /) -> bytes | None:
        """Return at most size bytes, b"" at the end, None for none yet."""

    def stop(self) -> None:
        """Accept no more pieces, because the exchange has ended. Never blocks."""

    def finish(self) -> Awaitable[None]:
        """Stop, and wait until nobody reads the body any more."""

    def abandon(self) -> Awaitable[None]:
        """Stop, leave a thread that reads, and wait until an async body is closed."""


class Upload:
    """Count what libcurl has read of a body.

    Args:
        read: returns the next bytes of the body, b"" at the end and None for none yet.
        feed: the task that reads the body, if libcurl's callback must not.

    Attributes:
        feed: as given.
        fed: bytes of the body that libcurl has got.
        fed_at: the monotonic time when it got the last piece.
        is_read_out: it has got all of them.
        is_starving: it waits for more, until the driver resumes it.
    """

    __slots__ = (
        "fed",
        "fed_at",
        "feed",
        "is_read_out",
        "is_starving",
        "read",
    )

    def __init__(self, read: Callable[[int], bytes | None], feed: Feed | None = None) -> None:
        self.read = read
        self.feed = feed
        self.is_starving = False
        self.reset()

    def reset(self) -> None:
        """Begin again, after the body was rewound."""
        self.fed, self.fed_at, self.is_read_out = 0, 0.0, False

    def take(self, size: int, now: float) -> bytes | None:
        """Return the next bytes for libcurl, b"" at the end, None for none yet.

        Args:
            size: bytes at most.
            now: the monotonic time.

        Raises:
            Exception: raised by the caller's body.
        """
        piece = self.read(size)
        if piece is None:
            self.is_starving = True
        else:
            self.fed += len(piece)
            self.fed_at = now
            self.is_read_out = not piece
        return piece

    def stop(self) -> None:
        """Let its task end, if it has one, because the exchange has ended. Never blocks."""
        if self.feed is not None:
            self.feed.stop()

    async def finish(self) -> None:
        """Wait until its task has ended, after the exchange."""
        if self.feed is not None:
            await self.feed.finish()

    async def abandon(self) -> None:
        """End its task as soon as possible, whatever it waits for."""
        if self.feed is not None:
            await self.feed.abandon()
