"""Find the final head among the header lines of an attempt, and check its body. Pure.

libcurl also parses heads. This module finds errors that libcurl accepts or does not see.
"""

from __future__ import annotations

import re

from curlhttp._http.headers import Headers
from curlhttp._http.request import ClientRequest
from curlhttp._http.response import Head, has_body

ENDS = (b"\r\n", b"\n")  # lines that end a head
_SWITCHING_PROTOCOLS = 101
_END = b"\r\n"
_UNSEEN_CODING = r"\ntransfer-encoding[ \t]+:"  # compiled when it is first used


def is_final(head: Head) -> bool:
    """Return whether no other head follows (RFC 9110, section 15.2)."""
    return head.status_code >= 200 or head.status_code == _SWITCHING_PROTOCOLS


def parse_final_head(lines: list[bytes]) -> Head | None:
    """Return the head after all informational ones, with its trailers.

    Args:
        lines: of all heads and trailers so far, with their line ends.

    Returns:
        None while it is incomplete, and if a head does not begin with a status line.
    """
    start = 0
    for number, line in enumerate(lines):
        if line in ENDS:
            head = Head(b"".join(lines[start : number + 1]))
            if is_final(head):
                head.trailers = b"".join(lines[number + 1 :])
                return head
            # Without a status line it is not a response, and the next head may be none either.
            if not head.status_code:
                return None
            start = number + 1
    return None


def parse_response_head(lines: list[bytes], request: ClientRequest) -> Head | None:
    """Return the final head if it is complete and a response to the request, else None.

    libcurl accepts an incomplete head as a complete one.

    Args:
        lines: see parse_final_head.
        request: sent to the server.
    """
    if lines.count(_END) == 1 and lines[-1] == _END:  # most are like this
        head = Head(b"".join(lines))
        if head.status_code >= 200:
            return head
    whole = parse_final_head(lines)
    return None if whole is not None and is_unasked_upgrade(whole, request) else whole


def is_unasked_upgrade(head: Head, request: ClientRequest) -> bool:
    """Return whether the server switches to a protocol that was not requested.

    libcurl treats everything up to the end of the connection as the body.

    Source: RFC 9110, section 7.8.
    """
    return head.status_code == _SWITCHING_PROTOCOLS and request.get_header("upgrade") is None


def has_unasked_upgrade(lines: list[bytes], request: ClientRequest) -> bool:
    """Return whether the final head among the lines is an unrequested upgrade."""
    if not any(line[8:12] == b" 101" for line in lines):
        return False
    head = parse_final_head(lines)
    return head is not None and is_unasked_upgrade(head, request)


def lacks_status_line(lines: list[bytes]) -> bool:
    """Return whether a head, complete or not, does not begin with a status line.

    Args:
        lines: of all heads and trailers so far, with their line ends.
    """
    begins = True
    for line in lines:
        if begins:
            head = Head(line)
            if not head.status_code:
                return True
        begins = line in ENDS
        if begins and is_final(head):
            return False
    return False


def contradicts_length(head: Head, method: str, size: int) -> bool:
    """Return whether the head announces another body length than libcurl delivered.

    libcurl ignores a Content-Length above 63 bits, and fields with a blank before the colon; then
    it reads to the end of the connection, and treats that as the end of the body.

    Args:
        head: the final one.
        method: of the request.
        size: bytes of the body on the wire.

    Source: RFC 9112, section 6.3.
    """
    if head.status_code < 200 or not has_body(method, head.status_code):
        return False
    if re.search(_UNSEEN_CODING, head.lower) is not None:
        return True  # the chunks are in the body
    # Without a length, libcurl has checked the chunks or the end of the connection.
    if "content-length" not in head.lower:
        return False
    fields = Headers.from_block(head.block)
    # Chunks end the body, whatever the length says.
    if any("chunked" in coding.lower() for coding in fields.get_list("transfer-encoding")):
        return False
    lengths = ",".join(fields.get_list("content-length")).split(",")
    return any(_differs(length.strip(" \t"), size) for length in lengths)


def _differs(length: str, size: int) -> bool:
    # No int(): it refuses 4,300 digits.
    return length.isdigit() and (length.lstrip("0") or "0") != str(size)
