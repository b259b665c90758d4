"""Resume a download: decide which range to request, and whether the response fits the partial file.

Pure. Two versions of a file are never mixed: unless that is certain, the download starts over.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from enum import Enum
from hashlib import sha256
from typing import NamedTuple, TypeGuard

from curlhttp._features.http_date import parse_http_date
from curlhttp._http.decoding import parse_codings
from curlhttp._http.headers import Headers, parse_length
from curlhttp._http.redaction import redact_url
from curlhttp._http.request import ClientRequest
from curlhttp._http.url import URL

# RFC 9110, section 8.8.3. A server may refuse a request with a longer one.
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e\x80-\xff]{,1000}"').fullmatch
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.IGNORECASE | re.ASCII)
_SETTLED = 60.0  # seconds between modification and response that make a date a strong validator
_CHOICES = ("Accept", "Accept-Language")  # request fields that choose among representations


@dataclass(frozen=True)
class ResumeRecord:
    """What is stored next to a partial file, to identify the file and its version.

    Attributes:
        url: the requested URL for humans, with masked credentials.
        asked: a hash of the requested URL, and of the fields that choose a representation.
        source: the URL that sent the file, without its query, because signatures in it change.
        validator: a strong validator of the version (RFC 9110, section 8.8.1).
        total: size of the file in bytes, or None.
    """

    url: str
    asked: str
    source: str
    validator: str
    total: int | None

    @classmethod
    def of(
        cls, request: ClientRequest, source: URL, headers: Headers, wall: float
    ) -> ResumeRecord | None:
        """Return the record for a new download, None if it cannot be resumed.

        Args:
            request: of the download, before redirects.
            source: the URL that sends the file.
            headers: of the response.
            wall: seconds since the epoch.
        """
        validator = _find_validator(headers, wall)
        if validator is None or parse_codings(headers.get_list("content-encoding")):
            return None
        total = content_length(headers)
        return cls(
            redact_url(request.url), _hash_request(request), _strip_query(source), validator, total
        )

    def to_json(self) -> str:
        """Return the record as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: bytes) -> ResumeRecord | None:
        """Parse the JSON of to_json(); None if it is invalid, such as after a crash."""
        try:
            found = json.loads(text)
            stored = cls(**{field.name: found[field.name] for field in fields(cls)})
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        texts = (stored.url, stored.asked, stored.source, stored.validator)
        total = stored.total
        is_sound = all(isinstance(text, str) for text in texts) and _is_strong_validator(
            stored.validator
        )
        return stored if is_sound and (total is None or type(total) is int) else None


class ForeignFile(NamedTuple):
    """A partial file that another program wrote, so that no record says which version it is of.

    Attributes:
        size: in bytes, at least 1.
        written: when it was last written, in seconds since the epoch.
    """

    size: int
    written: float


class RangeRequest(NamedTuple):
    """A request for the rest of a file, or for a segment of it.

    Attributes:
        start: position of the first byte.
        stored: the record of the file; None for one that another program wrote.
        written: when that program wrote last; None if a checksum will show whether the rest fits.
        end: position after the last byte; None for the end of the file.
    """

    start: int
    stored: ResumeRecord | None
    written: float | None = None
    end: int | None = None

    def headers(self) -> dict[str, str]:
        """Return the header fields (RFC 9110, sections 13.1.5 and 14.2)."""
        fields = {"Range": f"bytes={self.start}-{'' if self.end is None else self.end - 1}"}
        if self.stored is not None:
            fields["If-Range"] = self.stored.validator
        return fields


def plan_foreign_range(foreign: ForeignFile, has_checksum: bool) -> RangeRequest:
    """Return the range to request for a file that another program wrote.

    It begins with the last byte, because the response to a range beyond the end says nothing about
    the version.
    """
    return RangeRequest(foreign.size - 1, None, None if has_checksum else foreign.written)


def plan_range(
    stored: ResumeRecord | None, size: int, request: ClientRequest, hop: ClientRequest
) -> RangeRequest | None:
    """Return the range to request for a download, None for the whole file.

    Args:
        stored: the record next to the partial file, or None.
        size: of the partial file in bytes.
        request: of the download.
        hop: the request to send, perhaps after redirects.
    """
    if size < 1 or not can_resume(stored, request) or not _is_source(stored, hop):
        return None
    if stored.total is not None and size > stored.total:
        return None
    # If the partial file is complete, request its last byte again: the response to a range beyond
    # the end does not say whether the version is still the same.
    return RangeRequest(size - 1 if size == stored.total else size, stored)


