"""Run one attempt on a handle: libcurl's callbacks, and the response as it arrives.

The callbacks do not raise, because an exception breaks all other transfers of a curl_multi. They
store the error in `failed`, and the code that runs the transfer raises it. When the attempt has
ended, result.py turns it into a response or an exception. This module also counts the open
connections of engines, and keeps a forked child from using its parent's transfers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol, TypeAlias

import pycurl

from curlhttp._curl.connection_state import Connection, OpenConnections, Route, count_read
from curlhttp._curl.errors import (
    endless_framing_error,
    head_error,
    too_large_error,
    unwrap_callback_error,
)
from curlhttp._curl.handle import Callbacks, Handle, Shares
from curlhttp._curl.head import ENDS, is_final, is_unasked_upgrade, parse_response_head
from curlhttp._curl.request_sender import RequestSender
from curlhttp._engine.engine import MAX_DRAINED, EngineState, Totals
from curlhttp._engine.log import RequestLog, get_request_log
from curlhttp._models.config import Limits
from curlhttp._models.decoding import MANY, fold
from curlhttp._models.request import IDEMPOTENT, ClientRequest
from curlhttp._models.response import Head
from curlhttp._models.timings import CurlTimings
from curlhttp._models.url import URL
from curlhttp.exceptions import ConnectionError

_CATCHES_UP = 0.1  # seconds by which late timers do not slow down a response with a maximum rate
_PAUSE_AT = 256 * 1024  # bytes a streamed body may be ahead of its reader
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


class _RunsTransfers(Protocol):
    unanswered: dict[int, Connection]

    def look_up(self, transfer: Transfer) -> bool: ...
    def resume_soon(self, transfer: Transfer) -> None: ...
    def resume_at(self, transfer: Transfer, due: float) -> None: ...


class Transfer(RequestSender):
    """A reusable easy handle with its connection; it runs one attempt at a time.

    Args:
        limits: the client's limits.
        shares: hold the connections of each share key.

    Attributes:
        easy: the pycurl.Curl of the handle.
        getinfo: of the pycurl.Curl.
        shares: as given.
        shares_as: what its driver knew when it decided whether a request like this one may wait for
            a connection to share; or None.
        head: the final head of a response that streams, or is complete.
        pieces: the body that was received and not read yet.
        size: bytes of the body that were received.
        done: libcurl has ended the attempt; `code` and `message` say how.
        is_cut_short: the rest of the body is not needed, and was not received.
        paused: libcurl waits until the driver resumes it, after pieces were read.
        feeds_in_task: the caller's task is busy with the request's body, and cannot read the
            response.
        attached: the driver that it runs on, or None.
        check_at: the monotonic time when the driver checks again whether it is silent; 0.0 before
            the first check.
        progress_mark: numbers of header lines and of bytes sent at the last such check, or None.
        upload_mark: bytes of the body that had gone out at the last such check, or None.
        upload_at: the monotonic time of the last check that found more of them.
        queue_seconds: how long the request waited for a slot.
        origin: of its slot, in engines whose transfers share connections.
        key: the origin and route that it is connected to, in the blocking engine.
        driver: the one that the blocking engine acquired for it, or None.
        lookup: a NameLookup, whose module imports this one, while addresses are missing; or None.
        lookups: how often its driver looked its names up.
        looked_up: microseconds that it waited for them.
        asks_libcurl: libcurl may look them up.
    """

    __slots__ = (
        "_check_size_at",  # bytes of the body up to which it needs no check
        "_folded",  # number of the first pieces that are joined from many
        "_last_lines",  # the header lines of the last request
        "_last_method",
        "_last_route",
        "_last_timeout",
        "_last_url",  # None if more was set for it than for most
        "_limited_until",  # when a piece of a response with a maximum rate may come next
        "_max_size",  # bytes that the body may have, known from the first check on
        "_read_mark",  # bytes read from the socket, and bytes of the body, at the first check
        "_unread",  # bytes of the pieces of a streamed body
        "asks_libcurl",
        "attached",
        "attempts",
        "bytes_received",
        "bytes_sent",
        "check_at",
        "done",
        "driver",
        "easy",
        "feeds_in_task",
        "getinfo",
        "head",
        "is_cut_short",
        "key",
        "looked_up",
        "lookup",
        "lookups",
        "origin",
        "paused",
        "pieces",
        "progress_mark",
        "queue_seconds",
        "shares",
        "shares_as",
        "size",
        "totals",
        "upload_at",
        "upload_mark",
    )

    # Set by `clean`:
    head: Head | None
    done: bool
    paused: bool
    size: int
    queue_seconds: float
    _unread: int
    _check_size_at: float

    def __init__(self, limits: Limits, shares: Shares, totals: Totals | None = None) -> None:
        self.totals = totals or Totals()
        self.attempts = self.bytes_sent = self.bytes_received = 0
        self.pieces: list[bytes] = []
        self.key: Any = None  # a Key of the ConnectionPool
        self.driver: Any = None  # a PooledDriver, which imports this module
        self.shares = shares
        self.origin = ""
        self.attached: _RunsTransfers | None = None
        self.check_at = 0.0
        self.progress_mark: tuple[int, int] | None = None
        self.upload_mark: int | None = None
        self.upload_at = 0.0
        super().__init__()
        self.handle = Handle(limits, self._callbacks(), shares)
        self.easy = self.handle.easy
        self.getinfo = self.easy.getinfo
        self.clean()

    def _callbacks(self) -> Callbacks:
        return Callbacks(
            on_line=self.lines.append,
            on_body=self._on_body,
            on_header=self._on_header,
            on_piece=self._on_piece,
            on_limited=self._on_limited,
            on_read=self._on_read,
            on_lookup=self._on_lookup,
            on_socket=self._on_socket,
            on_send=self._on_send,
            on_open=self._on_open,
            on_guarded_socket=self._on_guarded_socket,
            on_guarded_send=self._on_guarded_send,
            on_discard=self._on_discard,
            on_progress=self._on_progress,
            on_log=self._on_log,
        )

    def _reset_dirty(self) -> None:
        super()._reset_dirty()
        self._last_url: URL | None = None
        self.shares_as: object = None
        self.feeds_in_task = self.is_cut_short = False
        self._folded = 0
        self._limited_until = 0.0
        self._read_mark: tuple[int, int] | None = None
        self.lookup: object = None
        self.lookups = self.looked_up = 0
        self.asks_libcurl = False

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
        if request.extensions is None and request._headers is None and not handle.is_special:
            self._last_route, self._last_timeout = request.route, request.timeout
            self._last_lines, self._last_method = request.header_lines(), request.method
            self._last_url = request.url
        if request.extensions is not None and (request_log := get_request_log(request)) is not None:
            self._collect_log(request_log, request)
        body = request.body
        if body is None:
            self.sends_once = request.method not in IDEMPOTENT
        elif body.data is None:
            self.feed = body.read
            self.sends_once = True
        else:
            self.sends_once = request.method not in IDEMPOTENT
            self.bytes_sent += len(body.data)
        if request.max_response_size is not None:
            self._check_size_at = min(request.max_response_size, _FIRST_CHECK)

    def _collect_log(self, request_log: RequestLog, request: ClientRequest) -> None:
        """Add libcurl's log of a request that is about to go out to its log."""
        from curlhttp._curl.libcurl_log import DebugLog

        log = DebugLog(self._on_log, request.sensitive)
        request_log.add(log)
        self.handle.read_log(log)

    def restart(self) -> None:
        """Prepare to go out on another connection."""
        super().restart()
        self.done = False
        self.pieces.clear()
        self.size = self._folded = 0
        self._check_size_at = 0.0
        self._read_mark = None

    # libcurl's callbacks: they do not raise, but store the error in `failed`

    def _on_lookup(self) -> int:
        """Run before libcurl would look up a name or parse an address; 1 ends the attempt."""
        try:
            if self.attached is None or not self.attached.look_up(self):
                return 0
            self.handle.mark_log()
            self.restarts = True
        except BaseException as error:
            self.failed = unwrap_callback_error(error)
        return 1

    def _note_connection(self, route: Route) -> Connection | None:
        connection = super()._note_connection(route)
        if connection is not None and connection.counts_bytes and self.attached is not None:
            self.attached.unanswered[connection.descriptor] = connection
        return connection

    def _on_header(self, line: bytes) -> int | None:
        """Collect a header line of a streamed response, and notice the end of its head."""
        lines, request = self.lines, self.request
        assert request is not None
        lines.append(line)
        self.last_activity = monotonic()
        if line in ENDS and self.head is None:
            if not self.may_be_response(0, ends=False):
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

    def _on_body(self, piece: bytes) -> int | None:
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

    def _on_piece(self, piece: bytes) -> int | None:
        """Collect a piece of a streamed body, or pause the transfer."""
        if self.head is None:
            # libcurl treats any line that begins with CR as the end of a head. A caller that waits
            # for the head would wait forever once the pieces pause the transfer.
            assert self.request is not None
            self.failed = head_error(self.lines, self.request)
            return 0
        size = self.size + len(piece)
        self.last_activity = monotonic()
        if size > self._check_size_at and self._is_enough(piece, size):
            return 0
        if self._unread >= _PAUSE_AT or len(self.pieces) - self._folded >= MANY:
            if not self.feeds_in_task:  # otherwise both sides would wait
                self.paused = True
                return _PAUSE
            self._fold()
        self._unread += len(piece)
        self.pieces.append(piece)
        self.size = size
        self.bytes_received += len(piece)
        self._wake()
        return None

    def _on_limited(self, piece: bytes) -> int | None:
        """Collect a piece of a body with a maximum rate, or pause until its time has come.

        CURLOPT_MAX_RECV_SPEED_LARGE allows the bytes of a second at once (libcurl 8.23), and again
        after each pause of a transfer whose reader or turn needs one.
        """
        request, now = self.request, monotonic()
        assert request is not None
        assert self.attached is not None
        if now < self._limited_until:
            self.paused = True
            self.attached.resume_at(self, self._limited_until)
            return _PAUSE
        result = self._on_piece(piece) if request.stream else self._on_body(piece)
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

    def _check_body(self, piece: bytes, size: int) -> int | None:
        """Check a body at some of its pieces; return the value for libcurl, None to continue.

        Millions of small pieces would take a multiple of their memory, and would keep the loop
        busy while more come in. So they are joined, and libcurl is paused until the next turn:
        then it delivers what it has read in large pieces.
        """
        if self._is_enough(piece, size):
            return 0  # any number but the length ends the transfer with E_WRITE_ERROR
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

    def _is_enough(self, piece: bytes, size: int) -> bool:
        """Return whether a body that needs a check must end here; otherwise set the next check."""
        if size - len(piece) <= _FIRST_CHECK:
            self._max_size = self._get_max_size()
        most = self._check_size_at = self._max_size
        if size <= most:
            return False
        self.bytes_received += len(piece)
        if self._is_unwanted():
            self.is_cut_short = self.handle.is_dirty = True
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

    def ends_by_framing(self) -> bool:
        """Return whether the attempt must end, because of framing that libcurl does not report.

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
            self._read_mark = (0, 0) if self.is_new_connection else (read, self.size)
            self.handle.is_dirty = True  # so that it is reset for the next request
        size = self.size - self._read_mark[1]
        if read - self._read_mark[0] - size <= most + _UNDELIVERED + _FRAMING_PER_BYTE * size:
            return False
        if self._is_unwanted():
            self.is_cut_short = True
        else:
            self.failed = endless_framing_error(request)
        return True

    def _is_unwanted(self) -> bool:
        """Return whether it is the body of a redirect that is followed."""
        request = self.request
        assert request is not None
        head = self.head if request.stream else parse_response_head(self.lines, request)
        return request.follow_redirects and head is not None and head.redirects

    # the response

    def read_pieces(self) -> bytes:
        """Return the received part of a streamed body, b"" for none."""
        taken = b"".join(self.pieces)
        self.pieces.clear()
        self._unread = self._folded = 0
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
        if route is None or self.is_new_connection:
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
        # The state that every attempt changes, also that of the base class: one function for all.
        self.request = self.failed = self.wake = self.route = self.connection = self.head = None
        self.restarts = self.is_new_connection = self._connecting = self.done = self.paused = False
        self.code = self.sends = self.size = self._unread = 0
        self.queue_seconds = 0.0
        # Most bodies are smaller, and need no check of their head or pieces.
        self._check_size_at = _FIRST_CHECK
        self.lines.clear()
        self.pieces.clear()

    def _close_body(self) -> None:
        request = self.request
        if self.feed is not None and request is not None and request.body is not None:
            with suppress(Exception):  # nothing is lost of a file that was only read
                request.body.close()

    def _count_sent(self) -> None:
        if self.feed is not None and self.request is not None:
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


# --- How many connections an engine has open, and how many of them are in use ---

Counts: TypeAlias = "Counter[tuple[str, bool]]"
"""Numbers of connections by their origin, and by whether they are in use."""


def tell_state(
    known: Iterable[OpenConnections], active: Iterable[Transfer], waits: list[float]
) -> EngineState:
    """Return what an engine tells of itself; may be called from any thread.

    Args:
        known: the connections of the engine.
        active: transfers that are not idle.
        waits: seconds that each waiting request has waited.
    """
    used = {id(transfer.connection) for transfer in active}
    every = {id(each): each for connections in known for each in connections.open()}
    counts = Counter((each.origin, each.protocol, number in used) for number, each in every.items())
    return EngineState(counts, waits)


def count_connections(known: Iterable[OpenConnections], active: Iterable[Transfer]) -> Counts:
    """Return how many connections are open; may be called from any thread.

    Args:
        known: the connections of the engine.
        active: transfers that are not idle.
    """
    used = {id(transfer.connection) for transfer in active}
    every = {id(each): each for connections in known for each in connections.open()}
    return Counter((each.origin, number in used) for number, each in every.items())


# --- Keep a forked child from using or closing the connections of its parent ---
#
# A child that uses them gets the parent's responses; one that closes or garbage-collects them
# ends the parent's TLS sessions. So each handle gets a reference that is never released, and the
# engines start with new handles.


def leak(*handles: object) -> None:
    """Keep pycurl objects from being freed, also when the interpreter exits.

    Args:
        handles: pycurl objects, or objects that hold some; None is ignored.
    """
    import ctypes  # only forked children need it

    for handle in handles:
        if handle is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def leak_transfer(transfer: Transfer) -> None:
    """Leave a transfer to the parent process; reading its response here raises."""
    # The transfer as well, because the callbacks of the handle must not be freed before it.
    driver = transfer.driver
    leak(transfer, transfer.easy, driver, None if driver is None else driver.multi)
    transfer.attached, transfer.totals = None, Totals()  # the parent counts it
    transfer.done = True
    transfer.failed = ConnectionError(
        "this response belongs to the process that this one was forked from"
    )
