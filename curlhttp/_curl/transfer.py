"""One attempt on a handle: what libcurl calls while it runs, and the response that comes in.

The callbacks do not raise, because that breaks all other transfers of a curl_multi. They store what
went wrong in `failed`, and whoever runs the transfer raises it. The outcome of an attempt when it
has ended, result.py says.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, Protocol, TypeAlias

import pycurl

from curlhttp._curl.connection_state import Connection, Connections, Route
from curlhttp._curl.errors import no_head, too_large
from curlhttp._curl.handle import Callbacks, Handle, Shares
from curlhttp._curl.head import ENDS, answer_head, is_final, is_unasked
from curlhttp._curl.request_sender import RequestSender
from curlhttp._engine.engine import DRAINED
from curlhttp._engine.log import watch_of
from curlhttp._models.config import Limits
from curlhttp._models.decoding import MANY, fold
from curlhttp._models.request import IDEMPOTENT, Request
from curlhttp._models.response import Head
from curlhttp._models.timings import CurlTimings

__all__ = ["Counts", "Transfer", "count_connections", "leak", "leak_transfer"]

_PAUSE_AT = 256 * 1024  # bytes a streamed body may be ahead of its reader
_LOOK_AT = 16 * 1024  # bytes of a body before the first look at its pieces
_LOOK_EVERY = 128 * 1024  # bytes from one look to the next
_NEVER = math.inf
# What every response asks for, without a look-up in a module.
_NAMELOOKUP_TIME_T = pycurl.NAMELOOKUP_TIME_T
_CONNECT_TIME_T = pycurl.CONNECT_TIME_T
_APPCONNECT_TIME_T = pycurl.APPCONNECT_TIME_T
_STARTTRANSFER_TIME_T = pycurl.STARTTRANSFER_TIME_T
_TOTAL_TIME_T = pycurl.TOTAL_TIME_T
_PAUSE = int(pycurl.WRITEFUNC_PAUSE)


class _RunsTransfers(Protocol):
    unanswered: dict[int, Connection]

    def resume_soon(self, transfer: Transfer) -> None: ...


class Transfer(RequestSender):
    """Carry out one attempt at a time on one easy handle.

    Args:
        limits: the client's limits.
        shares: what has the connections of each lane.

    Attributes:
        easy: the pycurl.Curl of the handle.
        shares: as given.
        head: the final head of a response that streams, or is complete.
        pieces: the body that was received and not taken yet.
        size: bytes of the body that were received.
        done: libcurl is finished with the attempt; `code` and `message` say how.
        is_cut_short: enough of the body is there; nobody wants the rest.
        paused: libcurl waits until the driver resumes it, when pieces were taken.
        feeds_in_task: the caller's task is busy with the request's body, and cannot read the
            response.
        attached: the driver that it runs on, or None.
        timeout_queue: the driver's queue of read timeouts that it is or was in, or None.
        recheck_at: the monotonic time when the driver looks whether it is silent, 0.0 for none.
        progress_mark: what had come and gone at the last such look, or None.
        upload_mark: bytes of the body that had gone out at the last such look, or None.
        upload_at: the monotonic time after which none of them did, as far as that look told.
        queue_seconds: how long the request waited for its turn.
        idle: seconds from the last sign of life of the attempt before to this one.
        origin: that of the slot that it has, of engines whose transfers share connections.
        key: what it is connected to, of the blocking engine.
        released: when it was given back to its pool, as a serial number.
        driver: what the blocking engine borrowed for it, or None.
    """

    __slots__ = (
        "_folded",  # how many of the first pieces are joined from many
        "_limit",  # bytes of the body up to which it needs no look
        "_most",  # bytes that the body may have, 0.0 while that is not known
        "_unread",  # bytes of the pieces of a streamed body
        "attached",
        "done",
        "driver",
        "easy",
        "feeds_in_task",
        "head",
        "idle",
        "is_cut_short",
        "key",
        "origin",
        "paused",
        "pieces",
        "progress_mark",
        "queue_seconds",
        "recheck_at",
        "released",
        "shares",
        "size",
        "timeout_queue",
        "upload_at",
        "upload_mark",
    )

    def __init__(self, limits: Limits, shares: Shares) -> None:
        self.pieces: list[bytes] = []
        self.key: Any = None  # the thread pool's Key, where one has it
        self.driver: Any = None  # a PooledDriver, which imports this module
        self.shares = shares
        self.origin = ""
        self.attached: _RunsTransfers | None = None
        self.timeout_queue: dict[Transfer, float] | None = None
        self.recheck_at = 0.0
        self.progress_mark: tuple[int, int] | None = None
        self.upload_mark: int | None = None
        self.upload_at = 0.0
        self.released = 0
        super().__init__()
        self._forget()
        self.handle = Handle(limits, self._callbacks(), shares)
        self.easy = self.handle.easy

    def _callbacks(self) -> Callbacks:
        return Callbacks(
            on_line=self.lines.append,
            on_body=self._on_body,
            on_header=self._on_header,
            on_piece=self._on_piece,
            on_read=self._on_read,
            on_socket=self._on_socket,
            on_send=self._on_send,
            on_open=self._on_open,
            on_guarded_socket=self._on_guarded_socket,
            on_guarded_send=self._on_guarded_send,
            on_burial=self._on_burial,
            on_log=self._on_log,
        )

    def _forget(self) -> None:
        """Forget what every attempt leaves behind."""
        self._forget_sending()
        self.done = self.is_cut_short = self.paused = False
        self.size = self._folded = self._unread = 0
        self._most = self.queue_seconds = 0.0
        self.head: Head | None = None
        # A body below this needs no look at its head or its pieces: most are.
        self._limit: float = _LOOK_AT

    def _forget_detours(self) -> None:
        super()._forget_detours()
        self.feeds_in_task = False

    def prepare(self, request: Request) -> None:
        """Make ready to send a request.

        Args:
            request: complete; its deadline, if any, becomes CURLOPT_TIMEOUT_MS.
        """
        self.request = request
        self.handle.prepare(request)
        if request.extensions is not None and watch_of(request) is not None:
            self._listen(request)
        body = request.body
        if body is not None and body.data is None:
            self.feed = body.read
            self.sends_once = True
        else:
            self.sends_once = request.method not in IDEMPOTENT
        if request.max_response_size is not None:
            self._limit = min(request.max_response_size, _LOOK_AT)
        now = monotonic()
        self.idle = now - self.last_activity
        self.last_activity = now

    def _listen(self, request: Request) -> None:
        from curlhttp._curl.libcurl_log import listen

        listen(self, request)

    def restart(self) -> None:
        """Make ready to go out on another connection."""
        super().restart()
        self.done = False
        self.pieces.clear()
        self.size = self._folded = 0
        self._most = self._limit = 0.0

    # libcurl's callbacks: they do not raise, but keep the error in `failed`

    def _note_connection(self, route: Route) -> Connection | None:
        connection = super()._note_connection(route)
        if connection is not None and connection.counts and self.attached is not None:
            self.attached.unanswered[connection.descriptor] = connection
        return connection

    def _on_header(self, line: bytes) -> int | None:
        """Collect a header line of a streamed response, and notice the end of its head."""
        lines, request = self.lines, self.request
        assert request is not None
        lines.append(line)
        self.last_activity = monotonic()
        if line in ENDS and self.head is None:
            if not self.may_be_answer(0, ends=False):
                self.disown_answer(has_head=False)
                return 0  # anything but the length ends the transfer, with E_WRITE_ERROR
            head = Head(b"".join(lines))
            if is_final(head) and not is_unasked(head, request):
                self.head = head
                self._wake()
            elif not head.status_code or is_unasked(head, request):
                self.failed = no_head(lines, request)
                return 0  # libcurl closes the connection
            else:
                lines.clear()
        return None

    def _on_body(self, piece: bytes) -> int | None:
        """Collect a piece of a body that is kept in memory."""
        size = self.size = self.size + len(piece)
        self.last_activity = monotonic()
        if size > self._limit:
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
            assert self.request is not None
            self.failed = no_head(self.lines, self.request)
            return 0
        size = self.size + len(piece)
        self.last_activity = monotonic()
        if size > self._limit and self._is_enough(piece, size):
            return 0
        if self._unread >= _PAUSE_AT or len(self.pieces) - self._folded >= MANY:
            if not self.feeds_in_task:  # else both sides would wait
                self.paused = True
                return _PAUSE
            self._folded = fold(self.pieces, self._folded)
        self._unread += len(piece)
        self.pieces.append(piece)
        self.size = size
        self._wake()
        return None

    def _wake(self) -> None:
        if self.wake is not None:
            self.wake()

    def _look(self, piece: bytes, size: int) -> int | None:
        """Look at a body at some of its pieces; return what to tell libcurl, None to go on.

        Millions of small pieces would take a multiple of their memory, and the loop's time for as
        long as more come in. So they are joined, and libcurl is stopped until the next turn: what
        it has read by then it gives in large pieces.
        """
        if self._is_enough(piece, size):
            return 0  # anything but the length ends the transfer, with E_WRITE_ERROR
        is_many = len(self.pieces) - self._folded >= MANY
        if is_many:
            self._folded = fold(self.pieces, self._folded)
        # Where there were small pieces, more are to be expected.
        self._limit = min(self._limit, size + (2 * MANY if self._folded else _LOOK_EVERY))
        if is_many and self.attached is not None:
            self.size = size - len(piece)  # it comes again
            self.paused = True
            self.attached.resume_soon(self)
            return _PAUSE
        return None

    def _is_enough(self, piece: bytes, size: int) -> bool:
        """Return whether a body that exceeds the limit so far must end here, or raise the limit."""
        most = self._most = self._most or self._find_most()
        self._limit = most
        if size <= most:
            return False
        if self._is_unwanted():
            self.is_cut_short = True
            self.pieces.append(piece[: len(piece) - (size - DRAINED)])
        else:
            assert self.request is not None
            self.failed = too_large(self.request)
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
        head = self.head if request.stream else answer_head(self.lines, request)
        return request.follow_redirects and head is not None and head.redirects

    # what came in

    def take(self) -> bytes:
        """Return what of a streamed body is there, b"" when nothing is."""
        taken = b"".join(self.pieces)
        self.pieces.clear()
        self._unread = self._folded = 0
        return taken

    def timings(self) -> CurlTimings:
        """Return where the time went up to now, as libcurl counts it: most is never looked at."""
        info = self.easy.getinfo
        # Without a byte libcurl gives the end.
        first_byte = info(_STARTTRANSFER_TIME_T) if self.lines else 0
        total = info(_TOTAL_TIME_T)
        route, steps = self.route, None
        if route is None or self.is_new_connection:
            steps = info(_NAMELOOKUP_TIME_T), info(_CONNECT_TIME_T), info(_APPCONNECT_TIME_T)
        return self.queue_seconds, first_byte, total, route, steps

    def certificate(self) -> str | None:
        """Return the server's certificate, as PEM; None without TLS.

        libcurl knows that of a new connection. Of another it is known if it was asked for then.
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
        """Forget the request, and what of it must not stay on an idle handle."""
        if self.handle.is_dirty:
            self._close_body()
            self._forget_detours()
            self.handle.clean()
        self._forget()
        self.lines.clear()
        self.pieces.clear()

    def _close_body(self) -> None:
        request = self.request
        if self.feed is not None and request is not None and request.body is not None:
            with suppress(Exception):  # a file that was only read has nothing to lose
                request.body.close()

    def close(self) -> None:
        """Close the handle, and the connections that are its own."""
        self._close_body()
        try:
            if self.driver is not None:
                self.driver.give_up(self)
        finally:
            self.handle.close()
            del self.shares


