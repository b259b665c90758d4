"""Check the connection that libcurl chose for a request, and prevent unsafe resends.

libcurl sends a request again on its own when a kept-alive connection turns out to be dead, or when
an HTTP/2 server refused the request. Once is fine for an idempotent request; a second POST must
never happen. This module parses no responses: it only knows whether any header lines came.
"""

from __future__ import annotations

import _socket
import math
import os
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import pycurl

from curlhttp._curl.connection_state import (
    END,
    Connection,
    OpenConnections,
    Route,
    duplicate_socket,
)
from curlhttp._curl.errors import (
    HTTP2_STREAM,
    early_response_error,
    endless_refusal_error,
    find_tls_refusal,
    unwrap_callback_error,
)
from curlhttp._curl.handle import Handle
from curlhttp._curl.libcurl_log import (
    LogEvent,
    get_stream_reset,
    is_excluded_by_goaway,
    parse_log_event,
)
from curlhttp._models.body import rewind
from curlhttp._models.config import SocketOption
from curlhttp._models.request import ClientRequest
from curlhttp.exceptions import BlockedAddress

_SHORTEST_HEAD = len(b"HTTP/1.1 200\n\n")
_SHARED_MOVES = 3  # see restart
_MAX_SENDS = 6  # of one attempt, while servers refuse it
_MOST_OF_TUNNEL = 256 * 1024  # bytes of a proxy's response to CONNECT
_MAX_REFUSALS = 3  # on connections that were opened for it: such a server refuses it always
# libcurl gives up a refused request with these: after our abort, without a way to rewind, or after
# five tries; or after a GOAWAY with an error, which libcurl (8.23) reports for each stream.
_AFTER_REFUSAL = (
    HTTP2_STREAM,
    pycurl.E_ABORTED_BY_CALLBACK,
    pycurl.E_SEND_FAIL_REWIND,
    pycurl.E_SEND_ERROR,
    pycurl.E_RECV_ERROR,
)
_ENDED_QUIC = (pycurl.E_RECV_ERROR, 95)  # 95: HTTP/3; pycurl has no name for it
_OK, _ABORT = int(pycurl.PREREQFUNC_OK), int(pycurl.PREREQFUNC_ABORT)
_BAD_SOCKET = int(pycurl.SOCKET_BAD)
_READ_ABORT, _READ_PAUSE = int(pycurl.READFUNC_ABORT), int(pycurl.READFUNC_PAUSE)


if TYPE_CHECKING:

    class _SocketAddress(NamedTuple):
        """The socket that libcurl wants, as pycurl describes it."""

        family: int
        socktype: int
        protocol: int
        addr: Any  # (address, port), (address, port, flow, scope), or the path of a Unix socket


# A socket is no descriptor on Windows.
_set_inheritable = getattr(os, "set_handle_inheritable", os.set_inheritable)


class _CopiedSocket(_socket.socket):
    """A socket that pycurl copies, and then drops without closing it."""

    # Not a Python function, because an exception of a signal handler in a finalizer is lost.
    __del__ = _socket.socket.close


