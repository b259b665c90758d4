"""requests.sessions: prepare and send requests with shared settings and cookies.

Each call goes request -> prepare_request -> send -> get_adapter -> adapter.send, because code that
extends requests overrides each of these.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from operator import attrgetter, itemgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urljoin, urlparse

import curlhttp.requests._environment as _environment
from curlhttp._http.exiting import check_running
from curlhttp._http.redaction import display_url
from curlhttp._http.signatures import set_signature, with_keywords
from curlhttp._http.url import decode_reference, parse_url
from curlhttp._runtime.network import network
from curlhttp.exceptions import (
    InvalidSchema,
    InvalidURL,
    TooManyRedirects,
)
from curlhttp.requests.__version__ import __version__
from curlhttp.requests._environment import get_netrc_auth
from curlhttp.requests._headers import are_known_good, make_default_headers
from curlhttp.requests._internal_utils import GetAttr, make_getattr
from curlhttp.requests._unread_bodies import (
    expect_hop,
    expect_redirects,
    keep_start,
    read_unfollowed,
    reset_expected,
)
from curlhttp.requests._url import prepare_url
from curlhttp.requests.adapters import BaseAdapter, HTTPAdapter
from curlhttp.requests.hooks import default_hooks, dispatch_hook
from curlhttp.requests.models import (
    DEFAULT_REDIRECT_LIMIT,
    REDIRECT_STATI,
    LazyCookieJar,
    PreparedRequest,
    Request,
    Response,
)
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from inspect import Signature

    from typing_extensions import Unpack

    import curlhttp.requests._types as t
    from curlhttp._features.stats import ClientStats
    from curlhttp._http.inputs import FilesInput, GuardInput, JSONInput, ParamsInput, Text
    from curlhttp.requests.cookies import RequestsCookieJar

    Self = TypeVar("Self", bound="Session")  # not at run time, where typing compiles the name

__all__ = [
    "DEFAULT_REDIRECT_LIMIT", "REDIRECT_STATI", "Session", "SessionRedirectMixin",
    "merge_hooks", "merge_setting", "preferred_clock", "session",
]  # fmt: skip

preferred_clock: Callable[[], float] = time.perf_counter
_new_prepared = PreparedRequest.__new__
_UNSET: Any = object()

_BODY_KEEPING_STATUSES = (307, 308)  # for requests, whatever the method is
_BODY_HEADERS = ("Content-Length", "Content-Type", "Transfer-Encoding")
_VERBS = {"request", "get", "options", "head", "post", "put", "patch", "delete", "stream"}
_NAMED = {"self", "method", "url"}  # parameters that a verb names itself, or does not have

__getattr__: GetAttr = make_getattr(
    __name__,
    {
        "_internal_utils": "to_native_string",
        "auth": "_basic_auth_str",
        "compat": "cookielib",
        "cookies": "RequestsCookieJar cookiejar_from_dict extract_cookies_to_jar merge_cookies",
        "exceptions": "ChunkedEncodingError ContentDecodingError",
        "status_codes": "codes",
        "utils": (
            "DEFAULT_PORTS default_headers get_auth_from_url get_environ_proxies "
            "requote_uri resolve_proxies rewind_body should_bypass_proxies to_key_val_list"
        ),
    },
)


def merge_setting(
    request_setting: Any, session_setting: Any, dict_class: type = OrderedDict
) -> Any:
    """Merge a setting of a request with the session's.

    Args:
        request_setting: it wins; None in a mapping removes a key.
        session_setting: the default.
        dict_class: the class of a merged mapping.
    """
    if session_setting is None:
        return request_setting
    if request_setting is None:
        return session_setting
    if not (isinstance(session_setting, Mapping) and isinstance(request_setting, Mapping)):
        return request_setting
    merged = dict_class(session_setting.items())
    merged.update(request_setting.items())
    for key in [key for key, value in merged.items() if value is None]:
        del merged[key]
    return merged


def merge_hooks(
    request_hooks: t.HooksInput, session_hooks: t.HooksInput, dict_class: type = OrderedDict
) -> t.HooksInput:
    """Merge the hooks of a request and its session; for one event, the request's replace them."""
    if session_hooks is None or not session_hooks.get("response"):
        return request_hooks
    if request_hooks is None or not request_hooks.get("response"):
        return session_hooks
    merged: t.HooksInput = merge_setting(request_hooks, session_hooks, dict_class)
    return merged


