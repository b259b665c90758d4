"""The engine of `Client`: each exchange runs in the calling thread, on a driver from a pool.

A transfer keeps its own connection on any driver, because sharing connections between threads
crashes libcurl. The engine's coroutines never suspend.
"""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial
from time import monotonic
from weakref import WeakSet

import pycurl

from curlhttp._curl.connection_pool import ConnectionPool, Key, count_failed_wait
from curlhttp._curl.connection_state import OpenConnections, Quarantine, shut_down
from curlhttp._curl.dns import FAILED
from curlhttp._curl.driver import Driver
from curlhttp._curl.errors import make_driver_error, unwrap_callback_error
from curlhttp._curl.handle import Shares
from curlhttp._curl.hedge_race import HedgeRace
from curlhttp._curl.incoming import OpenTransfer
from curlhttp._curl.poller import PollSockets, WakeableSockets, make_wakeable_poller
from curlhttp._curl.read_timeouts import get_first_limit
from curlhttp._curl.result import (
    check_opened,
    count_failure,
    make_response,
    raise_failure,
    read_piece,
)
from curlhttp._curl.transfer import (
    Counts,
    Transfer,
    count_connections,
    leak,
    leak_transfer,
    tell_state,
)
from curlhttp._engine.engine import (
    ByteStream,
    EngineState,
    HedgePlan,
    Incoming,
    Totals,
    count_outcome,
    to_connector,
)
from curlhttp._engine.network import network
from curlhttp._models.config import Limits
from curlhttp._models.errors import closed_while_reading, closed_with_client
from curlhttp._models.fork import register
from curlhttp._models.request import ClientRequest
from curlhttp._models.response import Response
from curlhttp._runtime.thread import THREAD
from curlhttp.exceptions import RequestException


