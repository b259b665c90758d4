"""What came of one line: the record that is kept, as JSON or in the columns of a table."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._models.response import Response
    from curlhttp.cli.fetch.lines import InputLine

__all__ = ["FetchRecord"]

_encode = json.JSONEncoder(ensure_ascii=False).encode


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@dataclass(kw_only=True, slots=True)
class FetchRecord:
    """What came of one line.

    Attributes:
        line: its number.
        fingerprint: see InputLine.
        ok: there is a response, and its status is below 400.
        id: see InputLine.
        method: of the request; None of a bad line.
        url: that was asked for, without user and password; None of a bad line.
        final_url: where redirects led, or None.
        status: of the response, or None.
        headers: of the response: lists of values by lower-case name.
        error: the name of the exception's class, "BadLine", or None.
        message: what it says, or None.
        attempts: how many there were; 0 of a bad line.
        elapsed: seconds that the last attempt took, or None.
        size: bytes of the body, with its coding undone.
        fetched_at: in UTC, ISO 8601.
        body: of the response, or None.
    """

    line: int
    fingerprint: int
    ok: bool = False
    id: str | int | None = None
    method: str | None = None
    url: str | None = None
    final_url: str | None = None
    status: int | None = None
    headers: dict[str, list[str]] = field(default_factory=dict)
    error: str | None = None
    message: str | None = None
    attempts: int = 0
    elapsed: float | None = None
    size: int = 0
    fetched_at: str = field(default_factory=_now)
    body: bytes | None = None

    @classmethod
    def of_problem(cls, line: InputLine, problem: str) -> FetchRecord:
        """Return the record of a bad line.

        Args:
            line: it.
            problem: what is wrong with it.
        """
        return cls(
            line=line.number,
            fingerprint=line.fingerprint,
            id=line.id,
            error="BadLine",
            message=problem,
        )

    @classmethod
    def of(
        cls, line: InputLine, method: str, url: str, outcome: Response | RequestException
    ) -> FetchRecord:
        """Return the record of a request.

        Args:
            line: what asked for it.
            method: of the request as it was first.
            url: likewise, without user and password.
            outcome: a response with its body, or an error.
        """
        record = cls(
            line=line.number,
            fingerprint=line.fingerprint,
            id=line.id,
            method=method,
            url=url,
            attempts=max(1, len(outcome.attempts)),
        )
        timings = outcome.timings
        record.elapsed = None if timings is None else round(timings.total, 6)
        if isinstance(outcome, RequestException):
            record.error, record.message = type(outcome).__name__, str(outcome)
        else:
            record._fill(outcome)
        return record

    def _fill(self, response: Response) -> None:
        self.status = response.status_code
        self.ok = response.status_code < 400
        self.final_url = response.url if response.url != self.url else None
        self.body = response.content
        self.size = len(self.body)
        for name, value in response.headers.multi_items():
            self.headers.setdefault(name.lower(), []).append(value)

    def fields(self, **more: object) -> dict[str, object]:
        """Return all but the body, in the order of this class; a resume reads the first three.

        Args:
            more: fields to add at the end.
        """
        found = {name: getattr(self, name) for name in self.__slots__ if name != "body"}
        return {**found, "fingerprint": f"{self.fingerprint:08x}", **more}

    def to_json(self, **more: object) -> bytes:
        """Return the record as a line of JSON.

        Args:
            more: fields to add at the end.
        """
        return _encode(self.fields(**more)).encode("utf-8", "replace") + b"\n"

    def body_as_json(self) -> dict[str, str | None]:
        """Return the body as a field: "body" if it is UTF-8, else "body_base64"."""
        if self.body is None:
            return {"body": None}
        try:
            return {"body": self.body.decode()}
        except UnicodeDecodeError:
            return {"body_base64": base64.b64encode(self.body).decode()}
