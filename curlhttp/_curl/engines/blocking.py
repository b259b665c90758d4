"""The engine of `Client`: easy.perform in the calling thread, or a loop where that must not be.

A transfer keeps one connection of its own, so that threads never share one (sharing connections
between threads crashes libcurl); names and TLS sessions are shared. Its coroutines never suspend.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from functools import partial
from weakref import WeakSet

import pycurl

from curlhttp._config import Limits
from curlhttp._curl.connections import Connections, Suspects
from curlhttp._curl.driver import Driver
from curlhttp._curl.errors import raised_in_callback
from curlhttp._curl.leak import leak, leak_transfer
from curlhttp._curl.race import HedgeRace
from curlhttp._curl.result import check_opened, finish, raise_failure, response_of, take_piece
from curlhttp._curl.thread_gate import ThreadGate
from curlhttp._curl.thread_pool import Key, ThreadPool
from curlhttp._curl.transfer import Transfer
from curlhttp._engine import ByteStream, HedgePlan, Incoming, connector
from curlhttp._fork import register
from curlhttp._models.closed import closed_with_client
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp._network import network, now, wall

__all__ = ["BlockingEngine"]

# What a transfer runs on: so many connections on a driver of its own, none for easy.perform.
_PERFORM, _ALONE, _RIVAL = 0, 1, -1  # the last: on the driver of the attempt that it may replace
_CONNECT = -2  # easy.perform, which connects and sends nothing
_MAIN = threading.main_thread()  # the one that gets KeyboardInterrupt
_RECENT = 1.0  # seconds since an answer, within which the next connection hardly stalls
_SHORT_READ = 1.0  # seconds: shorter read timeouts than perform's callback can keep


class BlockingEngine:
    """Move bytes in the calling thread; usable from many threads at once.

    Args:
        limits: the client's limits.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open()
        register(self)

    def _open(self) -> None:
        self._pool = ThreadPool(self._limits, self._make)
        self._streams: WeakSet[ByteStream] = WeakSet()
        self._suspects = Suspects()
        # Sharing connections between threads crashes libcurl; names and TLS sessions it may share.
        self._share = pycurl.CurlShare()
        self._share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_DNS)
        self._share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_SSL_SESSION)

    def _make(self, key: Key) -> Transfer:
        connections = key[2]
        transfer = Transfer(
            self._limits, self._share, watches_progress=connections in (_PERFORM, _CONNECT)
        )
        # One connection each: an idle one would hold a descriptor that the bound does not count.
        transfer.easy.setopt(pycurl.MAXCONNECTS, 1)
        if connections in (_PERFORM, _CONNECT):
            transfer.connections = Connections(self._suspects)
        elif connections > 0:
            transfer.driver = Driver(self._limits, connections, self._suspects)
        return transfer

    # buffered exchanges

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
        body, read = request.body, request.timeout.read
        if plan is not None:
            transfer = await self._race(request, plan)
        elif (body is not None and (body.data is None or request.timeout.write is not None)) or (
            read is not None and read < _SHORT_READ
        ):
            transfer = self._start(request, _ALONE)
        else:
            transfer = self._start(request, _PERFORM)
        try:
            if transfer.driver is not None:
                self._loop(transfer, lambda: transfer.done)
            elif transfer.idle > _RECENT and _may_stall(transfer):
                _perform_in_thread(transfer)
            else:
                _perform(transfer)
            while transfer.restarts:  # a driver would have started it over by itself
                _perform_again(transfer)
            response = response_of(transfer)
            transfer.clean()
        except BaseException:
            self._pool.drop(transfer)
            raise
        self._pool.give(transfer)
        return response

    def _start(self, request: Request, connections: int) -> Transfer:
        begun = time.monotonic()
        transfer = self._pool.take(request, connections)
        try:
            transfer.prepare(request)
            transfer.queue_seconds = transfer.last_activity - begun
            if connections:
                transfer.driver.add(transfer)
        except BaseException:
            self._pool.drop(transfer)
            raise
        return transfer

    def _loop(self, transfer: Transfer, is_over: Callable[[], object]) -> None:
        driver = transfer.driver
        transfer.wake = _ignore
        # Until now nobody waited for the server: the time before is not its silence.
        transfer.last_activity = time.monotonic()
        while not is_over():
            driver.run_once(driver.wait_seconds())
        transfer.wake = None

    # several attempts at once

    async def _race(self, request: Request, plan: HedgePlan) -> Transfer:
        """Return the attempt that surfaces; the driver of the first one drives them all."""
        first = self._start(request, _ALONE + plan.most)
        driver: Driver = first.driver

        async def wait(seconds: float | None) -> None:
            due = driver.wait_seconds()
            if seconds is not None:
                due = seconds if due is None else min(seconds, due)
            driver.run_once(due)

        race = HedgeRace(plan, first, partial(self._leave, driver))
        first.wake = _ignore
        try:
            return await race.run_out(wait, partial(self._join, race, driver))
        except BaseException:
            self._pool.drop(race.abandon())
            raise

    async def _join(self, race: HedgeRace, driver: Driver) -> None:
        """Send one more attempt, unless it had to wait for its turn."""
        # A rival that had to wait for a slot would come too late to help.
        origin = race.request.url.origin
        if not self._pool.take_slot(origin):
            return race.stop()
        request = race.next()
        if request is None:
            return self._pool.give_slot(origin)
        rival = self._pool.take_in_slot(request, _RIVAL)
        try:
            rival.prepare(request)
            rival.wake = _ignore
            driver.add(rival)
        except BaseException:
            self._pool.drop(rival)
            raise
        return race.add(rival, driver)

    def _leave(self, driver: Driver, loser: Transfer, other: Transfer) -> None:
        """Let go of an attempt; if the driver is its own, the other one inherits it."""
        driver.remove(loser)
        if loser.driver is not None:
            loser.driver, other.driver = None, loser.driver
            loser.key, other.key = other.key, loser.key
        self._pool.drop(loser)

    # streamed exchanges

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
        transfer = self._start(request, _ALONE) if plan is None else await self._race(request, plan)
        try:
            self._loop(transfer, lambda: transfer.head is not None or transfer.done)
            check_opened(transfer)
        except BaseException:
            self._pool.drop(transfer)
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
                    incoming.driver.resume_soon(incoming)
                self._loop(incoming, lambda: incoming.pieces or incoming.done)
            piece = take_piece(incoming)
            if piece:
                return piece
            # Where the body was cut short, its connection has ended: there is nothing to keep.
            is_spent = incoming.is_cut_short
            if not is_spent:
                incoming.clean()
        except BaseException:
            self._pool.drop(incoming)
            raise
        if is_spent:
            self._pool.drop(incoming)
        else:
            self._pool.give(incoming)
        return b""

    def abort(self, incoming: Transfer) -> None:
        """Let go of a response; its connection is closed."""
        self._pool.drop(incoming)

    def abort_from_finalizer(self, incoming: Transfer) -> None:
        """Let go of a response from a finalizer, in whatever thread that runs."""
        self._pool.drop_from_finalizer(incoming)

    # connections for other protocols

    async def connect(self, request: Request) -> ByteStream:
        """Open a connection of its own to a request's origin, and send nothing on it.

        Args:
            request: complete; its transport, timeouts and deadline count.

        Raises:
            RequestException: no connection came of it.
        """
        if (stand_in := network.stand_in) and (other := stand_in.engine_for(request, self)):
            return await connector(other).connect(request)
        from curlhttp._curl.streams.in_threads import ThreadStream
        from curlhttp._curl.streams.stream import connection_to

        begun = time.monotonic()
        request = connection_to(request)
        transfer = self._pool.take(request, _CONNECT)
        try:
            transfer.prepare(request)
            transfer.queue_seconds = transfer.last_activity - begun
            if threading.current_thread() is _MAIN:
                _perform_in_thread(transfer)
            else:
                _perform(transfer)
            raise_failure(transfer)
            stream = ThreadStream(transfer, self._pool.drop, self._pool.drop_from_finalizer)
        except BaseException:
            self._pool.drop(transfer)
            raise
        self._streams.add(stream)
        return stream

    # the rest

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        if network.skip(seconds):
            return
        time.sleep(seconds)  # noqa: ASYNC251  # there is no loop to block

    now = staticmethod(now)
    wall = staticmethod(wall)

    @property
    def is_closed(self) -> bool:
        """Return whether no more requests are sent."""
        return self._pool.is_closed

    def gate(self) -> ThreadGate:
        """Return a closed gate, for a caller to wait at."""
        return ThreadGate()

    def close(self) -> None:
        """Close the idle connections now, and those in use when their exchange ends.

        Connections for other protocols end at once, since they know no exchange.
        """
        self._pool.close()
        for stream in tuple(self._streams):
            stream.abort(closed_with_client())

    def close_from_finalizer(self) -> None:
        """Close the connections, unless this thread may be giving or taking one."""
        self._pool.close_from_finalizer()

    def after_fork_in_child(self) -> None:
        """Start afresh, and leave the connections to the parent."""
        # A client that was closed before the fork stays so.
        is_closed = self._pool.is_closed
        for transfer in self._pool.all:
            leak_transfer(transfer)
        leak(self._share)
        self._open()
        self._pool.is_closed = is_closed

    def after_fork_in_parent(self) -> None:
        """Go on, although the child has copies of the sockets."""
        # The child's copies keep sockets open, which a driver's poller would report for ever.
        for transfer in list(self._pool.all):
            if transfer.driver is not None:
                transfer.driver.after_fork_in_parent()