class RequestSender:
    """Send one request at a time on one handle; base class of Transfer.

    Attributes:
        handle: carries the request.
        request: that it sends; None between two attempts.
        lines: the header lines of all heads and trailers so far.
        failed: the exception that a callback stored.
        code: libcurl's result code, once it has ended; 0 for success.
        message: libcurl's text for a code other than 0.
        last_activity: the monotonic time of the last activity, for the read timeout.
        wake: called when there is something new for a waiting caller; None if nobody waits.
        blocked: the first address of this attempt that its guard refused; None if there is none, or
            another one was connected to.
        sends: how often libcurl sent the request, or was about to.
        sends_once: it must not be sent again automatically.
        is_second: it may already have been processed once, and goes out again.
        restarts: it has to go out on another connection, because the one that it got is dead or
            not clean, or because the server processed nothing of it.
        connections: the open ones that it may get; set before it runs.
        connection: the one of these that it last went out on; None before that, or if unknown.
        starts: how often it was started again on another connection.
        sockets: of a new connection, or of its happy eyeballs.
        route: the addresses of the connection; None before there is one.
        is_new_connection: it was opened for this request.
        feed: returns the next bytes of a body that is not in memory, b"" at the end and None for
            none yet; None if there is no such body.
        fed_at: the monotonic time when libcurl got the last piece of such a body.
        fed: bytes of it that libcurl has got.
        is_read_out: libcurl has got all of them.
        starving: libcurl waits for more of the body, until the driver resumes it.
    """

    __slots__ = (
        "_connecting",
        "_connects",
        "_log_event",  # from libcurl's log: "refused", "downgrades" or None
        "_moves",  # to other connections; at first all requests share a new one, see restart
        "_on_alpn",
        "_refusals",  # on connections that were opened for it
        "_sent",  # on earlier connections
        "_steps",  # calls of libcurl since it began to connect, see _on_progress
        "_use",  # number of the request among those of its connection
        "_was_new",  # the connection before this one was opened for it
        "_was_open",  # the connection before this one had not ended
        "blocked",
        "code",
        "connection",
        "connections",
        "failed",
        "fed",
        "fed_at",
        "feed",
        "handle",
        "is_new_connection",
        "is_read_out",
        "is_second",
        "last_activity",
        "lines",
        "message",
        "request",
        "restarts",
        "route",
        "sends",
        "sends_once",
        "sockets",
        "starts",
        "starving",
        "wake",
    )

    handle: Handle
    connections: OpenConnections
    sends_once: bool
    # Reset for each attempt by Transfer, with its own state:
    request: ClientRequest | None
    failed: BaseException | None
    wake: Callable[[], None] | None
    route: Route | None
    connection: Connection | None
    restarts: bool
    is_new_connection: bool
    _connecting: bool
    code: int
    sends: int

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.sockets: list[int] = []
        self.last_activity = 0.0
        self.message = ""
        self._reset_dirty()

    def _reset_dirty(self) -> None:
        """Reset the state that an attempt changes only if it makes the handle dirty."""
        self.is_second = self.starving = False
        self._reset_feed()
        self.feed: Callable[[int], bytes | None] | None = None
        self._on_alpn: Callable[[str, bool], None] | None = None
        self._log_event: LogEvent | None = None
        self._moves = self._sent = self._refusals = self.starts = 0
        self._was_open = False
        self._was_new = False
        self.blocked: BlockedAddress | None = None
        self._connects = False

    def _reset_feed(self) -> None:
        self.fed, self.fed_at, self.is_read_out = 0, 0.0, False

    @property
    def was_sent(self) -> bool:
        """Return whether the server may have seen the request."""
        return self.sends > 0 or self.is_second

    @property
    def is_waiting(self) -> bool:
        """Return whether it was not sent and has not begun to connect."""
        return not self.sends and not self._connecting

    @property
    def _shares(self) -> bool:
        """Return whether the connection that it last went out on uses HTTP/2 or HTTP/3."""
        connection = self.connection
        return self.handle.multiplexes if connection is None else connection.multiplexes

    # libcurl's callbacks: they do not raise, but store the error in `failed`

    def _on_socket(self, descriptor: int, purpose: int) -> int:
        if not self._connecting:
            self._was_new = self.is_new_connection
            self._connecting = self.is_new_connection = True
            self._steps = 0
            self.sockets.clear()
        self.sockets.append(descriptor)
        self.connections.chosen.discard(descriptor)  # that was another socket, closed just now
        assert self.request is not None
        return _set_socket_options(descriptor, self.request.route.socket_options)

    def _on_send(self, *route: Any) -> int:  # Any: a Route, in pieces
        """Run when there is a connection, just before the request goes out on it.

        CURLOPT_PREREQFUNCTION is the only way to stop libcurl from sending a request again.
        """
        self.route = route
        self.last_activity = monotonic()
        if self.sends and not self._may_resend():
            self.sends += 1
            if self._connecting:
                self._note_connection(route)  # other requests may get it
            return _ABORT
        if self._connecting:
            connection = self.connection = self._note_connection(route)
        else:
            connections = self.connections
            connection = connections.by_route.get(route)
            # Most are clean, which needs no call to see.
            if (
                connection is None
                or connections.quarantine.until
                or (
                    (events := connection.events(0))
                    and (not connection.multiplexes or events[0][1] & END)
                )
            ):
                connection = connections.check(connection, self.request)
            else:
                connections.chosen.add(connection.certain)
            if self.sends_once and connection is not None and connection.is_unproven():
                connection.retire()
                connection = None
            if connection is None:
                self.connection = self.connections.find(route)
                self.restarts = True  # nothing of the request has left
                return _ABORT
            self.connection = connection
        # This number shows later whether the response came after the request: may_be_response.
        if connection is not None and connection.counts_bytes:
            self._use = connection.uses = connection.uses + 1
        self.sends += 1
        return _OK

    def _note_connection(self, route: Route) -> Connection | None:
        self._connecting = False
        assert self.request is not None
        return self.connections.add(
            route,
            self.sockets,
            multiplexes=self.handle.multiplexes,
            is_tls=_is_on_tls(self.request),
            origin=self.request.url.origin,
        )

    def note_stream(self) -> None:
        """Note a connection for another protocol, for which libcurl calls no callback."""
        info = self.handle.easy.getinfo
        peer, own = info(pycurl.PRIMARY_IP), info(pycurl.LOCAL_IP)
        route = peer, own, info(pycurl.PRIMARY_PORT), info(pycurl.LOCAL_PORT)
        if route[3] > 0:  # not a Unix socket, of which nobody knows which it is
            assert self.request is not None
            self.connection = self.connections.add(
                route,
                self.sockets,
                multiplexes=False,
                is_tls=False,  # nobody looks for its alerts
                origin=self.request.url.origin,
            )

    def _may_resend(self) -> bool:
        """Return whether libcurl may send the request again, as it is about to."""
        if self._log_event == "downgrades":
            return self.sends == 1
        if self._connecting and not self.sends_once and (self._was_new or self._was_open):
            # Without a refusal, libcurl sends again only after a kept-alive connection has ended.
            # Nobody reads the log of a request that may go out twice.
            self._log_event = "refused"
        if self._log_event == "refused":
            return self._may_follow_refusal()
        if self.sends_once or self.is_second or self.sends > 1:
            return False
        if not self._connecting:
            # After a restart of the server all kept-alive connections are dead, and libcurl
            # would try one after the other.
            self.restarts = True
            return False
        return True

    def _may_follow_refusal(self) -> bool:
        """Return whether libcurl may send a refused request, on the connection that it opened."""
        self._refusals += self._was_new
        self.handle.is_dirty = True  # so that the number is reset for the next request
        if not self._connecting or self.feed is not None or not self._may_send_more():
            return False  # see rewind_if_unprocessed
        self.is_second = self.is_second or self.sends > 1
        self._sent += 1
        self.sends, self._log_event, self._was_open = 0, None, False
        return True

    def _may_send_more(self) -> bool:
        return self._sent + 1 < _MAX_SENDS and self._refusals < _MAX_REFUSALS

    def note_unwatched(self, descriptor: int) -> None:
        """Note whether its connection works although libcurl gives it up: then it was refused."""
        connection = self.connection
        if (
            self.sends
            and not self.lines
            and connection is not None
            and connection.descriptor == descriptor
            and connection.is_clean()
        ):
            self._was_open = self.handle.is_dirty = True

    def _on_progress(self, *_sizes: int) -> int:
        """End an attempt whose proxy refuses the tunnel with a body without end."""
        if self._connecting:
            self._steps += 1
            if self._steps > _MOST_OF_TUNNEL:
                assert self.request is not None
                self.failed = endless_refusal_error(self.request)
                return 1
        return 0

    def _on_discard(self, *route: object) -> int:
        self.restarts = True
        return _ABORT

    def _on_read(self, size: int) -> bytes | int:
        feed = self.feed
        if feed is None:
            return _READ_ABORT
        self.last_activity = monotonic()
        try:
            piece = feed(size)
        except BaseException as error:
            self.failed = unwrap_callback_error(error)
            return _READ_ABORT
        if piece is None:
            self.starving = True
            if self.wake is not None:
                self.wake()
            return _READ_PAUSE
        self.fed_at = self.last_activity
        self.fed += len(piece)
        self.is_read_out = not piece
        return piece

    def _on_log(self, kind: int, text: bytes) -> None:
        found = parse_log_event(kind, text)
        if found is None:
            return
        event, number = found
        if event == "alpn":  # once for each new connection, in the log of any request
            if self._on_alpn is not None:
                assert self.request is not None
                self._on_alpn(self.request.url.origin, bool(number))
        elif event == "goaway":  # for all requests on the connection
            if self.sends and self.connection is not None:
                self.connection.last_stream = number
        elif event == "downgrades" or not self.lines:  # a request with a response was not refused
            self._log_event = event

    def read_log(self, on_alpn: Callable[[str, bool], None] | None = None) -> None:
        """Read libcurl's log for what it reports nowhere else; costs 10 us for each request.

        The log says whether the server refused a request or asked for HTTP/1.1. In both cases the
        server processed nothing of it. libcurl also sends again when a connection breaks.

        Args:
            on_alpn: called with the origin and whether its connections can be shared, when a new
                TLS connection has negotiated its protocol.
        """
        self._on_alpn = on_alpn
        self.handle.read_log()

    # libcurl's callbacks where the route has a guard of addresses

    def _on_open(self, purpose: int, target: _SocketAddress) -> _socket.socket | int:
        """Return a socket for an address, or refuse the address; then libcurl tries the next."""
        try:
            return self._make_socket(target)
        except BaseException as error:  # an exception of a guard ends the request
            self.failed = unwrap_callback_error(error)
            return _BAD_SOCKET

    def _make_socket(self, target: _SocketAddress) -> _socket.socket | int:
        from curlhttp._models.address_guard import blocked  # only requests with a guard need it

        request = self.request
        if request is None or self.failed is not None:
            return _BAD_SOCKET
        self.handle.is_dirty = True  # so that the state below is reset for the next request
        if isinstance(target.addr, tuple):
            error = blocked(request, target.addr[0], target.addr[1])
        else:
            error = blocked(request, os.fsdecode(target.addr).rstrip("\0"), 0)
        if error is not None:
            if not self._connects:
                self.blocked = self.blocked or error
            return _BAD_SOCKET
        self._connects, self.blocked = True, None
        try:
            return _CopiedSocket(*target[:3])
        except OSError:  # no descriptor or no such family, as if libcurl itself had failed
            return _BAD_SOCKET

    def _on_guarded_socket(self, descriptor: int, purpose: int) -> int:
        _set_inheritable(descriptor, False)  # pycurl's copy is; libcurl's own would not be
        return self._on_socket(descriptor, purpose)

    def _on_guarded_send(self, *route: Any) -> int:  # Any: a Route, in pieces
        """Check the chosen connection before libcurl sends, even if another request opened it."""
        try:
            from curlhttp._models.address_guard import blocked

            request = self.request
            assert request is not None
            # A new Unix socket has no address here; it was checked when it was opened.
            is_new = self._connecting
            error = None if is_new and not route[0] else blocked(request, route[0], route[2])
        except BaseException as failure:
            self.failed = unwrap_callback_error(failure)
            return _ABORT
        if error is None:
            return self._on_send(*route)
        if is_new:
            self.failed = error
        else:  # the name may have other addresses, which a new connection tries
            self.route = route
            self.connection = self.connections.find(route)
            self.restarts = True
        return _ABORT

    # sending again

    def restart(self) -> None:
        """Prepare to go out on another connection."""
        request, handle = self.request, self.handle
        assert request is not None
        shares = self._shares
        self.restarts = self.is_new_connection = False
        self.starts += 1
        self.last_activity = monotonic()
        if handle.is_discarding:
            handle.end_discarding()
            handle.note("another connection: the reused one had ended, and was closed")
        elif not self.sends or self._was_unprocessed():
            why = "the server did not process it" if self.sends else "the reused one is not clean"
            handle.note(f"another connection: {why}")
            self._moves += 1
        else:
            handle.note("another connection: this one broke, or responded before the request")
            self.is_second = True
        # Requests that a GOAWAY excluded first share a new connection; later each gets its own.
        handle.avoid_reuse(not shares or self._moves > _SHARED_MOVES)
        if shares:
            self.read_log(self._on_alpn)
        # libcurl counts from 0 again; is_second says what was sent on the other connection.
        self._sent += self.sends > 0
        self.sends, self.code, self._log_event = 0, 0, None
        self.lines.clear()
        self._reset_feed()
        if request.deadline is not None:
            handle.set_deadline(request.deadline)

    @property
    def is_fed_by_task(self) -> bool:
        """Return whether one of our tasks reads the body for libcurl, piece by piece."""
        body = None if self.request is None else self.request.body
        return self.feed is not None and body is not None and self.feed != body.read

    def may_restart(self) -> bool:
        """Return whether the failed attempt goes out again; if so, rewind its body."""
        return self.rewind_if_unprocessed() or self._may_be_unprocessed()

    def rewind_if_unprocessed(self) -> bool:
        """Return whether it may go out again, because nothing was processed; rewind its body."""
        if not self._was_unprocessed() or not self._may_send_more():
            return False
        return self.failed is None and self._rewinds()

    def _was_unprocessed(self) -> bool:
        """Return whether the server certainly processed nothing of what was sent."""
        if self._was_not_sent():
            return True
        return self.code in _AFTER_REFUSAL and self.is_refused()

    def _was_not_sent(self) -> bool:
        """Return whether libcurl sent nothing, on a connection that had ended or broke HTTP/2."""
        is_quic = self.connection is not None and self.connection.is_quic
        if is_quic and self.code in _ENDED_QUIC:
            # libcurl notices the end of a connection only when a request goes out on it.
            may_be = not self.is_new_connection and self.sends == 1
        elif is_quic and self.code == pycurl.E_ABORTED_BY_CALLBACK:  # it was about to resend
            may_be = self.sends == 2
        else:
            may_be = self.code == pycurl.E_HTTP2 and self.sends == 1
        return may_be and not self.handle.easy.getinfo(pycurl.REQUEST_SIZE)

    def is_refused(self) -> bool:
        """Return whether the server said that it did not process it (RFC 9113, section 8.7)."""
        stream, connection = self._stream_reset(), self.connection
        if stream and connection is not None and stream > connection.last_stream:
            return True
        # Another request may have read the GOAWAY; this one only gets the reason.
        return self._log_event == "refused" or (stream > 0 and is_excluded_by_goaway(self.message))

    def _may_be_unprocessed(self) -> bool:
        """Return whether the server may have processed nothing, if it may see it twice."""
        if self.sends_once or self.lines or self._sent + 1 >= _MAX_SENDS:
            return False
        if self.is_second and not self.has_goaway:  # a reload may end the next one too
            return False
        if self.code == pycurl.E_HTTP2 or self._stream_reset():
            return True  # the connection ended; a server that reloads ends all its streams
        # The server may have ended the existing connection just before it broke.
        return self.code == pycurl.E_SEND_ERROR and self._shares and not self.is_new_connection

    @property
    def has_goaway(self) -> bool:
        """Return whether the server is known to have sent a GOAWAY on the connection."""
        return self.connection is not None and self.connection.last_stream != math.inf

    def note_refusal(self) -> str:
        """Return why the server refused TLS on the connection, "" if it did not.

        Called after a failure. One request on a connection reads the reason, and notes it for the
        others.
        """
        connection = self.connection
        if connection is None or not self.sends:
            return ""
        if not connection.refusal:
            assert self.request is not None
            connection.check_for_alert()
            connection.refusal = find_tls_refusal(
                self.message, self.request.route, connection.ends_in_alert
            )
            if connection.refusal and connection.multiplexes:
                self.connections.end(connection)  # libcurl keeps it until it reads its end
        return connection.refusal

    def _stream_reset(self) -> int:
        """Return the number of the stream that libcurl reset without a response, 0 for none."""
        if self.code != HTTP2_STREAM or self.lines:
            return 0
        return get_stream_reset(self.message)

    def _rewinds(self) -> bool:
        try:
            return self.request is None or rewind(self.request.body) is None
        except Exception as error:  # raised by the caller's body
            self.failed = error
            return False

    # responses that came too early

    def may_be_response(self, size: int, *, ends: bool) -> bool:
        """Return False if the response arrived before the request, so that it belongs to another.

        Args:
            size: bytes of the body so far.
            ends: there are no more.
        """
        connection = self.connection
        if connection is None or not connection.counts_bytes:
            return True
        return connection.may_be_response(self._use, _SHORTEST_HEAD + size, ends=ends)

    def reject_early_response(self, *, has_head: bool) -> None:
        """Reject a response that came before its request, and so belongs to another one.

        Args:
            has_head: the caller has seen the head.
        """
        assert self.request is not None
        self.connections.quarantine_server(self.route, self.request)
        if self.sends_once or self.is_second or has_head:
            self.failed = early_response_error(self.request)
        else:
            self.restarts = True


def _is_on_tls(request: ClientRequest) -> bool:
    """Return whether the connection uses TLS, all the way or up to the proxy."""
    proxy = request.route.proxy
    return request.url.scheme == "https" or (proxy is not None and proxy.url.startswith("https:"))


def _set_socket_options(descriptor: int, options: Sequence[SocketOption]) -> int:
    if not options:
        return 0
    try:
        with duplicate_socket(descriptor) as duplicate:
            for option in options:
                duplicate.setsockopt(*option)
    except (OSError, TypeError):
        return 1  # libcurl closes the socket: CURLE_COULDNT_CONNECT (CURLOPT_SOCKOPTFUNCTION)
    return 0
