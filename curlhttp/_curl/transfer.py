"""A pooled easy handle, what is set on it, and the attempt that it carries out.

Setting all options anew costs a quarter of a small request, so a handle remembers and sets what
differs. Its callbacks do not raise, since that breaks all other transfers of a curl_multi. They
store what went wrong in `failed`, and whoever runs the transfer raises it.
"""

from __future__ import annotations

import math
import os
import re
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

import pycurl

from curlhttp._config import Limits, Timeout, Transport
from curlhttp._curl.connections import Connection, Connections, Route
from curlhttp._curl.errors import (
    HTTP2_STREAM,
    NOT_HTTP,
    Failure,
    error_for,
    raised_in_callback,
)
from curlhttp._curl.head import ENDS, contradicts, final_head, is_final, is_odd
from curlhttp._curl.options import (
    base_options,
    body_headers,
    connect_ms,
    limit_options,
    transport_options,
)
from curlhttp._engine import DRAINED
from curlhttp._models.decoders import codings, decode
from curlhttp._models.head import Head
from curlhttp._models.parts import MANY, fold
from curlhttp._models.request import IDEMPOTENT, Request
from curlhttp._models.response import Response
from curlhttp._models.timings import MICROSECOND, ReusedTimes, Timings, times_of_reused
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ReadTimeout,
    RemoteProtocolError,
    RequestException,
    ResponseTooLarge,
    UnrewindableBodyError,
)

__all__ = ["Transfer", "may_multiplex"]

_PAUSE_AT = 256 * 1024  # bytes a streamed body may be ahead of its reader
_LOOK_AT = 16 * 1024  # bytes of a body before the first look at its pieces
_LOOK_EVERY = 128 * 1024  # bytes from one look to the next
_SHORTEST_HEAD = len(b"HTTP/1.1 200\n\n")
_END = b"\r\n"
_ANNOUNCES_NO_BODY = ("PATCH", "POST", "PUT")  # with Content-Length: 0 (RFC 9110, section 8.6)
_NEVER = math.inf
_UNSENT = rb"proxy-authorization|content-length|transfer-encoding"
_SECRET = re.compile(rb"(?:authorization|cookie|%b)\s*[:;]" % _UNSENT, re.IGNORECASE).match
_NOT_OURS = re.compile(rb"(?:%b)\s*[:;]" % _UNSENT, re.IGNORECASE).match
_REFUSED = re.compile(rb"HTTP/[23] stream \d+ refused by server").match  # of libcurl's log
_GOAWAY = re.compile(rb"received GOAWAY, error=\d+, last_stream=(\d+)").match
_RESET_BY_US = re.compile(r"HTTP/2 stream (\d+) reset by curl").match  # of its messages
_SHARED_DETOURS, _MOST_DETOURS = 3, 6
_UNWATCHED = 0.25  # seconds in which no read timeout can end; the shortest here is 1 s
_LAST_DATA_RECV = 52  # offset in struct tcp_info (linux/tcp.h)
# What every response asks for, without a look-up in a module.
_STARTTRANSFER_TIME_T = pycurl.STARTTRANSFER_TIME_T
_TOTAL_TIME_T = pycurl.TOTAL_TIME_T
# With these libcurl gives up what was refused: our guard, no way to rewind, or five tries; or
# GOAWAY gave an error, which libcurl (8.23) takes for one of each stream.
_AFTER_REFUSAL = (
    HTTP2_STREAM,
    pycurl.E_ABORTED_BY_CALLBACK,
    pycurl.E_SEND_FAIL_REWIND,
    pycurl.E_SEND_ERROR,
    pycurl.E_RECV_ERROR,
)
_TEXT = int(pycurl.INFOTYPE_TEXT)
_OK, _ABORT = int(pycurl.PREREQFUNC_OK), int(pycurl.PREREQFUNC_ABORT)
_PAUSE = int(pycurl.WRITEFUNC_PAUSE)


