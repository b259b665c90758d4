"""What both clients are: settings, checked once, and requests built from them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

from curlhttp._config import (
    HTTP2,
    Cert,
    Limits,
    Proxies,
    Timeout,
    TimeoutInput,
    Transport,
    Verify,
    transport_for,
)
from curlhttp._engine import Clock, Engine, Gate, Middleware, Send
from curlhttp._flow.chain import build, hedging
from curlhttp._flow.observe import ATTEMPT_EVENTS, EVENTS
from curlhttp._models.body.arguments import encode_body
from curlhttp._models.cookies.late import Jar
from curlhttp._models.decoders import ACCEPT_ENCODING
from curlhttp._models.headers import Headers, check_method
from curlhttp._models.request import Request
from curlhttp._models.scrub import shown_url
from curlhttp._models.url.url import URL, parse_url
from curlhttp._policy.auth import NO_AUTH, BasicAuth, as_auth
from curlhttp._policy.environment import (
    ca_bundle,
    names_proxies,
    netrc_credentials,
    netrc_path,
    proxy_for,
    read_environment,
    select_proxy,
)
from curlhttp._version import __version__
from curlhttp.exceptions import (
    InvalidHeader,
    InvalidMethod,
    MissingSchema,
)

if TYPE_CHECKING:
    from curlhttp._models.body.body import Body
    from curlhttp._models.cookies.jar import Cookies
    from curlhttp._models.inputs import (
        JSON,
        AuthInput,
        ContentInput,
        CookiesInput,
        DataInput,
        FilesInput,
        HeaderChanges,
        Hook,
        HooksInput,
        ParamsInput,
    )
    from curlhttp._models.progress import Meter, Progress
    from curlhttp._policy.breaker.breaker import CircuitBreaker
    from curlhttp._policy.concurrency import ConcurrencyLimit
    from curlhttp._policy.hedge import Hedge
    from curlhttp._policy.rate import RateLimit
    from curlhttp._policy.retry import RetryInput, RetryPolicy
    from curlhttp.requests import Request as UserRequest

__all__ = ["UNSET", "Core", "DownloadOptions", "RequestOptions", "Self"]

Self = TypeVar("Self", bound="Core")

UNSET: Any = cast(Any, type("Unset", (), {"__repr__": lambda self: "<the client's>"})())
_DEFAULT_HEADERS = (
    ("User-Agent", f"curlhttp/{__version__}"),
    ("Accept-Encoding", ACCEPT_ENCODING),
    ("Accept", "*/*"),
)
_DEFAULT_MAX_REDIRECTS = 30


class DownloadOptions(TypedDict, total=False):
    """The keywords that every verb takes, and download and map."""

    params: ParamsInput | None
    headers: HeaderChanges | None
    cookies: CookiesInput | None
    auth: AuthInput | None
    timeout: TimeoutInput
    follow_redirects: bool
    allow_redirects: bool
    proxies: Proxies
    verify: Verify
    cert: Cert
    max_response_size: int | None
    retry: RetryInput


class RequestOptions(DownloadOptions, total=False):
    """The keywords that every verb takes."""

    data: DataInput | None
    json: JSON
    content: ContentInput | None
    files: FilesInput | None
    stream: bool
    progress: Progress | None


class Core:
    """The constructor and build_request of both clients; what sends is theirs."""

    _http2: HTTP2 = False

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
        http3: bool = False,
        verify: Verify = True,
        cert: Cert = None,
        proxies: Proxies = None,
        trust_env: bool = True,
        follow_redirects: bool = True,
        max_redirects: int = _DEFAULT_MAX_REDIRECTS,
        max_response_size: int | None = None,
        sensitive_headers: Iterable[str] = (),
        middleware: Sequence[Middleware] = (),
        hooks: HooksInput | None = None,
        retry: RetryInput = None,
        rate_limit: RateLimit | None = None,
        concurrency_limit: ConcurrencyLimit | None = None,
        breaker: CircuitBreaker | None = None,
        hedge: Hedge | None = None,
        transport: Engine | None = None,
    ) -> None:
        self._base_url = parse_url(base_url) if base_url else None
        self._sensitive = frozenset(name.lower() for name in sensitive_headers)
        self._headers = _client_headers(headers, self._sensitive)
        self._params = params
        self._jar = Jar(cookies)
        self._auth = as_auth(auth)
        self._timeout = Timeout() if timeout is UNSET else Timeout.of(timeout)
        self._limits = _limits(
            limits,
            max_connections=max_connections,
            max_connections_per_host=max_connections_per_host,
            max_keepalive_connections=max_keepalive_connections,
            keepalive_expiry=keepalive_expiry,
            max_connection_lifetime=max_connection_lifetime,
            dns_ttl=dns_ttl,
        )
        self._follow_redirects = follow_redirects
        self._max_response_size = _checked_size(max_response_size)
        self._http2 = type(self)._http2 if http2 is None else _checked_http2(http2)
        self._http3 = _checked_http3(http3)
        environ = read_environment() if trust_env else {}
        self._authorities = ca_bundle(environ) or True  # what verify=True comes to
        self._verify: Any = self._authorities if verify is True else verify
        self._cert: Any = cert
        self._proxies = {"all": proxies} if isinstance(proxies, str) else proxies
        self._environ = environ if trust_env and names_proxies(environ) else None
        self._transport = transport_for(
            self._verify,  # type: ignore[arg-type]  # any path can be hashed
            self._cert,  # type: ignore[arg-type]
            None,
            self._http2,
            self._http3,
        )
        found = _hooks(hooks, self._awaits_hooks)
        self._retry = _retry_policy(retry)
        self._set_engine(transport)
        self._chain = partial(
            build,
            hooks=found,
            awaits_hooks=self._awaits_hooks,
            max_redirects=max_redirects,
            sensitive=self._sensitive,
            netrc=_netrc(environ) if trust_env else None,
            middleware=tuple(middleware),
            rate_limit=rate_limit,
            concurrency_limit=concurrency_limit,
            breaker=breaker,
            hedge=hedging(
                hedge,
                self._clock.now,
                hooks=found,
                awaits_hooks=self._awaits_hooks,
                retry=self._retry,
                rate_limit=rate_limit,
                concurrency_limit=concurrency_limit,
                breaker=breaker,
            ),
        )
        self._build = partial(self._chain, self._exchange, clock=self._clock, gate=self._gate)
        self._retry_base = self._retry
        # Hooks and middleware may give a request a policy; what a hedge has learned of origins
        # would be lost if the chain was built anew.
        self._may_retry = bool(
            self._retry is not None
            or any(map(found.get, ("request", *ATTEMPT_EVENTS)))
            or middleware
            or hedge is not None
        )
        self._send: Send = self._build(retries=self._may_retry)

    _awaits_hooks = False
    _is_closed = False
    _overrides_build_request = False

    def __init_subclass__(cls) -> None:
        cls._overrides_build_request = cls.build_request is not Core.build_request

    _clock: Clock
    _gate: Callable[[], Gate]

    def _set_engine(self, transport: Engine | None) -> None:
        raise NotImplementedError

    def _exchange(self, request: Request, plan: Any = None) -> Any:
        raise NotImplementedError

    # settings that may be changed

    @property
    def headers(self) -> Headers:
        """Return the headers that go with every request; change them at will."""
        return self._headers

    @headers.setter
    def headers(self, headers: HeaderChanges | None) -> None:
        self._headers = _client_headers(headers, self._sensitive)

    @property
    def cookies(self) -> Any:
        """Return the cookie jar."""
        return self._jar.open()

    @cookies.setter
    def cookies(self, cookies: Any) -> None:
        self._jar.replace(cookies)

    @property
    def timeout(self) -> Timeout:
        """Return the time limits of requests that set none."""
        return self._timeout

    @property
    def limits(self) -> Limits:
        """Return the limits of this client."""
        return self._limits

    # requests

    def build_request(
        self,
        method: str,
        url: str | bytes | URL,
        *,
        params: ParamsInput | None = None,
        data: DataInput | None = None,
        json: JSON = None,
        content: ContentInput | None = None,
        files: FilesInput | None = None,
        headers: HeaderChanges | None = None,
        cookies: CookiesInput | None = None,
        auth: AuthInput | None = UNSET,
        timeout: TimeoutInput = UNSET,
        follow_redirects: bool = UNSET,
        allow_redirects: bool = UNSET,
        proxies: Proxies = None,
        verify: Verify = UNSET,
        cert: Cert = UNSET,
        stream: bool = False,
        max_response_size: int | None = UNSET,
        retry: RetryInput = UNSET,
        progress: Progress | None = None,
    ) -> Request:
        """Return the request that the verbs would send; `send` sends it.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            params: a mapping, pairs or a string for the query.
            data: a form (mapping or pairs), or a body as it is (bytes, str, file, iterable).
            json: any value that JSON can express.
            content: a body as it is: bytes, str, file, iterable or, in AsyncClient, an async
                iterable; a function that returns one of these makes it replayable.
            files: a mapping or pairs of field name and file, sent as multipart/form-data.
            headers: they replace the client's of the same name; None takes one away.
                Proxy-Authorization is never sent: credentials of a proxy belong into proxies.
            cookies: for this request alone.
            auth: (user, password), an Auth, a function of the request, or None for none, not
                even what netrc holds. Without it: what the URL holds, else the client's, else
                netrc's.
            timeout: seconds for connect and read, (connect, read), a Timeout, or None.
            follow_redirects: follow redirects; allow_redirects is requests' name for it.
            allow_redirects: the same.
            proxies: a proxy URL, or a mapping as in requests.
            verify: see TLS.
            cert: see TLS.
            stream: return once the head is in; the body is read from the response.
            max_response_size: bytes that the body may have, on the wire and decoded.
            retry: a RetryPolicy, a number of retries with the client's policy (or the default
                one), or None to send it once.
            progress: called with the bytes of the body that libcurl was given and those that it
                has, or None: at the beginning, at the end, and 20 times a second between; from 0
                again when the body starts over, for a redirect, a challenge or a retry. What it
                raises ends the request. Such a body counts as streamed. For the response's body
                there are stream and download.

        Raises:
            RequestException: some of it cannot be sent as it is; nothing was.
            ValueError: there is progress, and no body.
        """
        target = self._target(url, params)
        request = self._plain(check_method(method), target)
        if headers:
            request._headers = self._headers.merged(headers)
        request.body = body = encode_body(
            content=content,
            data=data,
            json=json,
            files=files,
            length=None if request._headers is None else _announced_length(request._headers),
        )
        if progress is not None:
            request.body = body = self._watched(body, progress)
        if body is not None or request._headers is not None:
            _frame(request)
        if not (auth is UNSET or (auth is None and target.username is not None)):
            request.auth = as_auth(auth) or NO_AUTH
        if cookies is not None:
            request.cookies = _own_cookies(cookies, target)
        if timeout is not UNSET:
            request.timeout = Timeout.of(timeout)
        request.stream = stream
        follows = allow_redirects if follow_redirects is UNSET else follow_redirects
        if follows is not UNSET:
            request.follow_redirects = follows
        if max_response_size is not UNSET:
            request.max_response_size = _checked_size(max_response_size)
        if retry is not UNSET:
            request.retry = self._own_retry(retry)
        if not (verify is UNSET and cert is UNSET and proxies is None):
            self._set_route(request, verify, cert, proxies)
        return request

    def _request(self, method: str, url: str | bytes | URL, options: RequestOptions) -> Request:
        """Return what a verb sends: mostly a plain request, which costs a third."""
        if options or self._overrides_build_request:
            return self.build_request(method, url, **options)
        return self._plain(method, self._target(url, None))

    def _plain(self, method: str, target: URL) -> Request:
        """Return a request with the client's own settings.

        Args:
            method: a token in upper case.
            target: the absolute URL, maybe with credentials.
        """
        request = Request.__new__(Request)
        request.method = method
        request.url = target
        request.auth = self._auth
        if target.username is not None:
            request.url = target.without_userinfo()
            request.auth = BasicAuth(target.username, target.password or "")
        request._shared_headers = self._headers
        request._headers = request.body = request.cookies = None
        request.deadline = request.extensions = request.route = None
        request.jar = self._jar
        request.timeout = self._timeout
        request.stream = False
        request.follow_redirects = self._follow_redirects
        request.max_response_size = self._max_response_size
        request.decode = True
        request.retry = self._retry
        request.transport = self._transport
        if self._proxies is not None or self._environ is not None:
            self._set_route(request, UNSET, UNSET, None)
        return request

    def _set_route(self, request: Request, verify: Verify, cert: Cert, proxies: Proxies) -> None:
        request.route = partial(self._transport_to, verify=verify, cert=cert, proxies=proxies)
        request.transport = request.route(request.url)  # raises now, if it must

    def _watched(self, body: Body | None, progress: Progress) -> Body:
        from curlhttp._models.progress import Meter

        meter = Meter(progress, self._clock.now)
        if body is None:
            raise ValueError("progress is that of the request's body, and there is none")
        return self._watch(body, meter)

    def _watch(self, body: Body, meter: Meter) -> Body:
        from curlhttp._models.progress import WatchedBody

        return WatchedBody(body, meter)

    def _complete(self, request: Request | UserRequest) -> Request:
        """Return a request that no client made with what it lacks; others as they are."""
        if not isinstance(request, Request):
            return self._built(request)
        if request.retry is not None:
            self._allow_retries()
        if cast("Transport | None", request.transport) is not None:
            return request
        options: dict[str, Any] = {} if request.auth is None else {"auth": request.auth}
        request = request.copy()
        model = self.build_request(request.method, request.url, **options)
        request.url, request.auth, request.jar = model.url, model.auth, model.jar
        request.timeout = request.timeout or model.timeout
        request.transport, request.route = model.transport, model.route
        request.retry = request.retry or model.retry
        return request

    def _own_retry(self, retry: RetryInput) -> RetryPolicy | None:
        """Return the policy of one request; numbers share the budget of the client's."""
        if not retry:
            return None
        from curlhttp._policy.retry import RetryPolicy

        if self._retry_base is None:
            self._retry_base = RetryPolicy()
        self._allow_retries()
        return RetryPolicy.of(retry, self._retry_base)

    def _allow_retries(self) -> None:
        if not self._may_retry:  # no request had one up to now: the chain did not pay for it
            self._send = self._build(retries=True)
            self._may_retry = True

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
            wanted.url,
            **{name: value for name, value in given.items() if value is not None},
        )

    def _target(self, url: str | bytes | URL, params: ParamsInput | None) -> URL:
        base = self._base_url
        target = parse_url(url) if base is None else _joined(base, url)
        if self._params:
            target = target.with_params(self._params)
        return target.with_params(params) if params else target

    def _transport_to(self, url: URL, verify: Any, cert: Any, proxies: Proxies) -> Transport:
        if verify is UNSET:
            verify = self._verify
        return transport_for(
            self._authorities if verify is True else verify,
            self._cert if cert is UNSET else cert,
            self._proxy_to(url, proxies),
            self._http2,
            self._http3,
        )

    def _proxy_to(self, url: URL, proxies: Proxies) -> str | None:
        """Return the proxy: the request's choice, else the client's, else the environment's."""
        for choice in (proxies, self._proxies):
            if choice is not None:
                mapping = {"all": choice} if isinstance(choice, str) else choice
                proxy = select_proxy(url, mapping)
                if proxy is not None:
                    return proxy or None
        return None if self._environ is None else proxy_for(url, self._environ)

    def __repr__(self) -> str:
        base = "" if self._base_url is None else f" {shown_url(self._base_url)}"
        return f"<curlhttp.{type(self).__name__}{base}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: it holds connections and "
            "credentials; make a new one where it is needed"
        )