def _perform(transfer: Transfer) -> None:
    code, message = 0, ""
    try:
        transfer.easy.perform()
    except pycurl.error as error:
        code, message = error.args
    # Python makes one where a signal's handler has raised in a callback.
    except SystemError as error:
        raise raised_in_callback(error) from None
    finish(transfer, code, message)


def _may_stall(transfer: Transfer) -> bool:
    """Return whether it may have to connect first, in the thread that Ctrl-C interrupts."""
    if threading.current_thread() is not _MAIN:
        return False
    connection = transfer.connection
    return connection is None or not connection.is_clean()


def _perform_again(transfer: Transfer) -> None:
    transfer.restart()
    if threading.current_thread() is _MAIN:
        _perform_in_thread(transfer)
    else:
        _perform(transfer)


def _perform_in_thread(transfer: Transfer) -> None:
    """Perform in another thread: while libcurl connects, nothing else lets Ctrl-C in."""
    ended = ThreadGate()
    lock = threading.Lock()
    watch = transfer.progress
    assert watch is not None
    watch.is_running = True

    def run() -> None:
        _perform(transfer)
        with lock:
            watch.is_running, is_dropped = False, watch.is_dropped
            ended.open()
        # The caller was interrupted and has gone; a handle that runs must not be closed.
        if is_dropped:
            transfer.close()

    try:
        _thread.start_new_thread(run, ())  # Thread.start waits for an Event
        ended.pass_within()
    except BaseException:
        with lock:
            watch.is_dropped = True
        raise


def _ignore() -> None:
    """Stand for a caller that waits: the read timeout counts, and the loop looks for itself."""
