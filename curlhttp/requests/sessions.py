"""requests.sessions: prepare and send requests with shared settings and cookies.

Each call goes request -> prepare_request -> send -> get_adapter -> adapter.send, because code that
extends requests takes hold at each of these.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from inspect import Signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urljoin, urlparse

import curlhttp.requests._environment as _environment
from curlhttp._engine.network import network
from curlhttp._models.redaction import display_url
from curlhttp._models.signatures import set_signature, with_keywords
from curlhttp._models.url import parse_url
from curlhttp.exceptions import InvalidSchema, InvalidURL, TooManyRedirects
from curlhttp.requests.__version__ import __version__
from curlhttp.requests._environment import get_netrc_auth
from curlhttp.requests._forwarding import Names, names_of
from curlhttp.requests._headers import are_known, headers_of
from curlhttp.requests._unread_bodies import expect, expect_hop, expect_no_more, set_aside, use_up
from curlhttp.requests.adapters import BaseAdapter, GuardedSession, HTTPAdapter
from curlhttp.requests.hooks import default_hooks, dispatch_hook
from curlhttp.requests.models import (
    DEFAULT_REDIRECT_LIMIT,
    REDIRECT_STATI,
    JarOnDemand,
    PreparedRequest,
    Request,
    Response,
)
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from typing_extensions import Unpack

    from curlhttp._models.inputs import JSON, FilesInput, ParamsInput, Text
    from curlhttp._policy.guard import GuardInput
    from curlhttp.requests import _types as t
    from curlhttp.requests.cookies import RequestsCookieJar

__all__ = [
    "DEFAULT_REDIRECT_LIMIT",
    "REDIRECT_STATI",
    "Session",
    "SessionRedirectMixin",
    "SessionSettings",
    "first_headers",
    "merge_hooks",
    "merge_setting",
    "preferred_clock",
    "session",
    "show_verbs",
]


# --- How the settings of a request, of its session and of the environment come together ---


def merge_setting(
    request_setting: Any, session_setting: Any, dict_class: type = OrderedDict
) -> Any:
    """Return the setting of a request with the session's behind it.

    Args:
        request_setting: it wins; None in a mapping takes a key away.
        session_setting: what holds where the request says nothing.
        dict_class: what to make of two mappings.
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
    """Return the hooks of a request, or the session's where it has none."""
    if session_hooks is None or not session_hooks.get("response"):
        return request_hooks
    if request_hooks is None or not request_hooks.get("response"):
        return session_hooks
    merged: t.HooksInput = merge_setting(request_hooks, session_hooks, dict_class)
    return merged


def first_headers() -> MutableMapping[str, Text | None]:
    """Return the headers that a session begins with."""
    # A program puts another agent there. What another thread is just loading has no name yet.
    make: Any = getattr(sys.modules.get("curlhttp.requests.utils"), "default_headers", None)
    made = headers_of(f"python-requests/{__version__}") if make is None else make()
    return cast("MutableMapping[str, Text | None]", made)


