"""Convert arguments of httpx.HTTPTransport to ours: limits, TLS and proxies.

`Library` holds what the transports need from httpx or httpx2, which use the same names.
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
from curlhttp._http.config import TLS, Limits, Proxy
from curlhttp._http.headers import check_header
from curlhttp._http.ssl_context import find_system_authorities, get_tls_arguments

if TYPE_CHECKING:
    from curlhttp._http.config import Cert, Verify

VerifyInput: TypeAlias = "ssl.SSLContext | str | os.PathLike[str] | bool"
CertInput: TypeAlias = "str | tuple[str, str] | tuple[str, str, str] | None"

_MANY = 10_000  # connections, if httpx has no limit; that of the process is lower
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


def to_limits(limits: LimitsLike) -> Limits:
    """Convert an httpx.Limits to ours."""
    expiry = limits.keepalive_expiry
    keep = limits.max_keepalive_connections
    return Limits(
        max_connections=_MANY if limits.max_connections is None else limits.max_connections,
        max_keepalive_connections=0 if expiry is not None and expiry <= 0 else keep,
        keepalive_expiry=_FOR_EVER if expiry is None else max(0.0, expiry),
    )


def make_tls(verify: VerifyInput, cert: CertInput, trust_env: bool, trusts_system: bool) -> TLS:
    """Return the TLS settings for the arguments of httpx.HTTPTransport.

    Args:
        verify: True, False, a path, or an SSLContext, whose settings are copied.
        cert: a client certificate: a path, or (certificate, key[, password]).
        trust_env: use SSL_CERT_FILE and SSL_CERT_DIR.
        trusts_system: whether verify=True means the system's CA certificates, instead of certifi's.
    """
    checked = cast("Cert", tuple(cert) if isinstance(cert, list) else cert)
    if isinstance(verify, ssl.SSLContext):
        found = get_tls_arguments(verify)
        # It does not show its CA certificates, which usually are the system's.
        found.setdefault("verify", _find_system_trust())
        return TLS(cert=checked, **found)
    trust: Verify = verify
    if verify is True:
        named = [os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if trust_env]
        path = next(filter(None, named), None)
        if path is not None:
            return TLS(verify=path, cert=checked, must_exist=False)
        trust = _find_system_trust() if trusts_system else True
    return TLS(verify=trust, cert=checked)


@lru_cache(maxsize=1)
def _find_system_trust() -> str | bool:
    return find_system_authorities() or True


def make_proxy(proxy: str | URLLike | _ProxyLike) -> Proxy:
    """Convert a URL or an httpx.Proxy to a Proxy.

    Raises:
        ValueError: libcurl cannot do what its ssl_context requires.
        InvalidProxyURL: the URL names no proxy.
    """
    if isinstance(proxy, str) or not hasattr(proxy, "ssl_context"):
        return Proxy.parse(_resolve_names_at_proxy(str(proxy)))
    settings = cast("_ProxyLike", proxy)
    made = Proxy.parse(_resolve_names_at_proxy(str(settings.url)))
    name, password = settings.auth or (made.username, made.password)
    return Proxy(
        url=made.url,
        username=name,
        password=password,
        headers=tuple(check_header(*field) for field in settings.headers.raw),
        verify=settings.ssl_context,
    )


def _resolve_names_at_proxy(url: str) -> str:
    """Return a proxy's URL in which the proxy resolves names, as "socks5" means in httpx."""
    scheme, separator, rest = url.partition("://")
    return f"socks5h://{rest}" if separator and scheme.lower() == "socks5" else url


# --- What the transports need from httpx or httpx2: protocols of its classes, and its errors ---


class URLLike(Protocol):
    """An httpx.URL."""

    @property
    def raw_scheme(self) -> bytes:
        """Return the scheme in lower case."""

    @property
    def raw_host(self) -> bytes:
        """Return the host as it is resolved; an IPv6 address has no brackets."""

    @property
    def port(self) -> int | None:
        """Return the port, None for the scheme's default."""

    @property
    def raw_path(self) -> bytes:
        """Return the request target."""


