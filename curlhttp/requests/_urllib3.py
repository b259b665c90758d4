"""urllib3's pool managers and pools as adapters have them: real ones, whose pools send by libcurl.

What a pool is told and libcurl cannot do (a fingerprint, a class of connections that a program
brings) is done by urllib3 itself, on sockets of its own. Import this late: it loads urllib3.
"""

from __future__ import annotations

import ssl
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

from urllib3 import (
    HTTPConnectionPool,
    HTTPResponse,
    HTTPSConnectionPool,
    PoolManager,
    ProxyManager,
    poolmanager,
)
from urllib3.connection import port_by_scheme
from urllib3.exceptions import ClosedPoolError
from urllib3.util import SKIP_HEADER

from curlhttp import exceptions as e
from curlhttp._client.ssl_context import get_tls_arguments, to_tls_version
from curlhttp._models.config import TLS, Proxy, Transport
from curlhttp._models.redaction import redact_text
from curlhttp._models.url import URL, bracketed, parse_url
from curlhttp.exceptions import RequestException, SSLError
from curlhttp.requests._core_request import ip_version, timeout_of
from curlhttp.requests._environment import for_plain_http
from curlhttp.requests._raw import RawResponse
from curlhttp.requests._retries import as_urllib3
from curlhttp.requests.models import PreparedRequest
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from urllib3._base_connection import BaseHTTPConnection

    from curlhttp._models.config import HTTP2, Verify
    from curlhttp.requests._types import PoolKeywords
    from curlhttp.requests.adapters import HTTPAdapter

__all__ = [
    "CannotCarry",
    "CurlConnection",
    "CurlSOCKSProxyManager",
    "Owner",
    "PoolRoute",
    "adopt",
    "check_is_ours",
    "left_alone",
    "needs_its_context",
    "pool_manager_for",
    "proxy_manager_for",
    "route_of",
    "send_through",
]


class CannotCarry(Exception):
    """Say what a pool asks for that libcurl cannot do."""


class Owner:
    """What pools know of their adapter, and keep in mind when it is gone.

    Args:
        adapter: has the pools; None for pools that belong to nobody.

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
        """Refuse to let urllib3 dial what a guard has to judge.

        Raises:
            ValueError: there is a guard.
            ClosedPoolError: there was one, and the adapter is gone.
        """
        adapter = self.adapter()
        if adapter is not None:
            adapter._check_unguarded()
        elif self.is_guarded:
            raise ClosedPoolError(pool, "the adapter of this pool, which had a guard, is gone")


_NOBODY = Owner(None)


# --- managers ---


class _OfAdapter:
    """What the managers of an adapter have in common."""

    owner = _NOBODY

    if TYPE_CHECKING:
        pool_classes_by_scheme: dict[str, type[HTTPConnectionPool]]

    def belong_to(self, adapter: HTTPAdapter) -> None:
        """Give the pools to an adapter, whose connections they use."""
        self.owner = adapter._as_owner
        self.pool_classes_by_scheme = dict(_OURS)

    def _new_pool(self, scheme: str, host: str, port: int, request_context: Any = None) -> Any:
        pool = super()._new_pool(scheme, host, port, request_context)  # type: ignore[misc]
        if isinstance(pool, CurlHTTPConnectionPool):
            pool.owner = self.owner
        return pool

    def clear(self) -> None:
        """Forget the pools, and let go of the adapter's connections."""
        super().clear()  # type: ignore[misc]
        adapter = self.owner.adapter()
        if adapter is not None:
            adapter._let_go()


class CurlPoolManager(_OfAdapter, PoolManager):
    """Make the pools for origins."""


class _AdoptedPoolManager(CurlPoolManager):
    """A program's own, which several adapters may share: their connections are not its own."""

    def clear(self) -> None:
        PoolManager.clear(self)


class CurlProxyManager(_OfAdapter, ProxyManager):
    """Make the pools for what goes through an HTTP proxy."""


