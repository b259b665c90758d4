"""urllib3.exceptions: the names and bases that code filters warnings and catches errors by."""

from __future__ import annotations

import socket
from http.client import IncompleteRead as _HTTPIncompleteRead
from typing import Any

from curlhttp._models.scrub import scrub_text, shown_url
from curlhttp.exceptions import BaseHTTPError as HTTPError

__all__ = [
    "BodyNotHttplibCompatible",
    "ClosedPoolError",
    "ConnectTimeoutError",
    "ConnectionError",
    "DecodeError",
    "DependencyWarning",
    "EmptyPoolError",
    "FullPoolError",
    "HTTPError",
    "HTTPWarning",
    "HeaderParsingError",
    "HostChangedError",
    "IncompleteRead",
    "InsecurePlatformWarning",
    "InsecureRequestWarning",
    "InvalidChunkLength",
    "InvalidHeader",
    "LocationParseError",
    "LocationValueError",
    "MaxRetryError",
    "NameResolutionError",
    "NewConnectionError",
    "NotOpenSSLWarning",
    "PoolError",
    "ProtocolError",
    "ProxyError",
    "ProxySchemeUnknown",
    "ProxySchemeUnsupported",
    "ReadTimeoutError",
    "RequestError",
    "ResponseError",
    "ResponseNotChunked",
    "SSLError",
    "SecurityWarning",
    "SystemTimeWarning",
    "TimeoutError",
    "TimeoutStateError",
    "URLSchemeUnknown",
    "UnrewindableBodyError",
]


class HTTPWarning(Warning):
    """Warn of something; the base of the warnings here."""


class SecurityWarning(HTTPWarning):
    """Warn of weak security."""


class InsecureRequestWarning(SecurityWarning):
    """Warn of a request over TLS without a check of the certificate."""


class NotOpenSSLWarning(SecurityWarning):
    """Warn of an ssl module on another library than OpenSSL."""


class SystemTimeWarning(SecurityWarning):
    """Warn of a clock that is certainly wrong."""


class InsecurePlatformWarning(SecurityWarning):
    """Warn of a platform with outdated TLS."""


class DependencyWarning(HTTPWarning):
    """Warn of a dependency that is missing."""


class _Located(HTTPError):
    """An error whose message starts with where it happened."""

    _message: str

    def __init__(self, where: Any, message: str) -> None:
        self._message = message
        super().__init__(f"{where}: {message}")


class PoolError(_Located):
    """Report an error within a pool."""

    def __init__(self, pool: Any, message: str) -> None:
        self.pool = pool
        super().__init__(pool, message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self._message)  # pools hold what cannot be pickled


class RequestError(PoolError):
    """Report an error of one request within a pool."""

    def __init__(self, pool: Any, url: str | None, message: str) -> None:
        self.url = url
        super().__init__(pool, message)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self.url, self._message)


class SSLError(HTTPError):
    """Report that TLS failed."""


class ProxyError(HTTPError):
    """Report that a connection to a proxy failed."""

    original_error: Exception

    def __init__(self, message: str, error: Exception) -> None:
        super().__init__(message, error)
        self.original_error = error


class DecodeError(HTTPError):
    """Report a body that does not decode."""


class ProtocolError(HTTPError):
    """Report a connection that broke, or did not speak HTTP."""


ConnectionError = ProtocolError


class MaxRetryError(RequestError):
    """Report that there are no attempts left.

    Attributes:
        reason: why the last one failed.
    """

    def __init__(self, pool: Any, url: str | None, reason: Exception | None = None) -> None:
        self.reason = reason
        shown = scrub_text(str(url))
        super().__init__(
            pool, url, f"Max retries exceeded with url: {shown} (Caused by {reason!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self.url, self.reason)


class HostChangedError(RequestError):
    """Report a request to another host than the pool's."""

    def __init__(self, pool: Any, url: str, retries: Any = 3) -> None:
        super().__init__(pool, url, f"Tried to open a foreign host with url: {shown_url(url)}")
        self.retries = retries

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self.url, self.retries)


class TimeoutStateError(HTTPError):
    """Report the misuse of a Timeout."""


