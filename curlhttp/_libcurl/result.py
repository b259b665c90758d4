"""Turn a finished transfer into a response or an exception.

libcurl reports success for many responses that are incomplete or invalid. So each result is checked
twice: at once, while the connection is known, and when the caller asks for the response.
"""

from __future__ import annotations

from time import monotonic

from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head, Response
from curlhttp._http.timings import MICROSECOND, CurlTimings, make_timings
from curlhttp._libcurl import pycurl
from curlhttp._libcurl.attempt import DONE, FAIL, ON_KEPT
from curlhttp._libcurl.errors import (
    TransferFailure,
    body_length_error,
    find_descriptor_shortage,
    head_error,
    make_error,
)
from curlhttp._libcurl.head import (
    ENDS,
    contradicts_length,
    has_unasked_upgrade,
    lacks_status_line,
    parse_final_head,
    parse_response_head,
)
from curlhttp._libcurl.transfer import FIRST_BYTE, TOTAL, Transfer
from curlhttp._runtime.engine import decode_body
from curlhttp._runtime.outcomes import MOST_PENDING
from curlhttp._runtime.race import is_beaten
from curlhttp.exceptions import RequestException, WriteTimeout

_END = b"\r\n"
PLAIN = -1  # the response is whole and needs no look: `take_plain_response` returns it

# Made without their __init__, which Python calls more slowly.
_new_head, _new_response = Head.__new__, Response.__new__


def finish_failed(transfer: Transfer, code: int, message: str) -> int:
    """Record how a transfer failed, at once, before its connection serves another one.

    Returns how its attempt goes on, see attempt.py.

    Args:
        transfer: libcurl has ended it.
        code: libcurl's result code.
        message: libcurl's text for it.
    """
    request = transfer.request
    assert request is not None
    transfer.code, transfer.message = code, message
    lines = transfer.lines
    if transfer.failed is None and code != pycurl.E_OPERATION_TIMEDOUT:
        transfer.failed = transfer.blocked  # the guard allowed no address
        if transfer.failed is None:
            os_errno = transfer.easy.getinfo(pycurl.OS_ERRNO)
            transfer.failed = find_descriptor_shortage(request, code, message, os_errno)
    # This replaces libcurl's own error, which only says that the connection ended.
    if transfer.failed is None and has_unasked_upgrade(lines, request):
        transfer.failed = head_error(lines, request)
    return transfer.conclude()


def finish(transfer: Transfer) -> int:
    """Check a transfer that libcurl calls successful, before its connection serves another one.

    Returns how its attempt goes on, see attempt.py; or PLAIN, which most responses are.

    Args:
        transfer: libcurl has ended it; `failed` says whether its response is invalid.
    """
    connection, lines = transfer.connection, transfer.lines
    if connection is not None:
        # The server may have chosen HTTP/1.1 although HTTP/2 was offered.
        if connection.multiplexes and lines and lines[0].startswith(b"HTTP/1"):
            connection.multiplexes = False
        # A response that is longer than the bytes read from the socket came before its request.
        if (
            connection.counts_bytes
            and not connection.multiplexes
            and not transfer.check_response(transfer.size, ends=True)
        ):
            transfer.reject_early_response(has_head=transfer.head is not None)
            return transfer.conclude()
    # Most responses are one head, whose Content-Length is what came. All others need more checks.
    if transfer.head is None:
        head = _new_head(Head).fill(b"".join(lines))
        if (
            head.status_code >= 200
            and lines[-1] == _END  # no trailers
            # Once sent, on a kept connection, it has no other final head.
            and (transfer.attempt.state == ON_KEPT or lines.count(_END) == 1)
            and f"\ncontent-length: {transfer.size}\r\n" in head.lower
            and not head.may_have_codings
        ):
            transfer.head = head
            return PLAIN if transfer.failed is None else FAIL
    assert transfer.request is not None
    checked = _check_response(transfer, transfer.request)
    if checked is None or (checked.may_have_codings and checked.is_framed_twice):
        # Another recipient may find another end of the body (RFC 9112, section 6.3).
        transfer.connections.forget(transfer.route)
    return DONE if transfer.failed is None else FAIL


