"""requests.adapters: send prepared requests through the core's engine, which is libcurl.

An adapter keeps connections and translates settings and errors. Its pools are urllib3's, which is
loaded when a program uses the first one.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from curlhttp._http.config import Limits, derive_route, make_route
from curlhttp._http.exiting import check_running
from curlhttp._http.request import ClientRequest, pack_fields
from curlhttp._http.response import REDIRECT_STATUSES
from curlhttp._http.url import URL
from curlhttp._runtime.engine import Totals
from curlhttp._runtime.log import INFO, RequestLog, log
from curlhttp._runtime.network import network
from curlhttp._runtime.run import send_sync
from curlhttp.exceptions import InvalidProxyURL, InvalidURL, RequestException, SSLError
from curlhttp.requests._cached import cached_property
from curlhttp.requests._core_request import (
    continue_numbering,
    get_ip_version,
    get_url,
    make_core_request,
    replace_target,
    set_certificate_name,
    set_proxy_authorization,
)
from curlhttp.requests._environment import get_plain_http_verify
from curlhttp.requests._internal_utils import GetAttr, make_getattr
from curlhttp.requests._raw import RawResponse
from curlhttp.requests._unread_bodies import follows_redirects
from curlhttp.requests._url import quote_latin1_userinfo
from curlhttp.requests.models import Response
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    import curlhttp.requests._types as t
    from curlhttp._features.guard.checker import AddressChecker
    from curlhttp._features.stats import ClientStats
    from curlhttp._http.config import Cert, NetworkRoute
    from curlhttp._http.inputs import GuardInput
    from curlhttp._http.request import Fields
    from curlhttp._http.response import Response as ReceivedResponse
    from curlhttp._libcurl.engines.blocking import BlockingEngine
    from curlhttp._runtime.engine import Engine
    from curlhttp.requests._urllib3 import PoolOwner
    from curlhttp.requests.models import PreparedRequest

    # What decides about the core's request, except for its URL: the method, the origin, the
    # headers, whether redirects are followed, and the IP version.
    _Plan: TypeAlias = tuple[
        str | None, str, tuple[tuple[str, str | bytes], ...], bool, Literal[4, 6] | None
    ]
    # The verify= and cert= of past requests, by origin and NetworkRoute.
    TLSSeen: TypeAlias = dict[tuple[str, int], tuple[t.VerifyInput, t.CertInput]]

__all__ = [
    "DEFAULT_POOLBLOCK",
    "DEFAULT_POOLSIZE",
    "DEFAULT_POOL_TIMEOUT",
    "DEFAULT_RETRIES",
    "BaseAdapter",
    "HTTPAdapter",
]

DEFAULT_POOLBLOCK = False
DEFAULT_POOLSIZE = 10
DEFAULT_RETRIES = 0
DEFAULT_POOL_TIMEOUT = None

__getattr__: GetAttr = make_getattr(
    __name__,
    {
        "_urllib3": "SOCKSProxyManager=CurlSOCKSProxyManager",
        "auth": "_basic_auth_str",
        "compat": "basestring urlparse",
        "cookies": "extract_cookies_to_jar",
        "exceptions": (
            "ConnectTimeout ConnectionError InvalidHeader InvalidSchema ProxyError ReadTimeout "
            "RetryError"
        ),
        "packages:urllib3.exceptions": (
            "ClosedPoolError ConnectTimeoutError LocationValueError MaxRetryError "
            "NewConnectionError ProtocolError ReadTimeoutError ResponseError _HTTPError=HTTPError "
            "_InvalidHeader=InvalidHeader _ProxyError=ProxyError _SSLError=SSLError"
        ),
        "packages:urllib3.poolmanager": "PoolManager proxy_from_url",
        "packages:urllib3.util": "Retry TimeoutSauce=Timeout parse_url",
        "utils": (
            "DEFAULT_CA_BUNDLE_PATH get_auth_from_url get_encoding_from_headers "
            "prepend_scheme_if_needed select_proxy urldefragauth"
        ),
    },
)

_new_request = ClientRequest.__new__
_MAX_CONNECTIONS = 10_000  # at once; requests has no limit, and that of the process is lower

_TTL = 60.0  # seconds that a checked address is cached, as the default of Limits

# Names that decide about pools, if a subclass or an instance replaces them.
_POOL_NAMES = frozenset(
    {
        "_pool_kw",
        "build_connection_pool_key_attributes",
        "cert_verify",
        "get_connection_with_tls_context",
        "poolmanager",
        "proxy_headers",
        "proxy_manager_for",
    }
)


class BaseAdapter:
    """Send prepared requests; the base of adapters."""

    def __init__(self) -> None:
        super().__init__()

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: t.AnyTimeout = None,
        verify: t.AnyVerify = True,
        cert: t.AnyCert = None,
        proxies: t.AnyProxies = None,
    ) -> Response:
        """Send a prepared request and return the response; see HTTPAdapter.send."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections."""
        raise NotImplementedError


