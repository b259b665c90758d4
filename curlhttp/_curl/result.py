"""Turn a finished transfer into a response or an exception.

libcurl takes much for a success that is none. So each end is looked at twice: at once, while its
connection is known, and when the caller asks for the response.
"""

from __future__ import annotations

from time import monotonic

import pycurl

from curlhttp._curl.errors import TransferFailure, body_differs, error_for, named_lack, no_head
from curlhttp._curl.head import (
    ENDS,
    answer_head,
    contradicts,
    final_head,
    is_odd,
    switches_unasked,
)
from curlhttp._curl.transfer import Transfer
from curlhttp._models.decoding import decode_content
from curlhttp._models.request import KEEP_CODED, Request
from curlhttp._models.response import Head, Response
from curlhttp._models.timings import make_timings
from curlhttp.exceptions import RequestException

__all__ = [
    "check_opened",
    "decode_body",
    "finish",
    "head_of",
    "raise_failure",
    "response_of",
    "status_of",
    "take_piece",
]


def finish(transfer: Transfer, code: int, message: str) -> None:
    """Take down how a transfer ended, at once: then its connection may be another's.

    Args:
        transfer: libcurl is done with it.
        code: libcurl's, 0 for success.
        message: libcurl's words for it.
    """
    transfer.code, transfer.message = code, message
    request = transfer.request
    assert request is not None
    if code:
        lines = transfer.lines
        if transfer.failed is None and code != pycurl.E_OPERATION_TIMEDOUT:
            transfer.failed = transfer.blocked  # no address was left
            if transfer.failed is None:
                os_errno = transfer.easy.getinfo(pycurl.OS_ERRNO)
                transfer.failed = named_lack(request, code, message, os_errno)
        # Said in place of libcurl's own error, which is only that the connection ended.
        if transfer.failed is None and switches_unasked(lines, request):
            transfer.failed = no_head(lines, request)
        elif transfer.note_refusal():  # on another connection it would be refused likewise
            transfer.restarts = False
        elif not transfer.is_fed_by_task:  # else the task that feeds it restarts it
            transfer.restarts = transfer.restarts or transfer.may_restart()
        return
    connection = transfer.connection
    if connection is not None:
        # A server may have been asked for HTTP/2 and have answered in HTTP/1.1.
        if connection.multiplexes and transfer.lines:
            connection.multiplexes = not transfer.lines[0].startswith(b"HTTP/1")
        # More came than was read from the socket meanwhile: it had been there before the request.
        if connection.counts and not transfer.may_be_answer(transfer.size, ends=True):
            transfer.disown_answer(has_head=transfer.head is not None)
            return
    head = _conclude(transfer, request)
    if head is None or (head.may_have_codings and head.is_framed_twice):
        # Another recipient may see the end of the body elsewhere (RFC 9112, section 6.3).
        transfer.connections.spoil(transfer.route)


def _conclude(transfer: Transfer, request: Request) -> Head | None:
    """Return the head of the finished attempt; None: `failed` says what is wrong with it.

    libcurl takes for a success what has no whole head, or another body than the head announces.
    """
    head, lines = transfer.head, transfer.lines
    if head is None:
        head = answer_head(lines, request)
        if head is None:
            if not transfer.handle.connects_only:
                transfer.failed = no_head(lines, request)
            return None
    elif lines[-1] not in ENDS:  # a streamed response; there may be trailers by now
        whole = final_head(lines)
        head.trailers = b"" if whole is None else whole.trailers
    # Most heads announce the very length that came, and nothing else: they need no parsing.
    if (
        (
            f"\ncontent-length: {transfer.size}\r\n" not in head.lower
            or (head.may_have_codings and "transfer-encoding" in head.lower)
        )
        and not transfer.is_cut_short
        and contradicts(head, request.method, transfer.size)
    ):
        transfer.failed = body_differs(request, transfer.size)
        return None
    transfer.head = head
    return head


def head_of(transfer: Transfer) -> Head:
    """Return the head of a finished attempt, with its trailers.

    Raises:
        ChunkedEncodingError: the body is another one than it announces.
        RemoteProtocolError: there is none, or a part of one.
    """
    assert transfer.request is not None
    head = _conclude(transfer, transfer.request)
    if head is None:
        raise_failure(transfer)
    assert head is not None
    return head