def _check_response(transfer: Transfer, request: ClientRequest) -> Head | None:
    """Return the head of the finished attempt; None if the response is invalid, see `failed`.

    libcurl reports success for a response with an incomplete head, or with another body than the
    head announces.
    """
    head, lines = transfer.head, transfer.lines
    if head is None:
        head = parse_response_head(lines, request)
        if head is None:
            if transfer.handle._connects_only:
                transfer.note_stream()
            else:
                transfer.failed = head_error(lines, request)
            return None
    elif lines[-1] not in ENDS:  # a streamed response; there may be trailers by now
        whole = parse_final_head(lines)
        head.trailers = b"" if whole is None else whole.trailers
    # Most heads announce exactly the length that came, and need no parsing.
    if (
        (
            f"\ncontent-length: {transfer.size}\r\n" not in head.lower
            or (head.may_have_codings and "transfer-encoding" in head.lower)
        )
        and not transfer.has_enough
        and contradicts_length(head, request.method, transfer.size)
    ):
        transfer.failed = body_length_error(request, transfer.size)
        return None
    transfer.head = head
    return head


def get_head(transfer: Transfer) -> Head:
    """Return the head of a finished attempt, with its trailers.

    Raises:
        ChunkedEncodingError: the body is not the one that the head announces.
        RemoteProtocolError: there is no head, or only a part of one.
    """
    assert transfer.request is not None
    head = _check_response(transfer, transfer.request)
    if head is None:
        raise_failure(transfer)
    assert head is not None
    return head


def get_status(transfer: Transfer) -> int:
    """Return the status of the final response, 0 while there is none."""
    assert transfer.request is not None
    head = transfer.head or parse_response_head(transfer.lines, transfer.request)
    return head.status_code if head is not None else 0


def make_response(transfer: Transfer) -> Response:
    """Return the response of a finished attempt whose body is in memory.

    Raises:
        RequestException: the attempt failed.
    """
    request = transfer.request
    assert request is not None
    if transfer.failed is not None or transfer.code:
        raise_failure(transfer)
    head = transfer.head or get_head(transfer)
    content = b"".join(transfer.pieces)  # no copy of a single piece
    if transfer.attempt.state != ON_KEPT or transfer.queue_seconds:
        times = transfer.timings()
        queue, first, total, _, steps = times
    else:  # the same without a call
        queue, steps, info = 0.0, None, transfer.getinfo
        first, total = info(FIRST_BYTE), info(TOTAL)
        times = queue, first, total, transfer.route, steps
    response = _new_response(Response)
    response.request = request
    response._head = head
    response.status_code = head.status_code
    response._content = content
    response._times = times
    # Most responses have no coding, which needs no parsing to see.
    if head.may_have_codings and "\ncontent-encoding" in head.lower and request.decode and content:
        decode_body(response, request)
    pending = transfer.totals.pending
    pending += request.url.origin, head.status_code, queue, first, total, steps
    if len(pending) >= MOST_PENDING:
        transfer.totals.outcomes.fold()
    return response


def take_plain_response(transfer: Transfer) -> Response:
    """Return the response of an attempt with nothing unusual, and clean the transfer.

    Args:
        transfer: it ended on a kept connection, and `finish` called its response plain.
    """
    request, head, info = transfer.request, transfer.head, transfer.getinfo
    assert request is not None
    assert head is not None
    queue, first, total = transfer.queue_seconds, info(FIRST_BYTE), info(TOTAL)
    response = _new_response(Response)
    response.request = request
    response._head = head
    response.status_code = status = head.status_code
    response._content = b"".join(transfer.pieces)  # no copy of a single piece
    response._times = queue, first, total, transfer.route, None
    pending = transfer.totals.pending
    pending += request.url.origin, status, queue, first, total, None
    if len(pending) >= MOST_PENDING:
        transfer.totals.outcomes.fold()
    transfer.clean_plain()
    return response


def check_opened(transfer: Transfer) -> None:
    """Raise if a streamed response has no head; later failures show while its body is read.

    Raises:
        RequestException: the attempt failed before the head was in.
    """
    # Without a complete head it failed, even if libcurl reports success.
    if transfer.head is None:
        raise_failure(transfer)
        get_head(transfer)
    request, head = transfer.request, transfer.head
    assert request is not None
    assert head is not None
    if not (transfer.done or transfer.streams):
        transfer.stream_rest()
    outcomes = transfer.totals.outcomes
    outcomes.add_response(request.url.origin, head.status_code, transfer.timings())


def take_small_response(transfer: Transfer) -> Response | None:
    """Return the response of an attempt whose request streams IF_LARGE; None if it is streamed.

    Raises:
        RequestException: the attempt failed.
    """
    head = transfer.head
    # A small body may be large once it is decoded.
    if not transfer.done or (
        head is not None and head.may_have_codings and "\ncontent-encoding" in head.lower
    ):
        return None
    return make_response(transfer)


def read_piece(transfer: Transfer) -> bytes:
    """Return the received part of a streamed body as one piece, b"" at its end.

    Raises:
        RequestException: the attempt failed, so there is no more.
    """
    return b"".join(transfer.take_pieces() or _end_pieces(transfer))


