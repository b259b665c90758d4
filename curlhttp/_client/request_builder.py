"""Build complete, validated requests from the arguments of the clients' methods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from sys import is_finalizing
from types import FunctionType
from typing import TYPE_CHECKING, Literal, NoReturn, cast, overload

from curlhttp._client.features import load
from curlhttp._client.routing import Routing
from curlhttp._client.settings import SETTINGS
from curlhttp._http.auth import NO_AUTH, BasicAuth, to_auth
from curlhttp._http.body_arguments import encode_body
from curlhttp._http.config import HTTP2
from curlhttp._http.errors import check_flags, check_number
from curlhttp._http.exiting import check_running, exit_error
from curlhttp._http.headers import Headers, check_method, parse_length
from curlhttp._http.request import (
    RAISE_FOR_STATUS,
    ClientRequest,
    Fields,
    StreamedRequest,
    check_method_of_body,
)
from curlhttp._http.signatures import DescribedDefault, set_signature, with_keywords
from curlhttp._http.timeout import Timeout, TimeoutInput
from curlhttp._http.unset import USE_CLIENT_DEFAULT, UseClientDefault
from curlhttp._http.url import URL, parse_url
from curlhttp.exceptions import InvalidHeader, InvalidSchema, MissingSchema

if TYPE_CHECKING:
    from inspect import Parameter, Signature

    from typing_extensions import Unpack

    import curlhttp
    from curlhttp._client.options import BareOptions, BodyOptions, RequestOptions, RouteOptions
    from curlhttp._http.config import NetworkRoute
    from curlhttp._http.cookies.jar import Cookies
    from curlhttp._http.inputs import (
        AuthInput,
        ContentInput,
        CookiesInput,
        DataInput,
        FilesInput,
        HeaderChanges,
        JSONInput,
        ParamsInput,
        Progress,
        RetryInput,
    )
    from curlhttp._runtime.engine import Runtime
    from curlhttp._runtime.run import Offload

_STREAMED = {"stream": True}
_VERBS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_new_request = ClientRequest.__new__


def check_options(
    client: RequestBuilder, method: str, options: Mapping[str, object], other: str = ""
) -> None:
    """Raise TypeError for an unknown option of a client's method.

    Args:
        client: whose method it is.
        method: its name.
        options: what was passed in **options.
        other: what to call for a request with a body, if the method only sends GET.
    """
    if not options:
        return
    from curlhttp._client.options import DownloadOptions, RequestOptions

    known = DownloadOptions if other else RequestOptions
    for name in options:
        if name not in known.__annotations__:
            from curlhttp._http.suggestions import no_option

            raise no_option(getattr(type(client), method), name, other)


def check_raises(method: str, options: BareOptions) -> None:
    """Remove raise_for_status from the options of a method that raises in any case.

    Raises:
        ValueError: it is False.
    """
    raises = options.pop("raise_for_status", USE_CLIENT_DEFAULT)
    if raises is USE_CLIENT_DEFAULT:
        return
    check_flags(raise_for_status=raises)
    if not raises:
        raise ValueError(
            f"{method}() raises for any status that it cannot use: catch the HTTPError, whose "
            "response has the status, or use stream()"
        )


def refuse_options(options: Iterable[str]) -> NoReturn:
    """Raise TypeError for keywords of send(): it says where to pass them."""
    from curlhttp._client.options import RequestOptions
    from curlhttp._http.suggestions import no_keyword

    name = next(iter(options))
    if name not in RequestOptions.__annotations__:
        raise no_keyword("request", "send()", name, ())
    where = f"client.build_request(method, url, {name}=...)"
    if name == "stream":
        where = "client.build_request(method, url, stream=True), or client.stream(method, url)"
    raise TypeError(f"send() takes only a request: write {where}")


class RequestBuilder:
    """Build requests with a client's settings, which `BaseClient` validates and sets."""

    _awaits_hooks: bool  # in AsyncClient
    _run_blocking: Offload
    _runtime: Runtime
    _parse: Callable[[str | bytes | URL], URL]  # returned by make_url_parser()
    _fields: Fields  # of a request without settings of its own
    _routing: Routing
    _route: Callable[[URL], NetworkRoute] | None  # None if it does not depend on the URL
    _headers: Headers
    _http2: HTTP2 = False
    _retry: curlhttp.RetryPolicy | None
    # For requests with a number of retries, if the client has no policy. They share its budget.
    _default_retry: curlhttp.RetryPolicy | None = None

    _encode_json: Callable[[object], bytes] | None = None  # None: Python's json

    _overrides_build_request = False

    def __init_subclass__(cls) -> None:
        cls._overrides_build_request = cls.build_request is not RequestBuilder.build_request

    @overload
    def build_request(
        self,
        method: str,
        url: str | bytes | URL,
        *,
        stream: Literal[True],
        **options: Unpack[BodyOptions],
    ) -> StreamedRequest: ...
    @overload
    def build_request(
        self, method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
    ) -> ClientRequest: ...
    def build_request(
        self,
        method: str,
        url: str | bytes | URL,
        *,
        params: ParamsInput | None = None,
        data: DataInput | None = None,
        json: JSONInput = None,
        content: ContentInput | None = None,
        files: FilesInput | None = None,
        headers: HeaderChanges | None = None,
        cookies: CookiesInput | None = None,
        auth: AuthInput | UseClientDefault | None = USE_CLIENT_DEFAULT,
        timeout: TimeoutInput | UseClientDefault = USE_CLIENT_DEFAULT,
        follow_redirects: bool | UseClientDefault = USE_CLIENT_DEFAULT,
        allow_redirects: bool | UseClientDefault = USE_CLIENT_DEFAULT,
        stream: bool = False,
        max_response_size: int | UseClientDefault | None = USE_CLIENT_DEFAULT,
        retry: RetryInput | UseClientDefault = USE_CLIENT_DEFAULT,
        raise_for_status: bool | UseClientDefault = USE_CLIENT_DEFAULT,
        progress: Progress | None = None,
        **route: Unpack[RouteOptions],
    ) -> ClientRequest:
        """Build the request that the methods send; pass it to `send`.

        Args:
            method: a token, such as "GET".
            url: absolute, or relative to base_url.
            params: a mapping, pairs or a string for the query.
            data: a form (mapping or pairs), or a body as it is (bytes, str, file, iterable).
            json: any value that JSON can express.
            content: a body as it is: bytes, str, file, iterable or, in AsyncClient, an async
                iterable; a function that returns one of these makes it replayable.
            files: a mapping or pairs of field name and file, sent as multipart/form-data.
            headers: replace the client's headers of the same name; None removes one.
                Proxy-Authorization is never sent: pass a proxy's credentials in proxies.
            cookies: for this request only.
            auth: (user, password), an Auth, a function of the request, or None to send no
                credentials, not even from netrc. The default is the credentials in the URL, then
                the client's, then those in netrc.
            timeout: seconds for connect and read, (connect, read), a Timeout, or None.
            follow_redirects: follow redirects.
            allow_redirects: the same as follow_redirects, under the name that requests uses.
            stream: return when the response head arrives; read the body from the response.
            max_response_size: the maximum size of the body in bytes, on the wire and decoded.
            retry: a RetryPolicy, a number of retries with the client's policy (or the default one),
                or None to send the request once.
            raise_for_status: raise HTTPError for a status of 4xx or 5xx, after all retries.
            progress: called with the bytes of the body passed to libcurl and the total bytes, or
                None if unknown: at the beginning, at the end, and 20 times a second in between. It
                starts from 0 again when the body is replayed for a redirect, a challenge or a
                retry. An exception from it ends the request. Such a body counts as streamed. For
                the response body, use stream or download.
            route: route settings that replace the client's; see RouteOptions.

        Raises:
            RequestException: the request is invalid; nothing was sent.
            ValueError: `progress` was passed without a body.
        """
        check_running()
        method = check_method(method)
        absolute = self._parse(url)
        if params:
            absolute = absolute.with_params(params)
        request = self._build_plain_request(method, absolute)
        if headers:
            request._headers = request._shared_headers.merged(headers)
            request.request_identity_of_range()
        content_type = request.get_header("content-type") if files else None
        request.body = body = encode_body(
            content=content,
            data=data,
            json=json,
            files=files,
            length=None if request._headers is None else _parse_content_length(request._headers),
            encode=self._encode_json,
            content_type=content_type,
        )
        if content_type is not None and body is not None and body.content_type != content_type:
            request.headers["Content-Type"] = str(body.content_type)  # with a boundary
        if progress is not None:
            body = request.body = load("progress").report_sending(
                body,
                progress,
                self._runtime.now,
                self._run_blocking if self._awaits_hooks else None,
            )
        if body is not None or request._headers is not None:
            _set_framing(request)
        if not (auth is USE_CLIENT_DEFAULT or (auth is None and absolute.username is not None)):
            request.auth = to_auth(auth) or NO_AUTH
        if cookies is not None:
            request.cookies = _make_cookies(cookies, absolute)
        if timeout is not USE_CLIENT_DEFAULT:
            request.timeout = Timeout.of(timeout)
        if stream:
            request = request.as_kind(StreamedRequest)
            request.stream = True
        follows = allow_redirects if follow_redirects is USE_CLIENT_DEFAULT else follow_redirects
        if follows is not USE_CLIENT_DEFAULT:
            check_flags(follow_redirects=follows)
            request.follow_redirects = follows
        if max_response_size is not USE_CLIENT_DEFAULT:
            request.max_response_size = validate_size(max_response_size)
        if retry is not USE_CLIENT_DEFAULT:
            request.retry = self._make_retry(retry)
        if raise_for_status is not USE_CLIENT_DEFAULT:
            check_flags(raise_for_status=raise_for_status)
            request._extend(RAISE_FOR_STATUS, raise_for_status)
            self._allow_own_settings()
        if route:
            self._set_route(request, self._routing.make_route(route))
        return request

    def _build_verb_request(
        self, method: str, url: str | bytes | URL, options: RequestOptions
    ) -> ClientRequest:
        """Build the request of a verb. A plain one, without options, takes a third of the time."""
        if not options and not self._overrides_build_request:
            return self._build_plain_request(method, self._parse(url))
        if options == _STREAMED and not self._overrides_build_request:
            request = self._build_plain_request(method, self._parse(url))
            request.stream = True
            return request
        if "method" in options:  # which would be passed twice
            raise TypeError(f"{method.lower()}() sends {method}: write request(method, url)")
        return self.build_request(method, url, **options)

    def _build_any_request(
        self, method: str, url: str | bytes | URL, options: RequestOptions
    ) -> ClientRequest:
        """Build the request of `request()`. For "GET" it is the same as for `get()`, and so on."""
        if type(method) is str and method in _VERBS:
            return self._build_verb_request(method, url, options)
        return self.build_request(method, url, **options)

    def _build_plain_request(self, method: str, url: URL) -> ClientRequest:
        """Return a request with the client's settings only.

        Args:
            method: a token in upper case.
            url: absolute; it may contain credentials.
        """
        if is_finalizing():
            raise exit_error()
        request = _new_request(ClientRequest).fill(method, url, self._fields)
        if url.username is not None:
            request.auth = BasicAuth(url.username, url.password or "")
            request.url = url.without_userinfo()
        if self._route is not None:
            self._set_route(request, self._route)
        return request

    def _set_route(self, request: ClientRequest, route: Callable[[URL], NetworkRoute]) -> None:
        request.choose_route = route
        request.route = route(request.url)  # raises now if a setting is invalid

    def _allow_own_settings(self) -> None:
        """Prepare the flow for requests with a setting whose layer the client does not need."""
        raise NotImplementedError

    def _make_retry(self, retry: RetryInput) -> curlhttp.RetryPolicy | None:
        """Return the policy of one request. A number of retries shares the client's budget."""
        if retry is None or retry == 0:
            return None
        self._allow_own_settings()
        policies = load("retry.policy").RetryPolicy
        if self._retry is None and self._default_retry is None:
            self._default_retry = policies()
        made: curlhttp.RetryPolicy | None = policies.of(retry, self._retry or self._default_retry)
        return made


