"""The engine of `Client`: easy.perform in the calling thread, or a loop where that must not be.

A transfer keeps one connection of its own, so that threads never share one (sharing connections
between threads crashes libcurl); names and TLS sessions are shared. Its coroutines never suspend.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pycurl

from curlhttp._config import Limits
from curlhttp._curl.connections import Connections, Suspects
from curlhttp._curl.driver import Driver
from curlhttp._curl.errors import raised_in_callback
from curlhttp._curl.forks import forsake, forsake_transfer, survive
from curlhttp._curl.handles import (
    KeyedHandles,
    Slots,
    Waiter,
    no_free_handle,
    open_files_bound,
)
from curlhttp._curl.race import Race
from curlhttp._curl.transfer import Transfer
from curlhttp._engine import HedgePlan
from curlhttp._models.request import Request
from curlhttp._models.response import Response
from curlhttp.exceptions import client_closed

__all__ = ["BlockingEngine", "ThreadGate"]

# What a transfer runs on: so many connections on a driver of its own, none for easy.perform.
_PERFORM, _ALONE, _RIVAL = 0, 1, -1  # the last: on the driver of the attempt that it may replace
_FILES = 4  # per handle: a socket, and what libcurl and the loop wake up with
_PARKED = 8
_MAIN = threading.main_thread()  # the one that gets KeyboardInterrupt
_RECENT = 1.0  # seconds since an answer, within which the next connection hardly stalls
_SHORT_READ = 1.0  # seconds: shorter read timeouts than perform's callback can keep


class ThreadGate:
    """Something that one thread waits at until it is opened, from any.

    No threading.Event: a finalizer that opens one in the thread that waits for it would wait for
    itself, and of Ctrl-C in its wait it may make a RuntimeError.
    """

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def open(self) -> None:
        """Let the thread go on; never waits, may be called twice."""
        with suppress(RuntimeError):  # it was open
            self._lock.release()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until it is open, or for so long."""
        self.pass_within(seconds)

    def pass_within(self, seconds: float | None = None) -> bool:
        """Wait likewise, without a coroutine; tell whether it was opened."""
        return self._lock.acquire(
            timeout=-1 if seconds is None else min(seconds, threading.TIMEOUT_MAX)
        )