class SessionSettings:
    """Put a session's settings, and the environment's, behind those of a request."""

    if TYPE_CHECKING:  # not for programs that evaluate the types of a session
        headers: MutableMapping[str, Text | None]
        cookies: Any  # RequestsCookieJar, or any jar that the program puts there
        proxies: MutableMapping[str, str | None]
        stream: bool
        verify: t.VerifyInput
        cert: t.CertInput
        trust_env: bool

    def _merged_headers(self, headers: t.HeadersInput) -> t.HeadersInput:
        own = self.headers
        if headers or type(own) is not CaseInsensitiveDict or not are_known(own._store.values()):
            merged: t.HeadersInput = merge_setting(headers, own, CaseInsensitiveDict)
            return merged
        return own  # as they are: none of them is None

    def _merged_cookies(self, cookies: t.CookiesInput) -> RequestsCookieJar | None:
        """Return a jar of the session's cookies and a request's; None for no cookies at all."""
        has_jar = "cookies" in self.__dict__ or not isinstance(type(self).cookies, JarOnDemand)
        if not cookies and (not has_jar or not getattr(self.cookies, "_cookies", True)):
            return None
        from http.cookiejar import CookieJar

        from curlhttp.requests.cookies import RequestsCookieJar, cookiejar_from_dict, merge_cookies

        cookies = cookies or {}
        if not isinstance(cookies, CookieJar):
            cookies = cookiejar_from_dict(cookies)
        return merge_cookies(merge_cookies(RequestsCookieJar(), self.cookies), cookies)

    def _resolved_proxies(self, request: PreparedRequest) -> dict[str, str | None]:
        if not self.trust_env or not _environment.may_have_proxies():
            return dict(self.proxies)
        from curlhttp.requests.utils import resolve_proxies

        return resolve_proxies(request, self.proxies, self.trust_env)

    def merge_environment_settings(
        self,
        url: str,
        proxies: t.ProxiesInput,
        stream: bool | None,
        verify: t.VerifyInput,
        cert: t.CertInput,
    ) -> t.RouteOptions:
        """Return the settings of a request with the session's and the environment's behind them.

        Args:
            url: where the request goes.
            proxies: its own, like all that follow.
            stream: leave the body on the wire.
            verify: True, False, or a path of authorities.
            cert: a client certificate.
        """
        proxies = {**self.proxies, **(proxies or {})} if self.proxies else dict(proxies or ())
        if self.trust_env and _environment.speaks():
            if _environment.may_have_proxies():
                proxies = self._with_environment(url, proxies)
            # An explicit False or path is never overruled; requests has its own opinion there.
            if verify is True or (verify is None and self.verify is True):
                verify = _environment.ca_bundle() or verify
        if proxies and None in proxies.values():  # which has kept the environment's away
            proxies = {key: proxy for key, proxy in proxies.items() if proxy is not None}
        return {
            "proxies": proxies,
            "stream": self.stream if stream is None else stream,
            "verify": self.verify if verify is None else verify,
            "cert": self.cert if cert is None else cert,
        }

    @staticmethod
    def _with_environment(url: str, proxies: Mapping[str, str | None]) -> dict[str, str | None]:
        """Add the environment's proxies to those that the program names."""
        from curlhttp.requests.utils import get_environ_proxies

        found = get_environ_proxies(url, no_proxy=proxies.get("no_proxy"))
        return {**found, **proxies}


# --- How a session follows redirects, by requests' rules; each step can be overridden ---

_KEEPS_BODY = (307, 308)
_OF_THE_BODY = ("Content-Length", "Content-Type", "Transfer-Encoding")


