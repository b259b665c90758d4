"""Types for your annotations: what the clients return and nobody constructs, and what they take.

    from curlhttp.types import USE_CLIENT_DEFAULT, TimeoutInput, UseClientDefault

    class GitHub:
        def get(self, path: str, timeout: TimeoutInput | UseClientDefault = USE_CLIENT_DEFAULT): ...

Each name is loaded when you first use it.
"""

from __future__ import annotations

import builtins
import importlib
import typing
from typing import TYPE_CHECKING

import curlhttp
from curlhttp._http.late_names import load, refuse

if TYPE_CHECKING:
    from curlhttp._client.options import (
        BodyOptions,
        ClientOptions,
        DownloadOptions,
        RequestOptions,
        RouteOptions,
    )
    from curlhttp._client.transport import AnyTransport
    from curlhttp._features.breaker.circuit import BreakerMetrics
    from curlhttp._features.download.many import (
        DownloadPair,
        DownloadResult,
        FilesProgress,
    )
    from curlhttp._features.endpoints.policy import EndpointState
    from curlhttp._features.failure_reasons import FailureReason
    from curlhttp._features.hook_events import AttemptEvent, Transition
    from curlhttp._features.map.async_results import AsyncResults
    from curlhttp._features.map.results import Results
    from curlhttp._features.map.scheduler import Item
    from curlhttp._features.record.record import HarLog
    from curlhttp._features.sse.event_stream import AsyncEventStream, EventStream
    from curlhttp._features.stats import ClientStats, ConnectionStats, LimitStats
    from curlhttp._features.websocket.websocket import AsyncPong, AsyncWebSocket, Pong, WebSocket
    from curlhttp._http.auth import AsyncAuthFlow, AuthFlow
    from curlhttp._http.config import HTTP2, HTTP3, Cert, Proxies, VerifyInput
    from curlhttp._http.inputs import (
        AddressMap,
        AuthInput,
        BinaryFile,
        ContentInput,
        CookiesInput,
        DataInput,
        FallbackInput,
        FileInput,
        FilesInput,
        FormInput,
        GuardFunction,
        GuardInput,
        HeaderChanges,
        HeadersInput,
        HooksInput,
        HostMap,
        IPVersion,
        JSONInput,
        ParamsInput,
        Pins,
        Progress,
        RetryInput,
        UnixSocket,
        UserRequest,
    )
    from curlhttp._http.origin_stats import OriginStats, TimeStats
    from curlhttp._http.request import StreamedRequest
    from curlhttp._http.response import DefaultEncoding
    from curlhttp._http.sse import AsyncResponseEvents, ResponseEvents, ServerSentEvent
    from curlhttp._http.timeout import TimeoutInput
    from curlhttp._http.timings import Attempt, Timings
    from curlhttp._http.unset import USE_CLIENT_DEFAULT, UseClientDefault
    from curlhttp._runtime.engine import Engine, Middleware, Runtime, Send

__all__ = [
    "HTTP2",
    "HTTP3",
    "USE_CLIENT_DEFAULT",
    "AddressMap",
    "AnyTransport",
    "AsyncAuthFlow",
    "AsyncEventStream",
    "AsyncPong",
    "AsyncResponseEvents",
    "AsyncResults",
    "AsyncWebSocket",
    "Attempt",
    "AttemptEvent",
    "AuthFlow",
    "AuthInput",
    "BinaryFile",
    "BodyOptions",
    "BreakerMetrics",
    "Cert",
    "ClientOptions",
    "ClientStats",
    "ConnectionStats",
    "ContentInput",
    "CookiesInput",
    "DataInput",
    "DefaultEncoding",
    "DownloadOptions",
    "DownloadPair",
    "DownloadResult",
    "EndpointState",
    "Engine",
    "EventStream",
    "FailureReason",
    "FallbackInput",
    "FileInput",
    "FilesInput",
    "FilesProgress",
    "FormInput",
    "GuardFunction",
    "GuardInput",
    "HarLog",
    "HeaderChanges",
    "HeadersInput",
    "HooksInput",
    "HostMap",
    "IPVersion",
    "Item",
    "JSONInput",
    "LimitStats",
    "Middleware",
    "OriginStats",
    "ParamsInput",
    "Pins",
    "Pong",
    "Progress",
    "Proxies",
    "RequestOptions",
    "ResponseEvents",
    "Results",
    "RetryInput",
    "RouteOptions",
    "Runtime",
    "Send",
    "ServerSentEvent",
    "StreamedRequest",
    "TimeStats",
    "TimeoutInput",
    "Timings",
    "Transition",
    "UnixSocket",
    "UseClientDefault",
    "UserRequest",
    "VerifyInput",
    "WebSocket",
]

