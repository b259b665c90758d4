"""The row for each URL in a part."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from json.encoder import encode_basestring as _quote
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias, cast

from curlhttp._features.fetch.json_bodies import encode_base64, encode_utf8, is_utf8
from curlhttp._features.fetch.outcome_facts import get_body, get_facts, get_retry_after
from curlhttp._features.fetch.tables import TIMINGS
from curlhttp._features.map.bodies import BodyFile
from curlhttp._http.redaction import display_url, strip_userinfo
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    from curlhttp._http.response import Response


def _now() -> int:
    return time.time_ns() // 1_000_000


Field: TypeAlias = tuple[str, str, str]
"""A header field: its name in lower case, its value, and both as JSON."""

_MAX_FIELDS = 1000
_MAX_LINE = 100  # characters of a line in the cache
_get_name, _get_json = itemgetter(0), itemgetter(2)


class _FieldCache(dict[str, "Field | None"]):
    """The fields of header lines, because servers repeat most of their lines.

    A line without a colon is None.
    """

    def __missing__(self, line: str) -> Field | None:
        name, colon, value = line.partition(":")
        field = make_field(name.rstrip(" \t"), value.strip(" \t\r")) if colon else None
        if len(line) <= _MAX_LINE:
            if len(self) >= _MAX_FIELDS:
                self.clear()
            self[line] = field
        return field


_read_line = _FieldCache().__getitem__


def _read_fields(response: Response) -> list[Field]:
    """Return the header fields of a response. This is cheap if its headers were not accessed."""
    block = response._head.block.decode("latin-1")
    if response._headers is not None or "\n " in block or "\n\t" in block:
        return [make_field(name, value) for name, value in response.headers.multi_items()]
    lines = block.split("\n")
    del lines[0]  # the status
    return list(filter(None, map(_read_line, lines)))


def has_duplicates(fields: list[Field]) -> bool:
    """Return whether a name occurs more than once."""
    return len({*map(_get_name, fields)}) < len(fields)


def make_field(name: str, value: str) -> Field:
    """Create a header field."""
    lower = name.lower()
    return lower, value, f"{_quote(lower)}: [{_quote(value)}]"


@dataclass(slots=True)
class FetchRow:
    """The result of one URL. docs/reference/distributed.md describes the columns.

    Attributes:
        row: its position in the input, starting at 0.
        url: the URL in the input, without user and password. If it is invalid, as messages show it.
        final_url: the URL after redirects, or None if there were none. After an error, the URL of
            the hop that failed.
        status: the status code, or None.
        error: the name of the exception's class, or None.
        message: the message of the exception, or None.
        reason: why there is no complete response, in a word of failure_reason(); or None.
        curl_code: libcurl's code for the error, or None.
        request_sent: a byte of the request may have left this machine.
        last_status: the status of the response that failed, such as one whose body ended early.
        retry_after: seconds that the last response asks to wait, or None.
        attempts: the number of attempts, or 0 if the URL is invalid.
        timings: seconds of the last attempt, in the order of TIMINGS, or None if nothing was sent.
        fields: the header fields of the response.
        size: the size of the decoded body in bytes.
        body: the body of the response, also in a file if it is large; or None.
        body_file: the path of a larger body in the folder of the fetch, or None.
        fetched_at: when the result arrived, in milliseconds since 1970.
        host: the host of the URL, which is not a column.
        unchanged: the body is the same as in the earlier run of `since`, and not stored again.
    """

    row: int
    url: str
    final_url: str | None = None
    status: int | None = None
    error: str | None = None
    message: str | None = None
    attempts: int = 0
    timings: tuple[float, ...] | None = None
    fields: list[Field] = field(default_factory=list)
    size: int = 0
    body: bytes | BodyFile | None = None
    body_file: str | None = None
    fetched_at: int = field(default_factory=_now)
    host: str = ""
    reason: str | None = None
    curl_code: int | None = None
    request_sent: bool = False
    last_status: int | None = None
    retry_after: float | None = None
    unchanged: bool = False

    @classmethod
    def from_outcome(
        cls,
        row: int,
        url: str,
        host: str,
        outcome: Response | RequestException,
        at: int,
        *,
        as_text: bool,
        file: BodyFile | None = None,
    ) -> FetchRow:
        """Return the row of a request.

        Args:
            row: see the attribute.
            url: see the attribute.
            host: see the attribute.
            outcome: a response with its body, or an error.
            at: when the outcome arrived, in milliseconds since 1970.
            as_text: store the body of a text as UTF-8, whatever its charset is.
            file: has the body of the response if it is large.
        """
        shown = strip_userinfo(url) if "@" in url else url
        times = outcome.timings
        # These are the first fields of Timings, in the same order.
        timings = None if times is None else cast("tuple[float, ...]", times[: len(TIMINGS)])
        attempts = len(outcome.attempts) or 1
        if isinstance(outcome, RequestException):
            failed = cls(row, shown, attempts=attempts, timings=timings, fetched_at=at, host=host)
            failed._set_error(outcome, at / 1000)
            return failed
        body = get_body(outcome, file, as_text=as_text)
        final, status = outcome.url, outcome.status_code
        retry_after = get_retry_after(outcome, at / 1000)
        return cls(  # positional arguments, because they are faster
            row,
            shown,
            None if final == shown else final,
            status,
            None,
            None,
            attempts,
            timings,
            _read_fields(outcome),
            len(body),
            body,
            None,
            at,
            host,
            None,
            None,
            True,
            None,
            retry_after,
        )

    @classmethod
    def from_error(cls, row: int, url: str, error: Exception) -> FetchRow:
        """Return the row of an invalid URL.

        Args:
            row: see the attribute.
            url: see the attribute.
            error: the reason why the URL is invalid.
        """
        failed = cls(row, display_url(url))
        failed._set_error(error, failed.fetched_at / 1000)
        return failed

    def set_unchanged(self, validators: dict[str, str]) -> None:
        """Note that the server confirmed the validators of an earlier run with a 304.

        Args:
            validators: by lower-case names. They are stored, so that the next run knows them.
        """
        self.unchanged, self.body = True, None
        names = {*map(_get_name, self.fields)}
        self.fields += [make_field(*pair) for pair in validators.items() if pair[0] not in names]

    def _set_error(self, error: Exception, wall: float) -> None:
        self.error, self.message = type(error).__name__, str(error)
        facts = get_facts(error, wall)
        self.reason, self.curl_code = facts.reason, facts.curl_code
        self.request_sent, self.last_status = facts.request_sent, facts.last_status
        self.retry_after = facts.retry_after
        if facts.last_url != self.url:
            self.final_url = facts.last_url

    def grouped_fields(self) -> list[tuple[str, list[str]]]:
        """Return each lower-case name with its values, in the order of first appearance."""
        if not has_duplicates(self.fields):
            return [(name, [value]) for name, value, _ in self.fields]
        grouped: dict[str, list[str]] = {}
        for name, value, _ in self.fields:
            grouped.setdefault(name, []).append(value)
        return list(grouped.items())

    def to_json(self) -> bytes:
        """Return the row as a line of JSON. A body that is not UTF-8 becomes "body_base64"."""
        body, base64_field = "null", ""
        if self.body is not None:
            assert isinstance(self.body, bytes)
            try:
                body = _quote(self.body.decode())
            except UnicodeDecodeError:
                base64_field = f', "body_base64": "{base64.b64encode(self.body).decode()}"'
        line = f"{self._json_before_body()}{body}{self._json_after_body()}{base64_field}}}\n"
        return line.encode("utf-8", "replace")

    def json_pieces(self) -> Iterator[bytes]:
        """Yield the pieces of to_json(), of a row with a large body."""
        body = self.body
        assert isinstance(body, BodyFile)
        before, after = (
            part.encode("utf-8", "replace")
            for part in (self._json_before_body(), self._json_after_body())
        )
        if is_utf8(body):
            yield before + b'"'
            yield from map(str.encode, encode_utf8(body))
            yield b'"' + after + b"}\n"
        else:
            yield before + b"null" + after + b', "body_base64": "'
            yield from map(str.encode, encode_base64(body))
            yield b'"}\n'

    def _json_before_body(self) -> str:
        # This is formatted by hand, because json takes twice as long for the same fields.
        timings = "null" if self.timings is None else _TIMINGS_FORMAT % self.timings
        final = "null" if self.final_url is None else _quote(self.final_url)
        if self.error is None:
            outcome = (
                f'"status": {self.status}, "error": null, "message": null, "reason": null, '
                f'"curl_code": null, "request_sent": true, "last_status": null'
            )
        else:
            outcome = (
                '"status": null, '
                + _encode({name: getattr(self, name) for name in _OF_ERRORS})[1:-1]
            )
        retry_after = "null" if self.retry_after is None else f"{self.retry_after:.3f}"
        return (
            f'{{"row": {self.row}, "url": {_quote(self.url)}, "final_url": {final}, {outcome}, '
            f'"retry_after": {retry_after}, "unchanged": {_BOOLS[self.unchanged]}, '
            f'"attempts": {self.attempts}, "timings": {timings}, '
            f'"headers": {{{self._fields_as_json()}}}, "size": {self.size}, "body": '
        )

    def _json_after_body(self) -> str:
        body_file = "null" if self.body_file is None else _quote(self.body_file)
        return f', "body_file": {body_file}, "fetched_at": "{format_time(self.fetched_at)}"'

    def _fields_as_json(self) -> str:
        if not has_duplicates(self.fields):
            return ", ".join(map(_get_json, self.fields))
        return ", ".join(
            [
                f"{_quote(name)}: [{', '.join(map(_quote, values))}]"
                for name, values in self.grouped_fields()
            ]
        )


_OF_ERRORS = ("error", "message", "reason", "curl_code", "request_sent", "last_status")
_BOOLS = ("false", "true")
_encode = json.JSONEncoder(ensure_ascii=False).encode
_TIMINGS_FORMAT = "{" + ", ".join(f'"{name}": %.6f' for name in TIMINGS) + "}"


def format_time(milliseconds: int) -> str:
    """Return a time as ISO 8601.

    Args:
        milliseconds: since 1970.
    """
    second, millisecond = divmod(milliseconds, 1000)
    return f"{_format_second(second)}.{millisecond:03}+00:00"


@lru_cache(maxsize=4)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
