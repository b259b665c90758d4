"""A sync and async HTTP client on libcurl: one connection pool, one flow, two clients.

    import curlhttp

    curlhttp.get("https://example.org/").text        # one-off, connections are kept
    client = curlhttp.Client()                       # the same with settings, thread-safe
    client = curlhttp.AsyncClient()                  # asyncio, uvloop, trio

Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from curlhttp._curl.version import check_libcurl
from curlhttp._version import __version__

if TYPE_CHECKING:
    from curlhttp import exceptions
    from curlhttp._api import delete, get, head, options, patch, post, put, request, stream
    from curlhttp._client import AsyncClient, Client
    from curlhttp._config import TLS, Limits, Proxy, Timeout
    from curlhttp._flow.engine import Middleware, Send
    from curlhttp._models.cookies import Cookies
    from curlhttp._models.headers import Headers
    from curlhttp._models.request import Request
    from curlhttp._models.response import Response
    from curlhttp._models.timings import Timings
    from curlhttp._models.url import URL
    from curlhttp._policy.auth import Auth, BasicAuth, BearerAuth, DigestAuth
    from curlhttp._stream import AsyncStreamedResponse, StreamedResponse
    from curlhttp.exceptions import (
        BlockedAddress,
        ChunkedEncodingError,
        CircuitBreakerOpen,
        ClientClosed,
        ConnectionError,
        ConnectTimeout,
        ContentDecodingError,
        DeadlineExceeded,
        HTTPError,
        InvalidHeader,
        InvalidJSONError,
        InvalidMethod,
        InvalidProxyURL,
        InvalidSchema,
        InvalidURL,
        JSONDecodeError,
        MissingSchema,
        PoolTimeout,
        ProxyError,
        ReadTimeout,
        RemoteProtocolError,
        RequestException,
        ResponseTooLarge,
        RetryError,
        SSLError,
        StreamConsumedError,
        TooManyRedirects,
        UnrewindableBodyError,
        URLRequired,
    )

__all__ = [
    "TLS",
    "URL",
    "AsyncClient",
    "AsyncStreamedResponse",
    "Auth",
    "BasicAuth",
    "BearerAuth",
    "BlockedAddress",
    "ChunkedEncodingError",
    "CircuitBreakerOpen",
    "Client",
    "ClientClosed",
    "ConnectTimeout",
    "ConnectionError",
    "ContentDecodingError",
    "Cookies",
    "DeadlineExceeded",
    "DigestAuth",
    "HTTPError",
    "Headers",
    "InvalidHeader",
    "InvalidJSONError",
    "InvalidMethod",
    "InvalidProxyURL",
    "InvalidSchema",
    "InvalidURL",
    "JSONDecodeError",
    "Limits",
    "Middleware",
    "MissingSchema",
    "PoolTimeout",
    "Proxy",
    "ProxyError",
    "ReadTimeout",
    "RemoteProtocolError",
    "Request",
    "RequestException",
    "Response",
    "ResponseTooLarge",
    "RetryError",
    "SSLError",
    "Send",
    "StreamConsumedError",
    "StreamedResponse",
    "Timeout",
    "Timings",
    "TooManyRedirects",
    "URLRequired",
    "UnrewindableBodyError",
    "__version__",
    "delete",
    "exceptions",
    "get",
    "head",
    "options",
    "patch",
    "post",
    "put",
    "request",
    "stream",
]

_HOMES = {
    "curlhttp._api": "delete get head options patch post put request stream",
    "curlhttp._client": "AsyncClient Client",
    "curlhttp._config": "Limits Proxy TLS Timeout",
    "curlhttp._flow.engine": "Middleware Send",
    "curlhttp._models.cookies": "Cookies",
    "curlhttp._models.headers": "Headers",
    "curlhttp._models.request": "Request",
    "curlhttp._models.response": "Response",
    "curlhttp._models.timings": "Timings",
    "curlhttp._models.url": "URL",
    "curlhttp._policy.auth": "Auth BasicAuth BearerAuth DigestAuth",
    "curlhttp._stream": "AsyncStreamedResponse StreamedResponse",
    "curlhttp.exceptions": (
        "BlockedAddress ChunkedEncodingError CircuitBreakerOpen ClientClosed ConnectTimeout "
        "ConnectionError ContentDecodingError DeadlineExceeded HTTPError InvalidHeader "
        "InvalidJSONError InvalidMethod InvalidProxyURL InvalidSchema InvalidURL JSONDecodeError "
        "MissingSchema PoolTimeout ProxyError ReadTimeout RemoteProtocolError RequestException "
        "ResponseTooLarge RetryError SSLError StreamConsumedError TooManyRedirects URLRequired "
        "UnrewindableBodyError"
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "exceptions":
        return importlib.import_module("curlhttp.exceptions")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'curlhttp' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(home), name)
    return value


def __dir__() -> list[str]:
    return __all__


check_libcurl()
