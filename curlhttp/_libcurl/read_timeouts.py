"""Read and write timeouts: find transfers that have been silent for too long.

libcurl's low-speed limit counts whole seconds and does not stop while a transfer is paused. Here
activity sets no timer. A transfer is checked when its read timeout would expire, counted from the
last activity. A write timeout replaces the read timeout until the body has gone out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

from curlhttp._http.body import Body
from curlhttp._http.errors import read_timeout_error
from curlhttp._http.request import ClientRequest
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.errors import slow_error, write_timeout_error
from curlhttp._libcurl.head import parse_response_head
from curlhttp._libcurl.options import WRITE_CHECKS
from curlhttp._libcurl.transfer import SpeedWindow, Transfer
from curlhttp.exceptions import Timeout

_LOOK = 20e-6  # seconds from one look at all transfers to the next, for each of them


def _check_speed(transfer: Transfer, request: ClientRequest, now: float) -> tuple[float, bool]:
    """Return when to measure the speed of a transfer next, and whether it was too slow."""
    assert request.timeout.min_speed is not None
    speed, seconds = request.timeout.min_speed
    window, easy = transfer.speed_window, transfer.easy
    size = sum(map(easy.getinfo, (pycurl.SIZE_DOWNLOAD_T, pycurl.SIZE_UPLOAD_T)))
    size += sum(map(len, transfer.lines))
    # A transfer whose pieces are small is paused now and then although its caller waits.
    is_unread = transfer.paused and transfer.streams and bool(transfer.pieces)
    if window is None or is_unread or _waits_for_caller(transfer) or not transfer.lines:
        window = transfer.speed_window = SpeedWindow(now, size)
        if transfer.wake is None:
            window.leave()
    elif now >= window.at + seconds:
        if size - window.size < speed * (now - window.at):
            return now, True
        window.at, window.size = now, size
    return window.at + seconds, False


def find_silent(
    transfers: Collection[Transfer], now: float, last_event: Mapping[int, float]
) -> tuple[list[tuple[Transfer, Timeout]], float]:
    """Return the transfers that were silent for too long, with their errors, and when to look next.

    A transfer costs nothing at its start and at its end. Instead, all of them are looked at when
    the first one may have been silent for too long, which is rare: most end long before that.

    Args:
        transfers: all that are running.
        now: the monotonic time.
        last_event: the time of the last event of each socket.
    """
    found: list[tuple[Transfer, Timeout]] = []
    next_check = inf
    for transfer in transfers:
        request = transfer.request
        assert request is not None
        due = transfer.check_at
        if not due:
            limit = transfer.first_limit
            if limit is None:
                continue
            # Activity puts off the first look at a silent transfer, but not at a slow one.
            is_measured = request.timeout.min_speed is not None
            due = now if is_measured else transfer.last_activity + limit
        if due <= now:
            if not transfer.check_at:
                transfer.progress_mark = transfer.upload_mark = None
                transfer.speed_window = None
            if request.timeout.min_speed is not None:
                measure_at, is_slow = _check_speed(transfer, request, now)
                if is_slow:
                    found.append((transfer, slow_error(request)))
                    continue
            else:
                measure_at = inf
            due, sends = _get_next_check(transfer, request, now, last_event)
            if due <= now:
                found.append((transfer, _failure(transfer, request, sends=sends)))
                continue
            due = transfer.check_at = min(due, measure_at)
        next_check = min(next_check, due)
    # A look at many takes time, so there are not more looks then than this.
    return found, max(next_check, now + len(transfers) * _LOOK)


def _get_next_check(
    transfer: Transfer, request: ClientRequest, now: float, last_event: Mapping[int, float]
) -> tuple[float, bool]:
    """Return the time of the next check or of the expiry, and whether it is the write timeout."""
    read, write, body = request.timeout.read, request.timeout.write, request.body
    # A caller that reads the response waits for the server, even if the body has no data ready.
    reads = _is_starving(transfer) and transfer.head is not None
    if write is not None and body is not None and not reads:
        uploaded = transfer.easy.getinfo(pycurl.SIZE_UPLOAD_T)
        if _has_more(transfer, body, uploaded):
            due = _get_last_upload(transfer, uploaded, now, last_event) + write
            if due > now:
                # The body may have gone out by then, and the read timeout may be shorter.
                due = min(due, now + write / WRITE_CHECKS, inf if read is None else now + read)
            return due, True
    if read is None:  # libcurl may still send the body again, on another connection
        return now + (inf if write is None else write), False
    return _get_last_activity(transfer, now, last_event) + read, False


def _failure(transfer: Transfer, request: ClientRequest, *, sends: bool) -> Timeout:
    if sends:
        return write_timeout_error(request)
    return read_timeout_error(
        request, has_head=parse_response_head(transfer.lines, request) is not None
    )


def _has_more(transfer: Transfer, body: Body, uploaded: int) -> bool:
    """Return whether a part of the body has certainly not gone out yet.

    Args:
        transfer: sends the body.
        body: of the request.
        uploaded: bytes of it that went out, with their framing (CURLINFO_SIZE_UPLOAD_T).
    """
    if body.length is not None:
        return uploaded < body.length
    upload = transfer.upload
    return upload is not None and (not upload.is_read_out or uploaded < upload.fed)


def _get_last_upload(
    transfer: Transfer, uploaded: int, now: float, last_event: Mapping[int, float]
) -> float:
    """Return the latest time when a part of the body can have gone out."""
    if transfer.paused or _is_starving(transfer) or not transfer.attempt.is_out:
        transfer.upload_at = now
    elif uploaded != transfer.upload_mark:
        # The exact time is unknown, but it was not after the socket's last event.
        descriptor = transfer.easy.getinfo(pycurl.ACTIVESOCKET)
        transfer.upload_at = max(transfer.last_activity, last_event.get(descriptor, 0.0))
    transfer.upload_mark = uploaded
    if transfer.upload is not None:
        transfer.upload_at = max(transfer.upload_at, transfer.upload.fed_at)
    return transfer.upload_at


def _waits_for_us(transfer: Transfer) -> bool:
    """Return whether the transfer waits for its caller or for a connection, not for the server."""
    return transfer.paused or _waits_for_caller(transfer)


def _waits_for_caller(transfer: Transfer) -> bool:
    """Return whether its caller has something to do, apart from reading pieces that are there."""
    if transfer.wake is None or not transfer.attempt.is_out:
        return True
    return transfer.head is None and _is_starving(transfer)


def _is_starving(transfer: Transfer) -> bool:
    """Return whether libcurl waits for the next piece of the request's body."""
    return transfer.upload is not None and transfer.upload.is_starving


def _get_last_activity(transfer: Transfer, now: float, last_event: Mapping[int, float]) -> float:
    """Return when a transfer last made progress; now if it does not wait for the server."""
    if _waits_for_us(transfer):
        return now
    lines = transfer.lines
    is_http1 = lines[0].startswith(b"HTTP/1") if lines else not transfer.handle.multiplexes
    if not is_http1:  # otherwise no other transfer uses the connection
        mark = (len(lines), transfer.easy.getinfo(pycurl.SIZE_UPLOAD_T))
        if mark == transfer.progress_mark:
            return transfer.last_activity
        transfer.progress_mark = mark
        if not (lines or mark[1]):
            return transfer.last_activity
        # The exact time of the progress is unknown, but it was not after the socket's last event.
    descriptor = transfer.easy.getinfo(pycurl.ACTIVESOCKET)
    return max(transfer.last_activity, last_event.get(descriptor, 0.0))
