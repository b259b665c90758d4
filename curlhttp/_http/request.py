"""A request: validated; a client completes it. It sends nothing."""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar, cast

from curlhttp._http.auth import to_auth
from curlhttp._http.body import BytesBody, open_body, read_whole
from curlhttp._http.body_arguments import encode_body
from curlhttp._http.decoding import ACCEPT_ENCODING
from curlhttp._http.headers import (
    Headers,
    check_method,
    drop_headers,
    is_content_field,
    parse_length,
)
from curlhttp._http.redaction import display_url, redact_url
from curlhttp._http.timeout import EARLY, Timeout
from curlhttp._http.timings import drop_waits
from curlhttp._http.url import URL, parse_url
from curlhttp.exceptions import InvalidMethod

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from http.cookiejar import CookieJar

    import curlhttp
    from curlhttp._http.auth import Auth
    from curlhttp._http.body import Body
    from curlhttp._http.config import NetworkRoute
    from curlhttp._http.cookies import LazyCookieJar
    from curlhttp._http.inputs import (
        AuthInput,
        ContentInput,
        DataInput,
        FilesInput,
        HeadersInput,
        JSONInput,
        ParamsInput,
    )
    from curlhttp._http.response import Response
    from curlhttp._http.timeout import TimeoutInput

    T = TypeVar("T")
    Send: TypeAlias = Callable[["ClientRequest"], Awaitable[Response]]

    class Place(Protocol):
        """The place of a request among those that a map sends at the same time."""

        async def run(
            self, flow: Callable[[ClientRequest], Awaitable[T]], request: ClientRequest
        ) -> T:
            """Send a request through the flow."""

        async def send(self, send: Send, request: ClientRequest) -> Response:
            """Pass a request to the engine, as soon as there is a place."""

        def leave(self, origin: str | None) -> None:
            """Leave the place, because the request waits; see `leave_place` in _features/waits."""

        def come_back(self) -> None:
            """End the wait."""


KEEP_CODED = "keep"
IF_LARGE: Final = "if_large"
ENDPOINTS = "curlhttp.endpoints"  # the extension with the Rotation of a request
CHALLENGER = "curlhttp.challenger"  # the extension with the URL of the endpoint to answer
# The extension with a function that changes a copy of the request for one more attempt.
NEXT_ATTEMPT = "curlhttp.next_attempt"
# The extension with the request that a flow of an Auth made, from which its redirect goes on.
FLOW_REQUEST = "curlhttp.flow_request"
# The extension with a function of (method, status), which returns the method after a redirect.
REDIRECT_METHOD = "curlhttp.redirect_method"
# The extension with the raise_for_status of one request.
RAISE_FOR_STATUS = "curlhttp.raise_for_status"
# The extension of a stream that only layers read, so that the engine of a map can send it.
READ_BY_LAYER = "curlhttp.read_by_layer"

_PIECE = 64 * 1024  # bytes of a body
# The extensions with the functions of the client that write and read JSON.
ENCODE_JSON = "curlhttp.encode_json"
DECODE_JSON = "curlhttp.json"
# Fields that describe one body, and so not the form or JSON that replaces it.
_OF_OLD_BODY = frozenset(
    {
        "content-digest",
        "content-encoding",
        "content-md5",
        "content-range",
        "digest",
        "repr-digest",
        "unencoded-digest",
    }
)

# RFC 9110, section 9.2.2
IDEMPOTENT = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PUT", "TRACE"})


