"""The engine of `Client`: each exchange runs in the calling thread, on a driver from a pool.

A transfer keeps its own connection on any driver, because sharing connections between threads
crashes libcurl. The engine's coroutines never suspend.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Generator
from time import monotonic
from typing import TypeVar
from weakref import WeakSet

from curlhttp._http.config import Limits
from curlhttp._http.errors import closed_while_reading, closed_with_client
from curlhttp._http.fork import register
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Response
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.connection_pool import ConnectionPool
from curlhttp._libcurl.connection_state import (
    OpenConnections,
    Quarantine,
    tell_state,
)
from curlhttp._libcurl.driver_pool import DriverPool, PooledDriver
from curlhttp._libcurl.errors import convert_driver_error
from curlhttp._libcurl.forked_child import leak, leak_transfer
from curlhttp._libcurl.handle import Shares
from curlhttp._libcurl.incoming import OpenTransfer, Taken
from curlhttp._libcurl.result import (
    check_opened,
    count_failure,
    make_response,
    raise_failure,
    take_plain_response,
)
from curlhttp._libcurl.slots import count_failed_wait
from curlhttp._libcurl.transfer import Transfer, TransferLease
from curlhttp._runtime.engine import (
    ByteStream,
    EngineState,
    Incoming,
    Runtime,
    Totals,
    count_outcome,
    to_connector,
)
from curlhttp._runtime.network import network, now
from curlhttp._runtime.race import Race, get_attempt, refuse_to_wait
from curlhttp._runtime.run import step
from curlhttp._runtime.thread import THREAD
from curlhttp.exceptions import RequestException

A = TypeVar("A")


class BlockingEngine:
    """Move bytes in the calling thread; usable from many threads at once.

    Args:
        limits: the client's limits.
        keeps_streams: connections for other protocols outlive `close`.
    """

    def __init__(self, limits: Limits, *, keeps_streams: bool = False) -> None:
        self._limits = limits
        self._keeps_streams = keeps_streams
        self.totals = Totals()
        self._open()
        register(self)

    @property
    def runtime(self) -> Runtime:
        """Return the time, and waits of the calling thread."""
        return THREAD._replace(make_race=self._make_race)

    def _make_race(self) -> Race:
        return network.make_race() or _ThreadRace(self)

    def _open(self) -> None:
        self._pool = ConnectionPool(self._limits, self._make)
        self._drivers = DriverPool(self._limits)
        self._streams: WeakSet[ByteStream] = WeakSet()
        self._quarantine = Quarantine()
        # Of streamed responses. No lock, because each change is one step of the interpreter.
        self._opened: set[Transfer] = set()

    def _make(self) -> Transfer:
        # The share holds the connections, whichever driver the transfer runs on. Each transfer has
        # its own, because libcurl crashes when threads use one share at the same time.
        share = pycurl.CurlShare()
        share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_CONNECT)
        transfer = Transfer(self._limits, Shares(share), self.totals)
        transfer.connections = OpenConnections(self._quarantine)
        return transfer

    # buffered exchanges

    async def perform(self, request: ClientRequest) -> Response:
        """Send the request and return the response with its body in memory.

        Args:
            request: complete.

        Raises:
            RequestException: the exchange failed.
        """
        if (override := network.override) and (other := override.engine_for(request, self)):
            if not hasattr(other, "returns_to_engine"):
                return await count_outcome(other.perform, request, self.totals)
            return await other.perform(request)
        transfer = self._start(request)
        driver: PooledDriver = transfer.driver
        lease = transfer.lease
        try:
            while not transfer.done:
                driver.step()
            if transfer.is_plain:
                response = take_plain_response(transfer)
            else:
                response = make_response(transfer)
                transfer.clean()
            transfer.driver = None
            self._drivers.release(driver)
            self._pool.release(lease)
        except BaseException as error:
            self._fail(lease, error)
            raise
        return response

    def _fail(self, lease: TransferLease, error: BaseException) -> None:
        """Drop a leased transfer in any state, and count its failure, unless the pool has it."""
        try:
            if lease.transfer is not None:
                count_failure(lease.transfer, error)
        finally:
            self._pool.drop(lease)

    def _drop(self, transfer: Transfer) -> None:
        self._pool.drop(transfer.lease)

    def _start(self, request: ClientRequest) -> Transfer:
        lease: TransferLease | None = None
        try:
            lease = self._pool.acquire(request)
            transfer = lease.transfer
            assert transfer is not None
            transfer.prepare(request)
            driver = transfer.driver = self._drivers.acquire()
            transfer.wake = _ignore
            driver.start(transfer)
        except BaseException as error:
            if lease is None:
                _, seconds = getattr(error, "_waited", None) or ("", 0.0)
                count_failed_wait(self.totals.outcomes, request, error, monotonic() - seconds)
                raise
            made = convert_driver_error(error, request)
            self._fail(lease, made)
            if made is not error:
                raise made from error
            if isinstance(error, RequestException) and error.request is None:
                error.request = request
            raise
        return transfer

    # streamed exchanges

    async def open(self, request: ClientRequest) -> Incoming:
        """Send the request and return once the head of the response has arrived.

        Args:
            request: complete.

        Raises:
            RequestException: the exchange failed before that.
        """
        if (override := network.override) and (other := override.engine_for(request, self)):
            if not hasattr(other, "returns_to_engine"):
                return await count_outcome(other.open, request, self.totals)
            return await other.open(request)
        if request.extensions is not None and (attempt := get_attempt(request)) is not None:
            race = attempt.race
            if isinstance(race, _ThreadRace) and race.engine is self:
                return await race.open(request)
        transfer = self._start(request)
        driver: PooledDriver = transfer.driver
        try:
            while transfer.head is None and not transfer.done:
                driver.step()
            transfer.wake = None  # nobody waits from here until the caller reads
            check_opened(transfer)
            self._opened.add(transfer)
        except BaseException as error:
            self._remove_opened(transfer)
            self._fail(transfer.lease, error)
            raise
        return OpenTransfer(self, transfer)

    async def read(self, incoming: Transfer, take: Callable[[Transfer], Taken]) -> Taken:
        """Return what `take` takes of the body as received; at the end, that is nothing.

        Raises:
            RequestException: the body is incomplete, or the server was silent for too long.
            StreamConsumedError: another thread has closed the response.
        """
        driver: PooledDriver = incoming.driver
        request, lease = incoming.request, incoming.lease
        try:
            incoming.wake = _ignore  # first: see `abort`
            if incoming not in self._opened:  # closed, or opened by this process's parent
                raise incoming.failed or closed_while_reading(request)
            if not incoming.pieces:
                incoming.begin_wait()
                while not (incoming.pieces or incoming.done):
                    driver.step()
                incoming.end_wait()
            if incoming not in self._opened:
                raise closed_while_reading(request)
            taken = take(incoming)
            if taken:
                incoming.wake = None
                if incoming in self._opened:
                    return taken
            if not self._remove_opened(incoming):
                raise closed_while_reading(request)
            if incoming.has_enough:  # its connection has ended
                self._pool.drop(lease)
            else:
                incoming.clean()
                incoming.driver = None
                owner = driver.pool
                owner.release(driver)
                if isinstance(owner, _ThreadRace):
                    owner.keep(lease)
                else:
                    self._pool.release(lease)
        except BaseException as error:
            self._remove_opened(incoming)
            self._fail(lease, error)
            raise
        return taken

    def abort(self, incoming: Transfer) -> None:
        """Abandon a response, from any thread.

        Its connection is closed, unless the rest of the body has already arrived.
        """
        # A reading thread sets `wake` before it checks whether the response is still open. So it
        # either finds the response closed, or is found here, and drops the transfer itself.
        if not self._remove_opened(incoming):
            return
        if incoming.wake is None:
            lease = incoming.lease
            try:
                if self._pool.replace(lease, self._make_successor):
                    self._pool.release(lease)
            except BaseException:  # Ctrl-C
                self._pool.drop(lease)
                raise
            return
        driver: PooledDriver | None = incoming.driver
        incoming.done = True
        if driver is not None:
            driver.shut_down_sockets(incoming)

    def _make_successor(self, incoming: Transfer) -> Transfer | None:
        """Return a transfer that keeps the connection of an abandoned one; None if it is lost.

        The abandoned one cannot be used again, because a thread that is just about to read its
        response would read that of the next request.
        """
        driver: PooledDriver = incoming.driver
        if not driver.keeps_connection(incoming):
            return None
        successor = Transfer(self._limits, incoming.shares, self.totals)
        successor.connections = incoming.connections
        return successor

    def abort_from_finalizer(self, incoming: Transfer) -> None:
        """Abandon a response from a finalizer, which may run in any thread."""
        # With Ctrl-C, the body may have ended without the response having heard of it.
        if self._remove_opened(incoming):
            self._pool.drop_from_finalizer(incoming)

    def _remove_opened(self, transfer: Transfer) -> bool:
        """Remove a streamed response; return True to the one caller that removed it."""
        try:
            self._opened.remove(transfer)
        except KeyError:
            return False
        return True

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
        from curlhttp._libcurl.streams.blocking import ThreadStream
        from curlhttp._libcurl.streams.stream import make_connection_request

        transfer = self._start(make_connection_request(request))
        try:
            # It keeps its driver, because its removal would close the connection.
            while not transfer.done:
                transfer.driver.step()
            raise_failure(transfer)
            stream = ThreadStream(transfer, self._drop, self._pool.drop_from_finalizer)
        except BaseException as error:
            self._fail(transfer.lease, error)
            raise
        self._streams.add(stream)
        return stream

    # the end

    @property
    def is_closed(self) -> bool:
        """Return whether no more requests are sent."""
        return self._pool.is_closed

    def transfers(self) -> set[Transfer]:
        """Return all transfers; may be called from any thread."""
        return self._pool.all.copy()

    def tell_state(self) -> EngineState:
        """Return what statistics need; may be called from any thread."""
        every, idle = self._pool.all.copy(), self._pool.idle()
        used = [transfer.connection for transfer in every if transfer not in idle]
        connections = [transfer.connections for transfer in every]
        return tell_state(connections, used, self._pool.slots.waits())

    def close(self) -> None:
        """Close the idle connections now, and those in use when their exchange ends.

        Connections for other protocols end at once, because they have no exchange that ends;
        unless the engine was made with `keeps_streams`.
        """
        self._pool.close()
        self._drivers.close()
        if self._keeps_streams:
            return
        for stream in tuple(self._streams):
            stream.abort(closed_with_client())

    def close_from_finalizer(self) -> None:
        """Close the connections, unless this thread may be acquiring or releasing one."""
        if self._pool.close_from_finalizer():
            self._drivers.close()

    def _after_fork_in_child(self) -> None:
        """Leave the connections to the parent process, and start with new ones."""
        # A client that was closed before the fork stays closed.
        is_closed = self._pool.is_closed
        for transfer in self._pool.all:
            leak_transfer(transfer)
        for driver in self._drivers.all:
            leak(driver, driver.multi)
        self._open()
        self._pool.is_closed = is_closed

    def after_fork_in_parent(self) -> None:
        """Do nothing, because no idle socket is watched."""


# --- The attempts of one request that run at the same time, all on the driver of the first one ---


class _ThreadPause:
    """Awaited by an attempt until there may be news for it."""

    def __await__(self) -> Generator[_ThreadPause, None, None]:
        yield self


_PAUSE = _ThreadPause()


class _ThreadRace:
    """Step coroutines in the calling thread, whenever something happened on their driver.

    Args:
        engine: has the connections.

    Attributes:
        engine: as given.
    """

    def __init__(self, engine: BlockingEngine) -> None:
        self.engine = engine
        self._coroutines: list[Coroutine[object, None, None]] = []
        self._transfers: list[Transfer] = []
        self._kept: list[TransferLease] = []
        self._driver: PooledDriver | None = None
        self._is_woken = self._is_over = False

    async def __aenter__(self) -> None:
        """Begin."""

    async def __aexit__(self, *exc: object) -> None:
        """Close the coroutines that have not ended. A response that is left keeps the driver."""
        try:
            while self._coroutines:
                self._coroutines[-1].close()
                del self._coroutines[-1]
        finally:
            self._is_over = True
            try:
                for lease in self._kept:
                    self.keep(lease)
            except BaseException:  # Ctrl-C
                for lease in self._kept:
                    self.engine._pool.drop(lease)
                raise
            if (driver := self._driver) is not None:
                self.release(driver)

    def start(self, call: Callable[[A], Awaitable[None]], argument: A) -> None:
        """Start a coroutine."""
        self._coroutines.append(call(argument))  # type: ignore[arg-type]  # most are coroutines
        self._step(self._coroutines[-1])

    def _step(self, coroutine: Coroutine[object, None, None]) -> None:
        if step(coroutine, _PAUSE):
            self._coroutines.remove(coroutine)

    async def wait(self, seconds: float | None) -> None:
        """Wait until an attempt calls `wake`, or for so many seconds."""
        end = math.inf if seconds is None else monotonic() + seconds
        while not self._is_woken and (left := end - monotonic()) > 0:
            driver = self._driver
            if driver is None:  # no attempt is running any more
                break
            due = driver.wait_seconds()
            left = left if due is None else min(left, due)
            driver.run_once(None if left == math.inf else left)
            for coroutine in tuple(self._coroutines):
                self._step(coroutine)
        self._is_woken = False

    def wake(self) -> None:
        """End the wait."""
        self._is_woken = True

    # exchanges

    async def open(self, request: ClientRequest) -> Incoming:
        """Send the request and return once its head has arrived; see BlockingEngine."""
        engine = self.engine
        transfer = self._start(request)
        try:
            while transfer.head is None and not transfer.done:
                await _PAUSE
            transfer.wake = None
            check_opened(transfer)
            engine._opened.add(transfer)
        except BaseException as error:
            self._fail(transfer, error)
            raise
        return OpenTransfer(self, transfer)

    def _start(self, request: ClientRequest) -> Transfer:
        """Start an attempt; only the first one may wait for a slot."""
        engine, driver = self.engine, self._driver
        transfer = engine._start(request) if driver is None else self._acquire(request, driver)
        try:
            self._transfers.append(transfer)
            if driver is None:
                driver = self._driver = transfer.driver
                driver.pool = self
            else:
                transfer.prepare(request)
                transfer.wake = _ignore
                driver.add(transfer)
                transfer.driver = driver
            attempt = get_attempt(request)
            if attempt is not None:
                attempt.begin(now())
        except BaseException as error:
            self._fail(transfer, error)
            raise
        return transfer

    def _acquire(self, request: ClientRequest, driver: PooledDriver) -> Transfer:
        """Return a transfer for one more attempt, on an HTTP/2 connection of another if it can."""
        engine, pool = self.engine, self.engine._pool
        origin = request.url.origin
        for first in self._find_running(driver):
            is_shareable = first.handle.multiplexes and first.attempt.is_out
            if not is_shareable or first.key != (origin, id(request.route)):
                continue
            if not pool.acquire_slot(origin):
                refuse_to_wait(request, "a connection")
                break
            try:
                rival = Transfer(engine._limits, first.shares, engine.totals)
            except BaseException:
                pool.release_slot(origin)
                raise
            rival.connections = first.connections
            pool.add_in_slot(rival, first)
            # Some for a server that has chosen HTTP/1.1, although HTTP/2 was offered.
            driver.set_max_connections(1 + len(self._transfers))
            return rival
        transfer = pool.acquire(request).transfer
        assert transfer is not None
        return transfer

    def _find_running(self, driver: PooledDriver) -> list[Transfer]:
        return [each for each in self._transfers if each.driver is driver]

    def _fail(self, transfer: Transfer, error: BaseException) -> None:
        self.engine._remove_opened(transfer)
        self.engine._fail(transfer.lease, error)

    async def read(self, transfer: Transfer, take: Callable[[Transfer], Taken]) -> Taken:
        """Read as BlockingEngine does; while others run, let them continue."""
        if not (transfer.pieces or self._is_over):
            try:
                transfer.wake = _ignore
                transfer.begin_wait()
                while not (transfer.pieces or transfer.done or self._is_over):
                    await _PAUSE
                transfer.end_wait()
            except BaseException as error:
                self._fail(transfer, error)
                raise
        return await self.engine.read(transfer, take)

    def abort(self, transfer: Transfer) -> None:
        """Abandon a response."""
        if not self._shares(transfer):
            self.engine.abort(transfer)
        elif self.engine._remove_opened(transfer):
            self.engine._drop(transfer)

    def abort_from_finalizer(self, transfer: Transfer) -> None:
        """Abandon a response, from a finalizer."""
        self.engine.abort_from_finalizer(transfer)

    def keep(self, lease: TransferLease) -> None:
        """Keep a transfer whose response is complete, and release it when the race is over."""
        transfer = lease.transfer
        if not self._is_over:
            self._kept.append(lease)
        elif transfer is None:  # it was dropped
            return
        elif self._shares(transfer):
            self.engine._pool.drop(lease)
        else:
            self.engine._pool.release(lease)

    def _shares(self, transfer: Transfer) -> bool:
        """Return whether another attempt has the connections of a transfer, too.

        Only the last one returns to the pool, because libcurl crashes if threads use one share.
        """
        shares = transfer.shares
        return any(
            each is not transfer and getattr(each, "shares", None) is shares
            for each in self._transfers
        )

    # what the driver returns to

    def release(self, driver: PooledDriver) -> None:
        """Return the driver, unless an attempt or a response that is left still uses it."""
        if self._find_running(driver):
            return
        self._driver = None
        driver.pool = self.engine._drivers
        driver.set_max_connections(1)
        driver.pool.release(driver)


def _ignore() -> None:
    """Do nothing. A `wake` means that a caller waits, so that the read timeout applies."""
