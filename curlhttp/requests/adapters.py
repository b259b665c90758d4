"""requests.adapters: what carries a prepared request; here to libcurl, through the core's engine.

An adapter keeps connections. It translates settings and errors, and decides nothing.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from curlhttp._engine.log import INFO, RequestLog, log
from curlhttp._engine.network import network
from curlhttp._engine.run import send_sync
from curlhttp._models.config import Limits, transport_for, varied
from curlhttp._models.response import REDIRECT_STATUSES
from curlhttp._models.url import URL
from curlhttp.requests._aside import goes_on
from curlhttp.requests._attempts import is_plain, send_again, send_once
from curlhttp.requests._elsewhere import Names, names_of
from curlhttp.requests._environment import for_plain_http
from curlhttp.requests._guarding import GuardedAdapter
from curlhttp.requests._numbers import go_on_numbering
from curlhttp.requests._outgoing import check_for, core_request, tell_proxy, url_of, with_target
from curlhttp.requests._pools import Pooling, Seen
from curlhttp.requests._raw import RawResponse
from curlhttp.requests._response import Response
from curlhttp.requests._transports import ip_version

if TYPE_CHECKING:
    from curlhttp._curl.engines.blocking import BlockingEngine
    from curlhttp._engine.engine import Engine
    from curlhttp._models.config import Cert, Transport
    from curlhttp._models.request import Request as CoreRequest
    from curlhttp._models.response import Response as ReceivedResponse
    from curlhttp.requests import _types as t
    from curlhttp.requests._prepared import PreparedRequest
    from curlhttp.requests._urllib3_connection import CurlConnection

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

__getattr__: Names = names_of(
    __name__,
    {
        "_urllib3_pools": "SOCKSProxyManager=CurlSOCKSProxyManager",
        "auth": "_basic_auth_str",
        "compat": "basestring urlparse",
        "cookies": "extract_cookies_to_jar",
        "exceptions": (
            "ConnectTimeout ConnectionError InvalidHeader InvalidProxyURL InvalidSchema InvalidURL "
            "ProxyError ReadTimeout RetryError SSLError"
        ),
        "packages:urllib3.exceptions": (
            "ClosedPoolError ConnectTimeoutError LocationValueError MaxRetryError "
            "NewConnectionError ProtocolError ReadTimeoutError ResponseError _HTTPError=HTTPError "
            "_InvalidHeader=InvalidHeader _ProxyError=ProxyError _SSLError=SSLError"
        ),
        "packages:urllib3.poolmanager": "PoolManager proxy_from_url",
        "packages:urllib3.util": "Retry TimeoutSauce=Timeout parse_url",
        "structures": "CaseInsensitiveDict",
        "utils": (
            "DEFAULT_CA_BUNDLE_PATH get_auth_from_url get_encoding_from_headers "
            "prepend_scheme_if_needed select_proxy urldefragauth"
        ),
    },
)

_MANY = 10_000  # connections at once, where requests has no bound; the process's own comes first

# What a subclass has, or who has put something on an adapter, that decides on pools.
_ABOUT_POOLS = frozenset(
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
    """Carry prepared requests; subclasses say how."""

    def __init__(self) -> None:
        super().__init__()

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: t.TimeoutInput = None,
        verify: t.VerifyInput = True,
        cert: t.CertInput = None,
        proxies: t.ProxiesInput = None,
    ) -> Response:
        """Send a prepared request and return the response; see HTTPAdapter.send."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of connections."""
        raise NotImplementedError


