"""urllib3's pool managers and pools for adapters, with libcurl's connections.

Where a pool's settings are unsupported by libcurl (a fingerprint, a class of connections), urllib3
sends on its own sockets. Import this module late, because it loads urllib3.
"""

from __future__ import annotations

import ssl
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import urllib3
from urllib3 import (
    HTTPConnectionPool,
    HTTPResponse,
    HTTPSConnectionPool,
    PoolManager,
    ProxyManager,
    poolmanager,
)
from urllib3 import exceptions as urllib3_errors
from urllib3.connection import port_by_scheme
from urllib3.util import SKIP_HEADER

from curlhttp import exceptions as e
from curlhttp._http.config import TLS, NetworkRoute, Proxy, derive_route
from curlhttp._http.redaction import redact_text
from curlhttp._http.ssl_context import get_tls_arguments, to_tls_version
from curlhttp._http.url import URL, bracketed, parse_url
from curlhttp.requests._cached import cached_property
from curlhttp.requests._core_request import get_ip_version, to_timeout
from curlhttp.requests._environment import get_plain_http_verify
from curlhttp.requests._raw import RawResponse
from curlhttp.requests._retries import to_urllib3_error
from curlhttp.requests._url import quote_latin1_userinfo
from curlhttp.requests.models import PreparedRequest
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from urllib3._base_connection import BaseHTTPConnection

    from curlhttp._http.config import HTTP2, Verify
    from curlhttp.requests._types import PoolKeywords
    from curlhttp.requests.adapters import HTTPAdapter


class UnsupportedByLibcurl(Exception):
    """A pool's setting that libcurl does not support."""


class PoolOwner:
    """A pool's weak reference to its adapter; it outlives the adapter.

    Args:
        adapter: the owner of the pools; None for pools without one.

    Attributes:
        is_guarded: the adapter has a guard.
    """

    def __init__(self, adapter: HTTPAdapter | None) -> None:
        self._adapter = None if adapter is None else weakref.ref(adapter)
        self.is_guarded = adapter is not None and adapter.guard is not None

    def adapter(self) -> HTTPAdapter | None:
        """Return the adapter, None when it is gone."""
        return None if self._adapter is None else self._adapter()

    def check_unguarded(self, pool: HTTPConnectionPool) -> None:
        """Check that urllib3 may connect, because a guard cannot check its addresses.

        Raises:
            ValueError: there is a guard.
            ClosedPoolError: there was one, and the adapter was collected.
        """
        adapter = self.adapter()
        if adapter is not None:
            adapter._check_unguarded()
        elif self.is_guarded:
            raise urllib3_errors.ClosedPoolError(
                pool, "the adapter of this pool, which had a guard, is gone"
            )


_NO_OWNER = PoolOwner(None)


# --- managers ---


class _AdapterManager:
    """Base of an adapter's managers."""

    owner = _NO_OWNER

    if TYPE_CHECKING:
        pool_classes_by_scheme: dict[str, type[HTTPConnectionPool]]

    def attach_to(self, adapter: HTTPAdapter) -> None:
        """Let the pools use the connections of an adapter."""
        self.owner = adapter._pool_owner
        self.pool_classes_by_scheme = dict(_CURL_POOLS)

    def _new_pool(self, scheme: str, host: str, port: int, request_context: Any = None) -> Any:
        pool = super()._new_pool(scheme, host, port, request_context)  # type: ignore[misc]
        if isinstance(pool, CurlHTTPConnectionPool):
            pool.owner = self.owner
        return pool

    def clear(self) -> None:
        """Drop the pools, and close the adapter's connections."""
        super().clear()  # type: ignore[misc]
        adapter = self.owner.adapter()
        if adapter is not None:
            adapter._close_engine()


class CurlPoolManager(_AdapterManager, PoolManager):
    """Manage the pools for origins."""


class _SharedPoolManager(CurlPoolManager):
    """A program's manager, which several adapters may share, so clear() closes no connections."""

    def clear(self) -> None:
        PoolManager.clear(self)


class CurlProxyManager(_AdapterManager, ProxyManager):
    """Manage the pools for requests through an HTTP proxy."""


class CurlSOCKSProxyManager(_AdapterManager, PoolManager):
    """Manage the pools for requests through a SOCKS proxy; libcurl implements SOCKS.

    Args:
        proxy_url: of the proxy.
        username: for the proxy; None for the URL's.
        password: for the proxy.
        num_pools: to keep.
        headers: for all requests, see PoolManager.
        connection_pool_kw: keywords of the pools.
    """

    def __init__(
        self,
        proxy_url: str,
        username: str | None = None,
        password: str | None = None,
        num_pools: int = 10,
        headers: Mapping[str, str] | None = None,
        **connection_pool_kw: Any,
    ) -> None:
        self.proxy_url = proxy_url
        options = {"proxy_url": proxy_url, "username": username, "password": password}
        super().__init__(num_pools, headers, _socks_options=options, **connection_pool_kw)
        self.pool_classes_by_scheme = dict(_CURL_POOLS)


