"""Check the connection that libcurl chose for an attempt, and stop unsafe resends.

libcurl sends a request again by itself when a kept-alive connection turns out to be dead, or when
an HTTP/2 server refused it. Once is fine for an idempotent request; a second POST must never
happen. Of the response nothing is known here but whether lines of it came.
"""

from __future__ import annotations

import _socket
import math
import os
import socket
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

import pycurl

from curlhttp._curl.connection_state import Connection, Connections, Route
from curlhttp._curl.errors import HTTP2_STREAM, came_early, raised_in_callback, refused_tls
from curlhttp._curl.handle import Handle
from curlhttp._curl.libcurl_log import LogNews, is_left_out_by_goaway, news_in, stream_reset_by_us
from curlhttp._models.body import rewind
from curlhttp._models.config import SocketOption
from curlhttp._models.request import Request
from curlhttp.exceptions import BlockedAddress

__all__ = ["RequestSender"]


_SHORTEST_HEAD = len(b"HTTP/1.1 200\n\n")
_SHARED_DETOURS = 3
_MOST_SENDS = 6  # of one attempt: a server that always refuses sees it no more often
# With these libcurl gives up what was refused: our guard, no way to rewind, or five tries; or
# GOAWAY gave an error, which libcurl (8.23) takes for one of each stream.
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


class _SocketAddress(NamedTuple):
    """What pycurl tells of a socket that libcurl wants."""

    family: int
    socktype: int
    protocol: int
    addr: Any  # (address, port), (address, port, flow, scope), or the path of a Unix socket


class _CopiedSocket(socket.socket):
    """A socket of which pycurl takes a copy, and drops this one unclosed."""

    # No function in Python: what a signal's handler raises in a finalizer is lost.
    __del__ = _socket.socket.close