class SessionRedirectMixin:
    """Follow redirects, by requests' rules; each step can be overridden."""

    max_redirects: int
    trust_env: bool
    cookies: Any

    def send(self, request: PreparedRequest, **kwargs: Unpack[t.SendOptions]) -> Response:
        """Send a prepared request."""
        raise NotImplementedError

    def _netrc_auth(self, url: str) -> tuple[str, str] | None:
        return get_netrc_auth(url)

    def get_redirect_target(self, resp: Response) -> str | None:
        """Return the Location of a response that redirects, else None."""
        if not (resp._leads_on if isinstance(resp, Response) else resp.is_redirect):
            return None
        location: str = resp.headers["location"]
        try:
            # Fields are read as Latin-1; servers write UTF-8.
            return location.encode("latin-1").decode("utf-8")
        except UnicodeError:
            return location

    def should_strip_auth(self, old_url: str, new_url: str) -> bool:
        """Return whether credentials for one URL must not go to another."""
        from curlhttp._policy.redirect import may_keep_credentials

        try:
            return not may_keep_credentials(parse_url(old_url), parse_url(new_url))
        except ValueError:
            return True

    def resolve_redirects(
        self,
        resp: Response,
        req: PreparedRequest,
        stream: bool = False,
        timeout: t.TimeoutInput = None,
        verify: t.VerifyInput = True,
        cert: t.CertInput = None,
        proxies: t.ProxiesInput = None,
        yield_requests: bool = False,
        **adapter_kwargs: Any,
    ) -> Iterator[Any]:
        """Give the responses that a redirect leads to, one after the other.

        Args:
            resp: the response that redirects.
            req: what it answers.
            stream: as in send, like all up to proxies.
            timeout: seconds, or (connect, read).
            verify: True, False, or a path of authorities.
            cert: a client certificate.
            proxies: proxy URLs by scheme.
            yield_requests: give the requests instead, and send none.
            adapter_kwargs: passed on to send.

        Raises:
            TooManyRedirects: there are more than max_redirects.
            UnrewindableBodyError: the body must be sent again and cannot be.
        """
        from curlhttp.requests._core_request import what_is_left

        left = what_is_left(timeout, getattr(resp, "timings", None))
        followed: list[Response] = []
        fragment = urlparse(str(req.url)).fragment
        url = self.get_redirect_target(resp)
        while url:
            resp.history = followed[:]
            followed.append(resp)
            if not yield_requests:  # else it stays the caller's
                set_aside(resp)
            if len(resp.history) >= self.max_redirects:
                raise TooManyRedirects(f"Exceeded {self.max_redirects} redirects.", response=resp)
            url, fragment = _located(url, str(resp.url), fragment)
            req = self._redirected(req, resp, url)
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
                expect_no_more(expected)
            if resp.sets_cookies:
                from curlhttp.requests.cookies import extract_cookies_to_jar

                extract_cookies_to_jar(self.cookies, req, resp.raw)
            url = self.get_redirect_target(resp)
            yield resp

    def _redirected(self, req: PreparedRequest, resp: Response, url: str) -> PreparedRequest:
        """Return the request for the next hop, without proxies and credentials."""
        from curlhttp.requests.cookies import extract_cookies_to_jar, merge_cookies, remove_unbound

        prepared = req.copy()
        prepared.url = url
        self.rebuild_method(prepared, resp)
        headers = prepared.headers
        if resp.status_code not in _KEEPS_BODY:
            for name in _OF_THE_BODY:
                headers.pop(name, None)
            prepared.body = None
        headers.pop("Cookie", None)  # the jar knows what the next host may see
        jar = prepared._cookies
        if urlparse(str(req.url)).hostname != urlparse(url).hostname:
            # The name of another host; the jar goes by it, and would give that host's cookies away.
            headers.pop("Host", None)
            remove_unbound(jar)  # the request's own are for the host that it named
        extract_cookies_to_jar(jar, req, resp.raw)
        merge_cookies(jar, self.cookies)
        prepared.prepare_cookies(jar)
        if network.counts_sends:
            from curlhttp.requests._core_request import hand_numbers_on

            hand_numbers_on(resp, prepared)
        return prepared

    def rebuild_auth(self, prepared_request: PreparedRequest, response: Response) -> None:
        """Take credentials off a request to another origin; put on what netrc has for it."""
        headers = prepared_request.headers
        url = str(prepared_request.url)
        if (
            "Authorization" in headers or prepared_request.hooks.get("response")
        ) and self.should_strip_auth(str(response.request.url), url):
            from curlhttp.requests.auth import leave_behind

            headers.pop("Authorization", None)
            leave_behind(prepared_request)
        if self.trust_env:
            found = self._netrc_auth(url)
            if found is not None:
                prepared_request.prepare_auth(found)

    def rebuild_proxies(
        self, prepared_request: PreparedRequest, proxies: t.ProxiesInput
    ) -> dict[str, str | None]:
        """Return the proxies for the next hop, and fit Proxy-Authorization to them."""
        from curlhttp.requests._url import get_auth_from_url
        from curlhttp.requests.auth import _basic_auth_str
        from curlhttp.requests.utils import resolve_proxies

        found = resolve_proxies(prepared_request, proxies, self.trust_env)
        headers = prepared_request.headers
        headers.pop("Proxy-Authorization", None)
        scheme = urlparse(str(prepared_request.url)).scheme
        username, password = get_auth_from_url(found.get(scheme) or "")
        # A tunnel's credentials go to the proxy alone, by the adapter.
        if username and password and not scheme.startswith("https"):
            headers["Proxy-Authorization"] = _basic_auth_str(username, password)
        return found

    def rebuild_method(self, prepared_request: PreparedRequest, response: Response) -> None:
        """Set the method of the next hop, as browsers have it."""
        from curlhttp._policy.redirect import redirect_method

        prepared_request.method = redirect_method(
            str(prepared_request.method), response.status_code
        )


def _located(location: str, base: str, fragment: str) -> tuple[str, str]:
    """Return the URL that a Location stands for, and the fragment that goes on from there."""
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
        from curlhttp.requests._files import rewind_body

        rewind_body(request)


# --- What the drop-in's verbs show as their signatures: the keywords of Session.request ---

_VERBS = {"request", "get", "options", "head", "post", "put", "patch", "delete", "stream"}
_NAMED = {"self", "method", "url"}  # a verb has its own, or it has none


def show_verbs(functions: Mapping[str, object], request: Callable[..., object]) -> None:
    """Let functions named like verbs show the keywords of a request.

    Args:
        functions: by name; others than verbs are left alone.
        request: Session.request, which has those keywords.
    """
    for name in _VERBS & functions.keys():
        if functions[name] is not request:
            set_signature(functions[name], partial(_of_verb, request))