def validate_size(size: int | None) -> int | None:
    """Validate max_response_size.

    Raises:
        TypeError: it is not a number.
        ValueError: it is negative.
    """
    check_number("max_response_size", size, whole=True, unit="bytes", optional=True)
    return size


def make_url_parser(
    base: URL | curlhttp.Endpoints | None, params: ParamsInput | None
) -> Callable[[str | bytes | URL], URL]:
    """Return a function that makes URLs absolute.

    Args:
        base: joined with relative URLs, or None.
        params: added to every query, or None.
    """
    if base is not None and not isinstance(base, URL):
        return partial(_resolve_endpoint, base, params)
    # Most clients have neither, and their requests avoid an extra call.
    return parse_url if base is None and params is None else partial(_resolve_url, base, params)


def _resolve_url(base: URL | None, params: ParamsInput | None, url: str | bytes | URL) -> URL:
    absolute = parse_url(url) if base is None else _join_url(base, url)
    return absolute.with_params(params) if params else absolute


def _resolve_endpoint(
    endpoints: curlhttp.Endpoints, params: ParamsInput | None, url: str | bytes | URL
) -> URL:
    return endpoints._to_canonical(_resolve_url(endpoints._canonical, params, url))


def _join_url(base: URL, url: str | bytes | URL) -> URL:
    """Join a relative URL to the base: below the base's path, even without a final slash."""
    try:
        return parse_url(url)
    except (MissingSchema, InvalidSchema):
        if isinstance(url, URL) or cast(object, url) is None:
            raise
        text = url.decode() if isinstance(url, bytes) else str(url)
        # A colon ends a scheme only in the first segment: not in "keys/a:b", nor in "?at=12:30".
        if text.startswith("//") or ":" in re.split("[/?#]", text, maxsplit=1)[0]:
            raise
        return base._join_path(text)


