"""Run one attempt on a handle: libcurl's callbacks, and the response as it arrives.

The callbacks do not raise, because an exception breaks all other transfers of a curl_multi. They
store the error in `failed`, and the code that runs the transfer raises it. Whether libcurl may send
the request again is decided by the table in attempt.py, which gets libcurl's events from here. When
the attempt has ended, result.py turns it into a response or an exception.
"""

from __future__ import annotations

import _socket
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from curlhttp._http.body import rewind
from curlhttp._http.config import Limits, SocketOption
from curlhttp._http.decoding import MANY, fold
from curlhttp._http.request import IDEMPOTENT, ClientRequest
from curlhttp._http.response import Head
from curlhttp._http.timings import CurlTimings
from curlhttp._http.url import URL
from curlhttp._libcurl import attempt as table
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.attempt import ON_KEPT, RESTART, SEND, WAITING, AttemptState, Ending
from curlhttp._libcurl.connection_state import (
    END,
    Connection,
    OpenConnections,
    Route,
    count_read,
    duplicate_socket,
)
from curlhttp._libcurl.errors import (
    HTTP2_STREAM,
    early_response_error,
    endless_framing_error,
    endless_refusal_error,
    find_tls_refusal,
    head_error,
    too_large_error,
    unwrap_callback_error,
)
from curlhttp._libcurl.handle import Handle, Shares
from curlhttp._libcurl.head import ENDS, is_final, is_unasked_upgrade, parse_response_head
from curlhttp._libcurl.libcurl_log import (
    get_stream_reset,
    is_excluded_by_goaway,
    parse_log_event,
)
from curlhttp._libcurl.options import get_first_limit
from curlhttp._libcurl.upload import Upload
from curlhttp._runtime.engine import MAX_DRAINED, Totals
from curlhttp._runtime.log import RequestLog, get_request_log
from curlhttp.exceptions import BlockedAddress

_SHORTEST_HEAD = len(b"HTTP/1.1 200\n\n")
_MOST_OF_TUNNEL = 256 * 1024  # bytes of a proxy's response to CONNECT
_CATCHES_UP = 0.1  # seconds by which late timers do not slow down a response with a maximum rate
_PAUSE_AT = 256 * 1024  # bytes a streamed body may be ahead of its reader
# For who stores what it reads at once: what arrives is read with fewer system calls.
_LARGE_BUFFER = 512 * 1024  # bytes
_LARGE_PAUSE_AT = _LARGE_BUFFER - 16 * 1024  # libcurl passes 16 KiB, and keeps what it cannot pass
_FIRST_CHECK = 16 * 1024  # bytes of a body before the first look at its pieces
_CHECK_EVERY = 128 * 1024  # bytes from one look to the next
_NO_LIMIT = math.inf
# The framing of chunks: for each byte of the body (a chunk of one byte, in TLS records of its own),
# and beyond that what libcurl may have read and not delivered.
_FRAMING_PER_BYTE, _UNDELIVERED = 100, 512 * 1024
# Looked up once, because every response needs them.
_NAMELOOKUP_TIME_T = pycurl.NAMELOOKUP_TIME_T
_CONNECT_TIME_T = pycurl.CONNECT_TIME_T
_APPCONNECT_TIME_T = pycurl.APPCONNECT_TIME_T
FIRST_BYTE = pycurl.STARTTRANSFER_TIME_T
TOTAL = pycurl.TOTAL_TIME_T
_PAUSE = int(pycurl.WRITEFUNC_PAUSE)
_OK, _ABORT = int(pycurl.PREREQFUNC_OK), int(pycurl.PREREQFUNC_ABORT)
_BAD_SOCKET = int(pycurl.SOCKET_BAD)
_READ_ABORT, _READ_PAUSE = int(pycurl.READFUNC_ABORT), int(pycurl.READFUNC_PAUSE)

if TYPE_CHECKING:
    from curlhttp._http.response import Response

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


class _RunsTransfers(Protocol):
    unanswered: dict[int, Connection]

    def look_up(self, transfer: Transfer) -> bool: ...
    def resume_soon(self, transfer: Transfer) -> None: ...
    def resume_at(self, transfer: Transfer, due: float, reason: ClientRequest) -> None: ...
    def start_read_timeout(self, transfer: Transfer) -> None: ...


class SpeedWindow:
    """The seconds for which the speed of a transfer is measured.

    Args:
        at: when it begins, in monotonic seconds.
        size: bytes that had arrived or gone out by then.
    """

    __slots__ = ("at", "left_at", "size")

    def __init__(self, at: float, size: int) -> None:
        self.at = at
        self.size = size
        self.left_at: float | None = None  # when the caller stopped waiting

    def leave(self) -> None:
        """Stop the clock, because the caller has something to read."""
        self.left_at = monotonic()

    def come_back(self) -> None:
        """Go on, because the caller waits for more."""
        if self.left_at is not None:
            self.at += monotonic() - self.left_at
            self.left_at = None


