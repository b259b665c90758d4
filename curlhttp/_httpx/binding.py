"""What the transports need of httpx or httpx2, which have the same names; its errors for ours."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Protocol

from curlhttp import exceptions as e

__all__ = ["Binding", "LimitsLike", "RequestLike", "URLLike"]


class URLLike(Protocol):
    """An httpx.URL."""

    @property
    def raw_scheme(self) -> bytes:
        """Return the scheme, in lower case."""

    @property
    def raw_host(self) -> bytes:
        """Return the host as it goes into DNS, an IPv6 address without brackets."""

    @property
    def port(self) -> int | None:
        """Return the port, None for the scheme's own."""

    @property
    def raw_path(self) -> bytes:
        """Return the request target."""


class HeadersLike(Protocol):
    """An httpx.Headers."""

    @property
    def raw(self) -> list[tuple[bytes, bytes]]:
        """Return names and values as they go out."""


class RequestLike(Protocol):
    """An httpx.Request."""

    method: str

    @property
    def url(self) -> URLLike:
        """Return where it goes."""

    @property
    def headers(self) -> HeadersLike:
        """Return its headers, complete."""

    @property
    def stream(self) -> object:
        """Return its body, an iterable or an async iterable of bytes."""

    @property
    def extensions(self) -> Mapping[str, object]:
        """Return what the caller asks of the transport."""


class LimitsLike(Protocol):
    """An httpx.Limits."""

    max_connections: int | None
    max_keepalive_connections: int | None
    keepalive_expiry: float | None


class Binding:
    """The classes of one of the two libraries.

    Args:
        module: httpx or httpx2.
        core: the name of the library that it sends through, httpcore or httpcore2.

    Attributes:
        module: the same.
        make_response: its Response.
        bytes_kind: its ByteStream, a body in memory.
    """

    def __init__(self, module: ModuleType, core: str) -> None:
        self.module = module
        self._core = core
        self.make_response: Callable[..., object] = module.Response
        self.bytes_kind: type[Iterable[bytes]] = module.ByteStream

    def default_limits(self) -> LimitsLike:
        """Return the limits of the library's own transport."""
        limits: LimitsLike = self.module.Limits(max_connections=100, max_keepalive_connections=20)
        return limits

    def core_errors(self) -> ModuleType:
        """Return the module whose errors network streams raise; the library has it installed."""
        return importlib.import_module(self._core)

    def was_connecting(self, error: e.RequestException) -> bool:
        """Return whether an error says that no connection could be made."""
        return _name(error) in ("ConnectError", "ConnectTimeout")

    def error_for(self, error: e.RequestException, request: object) -> Exception:
        """Return the library's error for one of ours.

        Args:
            error: what the engine raised.
            request: the library's request.
        """
        made: Exception = getattr(self.module, _name(error))(str(error), request=request)
        return made


# In this order: several are subclasses of others.
_NAMES: tuple[tuple[type[e.RequestException], str], ...] = (
    (e.ConnectTimeout, "ConnectTimeout"),
    (e.ReadTimeout, "ReadTimeout"),
    (e.WriteTimeout, "WriteTimeout"),
    (e.PoolTimeout, "PoolTimeout"),
    (e.Timeout, "TimeoutException"),
    (e.InvalidProxyURL, "ProxyError"),
    (e.InvalidSchema, "UnsupportedProtocol"),
    (e.MissingSchema, "UnsupportedProtocol"),
    (e.InvalidURL, "ConnectError"),  # to a host or port that cannot be
    (e.InvalidHeader, "LocalProtocolError"),
    (e.InvalidMethod, "LocalProtocolError"),
    (e.RemoteProtocolError, "RemoteProtocolError"),
    (e.ContentDecodingError, "RemoteProtocolError"),  # a transfer coding: bodies stay as they are
    (e.ClientClosed, "CloseError"),
    (e.StreamConsumedError, "ReadError"),  # closed by another task or thread
)
# Codes of libcurl (curl.h).
_SEND_ERROR, _RECV_ERROR, _GOT_NOTHING = 55, 56, 52
_BROKEN: dict[int | None, str] = {_SEND_ERROR: "WriteError", _RECV_ERROR: "ReadError"}


def _name(error: e.RequestException) -> str:
    for kind, name in _NAMES:
        if isinstance(error, kind):
            return name
    code = error.curl_code
    if isinstance(error, e.ProxyError):
        # Without an answer of its own, the proxy is a host that cannot be reached.
        reached = error.connect_status or error.request_sent or code not in (5, 7)
        return "ProxyError" if reached else "ConnectError"
    if isinstance(error, e.ChunkedEncodingError):
        broke = code in (_SEND_ERROR, _RECV_ERROR) and "chunk" not in str(error)
        return "ReadError" if broke else "RemoteProtocolError"
    if isinstance(error, e.ConnectionError):
        if not error.request_sent and code not in (_SEND_ERROR, _GOT_NOTHING):
            return "ConnectError"
        broken = _BROKEN.get(code, "RemoteProtocolError")
        return "RemoteProtocolError" if error.refused else broken
    # What the engine has no kind for: a body of another length than its header says.
    if code is None:
        return "LocalProtocolError"
    return "TransportError" if error.request_sent else "ConnectError"