def _make_cookies(cookies: CookiesInput, url: URL) -> Cookies:
    from curlhttp._http.cookies.jar import Cookies

    return (cookies if isinstance(cookies, Cookies) else Cookies(cookies)).bind(url)


def _parse_content_length(headers: Headers) -> int | None:
    """Return the Content-Length that the caller set.

    Raises:
        InvalidHeader: it is not a number, or there is also a Transfer-Encoding.
    """
    value = headers.get("content-length")
    if value is None:
        return None
    if "transfer-encoding" in headers:
        raise InvalidHeader("a request cannot have both Content-Length and Transfer-Encoding")
    length = parse_length(value)
    if length is None:
        raise InvalidHeader(f"Invalid Content-Length {value!r:.50}: not a number of bytes")
    return length


def _set_framing(request: ClientRequest) -> None:
    """Add the body's Content-Type, and leave the framing headers to libcurl.

    Raises:
        InvalidHeader: the caller's framing headers contradict the body.
        InvalidMethod: the method cannot have a body.
    """
    body = request.body
    if body is not None:
        check_method_of_body(request)
    if body is not None and body.content_type:
        request.set_default_type(body.content_type)
    announced = request.get_header("content-length")
    if announced is not None:
        length = 0 if body is None else body.length
        if length is not None and parse_length(announced) != length:
            raise InvalidHeader(
                f"Content-Length is {announced:.50}, but the body has {length} bytes"
            )
        del request.headers["Content-Length"]
    coding = request.get_header("transfer-encoding")
    if coding is not None:
        if coding.lower() != "chunked":
            raise InvalidHeader(f"Transfer-Encoding can only be chunked, not {coding!r}")
        del request.headers["Transfer-Encoding"]