def make_pool_manager(adapter: HTTPAdapter, **kw: Any) -> PoolManager:
    """Return a manager of an adapter's pools."""
    manager = CurlPoolManager(**kw)
    manager.attach_to(adapter)
    return manager


def make_proxy_manager(adapter: HTTPAdapter, proxy: str, **kw: Any) -> PoolManager:
    """Return a manager of an adapter's pools for a proxy."""
    is_socks = proxy.lower().startswith("socks")
    if not is_socks and poolmanager.ProxyManager is not ProxyManager:  # a test's mock
        return poolmanager.ProxyManager(proxy, **kw)
    manager = (CurlSOCKSProxyManager if is_socks else CurlProxyManager)(proxy, **kw)
    manager.attach_to(adapter)
    return manager


def adopt(manager: object, adapter: HTTPAdapter) -> None:
    """Make a plain PoolManager, which many programs set, use an adapter's connections."""
    if type(manager) is PoolManager and manager.pool_classes_by_scheme == _URLLIB3_POOLS:
        manager.__class__ = _SharedPoolManager
        cast("_SharedPoolManager", manager).attach_to(adapter)
        for key in manager.pools.keys():  # noqa: SIM118  # it has no iterator
            pool = manager.pools.get(key)
            if pool is not None and type(pool) in _URLLIB3_POOLS.values():
                pool.__class__ = _CURL_POOLS[str(pool.scheme)]
                cast("CurlHTTPConnectionPool", pool).owner = adapter._pool_owner


# --- pools ---


class CurlHTTPConnectionPool(HTTPConnectionPool):
    """A pool whose connections are those of an adapter."""

    owner = _NO_OWNER
    uses_urllib3 = False

    def _new_conn(self) -> Any:
        adapter = self.owner.adapter()
        if adapter is not None and not self.uses_urllib3:
            try:
                return CurlConnection(self, adapter)
            except UnsupportedByLibcurl as error:
                if "_socks_options" in self.conn_kw:
                    raise ValueError(str(error)) from None
        self.owner.check_unguarded(self)
        return super()._new_conn()

    def _unused_connection(self) -> object:
        """Return urllib3's connection, which has attributes that libcurl's does not have."""
        if "_socks_options" in self.conn_kw:  # urllib3 would need PySocks
            return None
        self.num_connections -= 1
        return super()._new_conn()

    def _put_conn(self, conn: BaseHTTPConnection | None) -> None:
        # libcurl keeps the connections. One in the queue would keep the adapter and this pool
        # alive, because the pool's finalizer refers to the queue.
        super()._put_conn(None if hasattr(conn, "is_libcurl") else conn)

    def _prepare_proxy(self, conn: Any) -> None:
        if not hasattr(conn, "is_libcurl"):
            self.owner.check_unguarded(self)
            super()._prepare_proxy(conn)

    def _validate_conn(self, conn: Any) -> None:
        if not hasattr(conn, "is_libcurl"):
            self.owner.check_unguarded(self)  # the connection may be older than the guard
            super()._validate_conn(conn)


class CurlHTTPSConnectionPool(CurlHTTPConnectionPool, HTTPSConnectionPool):
    """A CurlHTTPConnectionPool with TLS."""


_URLLIB3_POOLS = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}
_CURL_POOLS: dict[str, type[HTTPConnectionPool]] = {
    "http": CurlHTTPConnectionPool,
    "https": CurlHTTPSConnectionPool,
}


# --- connections ---


