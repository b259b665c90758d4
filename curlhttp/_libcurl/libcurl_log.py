"""Read libcurl's debug output (CURLOPT_DEBUGFUNCTION).

`DebugLog` collects the output of one attempt, which is logged when the attempt ends: heads as they
were on the wire, and only the number of bytes of bodies. libcurl reports some facts nowhere else:
refused streams, GOAWAY, ALPN. They are parsed from the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Literal, TypeAlias

from curlhttp._http.redaction import HeadRedactor, escape_bytes, redact_log_line
from curlhttp._libcurl import pycurl
from curlhttp._runtime.log import log as request_logger

_MAX_BYTES = 64 * 1024  # of one attempt, because a server may send heads without end
_TEXT, _HEAD_IN, _HEAD_OUT = (
    int(pycurl.INFOTYPE_TEXT),
    int(pycurl.INFOTYPE_HEADER_IN),
    int(pycurl.INFOTYPE_HEADER_OUT),
)
_BODIES = {int(pycurl.INFOTYPE_DATA_IN): "received", int(pycurl.INFOTYPE_DATA_OUT): "sent"}
_MARKS = {_TEXT: "*", _HEAD_IN: "<", _HEAD_OUT: ">"}


class DebugLog:
    """Collect the log of one attempt, up to 64 KiB.

    Args:
        on_log: called first with each line (CURLOPT_DEBUGFUNCTION); must not raise.
        sensitive: lower-case names of header fields that are not shown.
    """

    def __init__(self, on_log: Callable[[int, bytes], None], sensitive: frozenset[str]) -> None:
        self._on_log = on_log
        self._sensitive = sensitive
        self._begun = monotonic()
        self._left = _MAX_BYTES
        self._found: list[tuple[float, int, bytes]] = []
        # libcurl may pass a head in pieces that end anywhere, even within a secret.
        self._started: dict[int, bytes] = {}
        self._bodies: dict[int, int] = {}
        self._mark = 0

    def __call__(self, kind: int, text: bytes) -> None:
        self._on_log(kind, text)
        if kind in _BODIES:
            self._bodies[kind] = self._bodies.get(kind, 0) + len(text)
        # HTTP/2 logs each field in a separate line ("[HTTP/2] [1] [cookie: ...]"), and then the
        # same head again.
        elif kind in _MARKS and self._left > 0 and not (kind == _TEXT and text[:1] == b"["):
            self._left -= len(text)
            self._add(kind, text)

    def note(self, text: str) -> None:
        """Add a line about something that curlhttp did."""
        self(_TEXT, text.encode())

    def _add(self, kind: int, text: bytes) -> None:
        since = monotonic() - self._begun
        if kind == _TEXT:
            self._found.append((since, kind, text))
            return
        *whole, rest = (self._started.pop(kind, b"") + text).split(b"\n")
        self._found += [(since, kind, line.removesuffix(b"\r")) for line in whole]
        if rest:
            self._started[kind] = rest

    def mark(self) -> None:
        """Leave out the lines from here to `cut`."""
        self._mark = len(self._found)

    def cut(self) -> None:
        """Leave out the lines since `mark`."""
        del self._found[self._mark :]

    def take(self) -> Iterable[str]:
        """Return the lines so far, and stop collecting."""
        found, left, self._left = self._found, self._left, 0
        self._found = []
        return self._format(found, left)

    def _format(self, found: list[tuple[float, int, bytes]], left: int) -> Iterator[str]:
        masks = request_logger.masks
        heads = {kind: HeadRedactor(self._sensitive) for kind in (_HEAD_IN, _HEAD_OUT)}
        for since, kind, raw in found:
            if not masks:
                line = escape_bytes(raw.rstrip())
            else:
                line = redact_log_line(raw) if kind == _TEXT else heads[kind].line(raw)
            yield f"+{since:.6f} {_MARKS[kind]} {line}"
        for kind, raw in self._started.items():  # it may contain part of a secret
            yield f"{_MARKS[kind]} {len(raw)} bytes of a line that did not end"
        for kind, size in self._bodies.items():
            yield f"* {size} bytes of body {_BODIES[kind]}"
        if left <= 0:
            yield f"* the rest is left out: it is more than {_MAX_BYTES} bytes"


# --- Parse what libcurl reports only in log text: refused streams, GOAWAY, ALPN ---

LogEvent: TypeAlias = Literal["refused", "goaway", "downgrades", "alpn"]

# Patterns are compiled when they are first used: few connections need them.
_REFUSED = rb"HTTP/[23] stream \d+ refused by server"
_GOAWAY = rb"received GOAWAY, error=\d+, last_stream=(\d+)"
_RESET_BY_US = r"HTTP/2 stream (\d+) reset by curl(?: \(error 0x([0-9a-f]+))?"
# Codes with which nghttp2 resets a stream because of its content (RFC 9113, section 7).
_OWN_REASONS = frozenset({0x1, 0x2, 0x3, 0x5, 0x6, 0x7, 0x8, 0x9})


def parse_log_event(kind: int, text: bytes) -> tuple[LogEvent, int] | None:
    """Parse a line of the log; return None if it is not relevant here.

    refused      the server processed nothing of the request: REFUSED_STREAM, or a GOAWAY that
                 leaves its stream out (RFC 9113, section 8.7)
    goaway       with the last stream that the server may have processed
    downgrades   to HTTP/1.1, because the server sent HTTP_1_1_REQUIRED (RFC 9113, section 7)
    alpn         a new TLS connection multiplexes (1), or speaks HTTP/1.1 (0)

    Args:
        kind: of the line (CURLOPT_DEBUGFUNCTION).
        text: the line.
    """
    if kind != _TEXT or text[:1] == b"[":  # 25 lines a request, many "[HTTP/2] [1] [...]"
        return None
    # Six bytes decide most lines, which is cheaper than three patterns.
    start = text[:6]
    if start == b"HTTP/2" or start == b"HTTP/3":
        return ("refused", 0) if re.match(_REFUSED, text) else None
    if start == b"receiv":
        found = re.match(_GOAWAY, text)
        return None if found is None else ("goaway", int(found[1]))
    if start == b"Downgr":
        return "downgrades", 0
    if start == b"ALPN: " and text.startswith(b"ALPN: server "):
        is_http1 = b"accepted http/1" in text or b"did not agree" in text
        return "alpn", int(not is_http1)
    return None


def get_stream_reset(message: str) -> int:
    """Return the number of the HTTP/2 stream that libcurl reset according to a message, 0 for none.

    libcurl resets the streams that a GOAWAY with an error excludes.
    """
    found = re.match(_RESET_BY_US, message)
    return 0 if found is None else int(found[1])


def is_excluded_by_goaway(message: str) -> bool:
    """Return whether libcurl reset a stream for a reason that only a GOAWAY can have.

    It resets the streams after the last one that the server may have processed.
    """
    found = re.match(_RESET_BY_US, message)
    return found is not None and found[2] is not None and int(found[2], 16) not in _OWN_REASONS
