"""Parse what libcurl reports only in log text: refused streams, GOAWAY, ALPN."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import pycurl

__all__ = ["LogNews", "is_left_out_by_goaway", "news_in", "stream_reset_by_us"]

LogNews: TypeAlias = Literal["refused", "goaway", "downgrades", "alpn"]

_TEXT = int(pycurl.INFOTYPE_TEXT)
_REFUSED = re.compile(rb"HTTP/[23] stream \d+ refused by server").match
_GOAWAY = re.compile(rb"received GOAWAY, error=\d+, last_stream=(\d+)").match
_RESET_BY_US = re.compile(r"HTTP/2 stream (\d+) reset by curl(?: \(error 0x([0-9a-f]+))?").match
# What nghttp2 resets a stream with by itself, because of what came on it (RFC 9113, section 7).
_OWN_REASONS = frozenset({0x1, 0x2, 0x3, 0x5, 0x6, 0x7, 0x8, 0x9})


def news_in(kind: int, text: bytes) -> tuple[LogNews, int] | None:
    """Return what a line of the log tells, None for nothing that counts here.

    refused      the server processed nothing of the request: REFUSED_STREAM, or a GOAWAY that
                 leaves its stream out (RFC 9113, section 8.7)
    goaway       with the last stream that the server may have processed
    downgrades   to HTTP/1.1, as the server asked: HTTP_1_1_REQUIRED (RFC 9113, section 7)
    alpn         a new connection on TLS multiplexes (1), or speaks HTTP/1.1 (0)

    Args:
        kind: of the line (CURLOPT_DEBUGFUNCTION).
        text: the line.
    """
    if kind != _TEXT or text[:1] == b"[":  # 25 lines a request, many "[HTTP/2] [1] [...]"
        return None
    # Six bytes decide for most lines, which costs less than three patterns.
    start = text[:6]
    if start == b"HTTP/2" or start == b"HTTP/3":
        return ("refused", 0) if _REFUSED(text) else None
    if start == b"receiv":
        found = _GOAWAY(text)
        return None if found is None else ("goaway", int(found[1]))
    if start == b"Downgr":
        return "downgrades", 0
    if start == b"ALPN: " and text.startswith(b"ALPN: server "):
        is_http1 = b"accepted http/1" in text or b"did not agree" in text
        return "alpn", int(not is_http1)
    return None


def stream_reset_by_us(message: str) -> int:
    """Return the number of the HTTP/2 stream that libcurl says it has ended, 0 for none.

    It does so with those that a GOAWAY leaves out which has an error.
    """
    found = _RESET_BY_US(message)
    return 0 if found is None else int(found[1])


def is_left_out_by_goaway(message: str) -> bool:
    """Return whether libcurl ended a stream for a reason that only a GOAWAY can have given.

    It ends those beyond the last stream that the server may have processed.
    """
    found = _RESET_BY_US(message)
    return found is not None and found[2] is not None and int(found[2], 16) not in _OWN_REASONS
