"""curlhttp.get() and so on: requests' arguments and response, with the defaults of the clients.

They send the clients' headers, decode bodies by the clients' rules, and raise errors with the
clients' words. `requests.api` has the functions that do everything as requests does.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from io import TextIOBase
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

import curlhttp.requests.sessions as sessions
from curlhttp._models import response as _core
from curlhttp._models.body import FileBody
from curlhttp._models.config import NetworkRoute, Proxy, describe_authorities, to_proxy_mapping
from curlhttp._models.decoding import ContentDecoder, parse_codings, undo_codings
from curlhttp._models.headers import DEFAULT_HEADERS
from curlhttp._models.redaction import display_url
from curlhttp._models.url import URL, get_fields
from curlhttp.exceptions import ContentDecodingError, RequestException, SSLError, TooManyRedirects
from curlhttp.requests.__version__ import __version__
from curlhttp.requests._core_request import to_header_text
from curlhttp.requests._url import escape_bare_percents
from curlhttp.requests.adapters import HTTPAdapter
from curlhttp.requests.api import send_once
from curlhttp.requests.models import PreparedRequest, Response
from curlhttp.requests.sessions import set_verb_signatures
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Unpack

    import curlhttp.requests._types as t
    from curlhttp._models.inputs import JSON, ParamsInput, Text
    from curlhttp._models.request import ClientRequest
    from curlhttp.requests.cookies import RequestsCookieJar


_T = TypeVar("_T")


class UTF8Response(Response):
    """A response as in requests, whose text is UTF-8 if the server names no charset."""

    _encoding: Any = None
    _is_coded_part = False

    if TYPE_CHECKING:  # those of the base class are Any, because programs assign their own objects
        status_code: int
        url: str
        reason: str
        headers: CaseInsensitiveDict[str]
        cookies: RequestsCookieJar
        history: list[Response]
        request: PreparedRequest
        encoding: str | None

        @property
        def content(self) -> bytes: ...
        @property
        def text(self) -> str: ...
        @overload
        def json(self, *, type: type[_T], **options: object) -> _T: ...
        @overload
        def json(self, *, type: object = None, **options: object) -> Any: ...
        def json(self, **options: object) -> Any: ...
        @overload
        def iter_lines(
            self, chunk_size: int | None = ..., *, delimiter: str | bytes | None = ...
        ) -> Iterator[bytes]: ...
        @overload
        def iter_lines(
            self,
            chunk_size: int | None = ...,
            decode_unicode: bool = ...,
            delimiter: str | bytes | None = ...,
        ) -> Iterator[Any]: ...
        def iter_lines(self, *args: object, **kwargs: object) -> Iterator[Any]: ...

    else:
        encoding = _core.Response.encoding
        text = _core.Response.text
        json = _core.Response.json

    def raise_for_status(self) -> UTF8Response:
        """Return this response, or raise for a 4xx or 5xx status.

        Raises:
            HTTPError: the status is an error.
        """
        super().raise_for_status()
        return self

    def _get_location(self) -> str:
        return escape_bare_percents(super()._get_location())

    def _read_content(self) -> bytes:
        coding = self.headers.get("content-encoding")
        if coding is None or self.status_code != _core.PARTIAL_CONTENT:
            return super()._read_content()
        body = b"".join(self._pieces(None, decodes=False))
        try:
            return undo_codings(body, codings) if (codings := parse_codings([coding])) else body
        except ContentDecodingError:
            self._is_coded_part = True
            return body

    def iter_content(self, chunk_size: int | None = 1, decode_unicode: bool = False) -> Any:
        """Yield the decoded body in pieces.

        Args:
            chunk_size: bytes per piece; None for pieces as they arrive.
            decode_unicode: yield str.

        Raises:
            StreamConsumedError: it was iterated over before.
            TypeError: chunk_size is not a number.
        """
        pieces: Iterator[bytes] = super().iter_content(chunk_size)
        if not decode_unicode:
            return pieces
        from curlhttp.requests._text import decode_pieces

        return decode_pieces(pieces, self._charset())

    def _pieces(self, chunk_size: int | None, decodes: bool = True) -> Iterator[bytes]:
        yield from super()._pieces(chunk_size, decodes)
        decoder = getattr(self.raw, "_decoder", None)
        # The pieces of a part end without an error, as in requests.
        if isinstance(decoder, ContentDecoder) and self.status_code == _core.PARTIAL_CONTENT:
            try:
                decoder.finish()
            except ContentDecodingError as error:
                raise self._to_requests_error(error) from error

    def _to_requests_error(self, error: Exception) -> Exception:
        if isinstance(error, ContentDecodingError) and self.status_code == _core.PARTIAL_CONTENT:
            return _core.coded_part_error(cast("_core.Response", self))
        cause = error.__cause__
        text = str(cause) if isinstance(cause, RequestException) else None
        found = super()._to_requests_error(error)
        if text is not None and isinstance(found, RequestException):
            found._text = text
        return found


class _Adapter(HTTPAdapter):
    """Raise requests' errors, which hold urllib3's, but with the text of the clients' errors."""

    _response_class = UTF8Response
    _sends_utf8 = True

    def _find_route(
        self,
        request: PreparedRequest,
        url: URL,
        verify: t.VerifyInput,
        cert: t.CertInput,
        proxies: t.ProxiesInput,
    ) -> NetworkRoute:
        try:
            return super()._find_route(request, url, verify, cert, proxies)
        except FileNotFoundError as error:
            if isinstance(verify, str) and describe_authorities(verify) != verify:
                # A path of the environment is not the caller's mistake.
                text = f"{request.method} {display_url(url)}: {error}"
                raise SSLError(text, request=request) from None  # type: ignore[arg-type]
            raise

    def _attempt(self, sent: ClientRequest) -> _core.Response:
        try:
            return super()._attempt(sent)
        except RequestException as error:
            error._text = str(error)
            raise


