"""A sync and async HTTP client on libcurl: one connection pool, one flow, two clients.

    import curlhttp

    curlhttp.get("https://example.org/").text        # a single request; connections are kept
    client = curlhttp.Client()                       # with settings; thread-safe
    client = curlhttp.AsyncClient()                  # for asyncio, uvloop and trio
    from curlhttp import requests                    # requests' API, for programs that use it
    curlhttp.types                                   # for annotations

Each name is loaded when you first use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from curlhttp._http.late_names import load, refuse
from curlhttp._libcurl import check_libcurl
from curlhttp._version import __version__

if TYPE_CHECKING:
    from curlhttp import distributed as distributed
    from curlhttp import exceptions, progress, requests, testing, types
    from curlhttp import httpx as httpx
    from curlhttp import httpx2 as httpx2
    from curlhttp import redis as redis
    from curlhttp._api.async_client import AsyncClient
    from curlhttp._api.client import Client
    from curlhttp._api.functions import (
        delete,
        get,
        head,
        options,
        patch,
        post,
        put,
        request,
        stream,
    )
    from curlhttp._client.stream import AsyncStreamedResponse, StreamedResponse
    from curlhttp._client.transport import AsyncTransport, AttemptWrapper, Transport
    from curlhttp._features.apps.asgi import ASGITransport
    from curlhttp._features.apps.wsgi import WSGITransport
    from curlhttp._features.auth.aws import AWSSigV4
    from curlhttp._features.auth.digest import DigestAuth
    from curlhttp._features.auth.negotiate import Negotiate
    from curlhttp._features.auth.oauth2 import OAuth2ClientCredentials, OAuth2RefreshToken
    from curlhttp._features.auth.token_auth import BearerAuth
    from curlhttp._features.breaker.breaker import CircuitBreaker
    from curlhttp._features.cache.cache import Cache
    from curlhttp._features.endpoints.policy import Endpoints
    from curlhttp._features.failure_reasons import failure_reason
    from curlhttp._features.guard.policy import PublicOnly
    from curlhttp._features.hedge.policy import Hedge
    from curlhttp._features.json_functions import JSON
    from curlhttp._features.limits.adaptive import AdaptiveLimit
    from curlhttp._features.limits.policy import ConcurrencyLimit, RateLimit
    from curlhttp._features.record.record import Record
    from curlhttp._features.retry.policy import (
        DecorrelatedJitterBackoff,
        EqualJitterBackoff,
        ExponentialBackoff,
        FullJitterBackoff,
        RetryBudget,
        RetryPolicy,
    )
    from curlhttp._features.robots.policy import Robots
    from curlhttp._features.shared_store import Store
    from curlhttp._features.uvloop import install_uvloop
    from curlhttp._http.auth import Auth, BasicAuth
    from curlhttp._http.config import Limits, Proxy
    from curlhttp._http.cookies.jar import Cookies
    from curlhttp._http.headers import Headers
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._http.sse import EventParser
    from curlhttp._http.timeout import Timeout
    from curlhttp._http.url import URL
    from curlhttp.exceptions import (
        BlockedAddress,
        ChecksumMismatch,
        ChunkedEncodingError,
        CircuitBreakerOpen,
        ClientClosed,
        ConnectionError,
        ConnectTimeout,
        ContentDecodingError,
        DeadlineExceeded,
        FileModeWarning,
        HTTPError,
        InvalidHeader,
        InvalidJSONError,
        InvalidMethod,
        InvalidProxyURL,
        InvalidSchema,
        InvalidURL,
        JSONDecodeError,
        JSONTypeError,
        MissingSchema,
        OAuth2Error,
        PoolTimeout,
        ProxyError,
        ReadTimeout,
        RemoteProtocolError,
        RequestException,
        RequestsDependencyWarning,
        RequestsWarning,
        ResponseTooLarge,
        RetryError,
        RobotsDisallowed,
        SSLError,
        StoreError,
        StreamConsumedError,
        TimeoutException,
        TooManyRedirects,
        UnrewindableBodyError,
        URLRequired,
        WebSocketClosed,
        WebSocketRefused,
        WriteTimeout,
    )
    from curlhttp.requests import Session, codes
    from curlhttp.requests._alias import alias_requests

__all__ = [
    "JSON",
    "URL",
    "ASGITransport",
    "AWSSigV4",
    "AdaptiveLimit",
    "AsyncClient",
    "AsyncStreamedResponse",
    "AsyncTransport",
    "AttemptWrapper",
    "Auth",
    "BasicAuth",
    "BearerAuth",
    "BlockedAddress",
    "Cache",
    "ChecksumMismatch",
    "ChunkedEncodingError",
    "CircuitBreaker",
    "CircuitBreakerOpen",
    "Client",
    "ClientClosed",
    "ClientRequest",
    "ConcurrencyLimit",
    "ConnectTimeout",
    "ConnectionError",
    "ContentDecodingError",
    "Cookies",
    "DeadlineExceeded",
    "DecorrelatedJitterBackoff",
    "DigestAuth",
    "Endpoints",
    "EqualJitterBackoff",
    "EventParser",
    "ExponentialBackoff",
    "FileModeWarning",
    "FullJitterBackoff",
    "HTTPError",
    "Headers",
    "Hedge",
    "InvalidHeader",
    "InvalidJSONError",
    "InvalidMethod",
    "InvalidProxyURL",
    "InvalidSchema",
    "InvalidURL",
    "JSONDecodeError",
    "JSONTypeError",
    "Limits",
    "MissingSchema",
    "Negotiate",
    "OAuth2ClientCredentials",
    "OAuth2Error",
    "OAuth2RefreshToken",
    "PoolTimeout",
    "Proxy",
    "ProxyError",
    "PublicOnly",
    "RateLimit",
    "ReadTimeout",
    "Record",
    "RemoteProtocolError",
    "RequestException",
    "RequestsDependencyWarning",
    "RequestsWarning",
    "Response",
    "ResponseTooLarge",
    "RetryBudget",
    "RetryError",
    "RetryPolicy",
    "Robots",
    "RobotsDisallowed",
    "SSLError",
    "Session",
    "Store",
    "StoreError",
    "StreamConsumedError",
    "StreamedResponse",
    "Timeout",
    "TimeoutException",
    "TooManyRedirects",
    "Transport",
    "URLRequired",
    "UnrewindableBodyError",
    "WSGITransport",
    "WebSocketClosed",
    "WebSocketRefused",
    "WriteTimeout",
    "__version__",
    "alias_requests",
    "codes",
    "delete",
    "exceptions",
    "failure_reason",
    "get",
    "head",
    "install_uvloop",
    "options",
    "patch",
    "post",
    "progress",
    "put",
    "request",
    "requests",
    "stream",
    "testing",
    "types",
]

_NAMES = {
    "curlhttp.requests._alias": "alias_requests",
    "curlhttp._features.apps.asgi": "ASGITransport",
    "curlhttp._features.apps.wsgi": "WSGITransport",
    "curlhttp._api.async_client": "AsyncClient",
    "curlhttp._api.client": "Client",
    "curlhttp._api.functions": "delete get head options patch post put request stream",
    "curlhttp._http.config": "Limits Proxy",
    "curlhttp._features.uvloop": "install_uvloop",
    "curlhttp._http.cookies.jar": "Cookies",
    "curlhttp._features.failure_reasons": "failure_reason",
    "curlhttp._http.headers": "Headers",
    "curlhttp._http.sse": "EventParser",
    "curlhttp._features.json_functions": "JSON",
    "curlhttp._http.timeout": "Timeout",
    "curlhttp._http.request": "ClientRequest",
    "curlhttp._http.response": "Response",
    "curlhttp._http.url": "URL",
    "curlhttp._features.auth.negotiate": "Negotiate",
    "curlhttp._http.auth": "Auth BasicAuth",
    "curlhttp._features.auth.aws": "AWSSigV4",
    "curlhttp._features.auth.token_auth": "BearerAuth",
    "curlhttp._features.retry.policy": (
        "DecorrelatedJitterBackoff EqualJitterBackoff ExponentialBackoff FullJitterBackoff "
        "RetryBudget RetryPolicy"
    ),
    "curlhttp._features.breaker.breaker": "CircuitBreaker",
    "curlhttp._features.limits.adaptive": "AdaptiveLimit",
    "curlhttp._features.endpoints.policy": "Endpoints",
    "curlhttp._features.limits.policy": "ConcurrencyLimit RateLimit",
    "curlhttp._features.auth.digest": "DigestAuth",
    "curlhttp._features.guard.policy": "PublicOnly",
    "curlhttp._features.hedge.policy": "Hedge",
    "curlhttp._features.auth.oauth2": "OAuth2ClientCredentials OAuth2RefreshToken",
    "curlhttp._features.shared_store": "Store",
    "curlhttp._features.cache.cache": "Cache",
    "curlhttp._features.record.record": "Record",
    "curlhttp._features.robots.policy": "Robots",
    "curlhttp._client.stream": "AsyncStreamedResponse StreamedResponse",
    "curlhttp._client.transport": "AsyncTransport AttemptWrapper Transport",
    "curlhttp.exceptions": (
        "BlockedAddress ChecksumMismatch ChunkedEncodingError CircuitBreakerOpen ClientClosed "
        "ConnectTimeout ConnectionError ContentDecodingError DeadlineExceeded FileModeWarning "
        "HTTPError InvalidHeader InvalidJSONError InvalidMethod InvalidProxyURL InvalidSchema "
        "InvalidURL JSONDecodeError JSONTypeError MissingSchema OAuth2Error PoolTimeout "
        "ProxyError ReadTimeout RemoteProtocolError RequestException RequestsDependencyWarning "
        "RequestsWarning ResponseTooLarge RetryError RobotsDisallowed SSLError StoreError "
        "StreamConsumedError TimeoutException TooManyRedirects URLRequired UnrewindableBodyError "
        "WebSocketClosed WebSocketRefused WriteTimeout"
    ),
    # For `import curlhttp as requests`: see docs/decisions/two-libraries.md.
    "curlhttp.requests": "Session codes",
}
_SUBMODULES = ("exceptions", "progress", "requests", "testing", "types")
# Modules that need extras. They are not in __all__, because `import *` must work without extras.
_EXTRAS = ("distributed", "httpx", "httpx2", "redis")
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name):
        if name in _SUBMODULES or name in _EXTRAS:
            return load(f"curlhttp.{name}", globals())
        module = _MODULE_OF.get(name)
        if module is None:
            refuse(__name__, name)
        value = getattr(load(module, globals()), name)
        if module != "curlhttp.requests":  # where other packages replace classes
            globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__


check_libcurl()
