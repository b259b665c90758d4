"""Base class of the engines for event loops: waits with timeouts, and request bodies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar
from weakref import WeakSet

import anyio

from curlhttp._http.body import Body
from curlhttp._http.config import Limits
from curlhttp._http.errors import client_closed, closed_with_client
from curlhttp._http.exiting import start_thread
from curlhttp._http.request import ClientRequest
from curlhttp._libcurl.attempt import RESTART
from curlhttp._libcurl.engines.body_feed import BodyFeed
from curlhttp._libcurl.engines.multi import MultiEngine
from curlhttp._libcurl.result import raise_failure
from curlhttp._libcurl.socket_thread import SocketThread
from curlhttp._libcurl.transfer import Transfer
from curlhttp._libcurl.upload import Upload
from curlhttp._runtime.engine import ByteStream, Runtime, to_connector
from curlhttp._runtime.loops import SharedWaiter, in_thread, make_race, sleep
from curlhttp._runtime.network import network, now, wall
from curlhttp._runtime.race import Race
from curlhttp.exceptions import ConnectionError

T = TypeVar("T")


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
            feed = BodyFeed(transfer, body, self._driver, self._make_local_waiter)
            transfer.upload = Upload(feed.take, feed)

    async def _pump(self, transfer: Transfer) -> None:
        """Feed the body to libcurl until the exchange ends, or the head of a stream has arrived.

        Feed it again if the server refused the request without processing it.
        """
        while True:
            upload = transfer.upload
            assert upload is not None
            feed = upload.feed
            assert isinstance(feed, BodyFeed)
            feed.start()
            try:
                while transfer.head is None and not transfer.done:
                    await self._wait_for(transfer)
                if not transfer.done:
                    return  # the rest is sent while the caller reads the response
                await feed.finish()
            except BaseException:
                await feed.abandon()
                raise
            if transfer.conclude_in_task() != RESTART:
                return
            assert transfer.request is not None
            if self.is_closed:  # while the body was being closed; no driver runs any more
                raise client_closed(transfer.request)
            self._set_feed(transfer, transfer.request.body)
            transfer.restart()
            self._driver.add(transfer)

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
        from curlhttp._libcurl.streams.stream import make_connection_request

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
        if self._end():
            with anyio.CancelScope(shield=True):
                try:
                    await in_thread(self._free)
                except ConnectionError:  # no thread can start
                    self._free()

    def _end(self) -> bool:
        """Fail all requests, those that wait for a slot too; return False if that was done."""
        if self.is_closed:
            return False
        self._shut()
        self._pool.slots.lift_limits()
        return True

    @property
    def running(self) -> int:
        """Return how many requests are running."""
        return len(self._driver.running)

    def close_soon(self) -> bool:
        """Close all connections in the loop, which runs in another thread; False if it has ended.

        Requests that are running raise ClientClosed.
        """
        try:
            self._call_soon(self._close_in_loop)
        except RuntimeError:
            return False
        return True

    def _close_in_loop(self) -> None:
        if self._end():
            try:
                start_thread(self._free, "curlhttp-close")
            except ConnectionError:
                self._free()

    def _free(self) -> None:
        super()._free()
        poller = self._driver.poller
        if isinstance(poller, SocketThread):
            poller.join()

    @abstractmethod
    def has_ended(self) -> bool:
        """Return whether the event loop has ended for good."""

    # finalizers, which may run in any thread

    def abort_from_finalizer(self, incoming: Transfer) -> None:
        """Abandon a response from a finalizer."""
        if not self.is_closed:
            with suppress(RuntimeError):  # the loop has ended
                self._call_soon(partial(self.abort, incoming))

    def __del__(self) -> None:
        if getattr(self, "is_closed", True):  # it has no driver yet, or none any more
            return
        try:
            self._call_soon(self._driver.discard)  # the loop keeps the driver alive
        except RuntimeError:  # the loop has ended; uvloop would keep it forever
            self._driver.discard()


def _make_race() -> Race:
    return network.make_race() or make_race()