class BlockingEngine:
    """Move bytes in the calling thread; usable from many threads at once.

    Args:
        limits: the client's limits.
        keeps_streams: connections for other protocols outlive `close`.
    """

    runtime = THREAD

    def __init__(self, limits: Limits, *, keeps_streams: bool = False) -> None:
        self._limits = limits
        self._keeps_streams = keeps_streams
        self.totals = Totals()
        self._open()
        register(self)

    def _open(self) -> None:
        self._pool = ConnectionPool(self._limits, self._make)
        self._drivers = DriverPool(self._limits)
        self._streams: WeakSet[ByteStream] = WeakSet()
        self._quarantine = Quarantine()
        # Of streamed responses. No lock, because each change is one step of the interpreter.
        self._opened: set[Transfer] = set()

    def _make(self, key: Key) -> Transfer:
        # The share holds the connections, whichever driver the transfer runs on. Each transfer has
        # its own, because libcurl crashes when threads use one share at the same time.
        share = pycurl.CurlShare()
        share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_CONNECT)
        transfer = Transfer(self._limits, Shares(share), self.totals)
        transfer.connections = OpenConnections(self._quarantine)
        return transfer

    # buffered exchanges

    async def perform(self, request: ClientRequest, plan: HedgePlan | None = None) -> Response:
        """Send the request and return the response with its body in memory.

        Args:
            request: complete.
            plan: when to send it again while it is running, or None for never.

        Raises:
            RequestException: the exchange failed.
        """
        if (override := network.override) and (other := override.engine_for(request, self)):
            if not hasattr(other, "returns_to_engine"):
                return await count_outcome(other.perform, request, plan, self.totals)
            return await other.perform(request, plan)
        transfer = self._start(request) if plan is None else await self._race(request, plan)
        driver: PooledDriver = transfer.driver
        try:
            while not transfer.done:
                driver.step()
            response = make_response(transfer)
            transfer.clean()
            transfer.driver = None
            self._drivers.release(driver)
        except BaseException as error:
            self._fail(transfer, error)
            raise
        held = [transfer]
        try:
            self._pool.release(held)
        except BaseException:  # Ctrl-C
            self._drop_held(held)
            raise
        return response

    def _drop_held(self, held: list[Transfer]) -> None:
        """Drop what was not released."""
        for transfer in held:
            self._pool.drop(transfer)

    def _fail(self, transfer: Transfer, error: BaseException) -> None:
        """Drop a transfer in any state, and count its failure."""
        try:
            count_failure(transfer, error)
        finally:
            self._pool.drop(transfer)

    def _start(self, request: ClientRequest) -> Transfer:
        transfer: Transfer | None = None
        try:
            transfer = self._pool.acquire(request)
            transfer.prepare(request)
            driver = transfer.driver = self._drivers.acquire()
            transfer.wake = _ignore
            driver.start(transfer)
        except BaseException as error:
            if transfer is None:
                _, seconds = getattr(error, "_waited", None) or ("", 0.0)
                count_failed_wait(self.totals.outcomes, request, error, monotonic() - seconds)
                raise
            if isinstance(error, pycurl.error):
                made = make_driver_error(error, request)
                self._fail(transfer, made)
                raise made from error
            self._fail(transfer, error)
            if isinstance(error, RequestException) and error.request is None:
                error.request = request
            raise
        return transfer

    # streamed exchanges

    async def open(self, request: ClientRequest, plan: HedgePlan | None = None) -> Incoming:
        """Send the request and return once the head of the response has arrived.

        Args:
            request: complete.
            plan: see perform.

        Raises:
            RequestException: the exchange failed before that.
        """
        if (override := network.override) and (other := override.engine_for(request, self)):
            if not hasattr(other, "returns_to_engine"):
                return await count_outcome(other.open, request, plan, self.totals)
            return await other.open(request, plan)
        transfer = self._start(request) if plan is None else await self._race(request, plan)
        driver: PooledDriver = transfer.driver
        try:
            while transfer.head is None and not transfer.done:
                driver.step()
            transfer.wake = None  # nobody waits from here until the caller reads
            check_opened(transfer)
            self._opened.add(transfer)
        except BaseException as error:
            self._remove_opened(transfer)
            self._fail(transfer, error)
            raise
        return OpenTransfer(self, transfer)

    async def read(self, incoming: Transfer) -> bytes:
        """Return the next piece of the body as received, b"" at the end.

        Raises:
            RequestException: the body is incomplete, or the server was silent for too long.
            StreamConsumedError: another thread has closed the response.
        """
        driver: PooledDriver = incoming.driver
        request = incoming.request
        try:
            incoming.wake = _ignore  # first: see `abort`
            if incoming not in self._opened:  # closed, or opened by this process's parent
                raise incoming.failed or closed_while_reading(request)
            if not incoming.pieces:
                if incoming.paused:
                    driver.resume_soon(incoming)
                # Nobody waited for the server before, so that time does not count.
                incoming.last_activity = monotonic()
                while not (incoming.pieces or incoming.done):
                    driver.step()
            is_open = incoming in self._opened
            piece = read_piece(incoming) if is_open else b""
            if piece:
                incoming.wake = None
                if incoming in self._opened:
                    return piece
            if not self._remove_opened(incoming):
                raise closed_while_reading(request)
            # If the body was cut short, its connection has ended and cannot be kept.
            is_spent = incoming.is_cut_short
            if not is_spent:
                incoming.clean()
        except BaseException as error:
            self._remove_opened(incoming)
            self._fail(incoming, error)
            raise
        if is_spent:
            self._pool.drop(incoming)
        else:
            incoming.driver = None
            self._drivers.release(driver)
            held = [incoming]
            try:
                self._pool.release(held)
            except BaseException:  # Ctrl-C
                self._drop_held(held)
                raise
        return b""

    def abort(self, incoming: Transfer) -> None:
        """Abandon a response, from any thread.

        Its connection is closed, unless the rest of the body has already arrived.
        """
        # A reading thread sets `wake` before it checks whether the response is still open. So it
        # either finds the response closed, or is found here, and drops the transfer itself.
        if not self._remove_opened(incoming):
            return
        if incoming.wake is None:
            held: list[Transfer] = []
            try:
                self._pool.replace(incoming, self._make_successor, held)
                if held:
                    self._pool.release(held)
            except BaseException:  # Ctrl-C
                self._pool.drop(incoming)
                self._drop_held(held)
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
        self._remove_opened(incoming)
        self._pool.drop_from_finalizer(incoming)

    def _remove_opened(self, transfer: Transfer) -> bool:
        """Remove a streamed response; return True to the one caller that removed it."""
        try:
            self._opened.remove(transfer)
        except KeyError:
            return False
        return True

    # hedged requests

    async def _race(self, request: ClientRequest, plan: HedgePlan) -> Transfer:
        """Return the winning attempt; the driver of the first one runs them all."""
        first = self._start(request)
        driver: PooledDriver = first.driver

        async def wait(seconds: float | None) -> None:
            due = driver.wait_seconds()
            if seconds is not None:
                due = seconds if due is None else min(seconds, due)
            driver.run_once(due)

        race: HedgeRace | None = None
        try:
            race = started = HedgeRace(plan, first, partial(self._drop_loser, driver))
            driver.set_max_connections(1 + plan.most)
            winner = await race.run(wait, lambda: self._join(started, driver))
            driver.set_max_connections(1)
        except BaseException as error:
            driver.set_max_connections(1)  # it may be used again
            self._fail(first if race is None else race.abandon(), error)
            raise
        return winner

    async def _join(self, race: HedgeRace, driver: PooledDriver) -> None:
        """Send one more attempt, unless it would have to wait for a slot."""
        # An attempt that waits for a slot would come too late to help.
        origin = race.request.url.origin
        if not self._pool.acquire_slot(origin):
            return race.stop()
        try:
            request, first = await race.next(), race.running[0]
            rival = None if request is None else Transfer(self._limits, first.shares, self.totals)
        except BaseException:
            self._pool.release_slot(origin)
            raise
        if request is None or rival is None:
            return self._pool.release_slot(origin)
        self._pool.add_in_slot(rival, first)
        try:
            rival.connections = first.connections
            rival.prepare(request)
            rival.wake = _ignore
            driver.add(rival)
            race.add(rival, driver)
        except BaseException:
            if rival not in race.running:
                self._pool.drop(rival)
            raise

    def _drop_loser(self, driver: PooledDriver, loser: Transfer, other: Transfer) -> None:
        """Drop an attempt; if it holds the driver, the other attempt inherits that."""
        driver.remove_unfinished(loser)
        if loser.driver is not None:
            loser.driver, other.driver = None, driver
        connection = loser.connection
        if loser.done and connection is not None and connection is not other.connection:
            # Its response came too late, and only one connection is kept. libcurl may have closed
            # this one, and another socket may have its number by now.
            shut_down(loser.easy.getinfo(pycurl.ACTIVESOCKET))
        self._pool.drop(loser)

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
        from curlhttp._curl.streams.blocking import ThreadStream
        from curlhttp._curl.streams.stream import make_connection_request

        transfer = self._start(make_connection_request(request))
        try:
            # It keeps its driver, because its removal would close the connection.
            while not transfer.done:
                transfer.driver.step()
            raise_failure(transfer)
            stream = ThreadStream(transfer, self._pool.drop, self._pool.drop_from_finalizer)
        except BaseException as error:
            self._fail(transfer, error)
            raise
        self._streams.add(stream)
        return stream

    # the end

    @property
    def is_closed(self) -> bool:
        """Return whether no more requests are sent."""
        return self._pool.is_closed

    def open_connections(self) -> Counts:
        """Return how many connections are open; may be called from any thread."""
        every, idle = self._pool.all.copy(), self._pool.idle()
        return count_connections(
            [transfer.connections for transfer in every],
            [transfer for transfer in every if transfer not in idle],
        )

    def transfers(self) -> set[Transfer]:
        """Return all transfers; may be called from any thread."""
        return self._pool.all.copy()

    def tell_state(self) -> EngineState:
        """Return what statistics need; may be called from any thread."""
        every, idle = self._pool.all.copy(), self._pool.idle()
        active = [transfer for transfer in every if transfer not in idle]
        connections = [transfer.connections for transfer in every]
        return tell_state(connections, active, self._pool.slots.waits())

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

    def after_fork_in_child(self) -> None:
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