class BlockingEngine:
    """Move bytes in the calling thread; usable from many threads at once.

    Args:
        limits: the client's limits.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._closed = False
        self._open()
        survive(self)

    def _open(self) -> None:
        limits = self._limits
        self._bound = open_files_bound(limits.max_connections, _FILES)
        self._lock = threading.Lock()
        self._orphans: deque[Transfer] = deque()
        self._slots = Slots(self._bound, limits.max_connections_per_host)
        keep = limits.max_keepalive_connections
        self._handles = KeyedHandles(self._make, self._bound if keep is None else keep)
        # The last used of some keys, ready and with their slots: a loop of requests takes and
        # gives without the lock, the slots and the idle lists, which is 5 % of a small request.
        self._parked: dict[Any, Transfer] = {}
        self._suspects = Suspects()
        self._share = pycurl.CurlShare()
        self._share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_DNS)
        self._share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_SSL_SESSION)

    def _make(self, key: Any) -> Transfer:
        connections = key[2]
        transfer = Transfer(self._limits, self._share, watches_progress=connections == _PERFORM)
        transfer.easy.setopt(pycurl.MAXCONNECTS, 1)
        if connections == _PERFORM:
            transfer.connections = Connections(self._suspects)
        elif connections > 0:
            transfer.driver = Driver(self._limits, connections, self._suspects)
        return transfer

    # the pool

    def _take(self, request: Request, connections: int) -> Transfer:
        origin = request.url.origin
        key = (origin, id(request.transport), connections)
        if self._orphans:
            self._reap()
        parked = self._parked.pop(key, None)
        if parked is not None:
            return parked
        self._make_room()
        with self._lock:
            if self._slots.take(origin):
                return self._pop(key, request)
            gate = ThreadGate()
            waiter = Waiter(origin, gate.open)
            self._slots.wait(waiter)
        self._unpark()  # what was parked before it could be known that somebody waits
        if self._orphans:  # let go of while this thread had the lock
            self._reap()
        self._wait(waiter, gate, request)
        with self._lock:
            return self._pop(key, request)

    def _pop(self, key: Any, request: Request) -> Transfer:
        try:
            if self._closed:
                raise client_closed(request)
            return self._handles.pop(key, self._bound)
        except BaseException:
            self._slots.give(key[0])
            raise

    def _wait(self, waiter: Waiter, gate: ThreadGate, request: Request) -> None:
        seconds = request.pool_seconds(time.monotonic())
        try:
            if gate.pass_within(seconds):
                return
        except BaseException:  # Ctrl-C
            with self._lock:
                self._slots.leave(waiter)
            raise
        with self._lock:
            if waiter.granted:
                return
            self._slots.leave(waiter)
        raise no_free_handle(request, self._bound)

    def _give(self, transfer: Transfer) -> None:
        """Take back a transfer that is clean."""
        if not self._park(transfer):
            with self._lock:
                self._handles.push(transfer)
                self._slots.give(transfer.key[0])
            self._keep_no_more()
        if self._orphans:
            self._reap()

    def _park(self, transfer: Transfer) -> bool:
        """Keep a transfer of `perform` with its slot, unless somebody waits or it is too many."""
        parked, handles, slots = self._parked, self._handles, self._slots
        if transfer.key[2] or len(parked) >= _PARKED or not handles.keep or slots.waiters:
            return False
        if parked.setdefault(transfer.key, transfer) is not transfer:
            return False
        if slots.waiters or self._closed:  # others may have looked before it was here
            self._unpark()
        self._keep_no_more()
        return True

    def _keep_no_more(self) -> None:
        """Hold parked and idle transfers together to their bound."""
        # Again and again: another thread may park while this one gives back.
        while self._parked and self._handles.idle_count + len(self._parked) > self._handles.keep:
            self._unpark()

    def _make_room(self) -> None:
        """See to it that no parked transfer has the slot that is wanted."""
        if self._slots.used >= self._slots.total or self._slots.per_origin is not None:
            self._unpark()

    def _unpark(self) -> None:
        """Give the slots of all parked transfers back, the oldest first."""
        for key in list(self._parked):
            transfer = self._parked.pop(key, None)
            if transfer is not None:  # else another thread was faster
                with self._lock:
                    self._handles.push(transfer)
                    self._slots.give(key[0])

    def _drop(self, transfer: Transfer) -> None:
        self._release(transfer)
        if self._orphans:
            self._reap()

    def _release(self, transfer: Transfer) -> None:
        with self._lock:
            if transfer not in self._handles.all:  # it is the parent process's, or gone already
                return
            self._handles.all.discard(transfer)
            self._slots.give(transfer.key[0])
        if transfer.performs:
            return  # the thread that does so closes it
        if _is_resolving(transfer):
            # libcurl's close waits for the resolver, which knows no time limit.
            threading.Thread(target=transfer.close, daemon=True).start()
        else:
            transfer.close()

    # buffered exchanges

    async def perform(self, request: Request, plan: HedgePlan | None = None) -> Response:
        """Send the request and return the response with its body in memory.

        Args:
            request: complete.
            plan: when to send it again while it is under way, or None for never.

        Raises:
            RequestException: the exchange failed.
        """
        body, read = request.body, request.timeout.read
        if plan is not None:
            transfer = self._race(request, plan)
        elif (body is not None and body.data is None) or (read is not None and read < _SHORT_READ):
            transfer = self._start(request, _ALONE)
        else:
            transfer = self._start(request, _PERFORM)
        try:
            if transfer.driver is not None:
                self._loop(transfer, lambda: transfer.done)
            elif transfer.idle > _RECENT and _may_stall(transfer):
                _perform_apart(transfer)
            else:
                _perform(transfer)
            while transfer.restarts:
                _perform_again(transfer)
            response = transfer.response()
            transfer.clean()
        except BaseException:
            self._drop(transfer)
            raise
        self._give(transfer)
        return response

    def _start(self, request: Request, connections: int) -> Transfer:
        begun = time.monotonic()
        transfer = self._take(request, connections)
        try:
            transfer.prepare(request)
            transfer.queued = transfer.stamp - begun
            if connections:
                transfer.driver.add(transfer)
        except BaseException:
            self._drop(transfer)
            raise
        return transfer

    def _loop(self, transfer: Transfer, is_over: Callable[[], Any]) -> None:
        driver = transfer.driver
        transfer.wake = _ignore
        transfer.stamp = time.monotonic()
        while not is_over():
            driver.run_once(driver.wait_seconds())
        transfer.wake = None

    # several attempts at once

    def _race(self, request: Request, plan: HedgePlan) -> Transfer:
        """Return the attempt that surfaces; the driver of the first one drives them all."""
        first = self._start(request, _ALONE + plan.most)
        driver = first.driver
        race = Race(plan, first, partial(self._leave, driver))
        first.wake = _ignore
        try:
            while (winner := race.winner()) is None:
                driver.run_once(race.wait_seconds(driver.wait_seconds()))
                if race.is_due:
                    self._join(race, driver)
            race.settle(winner)
        except BaseException:
            self._drop(race.abandon())
            raise
        return winner

    def _join(self, race: Race, driver: Driver) -> None:
        """Send one more attempt, unless it had to wait for its turn."""
        origin = race.request.url.origin
        self._make_room()
        with self._lock:
            if self._closed or not self._slots.take(origin):
                return race.stop()
        request = race.next()
        with self._lock:
            if request is None:
                return self._slots.give(origin)
            rival = self._pop((origin, id(request.transport), _RIVAL), request)
        try:
            rival.prepare(request)
            rival.wake = _ignore
            driver.add(rival)
        except BaseException:
            self._drop(rival)
            raise
        race.running.append(rival)
        if rival.multiplexes and not race.may_share:
            driver.use_own_connection(rival)
        return None

    def _leave(self, driver: Driver, loser: Transfer, other: Transfer) -> None:
        """Let go of an attempt; if the driver is its own, the other one inherits it."""
        driver.remove(loser)
        if loser.driver is not None:
            loser.driver, other.driver = None, loser.driver
            loser.key, other.key = other.key, loser.key
        self._drop(loser)

    # streamed exchanges

    async def open(self, request: Request, plan: HedgePlan | None = None) -> Transfer:
        """Send the request and return once the head of the response is in.

        Args:
            request: complete.
            plan: see perform.

        Raises:
            RequestException: the exchange failed up to there.
        """
        transfer = self._start(request, _ALONE) if plan is None else self._race(request, plan)
        try:
            self._loop(transfer, lambda: transfer.head is not None or transfer.done)
            if transfer.head is None:  # else reading the body will tell
                transfer.raise_failure()
                transfer.final_head()
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
                    incoming.driver.resume_soon(incoming)
                self._loop(incoming, lambda: incoming.pieces or incoming.done)
            piece = incoming.take()
            if piece:
                return piece
            incoming.raise_failure()
            incoming.final_head()
            is_spent = incoming.enough
            if not is_spent:
                incoming.clean()
        except BaseException:
            self._drop(incoming)
            raise
        if is_spent:
            self._drop(incoming)
        else:
            self._give(incoming)
        return b""

    def abort(self, incoming: Transfer) -> None:
        """Let go of a response; its connection is closed."""
        self._drop(incoming)

    def orphan(self, incoming: Transfer) -> None:
        """Let go of a response from a finalizer, which may run while this thread has the lock."""
        self._orphans.append(incoming)
        self._reap()

    def _reap(self) -> None:
        """Let go of orphans, unless the lock is taken: whoever has it does so afterwards."""
        while self._orphans and not self._lock.locked():
            try:
                incoming = self._orphans.popleft()
            except IndexError:  # another thread was faster
                return
            self._release(incoming)

    # the rest

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251  # there is no loop to block

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)

    def gate(self) -> ThreadGate:
        """Return a closed gate, for a caller to wait at."""
        return ThreadGate()

    def close(self) -> None:
        """Close the idle connections now, and those in use when their exchange ends."""
        with self._lock:
            self._closed = True
            self._slots.lift()
            self._handles.close()
        self._unpark()
        self._reap()

    def abandon(self) -> None:
        """Start afresh in a forked child."""
        for transfer in self._handles.all:
            forsake_transfer(transfer)
        forsake(self._share)
        self._open()

    def part(self) -> None:
        """Go on in the parent of a forked child."""
        for transfer in list(self._handles.all):
            if transfer.driver is not None:
                transfer.driver.after_fork_in_parent()


def _perform(transfer: Transfer) -> None:
    code, message = 0, ""
    try:
        transfer.easy.perform()
    except pycurl.error as error:
        code, message = error.args
    except SystemError as error:
        raise raised_in_callback(error) from None
    transfer.finish(code, message)


def _may_stall(transfer: Transfer) -> bool:
    """Return whether it may have to connect first, in the thread that Ctrl-C interrupts."""
    if threading.current_thread() is not _MAIN:
        return False
    connection = transfer.connection
    return connection is None or not connection.is_clean()


def _perform_again(transfer: Transfer) -> None:
    transfer.restart()
    if threading.current_thread() is _MAIN:
        _perform_apart(transfer)
    else:
        _perform(transfer)


def _perform_apart(transfer: Transfer) -> None:
    """Perform in another thread: while libcurl connects, nothing else lets Ctrl-C in."""
    ended = ThreadGate()
    lock = threading.Lock()
    transfer.performs = True

    def run() -> None:
        _perform(transfer)
        with lock:
            transfer.performs, is_dropped = False, transfer.is_dropped
            ended.open()
        if is_dropped:
            transfer.close()

    try:
        _thread.start_new_thread(run, ())  # Thread.start waits for an Event
        ended.pass_within()
    except BaseException:
        with lock:
            transfer.is_dropped = True
        raise


def _is_resolving(transfer: Transfer) -> bool:
    """Return whether the name may be being looked up still."""
    return (
        not transfer.sends
        and transfer.code != pycurl.E_COULDNT_RESOLVE_HOST
        and transfer.easy.getinfo(pycurl.NAMELOOKUP_TIME_T) == 0
    )


def _ignore() -> None:
    """Say that the caller waits; the loop looks for itself."""
