"""The row that a part has for each URL."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from json.encoder import encode_basestring as _quote
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
    """The result of one URL; docs/reference/distributed.md describes the columns.

    Attributes:
        row: its position in the input, starting at 0.
        url: as it was given, without user and password; if it is invalid, as messages show it.
        final_url: the URL after redirects, or None if there were none.
        status: the status code, or None.
        error: the name of the exception's class, or None.
        message: the message of the exception, or None.
        attempts: the number of attempts; 0 if the URL is invalid.
        timings: seconds of the last attempt, in the order of TIMINGS, or None if nothing was sent.
        headers: the headers of the response: lists of values by lower-case name.
        size: the size of the decoded body in bytes.
        body: the body of the response, or None.
        body_file: the path of a larger body in the folder of the fetch, or None.
        fetched_at: when the row was made, in milliseconds since 1970.
        host: the host of the URL; this is not a column.
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
            url: see the attribute.
            host: see the attribute.
            outcome: a response with its body, or an error.
        """
        shown = strip_userinfo(url) if "@" in url else url
        times = outcome.timings
        # They are the first fields, in this order.
        timings = None if times is None else cast("tuple[float, ...]", times[: len(TIMINGS)])
        attempts = len(outcome.attempts) or 1
        if isinstance(outcome, RequestException):
            failed = cls(row, shown, attempts=attempts, timings=timings, host=host)
            failed._set_error(outcome)
            return failed
        headers: dict[str, list[str]] = {}
        for name, value in outcome.headers.multi_items():
            lower = name.lower()
            if lower in headers:
                headers[lower].append(value)
            else:
                headers[lower] = [value]
        body, final = outcome.content, outcome.url
        return cls(  # positional arguments, because they are faster
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
        """Return the row of an invalid URL.

        Args:
            row: see the attribute.
            url: see the attribute.
            error: the reason.
        """
        failed = cls(row, display_url(url))
        failed._set_error(error)
        return failed

    def _set_error(self, error: Exception) -> None:
        self.error, self.message = type(error).__name__, str(error)

    def to_json(self) -> bytes:
        """Return the row as a line of JSON; a body that is not UTF-8 becomes "body_base64"."""
        body, base64_field = "null", ""
        if self.body is not None:
            try:
                body = _quote(self.body.decode())
            except UnicodeDecodeError:
                base64_field = f', "body_base64": "{base64.b64encode(self.body).decode()}"'
        timings = "null"
        if self.timings is not None:
            timings = _TIMINGS_FORMAT % self.timings
        headers = ", ".join(
            [
                f"{_quote(name)}: [{', '.join(map(_quote, values))}]"
                for name, values in self.headers.items()
            ]
        )
        second, millisecond = divmod(self.fetched_at, 1000)
        # Formatted by hand, because json takes twice as long for a dict of the same fields.
        line = (
            f'{{"row": {self.row}, "url": {_quote(self.url)}, '
            f'"final_url": {_quote_or_null(self.final_url)}, '
            f'"status": {"null" if self.status is None else self.status}, '
            f'"error": {_quote_or_null(self.error)}, "message": {_quote_or_null(self.message)}, '
            f'"attempts": {self.attempts}, "timings": {timings}, "headers": {{{headers}}}, '
            f'"size": {self.size}, "body": {body}, "body_file": {_quote_or_null(self.body_file)}, '
            f'"fetched_at": "{_format_second(second)}.{millisecond:03}+00:00"{base64_field}}}\n'
        )
        return line.encode("utf-8", "replace")


_TIMINGS_FORMAT = "{" + ", ".join(f'"{name}": %r' for name in TIMINGS) + "}"


def _quote_or_null(value: str | None) -> str:
    return "null" if value is None else _quote(value)


@lru_cache(maxsize=4)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