def status_of(transfer: Transfer) -> int:
    """Return the status of the final answer so far, 0 while there is none."""
    assert transfer.request is not None
    head = transfer.head or answer_head(transfer.lines, transfer.request)
    return head.status_code if head is not None else 0


def response_of(transfer: Transfer) -> Response:
    """Return the response of a finished attempt whose body is in memory.

    Raises:
        RequestException: the attempt failed.
    """
    request = transfer.request
    assert request is not None
    if transfer.failed is not None or transfer.code:
        raise_failure(transfer)
    head = transfer.head or head_of(transfer)
    content = b"".join(transfer.pieces)  # of one piece, that piece itself
    response = Response(request, head, content, transfer.timings())
    # Most responses have no coding: that is seen without parsing.
    if head.may_have_codings and "\ncontent-encoding" in head.lower and request.decode and content:
        decode_body(response, request)
    return response


def check_opened(transfer: Transfer) -> None:
    """Raise what kept a streamed response from having a head; else reading its body will tell.

    Raises:
        RequestException: the attempt failed up to there.
    """
    # A success without a whole head is none, whatever libcurl says.
    if transfer.head is None:
        raise_failure(transfer)
        head_of(transfer)


def take_piece(transfer: Transfer) -> bytes:
    """Return what of a streamed body is there, b"" at its end.

    Raises:
        RequestException: there is no more, because the attempt failed.
    """
    # What came before a failure is given out first: the caller may want to keep it.
    piece = transfer.take()
    if not piece:
        raise_failure(transfer)
        if transfer.head is None:
            head_of(transfer)
    return piece


def decode_body(response: Response, request: Request) -> None:
    """Undo the coding of a response whose body is in memory.

    Raises:
        RequestException: it is corrupt, or decodes to more than max_response_size.
    """
    # The body of a redirect is read by no one: a coding that is broken must not be an error.
    if request.follow_redirects and response._head.redirects:
        return
    assert response._content is not None
    if request.decode == KEEP_CODED:
        response._coded = response._content
    try:
        limit = request.max_response_size
        response._content = decode_content(response._content, response.headers, limit)
    except RequestException as error:
        error.request, error.response = request, response
        error.request_sent, error.timings = True, response.timings
        raise


def raise_failure(transfer: Transfer) -> None:
    """Raise what an attempt failed with, if it did.

    Raises:
        RequestException: libcurl, the peer or a limit ended the attempt.
        BaseException: what the caller's own body raised.
    """
    failed = transfer.failed
    if failed is not None:
        # It has timings if it was raised before, or by a request that the caller's body sent.
        if isinstance(failed, RequestException) and failed.timings is None:
            failed.request, failed.timings = transfer.request, make_timings(transfer.timings())
            failed.response = _response_so_far(transfer)
            failed.request_sent = failed.request_sent or transfer.was_sent
        raise failed
    if transfer.code and not transfer.is_cut_short:
        raise _error_of(transfer)


def _response_so_far(transfer: Transfer) -> Response | None:
    """Return what a buffered attempt got before it failed, if that has a head."""
    request = transfer.request
    assert request is not None
    head = answer_head(transfer.lines, request)
    # A 1xx is no response, and a streamed body is with its reader.
    if head is None or head.status_code < 200 or request.stream:
        return None
    return Response(request, head, b"".join(transfer.pieces), transfer.timings())


def _error_of(transfer: Transfer) -> RequestException:
    """Return the exception for libcurl's code."""
    request, easy, code = transfer.request, transfer.easy, transfer.code
    assert request is not None
    error = error_for(
        TransferFailure(
            request=request,
            code=code,
            message=transfer.message,
            sent=easy.getinfo(pycurl.REQUEST_SIZE) > 0 or transfer.is_second,
            has_head=answer_head(transfer.lines, request) is not None,
            is_odd=is_odd(transfer.lines),
            os_errno=easy.getinfo(pycurl.OS_ERRNO),
            connect_code=easy.getinfo(pycurl.HTTP_CONNECTCODE),
            timings=make_timings(transfer.timings()),
            deadline_passed=request.is_late(monotonic()),
            aborted_resend=code == pycurl.E_ABORTED_BY_CALLBACK and transfer.sends > 1,
            refused=transfer.is_refused() and not transfer.is_second,
            is_connected=transfer.sends > 0,
            refusal=transfer.note_refusal(),
        )
    )
    error.response = _response_so_far(transfer)
    return error
