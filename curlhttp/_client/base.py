"""Base class of both clients: validated settings and the request pipeline built from them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from sys import is_finalizing
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

from curlhttp._client.features import FEATURES
from curlhttp._client.request_builder import (
    UNSET,
    RequestBuilder,
    make_url_parser,
    set_constructor_signature,
    validate_size,
)
from curlhttp._client.routing import Routing
from curlhttp._engine.engine import (
    Engine,
    EngineWrapper,
    MakeRace,
    MakeWaiter,
    Middleware,
    Send,
    Totals,
)
from curlhttp._engine.log import INFO, log
from curlhttp._engine.network import network
from curlhttp._engine.run import Offload, run_here
from curlhttp._flow.chain import Chain, Host, Settings
from curlhttp._flow.hooks import Hooks, validate_hooks
from curlhttp._flow.straight import is_straight
from curlhttp._models.config import HTTP2, HTTP3, Cert, Limits, Proxies, Proxy
from curlhttp._models.cookies import LazyCookieJar
from curlhttp._models.errors import Unpicklable, check_flags, check_number, check_object
from curlhttp._models.exiting import check_running
from curlhttp._models.headers import DEFAULT_HEADERS, Headers
from curlhttp._models.redaction import display_url
from curlhttp._models.request import ClientRequest, Fields, pack_fields
from curlhttp._models.response import DEFAULT_ENCODING, validate_encoding
from curlhttp._models.suggestions import no_change, with_suggestions
from curlhttp._models.timeout import Timeout, TimeoutInput
from curlhttp._models.url import URL, encode_params, parse_url
from curlhttp._policy.auth import to_auth
from curlhttp._policy.environment import find_netrc, find_netrc_credentials
from curlhttp.exceptions import InvalidHeader, InvalidSchema, InvalidURL, MissingSchema

if TYPE_CHECKING:
    from curlhttp._client.cache import Cache, ClientCaching
    from curlhttp._client.record.record import HarLog
    from curlhttp._client.request_builder import RequestOptions
    from curlhttp._client.routing import (
        AddressMap,
        HostMap,
        IPVersion,
        Pins,
        UnixSocket,
        VerifyInput,
    )
    from curlhttp._client.stats import ClientStats, ReportingEngine
    from curlhttp._client.transport import AnyTransport
    from curlhttp._flow.chain import Spawn
    from curlhttp._flow.fallback import FallbackInput
    from curlhttp._flow.streamed_response import BaseStreamedResponse
    from curlhttp._models.config import NetworkRoute
    from curlhttp._models.cookies.jar import Cookies
    from curlhttp._models.inputs import (
        AuthInput,
        CookiesInput,
        HeaderChanges,
        HooksInput,
        ParamsInput,
        UserRequest,
    )
    from curlhttp._models.json_codec import JSON
    from curlhttp._models.response import DefaultEncoding
    from curlhttp._policy.breaker.breaker import CircuitBreaker
    from curlhttp._policy.endpoints import Endpoints
    from curlhttp._policy.guard import GuardInput
    from curlhttp._policy.hedge import Hedge
    from curlhttp._policy.limits import ConcurrencyLimit, RateLimit
    from curlhttp._policy.retry import RetryInput, RetryPolicy

Self = TypeVar("Self", bound="BaseClient")

_DEFAULT_MAX_REDIRECTS = 30
_new_request = ClientRequest.__new__


class ClosesWithClient(Protocol):
    """A stream that ends when its client closes."""

    def close_with_client(self) -> None:
        """End the stream with an error, unless it has ended."""


@with_suggestions("client")
class BaseClient(Unpicklable, RequestBuilder):
    """Everything in a client except its methods for sending requests.

    Attributes:
        chain: the layers of the flow, with their settings.
        clock: the engine's.
        make_waiter: makes a waiter of the engine.
        make_race: makes a race of the engine.
        exchange: the last step of the flow, which passes a request to the engine.
        flow: passes a complete request through all layers.
        is_closed: whether the client was closed, so that requests raise ClientClosed.
        totals: counts what happens, for stats().
        engines: of libcurl, with those of maps.
        websocket_registries: the registries of open WebSockets, by event loop or engine.
    """

    _why_not = "it holds connections and credentials; make a new one where it is needed"

    make_waiter: MakeWaiter
    make_race: MakeRace
    exchange: Send
    flow: Send
    _given_transport: Engine | None = None
    is_closed = False
    _awaits_hooks = False
    _streamed: type[BaseStreamedResponse]
    _run_blocking: Offload = staticmethod(run_here)
    _wrappers: tuple[EngineWrapper, ...] = ()
    _inner_wrappers: tuple[EngineWrapper, ...] = ()  # below a transport that wraps libcurl
    _caching: ClientCaching | None = None
    _event_streams: Iterable[ClosesWithClient] = ()  # open streams of sse()

    def __init__(
        self,
        *,
        base_url: str | URL | Endpoints = "",
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
        proxy: str | Proxy | None = None,
        uds: UnixSocket = None,
        resolve: AddressMap = None,
        connect_to: HostMap = None,
        local_address: str | None = None,
        interface: str | None = None,
        doh: str | None = None,
        ip_version: IPVersion = None,
        happy_eyeballs_timeout: float | None = None,
        max_send_rate: float | None = None,
        max_receive_rate: float | None = None,
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
        fallback: FallbackInput | None = None,
        coalesce: bool = False,
        json: JSON | None = None,
        default_encoding: DefaultEncoding | None = None,
        raise_for_status: bool = False,
        cache: Cache | None = None,
        transport: AnyTransport | None = None,
    ) -> None:
        check_running()
        self.totals: Totals = Totals()
        # No WeakSet, because another thread may add one while stats() reads them.
        self.engines: WeakKeyDictionary[ReportingEngine, None] = WeakKeyDictionary()
        self.websocket_registries: dict[object, Any] = {}  # Any: WebSocketRegistry
        self._endpoints: Endpoints | None = None
        check_flags(
            certificates=certificates,
            coalesce=coalesce,
            trust_env=trust_env,
            follow_redirects=follow_redirects,
            raise_for_status=raise_for_status,
        )
        check_number("max_redirects", max_redirects, whole=True)
        if hasattr(base_url, "to_canonical"):
            self._endpoints = cast("Endpoints", base_url)
        self._base_url = _parse_base(base_url)
        self._sensitive = _validate_sensitive_headers(sensitive_headers)
        self._headers = make_client_headers(headers, self._sensitive)
        params = _validate_params(params)
        self._parse = make_url_parser(self._endpoints or self._base_url, params)
        make_jar = LazyCookieJar if self._endpoints is None else self._endpoints.make_jar
        self._jar = make_jar(cookies)
        default_auth = to_auth(auth)
        self._timeout = Timeout() if timeout is UNSET else Timeout.of(timeout)
        self._limits = _merge_limits(
            limits,
            max_connections=max_connections,
            max_connections_per_host=max_connections_per_host,
            max_keepalive_connections=max_keepalive_connections,
            keepalive_expiry=keepalive_expiry,
            max_connection_lifetime=max_connection_lifetime,
            dns_ttl=dns_ttl,
        )
        self._http2 = type(self)._http2 if http2 is None else http2
        self._http3 = http3
        self._routing = Routing(
            http2=self._http2,
            http3=http3,
            trust_env=trust_env,
            certificates=certificates,
            settings={
                "verify": verify,
                "cert": cert,
                "pins": pins,
                "proxies": _choose_proxies(proxies, proxy),
                "uds": uds,
                "resolve": resolve,
                "connect_to": connect_to,
                "local_address": local_address,
                "interface": interface,
                "doh": doh,
                "ip_version": ip_version,
                "happy_eyeballs_timeout": happy_eyeballs_timeout,
                "max_send_rate": max_send_rate,
                "max_receive_rate": max_receive_rate,
            },
            guard=guard,
            dns_ttl=self._limits.dns_ttl,
        )
        self._route = self._routing.route
        if json is not None:
            self._use_json(json)
        if default_encoding is not None:
            self._add_extension(DEFAULT_ENCODING, validate_encoding(default_encoding))
        self._retry = _make_retry_policy(retry)
        self._fields = pack_fields(
            self._headers,
            self._timeout,
            self._routing.direct,
            auth=default_auth,
            jar=self._jar,
            follow_redirects=follow_redirects,
            max_response_size=validate_size(max_response_size),
            retry=self._retry,
        )
        if self._endpoints is not None:
            self._use_endpoints(self._endpoints)
        validated_hooks = validate_hooks(hooks, self._awaits_hooks)
        if isinstance(cast(object, transport), type):
            shown = f"transport={getattr(transport, '__name__', '')}(...)"
            raise TypeError(f"transport must be an object, not a class: write {shown}")
        if hasattr(transport, "wrap_engine"):  # ours, such as a Record
            self._wrappers, transport = (cast(EngineWrapper, transport),), None
        if transport is None or hasattr(transport, "wrap"):
            # Not if libcurl is replaced, because then there are no addresses to check.
            self._wrappers = (*self._routing.wrappers, *self._wrappers)
        self._set_engine(transport)
        self.chain: Chain = Chain(
            FEATURES,
            self._choose_settings(
                {
                    "hooks": Hooks(validated_hooks, awaits=self._awaits_hooks, totals=self.totals),
                    "request_hooks": validated_hooks,
                    "streamed": self._streamed,
                    "max_redirects": max_redirects,
                    "sensitive_headers": self._sensitive,
                    "netrc": _load_netrc(self._routing.environ) if trust_env else None,
                    "middleware": None if middleware == () else middleware,
                    "attempt_middleware": None if attempt_middleware == () else attempt_middleware,
                    "retry": self._retry,
                    "rate_limit": rate_limit,
                    "concurrency_limit": concurrency_limit,
                    "breaker": breaker,
                    "hedge": hedge,
                    "certificates": certificates or None,
                    "alternatives": self._routing.alternatives,
                    "coalesce": coalesce or None,
                    "endpoints": self._endpoints,
                    "fallback": fallback,
                    "hsts": hsts,
                    "cache": self._make_caching(cache),
                    "raise_for_status": raise_for_status or None,
                }
            ),
            Host(self.clock, self.totals, self._awaits_hooks, self._run_blocking, *self._tasks()),
        )
        self._policies = (breaker, concurrency_limit)
        self._build_flow()

    def _tasks(self) -> tuple[Spawn | None, Callable[[], Hashable] | None]:
        """Return what starts a task of the running loop, and what returns the loop."""
        return None, None

    def _choose_settings(self, settings: Settings) -> Settings:
        """Return the settings that are on."""
        found = {name: value for name, value in settings.items() if value is not None}
        hooks, request_hooks = settings["hooks"], settings["request_hooks"]
        if not (request_hooks["request"] or request_hooks["response"]):
            del found["request_hooks"]
        # A hook may set the policy of a request.
        if hooks.watches_attempts or request_hooks["request"]:
            found.setdefault("retry", None)
        return found

    def _use_json(self, codec: JSON) -> None:
        """Write and read JSON with the user's functions.

        Raises:
            TypeError: this is not a JSON.
        """
        from curlhttp._models.json_codec import EXTENSION, JSON

        if not isinstance(cast(object, codec), JSON):
            kind = type(codec).__name__
            raise TypeError(
                f"json must be a curlhttp.JSON(loads=, dumps=), not {kind}; the json= of a request "
                "is its body"
            )
        if codec.dumps is not None:
            self._encode_json = codec.encode
        if codec.loads is not None:
            self._add_extension(EXTENSION, codec.loads)

    def _add_extension(self, name: str, value: object) -> None:
        """Add an extension to all requests, for their responses."""

        def extend(request: ClientRequest, _: URL) -> None:
            request.extensions = {**(request.extensions or {}), name: value}

        self._add_build_step(extend)

    def _use_endpoints(self, endpoints: Endpoints) -> None:
        """Send the client's credentials to the endpoints alone.

        Raises:
            TypeError: the endpoints are listed by a coroutine function, and this is Client.
        """
        if not self._awaits_hooks and inspect.iscoroutinefunction(endpoints.list_urls):
            raise TypeError("an async function that lists the endpoints needs AsyncClient")

        def withhold_credentials(request: ClientRequest, url: URL) -> None:
            if not endpoints.covers(request.url):
                request._shared_headers = request._shared_headers.without_credentials()
                if url.username is None:  # otherwise the auth is the URL's
                    request.auth = None

        self._add_build_step(withhold_credentials)

    def _add_build_step(self, change: Callable[[ClientRequest, URL], None]) -> None:
        """Let a function change each request that was built with the client's settings.

        Args:
            change: gets the request and its URL as it was passed, with its userinfo.
        """
        build = self._build_plain_request

        def build_and_change(method: str, url: URL) -> ClientRequest:
            request = build(method, url)
            change(request, url)
            return request

        # Replaced, because other clients shall have no further step.
        self._build_plain_request = build_and_change  # type: ignore[method-assign]

    def add_engine(self, engine: ReportingEngine) -> None:
        """Let `stats()` report what an engine of this client does."""
        engine.totals = self.totals
        self.engines[engine] = None

    def _make_caching(self, cache: Cache | None) -> ClientCaching | None:
        if cache is None:
            return None
        from curlhttp._client.cache import ClientCaching

        self._caching = ClientCaching(
            self,
            cache,
            with_guard=self._routing.with_guard,
            run_blocking=self._run_blocking,
            is_async=self._awaits_hooks,
        )
        return self._caching

    def _set_engine(self, transport: object) -> None:
        """Set the engine, and clock, make_waiter, make_race and exchange from it.

        Args:
            transport: replaces libcurl, or wraps it; or None.
        """
        raise NotImplementedError

    def _make_exchange(self) -> Send:
        """Return the last step of the flow, which uses the wrapped engine."""
        raise NotImplementedError

    def wrap(self, engine: Engine) -> Engine:
        """Wrap an engine in all wrappers of this client."""
        return wrap_all(engine, self._wrappers)

    def _close_wrappers(self) -> None:
        """Close event streams, wrappers and cache, after the engines."""
        for stream in tuple(self._event_streams):
            stream.close_with_client()
        for each in (*self._wrappers, *self._inner_wrappers):
            each.close()
        if self._caching is not None:
            self._caching.close()

    def stats(self) -> ClientStats:
        """Return what is open, waiting and limited right now, and what the client has done.

            print(client.stats().attempts)
            print(client.stats().as_prometheus())

        It is cheap, and any thread may call it, even after the client was closed. A forked child
        starts at zero.
        """
        from curlhttp._client.stats import Sources, collect

        breaker, concurrency_limit = self._policies
        policy = self._retry or self._default_retry
        return collect(
            Sources(
                self.totals,
                [each for ref in self.engines.keyrefs() if (each := ref()) is not None],
                breaker,
                concurrency_limit,
                None if policy is None else policy.budget,
                self._endpoints,
            ),
            self.clock.now(),
        )

    def har(self, path: str | os.PathLike[str], *, secrets: Iterable[str] = ()) -> HarLog:
        """Record everything this client sends and receives to a HAR 1.2 file, for browser tools.

            with client.har("slow.har"):
                client.get("https://api.example.org/users")

        Each attempt of a request is one entry, with its timings and its response. A failed attempt
        has status 0. Credentials are masked as in Record. Everything, including bodies, stays in
        memory until the `with` ends.

        Args:
            path: the file. It is written when the `with` ends, and replaces an existing file.
            secrets: additional names to mask; see Record.

        Raises:
            OSError: the file cannot be written. Raised when the `with` ends.
        """
        from curlhttp._client.record.record import HarLog

        return HarLog(path, secrets, self._add_recorder, self._remove_recorder, self.clock.wall)

    def _add_recorder(self, recorder: HarLog) -> None:
        if self._caching is not None:
            settings = self.chain.settings
            settings["middleware"] = (*settings.get("middleware", ()), recorder.note_cached)
        self._add_wrapper(recorder)

    def _remove_recorder(self, recorder: HarLog) -> None:
        note, settings = recorder.note_cached, self.chain.settings
        kept = tuple(each for each in settings.pop("middleware", ()) if each != note)
        if kept:
            settings["middleware"] = kept
        self._remove_wrapper(recorder)

    def _add_wrapper(self, wrapper: EngineWrapper) -> None:
        self._set_wrappers((*self._wrappers, wrapper))

    def _remove_wrapper(self, wrapper: EngineWrapper) -> None:
        self._set_wrappers(tuple(each for each in self._wrappers if each is not wrapper))

    def _set_wrappers(self, wrappers: tuple[EngineWrapper, ...]) -> None:
        self._wrappers = wrappers
        self.exchange = self._make_exchange()
        self._build_flow()

    def _build_flow(self, *, also: tuple[str, ...] = ()) -> None:
        self.flow = self.chain.build(
            self.exchange, self.clock, self.make_waiter, self.make_race, also=also
        )
        self._check_straight()

    def _check_straight(self) -> None:
        """Note whether plain requests may take the straight path: no layer has to see them."""
        timeout, auth = self._fields[2], self._fields[5]
        leaves = (
            not is_straight(self.flow, self.exchange)
            or self._wrappers
            or self._given_transport is not None
            or self._route is not None
            or auth is not None
            or timeout.total is not None
            or self._overrides_build_request
            or "_build_plain_request" in vars(self)
        )
        self._straight_fields: Fields | None = None if leaves else self._fields

    def _build_straight(
        self, url: str | bytes | URL, options: RequestOptions
    ) -> ClientRequest | None:
        """Return a GET that may go past the flow, straight to the engine; None for any other.

        Neither a layer nor an option has to see it, and what is left of the flow is to look at the
        response: `is_final` says whether the flow would return it as it is.
        """
        fields = self._straight_fields
        if (
            fields is None
            or options
            or self._jar.cookies is not None
            or network.counts_sends
            or log.is_enabled_for(INFO)
            or is_finalizing()
            or (parsed := self._parse(url)).username is not None
        ):
            return None
        return _new_request(ClientRequest).fill("GET", parsed, fields)

    # settings that may be changed

    @property
    def headers(self) -> Headers:
        """Return the headers that are added to every request; you may change them."""
        return self._headers

    @headers.setter
    def headers(self, headers: HeaderChanges | None) -> None:
        self._headers = make_client_headers(headers, self._sensitive)
        self._fields = (None, self._headers, *self._fields[2:])
        self._check_straight()

    @property
    def cookies(self) -> Cookies:
        """Return the cookies, which you may change.

        Raises:
            TypeError: the client uses a CookieJar of another class that you passed.
        """
        from curlhttp._models.cookies.jar import Cookies

        jar = self._jar.open()
        if not isinstance(jar, Cookies):
            kind = type(jar).__name__
            raise TypeError(f"this client uses the {kind} that you passed: use it directly")
        return jar

    @cookies.setter
    def cookies(self, cookies: CookiesInput | None) -> None:
        self._jar.replace(cookies)

    @property
    def timeout(self) -> Timeout:
        """Return the default timeout of requests."""
        return self._timeout

    @property
    def multiplexes(self) -> bool:
        """Return whether requests may share connections."""
        return bool(self._http2 or self._http3)

    @property
    def limits(self) -> Limits:
        """Return the limits of this client."""
        return self._limits

    def complete(self, request: ClientRequest | UserRequest) -> ClientRequest:
        """Return the request with the client's settings where it has no settings."""
        check_running()
        if not isinstance(request, ClientRequest):
            return self._convert(request)
        if request.retry is not None:
            self._allow_retries()
        if cast("NetworkRoute | None", request.route) is not None:
            return request
        # Passed only if the request has one: a subclass may have another default.
        options: RequestOptions = {} if request.auth is None else {"auth": request.auth}
        request = request.copy()
        model = self.build_request(request.method, request.url, **options)
        request.url, request.auth, request.jar = model.url, model.auth, model.jar
        request.timeout = request.timeout or model.timeout
        request.route, request.choose_route = model.route, model.choose_route
        request.retry = request.retry or model.retry
        if model.extensions is not None:
            request.extensions = {**model.extensions, **(request.extensions or {})}
        return request

    def _make_retry(self, retry: RetryInput) -> RetryPolicy | None:
        policy = super()._make_retry(retry)
        if policy is not None:
            self._allow_retries()
        return policy

    def _allow_retries(self) -> None:
        settings = self.chain.settings
        if "retry" not in settings:  # no request had a policy until now
            # In this order, because another thread that sees the setting uses the flow at once.
            self._build_flow(also=("retry",))
            settings["retry"] = None

    def _convert(self, user_request: UserRequest) -> ClientRequest:
        """Build the ClientRequest for a curlhttp.Request."""
        if not hasattr(user_request, "prepare"):
            kind = type(user_request).__name__
            made = "client.build_request(method, url) makes one"
            raise TypeError(f"send takes a ClientRequest, not {kind}; {made}")
        if any(dict(user_request.hooks or {}).values()):
            raise ValueError("hooks of one request are for Session; pass hooks=... to the client")
        names = ("headers", "files", "data", "params", "auth", "cookies", "json")
        given = {name: getattr(user_request, name) for name in names}
        return self.build_request(
            cast(str, user_request.method),
            cast(str, user_request.url),
            **{name: value for name, value in given.items() if value is not None},
        )

    def __repr__(self) -> str:
        base = "" if self._base_url is None else f" {display_url(self._base_url)}"
        return f"<curlhttp.{type(self).__name__}{base}>"

    if not TYPE_CHECKING:  # type checkers reject these; each client defines one of the pairs

        def __setattr__(self, name, value):
            # A Session's settings can be changed like this, httpx's too. It would do nothing here.
            if name in _settings():
                kind = type(self)
                if getattr(kind, name, None) is getattr(BaseClient, name, None):
                    raise no_change(kind.__name__, name)
            object.__setattr__(self, name, value)
            if name in ("flow", "_fields"):  # see _check_straight
                object.__setattr__(self, "_straight_fields", None)

        def __enter__(self):
            raise TypeError("AsyncClient needs `async with`, not `with`; or use curlhttp.Client")

        def __aenter__(self):
            raise TypeError("Client is blocking: write `with`, or use curlhttp.AsyncClient")

        __exit__, __aexit__ = __enter__, __aenter__


