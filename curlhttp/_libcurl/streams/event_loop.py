"""The byte streams of `AsyncClient`: on asyncio (uvloop included), and on trio through anyio.

On asyncio the loop calls a reader and a writer, without a task. On trio, and on any other loop that
anyio supports, the tasks wait for the socket themselves.
"""

from __future__ import annotations

import asyncio
import math
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from weakref import ref

import anyio
import anyio.lowlevel

from curlhttp._libcurl.socket_thread import SocketThread
from curlhttp._libcurl.streams.stream import PIECE, Stream, closed_error
from curlhttp._libcurl.transfer import Transfer
from curlhttp._runtime.loops import settle

_YIELD_AFTER = 256 * 1024  # bytes written, then other tasks get their turn
_LOOK_AFTER = 1.0  # seconds


class LoopStream(Stream):
    """A connection for the tasks of one event loop.

    Args:
        transfer: see Stream.
        release: see Stream.
        call_soon: calls a function in the loop, from any thread.
    """

    def __init__(
        self,
        transfer: Transfer,
        release: Callable[[Transfer], object],
        call_soon: Callable[..., object],
    ) -> None:
        self._call_soon = call_soon
        self._piece: bytes | None = None  # received and not returned yet
        super().__init__(transfer, release)
        transfer.wake = partial(_end, ref(self), transfer)

    def receive_now(self) -> bytes | None:
        """Return what `receive` would, None if it would have to wait."""
        piece, self._piece = self._piece, None
        return super().receive_now() if piece is None else piece

    def _should_yield(self) -> bool:
        """Return whether so much was written at once that other tasks should get their turn."""
        if self._written <= _YIELD_AFTER:
            return False
        self._written = 0
        return True

    def abort(self, error: BaseException | None = None) -> None:
        """Close the connection at once, in the loop's thread; never blocks, may be called twice."""
        if self._transfer is None:
            return
        self._error = self._error or closed_error(error)
        self._end_waits()
        self._release()

    @abstractmethod
    def _end_waits(self) -> None:
        """Wake all tasks that wait, before the socket is closed."""

    def __del__(self) -> None:
        # It is missing if __init__ was interrupted. This may be any thread.
        if getattr(self, "_transfer", None) is not None:
            with suppress(RuntimeError):  # the loop has ended, and its engine closes the rest
                self._call_soon(self.abort)


def _end(stream: ref[LoopStream], transfer: Transfer) -> None:
    """Close a stream whose transfer was ended by its driver."""
    found = stream()
    if found is not None:
        found.abort(transfer.failed)


