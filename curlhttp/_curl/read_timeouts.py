"""Read and write timeouts: find transfers that have been silent for too long.

libcurl's low-speed limit counts whole seconds and does not stop while a transfer is paused. Here
activity sets no timer. A transfer is checked when its read timeout would expire, counted from the
last activity. A write timeout replaces the read timeout until the body has gone out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

from curlhttp._curl import pycurl
from curlhttp._curl.errors import write_timeout_error
from curlhttp._curl.head import parse_response_head
from curlhttp._curl.transfer import Transfer
from curlhttp._models.body import Body
from curlhttp._models.errors import read_timeout_error
from curlhttp._models.request import ClientRequest
from curlhttp.exceptions import Timeout

_LOOK = 20e-6  # seconds from one look at all transfers to the next, for each of them
_CHECKS = 4  # per write timeout, which ends that much later at most if other streams are busy


def get_first_limit(request: ClientRequest) -> float | None:
    """Return after how many seconds of silence a request needs its first check; None for never."""
    read, write = request.timeout.read, request.timeout.write
    if write is None or request.body is None:
        return read
    return min(write / _CHECKS, inf if read is None else read)


class ReadTimeouts:
    """The times at which the transfers of one driver have to be checked.

    A transfer costs nothing at its start and at its end. Instead, all of them are looked at when
    the first one may have been silent for too long, which is rare: most end long before that.

    Attributes:
        next_check: the monotonic time of the next look, math.inf for none.
    """

    __slots__ = ("next_check",)

    def __init__(self) -> None:
        self.next_check = inf

    def find_silent(
        self, transfers: Collection[Transfer], now: float, last_event: Mapping[int, float]
    ) -> list[tuple[Transfer, Timeout]]:
        """Return the transfers that were silent for too long, with their errors.

        Args:
            transfers: all that are running.
            now: the monotonic time.
            last_event: the time of the last event of each socket.
        """
        found = []
        next_check = inf
        for transfer in transfers:
            request = transfer.request
            assert request is not None
            due = transfer.check_at
            if not due:
                limit = get_first_limit(request)
                if limit is None:
                    continue
                due = transfer.last_activity + limit
            if due <= now:
                if not transfer.check_at:
                    transfer.progress_mark = transfer.upload_mark = None
                due, sends = _get_next_check(transfer, request, now, last_event)
                if due <= now:
                    found.append((transfer, _failure(transfer, request, sends=sends)))
                    continue
                transfer.check_at = due
            next_check = min(next_check, due)
        # A look at many takes time, so there are not more looks then than this.
        self.next_check = max(next_check, now + len(transfers) * _LOOK)
        return found


def _get_next_check(
    transfer: Transfer, request: ClientRequest, now: float, last_event: Mapping[int, float]
) -> tuple[float, bool]:
    """Return the time of the next check or of the expiry, and whether it is the write timeout."""
    read, write, body = request.timeout.read, request.timeout.write, request.body
    if write is not None and body is not None:
        uploaded = transfer.easy.getinfo(pycurl.SIZE_UPLOAD_T)
        if _has_more(transfer, body, uploaded):
            due = _get_last_upload(transfer, uploaded, now, last_event) + write
            if due > now:
                # The body may have gone out by then, and the read timeout may be shorter.
                due = min(due, now + write / _CHECKS, inf if read is None else now + read)
            return due, True
    if read is None:  # libcurl may still send the body again, on another connection
        assert write is not None
        return now + write, False
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
    if _waits_for_us(transfer):
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
    upload = transfer.upload
    is_starving = upload is not None and upload.is_starving
    return transfer.wake is None or transfer.paused or is_starving or not transfer.attempt.is_out


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
