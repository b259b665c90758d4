"""A request: validated; a client completes it. It sends nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

from curlhttp._models.body import encode_body
from curlhttp._models.decoding import ACCEPT_ENCODING
from curlhttp._models.headers import Headers, check_method
from curlhttp._models.redaction import display_url, redact_url
from curlhttp._models.timeout import EARLY
from curlhttp._models.timings import drop_waits
from curlhttp._models.url import URL, parse_url

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.cookiejar import CookieJar

    from curlhttp._models.body import Body
    from curlhttp._models.config import NetworkRoute
    from curlhttp._models.cookies import LazyCookieJar
    from curlhttp._models.inputs import (
        JSON,
        AuthInput,
        ContentInput,
        DataInput,
        FilesInput,
        HeadersInput,
        ParamsInput,
    )
    from curlhttp._models.response import Response
    from curlhttp._models.timeout import Timeout
    from curlhttp._policy.auth import Auth
    from curlhttp._policy.retry import RetryPolicy

KEEP_CODED = "keep"
ENDPOINTS = "curlhttp.endpoints"  # the extension with the Rotation of a request
CHALLENGER = "curlhttp.challenger"  # the extension with the URL of the endpoint to answer
# The extension with a function that changes a copy of the request for one more attempt.
NEXT_ATTEMPT = "curlhttp.next_attempt"
# The extension with a function of (method, status), which returns the method after a redirect.
REDIRECT_METHOD = "curlhttp.redirect_method"

# RFC 9110, section 9.2.2
IDEMPOTENT = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"})


Fields: TypeAlias = """tuple[
    Headers | None, Headers, Timeout, NetworkRoute, Body | None, Auth | None, CookieJar | None,
    LazyCookieJar | None, Callable[[URL], NetworkRoute] | None, bool, bool, int | None, bool,
    float | None, RetryPolicy | None,
]"""
"""All attributes of a request but method and URL, in the order of `ClientRequest.fill`."""


def pack_fields(
    headers: Headers,
    timeout: Timeout,
    route: NetworkRoute,
    *,
    body: Body | None = None,
    auth: Auth | None = None,
    cookies: CookieJar | None = None,
    jar: LazyCookieJar | None = None,
    choose_route: Callable[[URL], NetworkRoute] | None = None,
    stream: bool = False,
    follow_redirects: bool = True,
    max_response_size: int | None = None,
    decode: bool = True,
    deadline: float | None = None,
    retry: RetryPolicy | None = None,
) -> Fields:
    """Return all attributes of a request but method and URL, for `ClientRequest.fill`.

    Args:
        headers: shared with other requests, and copied before they are changed.
        timeout: the time limits.
        route: how to reach the URL; with `choose_route`, its result for the URL.
        body: the body, or None.
        auth: how to authenticate, or None.
        cookies: cookies of this request alone, or None.
        jar: where cookies are read and stored, or None.
        choose_route: returns the route for a URL, or None.
        stream: whether the caller reads the body piece by piece.
        follow_redirects: whether redirects are followed.
        max_response_size: bytes that the body may have, or None.
        decode: whether the content coding of the response is decoded.
        deadline: when the total time runs out, on the engine's clock, or None.
        retry: the policy, or None to send the request once.
    """
    return (
        None,
        headers,
        timeout,
        route,
        body,
        auth,
        cookies,
        jar,
        choose_route,
        stream,
        follow_redirects,
        max_response_size,
        decode,
        deadline,
        retry,
    )


class ClientRequest:
    """A request: clients create it, and a middleware may change it or derive another one.

    Attributes:
        method: upper case.
        url: the canonical URL, without userinfo.
        headers: what is sent, without the fields that libcurl adds (Host, Content-Length);
            `sent_headers` includes those.
        body: the body, or None.
        auth: how to authenticate, or None.
        cookies: cookies of this request alone, or None.
        jar: where cookies are read and stored, or None.
        timeout: the time limits.
        route: TLS, proxy and HTTP versions.
        choose_route: returns the route for a URL and is called for each attempt, because a redirect
            or a middleware may lead to a host with another proxy. None: always use `route`.
        stream: whether the caller reads the body piece by piece.
        follow_redirects: whether redirects are followed.
        max_response_size: bytes that the body may have, on the wire and decoded, or None.
        decode: whether the content coding of the response is decoded; with KEEP_CODED, the
            received body is kept, too.
        deadline: when the total time runs out, on the engine's clock, or None.
        retry: the RetryPolicy, or None to send it once.
        extensions: a dictionary with data of middleware, or None.
    """

    __slots__ = (
        "_headers",
        "_shared_headers",
        "auth",
        "body",
        "choose_route",
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
        "url",
    )

    connects_only = False  # libcurl only connects, and sends nothing

    method: str
    url: URL
    _headers: Headers | None
    _shared_headers: Headers
    body: Body | None
    auth: Auth | None
    cookies: CookieJar | None
    jar: LazyCookieJar | None
    timeout: Timeout
    route: NetworkRoute
    choose_route: Callable[[URL], NetworkRoute] | None
    stream: bool
    follow_redirects: bool
    max_response_size: int | None
    decode: bool | str
    deadline: float | None
    retry: RetryPolicy | None
    extensions: Any  # a dict[str, Any], or None until somebody sets it

    def __init__(
        self,
        method: str,
        url: str | bytes | URL,
        headers: HeadersInput | None = None,
        files: FilesInput | None = None,
        data: DataInput | None = None,
        params: ParamsInput | None = None,
        auth: AuthInput | None = None,
        cookies: CookieJar | None = None,
        hooks: None = None,  # in the same place as in requests
        json: JSON = None,
        *,
        content: ContentInput | None = None,
        body: Body | None = None,
        timeout: Timeout | None = None,
        route: NetworkRoute | None = None,
        stream: bool = False,
        follow_redirects: bool = True,
        max_response_size: int | None = None,
    ) -> None:
        found = Headers(headers)
        if body is None:
            given = found.get("content-type") if files else None
            body = encode_body(
                content=content, data=data, json=json, files=files, content_type=given
            )
            if body is not None and body.content_type and (given or "content-type" not in found):
                found["Content-Type"] = body.content_type
        fields = pack_fields(
            found,
            timeout,  # type: ignore[arg-type]  # the client fills in what is None
            route,  # type: ignore[arg-type]
            body=body,
            auth=cast("Auth | None", auth),  # the client or the flow makes an Auth of it
            cookies=cookies,
            stream=stream,
            follow_redirects=follow_redirects,
            max_response_size=max_response_size,
        )
        self.fill(check_method(method), parse_url(url).with_params(params), fields)
        self._headers = found

    def fill(self, method: str, url: URL, fields: Fields) -> ClientRequest:
        """Set all attributes to validated values, and return this request.

        For requests that are made by `ClientRequest.__new__`.

        Args:
            method: a token in upper case.
            url: without userinfo.
            fields: from `pack_fields`; many requests may share them.
        """
        self.method = method
        self.url = url
        self.extensions = None
        (
            self._headers,
            self._shared_headers,
            self.timeout,
            self.route,
            self.body,
            self.auth,
            self.cookies,
            self.jar,
            self.choose_route,
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

        Most requests send the headers of their client. They are only copied at the first access,
        which may be for a change.
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

    @property
    def sent_headers(self) -> Headers:
        """Return the header fields as they are sent, with Host and the framing of the body.

        This is a copy: to send other fields, change `headers`. The `request` of a Response also has
        the Cookie and the Authorization that were sent. HTTP/2 sends Host as ":authority", and no
        Transfer-Encoding.
        """
        from curlhttp._models.rendering import sent_headers  # rarely needed

        return sent_headers(self)

    def header_lines(self) -> list[bytes]:
        """Return the header lines; the same list while the headers do not change."""
        headers = self._headers
        if headers is None:
            headers = self._shared_headers
        return headers._lines or self._make_lines()  # without a call if they exist

    def _make_lines(self) -> list[bytes]:
        self.request_identity_of_range()
        return self.read_headers().lines()

    def get_header(self, name: str) -> str | None:
        """Return a header's value without copying shared headers."""
        headers = self._headers
        return (self._shared_headers if headers is None else headers).get(name)

    def read_headers(self) -> Headers:
        """Return the headers for reading, without copying shared headers."""
        headers = self._headers
        return self._shared_headers if headers is None else headers

    def request_identity_of_range(self) -> None:
        """Request a range of the content itself, unless the caller has set Accept-Encoding.

        A range of a coded body has no use to most callers: it cannot be decoded on its own. Who
        decodes bodies without the engine, as the drop-in does, also chooses the codings.
        """
        headers = self.read_headers()
        # The default is this very object; another str of the same text is the caller's.
        is_ours = self.decode and headers.get("accept-encoding") is ACCEPT_ENCODING
        if is_ours and headers.get("range") is not None:
            self.headers["Accept-Encoding"] = "identity"

    def set_default_type(self, content_type: str) -> None:
        """Set Content-Type, unless there is one."""
        if self.get_header("content-type") is not None:
            return
        if self._headers is None:  # still shared, with other requests of that type
            self._shared_headers = self._shared_headers.with_type(content_type)
        else:
            self._headers["Content-Type"] = content_type

    @property
    def sensitive(self) -> frozenset[str]:
        """Return the lower-case names of the client's sensitive headers, which are not shown."""
        headers = self._headers
        return (self._shared_headers if headers is None else headers).sensitive

    @property
    def content(self) -> bytes:
        """Return the body, b"" without one.

        Raises:
            RuntimeError: the body is streamed.
        """
        if self.body is None:
            return b""
        if self.body.data is None:
            raise RuntimeError(
                "the body is streamed; to read it in an Auth, set requires_request_body"
            )
        return self.body.data

    @property
    def is_idempotent(self) -> bool:
        """Return whether the method can safely be sent twice (RFC 9110, section 9.2.2)."""
        return self.method in IDEMPOTENT

    def is_late(self, now: float) -> bool:
        """Return whether the total time has run out, for a timer that fired.

        Args:
            now: time.monotonic(); timers of event loops may be some milliseconds early.
        """
        return self.deadline is not None and now >= self.deadline - EARLY

    def pool_seconds(self, now: float) -> float | None:
        """Return how many seconds this request may wait in a queue, None for no limit.

        Args:
            now: time.monotonic().
        """
        pool, deadline = self.timeout.pool, self.deadline
        if deadline is None:
            return pool
        left = max(0.0, deadline - now)
        return left if pool is None else min(pool, left)

    def copy(self) -> ClientRequest:
        """Return a copy with independent headers; the body is shared."""
        return self.as_kind(type(self))

    def as_kind(self, kind: type[ClientRequest]) -> ClientRequest:
        """Return a copy as another class, which must not have further attributes."""
        clone = kind.__new__(kind)
        for name in ClientRequest.__slots__:
            setattr(clone, name, getattr(self, name))
        if self._headers is not None:
            clone._headers = self._headers.copy()
        if self.extensions is not None:
            clone.extensions = self.extensions.copy()
        return clone

    def without_credentials(self) -> ClientRequest:
        """Return a copy that describes the request and holds no credentials.

        Pickled responses and errors have this copy, because they end up in caches, queues and logs.
        """
        clone = self.copy()
        clone._headers = (self._headers or self._shared_headers).without_credentials()
        clone._shared_headers = clone._headers
        clone.auth = clone.cookies = None
        clone.url = clone.url.without_userinfo()
        if clone.body is not None and clone.body.is_secret:
            clone.body = None
        return clone

    def without_secrets(self) -> ClientRequest:
        """Return a copy without credentials and with the secrets of its URLs masked.

        Pickled errors have this copy, because an error is kept to be read, not to be sent again.
        """
        clone = self.without_credentials()
        clone.url = URL(redact_url(clone.url))
        clone._headers = clone._shared_headers = clone._shared_headers.without_secrets()
        return clone

    def derive(self, **changes: Any) -> ClientRequest:  # Any: of each attribute its own type
        """Return a copy with some attributes replaced.

        Args:
            changes: attributes by name; url may be a str.

        Raises:
            InvalidMethod, InvalidURL, InvalidHeader: a change cannot be sent.
        """
        clone = self.copy()
        if "method" in changes:
            changes["method"] = check_method(changes["method"])
        if "url" in changes:
            changes["url"] = parse_url(changes["url"])
        for name, value in changes.items():
            setattr(clone, name, value)
        return clone

    def for_next_attempt(self, **changes: Any) -> ClientRequest:  # Any: see derive
        """Return a copy for one more attempt, whose credentials may need another number.

        Args:
            changes: see derive.
        """
        made = self.derive(**changes)
        drop_waits(made)
        change = None if made.extensions is None else made.extensions.get(NEXT_ATTEMPT)
        if change is not None:
            change(made)
        return made

    def respond(
        self,
        status_code: int = 200,
        *,
        content: bytes | str = b"",
        json: JSON = None,
        headers: HeadersInput | None = None,
    ) -> Response:
        """Create a response to this request without a server, for a fallback or a middleware.

        Args:
            status_code: of three digits.
            content: the body; str is sent as UTF-8.
            json: any value that JSON can express, instead of content.
            headers: a mapping or pairs. JSON gets a Content-Type if they have none.

        Raises:
            ValueError: the status does not have three digits.
            TypeError: you passed both content and json, or a value has a wrong type.
            InvalidHeader: a name or value is not valid in a header.
        """
        from curlhttp._models.response import Response

        found = Headers(headers)
        if json is not None:
            if content:
                raise TypeError("pass either content or json, not both")
            body = encode_body(json=json)
            assert body is not None
            assert body.data is not None
            content = body.data
            found.setdefault("Content-Type", "application/json")
        return Response.of(self, status_code, headers=found, content=content)

    def to_curl(self, *, secrets: bool = False) -> str:
        """Return the curl command that sends the same request, for a POSIX shell.

        Args:
            secrets: show credentials. Without it, they are masked by name in headers, URLs, forms
                and JSON. In other bodies, they cannot be found.
        """
        from curlhttp._models.rendering import curl_command

        return curl_command(self, secrets=secrets)

    def __repr__(self) -> str:
        from curlhttp._models.rendering import repr_of_request

        return repr_of_request(self)

    def __str__(self) -> str:
        """Return method and URL for a message."""
        return f"{self.method} {display_url(self.url)}"

    def __getstate__(self) -> dict[str, object]:
        # Without what cannot be sent to another process: streams, jars and callables.
        kept = ("method", "url", "timeout", "stream", "follow_redirects", "max_response_size")
        state: dict[str, object] = {name: getattr(self, name) for name in kept}
        state["headers"] = self._headers or self._shared_headers
        body = self.body
        state["data"] = None if body is None or body.is_secret else body.data
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:  # Any: of each attribute its own type
        from curlhttp._models.body import BytesBody

        data = state.pop("data")
        headers = state.pop("headers")
        for name in ClientRequest.__slots__:
            setattr(self, name, state.get(name))
        self.decode = True
        self._headers = self._shared_headers = headers
        self.body = None if data is None else BytesBody(data)
