"""Say in one word why a request failed, from the class of its exception and what libcurl said.

The words are columns of recorded responses, so they stay the same in later versions.
"""

from __future__ import annotations

import errno
from typing import Literal, TypeAlias

from curlhttp import exceptions as e

FailureReason: TypeAlias = Literal[
    "dns",
    "refused",
    "unreachable",
    "reset",
    "empty",
    "tls",
    "proxy",
    "connect_timeout",
    "read_timeout",
    "write_timeout",
    "pool_timeout",
    "total_timeout",
    "timeout",
    "protocol",
    "incomplete",
    "decoding",
    "too_large",
    "redirects",
    "blocked",
    "robots",
    "breaker",
    "status",
    "json",
    "checksum",
    "auth",
    "store",
    "closed",
    "retries",
    "invalid",
    "local",
    "other",
]

_REASONS: dict[type[BaseException], FailureReason] = {
    e.ProxyError: "proxy",
    e.SSLError: "tls",
    e.ConnectTimeout: "connect_timeout",
    e.ReadTimeout: "read_timeout",
    e.WriteTimeout: "write_timeout",
    e.PoolTimeout: "pool_timeout",
    e.DeadlineExceeded: "total_timeout",
    e.Timeout: "timeout",
    e.RemoteProtocolError: "protocol",
    e.ChunkedEncodingError: "incomplete",
    e.ContentDecodingError: "decoding",
    e.ResponseTooLarge: "too_large",
    e.TooManyRedirects: "redirects",
    e.BlockedAddress: "blocked",
    e.RobotsDisallowed: "robots",
    e.CircuitBreakerOpen: "breaker",
    e.HTTPError: "status",
    e.WebSocketRefused: "status",
    e.JSONDecodeError: "json",
    e.JSONTypeError: "json",
    e.ChecksumMismatch: "checksum",
    e.OAuth2Error: "auth",
    e.StoreError: "store",
    e.ClientClosed: "closed",
    e.WebSocketClosed: "closed",
    e.RetryError: "retries",
    e.InvalidURL: "invalid",
    e.InvalidProxyURL: "invalid",
    e.MissingSchema: "invalid",
    e.InvalidSchema: "invalid",
    e.InvalidHeader: "invalid",
    e.InvalidMethod: "invalid",
    e.InvalidJSONError: "invalid",
    e.URLRequired: "invalid",
    e.UnrewindableBodyError: "invalid",
    e.StreamConsumedError: "invalid",
    e.RequestException: "other",
    ValueError: "invalid",
    TypeError: "invalid",
    OSError: "local",
}

# Of libcurl (curl.h), because this module imports no pycurl.
_COULDNT_RESOLVE_HOST = 6
_COULDNT_CONNECT = 7
_GOT_NOTHING = 52
_WSAECONNREFUSED = 10061  # what libcurl reports on Windows


def failure_reason(error: BaseException) -> FailureReason:
    """Return in one word why a request failed. The reference of errors lists the words.

    Args:
        error: a `RequestException`, or another exception that a request raised.
    """
    if isinstance(error, e.RequestException):
        if error._reason is not None:
            return error._reason
        if error.is_local and isinstance(error, e.ConnectionError):
            return "local"
    for kind in type(error).__mro__:
        if kind is e.ConnectionError:
            return _explain_connection(error)  # type: ignore[arg-type]
        reason = _REASONS.get(kind)
        if reason is not None:
            return reason
    return "other"


def _explain_connection(error: e.ConnectionError) -> FailureReason:
    code = error.curl_code
    if code == _COULDNT_RESOLVE_HOST:
        return "dns"
    if error.refused or error.errno in (errno.ECONNREFUSED, _WSAECONNREFUSED):
        return "refused"
    if code == _COULDNT_CONNECT and not error.request_sent:
        return "unreachable"
    return "empty" if code == _GOT_NOTHING else "reset"