def _ignore() -> None:
    """Do nothing. A `wake` means that a caller waits, so that the read timeout applies."""


# --- The driver pool: a thread acquires a driver, uses it alone, and releases it ---
#
# Transfers bring their own connections, so a driver keeps none. It keeps what its curl_multi has
# cached: names, TLS sessions, and the authorities, which libcurl parses once for each curl_multi.

_REMOVE, _TIMERS, _IN = pycurl.POLL_REMOVE, pycurl.SOCKET_TIMEOUT, int(pycurl.CSELECT_IN)


class DriverPool:
    """The drivers of the blocking engine; the most recently used one is reused first.

    Args:
        limits: the client's limits.

    Attributes:
        all: every driver, in use or idle.
    """

    def __init__(self, limits: Limits) -> None:
        self.all: WeakSet[PooledDriver] = WeakSet()  # weak, because Ctrl-C may lose a driver
        self._limits = limits
        self._idle: list[PooledDriver] = []
        self._is_closed = False

    # No lock, because a pop from a list is one step of the interpreter, and so is an append.

    def acquire(self) -> PooledDriver:
        """Return a driver that is not in use."""
        try:
            return self._idle.pop()
        except IndexError:
            driver = PooledDriver(self._limits, self)
            self.all.add(driver)
            return driver

    def release(self, driver: PooledDriver) -> None:
        """Return a driver to the pool; nothing runs on it any more."""
        if driver.is_resolving or driver.broken is not None:
            self.all.discard(driver)
            driver.close_in_thread()
            return
        self._idle.append(driver)
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Close the idle drivers now, and the others at their release."""
        self._is_closed = True
        with suppress(IndexError):  # another thread may be closing as well
            while True:
                self._close(self._idle.pop())

    def _close(self, driver: PooledDriver) -> None:
        self.all.discard(driver)
        driver.close()


class PooledDriver(Driver):
    """A driver for one transfer and its rivals.

    Args:
        limits: the client's limits.
        pool: it returns to this pool.

    Attributes:
        is_resolving: libcurl may still be looking up a name for a removed transfer.
    """

    poller: PollSockets | WakeableSockets
    _make_poller = staticmethod(make_wakeable_poller)

    def __init__(self, limits: Limits, pool: DriverPool) -> None:
        super().__init__(limits, 1)
        self.set_max_connections(1)
        self._pool = pool
        self.is_resolving = False

    def _on_socket(self, what: int, descriptor: int, multi: object, data: object) -> None:
        # Forgetting is free here, and the next transfer has other sockets.
        try:
            if what == _REMOVE:
                if self.unanswered:
                    self._check_for_alert(descriptor)
                if self.multiplexing.has_http2:
                    self._note_unwatched(descriptor)
                self.poller.wanted.pop(descriptor, None)  # as forget() and watch(), without a call
            else:
                self.poller.wanted[descriptor] = what
        except BaseException as error:
            self.broken = unwrap_callback_error(error)

    def _read_timer(self) -> None:
        if self.running:  # otherwise the next transfer has other timers
            super()._read_timer()

    def set_max_connections(self, connections: int) -> None:
        """Let a transfer and its rivals have so many connections at the same time."""
        # Both apply to each share; a transfer and its rivals use the same one.
        self.multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, connections)
        self.multi.setopt(pycurl.M_MAXCONNECTS, connections)

    def start(self, transfer: Transfer) -> None:
        """Start a prepared transfer, the only one; many have ended when this returns."""
        easy, request = transfer.easy, transfer.request
        assert request is not None
        if transfer.handle.multiplexes:
            self.multiplexing.set_pipewait(transfer, request.url.origin)
        if FAILED or self._names.surplus:
            self._names.set_removals(easy, request)
        self.multi.add_handle(easy)
        self.running[easy] = transfer
        transfer.attached = self
        if not (self._draining or self._resume_at):
            # They were for transfers that have ended.
            self._check_at = self._read_timeouts.next_check = math.inf
        try:
            self.multi.socket_action(_TIMERS, 0)
        except BaseException as error:
            self._note_failed_action(error)
        if transfer.is_new_connection:  # a local one is established at once, which saves a wait
            self._socket_action(transfer.sockets[-1], pycurl.CSELECT_OUT)
        self._collect()
        if self.running:  # it has to wait, so it needs a read timeout
            super()._read_timer()
            # As _start_read_timeout, where nobody else waits.
            transfer.check_at = 0.0
            timeout = request.timeout
            limit = timeout.read if timeout.write is None else get_first_limit(request)
            if limit is not None:
                check = self._read_timeouts.next_check = transfer.last_activity + limit
                if check < self._check_at:
                    self._check_at = check

    def step(self) -> None:
        """Wait until a socket is ready or a timer is due, and handle that."""
        due, check = self._libcurl_due, self._check_at
        if due is None or check < due:
            due = check
        now = monotonic()
        if self._to_resume or due <= now:
            return self.run_once(0)
        events = self.poller.poll(None if due == math.inf else due - now)
        if len(events) != 1:
            return self._handle(events)
        descriptor, bits = events[0]
        now = self._last_event[descriptor] = monotonic()
        if bits & _IN:
            self._last_read[descriptor] = now
        try:
            self.multi.socket_action(descriptor, bits)
        except BaseException as error:
            self._note_failed_action(error)
        self._collect()
        if self.running:  # most waits are for the response, and end here
            self._end_turn(now, has_events=True)
        return None

    def remove_unfinished(self, transfer: Transfer) -> None:
        """Remove a transfer in any state."""
        self.remove(transfer)
        if not transfer.sends and _is_resolving(transfer):
            self.is_resolving = True

    def shut_down_sockets(self, transfer: Transfer) -> None:
        """End a transfer's connection, from any thread; a thread that waits for it wakes up."""

        def is_its_own(descriptor: int) -> bool:
            # libcurl reports a socket before it closes it and the number is reused.
            return transfer.driver is self and descriptor in self.poller.descriptors()

        for descriptor in self.poller.descriptors():
            shut_down(descriptor, is_its_own)
        if isinstance(self.poller, WakeableSockets):
            self.poller.wake()

    def abandon(self, transfer: Transfer) -> None:
        """Remove a transfer in any state, and release its driver."""
        transfer.driver = None
        try:
            self.remove_unfinished(transfer)
        finally:
            self._to_resume.clear()
            self._pool.release(self)


def _is_resolving(transfer: Transfer) -> bool:
    """Return whether libcurl may still be looking up the name."""
    if not transfer.asks_libcurl or transfer.code == pycurl.E_COULDNT_RESOLVE_HOST:
        return False
    try:
        seconds: int = transfer.easy.getinfo(pycurl.NAMELOOKUP_TIME_T)
    except pycurl.error:  # the garbage collector has closed the handle
        return False
    return not seconds
