"""A request: what the caller asks for, complete and checked. It sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from curlhttp._models.body.arguments import encode_body
from curlhttp._models.headers import Headers, check_method
from curlhttp._models.scrub import scrub_url, shown_url
from curlhttp._models.shown import Shown
from curlhttp._models.url.url import URL, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.cookiejar import CookieJar

    from curlhttp._config import Transport
    from curlhttp._models.body.body import Body
    from curlhttp._models.cookies.late import Jar
    from curlhttp._models.inputs import (
        JSON,
        ContentInput,
        DataInput,
        FilesInput,
        HeadersInput,
        ParamsInput,
    )
    from curlhttp._models.timeout import Timeout
    from curlhttp._policy.auth import Auth
    from curlhttp._policy.retry import RetryPolicy

__all__ = ["IDEMPOTENT", "KEEP_CODED", "Fields", "Request", "fields_of"]

KEEP_CODED = "keep"

_EARLY = 0.002  # seconds
# RFC 9110, section 9.2.2
IDEMPOTENT = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"})


Fields: TypeAlias = """tuple[
    Headers | None, Headers, Timeout, Transport, Body | None, Auth | None, CookieJar | None,
    Jar | None, Callable[[URL], Transport] | None, bool, bool, int | None, bool, float | None,
    RetryPolicy | None,
]"""
"""All of a request but its method and its URL, in the order of `Request.fill`."""


def fields_of(
    headers: Headers,
    timeout: Timeout,
    transport: Transport,
    *,
    body: Body | None = None,
    auth: Auth | None = None,
    cookies: CookieJar | None = None,
    jar: Jar | None = None,
    route: Callable[[URL], Transport] | None = None,
    stream: bool = False,
    follow_redirects: bool = True,
    max_response_size: int | None = None,
    decode: bool = True,
    deadline: float | None = None,
    retry: RetryPolicy | None = None,
) -> Fields:
    """Return all of a request but its method and its URL.

    Args:
        headers: shared with other requests, and copied before they are changed.
        timeout: the time limits.
        transport: how to reach the URL; what `route` gives for it, if there is one.
        body: the body, or None.
        auth: how to authenticate, or None.
        cookies: cookies of this request alone, or None.
        jar: where cookies come from and go to, or None.
        route: gives the transport for a URL, or None.
        stream: the caller reads the body piece by piece.
        follow_redirects: redirects are followed.
        max_response_size: bytes that the body may have, or None.
        decode: the content coding of the response is undone.
        deadline: when the total runs out, on the engine's clock, or None.
        retry: the policy, or None to send the request once.
    """
    return (
        None,
        headers,
        timeout,
        transport,
        body,
        auth,
        cookies,
        jar,
        route,
        stream,
        follow_redirects,
        max_response_size,
        decode,
        deadline,
        retry,
    )


class Request(Shown):
    """Hold what is asked for; a client makes it, a middleware may change or derive it.

    Attributes:
        method: upper case.
        url: the canonical URL, without userinfo.
        headers: what is sent, without what libcurl adds (Host, Content-Length): `sent_headers` has
            that too.
        body: the body, or None.
        auth: how to authenticate, or None.
        cookies: cookies of this request alone, or None.
        jar: where cookies come from and go to, or None.
        timeout: the time limits.
        transport: TLS, proxy and HTTP versions.
        route: gives the transport for a URL, asked for each attempt: a redirect or a middleware
            may lead to a host that has another proxy. None: transport is good for all.
        stream: the caller reads the body piece by piece.
        follow_redirects: redirects are followed.
        max_response_size: bytes that the body may have, on the wire and decoded, or None.
        decode: the content coding of the response is undone; with KEEP_CODED, its body is kept
            as it came, too.
        deadline: the time.monotonic() at which the total runs out, or None.
        retry: the RetryPolicy, or None to send it once.
        extensions: a place for a middleware's own data.
    """

    __slots__ = (
        "_headers",
        "_shared_headers",
        "auth",
        "body",
        "cookies",
        "deadline",
        "decode",
        "extensions",
        "follow_redirects",
        "jar",
        "max_response_size",
        "method",
        "retry",
        "route",
        "stream",
        "timeout",
        "transport",
        "url",
    )

    connects_only = False  # libcurl makes a connection for it, and sends nothing

    method: str
    url: URL
    _headers: Headers | None
    _shared_headers: Headers
    body: Body | None
    auth: Auth | None
    cookies: CookieJar | None
    jar: Jar | None
    timeout: Timeout
    transport: Transport
    route: Callable[[URL], Transport] | None
    stream: bool
    follow_redirects: bool
    max_response_size: int | None
    decode: bool | str
    deadline: float | None
    retry: RetryPolicy | None
    extensions: dict[str, Any] | None  # Any: the middleware knows

    def __init__(
        self,
        method: str,
        url: str | bytes | URL,
        headers: HeadersInput | None = None,
        files: FilesInput | None = None,
        data: DataInput | None = None,
        params: ParamsInput | None = None,
        auth: Auth | None = None,
        cookies: CookieJar | None = None,
        hooks: None = None,  # it has requests' place
        json: JSON = None,
        *,
        content: ContentInput | None = None,
        body: Body | None = None,
        timeout: Timeout | None = None,
        transport: Transport | None = None,
        stream: bool = False,
        follow_redirects: bool = True,
        max_response_size: int | None = None,
    ) -> None:
        found = Headers(headers)
        if body is None:
            body = encode_body(content=content, data=data, json=json, files=files)
            if body is not None and body.content_type:
                found.setdefault("Content-Type", body.content_type)
        fields = fields_of(
            found,
            timeout,  # type: ignore[arg-type]  # the client fills in what is None
            transport,  # type: ignore[arg-type]
            body=body,
            auth=auth,
            cookies=cookies,
            stream=stream,
            follow_redirects=follow_redirects,
            max_response_size=max_response_size,
        )
        self.fill(check_method(method), parse_url(url).with_params(params), fields)
        self._headers = found

    def fill(self, method: str, url: URL, fields: Fields) -> Request:
        """Set all fields to what is checked and complete, and return this request.

        For those who make requests by `Request.__new__`.

        Args:
            method: a token in upper case.
            url: without userinfo.
            fields: what `fields_of` returned; many requests may be made of one.
        """
        self.method = method
        self.url = url
        self.extensions = None
        (
            self._headers,
            self._shared_headers,
            self.timeout,
            self.transport,
            self.body,
            self.auth,
            self.cookies,
            self.jar,
            self.route,
            self.stream,
            self.follow_redirects,
            self.max_response_size,
            self.decode,
            self.deadline,
            self.retry,
        ) = fields
        return self

    @property
    def headers(self) -> Headers:
        """Return the headers of this request alone.

        Most requests send just what their client sends always: that is copied only when looked
        at, since a look may be a change.
        """
        headers = self._headers
        if headers is None:
            headers = self._headers = self._shared_headers.copy()
        return headers

    @headers.setter
    def headers(self, headers: HeadersInput) -> None:
        made = headers if isinstance(headers, Headers) else Headers(headers)
        made.sensitive |= self.sensitive
        self._headers = made

    def header_lines(self) -> list[bytes]:
        """Return the header lines; the same list as long as the headers are the same."""
        headers = self._headers
        if headers is None:
            headers = self._shared_headers
        return headers._lines or headers.lines()  # without a call where they are made

    def get_header(self, name: str) -> str | None:
        """Return a header's value without making the headers this request's own."""
        headers = self._headers
        return (self._shared_headers if headers is None else headers).get(name)

    def read_headers(self) -> Headers:
        """Return the headers to be read, without making them this request's own."""
        headers = self._headers
        return self._shared_headers if headers is None else headers

    def set_default_type(self, content_type: str) -> None:
        """Set Content-Type, unless there is one."""
        if self.get_header("content-type") is not None:
            return
        if self._headers is None:  # still shared, with others that have such a body
            self._shared_headers = self._shared_headers.with_type(content_type)
        else:
            self._headers["Content-Type"] = content_type

    @property
    def sensitive(self) -> frozenset[str]:
        """Return the lower-case names of headers that are not to be shown, as the client has it."""
        headers = self._headers
        return (self._shared_headers if headers is None else headers).sensitive

    @property
    def content(self) -> bytes:
        """Return the body, b"" where there is none.

        Raises:
            RuntimeError: it is streamed.
        """
        if self.body is None:
            return b""
        if self.body.data is None:
            raise RuntimeError("the body is streamed; an Auth with requires_request_body has it")
        return self.body.data

    @property
    def is_idempotent(self) -> bool:
        """Return whether the method may be sent twice without harm (RFC 9110, section 9.2.2)."""
        return self.method in IDEMPOTENT

    def is_late(self, now: float) -> bool:
        """Return whether the total has run out, for a timer that fired.

        Args:
            now: time.monotonic(); timers of event loops may be 2 ms early.
        """
        return self.deadline is not None and now >= self.deadline - _EARLY

    def pool_seconds(self, now: float) -> float | None:
        """Return how long this request may wait for its turn, None without end.

        Args:
            now: time.monotonic().
        """
        pool, deadline = self.timeout.pool, self.deadline
        if deadline is None:
            return pool
        left = max(0.0, deadline - now)
        return left if pool is None else min(pool, left)

    def copy(self) -> Request:
        """Return a request with headers of its own; the body is the same one."""
        return self.as_kind(type(self))

    def as_kind(self, kind: type[Request]) -> Request:
        """Return a copy of another kind, which has no attributes of its own."""
        twin = kind.__new__(kind)
        for name in Request.__slots__:
            setattr(twin, name, getattr(self, name))
        if self._headers is not None:
            twin._headers = self._headers.copy()
        if self.extensions is not None:
            twin.extensions = self.extensions.copy()
        return twin

    def without_credentials(self) -> Request:
        """Return a copy that tells what was asked for, and holds no credentials.

        Pickled responses and errors have this one: they end up in caches, queues and logs.
        """
        twin = self.copy()
        twin._headers = (self._headers or self._shared_headers).without_credentials()
        twin._shared_headers = twin._headers
        twin.auth = twin.cookies = None
        twin.url = twin.url.without_userinfo()
        if twin.body is not None and twin.body.is_secret:
            twin.body = None
        return twin

    def without_secrets(self) -> Request:
        """Return a copy without credentials, the secrets of its URLs masked as in a message.

        Pickled errors have this one: an error is kept to be read, not to be sent again.
        """
        twin = self.without_credentials()
        twin.url = URL(scrub_url(twin.url))
        twin._headers = twin._shared_headers = twin._shared_headers.without_secrets()
        return twin

    def derive(self, **changes: Any) -> Request:  # Any: of each attribute its own type
        """Return a copy with some attributes replaced.

        Args:
            changes: attributes by name; url may be a str.

        Raises:
            InvalidMethod, InvalidURL, InvalidHeader: a change cannot be sent.
        """
        twin = self.copy()
        if "method" in changes:
            changes["method"] = check_method(changes["method"])
        if "url" in changes:
            changes["url"] = parse_url(changes["url"])
        for name, value in changes.items():
            setattr(twin, name, value)
        return twin

    def __str__(self) -> str:
        """Return method and URL, fit for a message."""
        return f"{self.method} {shown_url(self.url)}"

    def __getstate__(self) -> dict[str, object]:
        # What cannot travel to another process is left behind: streams, jars and callables.
        kept = ("method", "url", "timeout", "stream", "follow_redirects", "max_response_size")
        state: dict[str, object] = {name: getattr(self, name) for name in kept}
        state["headers"] = self._headers or self._shared_headers
        body = self.body
        state["data"] = None if body is None or body.is_secret else body.data
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:  # Any: of each attribute its own type
        from curlhttp._models.body.body import BytesBody

        data = state.pop("data")
        headers = state.pop("headers")
        for name in Request.__slots__:
            setattr(self, name, state.get(name))
        self.decode = True
        self._headers = self._shared_headers = headers
        self.body = None if data is None else BytesBody(data)