class TransferLease:
    """What a caller has of a ConnectionPool, from `acquire` to `release` or `drop`.

    Ctrl-C may come when any call returns, and another thread may use a transfer as soon as the pool
    has it. So the lease says whose it is: the pool empties it with no call in between. Whatever
    happens, its holder may `drop` it, which closes what is still in it.

    Attributes:
        transfer: None as soon as the pool has it.
    """

    transfer: Transfer | None = None


class ReceivesResponse(Protocol):
    """A future of asyncio, or what stands for one."""

    def done(self) -> bool: ...
    def set_result(self, response: Response | None, /) -> object: ...


class _CountsAddresses(Protocol):
    @property
    def used(self) -> int: ...


class Transfer:
    """A reusable easy handle with its connection; it runs one attempt at a time.

    Args:
        limits: the client's limits.
        shares: hold the connections of each share key.

    Attributes:
        handle: carries the request.
        easy: the pycurl.Curl of the handle.
        getinfo: of the pycurl.Curl.
        shares: as given.
        shares_as: what its driver knew when it decided whether a request like this one may wait for
            a connection to share; or None.
        request: that it sends; None between two attempts.
        attempt: decides whether libcurl may send the request, and whether the transfer restarts.
        upload: the body that is read piece by piece; None if there is no such body.
        connections: the open ones that it may get; set before it runs.
        connection: the one of these that it last went out on; None before that, or if unknown.
        sockets: of the connection that libcurl is opening, or of its happy eyeballs.
        route: the addresses of the connection; None before there is one.
        blocked: the first address of this attempt that its guard refused; None if there is none, or
            another one was connected to.
        lines: the header lines of all heads and trailers so far.
        head: the final head of a response that streams, or is complete.
        pieces: the body that was received and not read yet.
        size: bytes of the body that were received.
        done: libcurl has ended the attempt; `code` and `message` say how.
        code: libcurl's result code, once it has ended; 0 for success.
        message: libcurl's text for a code other than 0.
        failed: the exception that a callback stored.
        has_enough: this ended it, because nobody needs the rest of the body.
        paused: libcurl waits until the driver resumes it, after pieces were read.
        wake: called when there is something new for a waiting caller; None if nobody waits.
        attached: the driver that it runs on, or None.
        first_limit: seconds of silence after which its request needs the first check; None for
            never.
        last_activity: the monotonic time of the last activity, for the read timeout.
        check_at: the monotonic time when the driver checks again whether it is silent; 0.0 before
            the first check.
        progress_mark: numbers of header lines and of bytes sent at the last such check, or None.
        upload_mark: bytes of the body that had gone out at the last such check, or None.
        upload_at: the monotonic time of the last check that found more of them.
        queue_seconds: how long the request waited for a slot.
        origin: of its slot, in engines whose transfers share connections.
        key: the origin and route that it is connected to, in the blocking engine.
        driver: the one that the blocking engine acquired for it, or None.
        lease: the one that it was acquired with, in the blocking engine.
        lookup: a NameLookup, whose module imports this one, while addresses are missing; or None.
        lookups: how often its driver looked its names up.
        looked_up: microseconds that it waited for them.
        asks_libcurl: libcurl may look them up.
        future: of a caller that gets the response as soon as it is complete, or None if it failed;
            None if there is no such caller.
        is_plain: it ended without anything unusual, see `take_plain_response`.
        settle: completes the future without a response; it is the `wake` of such a caller.
    """

    __slots__ = (
        "_check_size_at",  # bytes of the body up to which it needs no check
        "_connects",  # the guard has allowed an address
        "_folded",  # number of the first pieces that are joined from many
        "_last_lines",  # the header lines of the last request
        "_last_method",
        "_last_route",
        "_last_timeout",
        "_last_url",  # None if more was set for it than for most
        "_limited_until",  # when a piece of a response with a maximum rate may come next
        "_max_size",  # bytes that the body may have, known from the first check on
        "_on_alpn",
        "_read_mark",  # bytes read from the socket, and bytes of the body, at the first check
        "_steps",  # calls of libcurl since it began to connect, see on_progress
        "_unread",  # bytes of the pieces of a streamed body
        "_use",  # number of the request among those of its connection
        "asks_libcurl",
        "attached",
        "attempt",
        "attempts",
        "blocked",
        "bytes_received",
        "bytes_sent",
        "check_at",
        "code",
        "connection",
        "connections",
        "done",
        "driver",
        "easy",
        "failed",
        "first_limit",
        "future",
        "getinfo",
        "handle",
        "has_enough",
        "head",
        "is_plain",
        "key",
        "last_activity",
        "lease",
        "lines",
        "looked_up",
        "lookup",
        "lookups",
        "message",
        "origin",
        "paused",
        "pieces",
        "progress_mark",
        "queue_seconds",
        "request",
        "route",
        "settle",
        "shares",
        "shares_as",
        "size",
        "sockets",
        "speed_window",
        "totals",
        "upload",
        "upload_at",
        "upload_mark",
        "wake",
    )

    connections: OpenConnections
    lease: TransferLease
    # Set by `clean`:
    request: ClientRequest | None
    failed: BaseException | None
    wake: Callable[[], None] | None
    route: Route | None
    connection: Connection | None
    future: ReceivesResponse | None
    is_plain: bool
    head: Head | None
    done: bool
    paused: bool
    code: int
    size: int
    queue_seconds: float
    _unread: int
    _check_size_at: float

    def __init__(self, limits: Limits, shares: Shares, totals: Totals | None = None) -> None:
        self.totals = totals or Totals()
        self.attempts = self.bytes_sent = self.bytes_received = 0
        self.attempt = AttemptState()
        self.lease = TransferLease()
        self.lines: list[bytes] = []
        self.sockets: list[int] = []
        self.pieces: list[bytes] = []
        self.key: Any = None  # a Key of the ConnectionPool
        self.driver: Any = None  # a PooledDriver, which imports this module
        self.shares = shares
        self.origin = self.message = ""
        self.first_limit: float | None = None
        self.settle = self._settle  # bound once, because each request needs it
        self.attached: _RunsTransfers | None = None
        self.check_at = self.last_activity = 0.0
        self.progress_mark: tuple[int, int] | None = None
        self.upload_mark: int | None = None
        self.upload_at = 0.0
        self.speed_window: SpeedWindow | None = None
        self._reset_dirty()
        self.handle = Handle(limits, self, shares)
        self.easy = self.handle.easy
        self.getinfo = self.easy.getinfo
        self.clean()

    def _reset_dirty(self) -> None:
        """Reset the state that an attempt changes only if it makes the handle dirty."""
        self.attempt.reset()
        self.upload: Upload | None = None
        self.blocked: BlockedAddress | None = None
        self.lookup: _CountsAddresses | None = None
        self.shares_as: object = None
        self.has_enough = self.asks_libcurl = self._connects = False
        self.lookups = self.looked_up = self._folded = 0
        self._last_url: URL | None = None
        self._limited_until = 0.0
        self._on_alpn: Callable[[str, bool], None] | None = None
        self._read_mark: tuple[int, int] | None = None

    def prepare(self, request: ClientRequest) -> None:
        """Prepare to send a request.

        Args:
            request: complete; its deadline, if any, becomes CURLOPT_TIMEOUT_MS.
        """
        self.request = request
        self.attempts += 1
        # Most requests of a transfer are like the one before, for which everything is set.
        if (
            request.url is not self._last_url
            or request.route is not self._last_route
            or request.timeout is not self._last_timeout
            or request._shared_headers._lines is not self._last_lines
            or request.method != self._last_method
            or request._headers is not None
            or request.body is not None
            or request.deadline is not None
            or request.extensions is not None
            or request.max_response_size is not None
            or request.stream
            or type(request) is not ClientRequest
        ):
            self._prepare_anew(request)
        self.last_activity = monotonic()

    def _prepare_anew(self, request: ClientRequest) -> None:
        """Prepare to send a request that is not like the one before."""
        handle = self.handle
        handle.prepare(request)
        self._last_url = self.shares_as = None
        self.first_limit = get_first_limit(request)
        if request.extensions is None and request._headers is None and not handle.is_special:
            self._last_route, self._last_timeout = request.route, request.timeout
            self._last_lines, self._last_method = request.header_lines(), request.method
            self._last_url = request.url
        if request.extensions is not None and (request_log := get_request_log(request)) is not None:
            self._collect_log(request_log, request)
        body = request.body
        attempt = self.attempt
        attempt.once = request.method not in IDEMPOTENT
        if body is None:
            pass
        elif body.data is None:
            self.upload = Upload(body.read)
            attempt.once = attempt.is_fed = True
        else:
            self.bytes_sent += len(body.data)
        if request.max_response_size is not None:
            self._check_size_at = min(request.max_response_size, _FIRST_CHECK)

    def set_read_timeout(self, seconds: float | None) -> None:
        """Change how long the server may be silent from now on, unless the transfer has ended.

        Args:
            seconds: None for no limit.

        Raises:
            ValueError: the number of seconds is not positive.
        """
        from dataclasses import replace  # slow to import

        request = self.request
        if request is None or self.attached is None:
            return
        request.timeout = replace(request.timeout, read=seconds)
        self.first_limit = get_first_limit(request)
        self._last_url = None  # so that this is not kept for the next request
        self.last_activity = monotonic()
        self.attached.start_read_timeout(self)

    def _collect_log(self, request_log: RequestLog, request: ClientRequest) -> None:
        """Add libcurl's log of a request that is about to go out to its log."""
        from curlhttp._libcurl.libcurl_log import DebugLog

        log = DebugLog(self.on_log, request.sensitive)
        request_log.add(log)
        self.handle.read_log(log)

    # libcurl's callbacks: they do not raise, but store the error in `failed`

    # the connection

    def on_lookup(self) -> int:
        """Run before libcurl would look up a name or parse an address; 1 ends the attempt."""
        try:
            if self.attached is None or not self.attached.look_up(self):
                return 0
            self.handle.mark_log()
        except BaseException as error:
            self.failed = unwrap_callback_error(error)
        return 1

    def on_socket(self, descriptor: int, purpose: int) -> int:
        if not self.sockets:
            self.attempt.receive(table.OPEN)
            self._steps = 0
        self.sockets.append(descriptor)
        self.connections.chosen.discard(descriptor)  # that was another socket, closed just now
        assert self.request is not None
        return _set_socket_options(descriptor, self.request.route.socket_options)

    def on_progress(self, *_sizes: int) -> int:
        """End an attempt whose proxy refuses the tunnel with a body without end."""
        if self.sockets:
            self._steps += 1
            if self._steps > _MOST_OF_TUNNEL:
                assert self.request is not None
                self.failed = endless_refusal_error(self.request)
                return 1
        return 0

    def on_send(self, *route: Any) -> int:  # Any: a Route, in pieces
        """Run when there is a connection, just before the request goes out on it.

        CURLOPT_PREREQFUNCTION is the only way to stop libcurl from sending a request again.
        """
        self.route = route
        self.last_activity = monotonic()
        attempt = self.attempt
        if attempt.state != WAITING:
            return self._on_new_or_again(route)
        # Most go out for the first time, on a kept connection.
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
        if connection is None or (attempt.once and _retires(connection)):
            return self._turn_away(table.UNFIT, route)
        self.connection = connection
        # This number shows later whether the response came after the request: check_response.
        if connection.counts_bytes:
            self._use = connection.uses = connection.uses + 1
        attempt.state = ON_KEPT  # as receive(KEPT)
        return _OK

    def _on_new_or_again(self, route: Route) -> int:
        """Run before the request goes out on a new connection, or goes out again."""
        attempt = self.attempt
        self.handle.is_dirty = self.handle.is_dirty or attempt.is_out  # so that it is reset
        if self.sockets:
            connection = self._note_connection(route)  # even if it is not sent; others may get it
            event = table.CONNECTED
        else:
            connections = self.connections
            connection = connections.check(connections.by_route.get(route), self.request)
            if connection is not None and attempt.once and _retires(connection):
                connection = None
            event = table.UNFIT if connection is None else table.KEPT
        if attempt.receive(event) != SEND:
            return _ABORT
        self.connection = connection
        if connection is not None and connection.counts_bytes:
            self._use = connection.uses = connection.uses + 1
        return _OK

    def _turn_away(self, event: int, route: Route) -> int:
        """Keep the request, of which nothing has left, off the connection."""
        self.handle.is_dirty = True
        self.connection = self.connections.by_route.get(route)
        self.attempt.receive(event)
        return _ABORT

    def on_discard(self, peer: str, own: str, port: int, own_port: int) -> int:
        if self.sockets:
            self._note_connection((peer, own, port, own_port))
        self.attempt.receive(table.DISCARD)
        return _ABORT

    def _note_connection(self, route: Route) -> Connection | None:
        request = self.request
        assert request is not None
        connection = self.connections.add(
            route,
            self.sockets,
            multiplexes=self.handle.multiplexes,
            is_tls=_is_on_tls(request),
            origin=request.url.origin,
        )
        self.sockets.clear()
        if connection is not None and connection.counts_bytes and self.attached is not None:
            self.attached.unanswered[connection.descriptor] = connection
        return connection

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

    def note_unwatched(self, descriptor: int) -> None:
        """Note whether its connection works although libcurl gives it up: then it was refused."""
        connection = self.connection
        if (
            self.attempt.is_out
            and not self.lines
            and connection is not None
            and connection.descriptor == descriptor
            and connection.is_clean()
        ):
            self.handle.is_dirty = True
            self.attempt.receive(table.ALIVE)

    def on_read(self, size: int) -> bytes | int:
        upload = self.upload
        if upload is None:
            return _READ_ABORT
        self.last_activity = monotonic()
        try:
            piece = upload.take(size, self.last_activity)
        except BaseException as error:
            self.failed = unwrap_callback_error(error)
            return _READ_ABORT
        return _READ_PAUSE if piece is None else piece

    # libcurl's log

    def on_log(self, kind: int, text: bytes) -> None:
        found = parse_log_event(kind, text)
        if found is None:
            return
        event, number = found
        if event == "alpn":  # once for each new connection, in the log of any request
            if self._on_alpn is not None:
                assert self.request is not None
                self._on_alpn(self.request.url.origin, bool(number))
        elif event == "goaway":  # for all requests on the connection
            if self.attempt.is_out and self.connection is not None:
                self.connection.last_stream = number
        elif event == "downgrades":
            self.attempt.receive(table.DOWNGRADED)
        elif not self.lines:  # a request with a response was not refused
            self.attempt.receive(table.REFUSED)

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

    # where the route has a guard of addresses

    def on_open(self, purpose: int, target: _SocketAddress) -> _socket.socket | int:
        """Return a socket for an address, or refuse the address; then libcurl tries the next."""
        try:
            return self._make_socket(target)
        except BaseException as error:  # an exception of a guard ends the request
            self.failed = unwrap_callback_error(error)
            return _BAD_SOCKET

    def _make_socket(self, target: _SocketAddress) -> _socket.socket | int:
        from curlhttp._http.address_guard import blocked  # only requests with a guard need it

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

    def on_guarded_socket(self, descriptor: int, purpose: int) -> int:
        _set_inheritable(descriptor, False)  # pycurl's copy is; libcurl's own would not be
        return self.on_socket(descriptor, purpose)

    def on_guarded_send(self, *route: Any) -> int:  # Any: a Route, in pieces
        """Check the chosen connection before libcurl sends, even if another request opened it."""
        try:
            from curlhttp._http.address_guard import blocked

            request = self.request
            assert request is not None
            # A new Unix socket has no address here; it was checked when it was opened.
            is_new = bool(self.sockets)
            error = None if is_new and not route[0] else blocked(request, route[0], route[2])
        except BaseException as failure:
            self.failed = unwrap_callback_error(failure)
            return _ABORT
        if error is None:
            return self.on_send(*route)
        if is_new:
            self.failed = error
        elif self.attempt.state == WAITING:  # the name may have other addresses
            self.route = route
            return self._turn_away(table.UNFIT, route)
        else:
            self.attempt.receive(table.UNFIT)
        return _ABORT

    # the response

    def on_header(self, line: bytes) -> int | None:
        """Collect a header line of a streamed response, and notice the end of its head."""
        lines, request = self.lines, self.request
        assert request is not None
        lines.append(line)
        self.last_activity = monotonic()
        if line in ENDS and self.head is None:
            if not self.check_response(0, ends=False):
                self.reject_early_response(has_head=False)
                return 0  # any number but the length ends the transfer with E_WRITE_ERROR
            head = Head(b"".join(lines))
            if is_final(head) and not is_unasked_upgrade(head, request):
                self.head = head
                self._wake()
            elif not head.status_code or is_unasked_upgrade(head, request):
                self.failed = head_error(lines, request)
                return 0  # libcurl closes the connection
            else:
                lines.clear()
        return None

    def on_body(self, piece: bytes) -> int | None:
        """Collect a piece of a body that is kept in memory."""
        length = len(piece)
        size = self.size = self.size + length
        self.last_activity = monotonic()
        if size > self._check_size_at:
            result = self._check_body(piece, size)
            if result is not None:
                return result
        self.pieces.append(piece)
        self.bytes_received += length
        return None

    def on_piece(self, piece: bytes) -> int | None:
        """Collect a piece of a streamed body, or pause the transfer."""
        if self.head is None:
            # libcurl treats any line that begins with CR as the end of a head. A caller that waits
            # for the head would wait forever once the pieces pause the transfer.
            assert self.request is not None
            self.failed = head_error(self.lines, self.request)
            return 0
        length = len(piece)
        size = self.size + length
        self.last_activity = monotonic()
        if size > self._check_size_at and self._stop_if_enough(piece, size):
            return 0
        pieces, unread = self.pieces, self._unread
        if unread >= _PAUSE_AT or len(pieces) - self._folded >= MANY:
            self.paused = True
            return _PAUSE
        self._unread = unread + length
        pieces.append(piece)
        self.size = size
        self.bytes_received += length
        if len(pieces) == 1:  # nobody waits while there are some
            self._wake()
        return None

    def on_limited(self, piece: bytes) -> int | None:
        """Collect a piece of a body with a maximum rate, or pause until its time has come.

        CURLOPT_MAX_RECV_SPEED_LARGE allows the bytes of a second at once (libcurl 8.23), and again
        after each pause of a transfer whose reader or turn needs one.
        """
        request, now = self.request, monotonic()
        assert request is not None
        assert self.attached is not None
        if now < self._limited_until:
            self.paused = True
            self.attached.resume_at(self, self._limited_until, request)
            return _PAUSE
        result = self.on_piece(piece) if self.streams else self.on_body(piece)
        if result is None:
            rate = request.route.max_receive_rate
            assert rate is not None
            begun = max(self._limited_until, now - _CATCHES_UP)
            self._limited_until = begun + len(piece) / rate
            self.handle.is_dirty = True  # so that the time is reset for the next request
        return result

    def _fold(self) -> None:
        self._folded = fold(self.pieces, self._folded)
        self.handle.is_dirty = True  # so that the number is reset for the next request

    def _wake(self) -> None:
        if self.wake is not None:
            self.wake()

    def _settle(self) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(None)

    def _check_body(self, piece: bytes, size: int) -> int | None:
        """Check a body at some of its pieces; return the value for libcurl, None to continue.

        Millions of small pieces would take a multiple of their memory, and would keep the loop
        busy while more come in. So they are joined, and libcurl is paused until the next turn:
        then it delivers what it has read in large pieces.
        """
        if self._stop_if_enough(piece, size):
            return 0  # any number but the length ends the transfer with E_WRITE_ERROR
        assert self.request is not None
        if size > _PAUSE_AT and self.request.stream:
            return self._hand_over(size - len(piece))
        is_many = len(self.pieces) - self._folded >= MANY
        if is_many:
            self._fold()
        # After small pieces, more are likely.
        self._check_size_at = min(
            self._check_size_at, size + (2 * MANY if self._folded else _CHECK_EVERY)
        )
        if is_many and self.attached is not None:
            self.size = size - len(piece)  # libcurl delivers it again
            self.paused = True
            self.attached.resume_soon(self)
            return _PAUSE
        return None

    def _hand_over(self, size: int) -> int:
        """Pause a body that is not small, so that its caller reads the rest as it arrives.

        Args:
            size: bytes of it so far; libcurl delivers the next piece again.
        """
        request = self.request
        assert request is not None
        self.size = size
        head = parse_response_head(self.lines, request)
        if head is None:
            self.failed = head_error(self.lines, request)
            return 0
        if not self.check_response(size, ends=False):
            self.reject_early_response(has_head=False)
            return 0
        self.head = head
        self.paused = True
        self._wake()
        return _PAUSE

    def stream_rest(self) -> None:
        """Stream the rest of a body that was handed over; not in a callback."""
        self.handle.set_streaming(True)
        self._unread = self.size

    @property
    def streams(self) -> bool:
        """Return whether its caller reads the body as it arrives."""
        return self.handle.streams is True

    def _stop_if_enough(self, piece: bytes, size: int) -> bool:
        """End a body that is enough, and return True; otherwise set the next check of it."""
        if size - len(piece) <= _FIRST_CHECK:
            self._max_size = self._get_max_size()
        most = self._check_size_at = self._max_size
        if size <= most:
            return False
        self.bytes_received += len(piece)
        if self._is_unwanted():
            self.has_enough = self.handle.is_dirty = True
            self.pieces.append(piece[: len(piece) - (size - MAX_DRAINED)])
        else:
            assert self.request is not None
            self.failed = too_large_error(self.request)
        return True

    def _get_max_size(self) -> float:
        """Return how many bytes the body may have."""
        assert self.request is not None
        if self._is_unwanted():
            return MAX_DRAINED
        most = self.request.max_response_size
        return _NO_LIMIT if most is None else most

    def stop_if_endless(self) -> bool:
        """Return True if the attempt must end, because of framing that libcurl does not report.

        It drops extensions of chunks and blanks after their sizes, without a limit. Called ten
        times a second while something arrives.
        """
        request, lines = self.request, self.lines
        assert request is not None
        # HTTP/2 shares its connection, and its read timeouts notice a stream without progress.
        if not lines or not lines[0].startswith(b"HTTP/1"):
            return False
        if request.max_response_size is None and lines[0][9:10] != b"3":
            return False
        most = self._get_max_size()
        read = 0 if most == _NO_LIMIT else count_read(self.easy.getinfo(pycurl.ACTIVESOCKET))
        if not read:
            return False
        if self._read_mark is None:
            self._read_mark = (0, 0) if self.attempt.has_opened else (read, self.size)
            self.handle.is_dirty = True  # so that it is reset for the next request
        size = self.size - self._read_mark[1]
        if read - self._read_mark[0] - size <= most + _UNDELIVERED + _FRAMING_PER_BYTE * size:
            return False
        if self._is_unwanted():
            self.has_enough = True
        else:
            self.failed = endless_framing_error(request)
        return True

    def _is_unwanted(self) -> bool:
        """Return whether it is the body of a redirect that is followed."""
        request = self.request
        assert request is not None
        head = self.head if self.streams else parse_response_head(self.lines, request)
        return request.follow_redirects and head is not None and head.redirects

    def check_response(self, size: int, *, ends: bool) -> bool:
        """Return False if the response arrived before the request, so that it belongs to another.

        Args:
            size: bytes of the body so far.
            ends: there are no more.
        """
        connection = self.connection
        if connection is None or not connection.counts_bytes:
            return True
        return connection.check_response(self._use, _SHORTEST_HEAD + size, ends=ends)

    def reject_early_response(self, *, has_head: bool) -> None:
        """Reject a response that came before its request, and so belongs to another one.

        Args:
            has_head: the caller has seen the head.
        """
        assert self.request is not None
        self.connections.quarantine_server(self.route, self.request)
        if has_head or self.attempt.receive(table.EARLY) == table.FAIL:
            self.failed = early_response_error(self.request)

    # the end, and another start

    def conclude(self) -> int:
        """Return how the attempt goes on after libcurl has ended it; rewind its body for RESTART.

        A task that feeds the body restarts the transfer on its own, unless nothing was read.
        """
        attempt, upload, ending = self.attempt, self.upload, self.ending()
        if (
            upload is not None
            and upload.feed is not None
            and not (ending.awaits_names or attempt.state == table.TURNED_AWAY)
        ):
            return table.FAIL
        return self._conclude(ending)

    def conclude_in_task(self) -> int:
        """Return how an attempt goes on that a task feeds; rewind its body for RESTART."""
        return self._conclude(self.ending()) if self.code else table.DONE

    def _conclude(self, ending: Ending) -> int:
        attempt, handle = self.attempt, self.handle
        handle.is_dirty = True  # so that what the attempt counts is reset
        moves = attempt.moves
        result = attempt.receive(table.FAILED, ending)
        if result != RESTART:
            return result
        if attempt.is_out and not self._rewinds():
            return table.FAIL
        if handle.is_discarding:
            handle.note("another connection: the reused one had ended, and was closed")
        elif not attempt.is_out:
            handle.note("another connection: the reused one is not clean")
        elif attempt.moves > moves:
            handle.note("another connection: the server did not process it")
        else:
            handle.note("another connection: this one broke, or responded before the request")
        return result

    def ending(self) -> Ending:
        """Return how libcurl ended the attempt."""
        connection, code, message = self.connection, self.code, self.message
        # The stream that libcurl reset without a response.
        stream = get_stream_reset(message) if code == HTTP2_STREAM and not self.lines else 0
        last = math.inf if connection is None else connection.last_stream
        return Ending(
            code,
            nothing_left=not self.getinfo(pycurl.REQUEST_SIZE),
            has_response=bool(self.lines),
            is_reset=stream > 0,
            # Another request may have read the GOAWAY; this one only gets the reason.
            is_excluded=stream > 0 and (stream > last or is_excluded_by_goaway(message)),
            has_goaway=last != math.inf,
            is_quic=connection is not None and connection.is_quic,
            is_shared=self._is_shared,
            refuses_tls=bool(self.note_refusal()),
            awaits_names=self.lookup is not None and not self.lookup.used,
            has_error=self.failed is not None,
        )

    @property
    def _is_shared(self) -> bool:
        """Return whether the connection that it last went out on uses HTTP/2 or HTTP/3."""
        connection = self.connection
        return self.handle.multiplexes if connection is None else connection.multiplexes

    def note_refusal(self) -> str:
        """Return why the server refused TLS on the connection, "" if it did not.

        Called after a failure. One request on a connection reads the reason, and notes it for the
        others.
        """
        connection = self.connection
        if connection is None or not self.attempt.is_out:
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

    def _rewinds(self) -> bool:
        try:
            return self.request is None or rewind(self.request.body) is None
        except Exception as error:  # raised by the caller's body
            self.failed = error
            return False

    def restart(self) -> None:
        """Prepare to go out on another connection."""
        request, handle, attempt = self.request, self.handle, self.attempt
        assert request is not None
        shares = self._is_shared
        attempt.receive(table.RESTARTED)
        handle.is_dirty = True  # so that what the attempt counts is reset
        self.last_activity = monotonic()
        if handle.is_discarding:
            handle.end_discarding()
        handle.avoid_reuse(not shares or attempt.needs_own_connection)
        if shares:
            self.read_log(self._on_alpn)
        self.code, self.done = 0, False
        self.lines.clear()
        self.sockets.clear()
        self.pieces.clear()
        self.size = self._folded = 0
        self._check_size_at = 0.0
        self._read_mark = None
        if self.upload is not None:
            self.upload.reset()
        if request.deadline is not None:
            handle.set_deadline(request.deadline)

    # what others ask for

    def begin_wait(self) -> None:
        """Let a caller wait for more of a streamed body; the time before that does not count."""
        if self.paused and self.attached is not None:
            self.attached.resume_soon(self)
        self.last_activity = monotonic()
        if self.speed_window is not None:
            self.speed_window.come_back()

    def end_wait(self) -> None:
        """Note that the caller has something to read."""
        if self.speed_window is not None:
            self.speed_window.leave()

    def take_pieces(self) -> list[bytes]:
        """Return the received part of a streamed body."""
        taken = self.pieces[:]
        self.pieces.clear()
        self._unread = self._folded = 0
        return taken

    def take_many_pieces(self) -> list[bytes]:
        """Return the received part of a streamed body, and receive more at once from now on."""
        taken = self.take_pieces()
        request = self.request
        if self.attached and not self.done and request and not request.route.max_receive_rate:
            self._unread = _PAUSE_AT - _LARGE_PAUSE_AT
            self.handle.receive_more(_LARGE_BUFFER)
        return taken

    def discard_body(self) -> None:
        """Drop the received part of a streamed body, and pause after MAX_DRAINED more bytes."""
        self.pieces.clear()
        self._folded = 0
        self._unread = _PAUSE_AT - MAX_DRAINED

    def timings(self) -> CurlTimings:
        """Return where the time went so far, as libcurl counts it; few callers need it in full."""
        info = self.getinfo
        # Before the first byte libcurl reports the end.
        first_byte = info(FIRST_BYTE) if self.lines else 0
        total = info(TOTAL)
        route, steps = self.route, None
        if route is None or self.attempt.has_opened:
            steps = info(_NAMELOOKUP_TIME_T), info(_CONNECT_TIME_T), info(_APPCONNECT_TIME_T)
            if before := self.looked_up:
                total += before
                first_byte += before if first_byte else 0
                named, connected, secured = (time and time + before for time in steps)
                steps = named or before, connected, secured
        return self.queue_seconds, first_byte, total, route, steps

    def certificate(self) -> str | None:
        """Return the server's certificate as PEM; None without TLS.

        libcurl only reports it for a new connection. For a reused one it is known if it was
        requested when the connection was new.
        """
        chain = self.easy.getinfo(pycurl.INFO_CERTINFO)
        found = dict(chain[0]).get("Cert") if chain else None
        connection = self.connection
        if connection is None:
            return found
        connection.certificate = found or connection.certificate
        return connection.certificate

    # between attempts

    def clean(self) -> None:
        """Forget the request, and reset the options that must not stay on an idle handle."""
        if self.handle.is_dirty:
            self._close_body()
            self._count_sent()
            self._reset_dirty()
            self.handle.clean()
        # What every attempt changes.
        self.attempt.state = WAITING
        self.request = self.failed = self.wake = self.route = self.connection = self.head = None
        self.future, self.is_plain = None, False
        self.done = self.paused = False
        self.code = self.size = self._unread = 0
        self.queue_seconds = 0.0
        # Most bodies are smaller, and need no check of their head or pieces.
        self._check_size_at = _FIRST_CHECK
        if self.sockets:
            self.sockets.clear()
        self.lines.clear()
        self.pieces.clear()

    def clean_plain(self) -> None:
        """Forget the request, like `clean`, after an attempt that changed no more than most."""
        if self.handle.is_dirty or self.size > _FIRST_CHECK or self.queue_seconds:
            self.clean()
            return
        self.request = self.wake = self.future = self.route = self.connection = self.head = None
        self.attempt.state = WAITING
        self.size = 0
        self.done = self.is_plain = False
        self.lines.clear()
        self.pieces.clear()

    def _close_body(self) -> None:
        request = self.request
        if self.upload is not None and request is not None and request.body is not None:
            self.upload.stop()
            with suppress(Exception):  # nothing is lost of a file that was only read
                request.body.close()

    def _count_sent(self) -> None:
        if self.upload is not None and self.request is not None:
            with suppress(pycurl.error):  # the garbage collector has closed the handle
                self.bytes_sent += self.easy.getinfo(pycurl.SIZE_UPLOAD_T)

    def count(self) -> None:
        """Add what it has counted to the totals; called before its pool forgets it."""
        self.totals.take(self)

    def close(self) -> None:
        """Close the handle, and the connections that only it has."""
        self._close_body()
        self._count_sent()
        self.count()
        try:
            if self.driver is not None:
                self.driver.abandon(self)
        finally:
            self.handle.close()
            del self.shares
            del self.settle  # a cycle


def _retires(connection: Connection) -> bool:
    """Return whether a connection was silent for so long that it is retired."""
    if not connection.is_unproven():
        return False
    connection.retire()
    return True


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
