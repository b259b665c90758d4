"""Convert the arguments of httpx.HTTPTransport to a Transport and Limits.

`Binding` has the names that the transports need from httpx or httpx2, which share them.
"""

from __future__ import annotations

import importlib
import os
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from curlhttp import exceptions as e
from curlhttp._client.ssl_context import find_system_authorities, get_tls_arguments
from curlhttp._models.config import TLS, Limits, Proxy, Transport
from curlhttp._models.headers import check_header

if TYPE_CHECKING:
    from curlhttp._curl.address_guard import AddressChecker
    from curlhttp._models.config import HTTP2, Cert, SocketOption, Verify
    from curlhttp._policy.guard import GuardFunction, PublicOnly

__all__ = [
    "Binding",
    "CertInput",
    "LimitsLike",
    "ProxyInput",
    "RequestLike",
    "URLLike",
    "VerifyInput",
    "checkpoint_of",
    "limits_of",
    "transport_of",
]


VerifyInput: TypeAlias = "ssl.SSLContext | str | os.PathLike[str] | bool"
CertInput: TypeAlias = "str | tuple[str, str] | tuple[str, str, str] | None"

_MANY = 10_000  # connections, where httpx has no bound; the process's own comes first
_FOR_EVER = 10**9  # seconds


class _ProxyLike(Protocol):
    """An httpx.Proxy."""

    @property
    def url(self) -> URLLike: ...
    @property
    def auth(self) -> tuple[str, str] | None: ...
    @property
    def headers(self) -> HeadersLike: ...
    @property
    def ssl_context(self) -> ssl.SSLContext | None: ...


ProxyInput: TypeAlias = "str | URLLike | _ProxyLike | None"


def limits_of(limits: LimitsLike) -> Limits:
    """Return the engine's limits for an httpx.Limits."""
    expiry = limits.keepalive_expiry
    keep = limits.max_keepalive_connections
    return Limits(
        max_connections=_MANY if limits.max_connections is None else limits.max_connections,
        max_keepalive_connections=0 if expiry is not None and expiry <= 0 else keep,
        keepalive_expiry=_FOR_EVER if expiry is None else max(0.0, expiry),
    )


def transport_of(
    *,
    verify: VerifyInput,
    cert: CertInput,
    trust_env: bool,
    http1: bool,
    http2: bool,
    proxy: ProxyInput,
    uds: str | None,
    local_address: str | None,
    socket_options: Iterable[SocketOption] | None,
    trusts_system: bool,
) -> Transport:
    """Return how requests travel.

    Args:
        verify: True, False, a path, or an SSLContext, whose settings are taken over.
        cert: a client certificate: a path, or (certificate, key[, password]).
        trust_env: heed SSL_CERT_FILE and SSL_CERT_DIR.
        http1: speak HTTP/1.1.
        http2: offer HTTP/2; without http1, speak it without asking.
        proxy: a URL or an httpx.Proxy.
        uds: the path of a unix socket to connect to.
        local_address: the address to connect from.
        socket_options: tuples for socket.setsockopt.
        trusts_system: verify=True means the machine's authorities, not certifi's.

    Raises:
        ValueError: libcurl cannot do what is asked for.
    """
    if not (http1 or http2):
        raise ValueError("http1 and http2 cannot both be off")
    version: HTTP2 = ("prior-knowledge" if not http1 else True) if http2 else False
    if uds is not None and proxy is not None:
        raise ValueError("a unix socket cannot be reached through a proxy: leave out uds or proxy")
    return Transport(
        tls=_tls(verify, cert, trust_env, trusts_system),
        proxy=None if proxy is None else _proxy(proxy),
        http2=version,
        local_address=None if local_address is None else (local_address, 0),
        socket_options=tuple(tuple(option) for option in socket_options or ()),  # type: ignore[misc]
        unix_socket=uds,
    )


def checkpoint_of(guard: PublicOnly | GuardFunction, limits: Limits) -> AddressChecker:
    """Return a guard at work."""
    from curlhttp._curl.address_guard import AddressChecker
    from curlhttp._policy.guard import guard_of

    return AddressChecker(guard_of(guard), limits.dns_ttl)


def _tls(verify: VerifyInput, cert: CertInput, trust_env: bool, trusts_system: bool) -> TLS:
    checked = cast("Cert", tuple(cert) if isinstance(cert, list) else cert)
    if isinstance(verify, ssl.SSLContext):
        found = get_tls_arguments(verify)
        # It has some, which it does not show: those of the machine, as a rule.
        found.setdefault("verify", _of_system())
        return TLS(cert=checked, **found)
    trust: Verify = verify
    if verify is True:
        named = [os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if trust_env]
        trust = next(filter(None, named), None) or (_of_system() if trusts_system else True)
    return TLS(verify=trust, cert=checked)


@lru_cache(maxsize=1)
def _of_system() -> str | bool:
    return find_system_authorities() or True


def _proxy(proxy: str | URLLike | _ProxyLike) -> Proxy:
    if isinstance(proxy, str) or not hasattr(proxy, "ssl_context"):
        return Proxy.parse(_with_names_resolved_there(str(proxy)))
    settings = cast("_ProxyLike", proxy)
    if settings.ssl_context is not None:
        raise ValueError(
            "a proxy cannot have an ssl_context of its own here: verify= holds for it as well"
        )
    made = Proxy.parse(_with_names_resolved_there(str(settings.url)))
    name, password = settings.auth or (made.username, made.password)
    return Proxy(
        url=made.url,
        username=name,
        password=password,
        headers=tuple(check_header(*field) for field in settings.headers.raw),
    )


def _with_names_resolved_there(url: str) -> str:
    """Return a proxy's URL with "socks5" as httpx means it: the proxy resolves names."""
    scheme, separator, rest = url.partition("://")
    return f"socks5h://{rest}" if separator and scheme.lower() == "socks5" else url


# --- The names that the transports need from httpx or httpx2, and its errors for ours ---


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
