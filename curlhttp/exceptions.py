"""Every error that curlhttp raises, in one tree (requests' own, with a few additions marked *).

RequestException(OSError)
├── InvalidURL, MissingSchema, InvalidSchema, InvalidHeader, InvalidMethod*   (also ValueError)
│   └── InvalidProxyURL(InvalidURL)
├── URLRequired
├── HTTPError                    raise_for_status()
├── ConnectionError
│   ├── ProxyError, SSLError
│   ├── RemoteProtocolError*     the peer broke HTTP
│   ├── BlockedAddress*          a policy hook refused the peer
│   └── CircuitBreakerOpen*
├── Timeout
│   ├── ConnectTimeout           (also ConnectionError)
│   ├── ReadTimeout
│   ├── WriteTimeout*            the server took no more of the body
│   ├── PoolTimeout*             no free handle in time
│   └── DeadlineExceeded*        the total ran out
├── ChunkedEncodingError         the body ended early or its framing broke
├── ContentDecodingError         the content coding is corrupt, cut or nested too deep
├── ResponseTooLarge*            max_response_size, max_event_size
├── ChecksumMismatch*            a download is not the file that it should be
├── InvalidJSONError
│   └── JSONDecodeError          (also json.JSONDecodeError)
├── TooManyRedirects
├── StreamConsumedError          (also TypeError)
├── WebSocketRefused*, WebSocketClosed*
├── RetryError
├── UnrewindableBodyError
└── ClientClosed*                (also RuntimeError)

Warnings: RequestsWarning, with FileModeWarning and RequestsDependencyWarning.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

from curlhttp._models.warned import FileModeWarning, RequestsDependencyWarning, RequestsWarning

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._models.attempt import Attempt
    from curlhttp._models.inputs import ErrorFacts
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response
    from curlhttp._models.timings import Timings

__all__ = [
    "BlockedAddress",
    "ChecksumMismatch",
    "ChunkedEncodingError",
    "CircuitBreakerOpen",
    "ClientClosed",
    "ConnectTimeout",
    "ConnectionError",
    "ContentDecodingError",
    "DeadlineExceeded",
    "FileModeWarning",
    "HTTPError",
    "InvalidHeader",
    "InvalidJSONError",
    "InvalidMethod",
    "InvalidProxyURL",
    "InvalidSchema",
    "InvalidURL",
    "JSONDecodeError",
    "MissingSchema",
    "PoolTimeout",
    "ProxyError",
    "ReadTimeout",
    "RemoteProtocolError",
    "RequestException",
    "RequestsDependencyWarning",
    "RequestsWarning",
    "ResponseTooLarge",
    "RetryError",
    "SSLError",
    "StreamConsumedError",
    "Timeout",
    "TooManyRedirects",
    "URLRequired",
    "UnrewindableBodyError",
    "WebSocketClosed",
    "WebSocketRefused",
    "WriteTimeout",
]


class RequestException(OSError):
    """Report that a request failed; the base of every error here.

    Attributes:
        request: the request that failed, or None when there was none yet.
        response: the response so far, or None.
        curl_code: libcurl's CURLcode, or None when libcurl was not the one to fail.
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
        """Return the attributes that travel with a pickle: no credentials."""
        facts = dict(self.__dict__)
        if (strip := getattr(self.request, "without_credentials", None)) is not None:
            facts["request"] = strip()
        return facts


def _rebuild(
    cls: type[RequestException], args: tuple[object, ...], state: dict[str, object]
) -> RequestException:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidURL(RequestException, ValueError):
    """Report a URL that cannot be sent as it is."""


class InvalidProxyURL(InvalidURL):
    """Report a proxy URL that cannot be used."""


class MissingSchema(RequestException, ValueError):
    """Report a URL without a scheme such as https://."""


class InvalidSchema(RequestException, ValueError):
    """Report a URL scheme other than http and https."""


class InvalidHeader(RequestException, ValueError):
    """Report a header name or value that must not reach the wire."""


class InvalidMethod(RequestException, ValueError):
    """Report a method that is not a token (RFC 9110, section 9.1)."""


class URLRequired(RequestException):
    """Report that no URL was given."""


class HTTPError(RequestException):
    """Report a 4xx or 5xx status; raised by raise_for_status(), download() and sse()."""


class ConnectionError(RequestException):  # requests' name, shadows the builtin on purpose
    """Report that the connection could not be made or broke."""


class ProxyError(ConnectionError):
    """Report that the proxy refused, failed or could not be reached.

    Attributes:
        connect_status: what it answered to CONNECT, or None.
    """

    connect_status: int | None = None


class SSLError(ConnectionError):
    """Report that TLS failed: certificate, host name or handshake.

    Attributes:
        tls_failure: "handshake" when the server broke it off or sent an alert, "untrusted" when
            its certificate or key is not to be trusted, None for anything else.
    """

    tls_failure: Literal["handshake", "untrusted"] | None = None