# --- from settings to values ---


def _client_headers(headers: HeaderChanges | None, sensitive: frozenset[str]) -> Headers:
    merged = Headers(_DEFAULT_HEADERS, sensitive=sensitive).merged(headers)
    for name in ("Content-Length", "Transfer-Encoding"):
        if name in merged:
            raise InvalidHeader(f"{name} belongs to one request: it cannot go with every one")
    return merged


def _limits(limits: Limits | None, **fields: Any) -> Limits:
    given = {name: value for name, value in fields.items() if value is not UNSET}
    if limits is not None:
        given = {name: getattr(limits, name) for name in Limits.__slots__} | given
    return Limits(**given)


def _hooks(hooks: HooksInput | None, awaits: bool) -> dict[str, list[Hook]]:
    found: dict[str, list[Hook]] = {event: [] for event in ("request", "response", *EVENTS)}
    for event, functions in cast("Mapping[str, Hook | Sequence[Hook]]", hooks or {}).items():
        if event not in found:
            raise ValueError(f"unknown hook {event!r}: there are {', '.join(map(repr, found))}")
        found[event] = [functions] if callable(functions) else list(functions)
        if event in EVENTS and not awaits and any(map(inspect.iscoroutinefunction, found[event])):
            raise TypeError(f"an async hook for {event!r} needs AsyncClient")
    return found