def plan_segment(
    stored: ResumeRecord | None, start: int, end: int, hop: ClientRequest
) -> RangeRequest | None:
    """Return the range to request for a segment, None if the request is not for its source.

    Args:
        stored: the record next to the partial file.
        start: position of the first byte that is missing.
        end: position after the last one.
        hop: the request to send, perhaps after redirects.
    """
    if stored is None or not _is_source(stored, hop):
        return None
    return RangeRequest(start, stored, end=end)


def can_resume(stored: ResumeRecord | None, request: ClientRequest) -> TypeGuard[ResumeRecord]:
    """Return whether a record is of what a request asks for."""
    return stored is not None and stored.asked == _hash_request(request)


def _is_source(stored: ResumeRecord, hop: ClientRequest) -> bool:
    return stored.source == _strip_query(hop.url)


class RangeResult(Enum):
    """What the response to a download contains."""

    FULL = "the whole file"
    PARTIAL = "the requested range"
    MISMATCH = "a range that does not fit"
    OTHER = "no file"


def classify_response(
    status_code: int, headers: Headers, asked: RangeRequest | None
) -> RangeResult:
    """Return what a response contains.

    Args:
        status_code: of the response.
        headers: of the response.
        asked: the requested range; None for the whole file.
    """
    if status_code == 200:
        return RangeResult.FULL
    if status_code == 206:
        return (
            RangeResult.PARTIAL
            if asked is not None and _matches(headers, asked)
            else RangeResult.MISMATCH
        )
    return RangeResult.MISMATCH if status_code == 416 and asked is not None else RangeResult.OTHER


def _matches(headers: Headers, asked: RangeRequest) -> bool:
    start, stored, written, end = asked
    found = headers.get_list("content-range")
    match = _CONTENT_RANGE.fullmatch(found[0]) if len(found) == 1 else None
    if match is None:
        return False
    first, last, total = map(int, match.groups())
    if first != start or last != (end or total) - 1 or last >= total:
        return False
    length = content_length(headers)
    if length not in (None, last + 1 - start) or parse_codings(
        headers.get_list("content-encoding")
    ):
        return False
    if stored is None:
        return written is None or _is_unmodified_since(headers, written)
    return stored.total in (None, total) and _is_same_version(headers, stored.validator)


def _is_unmodified_since(headers: Headers, written: float) -> bool:
    """Return whether a 206 is certainly of a version that existed at a time."""
    since = parse_http_date(headers.get("last-modified"), written)
    return since is not None and since <= written


def _is_same_version(headers: Headers, validator: str) -> bool:
    """Return whether a 206 has the same version, even if the server ignores If-Range."""
    if validator.startswith('"'):
        return headers.get_list("etag") == [validator]  # required by RFC 9110, section 15.3.7
    return headers.get("last-modified", validator) == validator and "etag" not in headers


def is_of_other_version(headers: Headers, validator: str, wall: float) -> bool:
    """Return whether a response to a range is certainly of another version of the file."""
    return _find_validator(headers, wall) not in (None, validator)


def content_length(headers: Headers) -> int | None:
    """Return the Content-Length of a response; None if it is missing, invalid or does not apply.

    Args:
        headers: of the response.
    """
    value = headers.get("content-length", "")
    return None if "transfer-encoding" in headers else parse_length(value)


def _find_validator(headers: Headers, wall: float) -> str | None:
    """Return a strong validator for If-Range, or None (RFC 9110, section 13.1.5)."""
    tags = headers.get_list("etag")
    if tags:  # even a weak one rules out the date
        return tags[0] if len(tags) == 1 and _STRONG_ETAG(tags[0]) else None
    changed = headers.get("last-modified", "")
    since, served = parse_http_date(changed, wall), parse_http_date(headers.get("date"), wall)
    # Section 8.8.2.2: the file may have changed again within that second, and clocks differ.
    is_strong = since is not None and served is not None and served - since >= _SETTLED
    return changed.strip() if is_strong else None


def _is_strong_validator(text: str) -> bool:
    """Return whether a text from a record could have been returned by _find_validator()."""
    is_date = text == text.strip() and parse_http_date(text, 0.0) is not None
    return is_date or _STRONG_ETAG(text) is not None


def _hash_request(request: ClientRequest) -> str:
    chosen = [request.get_header(name) for name in _CHOICES]
    return sha256(repr((request.url.wire, chosen)).encode()).hexdigest()


def _strip_query(url: URL) -> str:
    return f"{url.origin}{url.path}"
