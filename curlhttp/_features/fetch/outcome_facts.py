"""What a row says of the outcome of a request: why it failed, and where; its body as text."""

from __future__ import annotations

import re
from math import isfinite
from typing import TYPE_CHECKING

from curlhttp._features.failure_reasons import failure_reason
from curlhttp._features.retry.policy import parse_retry_after
from curlhttp._http.named_tuple import NamedTuple
from curlhttp._http.response import Response
from curlhttp.exceptions import CircuitBreakerOpen, RequestException

if TYPE_CHECKING:
    from curlhttp._features.map.bodies import BodyFile

_OK = 200
_TEXTS = re.compile(r"\s*(?:text/|[^;]*[/+](?:xml|json|javascript)\s*(?:;|$))", re.I)


class OutcomeFacts(NamedTuple):
    """The columns of rows for failures.

    Attributes:
        reason: see failure_reason(); None for a response.
        curl_code: libcurl's code, or None.
        request_sent: see RequestException; True for a response.
        last_url: the URL of the last hop, without user and password; None if it is unknown.
        last_status: the status of the response that failed, such as one with a broken body; None if
            there was none, and for a response.
        retry_after: the seconds that the last response asks to wait, or None.
    """

    reason: str | None = None
    curl_code: int | None = None
    request_sent: bool = False
    last_url: str | None = None
    last_status: int | None = None
    retry_after: float | None = None


def get_body(response: Response, file: BodyFile | None, *, as_text: bool) -> bytes | BodyFile:
    """Return the body of a response.

    Args:
        response: with its whole body, unless that is in a file.
        file: has the body if it is large.
        as_text: make that of a text UTF-8, whatever its charset is.
    """
    # Headers are parsed when they are first read.
    if as_text and _TEXTS.match(response.headers.get("content-type", "")):
        if file is None:
            return response.text.encode("utf-8", "replace")
        file.become_text(response)
    return response.content if file is None else file


def get_facts(outcome: Response | Exception, wall: float) -> OutcomeFacts:
    """Return the facts of an outcome.

    Args:
        outcome: a response, or what a request raised.
        wall: the local time, in seconds since the epoch.
    """
    if isinstance(outcome, Response):
        return OutcomeFacts(None, None, True, outcome.url, None, get_retry_after(outcome, wall))
    if not isinstance(outcome, RequestException):
        return OutcomeFacts(failure_reason(outcome))
    response, request = outcome.response, outcome.request
    asked = None if response is None else get_retry_after(response, wall)
    if isinstance(outcome, CircuitBreakerOpen):
        asked = outcome.retry_after if isfinite(outcome.retry_after) else None
    return OutcomeFacts(
        failure_reason(outcome),
        outcome.curl_code,
        outcome.request_sent,
        None if request is None else str(request.url),
        None if response is None else response.status_code,
        asked,
    )


def get_retry_after(response: Response, wall: float) -> float | None:
    """Return the seconds that a response asks to wait, None for none.

    Args:
        response: see there.
        wall: the local time, in seconds since the epoch.
    """
    # Headers are parsed when they are first read, which costs more than all else here.
    if response.status_code == _OK:
        return None
    asked = parse_retry_after(response.headers, wall)
    return None if asked is None else round(asked, 3)
