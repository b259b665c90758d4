"""A curl_multi and its sockets behind one descriptor, for whichever loop waits on that.

Not CurlMulti.select: select(2) cannot see descriptors above 1023 and spins on them. One driver
belongs to one thread or event loop at a time.
"""

from __future__ import annotations

import select
from collections import OrderedDict
from contextlib import suppress
from time import monotonic
from typing import Any

import pycurl

from curlhttp._config import Limits
from curlhttp._curl.transfer import Transfer

__all__ = ["Driver"]

_select: Any = select  # no platform has all of it
_IN, _OUT, _REMOVE = pycurl.POLL_IN, pycurl.POLL_OUT, pycurl.POLL_REMOVE
_BATCH = 256  # events taken at once
_LIFE_CHECK = 1.5  # seconds after which libcurl (8.22 on: 1 s) has looked for itself, and a margin


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
        self._watched: dict[int, int] = {}
        self.fileno = self._kqueue.fileno
        self.close = self._kqueue.close

    def watch(self, descriptor: int, what: int) -> None:
        self._change(descriptor, what)
        self._watched[descriptor] = what

    def forget(self, descriptor: int) -> None:
        self._change(descriptor, 0)
        self._watched.pop(descriptor, None)

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

    Attributes:
        running: the attached transfers by their handle.
    """

    def __init__(self, limits: Limits, connections: int) -> None:
        self.running: dict[Any, Transfer] = {}
        self.poller = _Poller()
        self._due: float | None = None  # when libcurl's timer fires
        self._now = 0.0
        # Descriptors of kept-alive connections: they stay registered, so that a server's close
        # is noticed. libcurl itself looks only when the last look is over a second ago.
        self._idle: set[int] = set()
        self._stale_until = 0.0
        self._touched: dict[int, float] = {}
        self._watches: dict[float, OrderedDict[Transfer, float]] = {}
        self.broken: BaseException | None = None
        self.multi = multi = pycurl.CurlMulti()
        multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, connections)
        keep = limits.max_keepalive_connections
        multi.setopt(pycurl.M_MAXCONNECTS, connections if keep is None else max(1, keep))
        if limits.max_connections_per_host is not None:
            multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, limits.max_connections_per_host)

    # libcurl's callbacks: they must not raise

    def _on_socket(self, what: int, descriptor: int, multi: Any, data: Any) -> None:
        try:
            if what == _REMOVE:
                # No word on whether it is closed or kept alive: the next event will tell.
                self._idle.add(descriptor)
            else:
                self._idle.discard(descriptor)
                self.poller.watch(descriptor, what)
        except BaseException as error:
            self.broken = error

    def _on_timer(self, milliseconds: int) -> None:
        self._due = None if milliseconds < 0 else monotonic() + milliseconds / 1000
        self.rearm()

    def rearm(self) -> None:
        """React to a changed timer; for owners that sleep meanwhile."""

    def detach(self) -> None:
        """Take everything off the owner's loop, if it put anything on."""

    # transfers

    def add(self, transfer: Transfer) -> None:
        """Start a prepared transfer."""
        request = transfer.request
        assert request is not None
        if transfer.sends_once:
            # A kept-alive connection that the server has closed must not get the one POST.
            self._look_at_idle()
            transfer.avoid_reuse(monotonic() < self._stale_until)
        else:
            transfer.avoid_reuse(False)
        self.running[transfer.easy] = transfer
        transfer.attached = True
        self.multi.add_handle(transfer.easy)
        read = request.timeout.read
        if read is not None:
            watches = self._watches.get(read)
            if watches is None:
                watches = self._watches[read] = OrderedDict()
            watches[transfer] = transfer.stamp + read
            if len(watches) == 1:
                self.rearm()

    def remove(self, transfer: Transfer) -> None:
        """Take a transfer off, finished or not; an unfinished HTTP/1 one loses its connection."""
        if not transfer.attached:
            return
        transfer.attached = False
        del self.running[transfer.easy]
        self._unwatch(transfer)
        self.multi.remove_handle(transfer.easy)

    def _unwatch(self, transfer: Transfer) -> None:
        request = transfer.request
        assert request is not None
        read = request.timeout.read
        if read is not None:
            watches = self._watches[read]
            watches.pop(transfer, None)
            if not watches:
                del self._watches[read]

    def resume(self, transfer: Transfer) -> None:
        """Go on with a transfer that paused because its reader or its body was behind."""
        transfer.paused = transfer.starving = False
        transfer.stamp = monotonic()
        if transfer.attached:
            transfer.easy.pause(pycurl.PAUSE_CONT)
            self.kick()

    def kick(self) -> None:
        """Let libcurl act at once."""
        self.multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        self._collect()

    def _look_at_idle(self) -> None:
        for descriptor, bits in self.poller.poll(0):
            if descriptor in self._idle:
                self._retire(descriptor, bits)
            else:
                self.multi.socket_action(descriptor, bits)

    def _retire(self, descriptor: int, bits: int) -> None:
        """Stop watching a connection that was closed, or spoke out of turn, while idle."""
        self.poller.forget(descriptor)
        self._idle.discard(descriptor)
        if bits & pycurl.CSELECT_IN:
            self._stale_until = monotonic() + _LIFE_CHECK

    # time

    def wait_seconds(self) -> float | None:
        """Return how long nothing needs to be done unless a socket gets ready; None: no end."""
        due = self.due()
        return None if due is None else max(0.0, due - monotonic())

    def due(self) -> float | None:
        """Return the monotonic time of the next timer, libcurl's or ours."""
        due = self._due
        for watches in self._watches.values():
            first = next(iter(watches.values()))
            if due is None or first < due:
                due = first
        return due

    def turn(self, seconds: float | None = 0) -> None:
        """Handle what is ready and what is due.

        Args:
            seconds: how long to wait for a socket; None for as long as it takes.
        """
        events = self.poller.poll(seconds)
        now = self._now = monotonic()
        for descriptor, bits in events:
            if descriptor in self._idle:
                self._retire(descriptor, bits)
            else:
                self._touched[descriptor] = now
                self.multi.socket_action(descriptor, bits)
        if self._due is not None and self._due <= now:
            self._due = None
            self.multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        self._collect()
        if self._watches:
            self._check_silence(now)

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
            self._fail_all()

    def _finish(self, easy: Any, code: int, message: str) -> None:
        transfer = self.running[easy]
        transfer.code = code
        transfer.message = message
        transfer.done = True
        self.remove(transfer)
        if transfer.wake is not None:
            transfer.wake()

    def _fail_all(self) -> None:
        """Give up: a multi whose socket callback failed once reports nothing ever after."""
        for transfer in list(self.running.values()):
            transfer.failed = self.broken
            transfer.done = True
            self.remove(transfer)
            if transfer.wake is not None:
                transfer.wake()

    # silence

    def _check_silence(self, now: float) -> None:
        for read, watches in list(self._watches.items()):
            while watches:
                transfer, check = next(iter(watches.items()))
                if check > now:
                    break
                silent_since = self._last_sign(transfer, now)
                if silent_since + read <= now:
                    self._time_out(transfer)
                else:
                    watches[transfer] = silent_since + read
                    watches.move_to_end(transfer)

    def _last_sign(self, transfer: Transfer, now: float) -> float:
        """Return when a transfer last moved; one that waits for its caller always does."""
        if transfer.wake is None or transfer.paused or transfer.starving or not transfer.sent:
            return now
        lines = transfer.lines
        is_http1 = lines[0].startswith(b"HTTP/1") if lines else not transfer.may_multiplex
        if is_http1:  # the connection is this transfer's alone
            socket = transfer.easy.getinfo(pycurl.ACTIVESOCKET)
            return max(transfer.stamp, self._touched.get(socket, 0.0))
        mark = (len(lines), transfer.easy.getinfo(pycurl.SIZE_UPLOAD_T))
        if mark != transfer.mark:
            transfer.mark = mark
            return now if lines or mark[1] else transfer.stamp
        return transfer.stamp

    def _time_out(self, transfer: Transfer) -> None:
        transfer.failed = transfer.silence()
        transfer.done = True
        self.remove(transfer)
        if transfer.wake is not None:
            transfer.wake()

    # the end

    def close(self) -> None:
        """Close all connections; may block while a name is being resolved (libcurl waits)."""
        self.rearm = lambda: None  # type: ignore[method-assign]
        self._watches.clear()
        for transfer in list(self.running.values()):
            transfer.attached = False
            self.multi.remove_handle(transfer.easy)
        self.running.clear()
        self.multi.close()
        self.poller.close()