Fields: TypeAlias = """tuple[
    Headers | None, Headers, Timeout, NetworkRoute, Body | None, Auth | None, CookieJar | None,
    LazyCookieJar | None, Callable[[URL], NetworkRoute] | None, bool, bool, int | None, bool,
    float | None, curlhttp.RetryPolicy | None,
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
    retry: curlhttp.RetryPolicy | None = None,
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


# Any: it is the default of arguments of any type.
UNCHANGED: Any = type("Unchanged", (), {"__repr__": lambda self: "<unchanged>"})()


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
        stream: whether the caller reads the body piece by piece; with IF_LARGE, an engine may
            return a small body that is not coded in memory instead.
        follow_redirects: whether redirects are followed.
        max_response_size: bytes that the body may have, on the wire and decoded, or None.
        decode: whether the content coding of the response is decoded; with KEEP_CODED, the
            received body is kept, too.
        deadline: when the total time runs out, on the engine's clock, or None.
        retry: the RetryPolicy, or None to send it once.
        extensions: a dictionary with data of middleware, or None.
        place: of a request of a map that may have to wait, or None.
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
        "place",
        "retry",
        "route",
        "stream",
        "timeout",
        "url",
    )

    _connects_only = False  # libcurl only connects, and sends nothing
    _opens_websocket = False  # it is the one that websocket() sends

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
    stream: bool | str
    follow_redirects: bool
    max_response_size: int | None
    decode: bool | str
    deadline: float | None
    retry: curlhttp.RetryPolicy | None
    extensions: Any  # a dict[str, Any], or None until somebody sets it
    place: Place | None

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
        json: JSONInput = None,
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
            _take_framing(found, body, None)
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
        self.extensions = self.place = None
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
        from curlhttp._http.rendering import sent_headers  # rarely needed

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
        """Return the body, b"" without one; set it to send another one.

        Set it to what `content=` of the methods takes: bytes, str, a file, an iterable or, in
        AsyncClient, an async iterable, or a function that returns one of these; or to None for no
        body. Content-Length or Transfer-Encoding are always those of the new body. Content-Type
        and Content-Encoding stay, so set them if they change; with None, they are removed.

        Raises:
            RuntimeError: you read a body that is streamed.
            TypeError: you set it to something that cannot be a body.
        """
        data = b"" if self.body is None else self.body.peek()
        if data is None:
            raise RuntimeError(
                "the body is streamed; read() or `await request.aread()` reads it into memory, and "
                "requires_request_body in an Auth does so"
            )
        return data

    @content.setter
    def content(self, content: ContentInput | None) -> None:
        if content is None:
            self._put_body(None)
            fields = [name for name in self.read_headers() if is_content_field(name)]
            if fields:
                self.headers = drop_headers(self.headers, {name.lower() for name in fields})
            return
        body = open_body(content)
        if self.body is not None and body is not content:
            body.content_type = self.body.content_type  # as the header, of which this is the source
        self._put_body(body)

    def _put_body(self, body: Body | None) -> None:
        old = self.body
        if body is not old:
            self.body = body if old is None or body is None else old.replaced_by(body)
            _take_framing(self, self.body, old)

    def _encode_body(
        self,
        data: DataInput | None,
        json: JSONInput,
        files: FilesInput | None,
        headers: Headers | None,
    ) -> None:
        """Send a form or JSON, with the header fields that describe it.

        Args:
            data: see `derive`.
            json: see `derive`.
            files: see `derive`.
            headers: those that were passed with it, if any.
        """
        old = self.body
        kept = headers if old is not None else self.read_headers()
        given = None if kept is None else kept.get("content-type")
        encode = None if self.extensions is None else self.extensions.get(ENCODE_JSON)
        body = encode_body(
            data=data, json=json, files=files, encode=encode, content_type=given if files else None
        )
        if headers is None and any(name.lower() in _OF_OLD_BODY for name in self.read_headers()):
            self.headers = drop_headers(self.headers, _OF_OLD_BODY)
        self._put_body(body)
        kind = None if body is None else body.content_type
        # JSON that replaces JSON may have a more precise type, such as application/vnd.api+json.
        if kind and (given is None or files) and (old is None or old.content_type != kind):
            self.headers["Content-Type"] = kind

    def read(self) -> bytes:
        """Return the body, and read a streamed one into memory first.

        Raises:
            TypeError: the body is an async iterable.
            UnrewindableBodyError: the body was sent and cannot be read again.
        """
        body = self.body
        data = b"" if body is None else body.peek()
        if body is None or data is not None:
            return data or b""
        if body.is_async:
            raise TypeError("an async body is read with `await request.aread()`")
        body.rewind()
        return self._hold(body, b"".join(iter(lambda: body.read(_PIECE), b"")))

    async def aread(self) -> bytes:
        """Return the body, and read a streamed one into memory first; in any client.

        Raises:
            UnrewindableBodyError: the body was sent and cannot be read again.
        """
        body = self.body
        data = b"" if body is None else body.peek()
        if body is None or data is not None:
            return data or b""
        body.rewind()
        return self._hold(body, await read_whole(body))

    def _hold(self, body: Body, data: bytes) -> bytes:
        self.body = body.replaced_by(BytesBody(data, body.content_type))
        return data

    @property
    def is_idempotent(self) -> bool:
        """Return whether the method can safely be sent twice (RFC 9110, section 9.2.2)."""
        return self.method in IDEMPOTENT

    def _extend(self, name: str, value: object) -> None:
        """Set an extension. Requests that have the same dictionary, such as copies, keep theirs."""
        self.extensions = {**(self.extensions or {}), name: value}

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
        # Without bytecodes for each field, because each attempt and each hop may be a copy.
        any(map(setattr, repeat(clone), ClientRequest.__slots__, _get_fields(self)))
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
        clone.url = URL(redact_url(clone.url), raw=clone.url.is_raw)
        clone._headers = clone._shared_headers = clone._shared_headers.without_secrets()
        return clone

    def derive(
        self,
        *,
        method: str = UNCHANGED,
        url: str | bytes | URL = UNCHANGED,
        headers: HeadersInput = UNCHANGED,
        params: ParamsInput | None = None,
        content: ContentInput | None = UNCHANGED,
        data: DataInput | None = None,
        json: JSONInput = None,
        files: FilesInput | None = None,
        body: Body | None = UNCHANGED,
        auth: AuthInput | None = UNCHANGED,
        cookies: CookieJar | None = UNCHANGED,
        timeout: TimeoutInput = UNCHANGED,
        stream: bool = UNCHANGED,
        follow_redirects: bool = UNCHANGED,
        max_response_size: int | None = UNCHANGED,
        retry: curlhttp.RetryPolicy | None = UNCHANGED,
        extensions: Mapping[Any, object] | None = UNCHANGED,
    ) -> ClientRequest:
        """Return a copy with some attributes replaced; all others stay as they are.

        Args:
            method: a token.
            url: absolute.
            headers: replace all headers.
            params: added to the query.
            content: see the attribute `content`; None removes the body.
            data: a form, or a body as it is. The Content-Type is that of the new body, unless you
                pass one in `headers`; the same for json and files.
            json: any value but None.
            files: a mapping or pairs of field name and file.
            body: the `body` of another request.
            auth: as of a client's request.
            cookies: of this request alone.
            timeout: as of a client's request.
            stream: whether the caller reads the body piece by piece.
            follow_redirects: whether redirects are followed.
            max_response_size: bytes, or None.
            retry: a RetryPolicy, or None to send the request once.
            extensions: data of middleware.

        Raises:
            InvalidMethod, InvalidURL, InvalidHeader: a change cannot be sent.
            TypeError: there are two bodies, or a value cannot be a body.
        """
        clone = self.copy()
        if method is not UNCHANGED:
            clone.method = check_method(method)
        if url is not UNCHANGED:
            clone.url = parse_url(url)
        if params:
            clone.url = clone.url.with_params(params)
        given = None
        if headers is not UNCHANGED:
            clone.headers = headers
            given = clone.headers
        if data is not None or json is not None or files:
            if not (content is UNCHANGED and body is UNCHANGED):
                raise TypeError("content or body cannot be combined with data, json or files")
            clone._encode_body(data, json, files, given)
        elif content is not UNCHANGED:
            clone.content = content
        if body is not UNCHANGED:
            clone.body = body
        if auth is not UNCHANGED:
            clone.auth = to_auth(auth)
        if timeout is not UNCHANGED:
            clone.timeout = Timeout.of(timeout)
        others = (
            ("cookies", cookies),
            ("stream", stream),
            ("follow_redirects", follow_redirects),
            ("max_response_size", max_response_size),
            ("retry", retry),
        )
        for name, value in others:
            if value is not UNCHANGED:
                setattr(clone, name, value)
        if extensions is not UNCHANGED:
            clone.extensions = extensions and dict(extensions)
        return clone

    def for_next_attempt(self, body: Body | None = None) -> ClientRequest:
        """Return a copy for one more attempt, whose credentials may need another number.

        Args:
            body: replaces the body, unless None.
        """
        made = self.copy()
        if body is not None:
            made.body = body
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
        json: JSONInput = None,
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
        from curlhttp._http.response import Response

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
        from curlhttp._http.rendering import curl_command

        return curl_command(self, secrets=secrets)

    def __repr__(self) -> str:
        from curlhttp._http.rendering import repr_of_request

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
        from curlhttp._http.body import BytesBody

        data = state.pop("data")
        headers = state.pop("headers")
        for name in ClientRequest.__slots__:
            setattr(self, name, state.get(name))
        self.decode = True
        self._headers = self._shared_headers = headers
        self.body = None if data is None else BytesBody(data)


_get_fields = attrgetter(*ClientRequest.__slots__)


def is_handshake(request: ClientRequest) -> bool:
    """Return whether a request asks for a WebSocket."""
    return (request.get_header("upgrade") or "").lower() == "websocket"


def check_method_of_body(request: ClientRequest) -> None:
    """Raise InvalidMethod if the method of a request with a body cannot have one."""
    if request.method == "HEAD":
        # It has no meaning (RFC 9110, section 9.3.2), and libcurl does not send it.
        raise InvalidMethod("a HEAD request cannot have a body", request=request)


def _take_framing(subject: Headers | ClientRequest, body: Body | None, old: Body | None) -> None:
    """Remove the header fields that libcurl adds for a body; they may say how long it is.

    Args:
        subject: the headers, or the request that has them.
        body: the new body.
        old: the body before, whose length the fields may still say.
    """
    headers = subject if isinstance(subject, Headers) else subject.read_headers()
    announced = headers.get("content-length")
    if announced is None and "transfer-encoding" not in headers:
        return
    length = parse_length(announced or "")
    if body is not None and body.length is None and length != getattr(old, "length", None):
        body.length = length
    own = subject if isinstance(subject, Headers) else subject.headers
    for name in ("Content-Length", "Transfer-Encoding"):
        if name in own:
            del own[name]


class StreamedRequest(ClientRequest):
    """A request from `build_request(..., stream=True)`, for which `send` returns a stream."""

    __slots__ = ()
