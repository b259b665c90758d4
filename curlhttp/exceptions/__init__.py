"""Every error that curlhttp raises, in one tree (requests' own, with a few additions marked *).

RequestException(OSError)
├── InvalidURL, MissingSchema, InvalidSchema, InvalidHeader, InvalidMethod*   (also ValueError)
│   └── InvalidProxyURL(InvalidURL)
├── URLRequired
├── HTTPError                    raise_for_status()
├── ConnectionError
│   ├── ProxyError, SSLError
│   ├── RemoteProtocolError*     the peer broke HTTP
│   ├── BlockedAddress*          a guard refused the address
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
├── OAuth2Error*                 the token server gave no token
├── TooManyRedirects
├── StreamConsumedError          (also TypeError)
├── WebSocketRefused*, WebSocketClosed*
├── RetryError
├── StoreError*                  a store that processes share gives no answer
├── UnrewindableBodyError
└── ClientClosed*                (also RuntimeError)

Warnings: RequestsWarning, with FileModeWarning and RequestsDependencyWarning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from curlhttp._models.warned import FileModeWarning, RequestsDependencyWarning, RequestsWarning
from curlhttp.exceptions._base import RequestException
from curlhttp.exceptions._connection import (
    BlockedAddress,
    CircuitBreakerOpen,
    ConnectionError,
    ConnectTimeout,
    DeadlineExceeded,
    PoolTimeout,
    ProxyError,
    ReadTimeout,
    RemoteProtocolError,
    RetryError,
    SSLError,
    StoreError,
    Timeout,
    WriteTimeout,
)
from curlhttp.exceptions._request import (
    ClientClosed,
    InvalidHeader,
    InvalidMethod,
    InvalidProxyURL,
    InvalidSchema,
    InvalidURL,
    MissingSchema,
    UnrewindableBodyError,
    URLRequired,
)
from curlhttp.exceptions._response import (
    BaseHTTPError as BaseHTTPError,  # of the drop-in
)
from curlhttp.exceptions._response import (
    ChecksumMismatch,
    ChunkedEncodingError,
    ContentDecodingError,
    HTTPError,
    InvalidJSONError,
    JSONDecodeError,
    OAuth2Error,
    ResponseTooLarge,
    StreamConsumedError,
    TooManyRedirects,
    WebSocketClosed,
    WebSocketRefused,
)

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
    "SSLError",
    "StoreError",
    "StreamConsumedError",
    "Timeout",
    "TooManyRedirects",
    "URLRequired",
    "UnrewindableBodyError",
    "WebSocketClosed",
    "WebSocketRefused",
    "WriteTimeout",
]

for _name in __all__:
    globals()[_name].__module__ = __name__  # where users find them, and pickles
del _name

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name):
        from curlhttp._models.taught import no_name

        raise no_name(__name__, name)
