"""The engine for asyncio, including uvloop: callbacks of the loop, without a task."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from time import monotonic
from types import MethodType
from typing import TYPE_CHECKING

from curlhttp._http.config import Limits
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._libcurl.driver import Driver
from curlhttp._libcurl.engines.event_loop import EventLoopEngine
from curlhttp._libcurl.errors import convert_driver_error
from curlhttp._libcurl.result import make_response
from curlhttp._libcurl.socket_thread import SocketThread
from curlhttp._libcurl.transfer import Transfer
from curlhttp._libcurl.transfer_pool import Wakeable
from curlhttp._runtime.loops import FutureWaiter, settle

if TYPE_CHECKING:
    from curlhttp._libcurl.streams.event_loop import AsyncioStream

_LEAST = 0.001  # seconds of a timer


class _LoopDriver(Driver):
    """A driver that the loop runs, with one reader and one timer.

    The timer is only set again to fire earlier, because most of libcurl's timers are replaced long
    before they are due, and a timer that fires too early costs less than two changes.
    """

    def __init__(self, limits: Limits, connections: int, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._soon = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = math.inf
        super().__init__(limits, connections)
        try:
            loop.add_reader(self.poller.fileno(), self.run_once)
        except NotImplementedError:  # of the loop, or of this platform's poller
            self.watch_in_thread(loop.call_soon_threadsafe, self.run_once)

    def rearm(self, due: float) -> None:
        if due >= self._timer_due or self._soon:
            return
        delay = due - monotonic()
        if delay <= 0:
            self._soon = True
            self._loop.call_soon(self._run_soon)
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        # uvloop rounds less than half a millisecond to zero, and would spin until it is over.
        self._timer = self._loop.call_later(max(_LEAST, delay), self._on_timeout)

    def _run_soon(self) -> None:
        # The sockets are left to the reader, which gets more data at once.
        self._soon = False
        if self.is_attached:
            self.run_due()
            due = self.due()
            if due is not None and due <= monotonic():
                self.run_once()  # only the sockets show whether a server is silent
            self._set_timer()

    def _on_timeout(self) -> None:
        # The clock may show less: uvloop rounds to milliseconds, and calls too early.
        self._timer, self._timer_due = None, math.inf
        if self.is_attached:
            self.run_once()
            self._set_timer()

    def _set_timer(self) -> None:
        due = self.due()
        if due is not None:
            self.rearm(due)

    def detach(self) -> None:
        """Remove everything from the loop."""
        super().detach()
        self._timer_due = -math.inf  # no more timers
        if self._timer is not None:
            self._timer.cancel()
        if not isinstance(self.poller, SocketThread) and not self._loop.is_closed():
            self._loop.remove_reader(self.poller.fileno())


class AsyncioEngine(EventLoopEngine):
    """Move bytes for the tasks of one asyncio loop.

    Args:
        limits: the client's limits.
        multiplexes: see MultiEngine.
        loop: the running loop.
    """

    def __init__(
        self, limits: Limits, *, multiplexes: bool, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._loop = loop
        self._create_future = loop.create_future
        super().__init__(limits, multiplexes=multiplexes)

    def _make_driver(self, limits: Limits, connections: int) -> Driver:
        return _LoopDriver(limits, connections, self._loop)

    def _make_local_waiter(self) -> FutureWaiter:
        return FutureWaiter(self._loop)

    def _wait_for(self, waited: Wakeable) -> asyncio.Future[None]:
        future = self._loop.create_future()
        # It takes a third of a partial's memory; there may be thousands.
        waited.wake = MethodType(settle, future)
        return future

    async def _wait_at_most(self, seconds: float, waited: Wakeable) -> None:
        future = self._wait_for(waited)
        timer = self._loop.call_later(seconds, settle, future)
        try:
            await future
        finally:
            timer.cancel()

    # exchanges

    async def perform(self, request: ClientRequest) -> Response:
        """Send the request and return the response with its body in memory.

        Args:
            request: complete.

        Raises:
            RequestException: the exchange failed.
        """
        pool = self._pool
        ready = pool.ready
        transfer = self._take_ready(request)
        if transfer is None:
            return await super().perform(request)
        try:
            transfer.prepare(request)
            future: asyncio.Future[Response | None] = self._create_future()
            transfer.future = future
            transfer.wake = transfer.settle
            self._driver.add(transfer)
            response = await future
            if response is None:  # something unusual has happened
                response = make_response(transfer)
                transfer.clean()
        except BaseException as error:
            made = convert_driver_error(error, request)
            self._fail(transfer, made)
            if made is not error:
                raise made from error
            raise
        if pool.slots.waiters or ready is not pool.ready or self.is_closed:
            self._release(transfer)
        else:  # the same without a call
            ready.append(transfer)
            pool.slots.used -= 1
        return response

    def _call_soon(self, call: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(call)

    def _stream(self, transfer: Transfer) -> AsyncioStream:
        from curlhttp._libcurl.streams.event_loop import AsyncioStream

        poller = self._driver.poller
        sockets = poller if isinstance(poller, SocketThread) else self._loop
        return AsyncioStream(transfer, self._drop, self._loop, sockets)

    def has_ended(self) -> bool:
        """Return whether the event loop has ended for good."""
        return self._loop.is_closed()