def wrap_all(engine: Engine, wrappers: Iterable[EngineWrapper]) -> Engine:
    """Return an engine in several wrappers, innermost first."""
    for wrapper in wrappers:
        engine = wrapper.wrap_engine(engine)
    return engine


def make_client_headers(headers: HeaderChanges | None, sensitive: frozenset[str]) -> Headers:
    """Return the headers that a client adds to every request.

    Args:
        headers: replace the defaults of the same name; None removes one.
        sensitive: lowercase names whose values are not shown.

    Raises:
        InvalidHeader: a header only makes sense for a single request.
    """
    merged = Headers(DEFAULT_HEADERS, sensitive=sensitive).merged(headers)
    for name in ("Content-Length", "Transfer-Encoding"):
        if name in merged:
            raise InvalidHeader(f"{name} belongs to one request: do not set it for all requests")
    return merged


# Any: each field has its own type, which Limits checks.
def _merge_limits(limits: Limits | None, **fields: Any) -> Limits:
    """Return `limits` with the given fields replaced."""
    given = {name: value for name, value in fields.items() if value is not UNSET}
    example = "curlhttp.Limits(max_connections=10)"
    check_object("limits", limits, "max_connections_per_host", example)
    if limits is not None:
        given = {name: getattr(limits, name) for name in Limits.__slots__} | given
    return Limits(**given)