def disable_redirects(options: RequestOptions) -> RequestOptions:
    """Turn redirects off in the options of a HEAD, unless the caller sets them."""
    if all(
        options.get(name, USE_CLIENT_DEFAULT) is USE_CLIENT_DEFAULT
        for name in ("follow_redirects", "allow_redirects")
    ):
        options["follow_redirects"] = False
    return options


# --- The signatures that help() and editors show for the clients' methods; no request runs this ---

_VERB_METHODS = (
    "request",
    "get",
    "options",
    "head",
    "post",
    "put",
    "patch",
    "delete",
    "stream",
    "sse",
)
_BODILESS = ("download", "download_many", "map", "websocket")
_BODY_OPTIONS = frozenset({"data", "json", "content", "files", "stream", "progress"})


def set_signatures(client: type) -> None:
    """Set the signatures of a client class's own methods, with the keywords of requests."""
    own = vars(client)
    for name in _VERB_METHODS:
        if name in own:
            set_signature(own[name], make_verb_signature)
    for name in _BODILESS:
        if name in own:
            set_signature(own[name], _make_bodiless_signature)


def set_constructor_signature(constructor: object) -> None:
    """Set the signature of a client's constructor, which describes its defaults."""
    set_signature(constructor, _make_constructor_signature)


def make_verb_signature(function: FunctionType) -> Signature:
    """Return the signature of a function that sends a request, with all keywords of requests."""
    keywords = list(_get_keywords())
    defaults: dict[str, object] = {}
    for each in keywords:
        if repr(each.default) == "<the client's>":
            defaults[each.name] = DescribedDefault(f"client.{each.name}")
    defaults["allow_redirects"] = DescribedDefault("client.follow_redirects")
    if function.__name__ == "head":
        defaults["follow_redirects"] = defaults["allow_redirects"] = False
    return with_keywords(function, keywords, defaults)


def _make_bodiless_signature(function: FunctionType) -> Signature:
    own = function.__kwdefaults__ or {}
    found = make_verb_signature(function)
    kept = [
        each for name, each in found.parameters.items() if name in own or name not in _BODY_OPTIONS
    ]
    return found.replace(parameters=kept)


def _get_keywords() -> Iterator[Parameter]:
    """Yield the keywords of build_request, with the RouteOptions last."""
    from inspect import Parameter

    from curlhttp._client.options import RouteOptions

    made: Callable[..., object] = RequestBuilder.build_request
    for name, each in with_keywords(made, (), {}).parameters.items():
        if name not in ("self", "method", "url"):
            yield each
    for name, annotation in RouteOptions.__annotations__.items():
        shown = getattr(annotation, "__forward_arg__", annotation)
        default = DescribedDefault(f"client.{name}")
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=shown)


def _make_constructor_signature(function: FunctionType) -> Signature:
    from inspect import Parameter

    from curlhttp._client.options import ClientOptions
    from curlhttp._http.config import Limits

    limits = Limits()
    defaults: dict[str, object] = {name: getattr(limits, name) for name in Limits.__slots__}
    defaults["timeout"] = DescribedDefault("Timeout(connect=10, read=60)")
    types = ClientOptions.__annotations__
    keywords = [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=defaults.get(name, default),
            annotation=getattr(types[name], "__forward_arg__", types[name]),
        )
        for name, (default, _, _) in SETTINGS.items()
    ]
    return with_keywords(function, keywords, {})