_NAMES = {
    # What the clients return.
    "curlhttp._features.map.results": "Results",
    "curlhttp._features.map.async_results": "AsyncResults",
    "curlhttp._features.download.many": "DownloadPair DownloadResult FilesProgress",
    "curlhttp._features.sse.event_stream": "AsyncEventStream EventStream",
    "curlhttp._features.websocket.websocket": "AsyncPong AsyncWebSocket Pong WebSocket",
    "curlhttp._features.record.record": "HarLog",
    "curlhttp._http.request": "StreamedRequest",
    "curlhttp._http.sse": "AsyncResponseEvents ResponseEvents ServerSentEvent",
    "curlhttp._http.timings": "Attempt Timings",
    # What they tell.
    "curlhttp._features.stats": "ClientStats ConnectionStats LimitStats",
    "curlhttp._http.origin_stats": "OriginStats TimeStats",
    "curlhttp._features.failure_reasons": "FailureReason",
    "curlhttp._features.hook_events": "AttemptEvent Transition",
    "curlhttp._features.breaker.circuit": "BreakerMetrics",
    "curlhttp._features.endpoints.policy": "EndpointState",
    # The keywords of clients and requests, and what stands for the client's setting.
    "curlhttp._client.options": (
        "BodyOptions ClientOptions DownloadOptions RequestOptions RouteOptions"
    ),
    "curlhttp._http.unset": "USE_CLIENT_DEFAULT UseClientDefault",
    # What arguments accept, and what functions of yours are called with.
    "curlhttp._http.inputs": (
        "AddressMap AuthInput BinaryFile ContentInput CookiesInput DataInput FallbackInput "
        "FileInput FilesInput FormInput GuardFunction GuardInput HeaderChanges HeadersInput "
        "HooksInput HostMap IPVersion JSONInput ParamsInput Pins Progress RetryInput UnixSocket "
        "UserRequest"
    ),
    "curlhttp._http.auth": "AsyncAuthFlow AuthFlow",
    "curlhttp._http.config": "HTTP2 HTTP3 Cert Proxies VerifyInput",
    "curlhttp._http.response": "DefaultEncoding",
    "curlhttp._http.timeout": "TimeoutInput",
    "curlhttp._client.transport": "AnyTransport",
    "curlhttp._features.map.scheduler": "Item",
    "curlhttp._runtime.engine": "Engine Middleware Runtime Send",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name):
        module = _MODULE_OF.get(name)
        if module is None:
            refuse(__name__, name)
        home = load(module, vars(curlhttp))
        value = getattr(home, name)
        if isinstance(value, str):  # an alias, written as text, because it needs other modules
            value = _Aliases(home)[name]
        globals()[name] = value
        return value

    class _Aliases(dict):
        """The names that the aliases of a module use: its own, and those for type checkers."""

        def __init__(self, home):
            super().__init__(vars(home))

        def __getitem__(self, name):
            found = self.get(name) if name in self else self._find(name)
            return eval(found, {}, self) if isinstance(found, str) else found

        def _find(self, name):
            for module in (builtins, curlhttp, typing):
                if hasattr(module, name):
                    return getattr(module, name)
            return __getattr__(name) if name in _MODULE_OF else importlib.import_module(name)


def __dir__() -> list[str]:
    return __all__
