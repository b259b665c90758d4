"""One try of a request, as a RetryPolicy counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from curlhttp.exceptions import RequestException

__all__ = ["Attempt", "AttemptCancelled"]


class AttemptCancelled(BaseException):
    """What an attempt middleware gets from `send` when another attempt of a hedge has won.

    No failure of the server's, so that neither `except RequestException` nor `except Exception`
    takes it for one. It goes no further than the middleware.
    """


class Attempt(NamedTuple):
    """One try of a request.

    Attributes:
        number: from 1 on.
        status_code: what came of it, or None.
        error: what came of it instead, or None; without its traceback, unless it was the last.
        elapsed: seconds that it took; of a streamed response, to the end of its head.
        delay: seconds until the next one, None for the last.
    """

    number: int
    status_code: int | None
    error: RequestException | None
    elapsed: float
    delay: float | None
