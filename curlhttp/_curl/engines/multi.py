"""What the engines on one curl_multi share: the exchanges.

How a coroutine waits is left to the subclasses. One engine belongs to one event loop, or to one
thread at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from time import monotonic

from curlhttp._config import Limits
from curlhttp._curl.engines.pooled import PooledEngine
from curlhttp._curl.leak import leak, leak_transfer
from curlhttp._curl.race import HedgeRace
from curlhttp._curl.result import check_opened, response_of, take_piece
from curlhttp._curl.transfer import Transfer
from curlhttp._engine import Gate, HedgePlan, Incoming
from curlhttp._fork import register
from curlhttp._models.errors import closed_while_reading
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._network import network, now, wall
from curlhttp.exceptions import ClientClosed

__all__ = ["MultiEngine"]


class MultiEngine(PooledEngine):
    """Move bytes for many coroutines at once.

    Args:
        limits: the client's limits.
        multiplexes: see PooledEngine.
    """

    def __init__(self, limits: Limits, *, multiplexes: bool) -> None:
        super().__init__(limits, multiplexes=multiplexes)
        register(self)

    # what differs

    @abstractmethod
    def _local_gate(self) -> Gate:
        """Return a closed gate, which only the thread of this engine may open."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait, unless a stand-in for the network skips that."""

    # exchanges

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Send the request and return the response with its body in memory.

        Args:
            request: complete.
            plan: when to send it again while it is under way, or None for never.

        Raises:
            RequestException: the exchange failed.
        """
        if (stand_in := network.stand_in) and (other := stand_in.engine_for(request, self)):
            return await other.perform(request, plan)
        if plan is None:
            transfer = self._start_at_once(request)
        else:
            transfer = await self._race(request, plan)
        if transfer is None:
            is_fed = request.body is not None and request.body.data is None
            caller = self._line_up(request, keeps=is_fed)
            try:
                # Not in a coroutine of its own, of which there may be thousands.
                if (seconds := request.pool_seconds(caller.came)) is not None:
                    await self._wait_for_turn(caller, seconds)
                while not caller.is_over:
                    await self._wait_for(caller)
                if caller.response is not None:
                    return caller.response
                transfer = caller.take_transfer()
            except BaseException:
                self._leave(caller)
                raise
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
        if (stand_in := network.stand_in) and (other := stand_in.engine_for(request, self)):
            return await other.open(request, plan)
        transfer = await (self._start(request) if plan is None else self._race(request, plan))
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
        incoming.failed = closed_while_reading(incoming.request)
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
        first = await self._start(request)
        race = HedgeRace(plan, first, self._drop_loser)

        async def wait(seconds: float | None) -> None:
            if seconds is None:
                await self._wait_for(*race.running)
            else:
                await self._wait_for_at_most(seconds, *race.running)

        try:
            if first.feed is not None:
                await self._pump(first, race)
            return await race.run_out(wait, lambda: self._join(race))
        except BaseException:
            self._drop(race.abandon())
            raise

    async def _join(self, race: HedgeRace) -> None:
        """Send one more attempt, unless it had to wait for its turn."""
        # Who waits for a slot goes first: a rival is for what may be spared.
        slot = self._slot_of(race.request)
        if self.is_closed or not self._pool.slots.take(slot):
            return race.stop()
        try:
            request = await race.next()
        except BaseException:
            self._pool.slots.give(slot)
            raise
        # A middleware may have waited, and the race may be decided since.
        if request is None or self.is_closed or race.winner() is not None:
            return self._pool.slots.give(slot)
        rival = self._start_in_slot(request, slot)
        race.add(rival, self._driver)
        if rival.feed is not None:
            await self._pump(rival, race)
        return None

    def _drop_loser(self, loser: Transfer, other: Transfer) -> None:
        self._drop(loser)

    # request bodies that come piece by piece

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
        self._shares.clear()

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
