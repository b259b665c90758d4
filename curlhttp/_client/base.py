"""Base class of both clients: validated settings and the request pipeline built from them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from curlhttp._client.building import UNSET, RequestBuilder, checked_size, parser
from curlhttp._client.routing import Routing
from curlhttp._client.settings import (
    checked_hooks,
    client_headers,
    connect_stores,
    hsts_in,
    limits_of,
    netrc_of,
    retry_policy,
)
from curlhttp._client.signatures import show_constructor
from curlhttp._engine.engine import Engine, EngineWrapper, Exchange, MakeGate, Middleware, Send
from curlhttp._engine.run import Offload, run_here
from curlhttp._flow.chain import Chain
from curlhttp._models.config import HTTP2, HTTP3, Cert, Limits, Proxies
from curlhttp._models.cookies import LazyCookies
from curlhttp._models.errors import Unpicklable
from curlhttp._models.headers import Headers
from curlhttp._models.redaction import display_url
from curlhttp._models.request import Request, pack_fields
from curlhttp._models.suggestions import with_suggestions
from curlhttp._models.timeout import Timeout, TimeoutInput
from curlhttp._models.url import URL, parse_url
from curlhttp._policy.auth import as_auth

if TYPE_CHECKING:
    from curlhttp._client.building import RequestOptions
    from curlhttp._client.cache.cache import Cache
    from curlhttp._client.cache.client import ClientCaching
    from curlhttp._client.event_stream import AsyncEventStream, EventStream
    from curlhttp._client.record.record import HarLog
    from curlhttp._client.routing import (
        AddressMap,
        HostMap,
        IPVersion,
        Pins,
        UnixSocket,
        VerifyInput,
    )
    from curlhttp._client.websocket.registry import WebSocketRegistry
    from curlhttp._models.config import Transport
    from curlhttp._models.inputs import (
        AuthInput,
        CookiesInput,
        HeaderChanges,
        HooksInput,
        ParamsInput,
    )
    from curlhttp._policy.breaker.breaker import CircuitBreaker
    from curlhttp._policy.guard import GuardInput
    from curlhttp._policy.hedge import Hedge
    from curlhttp._policy.limits import ConcurrencyLimit, RateLimit
    from curlhttp._policy.retry import RetryInput, RetryPolicy
    from curlhttp.requests import Request as UserRequest

__all__ = ["Core", "Self"]

Self = TypeVar("Self", bound="Core")

_DEFAULT_MAX_REDIRECTS = 30


@with_suggestions("client")
class Core(Unpicklable, RequestBuilder):
    """All of a client but its verbs; within the package, what maps and downloads need of it.

    Attributes:
        chain: the layers of the flow, with their settings.
        clock: the engine's.
        gate: makes a gate of the engine.
        exchange: the flow's last step, which hands a request to the engine.
        flow: takes a complete request through all layers.
        is_closed: no more requests are sent.
        keepers: what looks after the WebSockets, by event loop or engine.
    """

    _why_not = "it holds connections and credentials; make a new one where it is needed"

    gate: MakeGate
    exchange: Exchange
    is_closed = False
    _awaits_hooks = False
    _run_blocking: Offload = staticmethod(run_here)
    _arounds: tuple[EngineWrapper, ...] = ()
    _caching: ClientCaching | None = None
    _event_streams: Iterable[EventStream | AsyncEventStream] = ()  # of sse, once there was one

    def __init__(
        self,
        *,
        base_url: str | URL = "",
        headers: HeaderChanges | None = None,
        params: ParamsInput | None = None,
        cookies: CookiesInput | None = None,
        auth: AuthInput | None = None,
        timeout: TimeoutInput = UNSET,
        limits: Limits | None = None,
        max_connections: int = UNSET,
        max_connections_per_host: int | None = UNSET,
        max_keepalive_connections: int | None = UNSET,
        keepalive_expiry: float = UNSET,
        max_connection_lifetime: float | None = UNSET,
        dns_ttl: float = UNSET,
        http2: HTTP2 | None = None,
        http3: HTTP3 = False,
        verify: VerifyInput = True,
        cert: Cert = None,
        pins: Pins = None,
        proxies: Proxies = None,
        uds: UnixSocket = None,
        resolve: AddressMap = None,
        connect_to: HostMap = None,
        local_address: str | None = None,
        interface: str | None = None,
        doh: str | None = None,
        ip_version: IPVersion = None,
        happy_eyeballs_timeout: float | None = None,
        hsts: str | os.PathLike[str] | None = None,
        certificates: bool = False,
        trust_env: bool = True,
        follow_redirects: bool = True,
        max_redirects: int = _DEFAULT_MAX_REDIRECTS,
        max_response_size: int | None = None,
        sensitive_headers: Iterable[str] = (),
        middleware: Sequence[Middleware] = (),
        attempt_middleware: Sequence[Middleware] = (),
        hooks: HooksInput | None = None,
        retry: RetryInput = None,
        rate_limit: RateLimit | None = None,
        concurrency_limit: ConcurrencyLimit | None = None,
        breaker: CircuitBreaker | None = None,
        hedge: Hedge | None = None,
        guard: GuardInput = None,
        cache: Cache | None = None,
        transport: Engine | EngineWrapper | None = None,
    ) -> None:
        self.keepers: dict[object, WebSocketRegistry] = {}
        self._base_url = parse_url(base_url) if base_url else None
        self._sensitive = frozenset(name.lower() for name in sensitive_headers)
        self._headers = client_headers(headers, self._sensitive)
        self._parse = parser(self._base_url, params)
        self._jar = LazyCookies(cookies)
        method = as_auth(auth)
        self._timeout = Timeout() if timeout is UNSET else Timeout.of(timeout)
        self._limits = limits_of(
            limits,
            max_connections=max_connections,
            max_connections_per_host=max_connections_per_host,
            max_keepalive_connections=max_keepalive_connections,
            keepalive_expiry=keepalive_expiry,
            max_connection_lifetime=max_connection_lifetime,
            dns_ttl=dns_ttl,
        )
        most = checked_size(max_response_size)
        self._http2 = type(self)._http2 if http2 is None else http2
        self._routing = Routing(
            http2=self._http2,
            http3=http3,
            trust_env=trust_env,
            certificates=certificates,
            settings={
                "verify": verify,
                "cert": cert,
                "pins": pins,
                "proxies": proxies,
                "uds": uds,
                "resolve": resolve,
                "connect_to": connect_to,
                "local_address": local_address,
                "interface": interface,
                "doh": doh,
                "ip_version": ip_version,
                "happy_eyeballs_timeout": happy_eyeballs_timeout,
            },
            guard=guard,
            dns_ttl=self._limits.dns_ttl,
        )
        self._route = self._routing.route
        self._retry = retry_policy(retry)
        self._fields = pack_fields(
            self._headers,
            self._timeout,
            self._routing.direct,
            auth=method,
            jar=self._jar,
            follow_redirects=follow_redirects,
            max_response_size=most,
            retry=self._retry,
        )
        found = checked_hooks(hooks, self._awaits_hooks)
        if hasattr(transport, "around"):
            self._arounds, transport = (cast(EngineWrapper, transport),), None
        if transport is None:  # what takes libcurl's place dials nothing that could be judged
            self._arounds = (*self._routing.arounds, *self._arounds)
        self._set_engine(transport)
        self.chain: Chain = Chain(
            now=self.clock.now,
            hooks=found,
            awaits_hooks=self._awaits_hooks,
            max_redirects=max_redirects,
            sensitive=self._sensitive,
            netrc=netrc_of(self._routing.environ) if trust_env else None,
            middleware=middleware,
            attempt_middleware=attempt_middleware,
            retry=self._retry,
            rate_limit=rate_limit,
            concurrency_limit=concurrency_limit,
            breaker=breaker,
            hedge=hedge,
            run_blocking=self._run_blocking,
            certificates=certificates,
            alternatives=self._routing.alternatives,
            hsts=None if hsts is None else hsts_in(hsts, self.clock.wall),
            cache=self._cached_by(cache),
        )
        self.flow: Send = self.chain.ending_in(self.exchange, self.clock, self.gate)
        connect_stores(
            rate_limit,
            concurrency_limit,
            None if breaker is None else breaker.shared,
            None if self._retry is None else self._retry.budget,
        )

    def _cached_by(self, cache: Cache | None) -> ClientCaching | None:
        if cache is None:
            return None
        from curlhttp._client.cache.client import ClientCaching

        self._caching = ClientCaching(self, cache, is_async=self._awaits_hooks)
        return self._caching

    def _set_engine(self, transport: Engine | None) -> None:
        """Set clock, gate and exchange, which are those of the engine.

        Args:
            transport: what takes the place of libcurl, or None.
        """
        raise NotImplementedError

    def _last_step(self) -> Exchange:
        """Return the flow's last step, with what stands around the engine."""
        raise NotImplementedError

    def around(self, engine: Engine) -> Engine:
        """Return an engine with all that stands around it."""
        for each in self._arounds:
            engine = each.around(engine)
        return engine

    def _close_rest(self) -> None:
        """Close what goes with the engines, once these are closed."""
        for stream in tuple(self._event_streams):
            stream.close_with_client()
        for each in self._arounds:
            each.close()
        if self._caching is not None:
            self._caching.close()

    def har(self, path: str | os.PathLike[str], *, secrets: Iterable[str] = ()) -> HarLog:
        """Write what this client does into a HAR 1.2, for the tools of browsers.

            with client.har("slow.har"):
                client.get("https://api.example.org/users")

        Each attempt of a request is an entry, with its phases and what came back, and so is one
        that failed, with a status of 0. Credentials are masked, as in Record. All of it is kept
        in memory up to the end, bodies included.

        Args:
            path: of the file, which takes the place of what is there at the end of the `with`.
            secrets: names of what is masked as well, see Record.

        Raises:
            OSError: the file cannot be written; raised at the end.
        """
        from curlhttp._client.record.record import HarLog

        return HarLog(path, secrets, self._put_around, self._take_away)

    def _put_around(self, around: EngineWrapper) -> None:
        self._set_arounds((*self._arounds, around))

    def _take_away(self, around: EngineWrapper) -> None:
        self._set_arounds(tuple(each for each in self._arounds if each is not around))

    def _set_arounds(self, arounds: tuple[EngineWrapper, ...]) -> None:
        self._arounds = arounds
        self.exchange = self._last_step()
        self.flow = self.chain.ending_in(self.exchange, self.clock, self.gate)

    # settings that may be changed

    @property
    def headers(self) -> Headers:
        """Return the headers that go with every request; change them at will."""
        return self._headers

    @headers.setter
    def headers(self, headers: HeaderChanges | None) -> None:
        self._headers = client_headers(headers, self._sensitive)
        self._fields = (None, self._headers, *self._fields[2:])

    @property
    def cookies(self) -> Any:  # Any: what the caller gave may be no Cookies
        """Return the cookie jar."""
        return self._jar.open()

    @cookies.setter
    def cookies(self, cookies: CookiesInput | None) -> None:
        self._jar.replace(cookies)

    @property
    def timeout(self) -> Timeout:
        """Return the time limits of requests that set none."""
        return self._timeout

    @property
    def multiplexes(self) -> bool:
        """Return whether requests may share connections."""
        return bool(self._http2)

    @property
    def limits(self) -> Limits:
        """Return the limits of this client."""
        return self._limits

    def complete(self, request: Request | UserRequest) -> Request:
        """Return a request that no client made with what it lacks; one of a client as it is."""
        if not isinstance(request, Request):
            return self._built(request)
        if request.retry is not None:
            self._allow_retries()
        if cast("Transport | None", request.transport) is not None:
            return request
        # Left out where there is none: a subclass may have another default.
        options: RequestOptions = {} if request.auth is None else {"auth": request.auth}
        request = request.copy()
        model = self.build_request(request.method, request.url, **options)
        request.url, request.auth, request.jar = model.url, model.auth, model.jar
        request.timeout = request.timeout or model.timeout
        request.transport, request.route = model.transport, model.route
        request.retry = request.retry or model.retry
        return request

    def _own_retry(self, retry: RetryInput) -> RetryPolicy | None:
        policy = super()._own_retry(retry)
        if policy is not None:
            self._allow_retries()
        return policy

    def _allow_retries(self) -> None:
        chain = self.chain
        if not chain.retries:  # no request had a policy up to now: none paid for the layer
            # In this order: another thread that finds them allowed uses the flow at once.
            self.flow = chain.ending_in(self.exchange, self.clock, self.gate, retries=True)
            chain.retries = True

    def _built(self, wanted: UserRequest) -> Request:
        """Return what a curlhttp.Request asks for: the arguments of build_request as one value."""
        if not hasattr(wanted, "prepare"):
            raise TypeError(f"send takes a Request, not {type(wanted).__name__}")
        if any(dict(wanted.hooks or {}).values()):
            raise ValueError("hooks of one request are for Session; give a client's to the client")
        names = ("headers", "files", "data", "params", "auth", "cookies", "json")
        given = {name: getattr(wanted, name) for name in names}
        return self.build_request(
            cast(str, wanted.method),
            cast(str, wanted.url),
            **{name: value for name, value in given.items() if value is not None},
        )

    def __repr__(self) -> str:
        base = "" if self._base_url is None else f" {display_url(self._base_url)}"
        return f"<curlhttp.{type(self).__name__}{base}>"

    if not TYPE_CHECKING:  # type checkers refuse both: each client has the other

        def __enter__(self):
            raise TypeError("AsyncClient is for `async with`, not `with`; or use curlhttp.Client")

        def __aenter__(self):
            raise TypeError("Client is blocking: write `with`, or use curlhttp.AsyncClient")

        __exit__, __aexit__ = __enter__, __aenter__


show_constructor(Core.__init__)