class Transfer:
    """Carry out one attempt at a time on one easy handle.

    Args:
        limits: the client's limits.
        share: a pycurl.CurlShare, or None.

    Attributes:
        easy: the handle.
        lines: the header lines of all heads and trailers so far.
        pieces: the body that was received and not taken yet.
        failed: the exception that a callback had to keep.
        done: libcurl is finished with the attempt; `code` and `message` say how.
        watches: the driver's queue of read timeouts that it is or was in, or None.
        wake: what to call when a waiting caller has something to look at, or None.
        sends: how often it was sent, or about to be.
        sends_once: the request must not go out a second time by itself.
        restarts: it has to go out on another connection: the one that it got is dead or not clean,
            or the server processed nothing of it.
        detours: how often that was so. At first all that a GOAWAY left out share a new connection,
            later each gets its own; then it is given up.
        is_second: it may have been processed once already, and goes out once more.
        attached: the driver that it runs on, or None.
        connections: what is known of those that it may get; set before it runs.
        connection: the one that it went out on last, if it is known.
        pumps: the caller's task is busy with the request's body, and cannot read the response.
        driver: the blocking engine's driver of this one transfer, or None.
        performs: easy.perform runs in a thread of its own, which closes the handle if it
            is_dropped meanwhile.
        idle: seconds from the last sign of life of the attempt before to this one.
        multiplexes: the connection may be shared with others.
        stamp: the monotonic time of the last sign of life, for the read timeout.
    """

    __slots__ = (
        "_buries",
        "_connect_ms",
        "_connecting",
        "_custom",
        "_fresh",
        "_has_body",
        "_heard",
        "_limits",
        "_lines_set",
        "_listens",
        "_log",  # what libcurl's log told: "refused", "downgrades", or nothing
        "_method",
        "_odd",
        "_opened",
        "_progresses",
        "_route",
        "_secret",
        "_timeout",
        "_timeout_ms",
        "_transport",
        "_turn",
        "_url",
        "_waits",
        "attached",
        "buffered",
        "code",
        "connection",
        "connections",
        "detours",
        "done",
        "driver",
        "easy",
        "enough",
        "failed",
        "feed",
        "folded",
        "head",
        "idle",
        "is_dropped",
        "is_second",
        "key",
        "limit",
        "lines",
        "mark",
        "message",
        "most",
        "multiplexes",
        "origin",
        "paused",
        "performs",
        "pieces",
        "pumps",
        "queued",
        "recheck",
        "released",
        "request",
        "restarts",
        "sends",
        "sends_once",
        "size",
        "sockets",
        "stamp",
        "starving",
        "unwatched",
        "wake",
        "watches",
    )

    def __init__(self, limits: Limits, share: Any = None, *, watches_progress: bool = False):
        self.easy = pycurl.Curl()
        self.lines: list[bytes] = []
        self.pieces: list[bytes] = []
        self.sockets: list[int] = []  # of the connection, or of its happy eyeballs
        self._limits = limits
        self._progresses = watches_progress
        self.key: Any = None
        self.driver: Any = None
        self.origin = ""
        self.attached: Any = None
        self.watches: Any = None
        self.recheck = 0.0
        self.performs = self.is_dropped = False
        self.released = 0
        self.stamp = 0.0
        self.multiplexes = False
        self.connections: Connections
        self.connection: Connection | None = None
        self._forget()
        if share is not None:
            self.easy.setopt(pycurl.SHARE, share)  # survives reset()
        self._set_base()

    def _forget(self) -> None:
        """Be as if there had been no attempt."""
        self.request: Request | None = None
        self.failed: BaseException | None = None
        self.done = self.enough = self.paused = self.starving = self.pumps = False
        self.restarts = self.is_second = self._connecting = self._opened = False
        self.code = self.size = self.buffered = self.sends = self.folded = self.detours = 0
        self.most = 0.0
        self.message = self._log = ""
        self.head: Head | None = None
        # A body below this needs no look at its head or its pieces: most are.
        self.limit: float = _LOOK_AT
        self.wake: Callable[[], None] | None = None
        self.feed: Callable[[int], bytes | None] | None = None
        self.queued = 0.0
        self.mark: Any = None
        self._route: Route | None = None

    # what is set

    def _set_base(self) -> None:
        easy = self.easy
        self._url = ""
        self._method = "GET"
        self._custom = ""  # CURLOPT_CUSTOMREQUEST
        self._lines_set: list[bytes] | None = None
        self._transport: Transport | None = None
        self._timeout: Timeout | None = None
        self._connect_ms = self._timeout_ms = 0
        self._buries = self._fresh = self._odd = self._secret = self._has_body = self._waits = False
        self._listens = False
        self._heard: Callable[[str, bool], None] | None = None
        for option, value in (*base_options(), *limit_options(self._limits)):
            self._set(option, value)
        easy.setopt(pycurl.HEADERFUNCTION, self.lines.append)
        easy.setopt(pycurl.WRITEFUNCTION, self._on_body)
        easy.setopt(pycurl.PREREQFUNCTION, self._on_send)
        easy.setopt(pycurl.SOCKOPTFUNCTION, self._on_socket)
        if self._progresses:
            easy.setopt(pycurl.NOPROGRESS, 0)
            easy.setopt(pycurl.XFERINFOFUNCTION, self._on_progress)

    def _set(self, option: int, value: Any) -> None:
        if value is None:
            self.easy.unsetopt(option)
        else:
            self.easy.setopt(option, value)

    def prepare(self, request: Request) -> None:
        """Set what the request needs and is not set yet.

        Args:
            request: complete; its deadline, if any, becomes CURLOPT_TIMEOUT_MS.
        """
        self.request = request
        easy = self.easy
        transport = request.transport
        if transport is not self._transport and transport != self._transport:
            self._use(transport)
        url = request.url.wire
        if url != self._url:
            easy.setopt(pycurl.URL, url)
            self._url = url
            self.multiplexes = may_multiplex(request)
            self.wait_to_share(self.multiplexes)
        body = request.body
        if body is not None or request.method != self._method or self._has_body:
            self._set_method(request)
        lines = request.header_lines()
        if body is not None or request.method in _ANNOUNCES_NO_BODY:
            lines = body_headers(lines)
        if lines is not self._lines_set:
            self._secret = any(map(_SECRET, lines))
            self._lines_set = lines
            if self._secret:
                # A proxy's credentials would go to the origin: proxies= is the place for them.
                # Framing is libcurl's, which knows the body: two lengths mean two messages. It
                # leaves a right one where it stands.
                framing = _framing(request)
                lines = [line for line in lines if not _NOT_OURS(line) or line.lower() == framing]
            if request.get_header("accept") is None:
                lines = [*lines, b"Accept:"]  # libcurl would add one
            easy.setopt(pycurl.HTTPHEADER, lines)
        if request.timeout is not self._timeout:
            self._set_connect_timeout(request.timeout)
        if request.deadline is not None or self._timeout_ms:
            self.set_deadline(request.deadline)
        if request.stream:
            self._set_streaming()
        if request.max_response_size is not None:
            self.limit = min(request.max_response_size, _LOOK_AT)
        self.sends_once = request.method not in IDEMPOTENT or (
            body is not None and body.data is None
        )
        if self.sends_once and self.multiplexes and self._progresses:
            self.listen()  # else the driver knows better whether there is HTTP/2 to listen to
        now = monotonic()
        self.idle = now - self.stamp
        self.stamp = now
        self.unwatched = now + _UNWATCHED

    def _use(self, transport: Transport) -> None:
        if self._transport is not None:
            self.easy.reset()
            self._set_base()
        for option, value in transport_options(transport):
            self._set(option, value)
        self._transport = transport
        # Credentials must not outlive their request on a handle (curl's advisories of 2026 are
        # full of state that did).
        proxy = transport.proxy
        self._odd = transport.tls.cert is not None or (
            proxy is not None and (proxy.username is not None or bool(proxy.headers))
        )

    def _set_method(self, request: Request) -> None:
        easy, method, body = self.easy, request.method, request.body
        if self._method == "HEAD":
            easy.setopt(pycurl.NOBODY, 0)
        if method == "HEAD":
            easy.setopt(pycurl.NOBODY, 1)
            implied = "HEAD"
        elif body is None and method not in _ANNOUNCES_NO_BODY:
            easy.setopt(pycurl.HTTPGET, 1)
            implied = "GET"
        elif body is None or body.data is not None:
            easy.setopt(pycurl.POSTFIELDS, b"" if body is None else body.data)
            implied = "POST"
        else:
            self._set_upload(request)
            implied = "PUT"
        custom = "" if method == implied else method
        if custom != self._custom:
            self._set(pycurl.CUSTOMREQUEST, custom or None)
            self._custom = custom
        self._method = method
        self._has_body = body is not None

    def _set_upload(self, request: Request) -> None:
        body, easy = request.body, self.easy
        assert body is not None
        self._odd = True
        easy.setopt(pycurl.UPLOAD, 1)
        easy.setopt(pycurl.INFILESIZE_LARGE, -1 if body.length is None else body.length)
        easy.setopt(pycurl.READFUNCTION, self._on_read)
        self.feed = body.read

    def _set_connect_timeout(self, timeout: Timeout) -> None:
        limit = connect_ms(timeout)
        if limit != self._connect_ms:
            self.easy.setopt(pycurl.CONNECTTIMEOUT_MS, limit)
            self._connect_ms = limit
        self._timeout = timeout

    def set_deadline(self, deadline: float | None) -> None:
        """Have libcurl give up at a monotonic time (CURLOPT_TIMEOUT_MS), or never."""
        left = 0 if deadline is None else max(1, math.ceil((deadline - monotonic()) * 1000))
        self.easy.setopt(pycurl.TIMEOUT_MS, left)
        self._timeout_ms = left

    def _set_streaming(self) -> None:
        self.easy.setopt(pycurl.HEADERFUNCTION, self._on_header)
        self.easy.setopt(pycurl.WRITEFUNCTION, self._on_piece)
        self.easy.setopt(pycurl.OPT_CERTINFO, 1)
        self._odd = True

    def wait_to_share(self, waits: bool) -> None:
        """Wait for a connection that may be shared, or open another one (CURLOPT_PIPEWAIT)."""
        if waits is not self._waits:
            self.easy.setopt(pycurl.PIPEWAIT, int(waits))
            self._waits = waits

    def listen(self, heard: Callable[[str, bool], None] | None = None) -> None:
        """Read in libcurl's log what it tells in no other way; costs 10 us for each request.

        Whether the server refused a request is read there, or asked for HTTP/1.1, which says that
        it processed none of it. When a connection breaks, libcurl sends again likewise.

        Args:
            heard: called with the origin and whether its connections can be shared, when a new
                connection on TLS tells what it speaks.
        """
        self._heard = heard
        self.easy.setopt(pycurl.VERBOSE, 1)
        self.easy.setopt(pycurl.DEBUGFUNCTION, self._on_log)
        self._listens = True

    def _on_log(self, kind: int, text: bytes) -> None:
        if kind != _TEXT or text[:1] == b"[":  # 25 lines a request, many "[HTTP/2] [1] [...]"
            return
        start = text[:6]
        if start == b"HTTP/2" or start == b"HTTP/3":
            # REFUSED_STREAM, or a GOAWAY that leaves the stream out (RFC 9113, section 8.7).
            if _REFUSED(text) and not self.lines:
                self._log = "refused"
        elif start == b"receiv":
            found = _GOAWAY(text)
            if found is not None and self.sends and self.connection is not None:
                self.connection.last_stream = int(found[1])
        elif start == b"Downgr":
            # "... to HTTP/1.1": HTTP_1_1_REQUIRED (RFC 9113, section 7).
            self._log = "downgrades"
        elif text.startswith(b"ALPN: server ") and self._heard is not None:
            assert self.request is not None
            is_http1 = b"accepted http/1" in text or b"did not agree" in text
            self._heard(self.request.url.origin, not is_http1)

    @property
    def was_sent(self) -> bool:
        """Return whether the server may have seen the request."""
        return self.sends > 0 or self.is_second

    @property
    def is_waiting(self) -> bool:
        """Return whether it neither was sent nor has begun to connect."""
        return not self.sends and not self._connecting

    def restart(self) -> None:
        """Make ready to go out on another connection."""
        assert self.request is not None
        self.restarts = self.done = self._opened = False
        self.stamp = monotonic()
        needs_own = not self.shares or (self._progresses and not self.sends)
        if self._buries:
            self._end_burial()
        elif not self.sends or self._was_left_out():
            self.detours += 1
        else:
            self.is_second = True
        self.avoid_reuse(needs_own or self.detours > _SHARED_DETOURS)
        if self.shares:
            self.listen(self._heard)
        self.sends, self.code, self._log = 0, 0, ""
        self.lines.clear()
        self.pieces.clear()
        self.size = self.folded = 0
        self.most = self.limit = 0.0
        if self.request.deadline is not None:
            self.set_deadline(self.request.deadline)

    def bury(self) -> None:
        """Have libcurl close the idle connection that it picks next; nothing is sent on it.

        One that has ended would be offered to each request until libcurl's own look at it.
        """
        self._buries = self._odd = True
        self.avoid_reuse(False)
        self.easy.setopt(pycurl.FORBID_REUSE, 1)
        self.easy.setopt(pycurl.PREREQFUNCTION, self._on_burial)

    def _on_burial(self, *route: Any) -> int:
        self.restarts = True
        return _ABORT

    def _end_burial(self) -> None:
        self._buries = False
        self.easy.setopt(pycurl.FORBID_REUSE, int(self._limits.max_keepalive_connections == 0))
        self.easy.setopt(pycurl.PREREQFUNCTION, self._on_send)

    @property
    def shares(self) -> bool:
        """Return whether the connection that it went out on last is of HTTP/2 or HTTP/3."""
        connection = self.connection
        return self.multiplexes if connection is None else connection.multiplexes

    def avoid_reuse(self, avoids: bool) -> None:
        """Make the attempt open a connection of its own, or not (CURLOPT_FRESH_CONNECT)."""
        if avoids is not self._fresh:
            self.easy.setopt(pycurl.FRESH_CONNECT, int(avoids))
            self._fresh = avoids

    # the callbacks

    def _on_socket(self, descriptor: int, purpose: int) -> int:
        if not self._connecting:
            self._connecting = self._opened = True
            self.sockets.clear()
        self.sockets.append(descriptor)
        assert self._transport is not None
        return _set_socket_options(descriptor, self._transport.socket_options)

    def _on_send(self, *route: Any) -> int:
        """Run when a connection is there, just before the request goes out on it.

        libcurl silently sends again when a kept-alive connection turns out to be dead. Once is
        fine for an idempotent request; a second POST must never happen (CURLOPT_PREREQFUNCTION
        is the only way to stop it).
        """
        self._route = route
        self.stamp = monotonic()
        if self.sends and not self._may_go_again():
            self.sends += 1
            if self._connecting:
                self._note_connection(route)  # others may get it
            return _ABORT
        if self._connecting:
            connection = self.connection = self._note_connection(route)
        else:
            connection = self.connections.find_clean(route, self.request)
            if connection is None:
                self.connection = self.connections.find(route)
                self.restarts = True  # nothing of the request has left
                return _ABORT
            self.connection = connection
        if connection is not None and connection.counts:
            self._turn = connection.uses = connection.uses + 1
        self.sends += 1
        return _OK

    def _note_connection(self, route: Route) -> Connection | None:
        self._connecting = False
        assert self.request is not None
        return self.connections.add(
            route, self.sockets, multiplexes=self.multiplexes, is_tls=_is_on_tls(self.request)
        )

    def _may_go_again(self) -> bool:
        """Return whether libcurl may send again by itself, as it is about to."""
        if self._log == "downgrades":
            return self.sends == 1
        if self.sends_once or self.is_second or self.sends > 1:
            return False
        if self.shares or not self._connecting:
            # After a restart of the server all kept-alive connections are dead, and libcurl
            # would try one after the other. On HTTP/2 it does not say why, unless it is listened
            # to; so the request begins again and listens.
            self.restarts = self._log != "refused"  # else see goes_elsewhere
            return False
        return True

    def _on_header(self, line: bytes) -> int | None:
        """Collect a header line of a streamed response, and notice the end of its head."""
        lines = self.lines
        lines.append(line)
        self.stamp = monotonic()
        if line in ENDS and self.head is None:
            if not self._may_be_answer(ends=False):
                self._disown_answer()
                return 0  # anything but the length ends the transfer, with E_WRITE_ERROR
            head = Head(b"".join(lines))
            if is_final(head) and not self._is_unasked(head):
                self.head = head
                self._wake()
            elif not head.status_code or self._is_unasked(head):
                self.failed = self.no_head()
                return 0  # libcurl closes the connection
            else:
                lines.clear()
        return None

    def _on_body(self, piece: bytes) -> int | None:
        size = self.size = self.size + len(piece)
        self.stamp = monotonic()
        if size > self.limit:
            answer = self._look(piece, size)
            if answer is not None:
                return answer
        self.pieces.append(piece)
        return None

    def _on_piece(self, piece: bytes) -> int | None:
        """Collect a piece of a streamed body, or let it wait."""
        if self.head is None:
            # libcurl takes any line that begins with CR for the end of a head. Whoever waits for
            # the head would wait for ever, once the pieces before it pause the transfer.
            self.failed = self.no_head()
            return 0
        size = self.size + len(piece)
        self.stamp = monotonic()
        if size > self.limit and self._is_enough(piece, size):
            return 0
        if self.buffered >= _PAUSE_AT or len(self.pieces) - self.folded >= MANY:
            if not self.pumps:  # else both sides would wait
                self.paused = True
                return _PAUSE
            self.folded = fold(self.pieces, self.folded)
        self.buffered += len(piece)
        self.pieces.append(piece)
        self.size = size
        self._wake()
        return None

    def _look(self, piece: bytes, size: int) -> int | None:
        """Look at a body at some of its pieces; return what to tell libcurl, None to go on.

        Millions of small pieces would take a multiple of their memory, and the loop's time for as
        long as more come in. So they are joined, and libcurl is stopped until the next turn: what
        it has read by then it gives in large pieces.
        """
        if self._is_enough(piece, size):
            return 0  # anything but the length ends the transfer, with E_WRITE_ERROR
        is_many = len(self.pieces) - self.folded >= MANY
        if is_many:
            self.folded = fold(self.pieces, self.folded)
        # Where there were small pieces, more are to be expected.
        self.limit = min(self.limit, size + (2 * MANY if self.folded else _LOOK_EVERY))
        if is_many and self.attached is not None:
            self.size = size - len(piece)  # it comes again
            self.paused = True
            self.attached.resume_soon(self)
            return _PAUSE
        return None

    def _is_enough(self, piece: bytes, size: int) -> bool:
        """Return whether a body that exceeds the limit so far must end here, or raise the limit."""
        most = self.most = self.most or self._find_most()
        self.limit = most
        if size <= most:
            return False
        if self._is_unwanted():
            self.enough = True
            self.pieces.append(piece[: len(piece) - (size - DRAINED)])
        else:
            self.failed = self._too_large()
        return True

    def _find_most(self) -> float:
        """Return how many bytes the body may have."""
        assert self.request is not None
        if self._is_unwanted():
            return DRAINED
        most = self.request.max_response_size
        return _NEVER if most is None else most

    def _is_unwanted(self) -> bool:
        """Return whether the body is that of a redirect, which is followed."""
        request = self.request
        assert request is not None
        head = self.head if request.stream else self._read_head()
        return request.follow_redirects and head is not None and head.redirects

    def _on_read(self, size: int) -> bytes | int:
        feed = self.feed
        if feed is None:
            return int(pycurl.READFUNC_ABORT)
        self.stamp = monotonic()
        try:
            piece = feed(size)
        except BaseException as error:
            self.failed = raised_in_callback(error)
            return int(pycurl.READFUNC_ABORT)
        if piece is None:
            self.starving = True
            self._wake()
            return int(pycurl.READFUNC_PAUSE)
        return piece

    def _on_progress(self, down_total: int, down: int, up_total: int, up: int) -> int:
        """Keep the read timeout where no loop of ours runs, and let Ctrl-C in.

        libcurl calls at each event and once a second of silence.
        """
        now = monotonic()
        if now < self.unwatched:
            return 0  # ten calls a request: what they cost counts
        if self.is_dropped:
            return 1
        if self.switches_unasked():
            self.failed = self.no_head()
            return 1
        mark = down + up + len(self.lines)
        if self.mark is None:
            self.mark = mark
            self.stamp = max(self.stamp, now - self._wire_silence())
        elif mark != self.mark:
            self.mark = mark
            self.stamp = now
        elif self.sends:
            request = self.request
            assert request is not None
            if request.timeout.read is not None:
                return self._check_silence(request.timeout.read, up_total > up)
        return 0

    def _check_silence(self, limit: float, uploads: bool) -> int:
        left = self.stamp + limit - monotonic()
        if left < 1.05 and not self.size:
            left = max(left, limit - self._wire_silence())
        if left > 1.05:  # seconds; there will be another call before
            return 0
        if left > 0 and self._becomes_ready(left, uploads):
            return 0
        self.failed = self.silence()
        return 1

    def _wire_silence(self) -> float:
        """Return the seconds since a byte came: libcurl tells of header lines when they end."""
        assert self.request is not None
        if may_multiplex(self.request) and not self.lines:
            return math.inf  # it may have been of another stream
        return min(map(_seconds_since_data, self.sockets), default=math.inf)

    def _becomes_ready(self, seconds: float, uploads: bool) -> bool:
        """Wait for the socket in libcurl's stead, for an exact end."""
        from select import POLLIN, POLLNVAL, POLLOUT, poll

        poller = poll()
        for descriptor in self.sockets:
            poller.register(descriptor, POLLIN | (POLLOUT if uploads else 0))
        return any(not event & POLLNVAL for _, event in poller.poll(math.ceil(seconds * 1000)))

    def _wake(self) -> None:
        if self.wake is not None:
            self.wake()

    # what came of it

    def _read_head(self) -> Head | None:
        """Return the final head if it is complete, or None; libcurl takes a cut one for whole."""
        lines = self.lines
        if lines.count(_END) == 1 and lines[-1] == _END:
            head = Head(b"".join(lines))
            if head.status_code >= 200:
                return head
        whole = final_head(lines)
        return None if whole is not None and self._is_unasked(whole) else whole

    def finish(self, code: int, message: str) -> None:
        """Take down how it ended, at once: then its connection may be another's.

        Args:
            code: libcurl's, 0 for success.
            message: libcurl's words for it.
        """
        self.code, self.message = code, message
        if code:
            if self.failed is None and self.switches_unasked():
                self.failed = self.no_head()
            elif not self.is_pumped:
                self.restarts = self.restarts or self.goes_elsewhere() or self._may_be_left_out()
            return
        connection = self.connection
        if connection is not None:
            if connection.multiplexes and self.lines:
                connection.multiplexes = not self.lines[0].startswith(b"HTTP/1")
            if connection.counts and not self._may_be_answer(ends=True):
                self._disown_answer()
                return
        head = self.conclude()
        if head is None or ("\ntransfer-encoding:" in head.lower and head.is_framed_twice):
            # Another recipient may see the end of the body elsewhere (RFC 9112, section 6.3).
            self.connections.spoil(self._route)

    @property
    def is_pumped(self) -> bool:
        """Return whether a task of ours reads the body, which libcurl gets piece by piece."""
        body = None if self.request is None else self.request.body
        return self.feed is not None and body is not None and self.feed != body.read

    def goes_elsewhere(self) -> bool:
        """Return whether it may go out once more, as nothing was processed; rewind its body."""
        if not self._was_left_out() or self.detours >= _MOST_DETOURS:
            return False
        return self.failed is None and self._rewinds()

    def _was_left_out(self) -> bool:
        """Return whether it is certain that the server processed nothing of what was sent."""
        if self.code == pycurl.E_HTTP2:  # the server had broken HTTP/2: nothing was sent any more
            return self.sends == 1 and not self.easy.getinfo(pycurl.REQUEST_SIZE)
        return self.code in _AFTER_REFUSAL and self._is_refused()

    def _is_refused(self) -> bool:
        """Return whether the server says so (RFC 9113, section 8.7)."""
        stream, connection = self._stream_reset(), self.connection
        if stream and connection is not None and stream > connection.last_stream:
            return True
        return self._log == "refused"

    def _may_be_left_out(self) -> bool:
        """Return whether the server may have said so, of a request that it may see twice."""
        if self.sends_once or self.is_second or self.lines:
            return False
        # It may have done so just before the connection broke, which was there already.
        is_broken = self.code == pycurl.E_SEND_ERROR and self.shares and not self._opened
        return is_broken or self._stream_reset() > 0

    def _stream_reset(self) -> int:
        """Return the number of a stream that libcurl has ended, 0 for none.

        It does so with those that a GOAWAY leaves out which has an error.
        """
        found = _RESET_BY_US(self.message) if self.code == HTTP2_STREAM else None
        return 0 if found is None or self.lines else int(found[1])

    def _rewinds(self) -> bool:
        body = None if self.request is None else self.request.body
        if body is None:
            return True
        try:
            body.rewind()
        except UnrewindableBodyError:
            return False
        except Exception as error:  # the caller's own
            self.failed = error
            return False
        return True

    def _may_be_answer(self, *, ends: bool) -> bool:
        connection, size = self.connection, _SHORTEST_HEAD + self.size
        if connection is None or not connection.counts:
            return True
        return connection.count(self._turn, size, ends=ends)

    def _disown_answer(self) -> None:
        """Refuse an answer that was there before its request: it is that to another one."""
        assert self.request is not None
        self.connections.distrust(self._route, self.request)
        if self.sends_once or self.is_second or self.head is not None:
            self.failed = self._early_answer()
        else:
            self.restarts = True

    def _early_answer(self) -> RemoteProtocolError:
        request = self.request
        assert request is not None
        return RemoteProtocolError(
            f"{request}: the server had sent the answer before the request, "
            "so that it cannot be the answer to it; the request may have been processed",
            request=request,
            curl_code=0,
            request_sent=True,
        )

    def status(self) -> int:
        """Return the status of the final answer so far, 0 while there is none."""
        head = self.head or self._read_head()
        return head.status_code if head is not None else 0

    def response(self) -> Response:
        """Return the response of a buffered attempt, and forget it.

        Raises:
            RequestException: the attempt failed.
        """
        request = self.request
        assert request is not None
        if self.failed is not None or self.code:
            self.raise_failure()
        head = self.head or self.final_head()
        content = b"".join(self.pieces)  # of one piece, that piece itself
        response = Response(request, head, content, self._times())
        if "\ncontent-encoding" in head.lower and request.decode and content:
            self._decode(response, request)
        return response

    def _decode(self, response: Response, request: Request) -> None:
        if request.follow_redirects and response._head.redirects:
            return
        assert response._content is not None
        try:
            coded = codings(response.headers.get_list("content-encoding"))
            if coded:
                response._content = decode(response._content, coded, request.max_response_size)
        except RequestException as error:
            error.request, error.response = request, response
            error.request_sent, error.timings = True, response.timings
            raise

    def raise_failure(self) -> None:
        """Raise what the attempt failed with, if it did.

        Raises:
            RequestException: libcurl, the peer or a limit ended the attempt.
            BaseException: what the caller's own body raised.
        """
        failed = self.failed
        if failed is not None:
            if isinstance(failed, RequestException) and failed.timings is None:
                failed.request, failed.timings = self.request, self.timings()
                failed.response = self._so_far()
                failed.request_sent = failed.request_sent or self.was_sent
            raise failed
        if self.code and not self.enough:
            raise self.error()

    def _so_far(self) -> Response | None:
        """Return what a buffered attempt got before it failed, if that has a head."""
        request, head = self.request, self._read_head()
        assert request is not None
        if head is None or head.status_code < 200 or request.stream:
            return None
        return Response(request, head, b"".join(self.pieces), self.timings())

    def error(self) -> RequestException:
        """Return the exception for libcurl's code."""
        request, easy = self.request, self.easy
        assert request is not None
        error = error_for(
            Failure(
                request=request,
                code=self.code,
                message=self.message,
                sent=easy.getinfo(pycurl.REQUEST_SIZE) > 0 or self.is_second,
                has_head=self._read_head() is not None,
                is_odd=is_odd(self.lines),
                os_errno=easy.getinfo(pycurl.OS_ERRNO),
                connect_code=easy.getinfo(pycurl.HTTP_CONNECTCODE),
                timings=self.timings(),
                deadline_passed=request.is_late(monotonic()),
                aborted_resend=self.code == pycurl.E_ABORTED_BY_CALLBACK and self.sends > 1,
                refused=self._is_refused() and not self.is_second,
            )
        )
        error.response = self._so_far()
        return error

    def silence(self) -> ReadTimeout:
        """Return the exception for a server that is silent for too long."""
        request = self.request
        assert request is not None
        what = "after the request" if self._read_head() is None else "within the response body"
        return ReadTimeout(
            f"{request}: the server was silent for "
            f"{request.timeout.read} s {what}; it may be slow, or raise timeout=Timeout(read=...)",
            request=request,
            curl_code=pycurl.E_OPERATION_TIMEDOUT,
            request_sent=True,
        )

    def _too_large(self) -> ResponseTooLarge:
        request = self.request
        assert request is not None
        return ResponseTooLarge(
            f"{request}: the response body is larger than "
            f"max_response_size={request.max_response_size} bytes"
        )

    def conclude(self) -> Head | None:
        """Return the head of the finished attempt; None: `failed` says what is wrong with it.

        libcurl takes for a success what has no whole head, or another body than the head announces.
        """
        head = self.head
        if head is None:
            head = self._read_head()
            if head is None:
                self.failed = self.no_head()
                return None
        elif self.lines[-1] not in ENDS:  # a streamed response; there may be trailers by now
            whole = final_head(self.lines)
            head.trailers = b"" if whole is None else whole.trailers
        lower = head.lower
        if "transfer-encoding" in lower or f"\ncontent-length: {self.size}\r\n" not in lower:
            request = self.request
            assert request is not None
            if not self.enough and contradicts(head, request.method, self.size):
                self.failed = self._cut_body()
                return None
        self.head = head
        return head

    def final_head(self) -> Head:
        """Return the head of the finished attempt, with its trailers.

        Raises:
            ChunkedEncodingError: the body is another one than it announces.
            RemoteProtocolError: there is none, or a part of one.
        """
        head = self.conclude()
        if head is None:
            self.raise_failure()
        assert head is not None
        return head

    def switches_unasked(self) -> bool:
        """Return whether the server goes over to a protocol that nobody asked for.

        libcurl takes what follows for a body, up to the end of the connection.

        Source: RFC 9110, section 7.8.
        """
        if not any(line[8:12] == b" 101" for line in self.lines):
            return False
        head = final_head(self.lines)
        return head is not None and self._is_unasked(head)

    def _is_unasked(self, head: Head) -> bool:
        assert self.request is not None
        return head.status_code == 101 and self.request.get_header("upgrade") is None

    def no_head(self) -> RemoteProtocolError:
        """Return the exception for a response that has no whole, final head."""
        what = "the response ended within its header block"
        if is_odd(self.lines):
            what = NOT_HTTP
        elif self.switches_unasked():
            what = "the server switches to a protocol that nobody asked for"
        return RemoteProtocolError(f"{self.request}: {what}", curl_code=0)

    def _cut_body(self) -> ChunkedEncodingError:
        request = self.request
        assert request is not None
        return ChunkedEncodingError(
            f"{request}: the response body ended after {self.size} bytes, "
            "which is not what its head announces",
            curl_code=0,
        )

    def timings(self) -> Timings:
        """Return where the time went up to now."""
        times = self._times()
        return times if isinstance(times, Timings) else times_of_reused(times)

    def _times(self) -> Timings | ReusedTimes:
        """Return the same, to be read later if it is on a reused connection: most are."""
        info = self.easy.getinfo
        # Without a byte libcurl gives the end.
        first_byte = info(_STARTTRANSFER_TIME_T) if self.lines else 0
        total = info(_TOTAL_TIME_T)
        route = self._route
        if route is not None and not self._opened:
            return self.queued, first_byte, total, route
        named = info(pycurl.NAMELOOKUP_TIME_T)
        connected = info(pycurl.CONNECT_TIME_T)
        secured = info(pycurl.APPCONNECT_TIME_T)
        return Timings(
            self.queued,
            dns=named * MICROSECOND,
            connect=max(0, connected - named) * MICROSECOND,
            tls=max(0, secured - connected) * MICROSECOND if secured else 0.0,
            first_byte=first_byte * MICROSECOND,
            total=total * MICROSECOND,
            reused=False,
            peer=None if route is None else (route[0], route[2]),
            local=None if route is None else (route[1], route[3]),
        )

    def certificate(self) -> str | None:
        """Return the server's certificate of a new TLS connection, as PEM; else None."""
        chain = self.easy.getinfo(pycurl.INFO_CERTINFO)
        return dict(chain[0]).get("Cert") if chain else None

    # between attempts

    def take(self) -> bytes:
        """Return what of a streamed body is there, b"" when nothing is."""
        taken = b"".join(self.pieces)
        self.pieces.clear()
        self.buffered = self.folded = 0
        return taken

    def clean(self) -> None:
        """Forget the request, and what of it must not stay on an idle handle."""
        if self.feed is not None:
            self._close_body()
        self._forget()
        self.lines.clear()
        self.pieces.clear()
        if self._odd:
            self.easy.reset()
            self._set_base()
            return
        if self._fresh:
            self.avoid_reuse(False)
        if self._listens:
            self.easy.setopt(pycurl.VERBOSE, 0)
            self._listens, self._heard = False, None
        if self._secret:
            self.easy.setopt(pycurl.HTTPHEADER, [])
            self._lines_set, self._secret = None, False

    def _close_body(self) -> None:
        request = self.request
        if self.feed is not None and request is not None and request.body is not None:
            with suppress(Exception):  # a file that was only read has nothing to lose
                request.body.close()

    def close(self) -> None:
        """Close the handle, and the connections that are its own."""
        self._close_body()
        if self.driver is not None:
            self.driver.close()
        self.easy.close()


