"""Retry as urllib3's Retry, or an object like it, decides.

libcurl's errors are translated into urllib3's for the Retry, and its decision into requests'
exceptions. Import this module late, because it loads urllib3.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from urllib3 import exceptions as urllib3_errors
from urllib3.util.retry import Retry

from curlhttp import exceptions as e
from curlhttp._features.download.resume import content_length
from curlhttp._features.failure_reasons import failure_reason
from curlhttp._http.errors import describe_errno
from curlhttp._http.redaction import redact_text
from curlhttp._runtime.network import now

if TYPE_CHECKING:
    from curlhttp._http.request import ClientRequest
    from curlhttp.requests._raw import RawResponse
    from curlhttp.requests._types import AnyRaw, AnyRetry

_COULD_NOT_RESOLVE_HOST = 6  # libcurl's codes
_PARTIAL_FILE = 18


class IncompleteHead(e.ChunkedEncodingError, e.RemoteProtocolError):
    """A head that ended early; requests accepts the head and reports an incomplete body."""


class IncompleteBody(urllib3_errors.IncompleteRead):
    """urllib3's IncompleteRead, with the text by which programs recognise it."""

    def __init__(self, bytes_read: int, left: int | None) -> None:
        super().__init__(bytes_read, left or 0)
        self._left = "" if left is None else f", {left} more expected"

    def __repr__(self) -> str:
        return f"IncompleteRead({self.partial} bytes read{self._left})"


class BadContentLength(e.InvalidHeader, e.RemoteProtocolError):
    """A Content-Length that is not a number, or several that differ."""


def to_retry(value: AnyRetry) -> AnyRetry:
    """Return the Retry for the argument max_retries of an adapter."""
    if value is not None and not isinstance(value, int):
        return value
    return Retry.from_int(value) if value != 0 else Retry(0, read=False)


def increment_after_error(
    retries: AnyRetry, method: str, url: str, error: e.RequestException
) -> AnyRetry:
    """Return the Retry for the next attempt.

    Raises:
        RequestException: no attempt is left. It is the error itself, or requests' error that holds
            a MaxRetryError.
    """
    retries = to_retry(retries)
    pool = _PoolName(url)
    error = _to_requests_error(error)
    cause = _to_urllib3(error, pool)
    if cause is None:
        raise error
    error.__context__ = cause  # programs follow the chain, such as to a socket.gaierror
    if error.request_sent and isinstance(error, e.SSLError) and not _may_repeat(retries, method):
        retries = retries.new(total=0)  # a Retry treats every TLS failure as a failure to connect
    try:
        return retries.increment(method, pool.target, error=cause, _pool=pool)
    except urllib3_errors.MaxRetryError as given_up:
        failure = _make_final_error(error, given_up)
    except Exception as raised:
        if raised is not cause:
            raise
        error.args = (cause,)  # urllib3's error, which says what happened
        raise error from None
    raise failure


def _to_requests_error(error: e.RequestException) -> e.RequestException:
    """Return an error that is also one of the kind that requests raises for it."""
    if type(error) is e.RemoteProtocolError:
        if error.broken_part == "head":
            return _copy_as(error, IncompleteHead, *error.args)
        if error.broken_part == "content-length":
            return _copy_as(error, BadContentLength, urllib3_errors.InvalidHeader(str(error)))
    return error


def _may_repeat(retries: AnyRetry, method: str) -> bool:
    allowed = getattr(retries, "allowed_methods", None)
    return not allowed or method.upper() in allowed


def increment_after_response(retries: AnyRetry, method: str, url: str, raw: AnyRaw) -> AnyRetry:
    """Return the Retry for the next attempt, or None to keep the response.

    Raises:
        RetryError: there are no attempts left, and raise_on_status is set.
    """
    retries = to_retry(retries)
    if not retries.is_retry(method, raw.status, bool(raw.headers.get("Retry-After"))):
        return None
    pool = _PoolName(url)
    try:
        return retries.increment(method, pool.target, response=raw, _pool=pool)
    except urllib3_errors.MaxRetryError as given_up:
        if not retries.raise_on_status:
            return None
        raw.drain_conn()
        raise e.RetryError(given_up, request_sent=True) from given_up.reason


def pause(retries: AnyRetry, raw: RawResponse | None, sent: ClientRequest) -> float:
    """Wait as long as a Retry says before the next attempt of a request; return the seconds.

    Raises:
        DeadlineExceeded: the total time limit ends before that.
        InvalidHeader: the Retry-After of the response cannot be read.
    """
    try:
        if sent.deadline is not None and now() + _get_delay(retries, raw) > sent.deadline:
            raise e.DeadlineExceeded(
                f"{sent}: the total timeout of {sent.timeout.total} s would run out before "
                "the next attempt",
                request_sent=True,
            )
        begun = now()
        retries.sleep(raw)
        return now() - begun
    except (urllib3_errors.InvalidHeader, ValueError, OverflowError) as error:
        # ValueError and OverflowError: the number is too large for Python.
        raise e.InvalidHeader(error, request_sent=True) from error


def _get_delay(retries: AnyRetry, raw: RawResponse | None) -> float:
    """Return how many seconds a Retry is about to wait."""
    seconds = None
    if raw is not None and getattr(retries, "respect_retry_after_header", False):
        seconds = retries.get_retry_after(raw)
    return float(seconds or retries.get_backoff_time())


