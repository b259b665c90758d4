"""The driver pool of blocking clients: a thread acquires a driver, uses it alone, and releases it.

Transfers bring their own connections, so a driver keeps none. It keeps what its curl_multi has
cached: names, TLS sessions, and the authorities, which libcurl parses once for each curl_multi.
"""

from __future__ import annotations

import math
from contextlib import suppress
from time import monotonic
from typing import Protocol
from weakref import WeakSet

from curlhttp._http.config import Limits
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.connection_state import shut_down
from curlhttp._libcurl.dns import FAILED
from curlhttp._libcurl.driver import Driver
from curlhttp._libcurl.errors import unwrap_callback_error
from curlhttp._libcurl.poller import PollSockets, WakeableSockets, make_wakeable_poller
from curlhttp._libcurl.transfer import Transfer

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


class DriverOwner(Protocol):
    """What a driver returns to: the pool, or a race while one runs."""

    def release(self, driver: PooledDriver) -> None: ...


class PooledDriver(Driver):
    """A driver for one transfer, or for those of a race.

    Args:
        limits: the client's limits.
        pool: it returns to this pool.

    Attributes:
        pool: as given; a race replaces it until the last of its transfers has ended.
        is_resolving: libcurl may still be looking up a name for a removed transfer.
    """

    poller: PollSockets | WakeableSockets
    _make_poller = staticmethod(make_wakeable_poller)

    def __init__(self, limits: Limits, pool: DriverOwner) -> None:
        super().__init__(limits, 1)
        self.set_max_connections(1)
        self.pool = pool
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
            Driver._read_timer(self)  # without super(), which is slow

    def start(self, transfer: Transfer) -> None:
        """Start a prepared transfer, the only one; many have ended when this returns."""
        easy, request = transfer.easy, transfer.request
        assert request is not None
        if transfer.handle.multiplexes:
            self.multiplexing.set_pipewait(transfer, request.url.origin)
        if FAILED or self._names.surplus:
            self._names.set_removals(easy, request)
        self._add_easy(easy)
        self.running[easy] = transfer
        transfer.attached = self
        if not (self._draining or self._resume_at):
            # They were for transfers that have ended.
            self._check_at = self._silent_at = math.inf
        try:
            self._act(_TIMERS, 0)
        except BaseException as error:
            self._note_failed_action(error)
        if transfer.sockets:  # a local one is established at once, which saves a wait
            self._socket_action(transfer.sockets[-1], pycurl.CSELECT_OUT)
        self._collect()
        if self.running:  # it has to wait, so it needs a read timeout
            Driver._read_timer(self)  # without super(), which is slow
            # As start_read_timeout, where nobody else waits.
            transfer.check_at = 0.0
            limit = transfer.first_limit
            if limit is not None:
                check = self._silent_at = transfer.last_activity + limit
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
            self._act(descriptor, bits)
        except BaseException as error:
            self._note_failed_action(error)
        self._collect()
        if self.running:  # most waits are for the response, and end here
            self._end_turn(now, has_events=True)
        return None

    def remove_unfinished(self, transfer: Transfer) -> None:
        """Remove a transfer in any state."""
        self.remove(transfer)
        if not transfer.attempt.is_out and _is_resolving(transfer):
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
            if not self.running:  # otherwise they may be those of other attempts
                self._to_resume.clear()
            self.pool.release(self)


def _is_resolving(transfer: Transfer) -> bool:
    """Return whether libcurl may still be looking up the name."""
    if not transfer.asks_libcurl or transfer.code == pycurl.E_COULDNT_RESOLVE_HOST:
        return False
    try:
        seconds: int = transfer.easy.getinfo(pycurl.NAMELOOKUP_TIME_T)
    except pycurl.error:  # the garbage collector has closed the handle
        return False
    return not seconds