class RequestSender:
    """Send one request at a time on one handle.

    Attributes:
        handle: what carries the request.
        request: what is sent, None between two attempts.
        lines: the header lines of all heads and trailers so far.
        failed: the exception that a callback had to keep.
        code: libcurl's, once it is finished; 0 for success.
        message: libcurl's words for a code other than 0.
        last_activity: the monotonic time of the last sign of life, for the read timeout.
        wake: what to call when a waiting caller has something to look at, or None.
        blocked: the first address of this attempt that its guard refused; None if there is none, or
            another one was connected to.
        sends: how often the request was sent, or about to be.
        sends_once: it must not go out a second time by itself.
        is_second: it may have been processed once already, and goes out once more.
        restarts: it has to go out on another connection: the one that it got is dead or not clean,
            or the server processed nothing of it.
        connections: what is known of those that it may get; set before it runs.
        connection: the one that it went out on last, if it is known; None before that.
        starts: how often it was started over on another connection.
        sockets: those of a new connection, or of its happy eyeballs.
        route: the addresses of the connection, None before there is one.
        is_new_connection: it was opened for this request.
        feed: gives the next bytes of a body that is not in memory, b"" at the end and None for
            none yet; None where there is no such body.
        fed_at: the monotonic time when libcurl got the last piece of such a body.
        fed: its bytes that libcurl got so far.
        is_read_out: it has got all of them.
        starving: libcurl waits until the driver resumes it, when there is more of the body.
    """

    __slots__ = (
        "_connecting",
        "_detours",  # how often it went elsewhere; first all share a new connection, see restart
        "_dials",
        "_news",  # what libcurl's log told of this request: "refused", "downgrades", or nothing
        "_on_alpn",
        "_sent",  # how often it went out on other connections before
        "_use",  # the number of the request among those of its connection
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
    connections: Connections
    sends_once: bool

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.sockets: list[int] = []
        self.last_activity = 0.0
        self.message = ""
        self._forget_sending()
        self._forget_detours()

    def _forget_sending(self) -> None:
        """Forget what every attempt leaves behind."""
        self.request: Request | None = None
        self.failed: BaseException | None = None
        self.wake: Callable[[], None] | None = None
        self.route: Route | None = None
        self.connection: Connection | None = None
        self.restarts = self.is_new_connection = self._connecting = False
        self.code = self.sends = 0

    def _forget_detours(self) -> None:
        """Forget what only attempts leave behind that made the handle dirty."""
        self.is_second = self.starving = False
        self._forget_feeding()
        self.feed: Callable[[int], bytes | None] | None = None
        self._on_alpn: Callable[[str, bool], None] | None = None
        self._news: LogNews | None = None
        self._detours = self._sent = self.starts = 0
        self.blocked: BlockedAddress | None = None
        self._dials = False

    def _forget_feeding(self) -> None:
        self.fed, self.fed_at, self.is_read_out = 0, 0.0, False

    @property
    def was_sent(self) -> bool:
        """Return whether the server may have seen the request."""
        return self.sends > 0 or self.is_second

    @property
    def is_waiting(self) -> bool:
        """Return whether it neither was sent nor has begun to connect."""
        return not self.sends and not self._connecting

    @property
    def _shares(self) -> bool:
        """Return whether the connection that it went out on last is of HTTP/2 or HTTP/3."""
        connection = self.connection
        return self.handle.multiplexes if connection is None else connection.multiplexes

    # libcurl's callbacks: they do not raise, but keep the error in `failed`

    def _on_socket(self, descriptor: int, purpose: int) -> int:
        if not self._connecting:
            self._connecting = self.is_new_connection = True
            self.sockets.clear()
        self.sockets.append(descriptor)
        assert self.request is not None
        return _set_socket_options(descriptor, self.request.transport.socket_options)

    def _on_send(self, *route: Any) -> int:  # Any: a Route, in pieces
        """Run when a connection is there, just before the request goes out on it.

        CURLOPT_PREREQFUNCTION is the only way to stop libcurl from sending again.
        """
        self.route = route
        self.last_activity = monotonic()
        if self.sends and not self._may_go_again():
            self.sends += 1
            if self._connecting:
                self._note_connection(route)  # other requests may get it
            return _ABORT
        if self._connecting:
            connection = self.connection = self._note_connection(route)
        else:
            connection = self.connections.find_clean(route, self.request)
            if self.sends_once and connection is not None and connection.is_unproven():
                connection.quarantine()
                connection = None
            if connection is None:
                self.connection = self.connections.find(route)
                self.restarts = True  # nothing of the request has left
                return _ABORT
            self.connection = connection
        # The count says later whether the answer came after this request, see may_be_answer.
        if connection is not None and connection.counts:
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

    def _may_go_again(self) -> bool:
        """Return whether libcurl may send again by itself, as it is about to."""
        if self._news == "downgrades":
            return self.sends == 1
        if self.sends_once or self.is_second or self.sends > 1:
            return False
        if self._shares or not self._connecting:
            # After a restart of the server all kept-alive connections are dead, and libcurl
            # would try one after the other. On HTTP/2 it does not say why, unless its log is
            # read; so the request begins again with that.
            self.restarts = self._news != "refused"  # else see goes_elsewhere
            return False
        return True

    def _on_burial(self, *route: object) -> int:
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
            self.failed = raised_in_callback(error)
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
        found = news_in(kind, text)
        if found is None:
            return
        news, number = found
        if news == "alpn":  # once for each new connection, whichever request it is for
            if self._on_alpn is not None:
                assert self.request is not None
                self._on_alpn(self.request.url.origin, bool(number))
        elif news == "goaway":  # it counts for all requests on the connection
            if self.sends and self.connection is not None:
                self.connection.last_stream = number
        elif news == "downgrades" or not self.lines:  # what has an answer was not refused
            self._news = news

    def read_log(self, on_alpn: Callable[[str, bool], None] | None = None) -> None:
        """Read in libcurl's log what it tells in no other way; costs 10 us for each request.

        Whether the server refused a request is read there, or asked for HTTP/1.1, which says that
        it processed none of it. When a connection breaks, libcurl sends again likewise.

        Args:
            on_alpn: called with the origin and whether its connections can be shared, when a new
                connection on TLS tells what it speaks.
        """
        self._on_alpn = on_alpn
        self.handle.read_log()

    # libcurl's callbacks where the transport has a guard of addresses

    def _on_open(self, purpose: int, dialled: _SocketAddress) -> socket.socket | int:
        """Give libcurl a socket for an address, or refuse that one; it tries the next then."""
        try:
            return self._opened(dialled)
        except BaseException as error:  # what a guard raised ends the request
            self.failed = raised_in_callback(error)
            return _BAD_SOCKET

    def _opened(self, dialled: _SocketAddress) -> socket.socket | int:
        from curlhttp._curl.address_guard import blocked  # only requests with a guard need it

        request = self.request
        if request is None or self.failed is not None:
            return _BAD_SOCKET
        self.handle.is_dirty = True  # so that the next request knows nothing of this one's
        if isinstance(dialled.addr, tuple):
            error = blocked(request, dialled.addr[0], dialled.addr[1])
        else:
            error = blocked(request, os.fsdecode(dialled.addr).rstrip("\0"), 0)
        if error is not None:
            if not self._dials:
                self.blocked = self.blocked or error
            return _BAD_SOCKET
        self._dials, self.blocked = True, None
        try:
            return _CopiedSocket(*dialled[:3])
        except OSError:  # no descriptor, or no such family: as if libcurl itself had failed
            return _BAD_SOCKET

    def _on_guarded_socket(self, descriptor: int, purpose: int) -> int:
        os.set_inheritable(descriptor, False)  # pycurl's copy is, libcurl's own is not
        return self._on_socket(descriptor, purpose)

    def _on_guarded_send(self, *route: Any) -> int:  # Any: a Route, in pieces
        """Judge the connection that libcurl picked, whoever opened it, before it sends."""
        try:
            from curlhttp._curl.address_guard import blocked

            request = self.request
            assert request is not None
            # A Unix socket has no address here, and is new: it was judged when it was opened.
            is_new = self._connecting
            error = None if is_new and not route[0] else blocked(request, route[0], route[2])
        except BaseException as failure:
            self.failed = raised_in_callback(failure)
            return _ABORT
        if error is None:
            return self._on_send(*route)
        if is_new:
            self.failed = error
        else:  # the name may have other addresses, which are tried on a connection of its own
            self.route = route
            self.connection = self.connections.find(route)
            self.restarts = True
        return _ABORT

    # going out once more

    def restart(self) -> None:
        """Make ready to go out on another connection."""
        request, handle = self.request, self.handle
        assert request is not None
        shares = self._shares
        self.restarts = self.is_new_connection = False
        self.starts += 1
        self.last_activity = monotonic()
        if handle.is_burying:
            handle.end_burial()
            handle.note("another connection: the kept one had ended, and was closed")
        elif not self.sends or self._was_left_out():
            why = "the server left the request out" if self.sends else "the kept one is not clean"
            handle.note(f"another connection: {why}")
            self._detours += 1
        else:
            handle.note("another connection: this one broke, or answered out of turn")
            self.is_second = True
        # At first all that a GOAWAY left out share a new connection, later each gets its own.
        handle.avoid_reuse(not shares or self._detours > _SHARED_DETOURS)
        if shares:
            self.read_log(self._on_alpn)
        # libcurl counts from 0 again: what was sent on the other connection is in is_second.
        self._sent += self.sends > 0
        self.sends, self.code, self._news = 0, 0, None
        self.lines.clear()
        self._forget_feeding()
        if request.deadline is not None:
            handle.set_deadline(request.deadline)

    @property
    def is_fed_by_task(self) -> bool:
        """Return whether a task of ours reads the body, which libcurl gets piece by piece."""
        body = None if self.request is None else self.request.body
        return self.feed is not None and body is not None and self.feed != body.read

    def may_restart(self) -> bool:
        """Return whether the attempt, which failed, is to go out once more; rewind its body."""
        return self.goes_elsewhere() or self._may_be_left_out()

    def goes_elsewhere(self) -> bool:
        """Return whether it may go out once more, as nothing was processed; rewind its body."""
        if not self._was_left_out() or self._sent + 1 >= _MOST_SENDS:
            return False
        return self.failed is None and self._rewinds()

    def _was_left_out(self) -> bool:
        """Return whether it is certain that the server processed nothing of what was sent."""
        if self._was_held_back():
            return True
        return self.code in _AFTER_REFUSAL and self.is_refused()

    def _was_held_back(self) -> bool:
        """Return whether libcurl sent nothing on a connection that had ended, or broken HTTP/2."""
        is_quic = self.connection is not None and self.connection.is_quic
        if is_quic and self.code in _ENDED_QUIC:
            # libcurl reads that a connection ended only when a request goes out on it.
            may_be = not self.is_new_connection and self.sends == 1
        elif is_quic and self.code == pycurl.E_ABORTED_BY_CALLBACK:  # it was about to send again
            may_be = self.sends == 2
        else:
            may_be = self.code == pycurl.E_HTTP2 and self.sends == 1
        return may_be and not self.handle.easy.getinfo(pycurl.REQUEST_SIZE)

    def is_refused(self) -> bool:
        """Return whether the server said that it did not process it (RFC 9113, section 8.7)."""
        stream, connection = self._stream_reset(), self.connection
        if stream and connection is not None and stream > connection.last_stream:
            return True
        # Another request may have read the GOAWAY, of which only the reason is told here.
        return self._news == "refused" or (stream > 0 and is_left_out_by_goaway(self.message))

    def _may_be_left_out(self) -> bool:
        """Return whether the server may have said so, of a request that it may see twice."""
        if self.sends_once or self.lines or self._sent + 1 >= _MOST_SENDS:
            return False
        if self.is_second and not self.is_told_to_leave:  # a reload may end the next one, too
            return False
        if self.code == pycurl.E_HTTP2 or self._stream_reset():
            return True  # the connection ended: a server that reloads says so to all its streams
        # It may have done so just before the connection broke, which was there already.
        return self.code == pycurl.E_SEND_ERROR and self._shares and not self.is_new_connection

    @property
    def is_told_to_leave(self) -> bool:
        """Return whether the server is known to have sent GOAWAY on the connection."""
        return self.connection is not None and self.connection.last_stream != math.inf

    def note_refusal(self) -> str:
        """Return why the server refused TLS on the connection, "" if it did not; when it failed.

        One of the requests on a connection reads that, and notes it for the others.
        """
        connection = self.connection
        if connection is None or not self.sends:
            return ""
        if not connection.refusal:
            assert self.request is not None
            connection.look_at_end()
            connection.refusal = refused_tls(
                self.message, self.request.transport, connection.ends_in_alert
            )
            if connection.refusal and connection.multiplexes:
                self.connections.end(connection)  # libcurl keeps it until it has read its end
        return connection.refusal

    def _stream_reset(self) -> int:
        """Return the number of the stream that libcurl has ended unanswered, 0 for none."""
        if self.code != HTTP2_STREAM or self.lines:
            return 0
        return stream_reset_by_us(self.message)

    def _rewinds(self) -> bool:
        try:
            return self.request is None or rewind(self.request.body) is None
        except Exception as error:  # the caller's own
            self.failed = error
            return False

    # answers that came too early

    def may_be_answer(self, size: int, *, ends: bool) -> bool:
        """Return whether what came can be the answer, and was not there before the request.

        Args:
            size: bytes of the body so far.
            ends: there are no more.
        """
        connection = self.connection
        if connection is None or not connection.counts:
            return True
        return connection.count(self._use, _SHORTEST_HEAD + size, ends=ends)

    def disown_answer(self, *, has_head: bool) -> None:
        """Refuse an answer that was there before its request: it is that to another one.

        Args:
            has_head: the caller has seen the head.
        """
        assert self.request is not None
        self.connections.distrust(self.route, self.request)
        if self.sends_once or self.is_second or has_head:
            self.failed = came_early(self.request)
        else:
            self.restarts = True


def _is_on_tls(request: Request) -> bool:
    """Return whether the connection is TLS, all the way or up to the proxy."""
    proxy = request.transport.proxy
    return request.url.scheme == "https" or (proxy is not None and proxy.url.startswith("https:"))


def _set_socket_options(descriptor: int, options: Sequence[SocketOption]) -> int:
    if not options:
        return 0
    try:
        with socket.socket(fileno=os.dup(descriptor)) as twin:
            for option in options:
                twin.setsockopt(*option)
    except (OSError, TypeError):
        return 1  # libcurl closes the socket: CURLE_COULDNT_CONNECT (CURLOPT_SOCKOPTFUNCTION)
    return 0
