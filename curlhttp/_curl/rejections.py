"""The exceptions for answers that libcurl takes for good, and that we reject."""

from __future__ import annotations

import pycurl

from curlhttp._curl.errors import NOT_HTTP
from curlhttp._curl.head import is_odd, switches_unasked
from curlhttp._models.request import Request
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ConnectionError,
    ReadTimeout,
    RemoteProtocolError,
    ResponseTooLarge,
    WriteTimeout,
)

__all__ = ["body_differs", "came_early", "found_no_connection", "no_head", "silence", "too_large"]


def no_head(lines: list[bytes], request: Request) -> RemoteProtocolError:
    """Return the exception for a response that has no whole, final head.

    Args:
        lines: of all heads and trailers so far, with their ends.
        request: what the server was asked.
    """
    # A head that ended early may be odd as well, and is no HTTP then.
    is_cut = False
    if is_odd(lines):
        what = NOT_HTTP
    elif switches_unasked(lines, request):
        what = "the server switches to a protocol that nobody asked for"
    else:
        what, is_cut = "the response ended within its header block", True
    error = RemoteProtocolError(f"{request}: {what}", curl_code=0)
    error.broken_part = "head" if is_cut else None
    return error


def body_differs(request: Request, size: int) -> ChunkedEncodingError:
    """Return the exception for a body of a size that its head does not announce."""
    return ChunkedEncodingError(
        f"{request}: the response body ended after {size} bytes, "
        "which is not what its head announces",
        curl_code=0,
    )


def too_large(request: Request) -> ResponseTooLarge:
    """Return the exception for a body beyond the request's max_response_size."""
    return ResponseTooLarge(
        f"{request}: the response body is larger than "
        f"max_response_size={request.max_response_size} bytes"
    )


def found_no_connection(request: Request) -> ConnectionError:
    """Return the exception for a request for which no connection stayed open until it was sent."""
    return ConnectionError(
        f"{request}: every connection to the server ended, or was not clean, before the request "
        "could be sent; it may be restarting",
        request=request,
        curl_code=pycurl.E_SEND_ERROR,
    )


def came_early(request: Request) -> RemoteProtocolError:
    """Return the exception for an answer that was there before its request."""
    return RemoteProtocolError(
        f"{request}: the server had sent the answer before the request, "
        "so that it cannot be the answer to it; the request may have been processed",
        request=request,
        curl_code=0,
        request_sent=True,
    )


def silence(request: Request, *, has_head: bool) -> ReadTimeout:
    """Return the exception for a server that is silent for longer than the read timeout.

    Args:
        request: what the server was asked.
        has_head: the head of the response is in.
    """
    what = "within the response body" if has_head else "after the request"
    return ReadTimeout(
        f"{request}: the server was silent for "
        f"{request.timeout.read} s {what}; it may be slow, or raise timeout=Timeout(read=...)",
        request=request,
        curl_code=pycurl.E_OPERATION_TIMEDOUT,
        request_sent=True,
    )


def stalled_upload(request: Request) -> WriteTimeout:
    """Return the exception for a server that takes no more of the body than it took so far."""
    return WriteTimeout(
        f"{request}: no byte of the body went out for {request.timeout.write} s; the server may "
        "be slow to read it, or raise timeout=Timeout(write=...)",
        request=request,
        curl_code=pycurl.E_OPERATION_TIMEDOUT,
        request_sent=True,
    )