class CurlSOCKSProxyManager(_OfAdapter, PoolManager):
    """Make the pools for what goes through a SOCKS proxy; libcurl speaks to it.

    Args:
        proxy_url: of the proxy.
        username: for the proxy; None for what the URL says.
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
        self.pool_classes_by_scheme = dict(_OURS)


def pool_manager_for(adapter: HTTPAdapter, **kw: Any) -> PoolManager:
    """Return what makes an adapter's pools."""
    manager = CurlPoolManager(**kw)
    manager.belong_to(adapter)
    return manager


def proxy_manager_for(adapter: HTTPAdapter, proxy: str, **kw: Any) -> PoolManager:
    """Return what makes an adapter's pools for a proxy."""
    is_socks = proxy.lower().startswith("socks")
    if not is_socks and poolmanager.ProxyManager is not ProxyManager:  # a test's mock
        return poolmanager.ProxyManager(proxy, **kw)
    manager = (CurlSOCKSProxyManager if is_socks else CurlProxyManager)(proxy, **kw)
    manager.belong_to(adapter)
    return manager


def adopt(manager: object, adapter: HTTPAdapter) -> None:
    """Let a manager that is urllib3's own, as many adapters have it, be one of the adapter's."""
    if type(manager) is PoolManager and manager.pool_classes_by_scheme == _URLLIB3S:
        manager.__class__ = _AdoptedPoolManager
        cast("_AdoptedPoolManager", manager).belong_to(adapter)
        for key in manager.pools.keys():  # noqa: SIM118  # it has no iterator
            pool = manager.pools.get(key)
            if pool is not None and type(pool) in _URLLIB3S.values():
                pool.__class__ = _OURS[str(pool.scheme)]
                cast("CurlHTTPConnectionPool", pool).owner = adapter._as_owner


# --- pools ---


class CurlHTTPConnectionPool(HTTPConnectionPool):
    """A pool whose connections are those of an adapter."""

    owner = _NOBODY
    is_left_alone = False

    def _new_conn(self) -> Any:
        adapter = self.owner.adapter()
        if adapter is not None and not self.is_left_alone:
            try:
                return adapter._connection_of(self)
            except CannotCarry as error:
                if "_socks_options" in self.conn_kw:
                    raise ValueError(str(error)) from None
        self.owner.check_unguarded(self)
        return super()._new_conn()

    def _unused_connection(self) -> object:
        """Return what urllib3 would connect; it has the attributes that libcurl's has not."""
        if "_socks_options" in self.conn_kw:  # urllib3 would need PySocks
            return None
        self.num_connections -= 1
        return super()._new_conn()

    def _put_conn(self, conn: BaseHTTPConnection | None) -> None:
        # libcurl keeps the connections. Here one would keep the adapter, and so this pool, because
        # the finalizer of a pool holds what is in its queue.
        super()._put_conn(None if hasattr(conn, "is_curls") else conn)

    def _prepare_proxy(self, conn: Any) -> None:
        if not hasattr(conn, "is_curls"):
            self.owner.check_unguarded(self)
            super()._prepare_proxy(conn)

    def _validate_conn(self, conn: Any) -> None:
        if not hasattr(conn, "is_curls"):
            self.owner.check_unguarded(self)  # it may be from before there was a guard
            super()._validate_conn(conn)


class CurlHTTPSConnectionPool(CurlHTTPConnectionPool, HTTPSConnectionPool):
    """The same with TLS."""


_URLLIB3S = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}
_OURS: dict[str, type[HTTPConnectionPool]] = {
    "http": CurlHTTPConnectionPool,
    "https": CurlHTTPSConnectionPool,
}


# --- from a pool to libcurl ---


@dataclass(frozen=True)
class PoolRoute:
    """How a request travels that goes by a pool.

    Attributes:
        url: what to ask for; the pool says of which host.
        transport: the way.
        name: what the certificate has to be for, or None for the URL's host.
    """

    url: URL
    transport: Transport
    name: str | None


def check_is_ours(pool: Any) -> None:
    """Check that a pool has no connections of its own, whose URLs libcurl may not even know.

    Raises:
        CannotCarry: it has.
    """
    if type(pool) not in _OURS.values() or not vars(pool).keys().isdisjoint(_REPLACED):
        raise CannotCarry(f"{type(pool).__name__} brings connections of its own")