def _of_verb(request: Callable[..., object], function: FunctionType) -> Signature:
    taken = Signature.from_callable(request).parameters.values()
    fixed = {*_NAMED, "stream"} if function.__name__ == "stream" else _NAMED
    defaults = {"allow_redirects": False} if function.__name__ == "head" else {}
    return with_keywords(function, [each for each in taken if each.name not in fixed], defaults)


Self = TypeVar("Self", bound="Session")

preferred_clock: Callable[[], float] = time.perf_counter
_UNSET: Any = object()

__getattr__: Names = names_of(
    __name__,
    {
        "_internal_utils": "to_native_string",
        "auth": "_basic_auth_str",
        "compat": "cookielib urljoin urlparse",
        "cookies": "RequestsCookieJar cookiejar_from_dict extract_cookies_to_jar merge_cookies",
        "exceptions": "ChunkedEncodingError ContentDecodingError TooManyRedirects",
        "status_codes": "codes",
        "structures": "CaseInsensitiveDict",
        "utils": (
            "DEFAULT_PORTS default_headers get_auth_from_url get_environ_proxies "
            "requote_uri resolve_proxies rewind_body should_bypass_proxies to_key_val_list"
        ),
    },
)


class Session(SessionSettings, GuardedSession, SessionRedirectMixin):
    """Keep headers, cookies, credentials and connections from one request to the next.

    Args:
        timeout: the limits of requests that set none: seconds, (connect, read), a Timeout, or
            None for no limit. Without it: 10 s to connect, 60 s of silence.
        guard: a PublicOnly, or a function of (host, address, port) that returns whether an
            address may be dialled.
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

    cookies: Any = JarOnDemand()
    timeout: Any = None  # the adapter's default; a type that no program can evaluate

    def __init__(self, *, timeout: t.TimeoutInput = _UNSET, guard: GuardInput = None) -> None:
        self.headers: MutableMapping[str, Text | None] = first_headers()
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
        self._mount_adapters()
        if guard is not None:
            self.guard = guard

    def _mount_adapters(self) -> None:
        self.mount("https://", HTTPAdapter())
        self.mount("http://", HTTPAdapter())

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def prepare_request(self, request: Request) -> PreparedRequest:
        """Return a request as it will be sent, with the session's settings behind its own.

        Args:
            request: what the user wants.

        Raises:
            RequestException: some of it cannot be sent.
        """
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
            headers=self._merged_headers(request.headers),
            params=merge_setting(request.params, self.params) if self.params else request.params,
            auth=merge_setting(auth, self.auth),
            cookies=self._merged_cookies(request.cookies),
            hooks=merge_hooks(request.hooks, self.hooks),
        )
        return prepared

    def _netrc_auth(self, url: str) -> tuple[str, str] | None:
        return get_netrc_auth(url)  # this module's, where programs replace it

    def request(
        self,
        method: str,
        url: t.UrlInput,
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
        json: JSON = None,
        *,
        content: t.DataInput = None,
        follow_redirects: bool | None = None,
    ) -> Response:
        """Send a request and return the response.

        Args:
            method: such as "GET".
            url: absolute.
            params: a mapping, pairs or a string for the query.
            data: a form (mapping or pairs), or a body as it is: bytes, str, file or iterable.
            headers: they replace the session's of the same name; None takes one away.
            cookies: for this request alone.
            files: a mapping or pairs of field name and file, sent as multipart/form-data.
            auth: (user, password) or a function of the prepared request.
            timeout: seconds for connecting and for silence, (connect, read), a Timeout, or None
                for the session's.
            allow_redirects: follow redirects.
            proxies: proxy URLs by scheme; they beat the session's, which beat the environment's.
            hooks: functions by event: {"response": ...}.
            stream: leave the body on the wire.
            verify: True, False, or a path of authorities.
            cert: a client certificate: a path, or (certificate, key).
            json: any value that JSON can express.
            content: another name for data that is no form.
            follow_redirects: another name for allow_redirects.

        Raises:
            RequestException: the request could not be sent, or no response was received.
        """
        if content is not None:
            if data is not None:
                raise TypeError("content and data are the same thing: give one")
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

    def get(
        self, url: t.UrlInput, params: ParamsInput | None = None, **kwargs: Unpack[t.GetOptions]
    ) -> Response:
        """Send GET; see request."""
        return self.request("GET", url, params=params, **kwargs)

    def options(self, url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
        """Send OPTIONS; see request."""
        return self.request("OPTIONS", url, **kwargs)

    def head(self, url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
        """Send HEAD; see request. Redirects are not followed unless asked to."""
        kwargs.setdefault("allow_redirects", False)
        return self.request("HEAD", url, **kwargs)

    def post(
        self,
        url: t.UrlInput,
        data: t.DataInput = None,
        json: JSON = None,
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

    def send(self, request: PreparedRequest, **kwargs: Unpack[t.SendOptions]) -> Response:
        """Send a prepared request.

        Args:
            request: see prepare_request.
            kwargs: stream, timeout, verify, cert, proxies, allow_redirects; the session's where
                they are missing.

        Raises:
            RequestException: no response was received.
            ValueError: the request is not prepared.
        """
        kwargs.setdefault("stream", self.stream)
        kwargs.setdefault("verify", self.verify)
        kwargs.setdefault("cert", self.cert)
        if "proxies" not in kwargs:
            kwargs["proxies"] = self._resolved_proxies(request)
        given: object = request
        if isinstance(given, Request):
            raise ValueError("You can only send PreparedRequests.")
        follows = kwargs.pop("allow_redirects", True)
        options: t.AdapterOptions = kwargs
        hooks = request.hooks
        adapter = self.get_adapter(url=str(request.url))
        if self._guard is not None:
            self._put_on_guard(adapter)  # which need not have been mounted
        started = preferred_clock()
        expected = expect(follows)
        try:
            response = adapter.send(request, **options)
            if getattr(response, "_times", None) is None:  # else it knows by itself
                response.elapsed = timedelta(seconds=preferred_clock() - started)
            if hooks["response"]:
                response = dispatch_hook("response", hooks, response, **options)
        finally:
            expect_no_more(expected)
        if response.history or getattr(response, "sets_cookies", True):
            self._keep_cookies(request, response)
        if response.status_code in REDIRECT_STATI or self._has_own_redirects:
            response = (self._follow if follows else self._point)(response, request, options)
        # On the way through redirects resolve_redirects keeps as much of a body as is worth it.
        if not options["stream"] and not getattr(response, "_is_passing", False):
            _ = response.content
        return response

    def _keep_cookies(self, request: PreparedRequest, response: Response) -> None:
        # Those of a hook that sent again, and its own.
        answered = [(earlier.request, earlier.raw) for earlier in response.history]
        if getattr(response, "sets_cookies", True):
            answered.append((request, response.raw))
        if answered:
            name = "extract_cookies_to_jar"  # what a program put here under this name comes first
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
        if getattr(last, "_is_passing", False):
            last._is_passing = False  # a subclass stays here
        if history:
            last.history = history
        return last

    def _point(
        self, response: Response, request: PreparedRequest, kwargs: t.AdapterOptions
    ) -> Response:
        following = self.resolve_redirects(response, request, yield_requests=True, **kwargs)
        response._next = next(following, None)
        is_left_alone = kwargs["stream"] or getattr(response, "_is_passing", False)
        if response._next is not None and not is_left_alone:
            use_up(response)  # where it leads is known, though its body may be broken
            response.close()
        return response

    def get_adapter(self, url: str) -> BaseAdapter:
        """Return the adapter for a URL: the one with the longest prefix that fits.

        Args:
            url: absolute.

        Raises:
            InvalidSchema: there is none.
        """
        lower = url.lower()
        adapters = self.adapters
        for prefix in adapters:
            if lower.startswith(prefix.lower()):
                return adapters[prefix]
        # What stands before an "@" is a secret, but for one scheme.
        shown = url if lower.startswith("mailto:") else display_url(url)
        raise InvalidSchema(f"No connection adapters were found for {shown!r}")

    def close(self) -> None:
        """Close the connections; a later request opens new ones."""
        for adapter in self.adapters.values():
            adapter.close()

    def mount(self, prefix: str, adapter: BaseAdapter) -> None:
        """Use an adapter for all URLs that begin with a prefix.

        Args:
            prefix: such as "https://example.org/".
            adapter: an HTTPAdapter or one of your own.
        """
        self._put_on_guard(adapter)
        self.adapters[prefix] = adapter
        for key in [key for key in self.adapters if len(key) < len(prefix)]:
            self.adapters[key] = self.adapters.pop(key)

    def __getstate__(self) -> t.PickledState:
        return {name: getattr(self, name, None) for name in self.__attrs__}

    def __setstate__(self, state: t.PickledState) -> None:
        for name, value in state.items():
            setattr(self, name, value)


show_verbs(vars(Session), Session.request)


def session() -> Session:
    """Return a Session."""
    return Session()
