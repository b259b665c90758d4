"""Every error that curlhttp raises, in one tree. Those marked + are not in requests.

* RequestException (an OSError)
    * InvalidURL, InvalidSchema, MissingSchema, InvalidHeader, InvalidMethod+ (also a ValueError)
        * InvalidProxyURL
    * URLRequired
    * HTTPError: from `raise_for_status()`
    * ConnectionError
        * ProxyError
        * SSLError
        * RemoteProtocolError+: the peer violated HTTP
        * BlockedAddress+: a guard refused the address
        * CircuitBreakerOpen+
    * Timeout (curlhttp.TimeoutException)
        * ConnectTimeout (also a ConnectionError)
        * ReadTimeout
        * WriteTimeout+: the server accepted no byte of the body
        * PoolTimeout+: no free connection in time
        * DeadlineExceeded+: the total timeout was exceeded
    * ChunkedEncodingError: the body ended early or its chunks or length were not valid
    * ContentDecodingError: the content coding is corrupt, truncated or nested too deeply
    * ResponseTooLarge+: a body or an event is larger than `max_response_size` or `max_event_size`
    * ChecksumMismatch+: a download has the wrong checksum
    * InvalidJSONError
        * JSONDecodeError (also a json.JSONDecodeError)
        * JSONTypeError+ (also a ValueError)
    * OAuth2Error+: the token server returned no token
    * TooManyRedirects
    * RobotsDisallowed+: the robots.txt of the server disallows it
    * StreamConsumedError (also a TypeError)
    * WebSocketRefused+, WebSocketClosed+
    * RetryError
    * StoreError+: a store that processes share does not respond
    * UnrewindableBodyError
    * ClientClosed+ (also a RuntimeError)
* RequestsWarning (a Warning)
    * FileModeWarning, RequestsDependencyWarning
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from typing_extensions import Unpack

    import curlhttp
    from curlhttp._http.inputs import ErrorOptions
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._http.timings import Attempt, Timings

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
    "JSONTypeError",
    "MissingSchema",
    "OAuth2Error",
    "PoolTimeout",
    "ProxyError",
    "ReadTimeout",
    "RemoteProtocolError",
    "RequestException",
    "RequestsDependencyWarning",
    "RequestsWarning",
    "ResponseTooLarge",
    "RetryError",
    "RobotsDisallowed",
    "SSLError",
    "StoreError",
    "StreamConsumedError",
    "Timeout",
    "TimeoutException",
    "TooManyRedirects",
    "URLRequired",
    "UnrewindableBodyError",
    "WebSocketClosed",
    "WebSocketRefused",
    "WriteTimeout",
]


class RequestException(OSError):
    """Report that a request failed; the base class of all errors here.

    Attributes:
        request: the request that failed, or None if it failed before there was one, which is rare.
        response: the response as far as it was received, or None.
        curl_code: libcurl's CURLcode, or None if the error is not from libcurl.
        errno: why the system could not connect, such as errno.ECONNREFUSED, or None.
        request_sent: True if any byte of the request may have left this machine.
        refused: True if the server said each time that it did not process the request
            (REFUSED_STREAM, or a GOAWAY that excludes it: RFC 9113, section 8.7).
        is_local: True if the cause is on this machine, so that the server may be healthy.
        is_lasting: True if sending the same request again would fail in the same way.
        attempts: the attempts that a RetryPolicy made, oldest first; () without a policy.
        budget_exhausted: True if there was no further attempt because the retry budget was empty.
        timings: how long each phase took, or None if nothing was sent.

    Args:
        args: usually one message.
        request: see the attributes for this and the following arguments.
        response: its request is used if you pass no request.
        curl_code: see the attributes.
        request_sent: see the attributes.
        timings: see the attributes.
    """

    request: ClientRequest | Any  # Any: it is rarely None, and the drop-in's is another class
    response: Response | None
    curl_code: int | None = None
    request_sent: bool = False
    refused: bool = False
    _has_progressed: bool = False  # a download, so far that its retries are renewed
    is_local: bool = False
    is_lasting: bool = False
    budget_exhausted: bool = False
    timings: Timings | None = None
    # Of failure_reason(), if the class does not say it.
    _reason: curlhttp.types.FailureReason | None = None
    _attempts: tuple[Attempt, ...] = ()
    _waited: tuple[str, float] | None = None  # if a wait has failed: for what, and how long
    _text: str | None = None  # what str() returns; None for the text of the arguments

    def __init__(
        self,
        *args: object,
        request: ClientRequest | None = None,
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

    def __str__(self) -> str:
        return super().__str__() if self._text is None else self._text

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Return the attempts; the error of the last one is this error."""
        return tuple(map(self._with_self, self._attempts))

    @attempts.setter
    def attempts(self, attempts: tuple[Attempt, ...]) -> None:
        # Without this error, because reference cycles live until the garbage collector runs.
        self._attempts = tuple(
            attempt._replace(error=None) if attempt.error is self else attempt
            for attempt in attempts
        )

    def _with_self(self, attempt: Attempt) -> Attempt:
        is_this = attempt.error is None and attempt.status_code is None
        return attempt._replace(error=self) if is_this else attempt

    def __reduce__(self) -> tuple[object, ...]:
        # OSError's own __reduce__ leaves out these attributes.
        return _rebuild, (type(self), self.args, self._redacted_state())

    def _redacted_state(self) -> dict[str, object]:
        """Return the attributes for a pickle, without credentials and secrets of URLs."""
        state = dict(self.__dict__)
        for name in ("request", "response"):
            if (strip := getattr(state.get(name), "without_secrets", None)) is not None:
                state[name] = strip()
        return state