def route_of(pool: Any, url: URL, http2: HTTP2) -> PoolRoute:
    """Return how libcurl does what a pool would.

    Raises:
        CannotCarry: it cannot.
    """
    check_is_ours(pool)
    kw = {name: value for name, value in pool.conn_kw.items() if value is not None}
    proxy, name = _proxy_of(pool, kw), _name_of(pool, kw)
    address, options = kw.pop("source_address", None), kw.pop("socket_options", ())
    tls = _tls_of(pool, kw) if pool.scheme == "https" else TLS(verify=for_plain_http())
    unknown = kw.keys() - {"proxy", "proxy_config", "blocksize", "ssl_context", "ca_cert_data"}
    if unknown:
        raise CannotCarry(f"libcurl has nothing for {', '.join(sorted(unknown))}")
    transport = _made(
        tls,
        proxy,
        http2,
        (str(address[0]), int(address[1])) if address else None,
        tuple(map(tuple, options)),
        ip_version(),
    )
    return PoolRoute(_url_at(pool, url), transport, name)


def needs_its_context(pool: Any, body: object, error: SSLError) -> bool:
    """Return whether urllib3 is to try again, because the pool's context may have a certificate.

    Nobody can see it there. A server that wants one has refused the handshake, and so the request;
    any other failure of TLS may come after the server has read the request.
    """
    first = error.__cause__ if isinstance(error.__cause__, SSLError) else error
    return not (
        first.tls_failure != "handshake"
        or (first.request_sent and not first.wants_certificate)
        or pool.conn_kw.get("ssl_context") is None
        or "_socks_options" in pool.conn_kw  # urllib3 would need PySocks
        or pool.cert_file
        or not (body is None or isinstance(body, (str, bytes)))
    )


@contextmanager
def left_alone(pool: CurlHTTPConnectionPool) -> Iterator[None]:
    """Let urllib3 send what goes by a pool; if it succeeds, then from now on."""
    pool.is_left_alone = True
    try:
        yield
    except BaseException:
        vars(pool).pop("is_left_alone", None)  # another thread may have done so
        raise


# What is put in place on a pool, and libcurl would pass by.
_REPLACED = {
    "ConnectionCls",
    "is_left_alone",
    "urlopen",
    "_get_conn",
    "_make_request",
    "_new_conn",
}


def _url_at(pool: Any, url: URL) -> URL:
    """Return a URL with the host of the pool: some adapters choose the address themselves."""
    if pool.proxy is not None and url.scheme == "http":
        return url  # the pool's host is the proxy
    port = pool.port or port_by_scheme[pool.scheme]
    if (pool.scheme, pool.host, port) == (url.scheme, url.host, url.port):
        return url
    return parse_url(f"{pool.scheme}://{bracketed(pool.host)}:{port}/")._with(url.target, "")


def _proxy_of(pool: Any, kw: PoolKeywords) -> Proxy | None:
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
        raise CannotCarry("libcurl has nothing for these settings of the proxy")
    proxy = Proxy.parse(pool.proxy.url)
    # libcurl sends the credentials of the proxy's URL by itself.
    headers = tuple(
        (name, value)
        for name, value in pool.proxy_headers.items()
        if name.lower() != "proxy-authorization" or proxy.username is None
    )
    return replace(proxy, headers=headers)


def _name_of(pool: Any, kw: PoolKeywords) -> str | None:
    """Return what the certificate has to be for, where that is not the pool's host."""
    server = kw.pop("server_hostname", None)
    wanted = getattr(pool, "assert_hostname", None)
    if server and wanted and server != wanted:
        raise CannotCarry("libcurl asks for the name that the certificate has to be for")
    found: str | None = wanted or server
    return found


def _tls_of(pool: Any, kw: PoolKeywords) -> TLS:
    if pool.assert_fingerprint:
        raise CannotCarry("libcurl has nothing for assert_fingerprint")
    context = kw.get("ssl_context")
    found: Any = {} if context is None else dict(_trust_of(context))
    # urllib3 looks at the host itself where the context does not.
    found["check_hostname"] = pool.assert_hostname is not False
    found["verify"] = _verify_of(pool, found.get("verify", True), kw.get("ca_cert_data"))
    if pool.cert_file:
        files = (pool.cert_file, pool.key_file or pool.cert_file)
        found["cert"] = (*files, pool.key_password) if pool.key_password else files
    lowest = to_tls_version(pool.ssl_minimum_version or pool.ssl_version)
    highest = to_tls_version(pool.ssl_maximum_version or pool.ssl_version)
    if lowest or highest:
        found["versions"] = (lowest, highest)
    return TLS(**found)