class _PoolName:
    """Name a request's origin as urllib3 names a pool, for messages only.

    Attributes:
        connection: the name of a connection of the pool.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.scheme = parts.scheme.lower()
        self.host = parts.hostname or ""
        self.port = parts.port or (443 if self.scheme == "https" else 80)
        self.target = redact_text((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        self.connection = self._name("")

    def __str__(self) -> str:
        return self._name("Pool")

    def _name(self, what: str) -> str:
        kind = "HTTPSConnection" if self.scheme == "https" else "HTTPConnection"
        return f"{kind}{what}(host={self.host!r}, port={self.port!r})"


def to_urllib3_error(
    error: e.RequestException, bytes_read: int = 0, length: int | None = None
) -> Exception:
    """Return urllib3's error for one of ours that ended a body.

    Args:
        error: the error.
        bytes_read: bytes of the body that were received before it.
        length: bytes of the whole body; None if unknown.
    """
    if error.curl_code == _PARTIAL_FILE:
        return _make_incomplete_body(error, bytes_read, length)
    url = getattr(error.request, "url", "")
    return _to_urllib3(error, _PoolName(str(url))) or urllib3_errors.ProtocolError(str(error))


def _make_incomplete_body(
    error: e.RequestException, bytes_read: int, length: int | None
) -> Exception:
    reason = IncompleteBody(bytes_read, None if length is None else length - bytes_read)
    return urllib3_errors.ProtocolError(f"Connection broken: {reason!r}: {error}", reason)


def _to_urllib3(error: e.RequestException, pool: Any) -> Exception | None:
    """Return urllib3's error for one of ours, or None if a retry would be pointless."""
    if isinstance(error, _FINAL):
        return None
    message = str(error)
    if isinstance(error, e.ConnectTimeout):
        return urllib3_errors.ConnectTimeoutError(pool.connection, message)
    if isinstance(error, e.SSLError):
        cause = _to_ssl_error(error)
        return _set_cause(cause, urllib3_errors.SSLError(cause))
    if isinstance(error, e.ProxyError):
        cause = OSError(message) if error.request_sent else _make_connect_error(error, pool)
        return _set_cause(cause, urllib3_errors.ProxyError("Unable to connect to proxy", cause))
    if isinstance(error, e.ReadTimeout):
        return urllib3_errors.ReadTimeoutError(pool, pool.target, f"Read timed out. {message}")
    if isinstance(error, e.ConnectionError) and not error.request_sent:
        return _make_connect_error(error, pool)
    if isinstance(error, e.WriteTimeout):  # requests and urllib3 have none
        return urllib3_errors.ProtocolError("Connection aborted.", TimeoutError(message))
    received = error.response
    if error.curl_code == _PARTIAL_FILE and received is not None:
        return _make_incomplete_body(error, len(received.content), content_length(received.headers))
    if isinstance(error, (e.ConnectionError, e.ChunkedEncodingError)):
        return urllib3_errors.ProtocolError("Connection aborted.", ConnectionResetError(message))
    return None


_FINAL = (
    BadContentLength,
    e.BlockedAddress,
    e.CircuitBreakerOpen,
    e.DeadlineExceeded,
    e.PoolTimeout,
)


def _to_ssl_error(error: e.SSLError) -> Exception:
    """Return ssl's error for one of ours: programs look at its class, reason and text."""
    import ssl

    kind, words = ssl.SSLError, ""
    if error.tls_failure == "untrusted":
        kind, words = ssl.SSLCertVerificationError, "certificate verify failed"
    elif found := _find_openssl_reason(str(error)):
        words = found[1]
    # The name of OpenSSL's constant, which is older than its text for alerts.
    reason = "_".join(words.replace("ssl/tls", "sslv3").upper().split())
    text = f"[SSL: {reason}] {words}: {error}" if words else str(error)
    made = kind(int(ssl.SSL_ERROR_SSL), text)
    made.library, made.reason = "SSL", reason
    return made


# "error:0A00010B:SSL routines::wrong version number"
_find_openssl_reason = re.compile(r"error:[0-9A-F]{8}:SSL routines:[^:]*:([\w/ ]+)").search


def _make_connect_error(error: e.RequestException, pool: Any) -> Exception:
    if error.curl_code == _COULD_NOT_RESOLVE_HOST:
        from socket import EAI_NONAME, gaierror

        reason = gaierror(EAI_NONAME, str(error))
        unresolved = urllib3_errors.NameResolutionError(pool.host, pool.connection, reason)
        return _set_cause(reason, unresolved)
    text = "Failed to establish a new connection"
    if not error.errno:
        return urllib3_errors.NewConnectionError(pool.connection, f"{text}: {error}")
    # For example, a ConnectionRefusedError.
    cause = OSError(error.errno, describe_errno(error.errno))
    made = urllib3_errors.NewConnectionError(pool.connection, f"{text}: {cause}: {error}")
    return _set_cause(cause, made)


def _set_cause(cause: Exception, error: Exception) -> Exception:
    """Return an error with another as its cause, because programs look for that."""
    error.__cause__ = error.__context__ = cause
    return error


def _make_final_error(error: e.RequestException, given_up: Exception) -> e.RequestException:
    """Return the error that requests raises when no attempts are left."""
    if isinstance(error, e.ConnectionError):
        kind = type(error)
    elif isinstance(error, e.ChunkedEncodingError):
        return error  # as without a Retry, because requests consults none here
    else:
        kind = e.ConnectionError
    failure = _copy_as(error, kind, given_up)
    failure.__cause__ = error
    return failure


def _copy_as(
    error: e.RequestException, kind: type[e.RequestException], *args: object
) -> e.RequestException:
    """Return an error of another class with the same attributes."""
    twin = kind(
        *args,
        request=error.request,
        response=error.response,
        curl_code=error.curl_code,
        request_sent=error.request_sent,
        timings=error.timings,
    )
    twin._text, twin._reason = error._text, failure_reason(error)
    return twin