class HTTPAdapter(GuardedAdapter, Pooling, BaseAdapter):
    """Carry requests for http and https.

    Args:
        pool_connections: hosts to keep connections for.
        pool_maxsize: connections to keep for each; with pool_block also the most at once.
        max_retries: a number of new attempts where no connection could be made, or a Retry.
        pool_block: wait for a connection instead of making more than pool_maxsize.
        http2: offer HTTP/2 on TLS.

    Attributes:
        guard: says which addresses may be dialled, or None; that of the session it is mounted on.
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
    _http2: bool = False

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
            import urllib3.contrib  # noqa: F401  # requests loads it, and programs count on that
        self._retries = max_retries
        self.config: dict[str, object] = {}
        self.proxy_manager: t.PoolKeywords = {}
        self._http2 = http2
        self._pool_connections = pool_connections
        self._pool_maxsize = pool_maxsize
        self._pool_block = pool_block
        self._seen: Seen = {}
        self.init_poolmanager(pool_connections, pool_maxsize, block=pool_block)

    def __getstate__(self) -> t.PickledState:
        return {name: getattr(self, name, None) for name in self.__attrs__}

    def __setstate__(self, state: t.PickledState) -> None:
        self.proxy_manager = {}
        self.config = {}
        self._seen = {}
        for name, value in state.items():
            setattr(self, name, value)
        self.init_poolmanager(self._pool_connections, self._pool_maxsize, block=self._pool_block)

    @property
    def max_retries(self) -> t.AnyRetry:
        """Return the Retry that this adapter goes by."""
        from curlhttp.requests._retries import as_retries

        self._retries = as_retries(self._retries)
        return self._retries

    @max_retries.setter
    def max_retries(self, retries: t.AnyRetry) -> None:
        self._retries = retries

    # --- what subclasses may change; what connections are made with is in Pooling ---

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
            if len(resp.__dict__) > 1 and not resp.is_as_received:  # few have more than one
                _copy_head(response, resp)
        else:
            _copy_head(response, resp)
        if response.status_code in REDIRECT_STATUSES and goes_on():
            response._is_passing = response._leads_on
        return response

    def __del__(self, _is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if _is_finalizing():  # the modules are gone, and the connections go with the process
            return
        if self._engine is not None:  # a response keeps its adapter, so nobody is at work here
            self._engine.close_from_finalizer()

    def close(self) -> None:
        """Close the connections; the adapter makes new ones when it is used again."""
        self._let_go()
        self._seen.clear()
        for manager in (self.__dict__.get("poolmanager"), *self.proxy_manager.values()):
            if manager is not None:
                manager.clear()

    def _let_go(self) -> None:
        engine = self.__dict__.pop("_engine", None)
        if engine is not None:
            engine.close()

    # --- sending ---

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: t.TimeoutInput = None,
        verify: t.VerifyInput = True,
        cert: t.CertInput = None,
        proxies: t.ProxiesInput = None,
    ) -> Response:
        """Send a prepared request and return the response.

        Args:
            request: what to send.
            stream: leave the body on the wire.
            timeout: seconds for connecting and for silence, (connect, read), a Timeout, or None
                for the default: 10 s to connect, 60 s of silence.
            verify: True, False, or a path of authorities.
            cert: a client certificate: a path, or (certificate, key).
            proxies: proxy URLs by scheme.

        Raises:
            RequestException: no response came of it.
            OSError: verify or cert name no file.
        """
        if isinstance(cert, list):
            cert = cast("Cert", tuple(cert))
        if verify is None or isinstance(verify, int):
            verify = verify is None or bool(verify)  # None is the default, never a "no"
        kind, pool = type(self), None
        if (
            kind._makes_pools
            or not _ABOUT_POOLS.isdisjoint(self.__dict__)
            or kind.get_connection_with_tls_context is not _GET_CONNECTION
        ):
            pool = self._pool_for(request, verify, cert, proxies)
        if kind._adds_headers:
            self.add_headers(
                request, stream=stream, timeout=timeout, verify=verify, cert=cert, proxies=proxies
            )
        if pool is not None:
            return self._send_by(pool, request, stream, timeout, proxies)
        url = self._url(request, proxies) if kind._writes_targets else url_of(request)
        transport = self._transport(request, url, verify, cert, proxies)
        if transport.proxy is None and (key := (url.origin, id(transport))) not in self._seen:
            self._note(key, verify, cert)
        sent = self._made(request, url, transport, timeout, stream)
        return self.build_response(request, self._raw_of(request, sent))

    def _url(self, request: PreparedRequest, proxies: t.ProxiesInput) -> URL:
        url = url_of(request)
        if type(self)._writes_targets:
            url = with_target(url, self.request_url(request, proxies))
        return url

    def _made(
        self,
        request: PreparedRequest,
        url: URL,
        transport: Transport,
        timeout: t.TimeoutInput,
        stream: bool,
        name: str | None = None,
    ) -> CoreRequest:
        """Return the core's request; name is what the certificate is for, if not the URL's host."""
        sent = core_request(request, url, transport, timeout, stream)
        if network.numbers_sends:
            go_on_numbering(request, sent)
        if url.scheme == "https":
            if name is not None:
                check_for(name, sent)
            if transport.tls.verify is False:
                _warn_of_no_verification(url)
        elif transport.proxy is not None and "Proxy-Authorization" in request.headers:
            tell_proxy(request.headers["Proxy-Authorization"], sent)
        if self._checkpoint is not None:
            sent.transport = self._checkpoint.over(sent.transport)
        return sent

    def _raw_of(self, request: PreparedRequest, sent: CoreRequest) -> RawResponse:
        if is_plain(self._retries):
            return send_once(self._attempt, sent, request)
        return send_again(self._attempt, sent, request, self.max_retries)

    # --- by pools ---

    def _pool_for(
        self,
        request: PreparedRequest,
        verify: t.VerifyInput,
        cert: t.CertInput,
        proxies: t.ProxiesInput,
    ) -> Any:
        from urllib3.exceptions import LocationValueError

        from curlhttp.requests._urllib3_pools import adopt

        adopt(self.__dict__.get("poolmanager"), self)
        try:
            pool = self.get_connection_with_tls_context(request, verify, proxies=proxies, cert=cert)
        except LocationValueError as error:
            from curlhttp.exceptions import InvalidURL

            raise InvalidURL(error, request=request) from error  # type: ignore[arg-type]
        self.cert_verify(pool, str(request.url), verify, cert)
        return pool

    def _send_by(
        self,
        pool: Any,
        request: PreparedRequest,
        stream: bool,
        timeout: t.TimeoutInput,
        proxies: t.ProxiesInput,
    ) -> Response:
        from curlhttp.exceptions import SSLError
        from curlhttp.requests._foreign import send_through
        from curlhttp.requests._urllib3_pools import (
            CannotCarry,
            check_is_ours,
            left_alone,
            needs_its_context,
            route_of,
        )

        try:
            check_is_ours(pool)
            route = route_of(pool, self._url(request, proxies), self._http2)
            sent = self._made(request, route.url, route.transport, timeout, stream, route.name)
            pool.num_requests += 1
            raw = self._raw_of(request, sent)
        except CannotCarry:
            self._check_unguarded()
        except SSLError as error:
            if self._checkpoint is not None or not needs_its_context(pool, request.body, error):
                raise
            pool.num_requests -= 1  # urllib3 counts it, too
            with left_alone(pool):
                answer = send_through(self, pool, request, timeout, proxies)
            return self.build_response(request, answer)
        else:
            pool.num_connections += not raw.received.timings.reused
            return self.build_response(request, raw)
        return self.build_response(request, send_through(self, pool, request, timeout, proxies))

    def _connection_of(self, pool: Any) -> CurlConnection:
        """Return a connection for a pool that is used without send.

        Raises:
            CannotCarry: it would not be libcurl's.
        """
        from curlhttp.requests._urllib3_connection import CurlConnection

        return CurlConnection(pool, self)

    def _check_unguarded(self) -> None:
        """Refuse to let others dial what a guard has to judge.

        Raises:
            ValueError: there is a guard.
        """
        if self._checkpoint is not None:
            raise ValueError("a guard cannot judge what another library's pool dials")

    def _note(self, key: tuple[str, int], verify: t.VerifyInput, cert: t.CertInput) -> None:
        """Keep in mind what the pool manager has a pool for, once somebody looks."""
        for oldest in list(self._seen)[: len(self._seen) + 1 - self._pool_connections]:
            self._seen.pop(oldest, None)
        self._seen[key] = (verify, cert)

    # Set for a subclass that has such methods of its own.
    _adds_headers = False
    _makes_pools = False
    _writes_targets = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls._makes_pools = any(
            getattr(cls, name) is not getattr(HTTPAdapter, name)
            for name in _ABOUT_POOLS - {"poolmanager"}  # a class has none of its own
        )
        cls._adds_headers = cls.add_headers is not HTTPAdapter.add_headers
        cls._writes_targets = cls.request_url is not HTTPAdapter.request_url

    def _transport(
        self,
        request: PreparedRequest,
        url: URL,
        verify: t.VerifyInput,
        cert: t.CertInput,
        proxies: t.ProxiesInput,
    ) -> Transport:
        proxy = self._proxy(str(request.url), proxies) if proxies else None
        if proxy is None and url.scheme == "http":
            # One Transport for all; of certifi, which loads slowly, only where nothing else is set.
            verify, cert = verify is True or for_plain_http(), None
        # Any path can be hashed, and a list of files is none here.
        found = transport_for(verify, cert, proxy, self._http2, False)  # type: ignore[arg-type]
        version = ip_version()
        return varied(found, ip_version=version) if version else found

    def _attempt(self, sent: CoreRequest) -> ReceivedResponse:
        engine: Engine | None = self._engine
        if engine is None:
            engine = self._make_engine()
        if self._checkpoint is not None:
            engine = self._checkpoint.around(engine)
        if log.takes(INFO):
            return _logged(engine, sent)
        return _open(engine, sent) if sent.stream else send_sync(engine.perform, sent)

    def _make_engine(self) -> BlockingEngine:
        from curlhttp._curl.engines.blocking import BlockingEngine

        size = self._pool_maxsize
        made = BlockingEngine(
            Limits(
                max_connections=_MANY,
                max_connections_per_host=size if self._pool_block else None,
                max_keepalive_connections=self._pool_connections * size,
            ),
            keeps_streams=True,
        )
        # No lock: one that another thread has while the process forks stays locked in the child.
        engine: BlockingEngine = self.__dict__.setdefault("_engine", made)
        if engine is not made:
            made.close()
        return engine


_GET_CONNECTION = HTTPAdapter.get_connection_with_tls_context  # what tests put a mock in place of


def _logged(engine: Engine, sent: CoreRequest) -> ReceivedResponse:
    with RequestLog(sent) as watch:
        response = _open(engine, sent) if sent.stream else send_sync(engine.perform, sent)
        watch.answered(response._head, response.timings, response.request)
    return response


def _open(engine: Engine, sent: CoreRequest) -> ReceivedResponse:
    body = sent.body
    if (
        sent.get_header("upgrade") is not None
        and (body is None or body.data is not None)
        and network.mocked is None
    ):
        from curlhttp.requests._upgrade import open_upgrade

        return open_upgrade(engine, sent)
    from curlhttp._client.stream import StreamedResponse

    return StreamedResponse(sent, send_sync(engine.open, sent), engine)


def _copy_head(response: Response, resp: t.AnyRaw) -> None:
    """Take over the head of a response that did not come from libcurl, or was changed."""
    from curlhttp.requests._header_values import get_encoding_from_headers
    from curlhttp.requests.structures import CaseInsensitiveDict

    response.status_code = getattr(resp, "status", None)
    response.headers = CaseInsensitiveDict(getattr(resp, "headers", {}))
    response.encoding = get_encoding_from_headers(response.headers)
    response.reason = getattr(resp, "reason", None)


def _warn_of_no_verification(url: URL) -> None:
    from urllib3.exceptions import InsecureRequestWarning

    warnings.warn(
        f"Unverified HTTPS request is being made to host '{url.host}'. Adding certificate "
        "verification is strongly advised: verify=True or verify='path of the authorities'.",
        InsecureRequestWarning,
        stacklevel=5,
    )