class HeadersLike(Protocol):
    """An httpx.Headers."""

    @property
    def raw(self) -> list[tuple[bytes, bytes]]:
        """Return names and values as they are sent."""


class RequestLike(Protocol):
    """An httpx.Request."""

    method: str

    @property
    def url(self) -> URLLike:
        """Return its URL."""

    @property
    def headers(self) -> HeadersLike:
        """Return all its headers."""

    @property
    def stream(self) -> object:
        """Return its body, an iterable or async iterable of bytes."""

    @property
    def extensions(self) -> Mapping[str, object]:
        """Return options for the transport, such as "timeout"."""


class LimitsLike(Protocol):
    """An httpx.Limits."""

    max_connections: int | None
    max_keepalive_connections: int | None
    keepalive_expiry: float | None


class Library:
    """The classes and errors of httpx or httpx2.

    Args:
        module: httpx or httpx2.
        core: the name of the library below it, httpcore or httpcore2.

    Attributes:
        module: as above.
        make_response: its class Response.
        byte_stream_class: its class ByteStream, a body in memory.
    """

    def __init__(self, module: ModuleType, core: str) -> None:
        self.module = module
        self._core = core
        self.make_response: Callable[..., object] = module.Response
        self.byte_stream_class: type[Iterable[bytes]] = module.ByteStream

    def default_limits(self) -> LimitsLike:
        """Return the default limits of the library's own transport."""
        limits: LimitsLike = self.module.Limits(max_connections=100, max_keepalive_connections=20)
        return limits

    def get_core_module(self) -> ModuleType:
        """Return the module of the errors that network streams raise; the library requires it."""
        return importlib.import_module(self._core)

    def failed_to_connect(self, error: e.RequestException) -> bool:
        """Return whether an error means that no connection could be made."""
        return _find_error_name(error) in ("ConnectError", "ConnectTimeout")

    def make_error(self, error: e.RequestException, request: object) -> Exception:
        """Convert one of our errors to the library's.

        Args:
            error: from the engine.
            request: the library's request.
        """
        made: Exception = getattr(self.module, _find_error_name(error))(str(error), request=request)
        return made


# In this order: several are subclasses of others.
_ERROR_NAMES: tuple[tuple[type[e.RequestException], str], ...] = (
    (e.ConnectTimeout, "ConnectTimeout"),
    (e.ReadTimeout, "ReadTimeout"),
    (e.WriteTimeout, "WriteTimeout"),
    (e.PoolTimeout, "PoolTimeout"),
    (e.Timeout, "TimeoutException"),
    (e.InvalidProxyURL, "ProxyError"),
    (e.InvalidSchema, "UnsupportedProtocol"),
    (e.MissingSchema, "UnsupportedProtocol"),
    (e.InvalidURL, "ConnectError"),  # an impossible host or port
    (e.InvalidHeader, "LocalProtocolError"),
    (e.InvalidMethod, "LocalProtocolError"),
    (e.RemoteProtocolError, "RemoteProtocolError"),
    (e.ContentDecodingError, "RemoteProtocolError"),  # a transfer coding; httpx decodes content
    (e.ClientClosed, "CloseError"),
    (e.StreamConsumedError, "ReadError"),  # closed by another task or thread
)
# Codes of libcurl (curl.h).
_SEND_ERROR, _RECV_ERROR, _GOT_NOTHING = 55, 56, 52
_BROKEN: dict[int | None, str] = {_SEND_ERROR: "WriteError", _RECV_ERROR: "ReadError"}


def _find_error_name(error: e.RequestException) -> str:
    for kind, name in _ERROR_NAMES:
        if isinstance(error, kind):
            return name
    code = error.curl_code
    if isinstance(error, e.ProxyError):
        # A proxy that did not respond is a host that cannot be reached.
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
    # Other errors of the engine: the body does not have the length in its header.
    if code is None:
        return "LocalProtocolError"
    return "TransportError" if error.request_sent else "ConnectError"
