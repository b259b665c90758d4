"""From a verb's arguments to a Request: complete, checked and framed. Nothing is sent here."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from curlhttp._client.routing import RouteOptions, Routing
from curlhttp._models.body import encode_body
from curlhttp._models.config import HTTP2
from curlhttp._models.headers import Headers, check_method
from curlhttp._models.request import Fields, Request
from curlhttp._models.timeout import Timeout, TimeoutInput
from curlhttp._models.url import URL, parse_url
from curlhttp._policy.auth import NO_AUTH, BasicAuth, as_auth
from curlhttp.exceptions import InvalidHeader, InvalidMethod, MissingSchema

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp._engine.engine import Clock
    from curlhttp._models.body import Body
    from curlhttp._models.config import Transport
    from curlhttp._models.cookies.jar import Cookies
    from curlhttp._models.inputs import (
        JSON,
        AuthInput,
        ContentInput,
        CookiesInput,
        DataInput,
        FilesInput,
        HeaderChanges,
        ParamsInput,
    )
    from curlhttp._models.progress import Progress, ProgressMeter
    from curlhttp._policy.retry import RetryInput, RetryPolicy

__all__ = [
    "MAX_EVENT_SIZE",
    "UNSET",
    "DownloadOptions",
    "RequestBuilder",
    "RequestOptions",
    "checked_size",
    "parser",
    "unfollowed",
]

_STREAMED = {"stream": True}
_VERBS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_new_request = Request.__new__

# Any: it is the default of arguments of any type.
UNSET: Any = cast(Any, type("Unset", (), {"__repr__": lambda self: "<the client's>"})())

MAX_EVENT_SIZE = 1024 * 1024  # bytes


class DownloadOptions(RouteOptions, total=False):
    """The keywords that every verb takes, and download and map."""

    params: ParamsInput | None
    headers: HeaderChanges | None
    cookies: CookiesInput | None
    auth: AuthInput | None
    timeout: TimeoutInput
    follow_redirects: bool
    allow_redirects: bool
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


class RequestBuilder:
    """Build requests with a client's settings, which `Core` checks and sets."""

    clock: Clock
    _parse: Callable[[str | bytes | URL], URL]  # what parser() returned
    _fields: Fields  # of a request that says nothing of its own
    _routing: Routing
    _route: Callable[[URL], Transport] | None  # the client's, where it depends on the URL
    _headers: Headers
    _http2: HTTP2 = False
    _retry: RetryPolicy | None
    # What a request's own number of retries varies, where the client has no policy.
    _default_retry: RetryPolicy | None = None

    _overrides_build_request = False

    def __init_subclass__(cls) -> None:
        cls._overrides_build_request = cls.build_request is not RequestBuilder.build_request

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
        stream: bool = False,
        max_response_size: int | None = UNSET,
        retry: RetryInput = UNSET,
        progress: Progress | None = None,
        **route: Unpack[RouteOptions],
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
            follow_redirects: follow redirects.
            allow_redirects: follow redirects, as requests calls it.
            stream: return once the head is in; the body is read from the response.
            max_response_size: bytes that the body may have, on the wire and decoded.
            retry: a RetryPolicy, a number of retries with the client's policy (or the default
                one), or None to send it once.
            progress: called with the bytes of the body that libcurl was given and those that it
                has, or None: at the beginning, at the end, and 20 times a second between; from 0
                again when the body starts over, for a redirect, a challenge or a retry. What it
                raises ends the request. Such a body counts as streamed. For the response's body
                there are stream and download.
            route: how it travels, in place of the client's; see RouteOptions.

        Raises:
            RequestException: some of it cannot be sent as it is; nothing was.
            ValueError: there is progress, and no body.
        """
        method = check_method(method)
        absolute = self._parse(url)
        if params:
            absolute = absolute.with_params(params)
        request = self._plain(method, absolute)
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
        if not (auth is UNSET or (auth is None and absolute.username is not None)):
            request.auth = as_auth(auth) or NO_AUTH
        if cookies is not None:
            request.cookies = _own_cookies(cookies, absolute)
        if timeout is not UNSET:
            request.timeout = Timeout.of(timeout)
        request.stream = stream
        follows = allow_redirects if follow_redirects is UNSET else follow_redirects
        if follows is not UNSET:
            request.follow_redirects = follows
        if max_response_size is not UNSET:
            request.max_response_size = checked_size(max_response_size)
        if retry is not UNSET:
            request.retry = self._own_retry(retry)
        if route:
            self._set_route(request, self._routing.route_of(route))
        return request

    def _request(self, method: str, url: str | bytes | URL, options: RequestOptions) -> Request:
        """Return what a verb sends: mostly a plain request, which costs a third."""
        if not options and not self._overrides_build_request:
            return self._plain(method, self._parse(url))
        if options == _STREAMED and not self._overrides_build_request:
            request = self._plain(method, self._parse(url))
            request.stream = True
            return request
        return self.build_request(method, url, **options)

    def _request_by(self, method: str, url: str | bytes | URL, options: RequestOptions) -> Request:
        """Return what `request` sends: by a verb's name what the verb does."""
        if type(method) is str and method in _VERBS:
            return self._request(method, url, options)
        return self.build_request(method, url, **options)

    def _plain(self, method: str, url: URL) -> Request:
        """Return a request with the client's own settings.

        Args:
            method: a token in upper case.
            url: absolute, maybe with credentials.
        """
        request = _new_request(Request).fill(method, url, self._fields)
        if url.username is not None:
            request.auth = BasicAuth(url.username, url.password or "")
            request.url = url.without_userinfo()
        if self._route is not None:
            self._set_route(request, self._route)
        return request

    def _set_route(self, request: Request, route: Callable[[URL], Transport]) -> None:
        request.route = route
        request.transport = route(request.url)  # raises now, if it must

    def _watched(self, body: Body | None, progress: Progress) -> Body:
        from curlhttp._models.progress import ProgressMeter

        meter = ProgressMeter(progress, self.clock.now)
        if body is None:
            raise ValueError("progress is that of the request's body, and there is none")
        return self._watch(body, meter)

    def _watch(self, body: Body, meter: ProgressMeter) -> Body:
        from curlhttp._models.progress import ProgressBody

        return ProgressBody(body, meter)

    def _own_retry(self, retry: RetryInput) -> RetryPolicy | None:
        """Return the policy of one request; numbers share the budget of the client's."""
        if not retry:
            return None
        from curlhttp._policy.retry import RetryPolicy

        if self._retry is not None:
            return RetryPolicy.of(retry, self._retry)
        if self._default_retry is None:
            self._default_retry = RetryPolicy()
        return RetryPolicy.of(retry, self._default_retry)


def checked_size(size: int | None) -> int | None:
    """Return a limit on sizes.

    Raises:
        ValueError: it is negative.
    """
    if size is not None and size < 0:
        raise ValueError(f"max_response_size must not be negative, as {size} is")
    return size


def parser(base: URL | None, params: ParamsInput | None) -> Callable[[str | bytes | URL], URL]:
    """Return the function that makes a verb's URL absolute.

    Args:
        base: what relative URLs are joined to, or None.
        params: go into every query; or None.
    """
    # Without either of them a request is spared the call in between.
    return parse_url if base is None and params is None else partial(_parsed, base, params)


def _parsed(base: URL | None, params: ParamsInput | None, url: str | bytes | URL) -> URL:
    absolute = parse_url(url) if base is None else _joined(base, url)
    return absolute.with_params(params) if params else absolute


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
    if body is not None and body.content_type:
        request.set_default_type(body.content_type)
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


def unfollowed(options: RequestOptions) -> RequestOptions:
    """Return the options of a HEAD: redirects are not followed unless the caller asks for that."""
    if "follow_redirects" not in options and "allow_redirects" not in options:
        options["follow_redirects"] = False
    return options