class RemoteProtocolError(ConnectionError):
    """Report that the server broke HTTP: bad or cut header block, bad framing.

    Attributes:
        broken_part: "head" for a header block that ended early, "content-length" for a length that
            is no number, None for anything else.
    """

    broken_part: Literal["head", "content-length"] | None = None


class BlockedAddress(ConnectionError):
    """Report that a policy refused the address that the host resolved to."""


class CircuitBreakerOpen(ConnectionError):
    """Report that the origin's circuit breaker refused the request; nothing was sent.

    Attributes:
        retry_after: seconds until it may let requests through again; math.inf when it was forced.
    """

    def __init__(
        self, *args: object, retry_after: float = 0.0, **facts: Unpack[ErrorFacts]
    ) -> None:
        super().__init__(*args, **facts)
        self.retry_after = retry_after


class Timeout(RequestException):
    """Report that a time limit was reached.

    requests has this name for an exception, httpx for a setting; here it is both: called with
    limits, as in Timeout(connect=5, total=30) or Timeout(5), it returns the setting.
    """

    # Any: facts of an error, or limits of the setting.
    def __new__(cls, *args: object, **facts: Any) -> Timeout:
        """Return the exception, or the setting when nothing but limits is given."""
        if cls is Timeout and (args or facts) and _LIMITS.issuperset(facts):
            from curlhttp._models.timeout import Timeout as Setting

            if not args:
                return Setting(**facts)  # type: ignore[return-value]  # see above
            if len(args) == 1 and not facts and isinstance(args[0], (int, float)):
                return Setting.of(args[0])  # type: ignore[return-value]
        return super().__new__(cls, *args)


_LIMITS = frozenset({"total", "connect", "read", "write", "pool"})


class ConnectTimeout(ConnectionError, Timeout):
    """Report that no connection was made in time; the request was not sent."""


class ReadTimeout(Timeout):
    """Report that the server was silent for longer than the read timeout."""


class WriteTimeout(Timeout):
    """Report that the server took no more of the request's body for longer than the write timeout.

    Part of the request was sent: it may be sent again only if it may be processed twice.
    """


class PoolTimeout(Timeout):
    """Report that no handle of the pool became free in time; nothing was sent."""


class DeadlineExceeded(Timeout):
    """Report that the total time of the request ran out."""


class ChunkedEncodingError(RequestException):
    """Report a response body that ended early or whose framing broke."""


class BaseHTTPError(Exception):
    """Stand in for urllib3.exceptions.HTTPError, of which requests' ContentDecodingError is one."""


class ContentDecodingError(RequestException, BaseHTTPError):
    """Report a response body whose content coding is corrupt, cut or too deep."""


class ResponseTooLarge(RequestException):
    """Report a response body beyond max_response_size, or an event beyond max_event_size."""


class ChecksumMismatch(RequestException):
    """Report a download that is not the file that it should be; the old file is as it was.

    Attributes:
        expected: the checksum that was given, as "algorithm:hex".
        actual: the one that the file had.
    """

    def __init__(
        self, *args: object, expected: str = "", actual: str = "", **facts: Unpack[ErrorFacts]
    ) -> None:
        super().__init__(*args, **facts)
        self.expected = expected
        self.actual = actual


class InvalidJSONError(RequestException):
    """Report a value that JSON cannot express."""


class JSONDecodeError(InvalidJSONError, json.JSONDecodeError):
    """Report a response body that is not JSON."""

    def __init__(self, msg: str, doc: str, pos: int, **facts: Unpack[ErrorFacts]) -> None:
        json.JSONDecodeError.__init__(self, msg, doc, pos)
        InvalidJSONError.__init__(self, *self.args, **facts)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_json, (type(self), self.msg, self.doc, self.pos, self._facts())


def _rebuild_json(
    cls: type[JSONDecodeError], msg: str, doc: str, pos: int, state: dict[str, object]
) -> JSONDecodeError:
    error = cls(msg, doc, pos)
    error.__dict__.update(state)
    return error


class TooManyRedirects(RequestException):
    """Report more redirects than max_redirects; .response is the last one."""


class StreamConsumedError(RequestException, TypeError):
    """Report a second pass over a streamed body."""


class WebSocketRefused(RequestException):
    """Report that the server did not open a WebSocket; .response is what it answered."""


class WebSocketClosed(RequestException):
    """Report that a WebSocket is closed; .response is that of its handshake.

    Attributes:
        code: the server's close code, else ours, else 1006 (RFC 6455, section 7.4).
        reason: the reason that belongs to it.
    """

    def __init__(
        self, *args: object, code: int = 1006, reason: str = "", **facts: Unpack[ErrorFacts]
    ) -> None:
        super().__init__(*args, **facts)
        self.code = code
        self.reason = reason


class RetryError(RequestException):
    """Report that a custom retry gave up."""


class UnrewindableBodyError(RequestException):
    """Report a body that must be sent again and cannot be rewound."""


class ClientClosed(RequestException, RuntimeError):
    """Report the use of a client after close()."""