class CurlConnection:
    """A pool's connection for one request; the sockets are libcurl's.

    Attributes:
        timeout: seconds, None for no limit: for connecting before request() is called, for silence
            afterwards.
    """

    is_libcurl = is_connected = is_verified = True
    is_closed = proxy_is_verified = has_connected_to_proxy = False
    proxy = sock = None
    timeout: float | None = None

    def __init__(self, pool: Any, adapter: HTTPAdapter) -> None:
        """Check that libcurl supports the pool.

        Raises:
            UnsupportedByLibcurl: it does not.
        """
        self.host, self.port = pool.host, pool.port
        self._origin = f"{pool.scheme}://{bracketed(pool.host)}:{pool.port}/"
        get_target(pool, parse_url(self._origin), adapter._http2)  # raises if libcurl cannot
        self._pool, self._adapter = pool, adapter

    @cached_property
    def _urllib3_connection(self) -> Any:
        return self._pool._unused_connection()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._urllib3_connection, name)

    def connect(self) -> None:
        """Let urllib3 connect, for programs that need its socket.

        Raises:
            ValueError: there is a guard.
        """
        self._adapter._check_unguarded()
        self._urllib3_connection.connect()

    def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        *,
        chunked: bool = False,
        preload_content: bool = True,
        decode_content: bool = True,
        enforce_content_length: bool = True,
    ) -> None:
        """Store the request: getresponse() sends it, when both time limits are known."""
        self._request = _prepare(method, body, headers or {})
        self._target, self._connect = url, self.timeout
        self._options: dict[str, Any] = {
            "preload_content": preload_content,
            "decode_content": decode_content,
            "enforce_content_length": enforce_content_length,
        }

    def getresponse(self) -> HTTPResponse:
        """Send the request, and return the response.

        Raises:
            HTTPError: urllib3's; no response was received.
        """
        pool, request = self._pool, self._request
        target = self._target
        request.url = target if "://" in target else self._origin[:-1] + target
        found = get_target(pool, parse_url(request.url), self._adapter._http2)
        limits = (self._connect, self.timeout)
        is_streamed = not self._options["preload_content"]
        try:
            sent = self._adapter._make_request(
                request, found.url, found.route, limits, is_streamed, found.name
            )
            raw = RawResponse(self._adapter._attempt(sent))
        except e.RequestException as error:
            error.request = request
            raise to_urllib3_error(error) from error
        pool.num_connections += not raw.received.timings.reused
        response = _to_urllib3_response(raw, request, target, self._options)
        response._adapter = self._adapter  # type: ignore[attr-defined]  # keeps the engine alive while the body is read
        return response

    def close(self) -> None:
        """Do nothing: libcurl owns the connection."""


def _prepare(method: str, body: Any, headers: Any) -> PreparedRequest:
    request = PreparedRequest()
    request.method, request.body = method, body
    fields = CaseInsensitiveDict(headers.items())
    # The defaults of http.client and urllib3.
    fields.setdefault("Accept-Encoding", "identity")
    fields.setdefault("User-Agent", f"python-urllib3/{urllib3.__version__}")  # type: ignore[attr-defined]
    request.headers = CaseInsensitiveDict(
        (name, value) for name, value in fields.items() if value != SKIP_HEADER
    )
    return request


def _to_urllib3_response(
    raw: RawResponse, request: PreparedRequest, target: str, options: dict[str, Any]
) -> HTTPResponse:
    response = HTTPResponse(
        body=raw._fp,
        headers=raw.headers,
        status=raw.status,
        version=raw.version,
        reason=raw.reason,
        original_response=raw._original_response,
        request_method=request.method,
        request_url=target,
        **options,
    )
    response.version_string = raw.version_string
    response.chunked = False  # libcurl has removed the chunks
    return response


# --- from a pool to libcurl ---


@dataclass(frozen=True)
class PoolTarget:
    """How libcurl sends a pool's request.

    Attributes:
        url: with the pool's host.
        route: proxy, TLS and socket settings.
        name: the host name that the certificate must have, or None for the URL's.
    """

    url: URL
    route: NetworkRoute
    name: str | None


def check_class(pool: Any) -> None:
    """Check that neither a subclass nor a program changes how a pool connects.

    Raises:
        UnsupportedByLibcurl: one of them does.
    """
    if type(pool) not in _CURL_POOLS.values() or not vars(pool).keys().isdisjoint(_REPLACED):
        raise UnsupportedByLibcurl(f"{type(pool).__name__} uses another class of connections")


def get_target(pool: Any, url: URL, http2: HTTP2) -> PoolTarget:
    """Return how libcurl sends a pool's request.

    Raises:
        UnsupportedByLibcurl: it cannot.
    """
    check_class(pool)
    kw = {name: value for name, value in pool.conn_kw.items() if value is not None}
    proxy, name = _get_proxy(pool, kw), _get_certificate_name(pool, kw)
    address, options = kw.pop("source_address", None), kw.pop("socket_options", ())
    tls = _get_tls(pool, kw) if pool.scheme == "https" else TLS(verify=get_plain_http_verify())
    unknown = kw.keys() - {"proxy", "proxy_config", "blocksize", "ssl_context", "ca_cert_data"}
    if unknown:
        raise UnsupportedByLibcurl(f"libcurl does not support {', '.join(sorted(unknown))}")
    route = derive_route(
        NetworkRoute(tls=tls),
        proxy=proxy,
        http2=http2,
        local_address=(str(address[0]), int(address[1])) if address else None,
        socket_options=tuple(map(tuple, options)),
        ip_version=get_ip_version(),
    )
    return PoolTarget(_get_url_at(pool, url), route, name)


