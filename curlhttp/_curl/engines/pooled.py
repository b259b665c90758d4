"""How transfers on one curl_multi start, when it is their turn, and where they go when they end."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from functools import partial
from time import monotonic
from weakref import WeakMethod

from curlhttp._config import Limits
from curlhttp._curl.caller import Caller, Waited
from curlhttp._curl.connections import Connections, Suspects
from curlhttp._curl.counting import Counts, count_connections
from curlhttp._curl.driver import Driver
from curlhttp._curl.pool import TransferPool
from curlhttp._curl.result import response_of
from curlhttp._curl.shares import Shares
from curlhttp._curl.slots import Slots, no_free_slot, open_files_bound
from curlhttp._curl.transfer import Transfer
from curlhttp._models.body import Body
from curlhttp._models.errors import client_closed
from curlhttp._models.request import Request

__all__ = ["PooledEngine"]


class PooledEngine(ABC):
    """Start transfers for many coroutines, in the order in which these ask.

    Args:
        limits: the client's limits.
        multiplexes: requests may share connections; then the bound per host is libcurl's.
    """

    def __init__(self, limits: Limits, *, multiplexes: bool) -> None:
        self._limits = limits
        self._bound = open_files_bound(limits.max_connections)
        slots = Slots(self._bound, limits.max_connections_per_host, self._go)
        self._pool = TransferPool(self._make, slots)
        self._shares = Shares()
        self._multiplexes = multiplexes
        self.is_closed = True  # for its finalizer, where there is no descriptor for a driver
        self._driver = self._start_driver()
        self.is_closed = False

    def _make(self) -> Transfer:
        return Transfer(self._limits, self._shares)

    # what differs

    @abstractmethod
    def _make_driver(self, limits: Limits, connections: int) -> Driver:
        """Return the driver, with whatever waits on it."""

    @abstractmethod
    def _wait_for(self, waited: Waited, *rivals: Transfer) -> Awaitable[object]:
        """Return what ends when one of them has something to look at; sets their wake."""

    @abstractmethod
    async def _wait_for_at_most(self, seconds: float, waited: Waited, *rivals: Transfer) -> None:
        """Wait likewise, for so many seconds at most."""

    @abstractmethod
    def _set_feed(self, transfer: Transfer, body: Body) -> None:
        """Set where libcurl's read callback gets a body from that is not in memory."""

    # the pool

    def _start_driver(self) -> Driver:
        self._connections = Connections(Suspects())
        driver = self._make_driver(self._limits, self._bound)
        # Until it is known, requests to an origin count as connections: libcurl serves those that
        # wait for one in no order, and counts their wait as time to connect.
        unbind = WeakMethod(self._pool.slots.unbind)  # the loop holds the driver, not the engine

        def on_shared(origin: str) -> None:
            if (call := unbind()) is not None:
                call(origin)

        driver.multiplexing.on_shared = on_shared
        return driver

    def _start_at_once(self, request: Request) -> Transfer | None:
        """Start a transfer, unless others run or wait that go first."""
        if self.is_closed:
            raise client_closed(request)
        # A request that need not wait pays for no caller in line.
        slots = self._pool.slots
        origin = "" if slots.per_origin is None else self._slot_of(request)
        return self._start_in_slot(request, origin) if slots.take(origin) else None

    async def _start(self, request: Request) -> Transfer:
        """Start a transfer when it is its turn."""
        transfer = self._start_at_once(request)
        if transfer is None:
            caller = self._line_up(request, keeps=True)
            try:
                if (seconds := request.pool_seconds(caller.came)) is not None:
                    await self._wait_for_turn(caller, seconds)
                while not caller.is_over:
                    await self._wait_for(caller)
                return caller.take_transfer()
            except BaseException:
                self._leave(caller)
                raise
        return transfer

    def _line_up(self, request: Request, *, keeps: bool) -> Caller:
        """Return a caller that waits for its turn; see Caller."""
        caller = Caller(request, self._slot_of(request), monotonic(), keeps=keeps)
        self._pool.slots.wait(caller)
        return caller

    async def _wait_for_turn(self, caller: Caller, seconds: float) -> None:
        await self._wait_for_at_most(seconds, caller)
        if not caller.granted:
            raise no_free_slot(caller.request, self._bound)

    def _slot_of(self, request: Request) -> str:
        if self._pool.slots.per_origin is None:
            return ""
        transport = request.transport
        if self._multiplexes and (transport.http3 or transport.http2 == "prior-knowledge"):
            return ""  # requests are not connections, of which libcurl keeps the bound
        return request.url.origin

    def _start_in_slot(self, request: Request, origin: str) -> Transfer:
        """Start a transfer in the slot that was taken."""
        try:
            return self._launch(request, origin)
        except BaseException:
            self._pool.slots.give(origin)
            raise

    def _launch(self, request: Request, origin: str) -> Transfer:
        pool = self._pool
        transfer = pool.idle.pop() if pool.idle else pool.make()
        transfer.origin = origin
        transfer.connections = self._connections
        try:
            if self._driver.broken is not None:
                self._renew()  # add_handle would fail, or kill the process
            transfer.prepare(request)
            if request.body is not None:
                self._set_feed(transfer, request.body)
            self._driver.add(transfer)
        except BaseException:
            try:
                self._driver.remove(transfer)
            finally:
                self._lay_by(transfer)
            raise
        return transfer

    def _go(self, caller: Caller) -> None:
        """Start the transfer of the first in line, in whatever task gave the slot back.

        What fails is the caller's alone. So is the slot then: the next in line might fail likewise,
        and ten thousand of them would not fit on the stack.
        """
        try:
            if self.is_closed:
                raise client_closed(caller.request)
            transfer = caller.transfer = self._launch(caller.request, caller.origin)
            transfer.queue_seconds = transfer.last_activity - caller.came
        except BaseException as error:
            caller.error = error
        if caller.error is not None or caller.keeps or transfer.done:
            caller.go_on()
        else:
            transfer.wake = partial(self._finish, caller)

    def _finish(self, caller: Caller) -> None:
        """Make the response as soon as the transfer has ended, and let the next in line have it."""
        transfer = caller.transfer
        assert transfer is not None
        if transfer.failed is None and not transfer.code:
            try:
                caller.response = response_of(transfer)
            except BaseException as error:  # to be raised in the caller's own task
                transfer.failed = error
            else:
                caller.transfer = None
                self._keep(transfer)
        caller.go_on()

    def _leave(self, caller: Caller) -> None:
        """Let go of what a caller has: a place in line, a slot, or a transfer in any state."""
        transfer, caller.transfer = caller.transfer, None
        if transfer is not None:
            self._drop(transfer)
        elif caller.response is None:
            self._pool.slots.leave(caller)

    def _renew(self) -> None:
        """Start over with a driver whose callbacks have not failed."""
        old, self._driver = self._driver, self._start_driver()
        old.fail_all()
        old.detach()
        threading.Thread(target=old.close, daemon=True).start()  # it may wait for a resolver

    def open_connections(self) -> Counts:
        """Return how many connections are open; may be called from any thread."""
        return count_connections([self._connections], tuple(self._driver.running.values()))

    def _keep(self, transfer: Transfer) -> None:
        self._lay_by(transfer)
        self._pool.slots.give(transfer.origin)

    def _lay_by(self, transfer: Transfer) -> None:
        if self.is_closed:  # and the handle maybe, too: its loop was closed by hand
            self._pool.drop(transfer)
        else:
            transfer.clean()
            self._pool.idle.append(transfer)

    def _drop(self, transfer: Transfer) -> None:
        """Let go of a transfer in whatever state it is; its handle is as good as new."""
        try:
            self._driver.remove(transfer)
        finally:
            self._keep(transfer)
