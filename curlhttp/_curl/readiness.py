"""A curl_multi and its sockets behind one descriptor, for whichever loop waits on that.

Not CurlMulti.select: select(2) cannot see descriptors above 1023 and spins on them. One driver
belongs to one thread or event loop at a time.
"""

from __future__ import annotations

import math
import os
import select
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from time import monotonic
from typing import Any, NoReturn

import pycurl

from curlhttp._config import Limits
from curlhttp._curl.connections import Connection, Connections, Suspects
from curlhttp._curl.errors import raised_in_callback
from curlhttp._curl.transfer import Transfer
from curlhttp._models.request import Request

__all__ = ["Driver"]

_select: Any = select  # no platform has all of it
_IN, _OUT, _REMOVE = pycurl.POLL_IN, pycurl.POLL_OUT, pycurl.POLL_REMOVE
_BREAKS_HPACK = (pycurl.E_RECV_ERROR, 100)  # 100: too large; pycurl has no name for it
_BATCH = 256  # events taken at once
_SLICE = 0.02  # seconds of a turn for transfers that pause: their servers never run dry
_ORIGINS = 1000  # whose protocol is remembered
_QUIET = 0.1  # seconds from an event to the next look at what came of it


class _Epoll:
    """The readiness of a set of sockets, as one descriptor (Linux)."""

    def __init__(self) -> None:
        self._epoll = _select.epoll()
        self.fileno = self._epoll.fileno
        self.close = self._epoll.close

    def watch(self, descriptor: int, what: int) -> None:
        # POLL_IN is EPOLLIN; POLL_OUT is 2 and EPOLLOUT 4
        mask = (what & _IN) | ((what & _OUT) << 1)
        try:
            self._epoll.modify(descriptor, mask)
        except FileNotFoundError:  # new, or its number is of a socket that was closed meanwhile
            self._epoll.register(descriptor, mask)

    def forget(self, descriptor: int) -> None:
        with suppress(OSError):  # closed already, which unregisters
            self._epoll.unregister(descriptor)

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Return (descriptor, CSELECT bits) of what is ready; None waits for ever."""
        found = self._epoll.poll(seconds, _BATCH)
        # Errors and hang-ups go to libcurl as readable: it finds out what happened by reading.
        return [(fd, (1 if mask & ~4 else 0) | (mask & 4) >> 1) for fd, mask in found]


class _Kqueue:
    """The same on macOS and the BSDs."""

    def __init__(self) -> None:
        self._kqueue = _select.kqueue()
        self.fileno = self._kqueue.fileno
        self.close = self._kqueue.close

    def watch(self, descriptor: int, what: int) -> None:
        self._change(descriptor, what)

    def forget(self, descriptor: int) -> None:
        self._change(descriptor, 0)

    def _change(self, descriptor: int, what: int) -> None:
        for bit, filter_ in ((_IN, _select.KQ_FILTER_READ), (_OUT, _select.KQ_FILTER_WRITE)):
            flags = _select.KQ_EV_ADD if what & bit else _select.KQ_EV_DELETE
            try:
                self._kqueue.control([_select.kevent(descriptor, filter_, flags)], 0)
            except OSError:
                if what & bit:
                    raise

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        found = self._kqueue.control(None, _BATCH, seconds)
        readable = _select.KQ_FILTER_READ
        return [(event.ident, 1 if event.filter == readable else 2) for event in found]


class _Poll:
    """The same where there is neither; its descriptor cannot be waited on."""

    def __init__(self) -> None:
        import selectors

        self._selector = selectors.DefaultSelector()
        self.close = self._selector.close

    def fileno(self) -> int:
        raise NotImplementedError("this platform has no pollable set of sockets")

    def watch(self, descriptor: int, what: int) -> None:
        self.forget(descriptor)
        self._selector.register(descriptor, what)

    def forget(self, descriptor: int) -> None:
        with suppress(KeyError):
            self._selector.unregister(descriptor)

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        return [(key.fd, events) for key, events in self._selector.select(seconds)]


_Poller: Any = (
    _Epoll if hasattr(select, "epoll") else _Kqueue if hasattr(select, "kqueue") else _Poll
)


class Driver:
    """Drive transfers on one curl_multi.

    Whoever owns it calls `turn` when the descriptor is readable or `wait_seconds` have passed.

    Args:
        limits: the client's limits.
        connections: how many sockets there may be.
        suspects: who spoke out of turn, as far as the engine knows.

    Attributes:
        running: the attached transfers by their handle.
        on_shared: called with an origin whose connections carry many requests at once, as soon as
            that is known.
        broken: what a callback failed with. libcurl has given up on all transfers, and an
            add_handle would fail (pycurl 7.47: kill the process).
    """

    def __init__(self, limits: Limits, connections: int, suspects: Suspects | None = None) -> None:
        self.running: dict[Any, Transfer] = {}
        self.poller = _Poller()
        self._due: float | None = None  # when libcurl wants to act, as it said last
        self._connections = Connections(suspects or Suspects())
        # Registered descriptors that libcurl wants nothing of for now: of kept-alive connections,
        # of paused transfers, or closed ones. Most are wanted again soon.
        self._idle: set[int] = set()
        self._has_parted = False  # from a forked child
        self._shares: dict[str, bool] = {}  # origins on TLS: do their connections multiplex
        self._solitary = False  # one was just found out not to
        self._multiplexes = False  # there may be connections of HTTP/2
        self._touched: dict[int, float] = {}  # when a socket had its last event
        self._seen = 0.0  # up to when it was looked at what came of events
        self._check_at = math.inf  # before this nothing is to be looked at, here or below
        self._to_resume: deque[tuple[Transfer, Request | None]] = deque()  # at the next turn
        # When to look whether a transfer is silent: the first look in order of starting, one
        # queue per read timeout; the few that live longer in a heap.
        self._watches: dict[float, dict[Transfer, float]] = {}
        self._rechecks: list[tuple[float, int, Transfer]] = []
        self._serial = 0
        self.broken: BaseException | None = None
        self.multi = multi = pycurl.CurlMulti()
        multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, connections)
        keep = limits.max_keepalive_connections
        multi.setopt(pycurl.M_MAXCONNECTS, connections if keep is None else max(1, keep))
        if limits.max_connections_per_host is not None:
            multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, limits.max_connections_per_host)

    # libcurl's callbacks: only a signal's handler raises in them, before they can catch that

    def _on_socket(self, what: int, descriptor: int, multi: Any, data: Any) -> None:
        try:
            if what == _REMOVE:
                self._idle.add(descriptor)
                if self._has_parted:
                    self.poller.forget(descriptor)
            else:
                self._idle.discard(descriptor)
                self.poller.watch(descriptor, what)
        except BaseException as error:
            self.broken = raised_in_callback(error)

    def _give_up(self, error: BaseException) -> NoReturn:
        """Raise what was raised in a callback, such as KeyboardInterrupt."""
        self.broken = raised_in_callback(error)
        self._act_soon()  # the others must not wait for ever
        raise self.broken

    # libcurl's timer is asked for: it would tell of every change, two for each request

    def _act_soon(self) -> None:
        self._due = 0.0
        if self._fires > 0.0:
            self.rearm(0.0)

    def _ask_when(self) -> None:
        milliseconds = self.multi.timeout()
        if milliseconds < 0:
            self._due = None
            return
        due = self._due = monotonic() + milliseconds / 1000 if milliseconds else 0.0
        if due < self._fires:
            self.rearm(due)

    _fires = -math.inf  # when the owner's timer does; with this one it is never set earlier

    def rearm(self, due: float) -> None:
        """Be sure to turn the driver at a time; for owners that sleep meanwhile.

        Args:
            due: monotonic, 0.0 for at once.
        """

    is_attached = True
    on_shared: Callable[[str], object] | None = None

    def detach(self) -> None:
        """Take everything off the owner's loop, if it put anything on, for good."""
        self.is_attached = False

    # transfers

    def add(self, transfer: Transfer) -> None:
        """Start a prepared transfer."""
        request = transfer.request
        assert request is not None
        transfer.connections = self._connections
        if transfer.multiplexes:
            self._choose_wait(transfer, request.url.origin)
        easy = transfer.easy
        self.multi.add_handle(easy)
        self._act_soon()
        self.running[easy] = transfer
        transfer.attached = self
        read = request.timeout.read
        if read is not None:
            watches = self._watches.get(read)
            if watches is None:
                watches = self._watches[read] = {}
            check = watches[transfer] = transfer.stamp + read
            transfer.watches = watches
            if check < self._check_at:
                self._check_at = check
                self.rearm(check)
        if self.broken is not None:
            self.fail_all()

    def _choose_wait(self, transfer: Transfer, origin: str) -> None:
        """Wait for another's connection unless the origin is known to speak HTTP/1.1 alone."""
        assert transfer.request is not None
        knows = transfer.request.transport.http2 == "prior-knowledge"
        shares = knows or self._shares.get(origin)
        transfer.wait_to_share(shares is not False)
        if shares is None:
            transfer.listen(self._on_protocol)
        elif shares:
            self._multiplexes = True
            if transfer.sends_once:
                transfer.listen()

    def _on_protocol(self, origin: str, shares: bool) -> None:
        if len(self._shares) >= _ORIGINS:
            self._shares.clear()
        self._shares[origin] = shares
        self._solitary = self._solitary or not shares
        self._multiplexes = self._multiplexes or shares
        if shares and self.on_shared is not None:
            self.on_shared(origin)

    def _release_waiting(self) -> None:
        """Give connections of their own to transfers that wait for one that cannot be shared.

        libcurl (8.23) would leave them waiting until the first response is complete.
        """
        self._solitary = False
        for transfer in list(self.running.values()):
            assert transfer.request is not None
            if transfer.is_waiting and self._shares.get(transfer.request.url.origin) is False:
                self.separate(transfer)

    def separate(self, transfer: Transfer) -> None:
        """Have a transfer that was added wait no longer for a connection that it might share."""
        transfer.wait_to_share(False)
        self.begin_again(transfer)

    def begin_again(self, transfer: Transfer) -> None:
        """Start a transfer over that was not sent yet."""
        self._take_off(transfer)
        self.multi.add_handle(transfer.easy)
        self._act_soon()

    def remove(self, transfer: Transfer) -> None:
        """Take a transfer off, finished or not; an unfinished HTTP/1 one loses its connection."""
        if not transfer.attached:
            return
        transfer.attached = None
        del self.running[transfer.easy]
        watches = transfer.watches
        if watches is not None:
            watches.pop(transfer, None)  # it may be among the rechecks
            transfer.watches = None
            transfer.recheck = 0.0
        self._take_off(transfer)

    def _take_off(self, transfer: Transfer) -> None:
        try:
            self.multi.remove_handle(transfer.easy)
        except SystemError as error:
            self._give_up(error)

    def resume(self, transfer: Transfer) -> None:
        """Go on with a transfer that paused because its reader or its body was behind."""
        transfer.paused = transfer.starving = False
        transfer.stamp = monotonic()
        if transfer.attached:
            try:
                transfer.easy.pause(pycurl.PAUSE_CONT)
            except pycurl.error as error:
                # Of what libcurl had kept: a body that is too large. A transfer that has ended
                # and was not collected cannot go on either, which is no failure.
                if error.args[0] != pycurl.E_BAD_FUNCTION_ARGUMENT:
                    self._finish(transfer.easy, *error.args)
            except BaseException as error:
                self._give_up(error)
            self.kick()

    def resume_soon(self, transfer: Transfer) -> None:
        """Go on with a transfer that paused, at the next turn.

        Others have theirs in between, however fast its server is. May be called by callbacks.
        """
        self._to_resume.append((transfer, transfer.request))
        self._act_soon()

    def _resume_all(self) -> None:
        end = monotonic() + _SLICE
        for _ in range(len(self._to_resume)):
            transfer, request = self._to_resume.popleft()
            if transfer.request is request:  # else it was dropped meanwhile
                self.resume(transfer)
            if monotonic() > end:
                break

    def kick(self) -> None:
        """Let libcurl act at once."""
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        self._collect()
        self._ask_when()

    def _act(self, descriptor: int, bits: int) -> None:
        try:
            self.multi.socket_action(descriptor, bits)
        except pycurl.error as error:
            self.broken = self.broken or error
        except BaseException as error:
            self._give_up(error)

    def part(self) -> None:
        """Go on in the parent of a forked child.

        The child's copies keep sockets open that are closed here, and a poller would report them
        for ever. So those that may be closed without a word are watched no more.
        """
        self._has_parted = True
        for descriptor in list(self._idle):
            self.poller.forget(descriptor)

    def _leave_idle(self, descriptor: int) -> None:
        """Stop watching a socket until libcurl wants something of it again."""
        self._idle.discard(descriptor)
        self.poller.forget(descriptor)

    # time

    def wait_seconds(self) -> float | None:
        """Return how long nothing needs to be done unless a socket gets ready; None: no end."""
        due = self.due()
        return None if due is None else max(0.0, due - monotonic())

    def due(self) -> float | None:
        """Return the monotonic time of the next timer, libcurl's or ours."""
        check = self._check_at
        if self._due is not None and self._due < check:
            return self._due
        return None if check == math.inf else check

    def turn(self, seconds: float | None = 0) -> None:
        """Handle what is ready and what is due.

        Args:
            seconds: how long to wait for a socket; None for as long as it takes.
        """
        if not self.is_attached:
            return  # in a forked child whose loop has not ended: the sockets are the parent's
        if self._to_resume:
            self._resume_all()
        events = self.poller.poll(seconds)
        now = monotonic()
        for descriptor, bits in events:
            if descriptor in self._idle:
                self._leave_idle(descriptor)
            else:
                self._touched[descriptor] = now
                self._act(descriptor, bits)
            if self._to_resume and monotonic() - now > _SLICE:
                break  # the poller tells of the others again
        self.proceed()
        if now >= self._check_at:
            self._check(now)
        elif events and self._check_at > now + _QUIET:
            self._check_at = now + _QUIET
            self.rearm(self._check_at)

    def proceed(self) -> None:
        """Begin what was added and do what is due, without a look at the sockets."""
        if self._due is not None and self._due <= monotonic():
            self._due = None
            self._act(pycurl.SOCKET_TIMEOUT, 0)
        if self._solitary:
            self._release_waiting()
        self._collect()
        self._ask_when()
        if self._to_resume:
            self._act_soon()

    def _collect(self) -> None:
        """Finish the transfers that libcurl is done with."""
        more = 1
        while more:
            more, finished, failed = self.multi.info_read()
            for easy in finished:
                self._finish(easy, 0, "")
            for easy, code, message in failed:
                self._finish(easy, code, message)
        if self.broken is not None:
            self.fail_all()

    def _finish(self, easy: Any, code: int, message: str) -> None:
        transfer = self.running[easy]
        transfer.finish(code, message)
        if transfer.restarts:
            self._restart(transfer)
            return
        transfer.done = True
        if code in _BREAKS_HPACK:
            self._sever(transfer)
        self.remove(transfer)
        if transfer.wake is not None:
            transfer.wake()

    def _restart(self, transfer: Transfer) -> None:
        """Start a transfer over that has to go out on another connection."""
        was_sent, connection = transfer.sends > 0, transfer.connection
        self.remove(transfer)
        transfer.restart()
        if connection is not None and connection.multiplexes and not was_sent:
            self._retire(connection, transfer)
        self.add(transfer)

    def _retire(self, connection: Connection, transfer: Transfer) -> None:
        """Have libcurl know that a connection has ended, which it would offer to others as well.

        Args:
            connection: of HTTP/2; nothing can be sent on it.
            transfer: was to go out on it.
        """
        self._act(connection.descriptor, pycurl.CSELECT_IN)  # enough where it is in use
        if not connection.is_buried and connection.has_ended():
            connection.is_buried = True
            transfer.bury()

    def _sever(self, transfer: Transfer) -> None:
        """End an HTTP/2 connection for all its streams after a broken header block.

        libcurl (8.23) keeps it, with an HPACK state that fits no further block.
        """
        lines = transfer.lines  # none are left of a streamed response's informational heads
        if not (lines and lines[0].startswith(b"HTTP/1")):
            _shut_down(transfer)

    def fail_all(self) -> None:
        """Give up: after one failed callback nothing may be reported ever after."""
        for transfer in list(self.running.values()):
            self._fail(transfer, self.broken)

    # silence, and what is no answer

    def _check(self, now: float) -> None:
        self._look_again()
        self._check_silence(now)
        checks = [next(iter(watches.values())) for watches in self._watches.values() if watches]
        if self._rechecks:
            checks.append(self._rechecks[0][0])
        self._check_at = min(checks, default=math.inf)

    def _look_again(self) -> None:
        """End what the last events decided, and libcurl (8.23) would leave to the read timeout."""
        seen, self._seen = self._seen, monotonic()
        for transfer in list(self.running.values()):
            if transfer.lines and transfer.switches_unasked():
                self._fail(transfer, transfer.no_head())
        if self._multiplexes:
            # A peer that breaks HTTP/2 is told so, but the request that noticed goes on waiting
            # until there is something more to read.
            for descriptor, touched in self._touched.items():
                if touched >= seen and descriptor not in self._idle:
                    self._act(descriptor, pycurl.CSELECT_IN)
            self._collect()
            self._ask_when()

    def _check_silence(self, now: float) -> None:
        for transfer in self._checks_due(now):
            request = transfer.request
            assert request is not None
            assert request.timeout.read is not None
            due = self._last_sign(transfer, now) + request.timeout.read
            if due <= now:
                self._fail(transfer, transfer.silence())
            else:
                transfer.recheck = due
                self._serial += 1
                heappush(self._rechecks, (due, self._serial, transfer))

    def _checks_due(self, now: float) -> list[Transfer]:
        """Take out the transfers that should be looked at: nobody looks at all of them."""
        found = []
        for read, watches in list(self._watches.items()):
            while watches and next(iter(watches.values())) <= now:
                found.append(first := next(iter(watches)))
                del watches[first]
            if not watches:
                del self._watches[read]
        rechecks = self._rechecks
        while rechecks and rechecks[0][0] <= now:
            due, _, transfer = heappop(rechecks)
            if transfer.attached and transfer.recheck == due:  # not finished, nor another request
                found.append(transfer)
        return found

    def _last_sign(self, transfer: Transfer, now: float) -> float:
        """Return when a transfer last moved; one that waits for its caller always does."""
        if transfer.wake is None or transfer.paused or transfer.starving or not transfer.sends:
            return now
        lines, request = transfer.lines, transfer.request
        assert request is not None
        is_http1 = lines[0].startswith(b"HTTP/1") if lines else not transfer.multiplexes
        if is_http1:  # the connection is this transfer's alone
            socket = transfer.easy.getinfo(pycurl.ACTIVESOCKET)
            return max(transfer.stamp, self._touched.get(socket, 0.0))
        mark = (len(lines), transfer.easy.getinfo(pycurl.SIZE_UPLOAD_T))
        if mark != transfer.mark:
            transfer.mark = mark
            if lines or mark[1]:  # when is not known, but not after the socket's last event
                socket = transfer.easy.getinfo(pycurl.ACTIVESOCKET)
                return max(transfer.stamp, self._touched.get(socket, 0.0))
        return transfer.stamp

    def _fail(self, transfer: Transfer, error: BaseException | None) -> None:
        transfer.failed = error
        transfer.done = True
        self.remove(transfer)
        if transfer.wake is not None:
            transfer.wake()

    # the end

    def close(self) -> None:
        """Close all connections; may block while a name is being resolved (libcurl waits)."""
        self.rearm = _ignore  # type: ignore[method-assign]
        self._watches.clear()
        self._rechecks.clear()
        with suppress(pycurl.error):  # a garbage-collected one has been closed
            self.multi.setopt(pycurl.M_SOCKETFUNCTION, None)  # what it raises below would be lost
            for transfer in list(self.running.values()):
                transfer.attached = None
                self.multi.remove_handle(transfer.easy)
        self.running.clear()
        self.multi.close()
        self.poller.close()


def _shut_down(transfer: Transfer) -> None:
    """End the connection of a transfer, for all its streams."""
    descriptor = transfer.easy.getinfo(pycurl.ACTIVESOCKET)
    if descriptor >= 0:
        with suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
            connection.shutdown(socket.SHUT_RDWR)


def _ignore(due: float) -> None:
    """Do not react to timers any more."""
