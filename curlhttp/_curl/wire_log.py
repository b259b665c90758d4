"""Collect libcurl's debug output of one attempt, and log it when the attempt ends.

Heads are told as they were on the wire; of bodies, only how many bytes there were. Nothing of it is
decided upon: that is libcurl_log's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

import pycurl

from curlhttp._engine.log import log as watch_log
from curlhttp._engine.log import watch_of
from curlhttp._models.redaction import HeadRedactor, escape_bytes, redact_log_line

if TYPE_CHECKING:
    from curlhttp._curl.transfer import Transfer
    from curlhttp._models.request import Request

__all__ = ["WireLog", "listen"]

_MOST = 64 * 1024  # bytes of one attempt: a server may send heads without end
_TEXT, _HEAD_IN, _HEAD_OUT = (
    int(pycurl.INFOTYPE_TEXT),
    int(pycurl.INFOTYPE_HEADER_IN),
    int(pycurl.INFOTYPE_HEADER_OUT),
)
_BODIES = {int(pycurl.INFOTYPE_DATA_IN): "received", int(pycurl.INFOTYPE_DATA_OUT): "sent"}
_MARKS = {_TEXT: "*", _HEAD_IN: "<", _HEAD_OUT: ">"}


class WireLog:
    """Collects the log of one attempt, up to 64 KiB of it.

    Args:
        on_log: is called with each line first (CURLOPT_DEBUGFUNCTION); does not raise.
        sensitive: lower-case names of header fields that are not to be shown.
    """

    def __init__(self, on_log: Callable[[int, bytes], None], sensitive: frozenset[str]) -> None:
        self._on_log = on_log
        self._sensitive = sensitive
        self._begun = monotonic()
        self._left = _MOST
        self._found: list[tuple[float, int, bytes]] = []
        # libcurl may tell a head in pieces that end anywhere, in the middle of a secret too.
        self._started: dict[int, bytes] = {}
        self._bodies: dict[int, int] = {}

    def __call__(self, kind: int, text: bytes) -> None:
        self._on_log(kind, text)
        if kind in _BODIES:
            self._bodies[kind] = self._bodies.get(kind, 0) + len(text)
        # HTTP/2 tells each field in a line of its own ("[HTTP/2] [1] [cookie: ...]"), and then the
        # same head once more.
        elif kind in _MARKS and self._left > 0 and not (kind == _TEXT and text[:1] == b"["):
            self._left -= len(text)
            self._add(kind, text)

    def note(self, text: str) -> None:
        """Take down what we did ourselves."""
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

    def take(self) -> Iterable[str]:
        """Return the lines so far, and collect no more."""
        found, left, self._left = self._found, self._left, 0
        self._found = []
        return self._told(found, left)

    def _told(self, found: list[tuple[float, int, bytes]], left: int) -> Iterator[str]:
        masks = watch_log.masks
        heads = {kind: HeadRedactor(self._sensitive) for kind in (_HEAD_IN, _HEAD_OUT)}
        for since, kind, raw in found:
            if not masks:
                line = escape_bytes(raw.rstrip())
            else:
                line = redact_log_line(raw) if kind == _TEXT else heads[kind].line(raw)
            yield f"+{since:.6f} {_MARKS[kind]} {line}"
        for kind, raw in self._started.items():  # the rest may be a part of a secret
            yield f"{_MARKS[kind]} {len(raw)} bytes of a line that did not end"
        for kind, size in self._bodies.items():
            yield f"* {size} bytes of body {_BODIES[kind]}"
        if left <= 0:
            yield f"* the rest is left out: it is more than {_MOST} bytes"


def listen(transfer: Transfer, request: Request) -> None:
    """Collect the log of a request that is about to go out, if somebody watches it."""
    watch = watch_of(request)
    if watch is not None:
        log = WireLog(transfer._on_log, request.sensitive)
        watch.add(log)
        transfer.handle.read_log(log)