def _retry_policy(retry: RetryInput) -> RetryPolicy | None:
    if not retry:
        return None
    from curlhttp._policy.retry import RetryPolicy

    return RetryPolicy.of(retry)


def _checked_size(size: int | None) -> int | None:
    if size is not None and size < 0:
        raise ValueError(f"max_response_size must not be negative, as {size} is")
    return size


def _checked_http2(http2: HTTP2) -> HTTP2:
    if http2 not in (True, False, "prior-knowledge"):
        raise ValueError(f"http2 must be True, False or 'prior-knowledge', not {http2!r}")
    return http2


def _checked_http3(http3: bool) -> bool:
    if http3:
        from curlhttp._curl.version import has_http3

        if not has_http3():
            raise ValueError("this libcurl was built without HTTP/3; leave http3 off")
    return http3


def _netrc(environ: Mapping[str, str]) -> Callable[[str], tuple[str, str] | None] | None:
    path = netrc_path(environ)
    if path is None or not os.path.exists(path):
        return None
    return partial(netrc_credentials, environ=environ)


# --- from arguments to a request ---


def _joined(base: URL, url: str | bytes | URL) -> URL:
    """Join a relative URL to the base, below its path whether or not that ends in a slash."""
    try:
        return parse_url(url)
    except MissingSchema:
        if isinstance(url, URL):
            raise
        text = url.decode() if isinstance(url, bytes) else url
        if text.startswith("//"):
            raise
        path, _, query = text.partition("?")
        joined = base.path.rstrip("/") + "/" + path.lstrip("/") if path else base.path
        found = base.join(joined + ("?" + query if query else ""))
        return base._with(found.target, found.fragment)  # with the base's own credentials