def _make_headers() -> MutableMapping[str, Text | None]:
    """Return a new session's headers."""
    # A program may replace it. The name is missing while another thread imports the module.
    make: Any = getattr(sys.modules.get("curlhttp.requests.utils"), "default_headers", None)
    made = make_default_headers(f"python-requests/{__version__}") if make is None else make()
    return cast("MutableMapping[str, Text | None]", made)


class SessionRedirectMixin:
    """Follow redirects, by requests' rules; each step can be overridden."""

    max_redirects: int
    trust_env: bool
    cookies: Any

    def send(self, request: PreparedRequest, **kwargs: Unpack[t.SendOptions]) -> Response:
        """Send a prepared request."""
        raise NotImplementedError

    def get_redirect_target(self, resp: Response) -> str | None:
        """Return the Location of a response that redirects, else None."""
        if not (resp._can_follow if isinstance(resp, Response) else resp.is_redirect):
            return None
        return decode_reference(resp.headers["location"])

    def should_strip_auth(self, old_url: str, new_url: str) -> bool:
        """Return whether credentials for one URL must not go to another."""
        from curlhttp._http.url import may_keep_credentials

        try:
            return not may_keep_credentials(parse_url(old_url), parse_url(new_url))
        except ValueError:
            return True

    def resolve_redirects(
        self,
        resp: Response,
        req: PreparedRequest,
        stream: bool = False,
        timeout: t.AnyTimeout = None,
        verify: t.AnyVerify = True,
        cert: t.AnyCert = None,
        proxies: t.AnyProxies = None,
        yield_requests: bool = False,
        **adapter_kwargs: Any,
    ) -> Iterator[Any]:
        """Yield the responses of a redirect's hops, one after the other.

        Args:
            resp: the redirect.
            req: its request.
            stream: as in send, like all up to proxies.
            timeout: seconds, or (connect, read).
            verify: True, False, or the path of CA certificates.
            cert: a client certificate.
            proxies: proxy URLs by scheme.
            yield_requests: yield the requests instead, and send none.
            adapter_kwargs: passed on to send.

        Raises:
            TooManyRedirects: there are more than max_redirects.
            UnrewindableBodyError: the body must be sent again, but cannot be rewound.
        """
        from curlhttp.requests._core_request import start_countdown

        left = start_countdown(timeout, getattr(resp, "timings", None))
        followed: list[Response] = []
        fragment = urlparse(str(req.url)).fragment
        url = self.get_redirect_target(resp)
        while url:
            resp.history = followed[:]
            followed.append(resp)
            if not yield_requests:  # else the caller may read it
                keep_start(resp)
            if len(resp.history) >= self.max_redirects:
                raise TooManyRedirects(f"Exceeded {self.max_redirects} redirects.", response=resp)
            url, fragment = _resolve_location(url, str(resp.url), fragment)
            req = self._make_hop(req, resp, url)
            proxies = self.rebuild_proxies(req, proxies)
            self.rebuild_auth(req, resp)
            _rewind(req)
            if yield_requests:
                yield req
                continue
            expected = expect_hop()
            try:
                resp = self.send(
                    req,
                    stream=stream,
                    timeout=left(),
                    verify=verify,
                    cert=cert,
                    proxies=proxies,
                    allow_redirects=False,
                    **adapter_kwargs,
                )
            finally:
                reset_expected(expected)
            if resp.sets_cookies:
                from curlhttp.requests.cookies import extract_cookies_to_jar

                extract_cookies_to_jar(self.cookies, req, resp.raw)
            url = self.get_redirect_target(resp)
            yield resp

    def _make_hop(self, req: PreparedRequest, resp: Response, url: str) -> PreparedRequest:
        """Return the request for the next hop, before rebuild_auth and rebuild_proxies."""
        from curlhttp.requests.cookies import (
            extract_cookies_to_jar,
            merge_cookies,
            remove_without_domain,
        )

        prepared = req.copy()
        prepared.url = url
        self.rebuild_method(prepared, resp)
        headers = prepared.headers
        if resp.status_code not in _BODY_KEEPING_STATUSES:
            for name in _BODY_HEADERS:
                headers.pop(name, None)
            prepared.body = None
        headers.pop("Cookie", None)  # the jar decides which cookies the next host gets
        jar = prepared._cookies
        if urlparse(str(req.url)).hostname != urlparse(url).hostname:
            # http.cookiejar takes the host from this header, and would send the old host's cookies.
            headers.pop("Host", None)
            remove_without_domain(jar)  # the request's own cookies are for the first host
        extract_cookies_to_jar(jar, req, resp.raw)
        merge_cookies(jar, self.cookies)
        prepared.prepare_cookies(jar)
        if network.counts_sends:
            from curlhttp.requests._core_request import pass_numbers_on

            pass_numbers_on(resp, prepared)
        return prepared

    def rebuild_auth(self, prepared_request: PreparedRequest, response: Response) -> None:
        """Remove credentials from a request to another origin, and add those of netrc."""
        headers = prepared_request.headers
        url = str(prepared_request.url)
        if (
            "Authorization" in headers or prepared_request.hooks.get("response")
        ) and self.should_strip_auth(str(response.request.url), url):
            from curlhttp.requests.auth import remove_digest_hooks

            headers.pop("Authorization", None)
            remove_digest_hooks(prepared_request)
        if self.trust_env:
            found = get_netrc_auth(url)
            if found is not None:
                prepared_request.prepare_auth(found)

    def rebuild_proxies(
        self, prepared_request: PreparedRequest, proxies: t.AnyProxies
    ) -> dict[str, str | None]:
        """Return the proxies for the next hop, and set Proxy-Authorization for them."""
        from curlhttp.requests._url import get_auth_from_url
        from curlhttp.requests.auth import _basic_auth_str
        from curlhttp.requests.utils import resolve_proxies

        found = resolve_proxies(prepared_request, proxies, self.trust_env)
        headers = prepared_request.headers
        headers.pop("Proxy-Authorization", None)
        scheme = urlparse(str(prepared_request.url)).scheme
        username, password = get_auth_from_url(found.get(scheme) or "")
        # For a tunnel, the adapter sends the credentials to the proxy alone.
        if username and password and not scheme.startswith("https"):
            headers["Proxy-Authorization"] = _basic_auth_str(username, password)
        return found

    def rebuild_method(self, prepared_request: PreparedRequest, response: Response) -> None:
        """Set the method of the next hop; after a 302, browsers keep other methods than POST."""
        from curlhttp._features.redirects import get_redirect_method

        prepared_request.method = get_redirect_method(
            str(prepared_request.method), response.status_code
        )