class _LazyPoolManager:
    """An adapter's pool manager, made on first use and then stored on the instance."""

    def __get__(self, adapter: HTTPAdapter | None, kind: type[HTTPAdapter] | None = None) -> Any:
        if adapter is None:
            raise AttributeError("poolmanager")
        from curlhttp.requests._urllib3 import make_pool_manager

        manager = make_pool_manager(
            adapter,
            num_pools=adapter._pool_connections,
            maxsize=adapter._pool_maxsize,
            block=adapter._pool_block,
            **adapter._pool_kw,
        )
        for (origin, _), tls in list(adapter._tls_seen.items()):
            manager.connection_from_host(**_get_host(origin), pool_kwargs=_get_tls(*tls))
        return adapter.__dict__.setdefault("poolmanager", manager)


class HTTPAdapter(BaseAdapter):
    """Send requests for http and https.

    Args:
        pool_connections: the number of hosts to keep connections for.
        pool_maxsize: the number of connections to keep for each host; with pool_block, also the
            maximum at once.
        max_retries: how often to retry a failed connection, or a Retry.
        pool_block: wait for a connection instead of opening more than pool_maxsize.
        http2: offer HTTP/2 on TLS.

    Attributes:
        guard: decides to which addresses the adapter may connect, or None; set by the session.
        poolmanager: urllib3's PoolManager for origins, whose pools send through libcurl.
        proxy_manager: the managers for proxies, by the proxy's URL.
    """

    __attrs__: list[str] = [
        "max_retries",
        "config",
        "_pool_connections",
        "_pool_maxsize",
        "_pool_block",
        "_http2",
        "guard",
    ]

    _engine: BlockingEngine | None = None
    _totals: Totals | None = None
    _http2: bool = False
    _address_checker: AddressChecker | None = None
    _guard: GuardInput = None
    poolmanager: Any = _LazyPoolManager()  # or a subclass's
    proxy_manager: t.PoolKeywords
    _pool_connections: int
    _pool_maxsize: int
    _pool_block: bool
    _pool_kw: t.PoolKeywords = {}  # set on an instance that has some
    _tls_seen: TLSSeen
    # The plan of the last request, its timeout, and what requests with the same plan share.
    _last: tuple[_Plan, object, str, Fields] | None = None

    def __init__(
        self,
        pool_connections: int = DEFAULT_POOLSIZE,
        pool_maxsize: int = DEFAULT_POOLSIZE,
        max_retries: t.AnyRetry = DEFAULT_RETRIES,
        pool_block: bool = DEFAULT_POOLBLOCK,
        *,
        http2: bool = False,
    ) -> None:
        super().__init__()
        if "urllib3" in sys.modules:
            import urllib3.contrib  # noqa: F401  # requests loads it, and programs depend on that
        self._retries = max_retries
        self.config: dict[str, object] = {}
        self.proxy_manager = {}
        self._http2 = http2
        self._pool_connections = pool_connections
        self._pool_maxsize = pool_maxsize
        self._pool_block = pool_block
        self._tls_seen = {}
        self.init_poolmanager(pool_connections, pool_maxsize, block=pool_block)

    def __getstate__(self) -> t.PickledState:
        return {name: getattr(self, name, None) for name in self.__attrs__}

    def __setstate__(self, state: t.PickledState) -> None:
        self.proxy_manager = {}
        self.config = {}
        self._tls_seen = {}
        for name, value in state.items():
            setattr(self, name, value)
        self.init_poolmanager(self._pool_connections, self._pool_maxsize, block=self._pool_block)

    @property
    def max_retries(self) -> t.AnyRetry:
        """Return the Retry of this adapter."""
        from curlhttp.requests._retries import to_retry

        self._retries = to_retry(self._retries)
        return self._retries

    @max_retries.setter
    def max_retries(self, retries: t.AnyRetry) -> None:
        self._retries = retries

    @property
    def guard(self) -> GuardInput:
        """Return the guard, which decides which addresses may be connected to; see PublicOnly."""
        return self._guard

    @guard.setter
    def guard(self, guard: GuardInput) -> None:
        checker = None
        if guard is not None:
            from curlhttp._features.guard.checker import make_checker

            checker = make_checker(guard, _TTL)
        self._address_checker, self._guard = checker, guard
        self._update_pool_guard()

    # --- what subclasses may change ---

    def add_headers(self, request: PreparedRequest, **kwargs: object) -> None:
        """Do nothing; subclasses add headers just before the request is sent."""

    def build_response(self, req: PreparedRequest, resp: t.AnyRaw) -> Response:
        """Return the response to a request."""
        response = Response()
        response.raw = resp
        response.request = req
        response.connection = self
        response.url = req.url
        if type(resp) is RawResponse:
            received = resp.received
            response._head = head = received._head
            response.status_code = head.status_code
            response._times = received._times
            if len(resp.__dict__) > 1 and not resp.is_unchanged:  # few have more than one
                _copy_head(response, resp)
        else:
            _copy_head(response, resp)
        if response.status_code in REDIRECT_STATUSES and follows_redirects():
            response._is_followed = response._can_follow
        return response

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if _is_finalizing():  # modules are gone, and the system closes the connections
            return
        if self._engine is not None:  # no response is open, because a response keeps its adapter
            self._engine.close_from_finalizer()

    def close(self) -> None:
        """Close the connections; the adapter makes new ones when it is used again."""
        self._close_engine()
        self._tls_seen.clear()
        self._last = None  # the next request is to be seen again
        for manager in (self.__dict__.get("poolmanager"), *self.proxy_manager.values()):
            if manager is not None:
                manager.clear()

    def _close_engine(self) -> None:
        engine = self.__dict__.pop("_engine", None)
        if engine is not None:
            engine.close()

    # --- pools ---

    def init_poolmanager(
        self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any
    ) -> None:
        """Set up the pools; subclasses add keywords of urllib3's PoolManager.

        Args:
            connections: the number of hosts to keep connections for.
            maxsize: the number of connections to keep for each host.
            block: wait for a connection instead of opening more.
            pool_kwargs: ssl_context, ssl_version, source_address, socket_options, ...
        """
        self._pool_connections = connections
        self._pool_maxsize = maxsize
        self._pool_block = block
        own = self.__dict__
        own.pop("poolmanager", None)
        own.pop("_pool_kw", None)
        if pool_kwargs:
            self._pool_kw = pool_kwargs
        make = _get_replacement("PoolManager")
        if make is not None:
            self.poolmanager = make(
                num_pools=connections, maxsize=maxsize, block=block, **pool_kwargs
            )

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """Return the pool manager for a proxy.

        Args:
            proxy: its URL.
            proxy_kwargs: keywords of urllib3's ProxyManager.
        """
        if proxy not in self.proxy_manager:
            self.proxy_manager[proxy] = self._new_proxy_manager(
                proxy,
                num_pools=self._pool_connections,
                maxsize=self._pool_maxsize,
                block=self._pool_block,
                **proxy_kwargs,
            )
        return self.proxy_manager[proxy]

    def _new_proxy_manager(self, proxy: str, **kw: Any) -> Any:
        from curlhttp.requests._url import get_auth_from_url
        from curlhttp.requests._urllib3 import make_proxy_manager

        if proxy.lower().startswith("socks"):
            name = "SOCKSProxyManager"
            kw["username"], kw["password"] = get_auth_from_url(proxy)
        else:
            name = "proxy_from_url"
            kw["proxy_headers"] = self.proxy_headers(proxy)
        make = _get_replacement(name)
        if make is not None:
            return make(proxy, **kw)
        return make_proxy_manager(self, proxy, **kw)

    @cached_property
    def _pool_owner(self) -> PoolOwner:
        from curlhttp.requests._urllib3 import PoolOwner

        return PoolOwner(self)

    def _update_pool_guard(self) -> None:
        """Update the pools, which may outlive the adapter, when the guard changes."""
        own = self.__dict__
        if "poolmanager" in own:
            from curlhttp.requests._urllib3 import adopt

            adopt(own["poolmanager"], self)
        if "_pool_owner" in own:
            self._pool_owner.is_guarded = self.guard is not None

    def cert_verify(self, conn: Any, url: str, verify: t.AnyVerify, cert: t.AnyCert) -> None:
        """Set verify= and cert= on a pool.

        Args:
            conn: a pool of urllib3's.
            url: of the request.
            verify: as in send.
            cert: as in send.

        Raises:
            OSError: there is no such file.
        """
        # For plain HTTP the pool may be an HTTPS proxy's. An empty path is an error, not False.
        has_tls = url.lower().startswith("https") or getattr(conn, "scheme", "") == "https"
        if has_tls and (verify or verify == ""):
            conn.cert_reqs = "CERT_REQUIRED"
            conn.ca_certs, conn.ca_cert_dir = ca_paths(verify)
        else:
            conn.cert_reqs = "CERT_NONE"
            conn.ca_certs = conn.ca_cert_dir = None
        if cert:
            conn.cert_file, conn.key_file = (*_cert_files(cert), None)[:2]

    def build_connection_pool_key_attributes(
        self, request: PreparedRequest, verify: t.AnyVerify, cert: t.AnyCert = None
    ) -> tuple[t.PoolKeywords, t.PoolKeywords]:
        """Return the keys of a request's pool: the host, and the TLS settings."""
        return _get_host(str(request.url)), _get_tls(verify, cert)

    def get_connection_with_tls_context(
        self,
        request: PreparedRequest,
        verify: t.AnyVerify,
        proxies: t.AnyProxies = None,
        cert: t.AnyCert = None,
    ) -> Any:
        """Return the pool for a request.

        Raises:
            InvalidURL: there is no host in its URL.
        """
        proxy = self._proxy(str(request.url), proxies)
        try:
            host, tls = self.build_connection_pool_key_attributes(request, verify, cert)
        except ValueError as error:
            raise InvalidURL(error, request=request) from error  # type: ignore[arg-type]
        manager = self.poolmanager if proxy is None else self.proxy_manager_for(proxy)
        return manager.connection_from_host(**host, pool_kwargs=tls)

    def get_connection(self, url: str, proxies: t.AnyProxies = None) -> Any:
        """Return the pool for a URL (deprecated in requests)."""
        warnings.warn(
            "get_connection is not used any more; override get_connection_with_tls_context",
            DeprecationWarning,
            stacklevel=2,
        )
        proxy = self._proxy(url, proxies)
        manager = self.poolmanager if proxy is None else self.proxy_manager_for(proxy)
        return manager.connection_from_url(url)

    def request_url(self, request: PreparedRequest, proxies: t.AnyProxies) -> str:
        """Return the request target: a path, or a URL for a proxy."""
        url = str(request.url)
        proxy = self._proxy(url, proxies)
        is_plain = url.lower().startswith("http:")
        if proxy and is_plain and not proxy.lower().startswith("socks"):
            from curlhttp._http.url import parse_url

            return str(parse_url(url)).partition("#")[0]
        return str(request.path_url)

    def proxy_headers(self, proxy: str) -> dict[str, str]:
        """Return the headers for a proxy: the credentials of its URL, if any."""
        from curlhttp.requests._url import get_auth_from_url
        from curlhttp.requests.auth import _basic_auth_str

        username, password = get_auth_from_url(proxy)
        return {"Proxy-Authorization": _basic_auth_str(username, password)} if username else {}

    @staticmethod
    def _proxy(url: str, proxies: t.ProxiesInput) -> str | None:
        from curlhttp.requests.utils import select_proxy

        proxy = (_get_replacement("select_proxy") or select_proxy)(url, proxies)
        return proxy_url(proxy) if proxy else None

    # --- sending ---

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: t.AnyTimeout = None,
        verify: t.AnyVerify = True,
        cert: t.AnyCert = None,
        proxies: t.AnyProxies = None,
    ) -> Response:
        """Send a prepared request and return the response.

        Args:
            request: the prepared request.
            stream: do not read the body yet.
            timeout: seconds for connecting and for silence, (connect, read), a Timeout, or None
                for the default: 10 s to connect, 60 s of silence.
            verify: True, False, or the path of CA certificates.
            cert: a client certificate: a path, or (certificate, key).
            proxies: proxy URLs by scheme.

        Raises:
            RequestException: no response was received.
            OSError: the file of verify or cert does not exist.
        """
        check_running()
        if isinstance(cert, list):
            cert = cast("Cert", tuple(cert))
        if verify is None or isinstance(verify, int):
            verify = verify is None or bool(verify)  # None is the default, not False
        kind, pool = type(self), None
        if (
            kind._makes_pools
            or not self.__dict__.keys().isdisjoint(_POOL_NAMES)
            or kind.get_connection_with_tls_context is not _GET_CONNECTION
        ):
            pool = self._get_pool(request, verify, cert, proxies)
        if kind._adds_headers:
            self.add_headers(
                request, stream=stream, timeout=timeout, verify=verify, cert=cert, proxies=proxies
            )
        if pool is not None:
            return self._send_through_pool(pool, request, stream, timeout, proxies)
        url = self._make_url(request, proxies) if kind._writes_targets else get_url(request)
        plan: _Plan | None = None
        if (
            kind is HTTPAdapter
            and verify is True
            and cert is request.body is self._address_checker is None
            and not (stream or proxies or network.counts_sends)
            and type(request.headers) is CaseInsensitiveDict
        ):
            # Most requests; most of these differ from the last one in the URL alone.
            fields = (*request.headers._store.values(),)
            plan = request.method, url.origin, fields, follows_redirects(), get_ip_version()
            last = self._last
            if last is not None and plan == last[0] and timeout is last[1]:
                sent = _new_request(ClientRequest).fill(last[2], url, last[3])
                return self.build_response(request, self._fetch(request, sent))
        route = self._find_route(request, url, verify, cert, proxies)
        if route.proxy is None and (key := (url.origin, id(route))) not in self._tls_seen:
            self._remember_tls(key, verify, cert)
        sent = self._make_request(request, url, route, timeout, stream)
        is_value = not hasattr(timeout, "_connect")  # else a urllib3.Timeout, which may change
        if plan is not None and is_value and sent.deadline is None and sent.method == plan[0]:
            headers, follows = sent._shared_headers, sent.follow_redirects
            shared = pack_fields(
                headers, sent.timeout, route, follow_redirects=follows, decode=False
            )
            self._last = plan, timeout, sent.method, shared
        return self.build_response(request, self._fetch(request, sent))

    def _make_url(self, request: PreparedRequest, proxies: t.ProxiesInput) -> URL:
        url = get_url(request)
        if type(self)._writes_targets:
            url = replace_target(url, self.request_url(request, proxies))
        return url

    def _make_request(
        self,
        request: PreparedRequest,
        url: URL,
        route: NetworkRoute,
        timeout: t.TimeoutInput,
        stream: bool,
        name: str | None = None,
    ) -> ClientRequest:
        """Return the core's request; name is the certificate's, if not the URL's host."""
        sent = make_core_request(request, url, route, timeout, stream)
        if network.counts_sends:
            continue_numbering(request, sent)
        if url.scheme == "https":
            if name is not None:
                set_certificate_name(name, sent)
            if route.tls.verify is False:
                _warn_of_no_verification(url)
        elif route.proxy is not None and "Proxy-Authorization" in request.headers:
            set_proxy_authorization(request.headers["Proxy-Authorization"], sent)
        if self._address_checker is not None:
            sent.route = self._address_checker.guard_route(sent.route)
        return sent

    def _fetch(self, request: PreparedRequest, sent: ClientRequest) -> RawResponse:
        """Send, and return the response.

        Raises:
            RequestException: no response was received.
        """
        retries = self._retries
        if not (retries == 0 if type(retries) is int else never_retries(retries)):
            return self._send_with_retries(request, sent)
        try:
            return RawResponse(self._attempt(sent))
        except RequestException as error:
            error.request = request
            if error.response is not None:
                return _keep_incomplete(error)
            from curlhttp.requests._retries import increment_after_error

            increment_after_error(0, sent.method, str(request.url), error)
            raise  # unreachable, because increment_after_error raises when no attempt is left

    def _send_with_retries(self, request: PreparedRequest, sent: ClientRequest) -> RawResponse:
        """Send, retry as the Retry decides, and return the last response.

        Raises:
            RequestException: no response was received.
        """
        from curlhttp.requests._retries import increment_after_error, increment_after_response

        method, url, retries = sent.method, str(request.url), self.max_retries
        while True:
            try:
                received = self._attempt(sent)
            except RequestException as error:
                error.request = request
                if error.response is not None and error.response._head.redirects:
                    return _keep_incomplete(error)
                retries = increment_after_error(retries, method, url, error)
                self._pause(retries, None, sent, request)
            else:
                raw = RawResponse(received)
                try:
                    again = increment_after_response(retries, method, url, raw)
                except RequestException as error:
                    error.request = request
                    raise
                if again is None:
                    raw.retries = retries
                    return raw
                retries = again
                raw.drain_conn()
                self._pause(retries, raw, sent, request)
            if sent.body is not None:
                sent.body.rewind()

    def _pause(
        self,
        retries: t.AnyRetry,
        raw: RawResponse | None,
        sent: ClientRequest,
        request: PreparedRequest,
    ) -> None:
        from curlhttp.requests._retries import pause

        totals = self._get_totals()
        try:
            seconds = pause(retries, raw, sent)
        except RequestException as error:
            error.request = request
            raise
        totals.outcomes.add_wait(sent.url.origin, "backoff", seconds)
        totals.add("retries")

    # --- through pools ---

    def _get_pool(
        self,
        request: PreparedRequest,
        verify: t.VerifyInput,
        cert: t.CertInput,
        proxies: t.ProxiesInput,
    ) -> Any:
        from urllib3.exceptions import LocationValueError

        from curlhttp.requests._urllib3 import adopt

        adopt(self.__dict__.get("poolmanager"), self)
        try:
            pool = self.get_connection_with_tls_context(request, verify, proxies=proxies, cert=cert)
        except LocationValueError as error:
            raise InvalidURL(error, request=request) from error  # type: ignore[arg-type]
        self.cert_verify(pool, str(request.url), verify, cert)
        return pool

    def _send_through_pool(
        self,
        pool: Any,
        request: PreparedRequest,
        stream: bool,
        timeout: t.TimeoutInput,
        proxies: t.ProxiesInput,
    ) -> Response:
        from curlhttp.requests._urllib3 import (
            UnsupportedByLibcurl,
            check_class,
            get_target,
            may_need_context,
            send_with_urllib3,
            using_urllib3,
        )

        raw: t.AnyRaw = None
        try:
            check_class(pool)
            target = get_target(pool, self._make_url(request, proxies), self._http2)
            sent = self._make_request(
                request, target.url, target.route, timeout, stream, target.name
            )
            pool.num_requests += 1
            raw = self._fetch(request, sent)
            pool.num_connections += not raw.received.timings.reused
        except UnsupportedByLibcurl:
            self._check_unguarded()
        except SSLError as error:
            if self._address_checker is not None or not may_need_context(pool, request.body, error):
                raise
            pool.num_requests -= 1  # urllib3 counts it again
            with using_urllib3(pool):
                raw = send_with_urllib3(self, pool, request, timeout, proxies)
        if raw is None:
            raw = send_with_urllib3(self, pool, request, timeout, proxies)
        return self.build_response(request, raw)

    def _check_unguarded(self) -> None:
        """Check that another library may connect, because a guard cannot check its addresses.

        Raises:
            ValueError: there is a guard.
        """
        if self._address_checker is not None:
            raise ValueError(
                "a guard cannot check the addresses that another library's pool connects to"
            )

    def _remember_tls(self, key: tuple[str, int], verify: t.VerifyInput, cert: t.CertInput) -> None:
        """Remember the TLS settings of an origin, for the pool manager once it is made."""
        for oldest in list(self._tls_seen)[: len(self._tls_seen) + 1 - self._pool_connections]:
            self._tls_seen.pop(oldest, None)
        self._tls_seen[key] = (verify, cert)
        self._last = None  # its origin may be one of those forgotten

    # Whether a subclass overrides the methods for this.
    _adds_headers = False
    _makes_pools = False
    _writes_targets = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls._makes_pools = any(
            getattr(cls, name) is not getattr(HTTPAdapter, name)
            for name in _POOL_NAMES - {"poolmanager"}  # set on instances only
        )
        cls._adds_headers = cls.add_headers is not HTTPAdapter.add_headers
        cls._writes_targets = cls.request_url is not HTTPAdapter.request_url

    def _find_route(
        self,
        request: PreparedRequest,
        url: URL,
        verify: t.VerifyInput,
        cert: t.CertInput,
        proxies: t.ProxiesInput,
    ) -> NetworkRoute:
        proxy = self._proxy(str(request.url), proxies) if proxies else None
        if proxy is not None:
            proxy = quote_latin1_userinfo(proxy)
        if url.scheme == "http" and (proxy is None or proxy.startswith("http:")):
            # One NetworkRoute for all. certifi, which is slow to import, is loaded only by default.
            verify, cert = verify is True or get_plain_http_verify(), None
        # All paths are hashable, and lists were converted to tuples.
        found = make_route(verify, cert, proxy, self._http2, False)  # type: ignore[arg-type]
        version = get_ip_version()
        return derive_route(found, ip_version=version) if version else found

    def _attempt(self, sent: ClientRequest) -> ReceivedResponse:
        engine: Engine | None = self._engine
        if engine is None:
            engine = self._make_engine()
        if log.is_enabled_for(INFO):
            return self._send_logged(engine, sent)
        if self._address_checker is not None:
            return self._send_checked(engine, sent)
        return _open_stream(engine, sent) if sent.stream else send_sync(engine.perform, sent)

    def _send_logged(self, engine: Engine, sent: ClientRequest) -> ReceivedResponse:
        with RequestLog(sent) as watch:
            response = self._send_checked(engine, sent)
            watch.set_response(response._head, response.timings, response.request)
        return response

    def _send_checked(self, engine: Engine, sent: ClientRequest) -> ReceivedResponse:
        if self._address_checker is not None:
            send_sync(partial(self._address_checker.check, engine.runtime), sent)
        return _open_stream(engine, sent) if sent.stream else send_sync(engine.perform, sent)

    def _get_totals(self) -> Totals:
        """Return what counts for this adapter, also after its engine was closed."""
        found = self._totals
        return self.__dict__.setdefault("_totals", Totals()) if found is None else found

    def _make_engine(self) -> BlockingEngine:
        from curlhttp._libcurl.engines.blocking import BlockingEngine

        size = self._pool_maxsize
        made = BlockingEngine(
            Limits(
                max_connections=_MAX_CONNECTIONS,
                max_connections_per_host=size if self._pool_block else None,
                max_keepalive_connections=self._pool_connections * size,
            ),
            keeps_streams=True,
        )
        # No lock, because a lock that is held during a fork stays locked in the child.
        made.totals = self._get_totals()
        engine: BlockingEngine = self.__dict__.setdefault("_engine", made)
        if engine is not made:
            made.close()
        return engine