class TimeoutError(HTTPError):
    """Report that a time limit was reached."""


class ReadTimeoutError(TimeoutError, RequestError):
    """Report a server that was silent for too long."""


class ConnectTimeoutError(TimeoutError):
    """Report that no connection was made in time."""


class NewConnectionError(ConnectTimeoutError, _Located):
    """Report that no connection could be made."""

    def __init__(self, conn: Any, message: str) -> None:
        self.conn = conn
        super().__init__(conn, message)

    @property
    def pool(self) -> Any:
        """Return the connection, under its name in urllib3 1."""
        return self.conn

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (None, self._message)


class NameResolutionError(NewConnectionError):
    """Report a host name that could not be resolved."""

    def __init__(self, host: str, conn: Any, reason: socket.gaierror) -> None:
        self._host = host
        self._reason = reason
        super().__init__(conn, f"Failed to resolve '{host}' ({reason})")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._host, None, self._reason)


class EmptyPoolError(PoolError):
    """Report a pool without a free connection."""


class FullPoolError(PoolError):
    """Report a pool that takes no more connections."""


class ClosedPoolError(PoolError):
    """Report the use of a pool after close()."""


class LocationValueError(ValueError, HTTPError):
    """Report a bad URL."""


class LocationParseError(LocationValueError):
    """Report a URL that cannot be read."""

    def __init__(self, location: str) -> None:
        super().__init__(f"Failed to parse: {shown_url(str(location))}")
        self.location = location


class URLSchemeUnknown(LocationValueError):
    """Report a URL scheme other than http and https."""

    def __init__(self, scheme: str) -> None:
        super().__init__(f"Not supported URL scheme {scheme}")
        self.scheme = scheme


class ResponseError(HTTPError):
    """Say which answers used up the attempts; the reason of a MaxRetryError."""

    GENERIC_ERROR = "too many error responses"
    SPECIFIC_ERROR = "too many {status_code} error responses"


class IncompleteRead(HTTPError, _HTTPIncompleteRead):
    """Report a body that is shorter than was announced.

    Args:
        partial: bytes that came.
        expected: bytes that were still to come.
    """

    partial: Any
    expected: int | None

    def __init__(self, partial: int, expected: int | None) -> None:
        self.partial = partial
        self.expected = expected

    def __repr__(self) -> str:
        return f"IncompleteRead({self.partial} bytes read, {self.expected} more expected)"

    __str__ = __repr__


class InvalidChunkLength(HTTPError, _HTTPIncompleteRead):
    """Report a chunk whose length is no number."""

    partial: Any
    expected: int | None

    def __init__(self, response: Any, length: bytes) -> None:
        self.partial = response.tell()
        self.expected = response.length_remaining
        self.response = response
        self.length = length

    def __repr__(self) -> str:
        return f"InvalidChunkLength(got length {self.length!r}, {self.partial} bytes read)"

    __str__ = __repr__


class ResponseNotChunked(ProtocolError, ValueError):
    """Report a body that did not come in chunks."""


class BodyNotHttplibCompatible(HTTPError):
    """Report a body that cannot be read in chunks."""


class InvalidHeader(HTTPError):
    """Report a header field with a bad value."""


class ProxySchemeUnknown(AssertionError, URLSchemeUnknown):
    """Report a proxy URL with a bad scheme."""

    def __init__(self, scheme: str | None) -> None:
        if scheme is None or scheme == "localhost":
            fault = "had no scheme, should start with"
        else:
            fault = f"had unsupported scheme {scheme}, should use"
        Exception.__init__(self, f"Proxy URL {fault} http:// or https://")


class ProxySchemeUnsupported(ValueError):
    """Report a proxy whose scheme cannot be combined with the request's."""


class HeaderParsingError(HTTPError):
    """Report header fields that could not be read."""

    def __init__(self, defects: Any, unparsed_data: bytes | str | None) -> None:
        super().__init__(f"{defects or 'Unknown'}, unparsed data: {unparsed_data!r}")


class UnrewindableBodyError(HTTPError):
    """Report a body that must be sent again and cannot be rewound."""
