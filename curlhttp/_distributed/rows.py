"""What came of one URL: the row that is kept of it."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from json.encoder import encode_basestring as _quoted
from typing import TYPE_CHECKING, cast

from curlhttp._models.redaction import display_url, strip_userinfo
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._models.response import Response

__all__ = ["TIMINGS", "FetchRow"]

TIMINGS = ("queue", "dns", "connect", "tls", "first_byte", "total")


def _now() -> int:
    return time.time_ns() // 1_000_000


@dataclass(slots=True)
class FetchRow:
    """What came of one URL; docs/reference/distributed.md has the columns.

    Attributes:
        row: its place in the input, from 0 on.
        url: as it was given, without user and password; of what is no URL, as messages show it.
        final_url: where redirects led, or None.
        status: of the response, or None.
        error: the name of the exception's class, or None.
        message: what it says, or None.
        attempts: how many there were; 0 of what is no URL.
        timings: seconds of the last attempt, as TIMINGS has them, or None if nothing was sent.
        headers: of the response: lists of values by lower-case name.
        size: bytes of the body, with its coding undone.
        body: of the response, or None.
        body_file: where a larger body is, below the folder of the fetch; or None.
        fetched_at: when the row was made, in milliseconds since 1970.
        host: of the URL; no column.
    """

    row: int
    url: str
    final_url: str | None = None
    status: int | None = None
    error: str | None = None
    message: str | None = None
    attempts: int = 0
    timings: tuple[float, ...] | None = None
    headers: dict[str, list[str]] = field(default_factory=dict)
    size: int = 0
    body: bytes | None = None
    body_file: str | None = None
    fetched_at: int = field(default_factory=_now)
    host: str = ""

    @classmethod
    def of(cls, row: int, url: str, host: str, outcome: Response | RequestException) -> FetchRow:
        """Return the row of a request.

        Args:
            row: see the attribute.
            url: likewise.
            host: likewise.
            outcome: a response with its body, or an error.
        """
        shown = strip_userinfo(url) if "@" in url else url
        times = outcome.timings
        # They come first, in this order.
        timings = None if times is None else cast("tuple[float, ...]", times[: len(TIMINGS)])
        attempts = len(outcome.attempts) or 1
        if isinstance(outcome, RequestException):
            made = cls(row, shown, attempts=attempts, timings=timings, host=host)
            made._note_error(outcome)
            return made
        headers: dict[str, list[str]] = {}
        for name, value in outcome.headers.multi_items():
            lower = name.lower()
            if lower in headers:
                headers[lower].append(value)
            else:
                headers[lower] = [value]
        body, final = outcome.content, outcome.url
        return cls(  # by position, which is what a row for each URL can afford
            row,
            shown,
            None if final == shown else final,
            outcome.status_code,
            None,
            None,
            attempts,
            timings,
            headers,
            len(body),
            body,
            None,
            _now(),
            host,
        )

    @classmethod
    def of_no_request(cls, row: int, url: str, error: Exception) -> FetchRow:
        """Return the row of what is no URL, or none that can be sent.

        Args:
            row: see the attribute.
            url: likewise.
            error: says why.
        """
        made = cls(row, display_url(url))
        made._note_error(error)
        return made

    def _note_error(self, error: Exception) -> None:
        self.error, self.message = type(error).__name__, str(error)

    def to_json(self) -> bytes:
        """Return a line of JSON; a body that is not UTF-8 is "body_base64"."""
        body, coded = "null", ""
        if self.body is not None:
            try:
                body = _quoted(self.body.decode())
            except UnicodeDecodeError:
                coded = f', "body_base64": "{base64.b64encode(self.body).decode()}"'
        timings = "null"
        if self.timings is not None:
            timings = _TIMINGS_FORMAT % self.timings
        headers = ", ".join(
            [
                f"{_quoted(name)}: [{', '.join(map(_quoted, values))}]"
                for name, values in self.headers.items()
            ]
        )
        second, millisecond = divmod(self.fetched_at, 1000)
        # Written out, since json takes twice as long for a dict of it.
        line = (
            f'{{"row": {self.row}, "url": {_quoted(self.url)}, '
            f'"final_url": {_text(self.final_url)}, '
            f'"status": {"null" if self.status is None else self.status}, '
            f'"error": {_text(self.error)}, "message": {_text(self.message)}, '
            f'"attempts": {self.attempts}, "timings": {timings}, "headers": {{{headers}}}, '
            f'"size": {self.size}, "body": {body}, "body_file": {_text(self.body_file)}, '
            f'"fetched_at": "{_moment(second)}.{millisecond:03}+00:00"{coded}}}\n'
        )
        return line.encode("utf-8", "replace")


_TIMINGS_FORMAT = "{" + ", ".join(f'"{name}": %r' for name in TIMINGS) + "}"


def _text(value: str | None) -> str:
    return "null" if value is None else _quoted(value)


@lru_cache(maxsize=4)
def _moment(second: int) -> str:
    return datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