# --- How many connections an engine has open, and how many of them are in use ---

Counts: TypeAlias = "Counter[tuple[str, bool]]"
"""Numbers of connections by their origin, and by whether they are in use."""


def count_connections(known: Iterable[Connections], at_work: Iterable[Transfer]) -> Counts:
    """Return how many connections are open; may be called from any thread.

    Args:
        known: what is known of them.
        at_work: transfers that are not idle.
    """
    used = {id(transfer.connection) for transfer in at_work}
    every = {id(each): each for connections in known for each in connections.open()}
    return Counter((each.origin, number in used) for number, each in every.items())


# --- What a forked child does with the connections of its parent: nothing, ever ---
#
# A child that uses them gets the parent's responses; one that closes or garbage-collects them
# ends the parent's TLS sessions. So each handle gets a reference that is never given back, and the
# engines start afresh.


def leak(*handles: object) -> None:
    """Keep pycurl objects from being freed, also when the interpreter exits.

    Args:
        handles: of pycurl, or what holds some; None for nothing.
    """
    import ctypes  # late: only forked children need it

    for handle in handles:
        if handle is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


def leak_transfer(transfer: Transfer) -> None:
    """Leave a transfer to the parent; whoever still reads its response here gets an error."""
    # The transfer as well: nothing that the handle calls back may be freed before it.
    driver = transfer.driver
    leak(transfer, transfer.easy, driver, None if driver is None else driver.multi)
    transfer.attached = None
    transfer.done = True
    transfer.failed = ConnectionError(
        "this response belongs to the process that this one was forked from"
    )