_GET_CONNECTION = HTTPAdapter.get_connection_with_tls_context  # which tests replace by a mock


def _open_stream(engine: Engine, sent: ClientRequest) -> ReceivedResponse:
    body = sent.body
    if (
        sent.get_header("upgrade") is not None
        and (body is None or body.data is not None)
        and network.mocked is None
    ):
        from curlhttp.requests._upgrade import open_upgrade

        return open_upgrade(engine, sent)
    from curlhttp._client.stream import StreamedResponse

    return StreamedResponse(sent, send_sync(engine.open, sent))


def _copy_head(response: Response, resp: t.AnyRaw) -> None:
    """Copy the head of a response that is not libcurl's, or was changed."""
    from curlhttp.requests._headers import get_encoding_from_headers

    response.status_code = getattr(resp, "status", None)
    response.headers = CaseInsensitiveDict(getattr(resp, "headers", {}))
    response.encoding = get_encoding_from_headers(response.headers)
    response.reason = getattr(resp, "reason", None)


def _warn_of_no_verification(url: URL) -> None:
    from urllib3.exceptions import InsecureRequestWarning

    warnings.warn(
        f"Unverified HTTPS request is being made to host '{url.host}'. Adding certificate "
        "verification is strongly advised: verify=True or verify='path of the CA certificates'.",
        InsecureRequestWarning,
        stacklevel=5,
    )