class AsyncioStream(LoopStream):
    """A connection for the tasks of an asyncio loop.

    Args:
        transfer: see Stream.
        release: see Stream.
        loop: the running loop.
        sockets: watches sockets: the loop, or a thread if it cannot.
    """

    def __init__(
        self,
        transfer: Transfer,
        release: Callable[[Transfer], object],
        loop: asyncio.AbstractEventLoop,
        sockets: asyncio.AbstractEventLoop | SocketThread,
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._reader: asyncio.Future[None] | None = None  # of the task that waits to receive
        self._writers: set[asyncio.Future[None]] = set()
        self._watches = False  # the loop calls _on_readable
        # The loop calls _on_writable. Tasks in _writers do not say so: they may still have to run
        # when all is sent, while another one writes again.
        self._awaits_room = False
        # uvloop hears nothing more of a socket whose last bytes came together with a reset, because
        # libuv stops to watch it. So a task that waits looks again after a second.
        self._may_miss_reset = type(loop).__module__.startswith("uvloop")
        self._will_look = False
        super().__init__(transfer, release, loop.call_soon_threadsafe)

    # receiving

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end, None if there were none for so many seconds.

        Raises:
            RequestException: the connection broke, or was closed.
        """
        if self._reader is not None:
            raise RuntimeError("another task receives on this connection")
        if self._piece is None and (self._holds_bytes or not self._watches):
            self._piece = Stream.receive_now(self)
        if seconds == 0:
            return self.receive_now()
        if self._piece is not None:
            # It stays in _piece meanwhile, so that a cancelled caller does not lose it.
            await asyncio.sleep(0)
        else:
            if self._error is not None:
                raise self._error
            if not self._watches:
                self._sockets.add_reader(self.descriptor, _on_readable, ref(self))
                self._watches = True
            if self._may_miss_reset and not self._will_look:
                self._will_look = True
                self._loop.call_later(_LOOK_AFTER, _look_again, ref(self))
            future = self._reader = self._loop.create_future()
            timer = None if seconds is None else self._loop.call_later(seconds, settle, future)
            try:
                await future
            finally:
                self._reader = None
                if timer is not None:
                    timer.cancel()
        piece, self._piece = self._piece, None
        if piece is None and self._error is not None:
            raise self._error
        return piece

    def _stop_watching(self) -> None:
        if self._watches:
            self._watches = False
            if not self._loop.is_closed():
                self._sockets.remove_reader(self.descriptor)

    # sending

    async def drain(self, seconds: float | None = None) -> bool:
        """Wait until everything written is sent; return False if it was not in time.

        Raises:
            RequestException: the connection broke, or was closed.
        """
        if not self._unsent:
            if self._should_yield():
                await asyncio.sleep(0)
            return True
        self._written = 0
        if self._error is not None:
            raise self._error
        if not self._awaits_room:
            self._sockets.add_writer(self.descriptor, _on_writable, ref(self))
            self._awaits_room = True
        future: asyncio.Future[None] = self._loop.create_future()
        self._writers.add(future)
        timer = None if seconds is None else self._loop.call_later(seconds, settle, future)
        try:
            await future
        finally:
            if timer is not None:
                timer.cancel()
            self._writers.discard(future)
            if not self._writers:
                self._stop_writing()
        if self._error is not None:
            raise self._error
        return not self._unsent

    def _on_writable(self) -> None:
        try:
            self._push()
        except Exception:  # stored in _error
            self._unsent.clear()
        if not self._unsent:
            self._stop_writing()
            for future in self._writers:
                settle(future)

    def _stop_writing(self) -> None:
        if self._awaits_room:
            self._awaits_room = False
            if self.descriptor >= 0 and not self._loop.is_closed():
                self._sockets.remove_writer(self.descriptor)

    # the end

    def _end_waits(self) -> None:
        self._stop_watching()
        self._stop_writing()
        for future in (self._reader, *self._writers):
            if future is not None:
                settle(future)


# The loop keeps its callbacks alive. They hold no stream, so that a dropped stream is collected.


def _on_readable(reference: ref[AsyncioStream]) -> None:
    stream = reference()
    if stream is None:
        return
    future = stream._reader
    if future is None or stream._piece is not None:
        # Nobody wants more now, so bytes wait in the socket, which slows the sender.
        stream._stop_watching()
        return
    try:
        piece = Stream.receive_now(stream)
    except Exception:  # stored in _error
        stream._stop_watching()
    else:
        if piece is None:
            return
        stream._piece = piece
        if not piece or len(piece) == PIECE:
            # At its end the socket stays readable; after a full piece there is more, which the next
            # caller finds without a turn of the loop.
            stream._stop_watching()
    settle(future)


def _look_again(reference: ref[AsyncioStream]) -> None:
    stream = reference()
    if stream is not None:
        stream._will_look = False
        if stream._watches:
            _on_readable(reference)


def _on_writable(stream: ref[AsyncioStream]) -> None:
    found = stream()
    if found is not None:
        found._on_writable()


class AnyioStream(LoopStream):
    """A connection for the tasks of an event loop of any kind that anyio knows.

    Args:
        transfer: see Stream.
        release: see Stream.
        call_soon: calls a function in the loop, from any thread.
    """

    def __init__(
        self,
        transfer: Transfer,
        release: Callable[[Transfer], object],
        call_soon: Callable[..., object],
    ) -> None:
        self._waits: set[anyio.CancelScope] = set()
        self._receives = False
        self._one_writer = anyio.Lock()
        super().__init__(transfer, release, call_soon)

    async def receive(self, seconds: float | None = None) -> bytes | None:
        """Return the next bytes, b"" at the end, None if there were none for so many seconds.

        Raises:
            RequestException: the connection broke, or was closed.
        """
        if self._receives:
            raise RuntimeError("another task receives on this connection")
        if seconds == 0:
            return self.receive_now()
        if self._piece is None:
            self._piece = Stream.receive_now(self)
        if self._piece is not None:
            # It stays in _piece meanwhile, so that a cancelled caller does not lose it.
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
        """Wait until everything written is sent; return False if it was not in time.

        Raises:
            RequestException: the connection broke, or was closed.
        """
        if not self._unsent:
            if self._should_yield():
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
        """Wait for the socket; return False if it took too long.

        Raises:
            RequestException: the connection was closed.
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

    def _end_waits(self) -> None:
        for scope in self._waits:
            scope.cancel()