def _verify_of(pool: Any, of_context: Verify, data: str | bytes | None) -> Verify:
    if pool.cert_reqs in ("CERT_NONE", "NONE", 0):
        return False
    if of_context is False:
        if pool.cert_reqs is None:
            return False
        of_context = True  # what the request says has the last word
    given = pool.ca_certs or pool.ca_cert_dir
    if given and given != _default_authorities():
        return str(given)
    if data:
        return data.encode() if isinstance(data, str) else data
    return of_context


def _trust_of(context: Any) -> Any:
    """Return the arguments of TLS that a context stands for.

    Raises:
        CannotCarry: it is none of ssl's own, or asks for what libcurl cannot do.
    """
    if type(context).__module__ != "ssl":
        raise CannotCarry(f"libcurl has nothing for {type(context).__name__}")
    default = _default_context()
    if context.options & ~default.options & _LEGACY:
        raise CannotCarry("libcurl does not renegotiate with servers of old")
    if context.security_level != default.security_level:
        raise CannotCarry("libcurl has nothing for a context's security level")
    state = _state_of(context)
    known = _known.get(context)
    if known is None or known[0] != state:  # to read all authorities takes milliseconds
        try:
            trust = get_tls_arguments(context)
        except ValueError as error:
            raise CannotCarry(str(error)) from None
        # Python's own ciphers, too: they are fewer than libcurl's.
        trust["ciphers"] = ":".join(_ciphers_of(context))
        known = _known[context] = (state, trust)
    return known[1]


_LEGACY = 0x4 | 0x40000  # SSL_OP_LEGACY_SERVER_CONNECT, ..._ALLOW_UNSAFE_LEGACY_RENEGOTIATION
_known: weakref.WeakKeyDictionary[ssl.SSLContext, tuple[Any, Any]] = weakref.WeakKeyDictionary()


def _state_of(context: ssl.SSLContext) -> tuple[object, ...]:
    """Return what changes when a context is changed; authorities are only ever added."""
    return (
        context.cert_store_stats(),
        context.verify_mode,
        context.verify_flags,
        context.minimum_version,
        context.maximum_version,
        _ciphers_of(context),
    )


def _ciphers_of(context: ssl.SSLContext) -> list[str]:
    """Return their names, without those of TLS 1.3, which are not chosen."""
    return [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]


@lru_cache(maxsize=1)
def _default_context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@lru_cache(maxsize=1)
def _default_authorities() -> str:
    import certifi

    return certifi.where()


@lru_cache(maxsize=256)
def _made(
    tls: TLS,
    proxy: Proxy | None,
    http2: HTTP2,
    address: tuple[str, int] | None,
    options: tuple[tuple[int, int, int | bytes], ...],
    version: Any,
) -> Transport:
    """Return one Transport per combination, so that the engines can compare by identity."""
    return Transport(
        tls=tls,
        proxy=proxy,
        http2=http2,
        local_address=address,
        socket_options=options,
        ip_version=version,
    )


# --- The connection of a pool that is used directly: urllib3's urlopen above, libcurl below ---


