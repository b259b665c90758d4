"""A request body that libcurl reads piece by piece, because it is not in memory."""

from __future__ import annotations

from collections.abc import Callable


class Upload:
    """Count what libcurl has read of a body.

    Args:
        read: returns the next bytes of the body, b"" at the end and None for none yet.
        is_fed_by_task: one of our tasks reads the body for libcurl, piece by piece.

    Attributes:
        is_fed_by_task: as given.
        is_in_task: that task is busy with the body, and cannot read the response.
        fed: bytes of the body that libcurl has got.
        fed_at: the monotonic time when it got the last piece.
        is_read_out: it has got all of them.
        is_starving: it waits for more, until the driver resumes it.
    """

    __slots__ = (
        "fed",
        "fed_at",
        "is_fed_by_task",
        "is_in_task",
        "is_read_out",
        "is_starving",
        "read",
    )

    def __init__(
        self, read: Callable[[int], bytes | None], *, is_fed_by_task: bool = False
    ) -> None:
        self.read = read
        self.is_fed_by_task = is_fed_by_task
        self.is_in_task = False
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
