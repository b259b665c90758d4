"""The byte stream of trio, and of whatever else anyio runs on: tasks wait for the socket."""

from __future__ import annotations

import math
from collections.abc import Callable

import anyio
import anyio.lowlevel

from curlhttp._curl.streams.stream import LoopStream, Stream, given_up
from curlhttp._curl.transfer import Transfer

__all__ = ["AnyioStream"]


class AnyioStream(LoopStream):
    """A connection for the tasks of an event loop of any kind that anyio knows.

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
        self._waits: set[anyio.CancelScope] = set()
        self._receives = False
        self._one_writer = anyio.Lock()
        super().__init__(transfer, let_go, call_soon)

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end, None when there were none for so many seconds.

        Raises:
            RequestException: the connection broke, or was given up.
        """
        if self._receives:
            raise RuntimeError("another task receives on this connection")
        if seconds == 0:
            return self.receive_now()
        if self._piece is None:
            self._piece = Stream.receive_now(self)
        if self._piece is not None:
            # Kept where it is meanwhile: a cancelled caller has not taken it.
            await anyio.lowlevel.checkpoint()
        else:
            self._receives = True
            deadline = math.inf if seconds is None else anyio.current_time() + seconds
            try:
                while self._piece is None and await self._wait(anyio.wait_readable, deadline):
                    self._piece = Stream.receive_now(self)
            finally:
                self._receives = False
        piece, self._piece = self._piece, None
        return piece

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until all that was written is sent; return False if it was not in time.

        Raises:
            RequestException: the connection broke, or was given up.
        """
        if not self._unsent:
            if self._owes_a_turn():
                await anyio.lowlevel.checkpoint()
            return True
        self._written = 0
        deadline = math.inf if seconds is None else anyio.current_time() + seconds
        with anyio.CancelScope(deadline=deadline):
            async with self._one_writer:
                while self._unsent and await self._wait(anyio.wait_writable, deadline):
                    self._push()
        if self._error is not None:
            raise self._error
        return not self._unsent

    async def _wait(self, ready: Callable[[int], object], deadline: float) -> bool:
        """Wait for the socket; return False when it took too long.

        Raises:
            RequestException: the connection was given up.
        """
        if self._error is not None:
            raise self._error
        with anyio.CancelScope(deadline=deadline) as scope:
            self._waits.add(scope)
            try:
                await ready(self.descriptor)  # type: ignore[misc]  # a coroutine function
            finally:
                self._waits.discard(scope)
        if self._error is not None:
            raise self._error
        return not scope.cancelled_caught

    # the end

    def abort(self, error: BaseException | None = None) -> None:
        """End the connection at once, in the loop's thread; never waits, may be called twice."""
        if self._transfer is None:
            return
        self._error = self._error or given_up(error)
        for scope in self._waits:
            scope.cancel()  # before the socket is closed: trio does not look at it any more
        self._release()
