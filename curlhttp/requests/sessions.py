"""requests.sessions: prepare and send requests with shared settings and cookies.

Each call goes request -> prepare_request -> send -> get_adapter -> adapter.send, since code that
extends requests takes hold at each of these.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from curlhttp._models.redaction import display_url
from curlhttp.exceptions import InvalidSchema
from curlhttp.requests._aside import expect, expect_no_more, use_up
from curlhttp.requests._elsewhere import Names, names_of
from curlhttp.requests._environment import get_netrc_auth
from curlhttp.requests._guarding import GuardedSession
from curlhttp.requests._late_jar import JarOnDemand
from curlhttp.requests._merging import SessionSettings, first_headers, merge_hooks, merge_setting
from curlhttp.requests._prepared import PreparedRequest, Request
from curlhttp.requests._redirects import SessionRedirectMixin
from curlhttp.requests._response import DEFAULT_REDIRECT_LIMIT, REDIRECT_STATI, Response
from curlhttp.requests._signatures import show_verbs
from curlhttp.requests.adapters import BaseAdapter, HTTPAdapter
from curlhttp.requests.hooks import default_hooks, dispatch_hook

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from typing_extensions import Unpack

    from curlhttp._models.inputs import JSON, FilesInput, ParamsInput, Text
    from curlhttp._policy.guard import GuardInput
    from curlhttp.requests import _types as t

__all__ = [
    "DEFAULT_REDIRECT_LIMIT", "REDIRECT_STATI", "Session", "SessionRedirectMixin",
    "merge_hooks", "merge_setting", "preferred_clock", "session",
]  # fmt: skip

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
            RequestException: it could not be sent, or no response came of it.
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
            RequestException: no response came of it.
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