def _rebuild(
    cls: type[RequestException], args: tuple[object, ...], state: dict[str, object]
) -> RequestException:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


# --- invalid requests, and invalid use: nothing was sent ---


class InvalidURL(RequestException, ValueError):
    """Report a URL that cannot be sent as it is."""

    is_lasting = True


class InvalidProxyURL(InvalidURL):
    """Report a proxy URL that cannot be used."""


class MissingSchema(RequestException, ValueError):
    """Report a URL without a scheme such as https://."""

    is_lasting = True


class InvalidSchema(RequestException, ValueError):
    """Report a URL scheme other than http and https."""

    is_lasting = True


class InvalidHeader(RequestException, ValueError):
    """Report a header name or value that must not reach the wire."""

    is_lasting = True


class InvalidMethod(RequestException, ValueError):
    """Report a method that is not a token (RFC 9110, section 9.1)."""

    is_lasting = True


class URLRequired(RequestException):
    """Report that no URL was given."""


class UnrewindableBodyError(RequestException):
    """Report a body that must be sent again but cannot be rewound, such as an iterator."""


class ClientClosed(RequestException, RuntimeError):
    """Report the use of a client after close()."""


class RobotsDisallowed(RequestException):
    """Report that the server's robots.txt disallows the URL, which was not requested.

    If robots.txt could not be fetched, everything counts as disallowed for a while (RFC 9309); then
    `is_lasting` is False, and `__cause__` is the error, unless the server answered with a status.
    """


# --- connections and time limits ---


class ConnectionError(RequestException):  # requests' name, shadows the builtin on purpose
    """Report that no connection could be made, or that it broke."""


class ProxyError(ConnectionError):
    """Report that a proxy refused the request, failed or could not be reached.

    Attributes:
        connect_status: the status of the proxy's response to CONNECT, or None.
    """

    connect_status: int | None = None


class SSLError(ConnectionError):
    """Report that TLS failed: certificate, host name or handshake.

    Attributes:
        tls_failure: "handshake" if the server aborted the handshake or sent an alert, "untrusted"
            if its certificate or key is not trusted, None for anything else.
        wants_certificate: True if the server requires a client certificate and got none. With TLS
            1.3, the request may have been sent already, but the server does not process it.
    """

    tls_failure: Literal["handshake", "untrusted"] | None = None
    wants_certificate: bool = False


class RemoteProtocolError(ConnectionError):
    """Report that the server violated HTTP: an invalid or truncated header block, bad framing.

    Attributes:
        broken_part: "head" for a header block that ended early, "content-length" for a length that
            is not a number, None for anything else.
    """

    broken_part: Literal["head", "content-length"] | None = None


class BlockedAddress(ConnectionError):
    """Report that a guard refused the address of the host; nothing was sent to it.

    Attributes:
        host: as in the URL.
        address: the first address that was refused; "" if the request was refused before that.
        port: the port of the address.
        reason: why it was refused.
    """

    host: str = ""
    address: str = ""
    port: int = 0
    reason: str = ""


class CircuitBreakerOpen(ConnectionError):
    """Report that the origin's circuit breaker refused the attempt, which was not sent.

    Earlier attempts of the request may have been sent, see `request_sent` and `attempts`.

    Attributes:
        retry_after: seconds until requests may be permitted again; math.inf if it was forced open.
    """

    def __init__(
        self, *args: object, retry_after: float = 0.0, **options: Unpack[ErrorOptions]
    ) -> None:
        super().__init__(*args, **options)
        self.retry_after = retry_after


class StoreError(RequestException):
    """Report that a store of shared limits does not respond or holds data of another program."""


class Timeout(RequestException):
    """Report that a time limit was reached; `curlhttp.TimeoutException` is the same class."""


TimeoutException = Timeout  # as in httpx; curlhttp.Timeout is the setting


class ConnectTimeout(ConnectionError, Timeout):
    """Report that no connection was made in time; the request was not sent."""


