"""What came of one URL: the row that is kept of it."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, cast

from curlhttp._models.scrub import shown_url, without_userinfo
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._models.response import Response

__all__ = ["TIMINGS", "FetchRow"]

TIMINGS = ("queue", "dns", "connect", "tls", "first_byte", "total")
_encode = json.JSONEncoder(ensure_ascii=False).encode


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
        made = cls(row, without_userinfo(url) if "@" in url else url, host=host)
        made.attempts = len(outcome.attempts) or 1
        if outcome.timings is not None:
            # They come first, in this order.
            made.timings = cast("tuple[float, ...]", outcome.timings[: len(TIMINGS)])
        if isinstance(outcome, RequestException):
            made._note_error(outcome)
        else:
            made._note_response(outcome)
        return made

    @classmethod
    def of_no_request(cls, row: int, url: str, error: Exception) -> FetchRow:
        """Return the row of what is no URL, or none that can be sent.

        Args:
            row: see the attribute.
            url: likewise.
            error: says why.
        """
        made = cls(row, shown_url(url))
        made._note_error(error)
        return made

    def _note_error(self, error: Exception) -> None:
        self.error, self.message = type(error).__name__, str(error)

    def _note_response(self, response: Response) -> None:
        self.status = response.status_code
        self.final_url = response.url if response.url != self.url else None
        self.body = response.content
        self.size = len(self.body)
        for name, value in response.headers.multi_items():
            self.headers.setdefault(name.lower(), []).append(value)

    def fields(self) -> dict[str, object]:
        """Return all columns, in their order."""
        return {name: getattr(self, name) for name in _COLUMNS}

    def to_json(self) -> bytes:
        """Return a line of JSON; a body that is not UTF-8 is "body_base64"."""
        fields = self.fields()
        if self.timings is not None:
            fields["timings"] = dict(zip(TIMINGS, self.timings, strict=True))
        moment = datetime.fromtimestamp(self.fetched_at / 1000, timezone.utc)
        fields["fetched_at"] = moment.isoformat(timespec="milliseconds")
        if self.body is not None:
            try:
                fields["body"] = self.body.decode()
            except UnicodeDecodeError:
                fields["body"] = None
                fields["body_base64"] = base64.b64encode(self.body).decode()
        return _encode(fields).encode("utf-8", "replace") + b"\n"


_COLUMNS = [name for name in FetchRow.__slots__ if name != "host"]
