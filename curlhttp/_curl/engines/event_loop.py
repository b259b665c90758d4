"""Base class of the engines for event loops: waits with timeouts, and request bodies.

Reading a body may block or await, so a separate task reads it while the caller's task waits.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic
from typing import Protocol, TypeVar
from weakref import WeakSet

import anyio

from curlhttp._curl.attempt import RESTART
from curlhttp._curl.engines.multi import MultiEngine
from curlhttp._curl.result import raise_failure
from curlhttp._curl.socket_thread import SocketThread
from curlhttp._curl.transfer import Transfer
from curlhttp._curl.upload import Upload
from curlhttp._engine.engine import ByteStream, Runtime, Waiter, to_connector
from curlhttp._engine.network import network, now, wall
from curlhttp._engine.race import Race
from curlhttp._models.body import Body
from curlhttp._models.config import Limits
from curlhttp._models.errors import closed_with_client
from curlhttp._models.request import ClientRequest
from curlhttp._runtime.loops import EventWaiter, SharedWaiter, in_thread, make_race, sleep
from curlhttp.exceptions import ConnectionError

T = TypeVar("T")

_PIECE = 64 * 1024  # bytes of a body that are read at once


class _OpenStream(ByteStream, Protocol):
    """A stream whose socket the loop watches.

    Attributes:
        descriptor: the socket.
    """

    descriptor: int


class EventLoopEngine(MultiEngine):
    """Move bytes for the tasks of one event loop.

    Args:
        limits: the client's limits.
        multiplexes: see MultiEngine.
    """

    def __init__(self, limits: Limits, *, multiplexes: bool) -> None:
        self._streams: WeakSet[_OpenStream] = WeakSet()
        super().__init__(limits, multiplexes=multiplexes)

    # waits

    @property
    def runtime(self) -> Runtime:
        """Return the time, and waits of the tasks of this loop."""
        return Runtime(now, wall, sleep, self._make_waiter, _make_race)

    def _make_waiter(self) -> SharedWaiter:
        """Return a new waiter for the caller."""
        return SharedWaiter(self._make_local_waiter(), self._call_soon)

    @abstractmethod
    def _call_soon(self, call: Callable[[], object]) -> None:
        """Call a function in the loop, from any thread; RuntimeError if the loop has ended."""

    # request bodies that come piece by piece

    def _set_feed(self, transfer: Transfer, body: Body | None) -> None:
        if body is not None and body.data is None:
            feed = _BodyQueue(self._make_local_waiter)
            transfer.upload = Upload(feed, is_fed_by_task=True)

    async def _pump(self, transfer: Transfer) -> None:
        """Feed the body to libcurl until it has all of it, or until the exchange ends.

        Feed it again if the server refused the request without processing it.
        """
        await self._pump_once(transfer)
        while True:
            while not transfer.done and transfer.head is None:
                await self._wait_for(transfer)
            if not transfer.done or transfer.conclude_in_task() != RESTART:
                break
            assert transfer.request is not None
            self._set_feed(transfer, transfer.request.body)
            transfer.restart()
            self._driver.add(transfer)
            await self._pump_once(transfer)

    async def _pump_once(self, transfer: Transfer) -> None:
        request, upload = transfer.request, transfer.upload
        assert request is not None
        assert request.body is not None
        assert upload is not None
        feed = upload.read
        assert isinstance(feed, _BodyQueue)
        body, deadline = request.body, request.deadline
        upload.is_in_task = True
        try:
            async with anyio.create_task_group() as tasks:
                if deadline is not None:
                    left = max(0.0, deadline - monotonic())
                    tasks.cancel_scope.deadline = anyio.current_time() + left
                tasks.start_soon(self._feed, transfer, body, feed)
                while not (feed.has_ended or transfer.done):
                    await self._wait_for(transfer)
                feed.stop()
                if body.is_async:
                    tasks.cancel_scope.cancel()
        finally:
            upload.is_in_task = False
            await body.aclose()

    async def _feed(self, transfer: Transfer, body: Body, feed: _BodyQueue) -> None:
        try:
            while not feed.is_stopped:
                piece = await next_piece(body)
                if feed.is_stopped:
                    break  # type: ignore[unreachable]  # it may have been stopped meanwhile
                waiter = feed.put(piece)
                if transfer.upload is not None and transfer.upload.is_starving:
                    self._driver.resume(transfer)
                if not piece:
                    break
                await waiter.wait()
        # Raised by the caller's body, even if it is a CancelledError. It ends the transfer.
        except BaseException as error:
            if _is_cancelled(error):
                raise
            if feed.is_stopped:
                return  # the response is already there
            transfer.failed = error
            transfer.done = True
            self._driver.remove(transfer)
        if transfer.wake is not None:
            transfer.wake()

    # connections for other protocols

    async def connect(self, request: ClientRequest) -> ByteStream:
        """Open a separate connection to a request's origin, and send nothing on it.

        Args:
            request: complete; its route, timeouts and deadline apply.

        Raises:
            RequestException: the connection failed.
        """
        if (override := network.override) and (other := override.engine_for(request, self)):
            return await to_connector(other).connect(request)
        from curlhttp._curl.streams.stream import make_connection_request

        request = make_connection_request(request)
        transfer = await self._start(request)
        try:
            while not transfer.done:
                await self._wait_for(transfer)
            raise_failure(transfer)
            stream = self._stream(transfer)
            self._driver.forget(stream.descriptor)
        except BaseException as error:
            self._fail(transfer, error)
            raise
        self._streams.add(stream)
        return stream

    @abstractmethod
    def _stream(self, transfer: Transfer) -> _OpenStream:
        """Return the stream of a transfer that has connected."""

    # the end

    def _shut(self) -> None:
        """Fail all running transfers, in the loop's thread."""
        for stream in tuple(self._streams):
            stream.abort(closed_with_client())
        super()._shut()

    async def aclose(self) -> None:
        """Close all connections without blocking the loop.

        A thread does it, because libcurl's close waits for name lookups.
        """
        if self.is_closed:
            return
        self._shut()
        self._pool.slots.lift_limits()
        with anyio.CancelScope(shield=True):
            try:
                await in_thread(self._free)
            except ConnectionError:  # no thread can start
                self._free()

    def _free(self) -> None:
        super()._free()
        poller = self._driver.poller
        if isinstance(poller, SocketThread):
            poller.join()

    @abstractmethod
    def has_ended(self) -> bool:
        """Return whether the event loop has ended for good."""