def _resolve_location(location: str, base: str, fragment: str) -> tuple[str, str]:
    """Return the URL for a Location, and the fragment to use from there on."""
    from curlhttp.requests._url import requote_uri

    if location.startswith("//"):
        location = f"{urlparse(base).scheme}:{location}"
    try:
        parts = urlparse(location)
    except ValueError:
        raise InvalidURL(f"Invalid URL {display_url(location)!r}") from None
    if parts.fragment:
        fragment = parts.fragment
    elif fragment:
        parts = parts._replace(fragment=fragment)
    url = requote_uri(parts.geturl())
    return url if parts.netloc else urljoin(base, url), fragment


def _rewind(request: PreparedRequest) -> None:
    headers = request.headers
    if request._body_position is not None and (
        "Content-Length" in headers or "Transfer-Encoding" in headers
    ):
        from curlhttp.requests._core_request import rewind_body

        rewind_body(request)


class Session(SessionRedirectMixin):
    """Keep headers, cookies, credentials and connections from one request to the next.

    Args:
        timeout: the default for requests: seconds, (connect, read), a Timeout, or None for no
            limit. If you omit it: 10 s to connect, 60 s of silence.
        guard: a PublicOnly, or a function of (host, address, port) that returns whether the session
            may connect to this address. Each HTTPAdapter uses it; other adapters are not guarded.
    """

    __attrs__: list[str] = [
        "headers",
        "cookies",
        "auth",
        "proxies",
        "hooks",
        "params",
        "verify",
        "cert",
        "adapters",
        "stream",
        "trust_env",
        "max_redirects",
        "timeout",
        "guard",
    ]

    cookies: Any = LazyCookieJar()
    # Any, because programs cannot evaluate the real types.
    timeout: Any = None  # the adapter's default
    _guard: Any = None

    def __init__(self, *, timeout: t.TimeoutInput = _UNSET, guard: GuardInput = None) -> None:
        check_running()
        self.headers: MutableMapping[str, Text | None] = _make_headers()
        self.auth: t.AuthInput = None
        self.proxies: MutableMapping[str, str | None] = {}
        self.hooks: dict[str, list[t.HookType]] = default_hooks()
        self.params: ParamsInput = {}
        self.stream = False
        self.verify: t.VerifyInput = True
        self.cert: t.CertInput = None
        self.max_redirects = DEFAULT_REDIRECT_LIMIT
        self.trust_env = True
        self.adapters: OrderedDict[str, BaseAdapter] = OrderedDict()
        if timeout is not _UNSET:
            self.timeout = (None, None) if timeout is None else timeout
        self.mount("https://", HTTPAdapter())
        self.mount("http://", HTTPAdapter())
        if guard is not None:
            self.guard = guard

    @property
    def guard(self) -> GuardInput:
        """Return the guard, which decides which addresses may be connected to; see PublicOnly."""
        guard: GuardInput = self._guard
        return guard

    @guard.setter
    def guard(self, guard: GuardInput) -> None:
        for adapter in self.adapters.values():
            if isinstance(adapter, HTTPAdapter):
                adapter.guard = guard
        self._guard = guard

    def _guard_adapter(self, adapter: object) -> None:
        guard = self._guard
        if guard is not None and isinstance(adapter, HTTPAdapter) and adapter.guard is not guard:
            adapter.guard = guard

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def prepare_request(self, request: Request) -> PreparedRequest:
        """Prepare a request, with the session's settings as defaults.

        Args:
            request: the request.

        Raises:
            RequestException: the request cannot be sent like this.
        """
        check_running()
        auth = request.auth
        if not auth and not self.auth and self.trust_env:
            auth = get_netrc_auth(request.url)
        prepared = PreparedRequest()
        prepared.prepare(
            method=request.method.upper(),  # type: ignore[union-attr]
            url=request.url,
            files=request.files,
            data=request.data,
            json=request.json,
            headers=self._merge_headers(request.headers),
            params=merge_setting(request.params, self.params) if self.params else request.params,
            auth=merge_setting(auth, self.auth),
            cookies=self._merge_cookies(request.cookies),
            hooks=merge_hooks(request.hooks, self.hooks),
        )
        return prepared

    def request(
        self,
        method: t.AnyMethod,
        url: t.AnyUrl,
        params: ParamsInput | None = None,
        data: t.DataInput = None,
        headers: t.HeadersInput = None,
        cookies: t.CookiesInput = None,
        files: FilesInput | None = None,
        auth: t.AuthInput = None,
        timeout: t.TimeoutInput = None,
        allow_redirects: bool = True,
        proxies: t.ProxiesInput = None,
        hooks: t.HooksInput = None,
        stream: bool | None = None,
        verify: t.VerifyInput = None,
        cert: t.CertInput = None,
        json: JSONInput = None,
        *,
        content: t.DataInput = None,
        follow_redirects: bool | None = None,
    ) -> Response:
        """Send a request and return the response.

        Args:
            method: such as "GET".
            url: absolute.
            params: a mapping, pairs or a string for the query.
            data: a form (mapping or pairs), or a body: bytes, str, file or iterable.
            headers: replace the session's headers of the same name; None removes one.
            cookies: for this request only.
            files: a mapping or pairs of field name and file, sent as multipart/form-data.
            auth: (user, password) or a function of the prepared request, which returns it.
            timeout: seconds for connecting and for silence, (connect, read), a Timeout, or None
                for the session's.
            allow_redirects: follow redirects.
            proxies: proxy URLs by scheme; they override the session's, which override the
                environment's.
            hooks: functions by event: {"response": ...}.
            stream: do not read the body yet.
            verify: True, False, or the path of CA certificates.
            cert: a client certificate: a path, or (certificate, key).
            json: any value that JSON can represent.
            content: another name for data that is not a form.
            follow_redirects: another name for allow_redirects.

        Raises:
            RequestException: the request could not be sent, or no response was received.
        """
        if (
            method in ("GET", "HEAD")
            and type(url) is str
            and json is stream is verify is cert is None
            and not (params or data or headers or cookies or files or auth)
            and not (proxies or hooks or content or "@" in url)
            and self._changes_nothing()
        ):
            # Most requests. The code below does the same, in twice the time.
            prepared = _new_prepared(PreparedRequest)  # as __init__, which sets _cookies, too
            prepared.method = method
            prepared.url = prepare_url(url)
            prepared.headers = self.headers.copy()  # type: ignore[attr-defined]
            prepared.body = prepared._body_position = None
            prepared.hooks = {"response": []}
            return self.send(
                prepared,
                timeout=self.timeout if timeout is None else timeout,
                allow_redirects=allow_redirects if follow_redirects is None else follow_redirects,
                proxies={},
                stream=self.stream,
                verify=self.verify,
                cert=self.cert,
            )
        if content is not None:
            if data is not None:
                raise TypeError("content and data are the same: pass only one")
            if isinstance(content, Mapping):
                raise TypeError("content= is a body as it is; data= takes a form, json= any JSON")
            data = content
        prepared = self.prepare_request(
            Request(
                method, url, headers, files, data or {}, params or {}, auth, cookies, hooks, json
            )
        )
        settings = self.merge_environment_settings(
            str(prepared.url), proxies or {}, stream, verify, cert
        )
        return self.send(
            prepared,
            timeout=self.timeout if timeout is None else timeout,
            allow_redirects=allow_redirects if follow_redirects is None else follow_redirects,
            **settings,
        )

    def _changes_nothing(self) -> bool:
        """Return whether all that a request gets from its session are headers.

        Neither settings nor the environment add anything, and no program has replaced a step.
        """
        own, headers, hooks = self.__dict__, self.headers, self.hooks
        return not (
            self.auth
            or self.params
            or self.proxies
            or (hooks and hooks.get("response"))
            or ("cookies" in own and getattr(own["cookies"], "_cookies", True))
            or type(headers) is not CaseInsensitiveDict
            or not are_known_good(headers._store.values())
            or (self.trust_env and _environment.may_matter())
            or get_netrc_auth is not _GET_NETRC_AUTH
            or "prepare_request" in own
            or "merge_environment_settings" in own
            or _get_own_steps(_of_session) != _STEPS
            or (type(self) is not Session and _get_steps(type(self)) != _STEPS)
            or PreparedRequest is not _PREPARED_REQUEST
            or _get_preparing(_of_prepared) != _PREPARING
            or "__new__" in _of_prepared
            or Request.__init__ is not _NEW_REQUEST
        )

    def get(
        self, url: t.UrlInput, params: ParamsInput | None = None, **kwargs: Unpack[t.GetOptions]
    ) -> Response:
        """Send GET; see request."""
        return self.request("GET", url, params=params, **kwargs)

    def options(self, url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
        """Send OPTIONS; see request."""
        return self.request("OPTIONS", url, **kwargs)

    def head(self, url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
        """Send HEAD; see request. Redirects are not followed by default."""
        kwargs.setdefault("allow_redirects", False)
        return self.request("HEAD", url, **kwargs)

    def post(
        self,
        url: t.UrlInput,
        data: t.DataInput = None,
        json: JSONInput = None,
        **kwargs: Unpack[t.PostOptions],
    ) -> Response:
        """Send POST; see request."""
        return self.request("POST", url, data=data, json=json, **kwargs)

    def put(
        self, url: t.UrlInput, data: t.DataInput = None, **kwargs: Unpack[t.PutOptions]
    ) -> Response:
        """Send PUT; see request."""
        return self.request("PUT", url, data=data, **kwargs)

    def patch(
        self, url: t.UrlInput, data: t.DataInput = None, **kwargs: Unpack[t.PutOptions]
    ) -> Response:
        """Send PATCH; see request."""
        return self.request("PATCH", url, data=data, **kwargs)

    def delete(self, url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
        """Send DELETE; see request."""
        return self.request("DELETE", url, **kwargs)

    def send(
        self,
        request: PreparedRequest,
        *,
        stream: t.AnyStream = _UNSET,
        timeout: t.AnyTimeout = _UNSET,
        verify: t.AnyVerify = _UNSET,
        cert: t.AnyCert = _UNSET,
        proxies: t.AnyProxies = _UNSET,
        allow_redirects: bool = True,
        **others: object,
    ) -> Response:
        """Send a prepared request.

        Args:
            request: see prepare_request.
            stream: do not read the body yet; the default of this and the next is the session's.
            timeout: see request; the default is the adapter's.
            verify: True, False, or the path of CA certificates.
            cert: a client certificate.
            proxies: proxy URLs by scheme.
            allow_redirects: follow redirects.
            others: passed on to an adapter of your own.

        Raises:
            RequestException: no response was received.
            ValueError: the request is not prepared.
        """
        check_running()
        stream = self.stream if stream is _UNSET else stream
        verify = self.verify if verify is _UNSET else verify
        cert = self.cert if cert is _UNSET else cert
        proxies = self._resolve_proxies(request) if proxies is _UNSET else proxies
        given: object = request
        if isinstance(given, Request):
            raise ValueError("You can only send PreparedRequests.")
        options: t.AdapterOptions = {
            "stream": stream,
            "verify": verify,
            "cert": cert,
            "proxies": proxies,
        }
        if timeout is not _UNSET:
            options["timeout"] = timeout
        if others:
            options.update(others)  # type: ignore[typeddict-item]
        hooks = request.hooks
        adapter = self.get_adapter(url=str(request.url))
        if self._guard is not None:
            # An overridden get_adapter may return one that was never mounted.
            self._guard_adapter(adapter)
        started = preferred_clock()
        expected = expect_redirects(allow_redirects)
        try:
            if others or timeout is _UNSET:
                response = adapter.send(request, **options)
            else:  # the same, as Python calls it faster
                response = adapter.send(
                    request,
                    stream=stream,
                    timeout=timeout,
                    verify=verify,
                    cert=cert,
                    proxies=proxies,
                )
            if getattr(response, "_times", None) is None:  # else the response has timings
                response.elapsed = timedelta(seconds=preferred_clock() - started)
            if hooks["response"]:
                response = dispatch_hook("response", hooks, response, **options)
        finally:
            reset_expected(expected)
        if response.history or getattr(response, "sets_cookies", True):
            self._keep_cookies(request, response)
        if response.status_code in REDIRECT_STATI or self._has_own_redirects:
            go_on = self._follow if allow_redirects else self._set_next
            response = go_on(response, request, options)
        # resolve_redirects keeps the start of a followed redirect's body.
        if not stream and not getattr(response, "_is_followed", False):
            _ = response.content
        return response

    def _keep_cookies(self, request: PreparedRequest, response: Response) -> None:
        # Including the responses of a hook that sent again.
        answered = [(earlier.request, earlier.raw) for earlier in response.history]
        if getattr(response, "sets_cookies", True):
            answered.append((request, response.raw))
        if answered:
            name = "extract_cookies_to_jar"  # a program may have replaced it here
            extract = globals().get(name) or __getattr__(name)
            for asked, raw in answered:
                extract(self.cookies, asked, raw)

    _has_own_redirects = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls._has_own_redirects = any(
            getattr(cls, name) is not getattr(SessionRedirectMixin, name)
            for name in ("get_redirect_target", "resolve_redirects")
        )

    def _follow(
        self, response: Response, request: PreparedRequest, kwargs: t.AdapterOptions
    ) -> Response:
        history = [response, *self.resolve_redirects(response, request, **kwargs)]
        last: Response = history.pop()
        if getattr(last, "_is_followed", False):
            last._is_followed = False  # a subclass stopped at this redirect
        if history:
            last.history = history
        return last

    def _set_next(
        self, response: Response, request: PreparedRequest, kwargs: t.AdapterOptions
    ) -> Response:
        following = self.resolve_redirects(response, request, yield_requests=True, **kwargs)
        response._next = next(following, None)
        is_read_later = kwargs["stream"] or getattr(response, "_is_followed", False)
        if response._next is not None and not is_read_later:
            read_unfollowed(response)
        return response

    # --- settings ---

    def _merge_headers(self, headers: t.HeadersInput) -> t.HeadersInput:
        own = self.headers
        if (
            headers
            or type(own) is not CaseInsensitiveDict
            or not are_known_good(own._store.values())
        ):
            merged: t.HeadersInput = merge_setting(headers, own, CaseInsensitiveDict)
            return merged
        return own  # unchanged, because none of them is None

    def _merge_cookies(self, cookies: t.CookiesInput) -> RequestsCookieJar | None:
        """Return a jar of the session's and the request's cookies; None if there are none."""
        has_jar = "cookies" in self.__dict__ or not isinstance(type(self).cookies, LazyCookieJar)
        if not cookies and (not has_jar or not getattr(self.cookies, "_cookies", True)):
            return None
        from http.cookiejar import CookieJar

        from curlhttp.requests.cookies import RequestsCookieJar, cookiejar_from_dict, merge_cookies

        cookies = cookies or {}
        if not isinstance(cookies, CookieJar):
            cookies = cookiejar_from_dict(cookies)
        return merge_cookies(merge_cookies(RequestsCookieJar(), self.cookies), cookies)

    def _resolve_proxies(self, request: PreparedRequest) -> dict[str, str | None]:
        if not self.trust_env or not _environment.may_have_proxies():
            return dict(self.proxies)
        from curlhttp.requests.utils import resolve_proxies

        return resolve_proxies(request, self.proxies, self.trust_env)

    def merge_environment_settings(
        self,
        url: t.AnyUrl,
        proxies: t.AnyProxies,
        stream: bool | None,
        verify: t.AnyVerify,
        cert: t.AnyCert,
    ) -> t.RouteOptions:
        """Merge the settings of a request with the session's and the environment's.

        Args:
            url: of the request.
            proxies: the request's, like all that follow.
            stream: do not read the body yet.
            verify: True, False, or the path of CA certificates.
            cert: a client certificate.
        """
        proxies = {**self.proxies, **(proxies or {})} if self.proxies else dict(proxies or ())
        if self.trust_env and _environment.has_settings():
            if _environment.may_have_proxies():
                proxies = self._add_environment_proxies(url, proxies)
            # An explicit False or path wins; in requests the environment does.
            if verify is True or (verify is None and self.verify is True):
                verify = _environment.get_ca_bundle() or verify
        if proxies and None in proxies.values():  # None overrides the environment's
            proxies = {key: proxy for key, proxy in proxies.items() if proxy is not None}
        return {
            "proxies": proxies,
            "stream": self.stream if stream is None else stream,
            "verify": self.verify if verify is None else verify,
            "cert": self.cert if cert is None else cert,
        }

    @staticmethod
    def _add_environment_proxies(
        url: str, proxies: Mapping[str, str | None]
    ) -> dict[str, str | None]:
        """Add the environment's proxies to the program's."""
        from curlhttp.requests.utils import get_environ_proxies

        found = get_environ_proxies(url, no_proxy=proxies.get("no_proxy"))
        return {**found, **proxies}

    # --- adapters ---

    def get_adapter(self, url: str) -> BaseAdapter:
        """Return the adapter for a URL: the one with the longest matching prefix.

        Args:
            url: absolute.

        Raises:
            InvalidSchema: there is no such adapter.
        """
        lower = url.lower()
        adapters = self.adapters
        for prefix in adapters:
            if lower.startswith(prefix.lower()):
                return adapters[prefix]
        # The part before an "@" is a secret, except in mailto.
        shown = url if lower.startswith("mailto:") else display_url(url)
        raise InvalidSchema(f"No connection adapters were found for {shown!r}")

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        for adapter in self.adapters.values():
            adapter.close()

    if TYPE_CHECKING:

        def stats(self) -> ClientStats:
            """Return what is open and waiting, and what the session's HTTPAdapters have done.

            See curlhttp.Client.stats; requests has none.
            """

    def __getattr__(self, name: str) -> Callable[[], ClientStats]:
        # A method would come before those of classes that follow Session among the bases of a
        # subclass: the client of docker has a `stats` there.
        if name != "stats":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        from curlhttp.requests.adapters import collect_stats

        return lambda: collect_stats(self.adapters.values())

    def mount(self, prefix: str, adapter: BaseAdapter) -> None:
        """Use an adapter for all URLs that begin with a prefix.

        Args:
            prefix: such as "https://example.org/".
            adapter: an HTTPAdapter or one of your own.
        """
        self._guard_adapter(adapter)
        self.adapters[prefix] = adapter
        for key in [key for key in self.adapters if len(key) < len(prefix)]:
            self.adapters[key] = self.adapters.pop(key)

    def __getstate__(self) -> t.PickledState:
        return {name: getattr(self, name, None) for name in self.__attrs__}

    def __setstate__(self, state: t.PickledState) -> None:
        for name, value in state.items():
            setattr(self, name, value)


def set_verb_signatures(functions: Mapping[str, object], request: Callable[..., object]) -> None:
    """Set the signatures of functions that are named like verbs, with the keywords of a request.

    Args:
        functions: by name; only verbs are changed.
        request: Session.request.
    """
    for name in _VERBS & functions.keys():
        if functions[name] is not request:
            set_signature(functions[name], partial(_make_signature, request))


def _make_signature(request: Callable[..., object], function: FunctionType) -> Signature:
    from inspect import Signature

    taken = Signature.from_callable(request).parameters.values()
    fixed = {*_NAMED, "stream"} if function.__name__ == "stream" else _NAMED
    defaults = {"allow_redirects": False} if function.__name__ == "head" else {}
    return with_keywords(function, [each for each in taken if each.name not in fixed], defaults)


# What a program may replace between request() and send().
_get_steps = attrgetter("prepare_request", "merge_environment_settings", "cookies")
_get_own_steps = itemgetter("prepare_request", "merge_environment_settings", "cookies")
_get_preparing = itemgetter("__init__", "prepare", "prepare_headers")
# Of a class, Python finds items faster than attributes.
_of_session, _of_prepared = vars(Session), vars(PreparedRequest)
_STEPS, _PREPARING = _get_own_steps(_of_session), _get_preparing(_of_prepared)
_PREPARED_REQUEST, _NEW_REQUEST = PreparedRequest, Request.__init__
_GET_NETRC_AUTH = get_netrc_auth

set_verb_signatures(vars(Session), Session.request)


def session() -> Session:
    """Return a Session."""
    return Session()