# --- attempts ---


def never_retries(retries: t.AnyRetry) -> bool:
    """Return whether a Retry never retries, so that it need not be consulted."""
    if retries is None or isinstance(retries, int):
        return retries == 0
    return bool(
        retries.total == 0
        and retries.read is False
        and not retries.status_forcelist
        and type(retries).__module__ == "urllib3.util.retry"
    )


def collect_stats(adapters: Iterable[BaseAdapter]) -> ClientStats:
    """Return what all HTTPAdapters among some have done."""
    from curlhttp._features.stats import Sources, collect, merge

    found = {id(each): each for each in adapters if isinstance(each, HTTPAdapter)}
    sources = (
        Sources(each._get_totals(), [engine for engine in (each._engine,) if engine is not None])
        for each in found.values()
    )
    return merge([collect(each) for each in sources])


def _keep_incomplete(error: RequestException) -> RawResponse:
    from curlhttp.requests._original_response import IncompleteResponse

    return RawResponse(IncompleteResponse(error))


# --- settings ---


def _get_replacement(name: str) -> Any:
    """Return what a program has set as a name of requests.adapters, or None."""
    return globals().get(name)


def _get_host(url: str) -> t.PoolKeywords:
    """Return a URL's origin as keywords of a PoolManager; the default port is None."""
    parts = urlsplit(url)
    return {"scheme": parts.scheme.lower(), "host": parts.hostname, "port": parts.port}