def _own_cookies(cookies: CookiesInput, url: URL) -> Cookies:
    from curlhttp._models.cookies.jar import Cookies

    return (cookies if isinstance(cookies, Cookies) else Cookies(cookies)).bind(url)


def _announced_length(headers: Headers) -> int | None:
    """Return the Content-Length that the caller set.

    Raises:
        InvalidHeader: it is no number, or there is a Transfer-Encoding as well.
    """
    value = headers.get("content-length")
    if value is None:
        return None
    if "transfer-encoding" in headers:
        raise InvalidHeader("Content-Length and Transfer-Encoding exclude each other")
    if not (value.isascii() and value.isdigit()):
        raise InvalidHeader(f"Invalid Content-Length {value!r}: not a number")
    return int(value)


def _frame(request: Request) -> None:
    """Add the body's Content-Type, and leave framing to libcurl: two voices would disagree.

    Raises:
        InvalidHeader: the caller announced what the body does not keep.
        InvalidMethod: the method cannot have a body.
    """
    body = request.body
    if body is not None and request.method == "HEAD":
        # RFC 9110, section 9.3.2: it has no meaning, and libcurl sends none.
        raise InvalidMethod("a HEAD request cannot have a body")
    if body is not None and body.content_type and request.get_header("content-type") is None:
        request.headers["Content-Type"] = body.content_type
    announced = request.get_header("content-length")
    if announced is not None:
        length = 0 if body is None else body.length
        if length is not None and int(announced) != length:
            raise InvalidHeader(f"Content-Length is {announced}, but the body has {length} bytes")
        del request.headers["Content-Length"]
    coding = request.get_header("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise InvalidHeader("the only Transfer-Encoding that can be sent is chunked")
        del request.headers["Transfer-Encoding"]