def _choose_proxies(proxies: Proxies, proxy: str | Proxy | None) -> Proxies:
    """Return the setting of both arguments: proxy is for one URL, as in httpx and aiohttp."""
    if proxy is None:
        return proxies
    if proxies is not None:
        raise TypeError("pass either proxy or proxies, not both")
    if not isinstance(cast(object, proxy), (str, Proxy)):
        raise TypeError(
            f"proxy must be one URL or a Proxy, not {type(proxy).__name__}; "
            "proxies= takes a mapping by scheme"
        )
    return proxy


def _parse_base(base_url: str | URL | Endpoints) -> URL | None:
    if not base_url:
        return None
    canonical: URL | None = getattr(base_url, "canonical", None)
    if canonical is not None and not isinstance(base_url, type):
        return canonical
    if isinstance(base_url, (list, tuple, set, frozenset, type)):
        example = 'base_url=curlhttp.Endpoints(["https://a.example.org", "https://b.example.org"])'
        raise TypeError(f"base_url must be one URL; for several servers, write {example}")
    try:
        url = parse_url(cast("str | URL", base_url))
        if url.query:
            raise InvalidURL(f"base_url cannot have a query, pass params=: {display_url(url)!r}")
        return url
    except (MissingSchema, InvalidSchema) as error:
        shown = display_url(str(base_url))
        raise type(error)(f"base_url must begin with https:// or http://, not {shown!r}") from None