def _get_tls(verify: t.VerifyInput, cert: t.CertInput) -> t.PoolKeywords:
    """Return verify= and cert= as keywords of a PoolManager."""
    tls: t.PoolKeywords = {"cert_reqs": "CERT_REQUIRED" if verify else "CERT_NONE"}
    if isinstance(verify, (str, os.PathLike)):
        path = os.fspath(verify)
        tls["ca_cert_dir" if os.path.isdir(path) else "ca_certs"] = path
    if cert is not None:
        tls.update(zip(("cert_file", "key_file"), _cert_files(cert), strict=False))
    return tls


def _cert_files(cert: Any) -> Any:
    """Return the file of a client certificate, and that of its key if it has one."""
    return (cert,) if isinstance(cert, (str, bytes)) else cert[:2]


def proxy_url(url: str) -> str:
    """Return a proxy's URL with a scheme and a host.

    Raises:
        InvalidProxyURL: it has no host.
    """
    text = url if "://" in url else f"http://{url}"
    host = text.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if not host or host.startswith(":") or host.endswith(":"):
        raise InvalidProxyURL(
            "Please check proxy URL. It is malformed and could be missing the host."
        )
    return text


def ca_paths(verify: t.VerifyInput) -> tuple[str | None, str | None]:
    """Return the file and the folder of CA certificates for verify=.

    Raises:
        OSError: the path does not exist.
    """
    if verify is True:
        import certifi

        return certifi.where(), None
    path = os.fspath(cast("str", verify))
    if not os.path.exists(path):
        raise OSError(f"Could not find a suitable TLS CA certificate bundle, invalid path: {path}")
    return (None, path) if os.path.isdir(path) else (path, None)
