"""Run transfers on one curl_multi, with one descriptor for an event loop to wait on.

A driver belongs to one thread or event loop at a time. It knows requests only through their
transfers, and its owner decides how to wait.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NoReturn, TypeAlias

from curlhttp._http.config import Limits
from curlhttp._http.exiting import start_native_thread
from curlhttp._http.request import ClientRequest
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.attempt import DONE, HOLD, ON_KEPT, RESTART, WAITING
from curlhttp._libcurl.connection_state import Connection, OpenConnections, shut_down
from curlhttp._libcurl.dns import FAILED, CachedNames
from curlhttp._libcurl.errors import (
    convert_driver_error,
    head_error,
    no_connection_error,
    report_descriptor_shortage,
    unwrap_callback_error,
)
from curlhttp._libcurl.forked_child import leak
from curlhttp._libcurl.head import has_unasked_upgrade
from curlhttp._libcurl.lookups import Lookups, NameLookup
from curlhttp._libcurl.multiplexing import Multiplexing
from curlhttp._libcurl.poller import Poller, SelectSockets, make_poller
from curlhttp._libcurl.read_timeouts import find_silent
from curlhttp._libcurl.result import PLAIN, finish, finish_failed, take_plain_response
from curlhttp._libcurl.socket_thread import SocketThread
from curlhttp._libcurl.transfer import Transfer
from curlhttp.exceptions import ConnectionError

_REMOVE = pycurl.POLL_REMOVE
_IN = int(pycurl.CSELECT_IN)
Reason: TypeAlias = ClientRequest | NameLookup | None
"""What a transfer is resumed for: its request, unless that has ended, or an answer to its names."""

_BREAKS_HPACK = (pycurl.E_RECV_ERROR, 100)  # 100: too large; pycurl has no name for it
_BRIEF = 0.1  # seconds of silence that do not mean a dead connection
_ON_ITS_WAY = 0.25  # share of a request's wait; data that came by then was sent before it
_LONG = 1.0  # seconds of silence after which a cancelled request means a dead connection
_MAX_STARTS = 100  # of one attempt; a restarted server may leave so many dead connections
_SLICE = 0.02  # seconds of a turn for paused transfers, whose servers may send without end
_QUIET = 0.1  # seconds from the last event to the check of its outcome


class Driver:
    """Drive transfers on one curl_multi.

    Its owner calls `run_once` when the descriptor is readable or `wait_seconds` have passed.

    Args:
        limits: the client's limits.
        connections: how many sockets there may be.

    Attributes:
        running: the attached transfers by their handle.
        poller: the sockets, and the descriptor that represents them.
        multi: the pycurl.CurlMulti.
        multiplexing: which origins share connections.
        unanswered: TLS connections that were opened for a running transfer, by socket.
        watched: what the poller reports of each socket, which may have been closed by now.
        chosen: sockets of kept connections that libcurl has chosen in this turn, see
            OpenConnections; its owner sets it.
        is_attached: the owner's loop may call it; False after `detach`, and in a forked child.
        broken: the exception of a callback. libcurl has given up all transfers, and add_handle
            would fail (pycurl 7.47: kill the process).
    """

    _make_poller = staticmethod(make_poller)

    def __init__(self, limits: Limits, connections: int) -> None:
        self.running: dict[object, Transfer] = {}  # by pycurl's handle
        with report_descriptor_shortage():
            self.poller: Poller = self._make_poller()
            self.multi = multi = pycurl.CurlMulti()
        # Looked up once: pycurl makes them again for each call.
        self._add_easy, self._remove_easy = multi.add_handle, multi.remove_handle
        self._act, self._read_info, self._ask_timer = (
            multi.socket_action,
            multi.info_read,
            multi.timeout,
        )
        self.multiplexing = Multiplexing()
        self._names = CachedNames(limits.dns_ttl)
        self._lookups = Lookups(self, self._names)
        self.broken: BaseException | None = None
        self.unanswered: dict[int, Connection] = {}
        self.watched: dict[int, int] = {}
        self.chosen: set[int | None] = set()
        self._libcurl_due: float | None = None  # when libcurl wants to act next
        # Registered descriptors that libcurl does not need now; most are needed again soon.
        self._idle: set[int] = set()
        # Whether the poller must forget a socket before libcurl closes it.
        self._forgets_idle = isinstance(self.poller, SelectSockets)
        self._last_event: dict[int, float] = {}  # by socket
        self._last_read: dict[int, float] = {}  # by socket, when it was readable
        self._draining: list[tuple[Connection, OpenConnections]] = []  # see _drain
        self._seen = 0.0  # time of the last look at quiet connections
        self._check_at = math.inf  # time of our next check of transfers
        self._to_resume: deque[tuple[Transfer, Reason]] = deque()  # at the next turn
        self._resume_at: dict[Transfer, tuple[float, Reason]] = {}
        self._alarm_at = math.inf
        self._on_alarm: Callable[[], object]
        self._silent_at = math.inf  # when the first transfer may have been silent for too long
        multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        multi.setopt(pycurl.M_PIPELINING, pycurl.PIPE_MULTIPLEX)
        multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, connections)
        keep = limits.max_keepalive_connections
        multi.setopt(pycurl.M_MAXCONNECTS, connections if keep is None else max(1, keep))
        if limits.max_connections_per_host is not None:
            multi.setopt(pycurl.M_MAX_HOST_CONNECTIONS, limits.max_connections_per_host)

    def set_max_connections(self, connections: int) -> None:
        """Let each share have so many connections at the same time."""
        self.multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, connections)
        self.multi.setopt(pycurl.M_MAXCONNECTS, connections)

    # libcurl's callbacks: only a signal handler raises in them, where they cannot catch it

    def _on_socket(self, what: int, descriptor: int, multi: object, data: object) -> None:
        try:
            if what == _REMOVE:
                if self.unanswered:
                    self._check_for_alert(descriptor)
                if self.multiplexing.has_http2:
                    self._note_unwatched(descriptor)
                self._idle.add(descriptor)
                if self._forgets_idle:
                    self.forget(descriptor)
                return
            self._idle.discard(descriptor)
            # Is the poller's socket still the one with this number? That is only certain if a
            # request has just gone out on it: libcurl closes sockets without notice, and some of
            # those that it opens call no other callback than this one, such as those of DoH.
            if descriptor not in self.chosen or self.watched.get(descriptor) != what:
                self.poller.watch(descriptor, what)
                self.watched[descriptor] = what
        except BaseException as error:
            self.broken = unwrap_callback_error(error)

    def forget(self, descriptor: int) -> None:
        """Stop watching a socket, which may already be closed."""
        self.watched.pop(descriptor, None)
        self.poller.forget(descriptor)

    def _check_for_alert(self, descriptor: int) -> None:
        """Check a new connection for an alert, because libcurl may be about to close its socket."""
        connection = self.unanswered.get(descriptor)
        if connection is not None:
            connection.check_for_alert()

    def _note_unwatched(self, descriptor: int) -> None:
        for transfer in self.running.values():
            if transfer.attempt.state >= ON_KEPT and not transfer.lines:  # is_out, without a call
                transfer.note_unwatched(descriptor)

    def _break(self, error: BaseException) -> NoReturn:
        """Raise the exception of a callback, such as KeyboardInterrupt."""
        self.broken = unwrap_callback_error(error)
        self._act_at_once()  # the other transfers must not wait forever
        raise self.broken

    # libcurl's timer is polled, because a callback would report two changes for each request

    def _act_at_once(self) -> None:
        self._libcurl_due = 0.0
        if self._timer_due > 0.0:
            self.rearm(0.0)

    def _read_timer(self) -> None:
        milliseconds = self._ask_timer()
        if milliseconds < 0:
            self._libcurl_due = None
            return
        due = self._libcurl_due = monotonic() + milliseconds / 1000 if milliseconds else 0.0
        if due < self._timer_due:
            self.rearm(due)

    _timer_due = -math.inf  # of the owner; with this default it never needs to be set earlier

    def rearm(self, due: float) -> None:
        """Make the owner run the driver at a time; for owners that sleep until then.

        Args:
            due: the monotonic time, 0.0 for at once.
        """

    is_attached = True

    def watch_in_thread(
        self, call_soon: Callable[[Callable[[], object]], object], run: Callable[[], object]
    ) -> None:
        """Let a thread watch the sockets, for an owner that cannot wait for the descriptor.

        Args:
            call_soon: see SocketThread.
            run: calls `run_once`.
        """
        self.poller.close()
        self.poller = SocketThread(call_soon, run)
        self._forgets_idle = True

    def detach(self) -> None:
        """Remove everything from the owner's loop for good."""
        self.is_attached = False
        if isinstance(self.poller, SocketThread):
            self.poller.close()

    def discard(self) -> None:
        """Close everything, for an engine that was dropped unclosed."""
        if self.is_attached:
            self.detach()
            self.close()

    # transfers

    def add(self, transfer: Transfer) -> None:
        """Start a prepared transfer."""
        request, easy = transfer.request, transfer.easy
        assert request is not None
        if transfer.handle.multiplexes and transfer.shares_as is not self.multiplexing.known:
            self.multiplexing.set_pipewait(transfer, request.url.origin)
        if FAILED or self._names.surplus:
            self._names.set_removals(easy, request)
        self._add_easy(easy)
        if self._libcurl_due != 0.0:  # else it acts at once already
            self._act_at_once()
        self.running[easy] = transfer
        transfer.attached = self
        # As in start_read_timeout, without a call.
        transfer.check_at = 0.0
        limit = transfer.first_limit
        if limit is not None and transfer.last_activity + limit < self._silent_at:
            self.start_read_timeout(transfer)
        if self.broken is not None:
            self.fail_all()

    def start_read_timeout(self, transfer: Transfer) -> None:
        """Check from now on whether the server of a running transfer is silent."""
        transfer.check_at = 0.0
        limit = transfer.first_limit
        if limit is not None:
            check = transfer.last_activity + limit
            self._silent_at = min(check, self._silent_at)
            self._check_by(check)

    def _check_by(self, due: float) -> None:
        """Check all transfers at this time at the latest."""
        if due < self._check_at:
            self._check_at = due
            self.rearm(due)

    def use_own_connection(self, transfer: Transfer) -> None:
        """Stop an added transfer from waiting for a connection that it might share."""
        transfer.handle.wait_to_share(False)
        transfer.shares_as = None
        self.restart(transfer)

    def restart(self, transfer: Transfer) -> None:
        """Start an added transfer again that was not sent yet."""
        self._remove_handle(transfer)
        self.multi.add_handle(transfer.easy)
        self._act_at_once()

    def remove(self, transfer: Transfer) -> None:
        """Remove a transfer, finished or not; an unfinished HTTP/1 one loses its connection."""
        if not transfer.attached:
            return
        if not transfer.done:
            if transfer.attempt.is_out and transfer.last_activity < monotonic() - _LONG:
                self._retire_if_silent(transfer)  # its caller gave up before its timeouts did
            self._lookups.stop(transfer)
        transfer.attached = None
        del self.running[transfer.easy]
        if transfer.attempt.state not in (WAITING, ON_KEPT):  # libcurl may have opened a connection
            assert transfer.request is not None
            self._names.add(transfer.request)
            self._lookups.stop(transfer)
            if transfer.connection is not None:
                self.unanswered.pop(transfer.connection.descriptor, None)
        self._remove_handle(transfer)

    def _remove_handle(self, transfer: Transfer) -> None:
        try:
            self.multi.remove_handle(transfer.easy)
        except BaseException as error:
            self._check_removal(transfer, error)

    def _check_removal(self, transfer: Transfer, error: BaseException) -> None:
        """Raise the exception of a removal, unless there was nothing to remove."""
        if isinstance(error, SystemError):
            self._break(error)
        if not (isinstance(error, pycurl.error) and self._is_collected(transfer)):
            raise error

    def _is_collected(self, transfer: Transfer) -> bool:
        """Return whether the garbage collector has already closed the handle or the multi."""
        try:
            self.multi.timeout()
            transfer.easy.getinfo(pycurl.TOTAL_TIME_T)
        except pycurl.error:
            return True
        return False

    def resume(self, transfer: Transfer) -> None:
        """Resume a transfer that paused because its reader or its body was too slow."""
        transfer.paused = False
        if transfer.upload is not None:
            transfer.upload.is_starving = False
        transfer.last_activity = monotonic()
        if transfer.attached:
            try:
                transfer.easy.pause(pycurl.PAUSE_CONT)
            except pycurl.error as error:
                # A body that is too large; one that has ended also cannot be resumed.
                if error.args[0] != pycurl.E_BAD_FUNCTION_ARGUMENT:
                    self._finish(transfer.easy, *error.args)
            except BaseException as error:
                self._break(error)
            self._socket_action(pycurl.SOCKET_TIMEOUT, 0)
            self._collect()
            self._read_timer()

    def keeps_connection(self, transfer: Transfer) -> bool:
        """Return whether a connection can be kept after a body that nobody reads; never wait.

        An HTTP/1 connection can if the rest of the body is already here. Callers often stop right
        before the end: at `data: [DONE]`, when the last chunk may be in the next packet. HTTP/2
        only resets the stream.

        Args:
            transfer: its head was received, and nobody waits for it.
        """
        upload = transfer.upload
        is_sent = upload is None or upload.is_read_out  # never wait for a body's iterator
        if not transfer.done and not transfer.lines[0].startswith(b"HTTP/1"):
            return True
        if not transfer.done and not transfer.paused and is_sent:
            transfer.discard_body()
            descriptor = transfer.easy.getinfo(pycurl.ACTIVESOCKET)
            if descriptor >= 0:
                self._socket_action(descriptor, _IN)
                self._collect()
                self._read_timer()
        return transfer.done and not transfer.code and transfer.failed is None

    def resume_soon(self, transfer: Transfer) -> None:
        """Resume a paused transfer at the next turn.

        Other transfers run in between, however fast its server is. libcurl's callbacks may call
        this.
        """
        self._to_resume.append((transfer, transfer.request))
        self._act_at_once()

    def resume_at(self, transfer: Transfer, due: float, reason: Reason) -> None:
        """Resume a paused transfer, or go on with its names, at a time; callbacks may call this.

        Args:
            transfer: is running.
            due: the monotonic time, math.inf for never.
            reason: the request of the transfer, or the names.
        """
        self._resume_at[transfer] = due, reason
        self._check_by(due)

    def _resume_due(self, now: float) -> None:
        for transfer, (due, request) in list(self._resume_at.items()):
            if due <= now:
                del self._resume_at[transfer]
                self._resume_if_running(transfer, request)

    def _resume_all(self) -> None:
        end = monotonic() + _SLICE
        for _ in range(len(self._to_resume)):
            self._resume_if_running(*self._to_resume.popleft())
            if monotonic() > end:
                break

    def _resume_if_running(self, transfer: Transfer, reason: Reason) -> None:
        """Resume a transfer unless it has ended meanwhile; another driver may run it by now."""
        if transfer.attached is self:
            if transfer.request is reason:
                self.resume(transfer)
            elif isinstance(reason, NameLookup) and transfer.lookup is reason:
                self._lookups.step(reason)

    # names

    def look_up(self, transfer: Transfer) -> bool:
        """Begin to look up the names of a transfer; return False to leave that to libcurl."""
        return self._lookups.begin(transfer)

    def continue_soon(self, lookup: NameLookup) -> None:
        """Continue with an answer at the next turn; any thread may call this."""
        self._to_resume.append((lookup.transfer, lookup))

    def end(self, transfer: Transfer, code: int, message: str) -> None:
        """End a transfer that libcurl has ended before, with another code."""
        self._finish(transfer.easy, code, message)

    def _socket_action(self, descriptor: int, bits: int) -> None:
        try:
            self._act(descriptor, bits)
        except BaseException as error:
            self._note_failed_action(error)

    def _note_failed_action(self, error: BaseException) -> None:
        """Note that libcurl's action failed, or raise the exception of a callback."""
        if not isinstance(error, pycurl.error):
            self._break(error)
        self.broken = self.broken or error

    # time

    def wait_seconds(self) -> float | None:
        """Return the seconds until the next timer, None for no timer."""
        due = self.due()
        return None if due is None else max(0.0, due - monotonic())

    def due(self) -> float | None:
        """Return the monotonic time of the next timer, libcurl's or ours."""
        check = self._check_at
        if self._libcurl_due is not None and self._libcurl_due < check:
            return self._libcurl_due
        return None if check == math.inf else check

    def run_once(self, wait: float | None = 0) -> None:
        """Handle sockets that are ready and timers that are due.

        Args:
            wait: how many seconds to wait for a socket; None for no limit.
        """
        if not self.is_attached:
            return  # in a forked child whose loop still runs; the sockets belong to the parent
        if self._to_resume:
            self._resume_all()
        self._handle(self.poller.poll(wait))

    def _handle(self, events: list[tuple[int, int]]) -> None:
        """Handle sockets that are ready, and timers that are due."""
        now = monotonic()
        socket_action = self._act
        for descriptor, bits in events:
            if descriptor in self._idle:
                # Stop watching it until libcurl needs it again.
                self._idle.discard(descriptor)
                self.forget(descriptor)
            else:
                self._last_event[descriptor] = now
                if bits & _IN:
                    self._last_read[descriptor] = now
                try:
                    socket_action(descriptor, bits)
                except BaseException as error:
                    self._note_failed_action(error)
            if self._to_resume and monotonic() - now > _SLICE:
                break  # the poller reports the other sockets again
        self._end_turn(now, has_events=bool(events))

    def _end_turn(self, now: float, *, has_events: bool) -> None:
        """Handle timers that are due, after the sockets of this turn.

        Args:
            now: the monotonic time when the turn began.
            has_events: a socket was ready.
        """
        self.run_due()
        if now >= self._check_at:
            self._check(now)
        elif (has_events or self._to_resume) and self._check_at > now + _QUIET:
            self._check_at = now + _QUIET
            self.rearm(self._check_at)

    def run_due(self) -> None:
        """Start added transfers and handle due timers, without polling the sockets."""
        if self._libcurl_due is not None and self._libcurl_due <= monotonic():
            self._libcurl_due = None
            self._socket_action(pycurl.SOCKET_TIMEOUT, 0)
        if self.multiplexing.learned:
            for transfer in self.multiplexing.report_learned(self.running.values()):
                self.use_own_connection(transfer)
        self._collect()
        self._read_timer()
        if self._to_resume:
            self._act_at_once()

    def _collect(self) -> None:
        """Finish the transfers that libcurl has ended."""
        self.chosen.clear()
        while True:
            more, finished, failed = self._read_info()
            for easy in finished:
                self._finish_well(easy)
            for easy, code, message in failed:
                self._finish(easy, code, message)
            if not more:
                break
        if self.broken is not None:
            self.fail_all()

    def _finish_well(self, easy: object) -> None:
        """Finish a transfer that libcurl calls successful."""
        transfer = self.running.get(easy)
        if transfer is None:
            return  # it was failed meanwhile, because a callback of another one failed
        result = finish(transfer)
        if result > DONE or transfer.attempt.state != ON_KEPT:
            self._end(transfer, 0, "", result)
            return
        # What most transfers need of _end() and remove().
        transfer.attached = None
        del self.running[easy]
        try:
            self._remove_easy(easy)
        except BaseException as error:
            self._check_removal(transfer, error)
        # The straight path: the caller gets the response in this turn.
        future = transfer.future
        if result != PLAIN:
            if transfer.upload is not None:
                transfer.upload.stop()
        elif future is None:
            transfer.is_plain = True
        elif not future.done():
            try:
                response = take_plain_response(transfer)
            except BaseException as error:
                transfer.failed = error  # raised in the caller's task
            else:
                future.set_result(response)
                return
        transfer.done = True
        if transfer.wake is not None:
            transfer.wake()

    def _finish(self, easy: object, code: int, message: str) -> None:
        """Finish a transfer that libcurl calls failed."""
        transfer = self.running.get(easy)
        if transfer is not None:
            self._end(transfer, code, message, finish_failed(transfer, code, message))

    def _end(self, transfer: Transfer, code: int, message: str, result: int) -> None:
        if result == HOLD:
            transfer.handle.cut_log()
            self._lookups.hold(transfer)
            return
        if result == RESTART:
            if transfer.attempt.starts < _MAX_STARTS:
                self._start_over(transfer)
                return
            assert transfer.request is not None
            transfer.failed = transfer.failed or no_connection_error(transfer.request)
        transfer.done = True
        if code:
            if self._lookups.needs_more(transfer, code, message):
                self._lookups.hold(transfer)
                return
            self._check_connection(transfer, code)
            self.remove(transfer)
        elif not transfer.handle._connects_only:  # removal would close the connection
            self.remove(transfer)
        _wake(transfer)

    def _check_connection(self, transfer: Transfer, code: int) -> None:
        is_ours = transfer.blocked is not None or code == pycurl.E_ABORTED_BY_CALLBACK
        if not transfer.attempt.is_out and not is_ours:
            assert transfer.request is not None
            self._names.forget(transfer.request)
        if code in _BREAKS_HPACK:
            _end_broken_http2(transfer)
        elif code == pycurl.E_OPERATION_TIMEDOUT:
            self._retire_if_silent(transfer)

    def _start_over(self, transfer: Transfer) -> None:
        """Start a transfer again on another connection."""
        was_sent, connection = transfer.attempt.is_out, transfer.connection
        self.remove(transfer)
        transfer.restart()
        if connection is not None and connection.multiplexes and not was_sent:
            self._drop_idle_socket(connection, transfer)
        self.add(transfer)

    def _retire_if_silent(self, transfer: Transfer) -> None:
        """Retire the connection of a request that gave up, if it was silent for all requests.

        A NAT or a load balancer may have forgotten it. HTTP/1.1 closes the connection of a request
        that gives up; a multiplexed one would carry further requests. A slow server that responds
        to others on it is not dead.
        """
        connection = transfer.connection
        if not transfer.attempt.is_out or connection is None or not connection.multiplexes:
            return
        since, now = transfer.last_activity, monotonic()
        if now - since < _BRIEF:
            return
        # Data that was already on its way when the request went out proves nothing.
        if self._last_read.get(connection.descriptor, 0.0) <= since + (now - since) * _ON_ITS_WAY:
            connection.retire()
            self._drain(connection, transfer)

    def _drain(self, connection: Connection, transfer: Transfer) -> bool:
        """Keep further requests off a connection; the last one on it closes it."""
        used = [one for one in self._users(connection) if one is not transfer]
        for one in used:
            one.handle.end_connection()
        if used:
            self.multiplexing.drain(connection)
            self._draining.append((connection, transfer.connections))
            self._check_at = 0.0  # at the next turn
            self._act_at_once()
        return bool(used)

    def _users(self, connection: Connection) -> list[Transfer]:
        return [one for one in self.running.values() if one.connection is connection]

    def _end_drained(self) -> None:
        """End the draining connections that carry no request any more.

        libcurl closes one with its last request, unless it had ended that request before.
        """
        left, self._draining = self._draining, []
        for connection, connections in left:
            if not self._users(connection):
                connections.end(connection)

    def _drop_idle_socket(self, connection: Connection, transfer: Transfer) -> None:
        """Make libcurl notice that an HTTP/2 connection has ended, so that it is not reused."""
        if connection.is_retired and self._drain(connection, transfer):
            return
        # This is enough if another transfer uses the connection.
        self._socket_action(connection.descriptor, pycurl.CSELECT_IN)
        if not connection.is_discarded and connection.has_ended():
            connection.is_discarded = True
            transfer.handle.discard_next()

    def fail_all(self) -> None:
        """Fail all transfers, because after a failed callback libcurl may report nothing."""
        assert self.broken is not None
        for transfer in list(self.running.values()):
            self.fail(transfer, convert_driver_error(self.broken, transfer.request))

    def set_alarm(self, due: float, call: Callable[[], object]) -> None:
        """Call a function once, in a turn of the driver.

        Args:
            due: the monotonic time.
            call: replaces that of an alarm which is not due yet.
        """
        self._alarm_at, self._on_alarm = due, call
        self._check_by(due)

    # read timeouts, and transfers that are stuck

    def _check(self, now: float) -> None:
        self._resume_due(now)
        self._end_drained()
        self._end_stuck_transfers()
        look_at = self._look_again(now) if self.multiplexing.has_http2 else math.inf
        if self._silent_at <= now:
            silent, self._silent_at = find_silent(self.running.values(), now, self._last_event)
            for transfer, error in silent:
                self._retire_if_silent(transfer)
                self.fail(transfer, error)
        if self._alarm_at <= now:
            self._alarm_at = math.inf
            self._on_alarm()
        resumes = [due for due, _ in self._resume_at.values()]
        self._check_at = min([self._silent_at, look_at, self._alarm_at, *resumes])
        if self._to_resume:
            self._act_at_once()  # libcurl's timer was read after it was asked for

    def _end_stuck_transfers(self) -> None:
        """End transfers that libcurl (8.23) would leave running: silent ones, and endless ones."""
        for transfer in list(self.running.values()):
            lines, request = transfer.lines, transfer.request
            if not lines:  # it waits for its response, as most do
                continue
            assert request is not None
            if has_unasked_upgrade(lines, request):
                self.fail(transfer, head_error(lines, request))
            elif transfer.stop_if_endless():
                self.fail(transfer, transfer.failed)

    def _look_again(self, now: float) -> float:
        """Let libcurl look at connections that have become quiet; return when the next one may be.

        It reports a peer's HTTP/2 error to the peer, but the request waits until more arrives. It
        looks at all requests on the connection, so not while more arrives anyway.
        """
        seen, self._seen = self._seen, now
        next_look = math.inf
        for descriptor, event in self._last_event.items():
            quiet_at = event + _QUIET
            if quiet_at > now:
                next_look = min(next_look, quiet_at)
            elif quiet_at > seen and descriptor not in self._idle:
                self._socket_action(descriptor, pycurl.CSELECT_IN)
        self._collect()
        self._read_timer()
        return next_look

    def fail(self, transfer: Transfer, error: BaseException | None) -> None:
        """End a transfer with an error, or as what libcurl has received of it."""
        transfer.failed = error
        transfer.done = True
        self.remove(transfer)
        _wake(transfer)

    # the end

    def after_fork_in_parent(self) -> None:
        """Continue in the parent of a forked child.

        The child's copies keep sockets open that are closed here, and a poller would report them
        forever. So sockets that libcurl may close without notice are no longer watched.
        """
        self._forgets_idle = True
        for descriptor in list(self._idle):
            self.forget(descriptor)

    def close_in_thread(self) -> None:
        """Close all connections, without waiting for libcurl's name lookups."""
        try:
            start_native_thread(self.close)
        except ConnectionError:
            # Mostly because Python is exiting. The system closes the connections soon.
            with suppress(ImportError):
                leak(self, self.multi)

    def close(self) -> None:
        """Close all connections; may block, because libcurl waits for name lookups."""
        self.rearm = lambda due: None  # type: ignore[method-assign]
        with suppress(pycurl.error):  # it was closed by the garbage collector
            self.multi.setopt(pycurl.M_SOCKETFUNCTION, None)  # its exceptions would be lost
            for transfer in list(self.running.values()):
                transfer.attached = None
                self.multi.remove_handle(transfer.easy)
        self.running.clear()
        self._lookups.close()
        self.multi.close()
        self.poller.close()


def _wake(transfer: Transfer) -> None:
    """Let the caller of a transfer that has ended go on."""
    if transfer.upload is not None:
        transfer.upload.stop()
    if transfer.wake is not None:
        transfer.wake()


def _end_broken_http2(transfer: Transfer) -> None:
    """End an HTTP/2 connection and all its streams after a broken header block.

    libcurl (8.23) keeps it, with an HPACK state that no longer matches the server's.
    """
    lines = transfer.lines  # without those of a streamed response's informational heads
    if not (lines and lines[0].startswith(b"HTTP/1")):
        shut_down(transfer.easy.getinfo(pycurl.ACTIVESOCKET))