def may_need_context(pool: Any, body: object, error: e.SSLError) -> bool:
    """Return whether to retry with urllib3, because the context may have a client certificate.

    A context does not reveal its client certificate. A server that requires one has refused the
    handshake and has not read the request. After any other TLS failure, it may have read it.
    """
    first = error.__cause__ if isinstance(error.__cause__, e.SSLError) else error
    return not (
        first.tls_failure != "handshake"
        or (first.request_sent and not first.wants_certificate)
        or pool.conn_kw.get("ssl_context") is None
        or "_socks_options" in pool.conn_kw  # urllib3 would need PySocks
        or pool.cert_file
        or not (body is None or isinstance(body, (str, bytes)))
    )


@contextmanager
def using_urllib3(pool: CurlHTTPConnectionPool) -> Iterator[None]:
    """Send a request of a pool with urllib3, and if it succeeds, all later ones, too."""
    pool.uses_urllib3 = True
    try:
        yield
    except BaseException:
        vars(pool).pop("uses_urllib3", None)  # unless another thread did
        raise


# Attributes that programs replace on a pool, and that libcurl would bypass.
_REPLACED = {
    "ConnectionCls",
    "uses_urllib3",
    "urlopen",
    "_get_conn",
    "_make_request",
    "_new_conn",
}


def _get_url_at(pool: Any, url: URL) -> URL:
    """Return a URL with the pool's host, because some adapters choose the address."""
    if pool.proxy is not None and url.scheme == "http":
        return url  # the pool's host is the proxy
    port = pool.port or port_by_scheme[pool.scheme]
    if (pool.scheme, pool.host, port) == (url.scheme, url.host, url.port):
        return url
    return parse_url(f"{pool.scheme}://{bracketed(pool.host)}:{port}/")._with(url.target, "")


def _get_proxy(pool: Any, kw: PoolKeywords) -> Proxy | None:
    options = kw.pop("_socks_options", None)
    if options is not None:
        proxy = Proxy.parse(options["proxy_url"])
        name = options["username"]
        return replace(proxy, username=name, password=options["password"]) if name else proxy
    if pool.proxy is None:
        return None
    config = pool.proxy_config
    if config is not None and (
        config.use_forwarding_for_https
        or config.assert_fingerprint
        or (pool.proxy.scheme == "https" and config.ssl_context is not kw.get("ssl_context"))
    ):
        raise UnsupportedByLibcurl("libcurl does not support these settings of the proxy")
    proxy = Proxy.parse(quote_latin1_userinfo(pool.proxy.url))
    # libcurl sends the credentials of the proxy's URL.
    headers = tuple(
        (name, value)
        for name, value in pool.proxy_headers.items()
        if name.lower() != "proxy-authorization" or proxy.username is None
    )
    return replace(proxy, headers=headers)


def _get_certificate_name(pool: Any, kw: PoolKeywords) -> str | None:
    """Return the host name that the certificate must have, if not the pool's."""
    server = kw.pop("server_hostname", None)
    wanted = getattr(pool, "assert_hostname", None)
    if server and wanted and server != wanted:
        raise UnsupportedByLibcurl("libcurl cannot send one host name in TLS and verify another")
    found: str | None = wanted or server
    return found


def _get_tls(pool: Any, kw: PoolKeywords) -> TLS:
    if pool.assert_fingerprint:
        raise UnsupportedByLibcurl("libcurl does not support assert_fingerprint")
    context = kw.get("ssl_context")
    found: Any = {} if context is None else dict(_read_trust(context))
    # urllib3 checks the host where the context does not.
    found["check_hostname"] = pool.assert_hostname is not False
    found["verify"] = _get_verify(pool, found.get("verify", True), kw.get("ca_cert_data"))
    if pool.cert_file:
        files = (pool.cert_file, pool.key_file or pool.cert_file)
        found["cert"] = (*files, pool.key_password) if pool.key_password else files
    lowest = to_tls_version(pool.ssl_minimum_version or pool.ssl_version)
    highest = to_tls_version(pool.ssl_maximum_version or pool.ssl_version)
    if lowest or highest:
        found["versions"] = (lowest, highest)
    return TLS(**found)