_USER_AGENT = f"python-requests/{__version__}"
_headers: CaseInsensitiveDict[Text | None] = CaseInsensitiveDict(DEFAULT_HEADERS)
_adapter = _Adapter()  # adapters are thread-safe and open nothing before the first request


def _to_urls(proxies: t.ProxiesInput) -> t.ProxiesInput:
    found = to_proxy_mapping(proxies or {})
    for key, proxy in found.items():
        if isinstance(proxy, Proxy):
            raise TypeError(
                f"proxies[{key!r}] must be a URL; curlhttp.Client(proxies=...) takes a Proxy"
            )
    return cast("Mapping[str, str | None]", found)


def request(method: str, url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> UTF8Response:
    """Send a request and return the response.

    Args:
        method: such as "GET".
        url: absolute.
        kwargs: see Session.request.

    Raises:
        RequestException: the request could not be sent, or no response was received.
        TypeError, ValueError: an argument is invalid, as in the clients.
    """
    if len(kwargs) > 1 or kwargs.get("params"):  # get() always passes params
        if kwargs.get("params"):
            kwargs["params"] = _escape(kwargs["params"])
        for name in ("params", "data"):
            fields: object = kwargs.get(name)
            if type(fields) is dict and any(map(_is_no_text, fields.values())):
                get_fields(name, fields)  # raises, because requests would send the keys, or lines
        if kwargs.get("proxies"):
            kwargs["proxies"] = _to_urls(kwargs["proxies"])
        if kwargs.get("json") is not None and any(map(kwargs.get, ("data", "content", "files"))):
            _encode_body(kwargs)  # raises, because requests would leave the JSON out
    url = _escape(url)
    session = sessions.Session()
    session._follows_client_rules = True
    if session.headers.get("User-Agent") == _USER_AGENT:  # else a program has replaced them
        session.headers = _headers.copy()
    try:
        given = kwargs.get
        if given("headers") or given("data") is not None or given("content") is not None:
            _apply_client_rules(session, cast("dict[str, object]", kwargs))
        return cast(UTF8Response, send_once(session, _adapter, method, url, kwargs))
    except TooManyRedirects as error:
        if isinstance(error.response, UTF8Response):  # else a program's
            error._text = (
                f"{error} The response to {error.response._name_request()} is another one; "
                "curlhttp.Client(max_redirects=...) sets the limit"
            )
        raise
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        # A wrong argument, or what a function of the caller's has raised.
        if not getattr(error, "request_sent", False):
            _check(method, url, kwargs)
        raise


def _escape(text: _T) -> _T | str:
    """Escape each "%" that begins no escape; requests would escape all if there is one."""
    plain: object = text
    if isinstance(text, bytes):
        with suppress(UnicodeDecodeError):
            plain = text.decode()
    return escape_bare_percents(plain) if isinstance(plain, str) and "%" in plain else text


def _apply_client_rules(session: sessions.Session, options: dict[str, object]) -> None:
    """Change what requests would send worse: a range, an empty file, a form with a boundary."""
    headers, data = options.get("headers"), options.get("data")
    for body in ("data", "content"):
        if hasattr(options.get(body), "read") and _is_empty(options[body]):
            options[body] = None  # requests would send it in chunks
    if not isinstance(headers, Mapping):
        return
    names = {_to_name(name): name for name in headers}
    if names.get("range") is not None:
        session.headers["Accept-Encoding"] = "identity"  # unless the headers have another
    name, files = names.get("content-type"), options.get("files")
    if files and name is not None and isinstance(headers[name], (str, bytes)):
        form, kind = PreparedRequest._encode_files(files, data, to_header_text(headers[name]))
        options.update(data=form, files=None, headers={**headers, name: kind})


def _is_empty(file: object) -> bool:
    if not isinstance(file, TextIOBase):
        return FileBody(file).length == 0
    if not file.seekable():
        return False
    start = file.tell()
    piece = file.read(1)
    file.seek(start)
    return not piece


def _to_name(name: object) -> object:
    text = name.decode("latin-1") if isinstance(name, bytes) else name
    return text.lower() if isinstance(text, str) else name


def _is_no_text(value: object) -> bool:
    return type(value) is dict or hasattr(value, "read")


# Any, here and below: these run because an argument has the wrong type.
def _encode_body(options: Any) -> None:
    """Raise the clients' error for a body that cannot be sent."""
    from curlhttp._models.body import encode_body

    encode_body(**{name: options.get(name) for name in ("content", "data", "json", "files")})


def _check(method: str, url: Any, options: Any) -> None:
    """Raise the clients' error for an invalid argument."""
    from curlhttp._models.config import TLS
    from curlhttp._models.cookies.jar import Cookies
    from curlhttp._models.headers import Headers, check_method
    from curlhttp._models.timeout import Timeout
    from curlhttp._models.url import parse_url
    from curlhttp._policy.auth import to_auth

    given = options.get
    check_method(method)
    parse_url(url).with_params(given("params"))
    Headers().merged(given("headers") or {})
    _encode_body(options)
    to_auth(given("auth"))
    Cookies(given("cookies") or {})
    if not hasattr(given("timeout"), "_connect"):  # urllib3's
        Timeout.of(given("timeout"))
    verify, cert = given("verify"), given("cert")
    TLS(verify=True if verify is None else verify, cert=tuple(cert) if type(cert) is list else cert)
    # What the clients take, and requests does not:
    for name in ("headers", "cookies", "hooks"):
        value = given(name)
        if value is not None and not hasattr(value, "items"):
            raise TypeError(f"{name} must be a mapping, not {type(value).__name__}")
    for name, value in dict(given("cookies") or {}).items():
        if not isinstance(value, str):
            raise TypeError(f"cookies[{name!r}] must be a str, not {type(value).__name__}")


def get(
    url: t.UrlInput, params: ParamsInput | None = None, **kwargs: Unpack[t.GetOptions]
) -> UTF8Response:
    """Send GET; see request."""
    return request("GET", url, params=params, **kwargs)


def options(url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> UTF8Response:
    """Send OPTIONS; see request."""
    return request("OPTIONS", url, **kwargs)


def head(url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> UTF8Response:
    """Send HEAD; see request. Redirects are not followed by default."""
    kwargs.setdefault("allow_redirects", False)
    return request("HEAD", url, **kwargs)


def post(
    url: t.UrlInput, data: t.DataInput = None, json: JSON = None, **kwargs: Unpack[t.PostOptions]
) -> UTF8Response:
    """Send POST; see request."""
    return request("POST", url, data=data, json=json, **kwargs)


def put(url: t.UrlInput, data: t.DataInput = None, **kwargs: Unpack[t.PutOptions]) -> UTF8Response:
    """Send PUT; see request."""
    return request("PUT", url, data=data, **kwargs)


def patch(
    url: t.UrlInput, data: t.DataInput = None, **kwargs: Unpack[t.PutOptions]
) -> UTF8Response:
    """Send PATCH; see request."""
    return request("PATCH", url, data=data, **kwargs)


def delete(url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> UTF8Response:
    """Send DELETE; see request."""
    return request("DELETE", url, **kwargs)


def stream(method: str, url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> UTF8Response:
    """Send a request and return when the head has arrived; use the response in `with`.

    As in requests, its iter_lines() yields bytes; iter_lines(decode_unicode=True) yields str.
    """
    kwargs["stream"] = True
    return request(method, url, **kwargs)


set_verb_signatures(globals(), sessions.Session.request)
