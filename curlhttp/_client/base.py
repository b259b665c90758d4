"""Base class of both clients: validated settings and the request pipeline built from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from sys import is_finalizing
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

from curlhttp._client.chain import Chain, Host, Settings
from curlhttp._client.environment import find_netrc, find_netrc_credentials
from curlhttp._client.exchange import count_attempts
from curlhttp._client.features import FEATURES, OWN_SETTINGS, load
from curlhttp._client.hooks import Hooks, validate_hooks
from curlhttp._client.request_builder import (
    RequestBuilder,
    make_url_parser,
    set_constructor_signature,
    validate_size,
)
from curlhttp._client.routing import Routing, choose_route_options
from curlhttp._client.settings import SETTINGS, complete_settings
from curlhttp._client.straight import is_straight
from curlhttp._http.auth import to_auth
from curlhttp._http.config import Limits, Proxies, Proxy
from curlhttp._http.cookies import LazyCookieJar
from curlhttp._http.errors import Unpicklable, check_flags, check_number, check_object
from curlhttp._http.exiting import check_running
from curlhttp._http.headers import DEFAULT_HEADERS, Headers
from curlhttp._http.redaction import display_url
from curlhttp._http.request import (
    DECODE_JSON,
    ENCODE_JSON,
    RAISE_FOR_STATUS,
    ClientRequest,
    Fields,
    pack_fields,
)
from curlhttp._http.response import DEFAULT_ENCODING, FIND_CHARSET, validate_encoding
from curlhttp._http.suggestions import no_change, with_suggestions, without_attributes
from curlhttp._http.timeout import Timeout
from curlhttp._http.unset import UNSET
from curlhttp._http.url import URL, encode_params, parse_url
from curlhttp._runtime.engine import (
    Engine,
    ReportingEngine,
    Runtime,
    Send,
    Totals,
)
from curlhttp._runtime.log import INFO, log
from curlhttp._runtime.network import network
from curlhttp._runtime.run import Offload, run_here
from curlhttp.exceptions import InvalidHeader, InvalidSchema, InvalidURL, MissingSchema

if TYPE_CHECKING:
    from typing_extensions import Unpack

    import curlhttp
    from curlhttp._client.chain import Spawn
    from curlhttp._client.options import ClientOptions, RequestOptions
    from curlhttp._client.streamed_response import BaseStreamedResponse
    from curlhttp._client.transport import WrapsAttempts
    from curlhttp._http.config import NetworkRoute
    from curlhttp._http.cookies.jar import Cookies
    from curlhttp._http.inputs import (
        CookiesInput,
        HeaderChanges,
        ParamsInput,
        RetryInput,
        UserRequest,
    )
    from curlhttp._http.response import DefaultEncoding

    Self = TypeVar("Self", bound="BaseClient")  # not at run time, where typing compiles the name

_FLAGS = [name for name, setting in SETTINGS.items() if setting.is_flag]
# Those of a Session that can be changed, and httpx's.
_UNCHANGEABLE = {*SETTINGS, "event_hooks", "mounts"} - {"headers", "cookies"}
_new_request = ClientRequest.__new__


class EndsWithClient(Protocol):
    """What a feature keeps open at most as long as its client, such as an event stream.

    It may have the coroutine function `_aend_with_client`, too, which AsyncClient awaits before it
    closes its engines.
    """

    def _end_with_client(self) -> object:
        """End it, unless it has ended; the engines are closed."""


@without_attributes(
    "client_object",
    "adapters auth auto_decompress base_url cert closed connector connector_owner cookie_jar "
    "detach event_hooks follow_redirects get_adapter hooks json_serialize loop max_redirects "
    "mount params prepare_request proxies raise_for_status requote_redirect_url "
    "skip_auto_headers trace_configs trust_env verify version ws_connect",
)
@with_suggestions("client")
class BaseClient(Unpicklable, RequestBuilder):
    """Everything in a client except its methods for sending requests.

    Features use these of its attributes: `_chain`, the layers of the flow, with their settings;
    `_flow`, which passes a complete request through all of them; `_exchange`, the last step, which
    passes it to the engine; `_runtime`, the engine's; `_totals`, which counts for stats().

    Attributes:
        is_closed: whether the client was closed, so that requests raise ClientClosed.
    """

    _why_not = "it holds connections and credentials; make a new one where it is needed"

    _runtime: Runtime
    _exchange: Send
    _flow: Send
    _given_transport: Engine | None = None
    _uses_libcurl: bool
    is_closed = False
    _awaits_hooks = False
    _streamed: type[BaseStreamedResponse]
    _run_blocking: Offload = staticmethod(run_here)
    _wrappers: tuple[WrapsAttempts, ...] = ()  # innermost first
    _attached: Iterable[EndsWithClient] = ()
    _also: frozenset[str] = frozenset()  # settings of requests, for which there are layers

    def __init__(self, **options: Unpack[ClientOptions]) -> None:
        check_running()
        settings = complete_settings(options, f"{type(self).__name__}()")
        self._totals: Totals = Totals()
        # No WeakSet, because another thread may add one while stats() reads them.
        self._reporting: WeakKeyDictionary[ReportingEngine, None] = WeakKeyDictionary()
        self._websocket_registries: dict[object, Any] = {}  # Any: WebSocketRegistry
        check_flags(**{name: settings[name] for name in _FLAGS})
        check_number("max_redirects", settings["max_redirects"], whole=True)
        self._set_up_requests(settings)
        self._hooks = validate_hooks(settings["hooks"], self._awaits_hooks)
        self._set_transport(settings["transport"])
        self._set_up_flow(settings)

    def _set_up_requests(self, settings: Settings) -> None:
        """Set what requests are built with: URL, fields, cookies, limits and routes."""
        base_url = settings["base_url"]
        self._endpoints: curlhttp.Endpoints | None = None
        if hasattr(base_url, "_to_canonical"):
            self._endpoints = cast("curlhttp.Endpoints", base_url)
        self._base_url = _parse_base(base_url)
        self._sensitive = _validate_sensitive_headers(settings["sensitive_headers"])
        self._headers = make_client_headers(settings["headers"], self._sensitive)
        params = _validate_params(settings["params"])
        self._parse = make_url_parser(self._endpoints or self._base_url, params)
        make_jar = LazyCookieJar if self._endpoints is None else self._endpoints._make_jar
        self._jar = make_jar(settings["cookies"])
        default_auth = to_auth(settings["auth"])
        timeout = settings["timeout"]
        self._timeout = Timeout() if timeout is UNSET else Timeout.of(timeout)
        self._limits = _merge_limits(
            settings["limits"], {name: settings[name] for name in Limits.__slots__}
        )
        self._http2 = type(self)._http2 if settings["http2"] is None else settings["http2"]
        self._http3 = settings["http3"]
        proxies = _choose_proxies(settings["proxies"], settings["proxy"])
        self._routing = Routing(
            http2=self._http2,
            http3=self._http3,
            trust_env=settings["trust_env"],
            certificates=settings["certificates"],
            settings=choose_route_options({**settings, "proxies": proxies}),
            guard=settings["guard"],
            dns_ttl=self._limits.dns_ttl,
        )
        self._route = self._routing.route
        if settings["json"] is not None:
            self._use_json(settings["json"])
        if settings["default_encoding"] is not None:
            self._use_encoding(settings["default_encoding"])
        self._retry = settings["retry"] = _make_retry_policy(settings["retry"])
        self._fields = pack_fields(
            self._headers,
            self._timeout,
            self._routing.direct,
            auth=default_auth,
            jar=self._jar,
            follow_redirects=settings["follow_redirects"],
            max_response_size=validate_size(settings["max_response_size"]),
            retry=self._retry,
        )

    def _set_transport(self, transport: object) -> None:
        """Set the engine, and what wraps its attempts."""
        if isinstance(transport, type):
            shown = f"transport={getattr(transport, '__name__', '')}(...)"
            raise TypeError(f"transport must be an object, not a class: write {shown}")
        if transport is not None:
            from curlhttp._client.transport import split_transport

            self._wrappers, transport = split_transport(transport)
        if transport is None:  # otherwise nothing connects, or the guard is below what wraps
            self._wrappers = (*self._routing.wrappers, *self._wrappers)
        self._set_engine(transport)

    def _set_up_flow(self, settings: Settings) -> None:
        """Build the chain of the layers that are on."""
        found = {
            name: settings[name]
            for name, (default, feature, _) in SETTINGS.items()
            if feature and settings[name] is not default and settings[name] is not None
        }
        hooks = Hooks(self._hooks, awaits=self._awaits_hooks, totals=self._totals)
        found |= {
            "hooks": hooks,
            "streamed": self._streamed,
            "max_redirects": settings["max_redirects"],
            "sensitive_headers": self._sensitive,
        }
        computed = {
            "netrc": _load_netrc(self._routing.environ) if settings["trust_env"] else None,
            "alternatives": self._routing.alternatives,
            "endpoints": self._endpoints,
        }
        found |= {name: value for name, value in computed.items() if value is not None}
        if self._hooks["request"] or self._hooks["response"]:
            found["request_hooks"] = self._hooks
        # A hook may set the policy of a request.
        if hooks.watches_attempts or self._hooks["request"]:
            found.setdefault("retry", None)
        self._policies = (settings["breaker"], settings["concurrency_limit"])
        host = Host(
            self,
            self._runtime,
            self._totals,
            self._awaits_hooks,
            self._run_blocking,
            *self._tasks(),
        )
        self._chain: Chain = Chain(FEATURES, found, host)
        self._build_flow()

    def _tasks(self) -> tuple[Spawn | None, Callable[[], Hashable] | None]:
        """Return what starts a task of the running loop, and what returns the loop."""
        return None, None

    def _use_json(self, codec: curlhttp.JSON) -> None:
        """Write and read JSON with the user's functions.

        Raises:
            TypeError: this is not a JSON.
        """
        load("json_functions").check_json(codec)
        if codec.dumps is not None:
            self._encode_json = codec._encode
            self._add_extension(ENCODE_JSON, codec._encode)
        if codec.loads is not None:
            self._add_extension(DECODE_JSON, codec.loads)

    def _use_encoding(self, encoding: DefaultEncoding) -> None:
        """Read text without a charset in another one than UTF-8, or as browsers do ("html").

        Raises:
            ValueError, TypeError: see `validate_encoding`.
        """
        if encoding == "html":
            self._add_extension(FIND_CHARSET, load("html_charset").HTMLCharset)
        else:
            self._add_extension(DEFAULT_ENCODING, validate_encoding(encoding))

    def _add_extension(self, name: str, value: object) -> None:
        """Add an extension to all requests, for their responses."""

        def extend(request: ClientRequest, _: URL) -> None:
            request._extend(name, value)

        self._add_build_step(extend)

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

    def _add_engine(self, engine: ReportingEngine) -> None:
        """Let `stats()` report what an engine of this client does."""
        engine.totals = self._totals
        self._reporting[engine] = None

    def _attach(self, other: EndsWithClient) -> None:
        """Let something of a feature end when this client closes; others keep it alive."""
        # setdefault is atomic: another thread may attach something at the same time.
        self.__dict__.setdefault("_attached", WeakSet()).add(other)

    @property
    def _guard_route(self) -> Callable[[NetworkRoute], NetworkRoute]:
        """Return a function that adds this client's address guard to a route."""
        return self._routing.with_guard

    def _set_engine(self, transport: object) -> None:
        """Set the engine, and runtime and exchange from it.

        Args:
            transport: replaces libcurl, or wraps it; or None.
        """
        raise NotImplementedError

    def _make_exchange(self) -> Send:
        """Return the last step of the flow, with what wraps it."""
        if self._wrappers:
            from curlhttp._client.around import exchange_wrapped

            now, kind = self._runtime.now, self._streamed
            last = exchange_wrapped(self._wrappers, self._choose_engine, now, kind)
        else:
            last = self._make_bare_exchange()
        # The engines of libcurl count what they send.
        return last if self._uses_libcurl else count_attempts(last, self._totals)

    def _make_bare_exchange(self) -> Send:
        """Return the last step of the flow, which passes requests to the engine."""
        raise NotImplementedError

    def _choose_engine(self) -> Engine:
        """Return the engine for a request."""
        raise NotImplementedError

    def _close_wrappers(self) -> None:
        """End what features keep open, and close wrappers, after the engines."""
        for each in tuple(self._attached):
            each._end_with_client()
        for wrapper in self._wrappers:
            if hasattr(wrapper, "close"):
                wrapper.close()

    def _add_wrapper(self, wrapper: WrapsAttempts) -> None:
        with self._totals.lock:
            self._set_wrappers((*self._wrappers, wrapper))

    def _remove_wrapper(self, wrapper: WrapsAttempts) -> None:
        with self._totals.lock:
            self._set_wrappers(tuple(each for each in self._wrappers if each is not wrapper))

    def _set_wrappers(self, wrappers: tuple[WrapsAttempts, ...]) -> None:
        self._wrappers = wrappers
        self._exchange = self._make_exchange()
        self._build_flow()

    def _build_flow(self) -> None:
        """Build the flow; again if another thread has changed meanwhile what it is built of."""
        known = None
        while known != (parts := (self._exchange, self._also, self._chain.settings.copy())):
            known = parts
            self._flow = self._chain.build(self._exchange, self._runtime, also=self._also)
            self._check_straight()

    def _check_straight(self) -> None:
        """Note whether plain requests may take the straight path: no layer has to see them."""
        timeout, auth = self._fields[2], self._fields[5]
        leaves = (
            not is_straight(self._flow, self._exchange)
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
        from curlhttp._http.cookies.jar import Cookies

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
    def _multiplexes(self) -> bool:
        """Return whether requests may share connections."""
        return bool(self._http2 or self._http3)

    @property
    def limits(self) -> Limits:
        """Return the limits of this client."""
        return self._limits

    def _complete(self, request: ClientRequest | UserRequest) -> ClientRequest:
        """Return the request with the client's settings where it has no settings."""
        check_running()
        if not isinstance(request, ClientRequest):
            return self._convert(request)
        if request.retry is not None or (
            request.extensions is not None and RAISE_FOR_STATUS in request.extensions
        ):
            self._allow_own_settings()
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

    def _allow_own_settings(self) -> None:
        settings = self._chain.settings
        if not settings.keys() >= OWN_SETTINGS:  # no request had one until now
            # In this order, because another thread that sees the settings uses the flow at once.
            # All of them, because another thread may do the same for another one.
            self._also = OWN_SETTINGS
            self._build_flow()
            for name in OWN_SETTINGS:
                settings.setdefault(name, SETTINGS[name].default)

    def _convert(self, user_request: UserRequest) -> ClientRequest:
        """Build the ClientRequest for a curlhttp.requests.Request."""
        if not hasattr(user_request, "prepare"):
            kind = type(user_request).__name__
            made = "client.build_request(method, url) makes one"
            raise TypeError(f"send takes a ClientRequest, not {kind}; {made}")
        if any(dict(user_request.hooks or {}).values()):
            raise ValueError("hooks of one request are for Session; pass hooks=... to the client")
        names = ("headers", "files", "data", "params", "auth", "cookies", "json")
        given = {name: getattr(user_request, name) for name in names}
        built: ClientRequest = self.build_request(
            cast(str, user_request.method),
            cast(str, user_request.url),
            **{name: value for name, value in given.items() if value is not None},
        )
        return built

    def __repr__(self) -> str:
        base = "" if self._base_url is None else f" {display_url(self._base_url)}"
        return f"<curlhttp.{type(self).__name__}{base}>"

    if not TYPE_CHECKING:  # type checkers reject these; each client defines one of the pairs

        def __setattr__(self, name, value):
            # A Session's settings can be changed like this, httpx's too. It would do nothing here.
            if name in _UNCHANGEABLE:
                kind = type(self)
                if getattr(kind, name, None) is getattr(BaseClient, name, None):
                    raise no_change(kind.__name__, name)
            object.__setattr__(self, name, value)
            if name in ("_flow", "_fields"):  # see _check_straight
                object.__setattr__(self, "_straight_fields", None)

        def __enter__(self):
            raise TypeError("AsyncClient needs `async with`, not `with`; or use curlhttp.Client")

        def __aenter__(self):
            raise TypeError("Client is blocking: write `with`, or use curlhttp.AsyncClient")

        __exit__, __aexit__ = __enter__, __aenter__


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


def _merge_limits(limits: Limits | None, fields: Settings) -> Limits:
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


def _parse_base(base_url: str | URL | curlhttp.Endpoints) -> URL | None:
    if not base_url:
        return None
    canonical: URL | None = getattr(base_url, "_canonical", None)
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


def _make_retry_policy(retry: RetryInput) -> curlhttp.RetryPolicy | None:
    """Return the policy for the argument `retry`, None for no retries."""
    if retry is None or retry == 0:
        return None
    policy: curlhttp.RetryPolicy | None = load("retry.policy").RetryPolicy.of(retry)
    return policy


def _load_netrc(environ: Mapping[str, str]) -> Callable[[str], tuple[str, str] | None] | None:
    """Return a lookup of credentials by host, None without a netrc file."""
    path = find_netrc(environ)
    if path is None or not os.path.exists(path):
        return None
    return partial(find_netrc_credentials, environ=environ)


set_constructor_signature(BaseClient.__init__)
