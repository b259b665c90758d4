"""A sync and async HTTP client on libcurl: one connection pool, one flow, two clients.

    import curlhttp

    curlhttp.get("https://example.org/").text        # a single request; connections are kept
    client = curlhttp.Client()                       # with settings; thread-safe
    client = curlhttp.AsyncClient()                  # for asyncio, uvloop and trio
    import curlhttp as requests                      # Session and the rest of requests' API

Each name is loaded when you first use it.
"""

from __future__ import annotations

import importlib
from sys import is_finalizing
from types import ModuleType
from typing import TYPE_CHECKING, cast

from curlhttp._curl import check_libcurl
from curlhttp._models.exiting import exit_error
from curlhttp._version import __version__

if TYPE_CHECKING:
    from curlhttp import distributed as distributed
    from curlhttp import exceptions, progress, requests, testing
    from curlhttp import httpx as httpx
    from curlhttp import httpx2 as httpx2
    from curlhttp import redis as redis
    from curlhttp._client.apps.asgi import ASGITransport
    from curlhttp._client.apps.wsgi import WSGITransport
    from curlhttp._client.async_client import AsyncClient
    from curlhttp._client.cache import Cache
    from curlhttp._client.client import Client
    from curlhttp._client.event_stream import AsyncEventStream, EventStream
    from curlhttp._client.map.async_results import AsyncResults
    from curlhttp._client.map.results import Results
    from curlhttp._client.negotiate import Negotiate
    from curlhttp._client.record.record import HarLog, Record
    from curlhttp._client.stats import ClientStats, ConnectionStats, LimitStats
    from curlhttp._client.stream import AsyncStreamedResponse, StreamedResponse
    from curlhttp._client.transport import AsyncTransport, Transport
    from curlhttp._client.websocket.websocket import AsyncWebSocket, WebSocket
    from curlhttp._curl.engines.loops import install_uvloop
    from curlhttp._engine.engine import Middleware, Send
    from curlhttp._models.config import Limits, Proxy
    from curlhttp._models.cookies.jar import Cookies
    from curlhttp._models.headers import Headers
    from curlhttp._models.hook_events import AttemptEvent, Transition
    from curlhttp._models.json_codec import JSON
    from curlhttp._models.origin_stats import OriginStats, TimeStats
    from curlhttp._models.request import ClientRequest
    from curlhttp._models.response import Response
    from curlhttp._models.sse import ServerSentEvent
    from curlhttp._models.timeout import Timeout as _Setting
    from curlhttp._models.timings import Attempt, Timings
    from curlhttp._models.url import URL
    from curlhttp._policy.adaptive import AdaptiveLimit
    from curlhttp._policy.auth import AsyncAuthFlow, Auth, AuthFlow, BasicAuth
    from curlhttp._policy.aws import AWSSigV4
    from curlhttp._policy.breaker.breaker import CircuitBreaker
    from curlhttp._policy.breaker.circuit import BreakerMetrics
    from curlhttp._policy.digest import DigestAuth
    from curlhttp._policy.endpoints import Endpoints, EndpointState
    from curlhttp._policy.guard import PublicOnly
    from curlhttp._policy.hedge import Hedge
    from curlhttp._policy.limits import ConcurrencyLimit, RateLimit
    from curlhttp._policy.oauth2 import OAuth2ClientCredentials, OAuth2RefreshToken
    from curlhttp._policy.retry import (
        DecorrelatedJitterBackoff,
        EqualJitterBackoff,
        ExponentialBackoff,
        FullJitterBackoff,
        RetryBudget,
        RetryPolicy,
    )
    from curlhttp._policy.shared_store import Store
    from curlhttp._policy.token_auth import BearerAuth
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
        ResponseTooLarge,
        RetryError,
        SSLError,
        StoreError,
        StreamConsumedError,
        TooManyRedirects,
        UnrewindableBodyError,
        URLRequired,
        WebSocketClosed,
        WebSocketRefused,
        WriteTimeout,
    )
    from curlhttp.requests import (
        PreparedRequest,
        Request,
        Session,
        adapters,
        api,
        auth,
        certs,
        codes,
        compat,
        cookies,
        help,
        hooks,
        models,
        packages,
        session,
        sessions,
        status_codes,
        structures,
        utils,
    )
    from curlhttp.requests._alias import alias_requests
    from curlhttp.requests._functions import (
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

    class Timeout(_Setting, exceptions.Timeout):  # type: ignore[misc]
        """Set time limits, or report that one was reached: see curlhttp.exceptions.Timeout."""


__all__ = [
    "JSON",
    "URL",
    "ASGITransport",
    "AWSSigV4",
    "AdaptiveLimit",
    "AsyncAuthFlow",
    "AsyncClient",
    "AsyncEventStream",
    "AsyncResults",
    "AsyncStreamedResponse",
    "AsyncTransport",
    "AsyncWebSocket",
    "Attempt",
    "AttemptEvent",
    "Auth",
    "AuthFlow",
    "BasicAuth",
    "BearerAuth",
    "BlockedAddress",
    "BreakerMetrics",
    "Cache",
    "ChecksumMismatch",
    "ChunkedEncodingError",
    "CircuitBreaker",
    "CircuitBreakerOpen",
    "Client",
    "ClientClosed",
    "ClientRequest",
    "ClientStats",
    "ConcurrencyLimit",
    "ConnectTimeout",
    "ConnectionError",
    "ConnectionStats",
    "ContentDecodingError",
    "Cookies",
    "DeadlineExceeded",
    "DecorrelatedJitterBackoff",
    "DigestAuth",
    "EndpointState",
    "Endpoints",
    "EqualJitterBackoff",
    "EventStream",
    "ExponentialBackoff",
    "FileModeWarning",
    "FullJitterBackoff",
    "HTTPError",
    "HarLog",
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
    "LimitStats",
    "Limits",
    "Middleware",
    "MissingSchema",
    "Negotiate",
    "OAuth2ClientCredentials",
    "OAuth2Error",
    "OAuth2RefreshToken",
    "OriginStats",
    "PoolTimeout",
    "PreparedRequest",
    "Proxy",
    "ProxyError",
    "PublicOnly",
    "RateLimit",
    "ReadTimeout",
    "Record",
    "RemoteProtocolError",
    "Request",
    "RequestException",
    "RequestsDependencyWarning",
    "RequestsWarning",
    "Response",
    "ResponseTooLarge",
    "Results",
    "RetryBudget",
    "RetryError",
    "RetryPolicy",
    "SSLError",
    "Send",
    "ServerSentEvent",
    "Session",
    "Store",
    "StoreError",
    "StreamConsumedError",
    "StreamedResponse",
    "TimeStats",
    "Timeout",
    "Timings",
    "TooManyRedirects",
    "Transition",
    "Transport",
    "URLRequired",
    "UnrewindableBodyError",
    "WSGITransport",
    "WebSocket",
    "WebSocketClosed",
    "WebSocketRefused",
    "WriteTimeout",
    "__version__",
    "adapters",
    "alias_requests",
    "api",
    "auth",
    "certs",
    "codes",
    "compat",
    "cookies",
    "delete",
    "exceptions",
    "get",
    "head",
    "help",
    "hooks",
    "install_uvloop",
    "models",
    "options",
    "packages",
    "patch",
    "post",
    "progress",
    "put",
    "request",
    "requests",
    "session",
    "sessions",
    "status_codes",
    "stream",
    "structures",
    "testing",
    "utils",
]

_NAMES = {
    "curlhttp.requests._alias": "alias_requests",
    "curlhttp._client.apps.asgi": "ASGITransport",
    "curlhttp._client.apps.wsgi": "WSGITransport",
    "curlhttp._client.map.results": "Results",
    "curlhttp._client.map.async_results": "AsyncResults",
    "curlhttp._client.async_client": "AsyncClient",
    "curlhttp._client.client": "Client",
    "curlhttp._models.config": "Limits Proxy",
    "curlhttp._engine.engine": "Middleware Send",
    "curlhttp._models.hook_events": "AttemptEvent Transition",
    "curlhttp._curl.engines.loops": "install_uvloop",
    "curlhttp._models.cookies.jar": "Cookies",
    "curlhttp._models.sse": "ServerSentEvent",
    "curlhttp._models.headers": "Headers",
    "curlhttp._models.json_codec": "JSON",
    "curlhttp._models.timings": "Attempt Timings",
    "curlhttp._models.request": "ClientRequest",
    "curlhttp._models.url": "URL",
    "curlhttp._client.negotiate": "Negotiate",
    "curlhttp._policy.auth": "AsyncAuthFlow Auth AuthFlow BasicAuth",
    "curlhttp._policy.aws": "AWSSigV4",
    "curlhttp._policy.token_auth": "BearerAuth",
    "curlhttp._policy.retry": (
        "DecorrelatedJitterBackoff EqualJitterBackoff ExponentialBackoff FullJitterBackoff "
        "RetryBudget RetryPolicy"
    ),
    "curlhttp._policy.breaker.breaker": "CircuitBreaker",
    "curlhttp._policy.breaker.circuit": "BreakerMetrics",
    "curlhttp._policy.adaptive": "AdaptiveLimit",
    "curlhttp._policy.endpoints": "Endpoints EndpointState",
    "curlhttp._policy.limits": "ConcurrencyLimit RateLimit",
    "curlhttp._policy.digest": "DigestAuth",
    "curlhttp._policy.guard": "PublicOnly",
    "curlhttp._policy.hedge": "Hedge",
    "curlhttp._policy.oauth2": "OAuth2ClientCredentials OAuth2RefreshToken",
    "curlhttp._policy.shared_store": "Store",
    "curlhttp._client.cache": "Cache",
    "curlhttp._client.stats": "ClientStats ConnectionStats LimitStats",
    "curlhttp._models.origin_stats": "OriginStats TimeStats",
    "curlhttp._client.record.record": "HarLog Record",
    "curlhttp._client.event_stream": "AsyncEventStream EventStream",
    "curlhttp._client.stream": "AsyncStreamedResponse StreamedResponse",
    "curlhttp._client.transport": "AsyncTransport Transport",
    "curlhttp._client.websocket.websocket": "AsyncWebSocket WebSocket",
    "curlhttp.exceptions": (
        "BlockedAddress ChecksumMismatch ChunkedEncodingError CircuitBreakerOpen ClientClosed "
        "ConnectTimeout ConnectionError ContentDecodingError DeadlineExceeded FileModeWarning "
        "HTTPError InvalidHeader InvalidJSONError InvalidMethod InvalidProxyURL InvalidSchema "
        "InvalidURL JSONDecodeError JSONTypeError MissingSchema OAuth2Error PoolTimeout "
        "ProxyError ReadTimeout RemoteProtocolError RequestException RequestsDependencyWarning "
        "RequestsWarning ResponseTooLarge RetryError SSLError StoreError StreamConsumedError "
        "Timeout TooManyRedirects URLRequired UnrewindableBodyError WebSocketClosed "
        "WebSocketRefused WriteTimeout"
    ),
    # The names of requests; where both have one, this one counts: `import curlhttp as requests`.
    "curlhttp.requests": "PreparedRequest Request Response Session codes session",
    "curlhttp.requests._functions": "delete get head options patch post put request stream",
}
_SUBMODULES = {
    "curlhttp": "exceptions progress requests testing",
    "curlhttp.requests": (
        "adapters api auth certs compat cookies help hooks models packages sessions status_codes "
        "structures utils"
    ),
}
# Modules that need extras. They are not in __all__, because `import *` must work without extras.
_EXTRAS = ("distributed", "httpx", "httpx2", "redis")
_SUBMODULE_OF = {
    name: f"{module}.{name}" for module, names in _SUBMODULES.items() for name in names.split()
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}


def _load(name: str) -> ModuleType:
    """Import a module of the package. While Python exits, return it if it was loaded before."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        if not is_finalizing():
            raise
        _, first, *others = name.split(".")
        found = globals().get(first)
        for each in others:
            found = getattr(found, each, None)
        if found is None:
            raise exit_error() from error
        return cast("ModuleType", found)


if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name):
        if name in _EXTRAS:
            return _load(f"curlhttp.{name}")
        if name in _SUBMODULE_OF:
            return _load(_SUBMODULE_OF[name])
        module = _MODULE_OF.get(name)
        if module is None:
            from curlhttp._models.suggestions import no_name

            raise no_name(__name__, name)
        value = getattr(_load(module), name)
        if module != "curlhttp.requests":  # where other packages replace classes
            globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__


check_libcurl()
