"""Read timeouts where libcurl runs the loop, kept in its progress callback; Ctrl-C comes in there.

libcurl calls back at each event and once a second of silence. It does not say which bytes came:
so progress is noticed by what has changed, and silence by what the system knows of the socket.
"""

from __future__ import annotations

import math
import os
import socket
import struct
import sys
from time import monotonic

from curlhttp._curl.head import answer_head, switches_unasked
from curlhttp._curl.rejections import no_head, silence
from curlhttp._curl.sending import Sending

__all__ = ["UNWATCHED", "ProgressWatch"]

UNWATCHED = 0.25  # seconds in which no read timeout can end; the shortest here is 1 s
_CALL_EVERY = 1.05  # seconds, a little more than from one call of libcurl's to the next
_LAST_DATA_RECV = 52  # offset in struct tcp_info (linux/tcp.h)


class ProgressWatch:
    """Watch the attempts that easy.perform carries out on one handle.

    Args:
        sending: the attempt.

    Attributes:
        watch_from: the monotonic time before which there is nothing to look at.
        progress_mark: what has come and gone at the last look, None before the first.
        is_running: easy.perform runs in a thread of its own, which closes the handle afterwards
            if it is_dropped meanwhile.
        is_dropped: nobody waits for the response any more.
    """

    __slots__ = ("_sending", "is_dropped", "is_running", "progress_mark", "watch_from")

    def __init__(self, sending: Sending) -> None:
        self._sending = sending
        self.watch_from = 0.0
        self.progress_mark: int | None = None
        self.is_running = self.is_dropped = False

    def on_progress(self, down_total: int, down: int, up_total: int, up: int) -> int:
        """Return 0 to go on, 1 to end the transfer (CURLOPT_XFERINFOFUNCTION)."""
        now = monotonic()
        if now < self.watch_from:
            return 0  # ten calls a request: what they cost counts
        if self.is_dropped:
            return 1
        sending = self._sending
        request, lines = sending.request, sending.lines
        assert request is not None
        if switches_unasked(lines, request):
            sending.failed = no_head(lines, request)
            return 1
        mark = down + up + len(lines)
        if self.progress_mark is None:
            self.progress_mark = mark
            sending.last_activity = max(sending.last_activity, now - self._wire_silence())
        elif mark != self.progress_mark:
            self.progress_mark = mark
            sending.last_activity = now
        elif sending.sends and request.timeout.read is not None:
            return self._check_silence(
                request.timeout.read, has_body=down > 0, uploads=up_total > up
            )
        return 0

    def _check_silence(self, limit: float, *, has_body: bool, uploads: bool) -> int:
        sending = self._sending
        left = sending.last_activity + limit - monotonic()
        if left < _CALL_EVERY and not has_body:
            left = max(left, limit - self._wire_silence())
        if left > _CALL_EVERY:  # there will be another call before
            return 0
        if left > 0 and self._becomes_ready(left, uploads):
            return 0
        request = sending.request
        assert request is not None
        has_head = answer_head(sending.lines, request) is not None
        sending.failed = silence(request, has_head=has_head)
        return 1

    def _wire_silence(self) -> float:
        """Return the seconds since a byte came: libcurl tells of header lines when they end."""
        if self._sending.handle.multiplexes and not self._sending.lines:
            return math.inf  # it may have been of another stream
        return min(map(_seconds_since_data, self._sending.sockets), default=math.inf)

    def _becomes_ready(self, seconds: float, uploads: bool) -> bool:
        """Wait for the socket in libcurl's stead, for an exact end."""
        from select import POLLIN, POLLNVAL, POLLOUT, poll

        poller = poll()
        for descriptor in self._sending.sockets:
            poller.register(descriptor, POLLIN | (POLLOUT if uploads else 0))
        return any(not event & POLLNVAL for _, event in poller.poll(math.ceil(seconds * 1000)))


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