def read_pieces(transfer: Transfer) -> list[bytes]:
    """Return the received part of a streamed body for who stores it at once, [] at its end.

    Raises:
        RequestException: the attempt failed, so there is no more.
    """
    return transfer.take_many_pieces() or _end_pieces(transfer)


def _end_pieces(transfer: Transfer) -> list[bytes]:
    # After the pieces, because the caller may use data that arrived before a failure.
    raise_failure(transfer)
    if transfer.head is None:
        get_head(transfer)
    return []


def count_failure(transfer: Transfer, error: BaseException) -> None:
    """Count an attempt that failed or was cancelled; of a streamed body, only the error.

    Args:
        transfer: that it still runs on.
        error: what the caller gets.
    """
    request = transfer.request
    if request is None or is_beaten(request, error):  # it had ended, or another one has won
        return
    was_opened = request.stream and transfer.head is not None
    try:
        times = None if was_opened else _get_times_so_far(transfer)
        phase = _find_phase(transfer, error)
    except pycurl.error:  # the garbage collector closed the handle of a task that nobody ended
        return
    transfer.totals.outcomes.add_failure(request.url.origin, error, phase, times)


def _get_times_so_far(transfer: Transfer) -> CurlTimings:
    """Return the timings of an attempt that may still run: libcurl's total is that of an event."""
    queue, first, total, route, steps = times = transfer.timings()
    if transfer.done:
        return times
    silent = monotonic() - transfer.last_activity  # since the last byte, or since the beginning
    mark = first or (max(steps or (0,)) if transfer.attempt.was_sent else 0)
    return queue, first, max(total, mark + round(silent / MICROSECOND)), route, steps


def _find_phase(transfer: Transfer, error: BaseException) -> str:
    """Return what an attempt was busy with; see OriginStats.phases."""
    if transfer.lines:
        return "body" if get_status(transfer) else "server"
    if transfer.attempt.was_sent:
        return "send" if isinstance(error, WriteTimeout) else "server"
    info = transfer.easy.getinfo
    if not info(pycurl.NAMELOOKUP_TIME_T):
        return "dns"
    return "tls" if info(pycurl.CONNECT_TIME_T) else "connect"


def raise_failure(transfer: Transfer) -> None:
    """Raise the error of an attempt, if it failed.

    Raises:
        RequestException: libcurl, the peer or a limit ended the attempt.
        BaseException: raised by the caller's body.
    """
    failed = transfer.failed
    if failed is not None:
        # It has timings if it was raised before, or if the caller's body sent a request.
        if isinstance(failed, RequestException) and failed.timings is None:
            failed.request = transfer.request
            failed.timings = make_timings(transfer.timings(), transfer.request)
            failed.response = _make_partial_response(transfer)
            failed.request_sent = failed.request_sent or transfer.attempt.was_sent
        raise failed
    if transfer.code and not transfer.has_enough:
        raise _make_error(transfer)


def _make_partial_response(transfer: Transfer) -> Response | None:
    """Return the response of a buffered attempt that failed after its head was in."""
    request = transfer.request
    assert request is not None
    head = parse_response_head(transfer.lines, request)
    # A 1xx is not a final response, and the caller has a streamed one.
    if head is None or head.status_code < 200 or transfer.streams:
        return None
    return Response(request, head, b"".join(transfer.pieces), transfer.timings())


def _make_error(transfer: Transfer) -> RequestException:
    """Return the exception for libcurl's result code."""
    request, easy, code, attempt = (
        transfer.request,
        transfer.easy,
        transfer.code,
        transfer.attempt,
    )
    assert request is not None
    refused = attempt.is_refused(transfer.ending())
    error = make_error(
        TransferFailure(
            request=request,
            code=code,
            message=transfer.message,
            sent=easy.getinfo(pycurl.REQUEST_SIZE) > 0 or attempt.is_second,
            has_head=parse_response_head(transfer.lines, request) is not None,
            lacks_status_line=lacks_status_line(transfer.lines),
            os_errno=easy.getinfo(pycurl.OS_ERRNO),
            connect_code=easy.getinfo(pycurl.HTTP_CONNECTCODE),
            timings=make_timings(transfer.timings(), request),
            deadline_passed=request.is_late(monotonic()),
            aborted_resend=code == pycurl.E_ABORTED_BY_CALLBACK and attempt.was_stopped,
            refused=refused and not attempt.is_second,
            refused_last=refused and attempt.is_second,
            is_connected=attempt.is_out,
            refusal=transfer.note_refusal(),
        )
    )
    error.response = _make_partial_response(transfer)
    return error
