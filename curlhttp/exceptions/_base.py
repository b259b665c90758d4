"""What every error of this package has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curlhttp._models.attempt import Attempt
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response
    from curlhttp._models.timings import Timings

__all__ = [
    "RequestException",
]


class RequestException(OSError):
    """Report that a request failed; the base of every error here.

    Attributes:
        request: the request that failed, or None when there was none yet.
        response: the response so far, or None.
        curl_code: libcurl's CURLcode, or None when libcurl was not the one to fail.
        errno: why the system could not connect, such as errno.ECONNREFUSED, or None.
        request_sent: True when any byte of the request may have left this machine.
        refused: the server said that it did not process what was sent (REFUSED_STREAM, or a GOAWAY
            that leaves it out: RFC 9113, section 8.7), each time that it was sent.
        is_local: the cause is on this machine, and says nothing of the server.
        is_lasting: the same request would fail in the same way again.
        attempts: the tries that a RetryPolicy made, oldest first; () without one.
        budget_exhausted: there was no further try since the policy's budget was spent.
        timings: where the time went, or None when nothing was sent.
    """

    request: Request | None
    response: Response | None
    curl_code: int | None = None
    request_sent: bool = False
    refused: bool = False
    is_local: bool = False
    is_lasting: bool = False
    budget_exhausted: bool = False
    timings: Timings | None = None
    _attempts: tuple[Attempt, ...] = ()

    def __init__(
        self,
        *args: object,
        request: Request | None = None,
        response: Response | None = None,
        curl_code: int | None = None,
        request_sent: bool = False,
        timings: Timings | None = None,
    ) -> None:
        super().__init__(*args)
        if request is None and response is not None:
            request = getattr(response, "request", None)
        self.request = request
        self.response = response
        self.curl_code = curl_code
        self.request_sent = request_sent
        self.timings = timings

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Return the tries made; the last one's error is this one."""
        return tuple(map(self._with_self, self._attempts))

    @attempts.setter
    def attempts(self, attempts: tuple[Attempt, ...]) -> None:
        # Without this error: what holds itself lives until the garbage collector comes by.
        self._attempts = tuple(
            attempt._replace(error=None) if attempt.error is self else attempt
            for attempt in attempts
        )

    def _with_self(self, attempt: Attempt) -> Attempt:
        is_this = attempt.error is None and attempt.status_code is None
        return attempt._replace(error=self) if is_this else attempt

    def __reduce__(self) -> tuple[object, ...]:
        # OSError's own __reduce__ knows nothing of our attributes.
        return _rebuild, (type(self), self.args, self._facts())

    def _facts(self) -> dict[str, object]:
        """Return the attributes that travel with a pickle: no credentials, no secrets of URLs."""
        facts = dict(self.__dict__)
        for name in ("request", "response"):
            if (strip := getattr(facts.get(name), "without_secrets", None)) is not None:
                facts[name] = strip()
        return facts


def _rebuild(
    cls: type[RequestException], args: tuple[object, ...], state: dict[str, object]
) -> RequestException:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error
