"""Drivers for the blocking engine. A thread acquires one, uses it alone, and releases it.

The transfers that run on one bring their own connections along. So a driver keeps none; what it
keeps is what its curl_multi has learned: names, TLS sessions, and the authorities, which libcurl
parses once for each curl_multi.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from weakref import WeakSet

import pycurl

from curlhttp._curl.connections import shut_down
from curlhttp._curl.driver import Driver
from curlhttp._curl.errors import raised_in_callback
from curlhttp._curl.poller import PollSockets, SelectorSockets, make_small_poller
from curlhttp._curl.transfer import Transfer
from curlhttp._models.config import Limits

__all__ = ["DriverPool", "PooledDriver"]


_REMOVE = pycurl.POLL_REMOVE


class DriverPool:
    """The drivers that threads borrow; the last used goes first.

    Args:
        limits: the client's limits.

    Attributes:
        all: every driver, lent or idle.
    """

    def __init__(self, limits: Limits) -> None:
        self.all: WeakSet[PooledDriver] = WeakSet()  # Ctrl-C may lose one on its way
        self._limits = limits
        self._idle: list[PooledDriver] = []
        self._is_closed = False

    # No lock: the interpreter takes from a list and puts into it in one step each.

    def lend(self) -> PooledDriver:
        """Return a driver that nobody uses."""
        try:
            return self._idle.pop()
        except IndexError:
            driver = PooledDriver(self._limits, self)
            self.all.add(driver)
            return driver

    def take_back(self, driver: PooledDriver) -> None:
        """Take back a driver on which nothing runs any more."""
        if driver.resolves or driver.broken is not None:
            self.all.discard(driver)
            # libcurl's close waits for the resolver, which knows no time limit.
            _start_thread(driver.close)
            return
        self._idle.append(driver)
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Close the idle drivers now, and the others when they come back."""
        self._is_closed = True
        with suppress(IndexError):  # another thread may be closing as well
            while True:
                self._close(self._idle.pop())

    def _close(self, driver: PooledDriver) -> None:
        self.all.discard(driver)
        driver.close()


def _start_thread(function: Callable[[], None]) -> None:
    """Run a function in a thread, a real one also where gevent makes greenlets of them."""
    gevent = sys.modules.get("gevent.monkey")
    if gevent is None:
        threading.Thread(target=function, daemon=True).start()
    else:
        gevent.get_original("_thread", "start_new_thread")(function, ())


class PooledDriver(Driver):
    """A driver for one transfer and its rivals.

    Args:
        limits: the client's limits.
        owner: where it comes from, and goes back to.

    Attributes:
        resolves: a name may be being looked up still, for a transfer that was taken off.
    """

    poller: PollSockets | SelectorSockets
    _make_poller = staticmethod(make_small_poller)

    def __init__(self, limits: Limits, owner: DriverPool) -> None:
        super().__init__(limits, 1)
        self.expect(1)
        self._owner = owner
        self.resolves = False

    def _on_socket(self, what: int, descriptor: int, multi: object, data: object) -> None:
        # Forgetting costs nothing here, and the next transfer has other sockets.
        try:
            if what == _REMOVE:
                if self.unanswered:
                    self._look_at_end(descriptor)
                self.poller.forget(descriptor)
            else:
                self.poller.watch(descriptor, what)
        except BaseException as error:
            self.broken = raised_in_callback(error)

    def _read_timer(self) -> None:
        if self.running:  # else the next transfer has another time
            super()._read_timer()

    def expect(self, connections: int) -> None:
        """Let a transfer and its rivals have so many connections at once."""
        # Both hold for each share: those of a transfer and its rivals are in one.
        self.multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, connections)
        self.multi.setopt(pycurl.M_MAXCONNECTS, connections)

    def begin(self, transfer: Transfer) -> None:
        """Start a prepared transfer, alone; many are done when this returns."""
        request, easy = transfer.request, transfer.easy
        assert request is not None
        if transfer.handle.multiplexes:
            self.multiplexing.decide_pipewait(transfer, request.url.origin)
        self.multi.add_handle(easy)
        self.running[easy] = transfer
        transfer.attached = self
        self._socket_action(pycurl.SOCKET_TIMEOUT, 0)
        if transfer.is_new_connection:  # on one machine it is there at once: that saves a wait
            self._socket_action(transfer.sockets[-1], pycurl.CSELECT_OUT)
        self._collect()
        if self.running:  # it has to wait: only from here on can there be a silence
            self._read_timer()
            self._watch_silence(transfer, request)

    def step(self) -> None:
        """Wait until a socket is ready or something is due, and handle that."""
        self.run_once(self.wait_seconds())

    def leave(self, transfer: Transfer) -> None:
        """Take a transfer off in whatever state it is."""
        self.remove(transfer)
        if not transfer.sends and _is_resolving(transfer):
            self.resolves = True

    def hang_up(self, transfer: Transfer) -> None:
        """End a transfer's connection, from any thread; the one that waits for it goes on."""

        def is_its_own(descriptor: int) -> bool:
            # libcurl tells before it closes a socket, whose number may be another one's then.
            return transfer.driver is self and descriptor in self.poller.descriptors()

        for descriptor in self.poller.descriptors():
            shut_down(descriptor, is_its_own)

    def give_back(self, transfer: Transfer) -> None:
        """End the loan that a transfer held; it has ended."""
        transfer.driver = None
        self._owner.take_back(self)

    def give_up(self, transfer: Transfer) -> None:
        """Take a transfer off in whatever state it is, and end the loan that it held."""
        transfer.driver = None
        try:
            self.leave(transfer)
        finally:
            self._to_resume.clear()
            self._owner.take_back(self)


def _is_resolving(transfer: Transfer) -> bool:
    """Return whether the name may be being looked up still."""
    if transfer.code == pycurl.E_COULDNT_RESOLVE_HOST:
        return False
    try:
        seconds: int = transfer.easy.getinfo(pycurl.NAMELOOKUP_TIME_T)
    except pycurl.error:  # the garbage collector has closed the handle
        return False
    return not seconds