class CurlConnection:
    """Be one of a pool's connections, for one request; the sockets are libcurl's.

    Attributes:
        timeout: seconds, None for no limit: for connecting until request() was called, for silence
            from then on.
    """

    is_curls = is_connected = is_verified = True
    is_closed = proxy_is_verified = has_connected_to_proxy = False
    proxy = sock = None
    timeout: float | None = None

    def __init__(self, pool: Any, adapter: HTTPAdapter) -> None:
        """Take part in a pool.

        Raises:
            CannotCarry: libcurl cannot do what the pool asks for.
        """
        self.host, self.port = pool.host, pool.port
        self._at = f"{pool.scheme}://{bracketed(pool.host)}:{pool.port}/"
        route_of(pool, parse_url(self._at), adapter._http2)  # can libcurl do that?
        self._pool, self._adapter = pool, adapter

    @cached_property
    def _like(self) -> Any:
        return self._pool._unused_connection()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._like, name)

    def connect(self) -> None:
        """Let urllib3 connect, for who wants its socket.

        Raises:
            ValueError: there is a guard.
        """
        self._adapter._check_unguarded()
        self._like.connect()

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
        """Note what to send: getresponse knows the other time limit, too."""
        self._request = _prepared(method, body, headers or {})
        self._target, self._connect = url, self.timeout
        self._options: dict[str, Any] = {
            "preload_content": preload_content,
            "decode_content": decode_content,
            "enforce_content_length": enforce_content_length,
        }

    def getresponse(self) -> HTTPResponse:
        """Send the request, and return the response.

        Raises:
            HTTPError: urllib3's, no response was received.
        """
        pool, request = self._pool, self._request
        target = self._target
        request.url = target if "://" in target else self._at[:-1] + target
        route = route_of(pool, parse_url(request.url), self._adapter._http2)
        limits = (self._connect, self.timeout)
        is_streamed = not self._options["preload_content"]
        try:
            sent = self._adapter._made(
                request, route.url, route.transport, limits, is_streamed, route.name
            )
            raw = RawResponse(self._adapter._attempt(sent))
        except RequestException as error:
            error.request = request  # type: ignore[assignment]
            raise as_urllib3(error) from error
        pool.num_connections += not raw.received.timings.reused
        response = _as_urllib3s(raw, request, target, self._options)
        response._adapter = self._adapter  # type: ignore[attr-defined]  # has what is to be read
        return response

    def close(self) -> None:
        """Do nothing: libcurl has the connection."""


def _prepared(method: str, body: Any, headers: Any) -> PreparedRequest:
    request = PreparedRequest()
    request.method, request.body = method, body
    fields = CaseInsensitiveDict(headers.items())
    # As http.client and urllib3 do it.
    fields.setdefault("Accept-Encoding", "identity")
    fields.setdefault("User-Agent", _user_agent())
    request.headers = CaseInsensitiveDict(
        (name, value) for name, value in fields.items() if value != SKIP_HEADER
    )
    return request


def _user_agent() -> str:
    import urllib3

    return f"python-urllib3/{urllib3.__version__}"  # type: ignore[attr-defined]


def _as_urllib3s(
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
    response.chunked = False  # libcurl has taken the chunks apart
    return response


# --- Send a request through an adapter's own urllib3 pool instead of libcurl ---


def send_through(adapter: Any, pool: Any, request: Any, timeout: Any, proxies: Any) -> Any:
    """Send a request through a urllib3 pool, such as one for Unix sockets; return its response.

    Raises:
        ConnectionError, ConnectTimeout, ProxyError, ReadTimeout, RetryError, SSLError: no
            response was received.
    """
    import urllib3

    limits = timeout_of(timeout)
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
    except (urllib3.exceptions.HTTPError, OSError) as error:
        if isinstance(error, urllib3.exceptions.MaxRetryError) and error.url:
            shown = redact_text(error.url)
            error.args = (str(error).replace(error.url, shown),)
            error.url = shown
        raise _kind_of(error)(error, request=request) from error


def _kind_of(error: Exception) -> type[e.RequestException]:
    """Return which of our exceptions stands for one of urllib3's."""
    from urllib3 import exceptions as names

    reason = error.reason if isinstance(error, names.MaxRetryError) else error
    if isinstance(reason, names.NewConnectionError):  # in urllib3 1 a ConnectTimeoutError, too
        return e.ConnectionError
    if isinstance(reason, names.ConnectTimeoutError):
        return e.ConnectTimeout
    if isinstance(error, names.ReadTimeoutError):  # as the reason of a MaxRetryError it is no more
        return e.ReadTimeout
    if isinstance(reason, names.ResponseError):
        return e.RetryError
    if isinstance(reason, names.ProxyError):
        return e.ProxyError
    return e.SSLError if isinstance(reason, names.SSLError) else e.ConnectionError
