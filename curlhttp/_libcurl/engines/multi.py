"""Base class of the engines that run many requests on one curl_multi.

Subclasses decide how a coroutine waits. An engine belongs to one event loop, or to one thread at a
time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import TypeVar
from weakref import WeakMethod

from curlhttp._http.body import Body
from curlhttp._http.config import Limits
from curlhttp._http.errors import client_closed, closed_while_reading
from curlhttp._http.fork import register
from curlhttp._http.request import IF_LARGE, ClientRequest
from curlhttp._http.response import Response
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.connection_state import OpenConnections, Quarantine, tell_state
from curlhttp._libcurl.driver import Driver
from curlhttp._libcurl.errors import convert_driver_error
from curlhttp._libcurl.forked_child import leak, leak_transfer
from curlhttp._libcurl.handle import Shares
from curlhttp._libcurl.incoming import OpenTransfer, Taken
from curlhttp._libcurl.result import (
    check_opened,
    count_failure,
    make_response,
    take_small_response,
)
from curlhttp._libcurl.slots import (
    Slots,
    count_failed_wait,
    find_unread,
    limit_by_open_files,
    no_slot_error,
    warn_of_wait,
)
from curlhttp._libcurl.transfer import Transfer
from curlhttp._libcurl.transfer_pool import OwnConnections, QueuedRequest, TransferPool, Wakeable
from curlhttp._runtime.engine import (
    EngineState,
    Incoming,
    ReceivedWhole,
    Runtime,
    Totals,
    Waiter,
    count_outcome,
)
from curlhttp._runtime.log import WARN_AFTER, WARN_AGAIN
from curlhttp._runtime.network import network, now
from curlhttp._runtime.race import get_attempt, refuse_to_wait
from curlhttp.exceptions import ClientClosed

T = TypeVar("T")


def _make_weak(method: Callable[[T], object]) -> Callable[[T], None]:
    """Return a function that calls a method while its object exists.

    The loop keeps the driver alive, and must not keep the engine.
    """
    reference = WeakMethod(method)

    def call(argument: T) -> None:
        if (found := reference()) is not None:
            found(argument)

    return call


class MultiEngine(ABC):
    """Move bytes for many coroutines at once; requests start in the order in which they arrive.

    Args:
        limits: the client's limits.
        multiplexes: requests may share connections; then libcurl applies the limit per host.
    """

    def __init__(self, limits: Limits, *, multiplexes: bool) -> None:
        self._limits = limits
        self._multiplexes = multiplexes
        self._max_connections = limit_by_open_files(limits.max_connections)
        slots = Slots(self._max_connections, limits.max_connections_per_host, self._start_queued)
        self._pool = (
            TransferPool(self._make, slots)
            if multiplexes
            else OwnConnections(
                self._make,
                slots,
                self._max_connections,
                limits.max_keepalive_connections or self._max_connections,
            )
        )
        # The pool while any transfer of it may carry any request that is in `ready`.
        self._straight_pool = (
            self._pool if self._pool.keeps_all and slots.per_origin is None else None
        )
        self._shares = Shares()
        self.totals = Totals()
        self._watches_queue = False
        self.is_closed = True  # for the finalizer, if there is no descriptor for a driver
        self._driver = self._start_driver()
        self.is_closed = False
        register(self)

    def _make(self) -> Transfer:
        shares = self._shares
        if not self._multiplexes:
            share = pycurl.CurlShare()
            share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_CONNECT)
            shares = Shares(share)
        return Transfer(self._limits, shares, self.totals)

    # what subclasses do

    @abstractmethod
    def _make_driver(self, limits: Limits, connections: int) -> Driver:
        """Return a driver, and begin to wait on it."""

    @abstractmethod
    def _wait_for(self, waited: Wakeable) -> Awaitable[object]:
        """Return an awaitable that ends when `wake` is called, which this sets."""

    @abstractmethod
    async def _wait_at_most(self, seconds: float, waited: Wakeable) -> None:
        """Wait likewise, for at most so many seconds."""

    @abstractmethod
    def _set_feed(self, transfer: Transfer, body: Body) -> None:
        """Set the source of libcurl's read callback for a body that is not in memory."""

    @abstractmethod
    async def _pump(self, transfer: Transfer) -> None:
        """Feed the body to libcurl until the exchange ends, or the head of a stream has arrived."""

    @abstractmethod
    def _make_local_waiter(self) -> Waiter:
        """Return a new waiter, which only the thread of this engine may wake."""

    @property
    @abstractmethod
    def runtime(self) -> Runtime:
        """Return the time, and waits of whoever calls this engine."""

    # exchanges

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
        transfer = self._try_start(request)
        if transfer is None:
            is_fed = request.body is not None and request.body.data is None
            queued = self._enqueue(request, keeps_transfer=is_fed)
            try:
                # Inline, because thousands of coroutines may wait here.
                if (seconds := request.pool_seconds(queued.queued_at)) is not None:
                    await self._wait_for_slot(queued, seconds)
                while not queued.is_finished:
                    await self._wait_for(queued)
                if queued.response is not None:
                    return queued.response
                transfer = queued.get_transfer()
            except BaseException as error:
                self._abandon(queued, error)
                raise
        try:
            if transfer.upload is not None:
                await self._pump(transfer)
            while not transfer.done:
                await self._wait_for(transfer)
            response = make_response(transfer)
        except BaseException as error:
            self._fail(transfer, error)
            raise
        self._release(transfer)
        return response

    # The straight path: nothing replaces the network, a slot and a transfer are free, and there is
    # no body. Other requests leave for the general path, which is that of `perform` above.

    def _take_ready(self, request: ClientRequest) -> Transfer | None:
        """Take a slot and a transfer for the straight path; None if the request has to leave it."""
        pool = self._straight_pool
        if (
            pool is None
            or not (ready := pool.ready)
            or (slots := pool.slots).used >= slots.total
            or request.body is not None
            or network.override is not None
            or (
                pool.separates
                and (
                    request.route is not pool.ready_route or request.url.origin != pool.ready_origin
                )
            )
            or self._driver.broken is not None
        ):
            return None
        transfer = ready.pop()
        slots.used += 1  # after the last call, so that Ctrl-C cannot come between this and `try`
        return transfer

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
        transfer = await self._start(request)
        try:
            if request.extensions is not None and (attempt := get_attempt(request)) is not None:
                attempt.begin(now())
                if attempt.is_extra:
                    self._keep_apart(transfer, request.url.origin)
            if transfer.upload is not None:
                await self._pump(transfer)
            while transfer.head is None and not transfer.done:
                await self._wait_for(transfer)
            # Nobody waits from here until the caller reads.
            transfer.wake = None
            response = take_small_response(transfer) if request.stream == IF_LARGE else None
            if response is None:
                check_opened(transfer)
        except BaseException as error:
            self._fail(transfer, error)
            raise
        if response is not None:
            self._release(transfer)
            return ReceivedWhole(response)
        return OpenTransfer(self, transfer)

    async def read(self, incoming: Transfer, take: Callable[[Transfer], Taken]) -> Taken:
        """Return what `take` takes of the body as received; at the end, that is nothing.

        Raises:
            RequestException: the body is incomplete, or the server was silent for too long.
        """
        try:
            if not incoming.pieces:
                incoming.begin_wait()
                while not (incoming.pieces or incoming.done):
                    await self._wait_for(incoming)
                incoming.wake = None
                incoming.end_wait()
            taken = take(incoming)
        except BaseException as error:
            upload = incoming.upload
            self._fail(incoming, error)
            if upload is not None:
                await upload.abandon()
            raise
        if not taken:
            upload = incoming.upload
            self._release(incoming)
            if upload is not None:
                await upload.finish()
        return taken

    def abort(self, incoming: Transfer) -> None:
        """Abandon a response.

        Its HTTP/2 stream is reset. Its HTTP/1 connection is closed, unless the rest of the body has
        already arrived.
        """
        if self.is_closed:
            return
        if incoming.wake is None:
            try:
                self._driver.keeps_connection(incoming)
            finally:
                self._drop(incoming)
            return
        # Another task waits in `read`. If the transfer were released here, that task would wait
        # forever or read another request's body. So it is woken and releases the transfer itself.
        incoming.failed = closed_while_reading(incoming.request)
        incoming.pieces.clear()
        incoming.done = True
        self._driver.remove(incoming)
        incoming.wake()

    @abstractmethod
    def abort_from_finalizer(self, incoming: Transfer) -> None:
        """Abandon a response from a finalizer, which may run in any thread."""

    # the pool

    def _start_driver(self) -> Driver:
        self._connections = OpenConnections(Quarantine())
        driver = self._make_driver(self._limits, self._max_connections)
        if not self._multiplexes:
            driver.set_max_connections(1)  # of each share
        # While the protocol of an origin is unknown, its requests count as connections, because
        # libcurl serves waiting ones in no order and counts their wait as time to connect.
        driver.multiplexing.on_shared = _make_weak(self._pool.slots.lift_origin_limit)
        driver.chosen = self._connections.chosen
        return driver

    def _try_start(self, request: ClientRequest) -> Transfer | None:
        """Start a transfer if a slot is free; return None if the request has to wait."""
        if self.is_closed:
            raise client_closed(request)
        # A request that need not wait does not pay for a queue entry.
        slots = self._pool.slots
        if slots.per_origin is not None:
            origin = self._get_slot_origin(request)
            if not slots.acquire(origin):
                return None
        elif slots.waiters or slots.used >= slots.total:
            return None
        else:
            origin = ""
            slots.used += 1
        try:
            return self._launch(request, origin)
        except BaseException:
            slots.release(origin)
            raise

    def _keep_apart(self, rival: Transfer, origin: str) -> None:
        """Let an extra attempt open its own connection if that of the first one is slow."""
        if rival.handle.multiplexes and not any(
            each.attempt.is_out and each.request is not None and each.request.url.origin == origin
            for each in self._driver.running.values()
        ):
            self._driver.use_own_connection(rival)

    async def _start(self, request: ClientRequest) -> Transfer:
        """Start a transfer as soon as there is a slot."""
        transfer = self._try_start(request)
        if transfer is None:
            queued = self._enqueue(request, keeps_transfer=True)
            try:
                if (seconds := request.pool_seconds(queued.queued_at)) is not None:
                    await self._wait_for_slot(queued, seconds)
                while not queued.is_finished:
                    await self._wait_for(queued)
                return queued.get_transfer()
            except BaseException as error:
                self._abandon(queued, error)
                raise
        return transfer

    def _enqueue(self, request: ClientRequest, *, keeps_transfer: bool) -> QueuedRequest:
        """Queue a request for a slot.

        Raises:
            AttemptRefused: it is an extra attempt, which does not wait.
        """
        attempt = get_attempt(request)
        if attempt is not None:
            refuse_to_wait(request, "a connection")
            attempt.begin(None)
        queued = QueuedRequest(
            request, self._get_slot_origin(request), monotonic(), keeps_transfer=keeps_transfer
        )
        self._pool.slots.wait(queued)
        if not self._pool.slots.has_room(queued.origin):
            queued.leave_place()
        if not self._watches_queue:
            self._watch_queue(WARN_AFTER)
        return queued

    def _watch_queue(self, seconds: float) -> None:
        """Look after some time whether the queue for slots moves."""
        self._watches_queue = True
        check = partial(_make_weak(self._check_queue), self._pool.slots.granted)
        self._driver.set_alarm(monotonic() + seconds, check)

    def _check_queue(self, granted: int) -> None:
        slots = self._pool.slots
        self._watches_queue = False
        if not slots.waiters or self.is_closed:
            return
        first = next(iter(slots.waiters))
        assert isinstance(first, QueuedRequest)
        idle = set(self._pool.idle())
        holders = [one for one in self._pool.all if one not in idle]
        if has_moved := slots.granted != granted:
            holders = find_unread(holders)
            if not holders or monotonic() - first.queued_at < WARN_AFTER:
                self._watch_queue(WARN_AFTER)
                return
        warn_of_wait(first.request, self._max_connections, holders, has_moved=has_moved)
        self._watch_queue(WARN_AGAIN)

    async def _wait_for_slot(self, queued: QueuedRequest, seconds: float) -> None:
        await self._wait_at_most(seconds, queued)
        if not queued.granted:
            raise no_slot_error(queued.request, self._max_connections, queued)

    def _get_slot_origin(self, request: ClientRequest) -> str:
        if self._pool.slots.per_origin is None:
            return ""
        route = request.route
        if self._multiplexes and (route.http3 or route.http2 == "prior-knowledge"):
            return ""  # requests share connections, which libcurl limits
        return request.url.origin

    def _launch(self, request: ClientRequest, origin: str) -> Transfer:
        pool = self._pool
        transfer = pool.take(request)
        transfer.origin = origin
        transfer.connections = self._connections
        try:
            if self._driver.broken is not None:
                self._renew()  # add_handle would fail, or kill the process
            transfer.prepare(request)
            if request.body is not None:
                self._set_feed(transfer, request.body)
            self._driver.add(transfer)
        except BaseException as error:
            made = convert_driver_error(error, request)
            try:
                count_failure(transfer, made)
                self._driver.remove(transfer)
            finally:
                self._store_idle(transfer)
            if made is not error:
                raise made from error
            raise
        return transfer

    def _start_queued(self, queued: QueuedRequest) -> None:
        """Start the transfer of a queued request, in the task that released the slot.

        An error belongs to that request alone. The request keeps its slot then, because the next
        ones might fail as well, and ten thousand of them would not fit on the stack.
        """
        try:
            queued.come_back()
            if self.is_closed:
                raise client_closed(queued.request)
            transfer = queued.transfer = self._launch(queued.request, queued.origin)
            transfer.queue_seconds = transfer.last_activity - queued.queued_at
        except BaseException as error:
            queued.error = error
        if queued.error is not None or queued.keeps_transfer or transfer.done:
            queued.finish()
        else:
            transfer.wake = partial(self._finish_queued, queued)

    def _finish_queued(self, queued: QueuedRequest) -> None:
        """Make the response as soon as the transfer has ended, and release the transfer."""
        transfer = queued.transfer
        assert transfer is not None
        if transfer.failed is None and not transfer.code:
            try:
                queued.response = make_response(transfer)
            except BaseException as error:  # raised in the caller's task
                transfer.failed = error
            else:
                queued.transfer = None
                self._release(transfer)
        queued.finish()

    def _abandon(self, queued: QueuedRequest, error: BaseException) -> None:
        """Release what a queued request has: its queue entry, its slot, or its transfer."""
        transfer, queued.transfer = queued.transfer, None
        queued.come_back()
        if transfer is not None:
            self._fail(transfer, error)
        elif queued.response is None:
            self._pool.slots.leave(queued)
            if queued.error is None:  # otherwise it was counted when the transfer was started
                outcomes = self.totals.outcomes
                count_failed_wait(outcomes, queued.request, error, queued.queued_at)

    def _renew(self) -> None:
        """Replace the driver after one of its callbacks failed."""
        old, self._driver = self._driver, self._start_driver()
        self._watches_queue = False
        old.fail_all()
        old.detach()
        old.close_in_thread()
        for transfer in self._pool.all:
            transfer.connections = self._connections

    def transfers(self) -> set[Transfer]:
        """Return all transfers; may be called from any thread."""
        return self._pool.all.copy()

    def tell_state(self) -> EngineState:
        """Return what statistics need; may be called from any thread."""
        used = [transfer.connection for transfer in self._driver.running.copy().values()]
        # In a forked child, the tasks of the parent seem to wait.
        waits = [] if self.is_closed else self._pool.slots.waits()
        return tell_state([self._connections], used, waits)

    def _release(self, transfer: Transfer) -> None:
        pool = self._pool
        if self.is_closed:
            self._store_idle(transfer)
        else:
            transfer.clean()
            pool.keep(transfer)
        slots = pool.slots
        if slots.waiters or slots.per_origin is not None:
            slots.release(transfer.origin)
        else:
            slots.used -= 1

    def _store_idle(self, transfer: Transfer) -> None:
        if self.is_closed:  # the handle may be closed too, if the loop was closed by hand
            self._pool.drop(transfer)
        else:
            transfer.clean()
            self._pool.keep(transfer)

    def _fail(self, transfer: Transfer, error: BaseException) -> None:
        """Drop a transfer, and count its failure."""
        try:
            count_failure(transfer, error)
        finally:
            self._drop(transfer)

    def _drop(self, transfer: Transfer) -> None:
        """Remove and release a transfer in any state; its handle can be reused."""
        try:
            self._driver.remove(transfer)
        finally:
            self._release(transfer)

    # the end

    def _shut(self) -> None:
        """Fail all running transfers, in the loop's thread."""
        self.is_closed = True
        self._straight_pool = None
        self._driver.detach()
        # A copy, because each of them is removed.
        for transfer in list(self._driver.running.values()):
            error = ClientClosed("the client was closed during this request")
            self._driver.fail(transfer, error)

    def close(self) -> None:
        """Close all connections, for a loop that no longer runs."""
        if not self.is_closed:
            for transfer in self._driver.running.values():
                transfer.wake = None  # its task no longer runs
            self._shut()
            self._free()

    def _free(self) -> None:
        self._driver.close()
        self._pool.close()
        self._shares.clear()

    def _after_fork_in_child(self) -> None:
        """Leave everything to the parent process."""
        self.is_closed = True
        self._straight_pool = None
        self._driver.is_attached = False
        # Closing or freeing anything here would end connections of the parent.
        for transfer in self._pool.all:
            leak_transfer(transfer)
        leak(self, self._driver, self._driver.multi)
        self._pool.all.clear()
        self._connections = OpenConnections(Quarantine())

    def after_fork_in_parent(self) -> None:
        """Continue in the parent of a forked child."""
        if not self.is_closed:
            self._driver.after_fork_in_parent()