def _get_verify(pool: Any, context_verify: Verify, data: str | bytes | None) -> Verify:
    if pool.cert_reqs in ("CERT_NONE", "NONE", 0):
        return False
    if context_verify is False:
        if pool.cert_reqs is None:
            return False
        context_verify = True  # the request decides
    given = pool.ca_certs or pool.ca_cert_dir
    if given and given != _get_default_authorities():
        return str(given)
    if data:
        return data.encode() if isinstance(data, str) else data
    return context_verify


def _read_trust(context: Any) -> Any:
    """Return the arguments of TLS that are equivalent to a context.

    Raises:
        UnsupportedByLibcurl: it is not ssl's own, or has a setting that libcurl does not support.
    """
    if type(context).__module__ != "ssl":
        raise UnsupportedByLibcurl(f"libcurl does not support {type(context).__name__}")
    default = _get_default_context()
    if context.options & ~default.options & _LEGACY:
        raise UnsupportedByLibcurl("libcurl does not renegotiate with old servers")
    if context.security_level != default.security_level:
        raise UnsupportedByLibcurl("libcurl does not support a context's security level")
    state = _get_state(context)
    known = _trust_cache.get(context)
    # Cached, because reading all authorities takes milliseconds.
    if known is None or known[0] != state:
        try:
            trust = get_tls_arguments(context)
        except ValueError as error:
            raise UnsupportedByLibcurl(str(error)) from None
        # Python's ciphers, too, because they are fewer than libcurl's.
        trust["ciphers"] = ":".join(_get_ciphers(context))
        known = _trust_cache[context] = (state, trust)
    return known[1]


_LEGACY = 0x4 | 0x40000  # SSL_OP_LEGACY_SERVER_CONNECT, ..._ALLOW_UNSAFE_LEGACY_RENEGOTIATION
_trust_cache: weakref.WeakKeyDictionary[ssl.SSLContext, tuple[Any, Any]] = (
    weakref.WeakKeyDictionary()
)


def _get_state(context: ssl.SSLContext) -> tuple[object, ...]:
    """Return values that differ after any change of a context; authorities are only added."""
    return (
        context.cert_store_stats(),
        context.verify_mode,
        context.verify_flags,
        context.minimum_version,
        context.maximum_version,
        _get_ciphers(context),
    )


def _get_ciphers(context: ssl.SSLContext) -> list[str]:
    """Return the names of the ciphers, except TLS 1.3's, which cannot be chosen."""
    return [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]


@lru_cache(maxsize=1)
def _get_default_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@lru_cache(maxsize=1)
def _get_default_authorities() -> str:
    import certifi

    return certifi.where()


# --- from a pool to urllib3 ---


def send_with_urllib3(adapter: Any, pool: Any, request: Any, timeout: Any, proxies: Any) -> Any:
    """Send a request through a urllib3 pool, such as one for Unix sockets; return its response.

    Raises:
        ConnectionError, ConnectTimeout, ProxyError, ReadTimeout, RetryError, SSLError: no
            response was received.
    """
    limits = to_timeout(timeout)
    try:
        return pool.urlopen(
            method=request.method,
            url=adapter.request_url(request, proxies),
            body=request.body,
            headers=request.headers,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
            decode_content=False,
            retries=adapter.max_retries,
            timeout=urllib3.Timeout(limits.total, limits.connect, limits.read),
            chunked=not (request.body is None or "Content-Length" in request.headers),
        )
    except (urllib3_errors.HTTPError, OSError) as error:
        if isinstance(error, urllib3_errors.MaxRetryError) and error.url:
            shown = redact_text(error.url)
            error.args = (str(error).replace(error.url, shown),)
            error.url = shown
        raise _get_error_class(error)(error, request=request) from error


def _get_error_class(error: Exception) -> type[e.RequestException]:
    """Return our exception class for one of urllib3's errors."""
    reason = error.reason if isinstance(error, urllib3_errors.MaxRetryError) else error
    # Before ConnectTimeoutError, which is its base class in urllib3 1.
    if isinstance(reason, urllib3_errors.NewConnectionError):
        return e.ConnectionError
    if isinstance(reason, urllib3_errors.ConnectTimeoutError):
        return e.ConnectTimeout
    if isinstance(error, urllib3_errors.ReadTimeoutError):  # not as the reason of a MaxRetryError
        return e.ReadTimeout
    if isinstance(reason, urllib3_errors.ResponseError):
        return e.RetryError
    if isinstance(reason, urllib3_errors.ProxyError):
        return e.ProxyError
    return e.SSLError if isinstance(reason, urllib3_errors.SSLError) else e.ConnectionError
