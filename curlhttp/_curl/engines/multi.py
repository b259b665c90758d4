"""What the engines on one curl_multi share: the pool and the exchanges.

How a coroutine waits is left to the subclasses. One engine belongs to one event loop, or to one
thread at a time.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from functools import partial
from time import monotonic

from curlhttp._config import Limits
from curlhttp._curl.driver import Driver
from curlhttp._curl.leak import leak, leak_transfer
from curlhttp._curl.pool import TransferPool
from curlhttp._curl.race import HedgeRace
from curlhttp._curl.result import check_opened, response_of, take_piece
from curlhttp._curl.slots import Slots, SlotWaiter, no_free_slot, open_files_bound
from curlhttp._curl.transfer import Transfer
from curlhttp._engine import Gate, HedgePlan, Incoming
from curlhttp._fork import register
from curlhttp._models.body.body import Body
from curlhttp._models.closed import client_closed, closed_amid
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._network import network, now, wall
from curlhttp.exceptions import ClientClosed

__all__ = ["MultiEngine"]


class MultiEngine(ABC):
    """Move bytes for many coroutines at once.

    Args:
        limits: the client's limits.
        multiplexes: requests may share connections; then the bound per host is libcurl's.
    """

    def __init__(self, limits: Limits, *, multiplexes: bool) -> None:
        self._limits = limits
        self._bound = open_files_bound(limits.max_connections)
        # In order, since tasks of one loop wake up soon: a newcomer must not overtake them.
        slots = Slots(self._bound, limits.max_connections_per_host, in_order=True)
        self._pool = TransferPool(self._make, slots)
        self._multiplexes = multiplexes
        self._driver = self._start_driver()
        self.is_closed = False
        register(self)

    def _make(self) -> Transfer:
        return Transfer(self._limits)

    # what differs

    @abstractmethod
    def _make_driver(self, limits: Limits, connections: int) -> Driver:
        """Return the driver, with whatever waits on it."""

    @abstractmethod
    def _local_gate(self) -> Gate:
        """Return a closed gate, which only the thread of this engine may open."""

    @abstractmethod
    def _wait_for(self, transfer: Transfer, *rivals: Transfer) -> Awaitable[None]:
        """Return what ends when one of them has something to look at; sets their wake."""

    @abstractmethod
    async def _wait_for_at_most(self, seconds: float, *transfers: Transfer) -> None:
        """Wait likewise, for so many seconds at most."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait, unless a stand-in for the network skips that."""

    # the pool

    def _start_driver(self) -> Driver:
        driver = self._make_driver(self._limits, self._bound)
        # Until it is known, requests to an origin count as connections: libcurl serves those that
        # wait for one in no order, and counts their wait as time to connect.
        driver.multiplexing.on_shared = self._pool.slots.unbind
        return driver

    def _start(self, request: Request) -> Transfer | None:
        """Start a transfer, unless others run or wait that go first."""
        if self.is_closed:
            raise client_closed(request)
        # A request that need not wait pays for no coroutine, gate or waiter.
        slots = self._pool.slots
        origin = "" if slots.per_origin is None else self._slot_of(request)
        return self._begin(request, origin) if slots.take(origin) else None

    async def _start_later(self, request: Request) -> Transfer:
        """Start a transfer when it is its turn."""
        begun = monotonic()
        origin = self._slot_of(request)
        gate = self._local_gate()
        waiter = SlotWaiter(origin, gate.open)
        self._pool.slots.wait(waiter)
        try:
            await gate.wait(request.pool_seconds(begun))
        except BaseException:
            self._pool.slots.leave(waiter)
            raise
        if not waiter.granted:
            self._pool.slots.leave(waiter)
            raise no_free_slot(request, self._bound)
        # The client may have been closed meanwhile, which lets everybody in.
        self._pool.slots.go_on()
        if self.is_closed:
            self._pool.slots.give(origin)
            raise client_closed(request)
        transfer = self._begin(request, origin)
        transfer.queue_seconds = transfer.last_activity - begun
        return transfer

    def _slot_of(self, request: Request) -> str:
        if self._pool.slots.per_origin is None:
            return ""
        transport = request.transport
        if self._multiplexes and (transport.http3 or transport.http2 == "prior-knowledge"):
            return ""  # requests are not connections, of which libcurl keeps the bound
        return request.url.origin

    def _begin(self, request: Request, origin: str) -> Transfer:
        """Start a transfer in the slot that was taken."""
        try:
            pool = self._pool
            transfer = pool.idle.pop() if pool.idle else pool.make()
        except BaseException:
            self._pool.slots.give(origin)
            raise
        transfer.origin = origin
        try:
            if self._driver.broken is not None:
                self._renew()  # add_handle would fail, or kill the process
            transfer.prepare(request)
            if request.body is not None:
                self._set_feed(transfer, request.body)
            self._driver.add(transfer)
        except BaseException:
            self._drop(transfer)
            raise
        return transfer

    def _renew(self) -> None:
        """Start over with a driver whose callbacks have not failed."""
        old = self._driver
        old.fail_all()
        old.detach()
        self._driver = self._start_driver()
        threading.Thread(target=old.close, daemon=True).start()  # it may wait for a resolver

    def _keep(self, transfer: Transfer) -> None:
        transfer.clean()
        if self.is_closed:
            self._pool.drop(transfer)
        else:
            self._pool.idle.append(transfer)
        self._pool.slots.give(transfer.origin)

    def _drop(self, transfer: Transfer) -> None:
        """Let go of a transfer in whatever state it is; its handle is as good as new."""
        try:
            self._driver.remove(transfer)
        finally:
            self._keep(transfer)

    # exchanges

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Send the request and return the response with its body in memory.

        Args:
            request: complete.
            plan: when to send it again while it is under way, or None for never.

        Raises:
            RequestException: the exchange failed.
        """
        if network.stand_in is not None and (other := network.stand_in.engine_for(request, self)):
            return await other.perform(request, plan)
        if plan is not None:
            transfer = await self._race(request, plan)
        else:
            transfer = self._start(request) or await self._start_later(request)
        try:
            # Where there was a race, it has fed the body of the attempt that surfaced.
            if transfer.feed is not None and plan is None:
                await self._pump(transfer)
            while not transfer.done:
                await self._wait_for(transfer)
            response = response_of(transfer)
        except BaseException:
            self._drop(transfer)
            raise
        self._keep(transfer)
        return response

    async def open(self, request: Request, plan: HedgePlan | None = None) -> Incoming:
        """Send the request and return once the head of the response is in.

        Args:
            request: complete.
            plan: see perform.

        Raises:
            RequestException: the exchange failed up to there.
        """
        if network.stand_in is not None and (other := network.stand_in.engine_for(request, self)):
            return await other.open(request, plan)
        if plan is not None:
            transfer = await self._race(request, plan)
        else:
            transfer = self._start(request) or await self._start_later(request)
        try:
            if transfer.feed is not None and plan is None:
                await self._pump(transfer)
            while transfer.head is None and not transfer.done:
                await self._wait_for(transfer)
            # From here on nobody waits, until the caller reads.
            transfer.wake = None
            check_opened(transfer)
        except BaseException:
            self._drop(transfer)
            raise
        return transfer

    async def read(self, incoming: Transfer) -> bytes:
        """Return the next piece of the body as it came, b"" at the end.

        Raises:
            RequestException: the body broke off, or the server is silent for too long.
        """
        try:
            if not incoming.pieces:
                if incoming.paused:
                    self._driver.resume_soon(incoming)
                incoming.last_activity = monotonic()  # before, the caller did not wait
                while not incoming.pieces and not incoming.done:
                    await self._wait_for(incoming)
                incoming.wake = None
            piece = take_piece(incoming)
        except BaseException:
            self._drop(incoming)
            raise
        if not piece:
            self._keep(incoming)
        return piece

    def abort(self, incoming: Transfer) -> None:
        """Let go of a response; its stream is reset, an HTTP/1 connection closed."""
        if self.is_closed:
            return
        if incoming.wake is None:
            self._drop(incoming)
            return
        # Another task waits in `read`. With the transfer given back under it, it would wait for
        # ever, or for another request's body; so it is told, and gives the transfer back itself.
        incoming.failed = closed_amid(incoming.request)
        incoming.pieces.clear()
        incoming.done = True
        self._driver.remove(incoming)
        incoming.wake()

    @abstractmethod
    def abort_from_finalizer(self, incoming: Transfer) -> None:
        """Let go of a response from a finalizer, in whatever thread that runs."""

    # several attempts at once

    async def _race(self, request: Request, plan: HedgePlan) -> Transfer:
        """Return the attempt that surfaces, all in the caller's own task."""
        first = self._start(request) or await self._start_later(request)
        race = HedgeRace(plan, first, self._leave)

        async def wait(seconds: float | None) -> None:
            if seconds is None:
                await self._wait_for(*race.running)
            else:
                await self._wait_for_at_most(seconds, *race.running)

        try:
            if first.feed is not None:
                await self._pump(first, race)
            return await race.run_out(wait, partial(self._join, race))
        except BaseException:
            self._drop(race.abandon())
            raise

    async def _join(self, race: HedgeRace) -> None:
        """Send one more attempt, unless it had to wait for its turn."""
        # Who waits for a slot goes first: a rival is for what may be spared.
        slot = self._slot_of(race.request)
        if self.is_closed or not self._pool.slots.take(slot):
            return race.stop()
        request = race.next()
        if request is None:
            return self._pool.slots.give(slot)
        rival = self._begin(request, slot)
        race.add(rival, self._driver)
        if rival.feed is not None:
            await self._pump(rival, race)
        return None

    def _leave(self, loser: Transfer, other: Transfer) -> None:
        self._drop(loser)

    # request bodies that come piece by piece

    @abstractmethod
    def _set_feed(self, transfer: Transfer, body: Body) -> None:
        """Set where libcurl's read callback gets a body from that is not in memory."""

    @abstractmethod
    async def _pump(self, transfer: Transfer, race: HedgeRace | None = None) -> None:
        """Feed the body to libcurl until it has all, or the exchange or race ends before."""

    # the end

    now = staticmethod(now)
    wall = staticmethod(wall)

    def _shut(self) -> None:
        """Fail what runs, in the loop's own thread."""
        self.is_closed = True
        self._driver.detach()
        # A copy, since each of them is removed.
        for transfer in list(self._driver.running.values()):
            transfer.failed = ClientClosed("the client was closed during this request")
            transfer.done = True
            wake = transfer.wake
            self._driver.remove(transfer)
            if wake is not None:
                wake()

    def close(self) -> None:
        """Close all connections; for a loop that does not run any more."""
        if not self.is_closed:
            for transfer in self._driver.running.values():
                transfer.wake = None  # its task will not run any more
            self._shut()
            self._free()

    def _free(self) -> None:
        self._driver.close()
        self._pool.close()

    def after_fork_in_child(self) -> None:
        """Leave everything to the parent, in a forked child."""
        self.is_closed = True
        self._driver.is_attached = False
        # Nothing is closed here, and nothing may be freed either: that would tell the servers.
        for transfer in self._pool.all:
            leak_transfer(transfer)
        leak(self, self._driver, self._driver.multi)

    def after_fork_in_parent(self) -> None:
        """Go on in the parent of a forked child."""
        if not self.is_closed:
            self._driver.after_fork_in_parent()
