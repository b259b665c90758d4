"""The head of a response as it came: its status, and what shows without reading its fields."""

from __future__ import annotations

import re

__all__ = ["REDIRECT_STATUSES", "Head", "has_body", "phrase_of"]

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_WITHOUT_BODY = (204, 304)

# An empty one does not redirect: the body counts then, and must not be cut like a redirect's.
_LOCATION = re.compile(r"\nlocation:[^\n]*[^\x00-\x20\x7f\x85\xa0]").search
# libcurl passes on whatever looks like one to it: "HTTP/2026 05:", "HTTP/1.1 2000". What it writes
# itself, for HTTP/2 and 3, has no reason.
_STATUS_LINE = re.compile(rb"HTTP/(?:1\.[01] ([1-9]\d\d)[ \t\r\n]|[23] ([1-9]\d\d) \r\n)").match
_STATUSES: dict[bytes, int] = {}  # by the bytes that say it: a few thousand at most
_known_status = _STATUSES.get


def has_body(method: str, status_code: int) -> bool:
    """Return whether the answer to a method may have a body (RFC 9112, section 6.3)."""
    return method != "HEAD" and status_code not in _WITHOUT_BODY


def _read_status(start: bytes) -> int:
    """Return the status that a head begins with, 0 if that is no status line."""
    found = _STATUS_LINE(start)
    if found is None:
        return 0
    status = _STATUSES[start] = int(found[1] or found[2])
    return status


class Head:
    """The head of a response, as received: status line, header fields and trailers.

    Attributes:
        block: all of it, as bytes.
        lower: the same in lower case, as latin-1 text.
        may_have_codings: Transfer-Encoding or Content-Encoding may be there, or is only named.
        status_code: of three digits; 0 where the first line is no status line.
        trailers: what came after the body.
    """

    __slots__ = ("block", "lower", "may_have_codings", "status_code", "trailers")

    def __init__(self, block: bytes, trailers: bytes = b"") -> None:
        self.block: bytes = block
        start = block[:13]  # "HTTP/1.1 200 " or "HTTP/2 200 \r\n"
        self.status_code: int = _known_status(start) or _read_status(start)
        # To look for a field without reading all of them. In a str that is a third of the price.
        self.lower: str = block.lower().decode("latin-1")
        self.may_have_codings: bool = "-encoding" in self.lower
        self.trailers: bytes = trailers

    def _status_line(self) -> tuple[str, str]:
        """Return version and reason as received."""
        line = self.block.partition(b"\n")[0].decode("latin-1")
        version, _, rest = line.partition(" ")
        return version, rest[4:].strip()

    @property
    def http_version(self) -> str:
        """Return "HTTP/1.0", "HTTP/1.1", "HTTP/2" or "HTTP/3"."""
        return self._status_line()[0]

    @property
    def redirects(self) -> bool:
        """Return whether status and Location send the client elsewhere, without reading fields."""
        return self.status_code in REDIRECT_STATUSES and _LOCATION(self.lower) is not None

    @property
    def is_framed_twice(self) -> bool:
        """Return whether it has both a Transfer-Encoding and a Content-Length."""
        lower = self.lower
        return "\ntransfer-encoding:" in lower and "\ncontent-length:" in lower

    @property
    def reason_phrase(self) -> str:
        """Return the reason, or the standard one: HTTP/2 and 3 send none."""
        version, reason = self._status_line()
        if reason or version.startswith("HTTP/1"):
            return reason
        return phrase_of(self.status_code)


def phrase_of(status_code: int) -> str:
    """Return the standard reason phrase of a status, "" for one that has none."""
    from http import HTTPStatus  # few responses are asked for their phrase

    try:
        return HTTPStatus(status_code).phrase
    except ValueError:
        return ""