class ReadTimeout(Timeout):
    """Report that the server was silent for longer than the read timeout."""


class WriteTimeout(Timeout):
    """Report that the server accepted no byte of the request's body within the write timeout.

    Part of the request was sent, so it may only be retried if processing it twice is harmless.
    """


class PoolTimeout(Timeout):
    """Report that no connection of the pool became free in time; nothing was sent."""


class DeadlineExceeded(Timeout):
    """Report that the total time of the request ran out."""


class RetryError(RequestException):
    """Report that a custom Retry of urllib3 has no retries left; only the drop-in raises it."""


# --- responses ---


class HTTPError(RequestException):
    """Report a 4xx or 5xx status; raised by raise_for_status(), download() and sse()."""

    response: Response


class ChunkedEncodingError(RequestException):
    """Report a response body that ended early or whose chunks or length were not valid."""


class BaseHTTPError(Exception):
    """Stand in for urllib3.exceptions.HTTPError, of which requests' ContentDecodingError is one."""


class ContentDecodingError(RequestException, BaseHTTPError):
    """Report a response body whose content coding is corrupt, truncated or nested too deeply."""


class ResponseTooLarge(RequestException):
    """Report a response body above max_response_size, or an event above max_event_size."""


class ChecksumMismatch(RequestException):
    """Report a download with the wrong checksum; the old file is unchanged.

    Attributes:
        expected: the checksum from the caller, as "algorithm:hex".
        actual: the checksum of the file.
    """

    def __init__(
        self, *args: object, expected: str = "", actual: str = "", **options: Unpack[ErrorOptions]
    ) -> None:
        super().__init__(*args, **options)
        self.expected = expected
        self.actual = actual


class InvalidJSONError(RequestException):
    """Report a value that JSON cannot express."""


class JSONDecodeError(InvalidJSONError, json.JSONDecodeError):
    """Report a response body that is not JSON."""

    _detail = ""  # says which response it is

    def __init__(self, msg: str, doc: str, pos: int, **options: Unpack[ErrorOptions]) -> None:
        json.JSONDecodeError.__init__(self, msg, doc, pos)
        InvalidJSONError.__init__(self, *self.args, **options)

    def __str__(self) -> str:
        return f"{self.args[0]}{self._detail}"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_json, (type(self), self.msg, self.doc, self.pos, self._redacted_state())


def _rebuild_json(
    cls: type[JSONDecodeError], msg: str, doc: str, pos: int, state: dict[str, object]
) -> JSONDecodeError:
    error = cls(msg, doc, pos)
    error.__dict__.update(state)
    return error


class JSONTypeError(InvalidJSONError, ValueError):
    """Report the JSON of a response that does not fit the type that response.json() got."""


class OAuth2Error(RequestException):
    """Report that a token server returned no access token, or an unusable one (RFC 6749).

    Attributes:
        error: the server's error code, such as "invalid_client" (section 5.2), or None.
        error_description: the server's description of the error, or None.
        error_uri: the URL of a page about the error, or None.
        status_code: the status of its response.
    """

    def __init__(
        self,
        *args: object,
        error: str | None = None,
        error_description: str | None = None,
        error_uri: str | None = None,
        status_code: int | None = None,
        **options: Unpack[ErrorOptions],
    ) -> None:
        super().__init__(*args, **options)
        self.error = error
        self.error_description = error_description
        self.error_uri = error_uri
        self.status_code = status_code


class TooManyRedirects(RequestException):
    """Report more redirects than max_redirects; .response is the last one."""


class StreamConsumedError(RequestException, TypeError):
    """Report a second pass over a streamed body."""


class WebSocketRefused(RequestException):
    """Report that the server did not open a WebSocket; .response is what it sent instead."""

    response: Response


class WebSocketClosed(RequestException):
    """Report that a WebSocket is closed; .response is the response to its handshake.

    Attributes:
        code: the server's close code; ours if it sent none; 1006 if there is neither (RFC 6455,
            section 7.4).
        reason: the text that was sent with the code.
    """

    def __init__(
        self, *args: object, code: int = 1006, reason: str = "", **options: Unpack[ErrorOptions]
    ) -> None:
        super().__init__(*args, **options)
        self.code = code
        self.reason = reason


# --- warnings, under requests' names ---


class RequestsWarning(Warning):
    """Warn about a request; the base class of requests' own warnings."""


class FileModeWarning(RequestsWarning, DeprecationWarning):
    """Warn about a file that is open in text mode, so that its length may be wrong."""


class RequestsDependencyWarning(RequestsWarning):
    """Warn about an unsupported version of a dependency; kept for code that filters it."""


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name):
        from curlhttp._http.suggestions import no_name

        raise no_name(__name__, name)
