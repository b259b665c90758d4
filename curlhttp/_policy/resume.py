"""When a partial file may be completed, what to ask for then, and what the answer means.

Pure. The rule behind all of it: two versions of a file are never mixed. Where that is not certain,
the download starts over.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from enum import Enum
from hashlib import sha256
from typing import NamedTuple

from curlhttp._models.decoding import parse_codings
from curlhttp._models.headers import Headers
from curlhttp._models.redaction import redact_url
from curlhttp._models.request import Request
from curlhttp._models.url import URL
from curlhttp._policy.retry import http_date

__all__ = ["RangeAnswer", "RangeRequest", "ResumeRecord", "content_length", "judge", "range_to_ask"]

# RFC 9110, section 8.8.3; a longer one might not be let through in a request.
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e\x80-\xff]{,1000}"').fullmatch
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.IGNORECASE | re.ASCII)
_LENGTH = re.compile(r"\d{1,18}", re.ASCII).fullmatch
_SETTLED = 60.0  # seconds between change and answer that make a date a strong validator
_CHOICES = ("Accept", "Accept-Language")  # request fields that choose among representations


@dataclass(frozen=True)
class ResumeRecord:
    """What is kept next to a partial file, to know what it is part of.

    Attributes:
        url: what was asked for, for people: credentials are masked.
        asked: a digest of that URL as it is, and of what chose the representation.
        source: the URL that sent the file, without its query: signatures there change.
        validator: a strong validator of the version (RFC 9110, section 8.8.1).
        total: bytes that the file has, or None.
    """

    url: str
    asked: str
    source: str
    validator: str
    total: int | None

    @classmethod
    def of(
        cls, request: Request, source: URL, headers: Headers, wall: float
    ) -> ResumeRecord | None:
        """Return what to keep of a file that begins to arrive; None: it cannot be resumed.

        Args:
            request: the download's own, before redirects.
            source: the URL that sent the file.
            headers: of the response.
            wall: the time of day in seconds since the epoch.
        """
        validator = _validator(headers, wall)
        if validator is None or parse_codings(headers.get_list("content-encoding")):
            return None
        total = content_length(headers)
        return cls(redact_url(request.url), _asked(request), _bare(source), validator, total)

    def to_json(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: bytes) -> ResumeRecord | None:
        """Return what to_json wrote; None for everything else, such as a torn file."""
        try:
            found = json.loads(text)
            stored = cls(**{field.name: found[field.name] for field in fields(cls)})
        except (ValueError, TypeError, KeyError, RecursionError):
            return None
        texts = (stored.url, stored.asked, stored.source, stored.validator)
        total = stored.total
        is_sound = all(isinstance(text, str) for text in texts) and _is_strong(stored.validator)
        return stored if is_sound and (total is None or type(total) is int) else None


class RangeRequest(NamedTuple):
    """The rest of a file, to be asked for.

    Attributes:
        start: the first byte.
        stored: what is known of the file.
    """

    start: int
    stored: ResumeRecord

    def headers(self) -> dict[str, str]:
        """Return the fields that ask for it (RFC 9110, sections 13.1.5 and 14.2)."""
        return {"Range": f"bytes={self.start}-", "If-Range": self.stored.validator}


def range_to_ask(
    stored: ResumeRecord | None, size: int, request: Request, hop: Request
) -> RangeRequest | None:
    """Return what is to be asked for in one request of a download; None: the whole file.

    Args:
        stored: what is kept next to the partial file, or None.
        size: bytes of the partial file.
        request: the download's own.
        hop: the request about to be sent, perhaps after redirects.
    """
    if stored is None or size < 1 or stored.asked != _asked(request):
        return None
    if stored.source != _bare(hop.url) or (stored.total is not None and size > stored.total):
        return None
    # Of a part that is complete the last byte is asked for again: a range behind the end has no
    # answer that says whether the version is still the same.
    return RangeRequest(size - 1 if size == stored.total else size, stored)


class RangeAnswer(Enum):
    """What a response is to a download."""

    WHOLE = "the whole file"
    REST = "what was asked for"
    UNFIT = "a part that does not fit"
    OTHER = "no file"


def judge(status_code: int, headers: Headers, asked: RangeRequest | None) -> RangeAnswer:
    """Return what a response is.

    Args:
        status_code: of the response.
        headers: of the response.
        asked: what was asked for; None for the whole file.
    """
    if status_code == 200:
        return RangeAnswer.WHOLE
    if status_code == 206:
        return (
            RangeAnswer.REST if asked is not None and _fits(headers, asked) else RangeAnswer.UNFIT
        )
    return RangeAnswer.UNFIT if status_code == 416 and asked is not None else RangeAnswer.OTHER


def _fits(headers: Headers, asked: RangeRequest) -> bool:
    start, stored = asked
    found = headers.get_list("content-range")
    match = _CONTENT_RANGE.fullmatch(found[0]) if len(found) == 1 else None
    if match is None:
        return False
    first, last, total = map(int, match.groups())
    if first != start or last != total - 1 or stored.total not in (None, total):
        return False
    length = content_length(headers)
    if length not in (None, total - start) or parse_codings(headers.get_list("content-encoding")):
        return False
    return _is_same_version(headers, stored.validator)


def _is_same_version(headers: Headers, validator: str) -> bool:
    """Return whether a 206 is of our version, even if the server does not know If-Range."""
    if validator.startswith('"'):
        return headers.get_list("etag") == [validator]  # MUST be there: RFC 9110, section 15.3.7
    return headers.get("last-modified", validator) == validator and "etag" not in headers


def content_length(headers: Headers) -> int | None:
    """Return how many bytes a response announces, None when it does not.

    Args:
        headers: of the response.
    """
    value = headers.get("content-length", "")
    if "transfer-encoding" in headers or not _LENGTH(value):
        return None
    return int(value)


def _validator(headers: Headers, wall: float) -> str | None:
    """Return a strong validator that If-Range may carry, or None (RFC 9110, section 13.1.5)."""
    tags = headers.get_list("etag")
    if tags:  # even a weak one rules out the date
        return tags[0] if len(tags) == 1 and _STRONG_ETAG(tags[0]) else None
    changed = headers.get("last-modified", "")
    since, served = http_date(changed, wall), http_date(headers.get("date", ""), wall)
    # Section 8.8.2.2: it may have changed again within the second, by clocks that differ.
    is_strong = since is not None and served is not None and served - since >= _SETTLED
    return changed.strip() if is_strong else None


def _is_strong(text: str) -> bool:
    """Return whether a text of a record may go into If-Range: what _validator returns may."""
    is_date = text == text.strip() and http_date(text, 0.0) is not None
    return is_date or _STRONG_ETAG(text) is not None


def _asked(request: Request) -> str:
    chosen = [request.get_header(name) for name in _CHOICES]
    return sha256(repr((request.url.wire, chosen)).encode()).hexdigest()


def _bare(url: URL) -> str:
    return f"{url.origin}{url.path}"
