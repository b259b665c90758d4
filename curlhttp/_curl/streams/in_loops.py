"""What byte streams have in common whose callers are tasks of an event loop."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from weakref import ref

from curlhttp._curl.streams.stream import Stream
from curlhttp._curl.transfer import Transfer

__all__ = ["LoopStream"]

_UNINTERRUPTED = 256 * 1024  # bytes written after which other tasks have their turn


class LoopStream(Stream):
    """A connection for the tasks of one event loop.

    Args:
        transfer: see Stream.
        let_go: see Stream.
        call_soon: calls something in the loop, from any thread.
    """

    def __init__(
        self,
        transfer: Transfer,
        let_go: Callable[[Transfer], object],
        call_soon: Callable[..., object],
    ) -> None:
        self._call_soon = call_soon
        self._piece: bytes | None = None  # was received, and not taken yet
        self._written = 0  # bytes since other tasks had their turn
        super().__init__(transfer, let_go)
        transfer.wake = partial(_end, ref(self), transfer)

    def receive_now(self) -> bytes | None:
        """Return what `receive` would, None where it would have to wait."""
        piece, self._piece = self._piece, None
        return super().receive_now() if piece is None else piece

    def write(self, data: bytes) -> None:
        """Take bytes, to be sent after those before, and send what goes out at once; never waits.

        Raises:
            RequestException: the connection broke, or was given up.
        """
        self._written += len(data)
        super().write(data)

    def _owes_a_turn(self) -> bool:
        """Return whether so much was written at once that others are to have their turn."""
        if self._written <= _UNINTERRUPTED:
            return False
        self._written = 0
        return True

    @abstractmethod
    def abort(self, error: BaseException | None = None) -> None:
        """End the connection at once, in the loop's thread; never waits, may be called twice."""

    def __del__(self) -> None:
        # Not there when __init__ was interrupted. This may be any thread.
        if getattr(self, "_transfer", None) is not None:
            with suppress(RuntimeError):  # the loop has ended, and its engine closes the rest
                self._call_soon(self.abort)


def _end(stream: ref[LoopStream], transfer: Transfer) -> None:
    """End a stream whose transfer was ended by its driver."""
    found = stream()
    if found is not None:
        found.abort(transfer.failed)