def _validate_params(params: ParamsInput | None) -> ParamsInput | None:
    """Return params that can be encoded for each request."""
    if params is None:
        return None
    if isinstance(params, Iterable) and not isinstance(params, (str, bytes, Mapping)):
        params = tuple(params)  # an iterator would be exhausted by the first request
    encode_params(params)
    return params


def _validate_sensitive_headers(names: Iterable[str]) -> frozenset[str]:
    """Return the names in lower case.

    Raises:
        TypeError: it is not a list of names, but for example one name.
    """
    if isinstance(names, Iterable) and not isinstance(names, (str, bytes)):
        found = tuple(names)
        if all(isinstance(name, str) for name in found):
            return frozenset(name.lower() for name in found)
    raise TypeError('sensitive_headers must be a list of names, such as ["X-Key"]')


def _make_retry_policy(retry: RetryInput) -> RetryPolicy | None:
    """Return the policy for the argument `retry`, None for no retries."""
    if retry is None or retry == 0:
        return None
    from curlhttp._policy.retry import RetryPolicy

    return RetryPolicy.of(retry)


def _load_netrc(environ: Mapping[str, str]) -> Callable[[str], tuple[str, str] | None] | None:
    """Return a lookup of credentials by host, None without a netrc file."""
    path = find_netrc(environ)
    if path is None or not os.path.exists(path):
        return None
    return partial(find_netrc_credentials, environ=environ)


set_constructor_signature(BaseClient.__init__)


@lru_cache(maxsize=1)
def _settings() -> set[str]:
    """Return the names of a client's settings that cannot be changed, and of those of httpx."""
    names = inspect.signature(BaseClient).parameters.keys() - {"headers", "cookies"}
    return names | {"event_hooks", "mounts"}