def _make_race() -> Race:
    return network.make_race() or make_race()


class _BodyQueue:
    """The pieces between a body that is read in a task and libcurl's read callback."""

    def __init__(self, make_waiter: Callable[[], Waiter]) -> None:
        self._make_waiter = make_waiter
        self._piece = b""
        self.has_ended = False
        self.is_stopped = False
        self._waiter = make_waiter()

    def put(self, piece: bytes) -> Waiter:
        """Add a piece, b"" for the end; the returned waiter is woken when libcurl has it."""
        self._piece = piece
        self.has_ended = not piece
        self._waiter = self._make_waiter()
        return self._waiter

    def stop(self) -> None:
        """Accept no more pieces; a read that is in progress may end."""
        self.is_stopped = True
        self._waiter.wake()

    def __call__(self, size: int) -> bytes | None:
        """Return at most size bytes, b"" at the end, None for none yet."""
        piece = self._piece[:size]
        if not piece:
            return b"" if self.has_ended else None
        self._piece = self._piece[size:]
        if not self._piece:
            self._waiter.wake()
        return piece


def _is_cancelled(error: BaseException) -> bool:
    """Return whether an error was raised because this task of a task group is cancelled."""
    if not isinstance(error, anyio.get_cancelled_exc_class()):
        return False
    return anyio.current_effective_deadline() == -math.inf


async def next_piece(body: Body) -> bytes:
    """Return the next piece of a body that is awaited, or read in a thread; b"" at its end."""
    if body.is_async:
        return await body.next()
    # A file or an iterator may block, so a thread reads it. Cancellation and the deadline abandon
    # the thread, because the body is not sent again after them.
    return await in_thread(body.read, _PIECE, abandon_on_cancel=True)


# --- Waiters for trio: a task waits until another one wakes it ---


class WakeOrder:
    """The order in which the waiting tasks of an engine continue.

    Attributes:
        woken: the woken waiters whose tasks have not continued yet.
        early: events of tasks that ran before their turn.
    """

    __slots__ = ("early", "woken")

    def __init__(self) -> None:
        self.woken: OrderedDict[OrderedWaiter, None] = OrderedDict()
        self.early: list[anyio.Event] = []


class OrderedWaiter(EventWaiter):
    """A waiter whose task continues after those that were woken earlier.

    trio runs tasks that were woken together in any order. A task that runs before its turn waits
    again until the next one has continued.
    """

    __slots__ = ("_has_task", "_order")

    def __init__(self, order: WakeOrder) -> None:
        super().__init__()
        self._order = order
        self._has_task = False

    def wake(self) -> None:
        """Wake the task; never blocks, may be called twice."""
        if self._has_task:  # otherwise no task would remove the waiter
            self._order.woken[self] = None
        super().wake()

    async def _wait(self) -> None:
        """Wait until it is woken and it is the task's turn."""
        woken, early = self._order.woken, self._order.early
        self._has_task = True
        try:
            await super()._wait()
            while self in woken and next(iter(woken)) is not self:
                early.append(event := anyio.Event())
                await event.wait()
        finally:
            self._has_task = False
            woken.pop(self, None)
            while early:
                early.pop().set()
