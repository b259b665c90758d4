"""Send a prepared request: once, or as often as a Retry says.

The adapter makes the attempts; here is what becomes of their errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from curlhttp.exceptions import RequestException
from curlhttp.requests._raw import RawResponse

if TYPE_CHECKING:
    from curlhttp._models.request import Request as CoreRequest
    from curlhttp._models.response import Response
    from curlhttp.requests._prepared import PreparedRequest
    from curlhttp.requests._types import AnyRetry

__all__ = ["is_plain", "send_again", "send_once"]

Attempt: TypeAlias = "Callable[[CoreRequest], Response]"


def is_plain(retries: AnyRetry) -> bool:
    """Return whether nothing is ever sent again, so that there is nothing to ask it."""
    if retries is None or isinstance(retries, int):
        return retries == 0
    return bool(
        retries.total == 0
        and retries.read is False
        and not retries.status_forcelist
        and type(retries).__module__ == "urllib3.util.retry"
    )


def send_once(attempt: Attempt, sent: CoreRequest, request: PreparedRequest) -> RawResponse:
    """Send, and return the response.

    Raises:
        RequestException: no response came of it.
    """
    try:
        return RawResponse(attempt(sent))
    except RequestException as error:
        error.request = request  # type: ignore[assignment]
        if error.response is not None:
            return _broken_off(error)
        from curlhttp.requests._retries import after_error

        after_error(0, sent.method, str(request.url), error)
        raise  # never: with no attempt left after_error raises


def send_again(
    attempt: Attempt, sent: CoreRequest, request: PreparedRequest, retries: AnyRetry
) -> RawResponse:
    """Send, and send again as often as the Retry says; return the last response.

    Raises:
        RequestException: no response came of it.
    """
    from curlhttp.requests._retries import after_error, after_response

    method, url = sent.method, str(request.url)
    while True:
        try:
            received = attempt(sent)
        except RequestException as error:
            error.request = request  # type: ignore[assignment]
            if error.response is not None and error.response._head.redirects:
                return _broken_off(error)
            retries = after_error(retries, method, url, error)
            _pause(retries, None, sent, request)
        else:
            raw = RawResponse(received)
            try:
                again = after_response(retries, method, url, raw)
            except RequestException as error:
                error.request = request  # type: ignore[assignment]
                raise
            if again is None:
                raw.retries = retries
                return raw
            retries = again
            raw.drain_conn()
            _pause(retries, raw, sent, request)
        if sent.body is not None:
            sent.body.rewind()


def _pause(
    retries: AnyRetry, raw: RawResponse | None, sent: CoreRequest, request: PreparedRequest
) -> None:
    from curlhttp.requests._retries import pause

    try:
        pause(retries, raw, sent)
    except RequestException as error:
        error.request = request  # type: ignore[assignment]
        raise


def _broken_off(error: RequestException) -> RawResponse:
    from curlhttp.requests._wire import BrokenOff

    return RawResponse(BrokenOff(error))