def _framing(request: Request) -> bytes:
    """Return the header line, in lower case, that libcurl would add for the body."""
    length = 0 if request.body is None else request.body.length
    return b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length


def _is_on_tls(request: Request) -> bool:
    """Return whether the connection is TLS, all the way or up to the proxy."""
    proxy = request.transport.proxy
    return request.url.scheme == "https" or (proxy is not None and proxy.url.startswith("https:"))


def _set_socket_options(descriptor: int, options: tuple[Any, ...]) -> int:
    if not options:
        return 0
    try:
        with socket.socket(fileno=os.dup(descriptor)) as twin:
            for option in options:
                twin.setsockopt(*option)
    except (OSError, TypeError):
        return 1  # libcurl closes the socket: CURLE_COULDNT_CONNECT (CURLOPT_SOCKOPTFUNCTION)
    return 0


def may_multiplex(request: Request) -> bool:
    """Return whether the request's connection may be shared with others."""
    http2 = request.transport.http2
    return (
        request.transport.http3
        or http2 == "prior-knowledge"
        or (http2 is True and request.url.scheme == "https")
    )


def _seconds_since_data(descriptor: int) -> float:
    if sys.platform != "linux":
        return math.inf
    try:
        with socket.socket(fileno=os.dup(descriptor)) as twin:
            info = twin.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    except OSError:  # closed: another address was faster
        return math.inf
    milliseconds: int = struct.unpack_from("I", info, _LAST_DATA_RECV)[0]
    return milliseconds / 1000
