"""requests.models: a request as you write it and as it is sent, and the response."""

from __future__ import annotations

import copy
import datetime
import sys
from collections.abc import Iterator, Mapping
from io import BytesIO, TextIOBase, UnsupportedOperation
from json import JSONEncoder
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlencode, urlsplit

from curlhttp._http import response as _core
from curlhttp._http.decoding import decode_text
from curlhttp._http.headers import SENSITIVE
from curlhttp._http.json_reading import read_json
from curlhttp._http.multipart import make_form
from curlhttp._http.redaction import redact_field, redact_text, redact_url, strip_userinfo
from curlhttp._http.url import pairs
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ConnectionError,
    ContentDecodingError,
    HTTPError,
    InvalidJSONError,
    ReadTimeout,
    RequestException,
    StreamConsumedError,
)
from curlhttp.exceptions import SSLError as RequestsSSLError
from curlhttp.requests._cached import cached_property
from curlhttp.requests._headers import are_known_good, check_header
from curlhttp.requests._internal_utils import GetAttr, make_getattr, to_native_string
from curlhttp.requests._raw import RawResponse
from curlhttp.requests._url import prepare_url
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from collections.abc import Iterable

    import curlhttp.requests._types as t
    from curlhttp._http.inputs import FilesInput, JSONInput, ParamsInput, Text
    from curlhttp._http.sse import ResponseEvents
    from curlhttp.requests.adapters import HTTPAdapter
    from curlhttp.requests.cookies import RequestsCookieJar

__all__ = [
    "CONTENT_CHUNK_SIZE", "DEFAULT_REDIRECT_LIMIT", "ITER_CHUNK_SIZE", "REDIRECT_STATI",
    "PreparedRequest", "Request", "RequestEncodingMixin", "RequestHooksMixin", "Response",
]  # fmt: skip

__getattr__: GetAttr = make_getattr(
    __name__,
    {
        "auth": "HTTPBasicAuth",
        "compat": ("basestring builtin_str chardet cookielib json complexjson=json urlunparse"),
        "cookies": "_copy_cookie_jar cookiejar_from_dict get_cookie_header",
        "exceptions": (
            "InvalidURL JSONDecodeError MissingSchema RequestsJSONDecodeError=JSONDecodeError"
        ),
        "hooks": "default_hooks",
        "packages:urllib3.exceptions": (
            "DecodeError LocationParseError ProtocolError ReadTimeoutError SSLError"
        ),
        "packages:urllib3.fields": "RequestField",
        "packages:urllib3.filepost": "encode_multipart_formdata",
        "packages:urllib3.util": "parse_url",
        "_internal_utils": "unicode_is_ascii",
        "status_codes": "codes",
        "utils": (
            "check_header_validity get_auth_from_url guess_filename guess_json_utf iter_slices "
            "parse_header_links requote_uri stream_decode_response_unicode super_len "
            "to_key_val_list"
        ),
    },
)

CONTENT_CHUNK_SIZE = 10 * 1024
ITER_CHUNK_SIZE = 512
REDIRECT_STATI = (301, 302, 303, 307, 308)
DEFAULT_REDIRECT_LIMIT = 30

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_IGNORED_PART_HEADERS = ("content-type", "content-location")
_to_json = JSONEncoder(allow_nan=False).encode  # json.dumps(allow_nan=False) makes one per call
_UNSET: Any = object()


# --- requests ---


class LazyCookieJar:
    """Make a jar on first use: few programs have cookies, and http.cookiejar is slow to import."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        from curlhttp.requests.cookies import RequestsCookieJar

        return instance.__dict__.setdefault(self._name, RequestsCookieJar())


class RequestEncodingMixin:
    """Encode params, data and files; a base of PreparedRequest."""

    @property
    def path_url(self) -> str:
        """Return the path and query of the URL, which are the request target."""
        parts = urlsplit(self.url or "")  # type: ignore[attr-defined]
        return f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"

    @staticmethod
    def _encode_params(data: Any) -> Any:
        """Encode a mapping or pairs as a form; return anything else unchanged."""
        if isinstance(data, (str, bytes)) or hasattr(data, "read"):
            return data
        if not hasattr(data, "__iter__"):
            return data
        return urlencode(list(_get_fields(data)), doseq=True)

    @staticmethod
    def _encode_files(files: Any, data: Any, content_type: str | None = None) -> tuple[bytes, str]:
        """Encode files, after the fields of data, as multipart/form-data.

        Args:
            files: a mapping or pairs.
            data: the fields.
            content_type: of the request; requests ignores its boundary.

        Returns:
            The body and its Content-Type.

        Raises:
            ValueError: there are no files, data is a string, or an item is not a pair.
        """
        if not files:
            raise ValueError("Files must be provided.")
        if isinstance(data, (str, bytes)):
            raise ValueError("Data must not be a string.")
        from curlhttp.requests.utils import to_key_val_list

        fields = _get_fields(to_key_val_list(data or {}) or ())
        parts = _make_parts(to_key_val_list(files) or ())
        boundary = _get_urllib3_boundary()
        body = make_form(fields, parts, boundary=boundary, content_type=content_type)
        content = body.data
        if content is None:
            content = b"".join(iter(lambda: body.read(1 << 62), b""))
        return content, str(body.content_type)


def _get_fields(data: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the fields of a form: a list of values repeats the name, None is dropped."""
    for name, values in pairs(data):
        if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
            values = (values,)
        for value in values:
            if value is not None:
                yield name, value


def _get_urllib3_boundary() -> str | None:
    """Return urllib3's boundary if it is loaded, because caches patch it to a fixed one."""
    choose: Any = getattr(sys.modules.get("urllib3.filepost"), "choose_boundary", None)
    return None if choose is None else str(choose())


def _make_parts(files: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    from curlhttp.requests.utils import guess_filename

    for field, spec in files:
        if not isinstance(spec, (tuple, list)):
            spec = (guess_filename(spec) or field, spec)
        if not 2 <= len(spec) <= 4:
            raise ValueError(f"a file is given by 2 to 4 values, not {len(spec)}")
        filename, source, content_type, headers = (*spec, None, None)[:4]
        yield (
            field,
            (filename, _read_content(source), content_type or None, _filter_part_headers(headers)),
        )


def _read_content(source: Any) -> Any:
    """Read a file now, because a prepared body is bytes."""
    if hasattr(source, "read"):
        source = source.read()
        if source is None:
            raise TypeError("a file gave None, not bytes")
    if source is None or isinstance(source, (str, bytes)):
        return source
    return str(source) if isinstance(source, int) else bytes(memoryview(source))


def _filter_part_headers(headers: Any) -> dict[Any, Any]:
    """Return the headers of a part without those that come from its content type."""
    return {
        name: value
        for name, value in dict(headers or {}).items()
        if not isinstance(name, str) or name.lower() not in _IGNORED_PART_HEADERS
    }


class RequestHooksMixin:
    """Store the functions that are called with a response."""

    hooks: dict[str, list[Any]]

    def register_hook(self, event: str, hook: Iterable[object] | t.HookType) -> None:
        """Add a hook, or several.

        Args:
            event: "response".
            hook: a function, or an iterable of functions; items that are not callable are ignored.

        Raises:
            ValueError: there is no such event.
        """
        if event not in self.hooks:
            raise ValueError(f'Unsupported event specified, with event name "{event}"')
        if callable(hook):
            self.hooks[event].append(hook)
        elif hasattr(hook, "__iter__"):
            self.hooks[event].extend([each for each in hook if callable(each)])

    def deregister_hook(self, event: str, hook: t.HookType) -> bool:
        """Remove a hook, and return whether there was one."""
        try:
            self.hooks[event].remove(hook)
        except ValueError:
            return False
        return True


class Request(RequestHooksMixin):
    """Describe a request; prepare() returns the PreparedRequest that is sent.

    Args:
        method: the method, in any case.
        url: the URL.
        headers: a mapping of names to values.
        files: a mapping or pairs of field names and files, for a multipart form.
        data: the body, or a mapping or pairs of form fields.
        params: a mapping, pairs or text to append to the query of the URL.
        auth: (user, password), or a function from a prepared request to one.
        cookies: a mapping or a cookie jar.
        hooks: a mapping of events to hooks.
        json: sent as JSON if there is neither data nor files.
    """

    def __init__(
        self,
        method: str | None = None,
        url: t.UrlInput | None = None,
        headers: t.HeadersInput = None,
        files: FilesInput | None = None,
        data: t.DataInput = None,
        params: ParamsInput | None = None,
        auth: t.AuthInput = None,
        cookies: t.CookiesInput = None,
        hooks: t.HooksInput = None,
        json: JSONInput = None,
    ) -> None:
        self.hooks: dict[str, list[t.HookType]] = {"response": []}
        if hooks is not None:
            for event, hook in hooks.items():
                self.register_hook(event=event, hook=hook)
        self.method = method
        self.url = url
        self.headers: Mapping[str, Text | None] | Mapping[bytes, Text | None] = (
            {} if headers is None else headers
        )
        self.files: FilesInput = [] if files is None else files
        self.data: Iterable[object] | t.SupportsRead[Text] = [] if data is None else data
        self.json = json
        self.params: ParamsInput = {} if params is None else params
        self.auth = auth
        self.cookies = cookies

    def __repr__(self) -> str:
        return f"<Request [{self.method}]>"

    def prepare(self) -> PreparedRequest:
        """Return the PreparedRequest."""
        prepared = PreparedRequest()
        prepared.prepare(
            method=self.method,
            url=self.url,
            headers=self.headers,
            files=self.files,
            data=self.data,
            json=self.json,
            params=self.params,
            auth=self.auth,
            cookies=self.cookies,
            hooks=self.hooks,
        )
        return prepared


class PreparedRequest(RequestEncodingMixin, RequestHooksMixin):
    """A request as it is sent.

    Attributes:
        method: the method, in upper case.
        url: the URL, with params and percent-encoded; its userinfo and fragment are kept.
        headers: a CaseInsensitiveDict.
        body: str, bytes, a file, an iterable or None.
        hooks: a dict of events to lists of functions.
    """

    method: str | None
    url: str | None
    headers: CaseInsensitiveDict[str | bytes]
    body: Any
    _body_position: Any
    _cookies: Any = LazyCookieJar()

    def __init__(self) -> None:
        self.method = None
        self.url = None
        self.headers = None  # type: ignore[assignment]
        self._cookies = None
        self.body = None
        self.hooks: dict[str, list[t.HookType]] = {"response": []}
        self._body_position = None

    def prepare(
        self,
        method: str | None = None,
        url: t.UrlInput | None = None,
        headers: t.HeadersInput = None,
        files: FilesInput | None = None,
        data: t.DataInput = None,
        params: ParamsInput | None = None,
        auth: t.AuthInput = None,
        cookies: t.CookiesInput = None,
        hooks: t.HooksInput = None,
        json: JSONInput = None,
    ) -> None:
        """Set everything; see Request for the arguments."""
        if (
            type(self) is PreparedRequest
            and method in ("GET", "HEAD")
            and type(url) is str
            and "@" not in url
            and json is None
            and not (data or files or params or auth or cookies)
        ):
            # For most requests, this does the same as the code below in half the time.
            self.method = method
            self.url = prepare_url(url)
            self.prepare_headers(headers)
            del self._cookies  # see LazyCookieJar
            if hooks and any(hooks.values()):
                self.prepare_hooks(hooks)
            return
        self.prepare_method(method)
        self.prepare_url(url, params)
        self.prepare_headers(headers)
        self.prepare_cookies(cookies)
        self.prepare_body(data, files, json)
        # After the body, because it may sign the whole request.
        self.prepare_auth(auth, url)
        # After auth, so that its hooks are called before the caller's.
        self.prepare_hooks(hooks)

    def __repr__(self) -> str:
        return f"<PreparedRequest [{self.method}]>"

    def copy(self) -> PreparedRequest:
        """Return a copy; it shares body and hooks with this one."""
        twin = PreparedRequest()
        twin.method = self.method
        twin.url = self.url
        if self.headers is not None:
            twin.headers = self.headers.copy()
        if "_cookies" in self.__dict__:
            from curlhttp.requests.cookies import _copy_cookie_jar

            twin._cookies = _copy_cookie_jar(self._cookies)
        else:
            del twin._cookies
        twin.body = self.body
        twin.hooks = self.hooks
        twin._body_position = self._body_position
        return twin

    def without_credentials(self) -> PreparedRequest:
        """Return a copy without credentials.

        Pickled responses and errors hold it, because they end up in caches, queues and logs.
        """
        twin = self.copy()
        for name in list(twin.headers or ()):
            if name.lower() in SENSITIVE:
                del twin.headers[name]
        twin.__dict__.pop("_cookies", None)  # see LazyCookieJar
        twin.url = strip_userinfo(twin.url) if isinstance(twin.url, str) else twin.url
        if any(twin.hooks.values()):
            from curlhttp.requests.auth import remove_auth_hooks

            twin.hooks = remove_auth_hooks(twin.hooks)
        return twin

    def without_secrets(self) -> PreparedRequest:
        """Return a copy without credentials, with secrets in URLs and headers redacted.

        Pickled errors hold it, because an error is read and not sent again.
        """
        twin = self.without_credentials()
        twin.url = redact_url(twin.url) if isinstance(twin.url, str) else twin.url
        for name, value in (twin.headers or {}).items():
            twin.headers[name] = redact_field(name, to_native_string(value, "latin-1"))
        return twin

    def prepare_method(self, method: str | bytes | None) -> None:
        """Set the method."""
        self.method = None if method is None else to_native_string(method.upper())

    def prepare_url(self, url: t.UrlInput | None, params: ParamsInput | None) -> None:
        """Set the URL.

        Raises:
            MissingSchema: it has no scheme.
            InvalidURL: its host or port is invalid.
        """
        text = url if type(url) is str else url.decode() if isinstance(url, bytes) else str(url)
        if getattr(url, "is_raw", False):
            from curlhttp.exceptions import InvalidURL

            raise InvalidURL(
                f"{redact_url(text)!r} is a raw URL, which needs curlhttp.Client: like requests, "
                "this normalizes URLs"
            )
        if not params:
            self.url = prepare_url(text)
            return
        query = self._encode_params(params)
        if isinstance(query, bytes):
            query = query.decode("ascii")
        if not isinstance(query, str):
            raise TypeError(f"params cannot be a {type(params).__name__}")
        self.url = prepare_url(text, query)

    def prepare_headers(self, headers: t.HeadersInput) -> None:
        """Set the headers.

        Raises:
            InvalidHeader: a name or value is not str or bytes, or would break the message.
        """
        if type(headers) is CaseInsensitiveDict and are_known_good(headers._store.values()):
            self.headers = headers.copy()
            return
        self.headers = CaseInsensitiveDict()
        if headers:
            for name, value in headers.items():
                check_header(name, value)
                self.headers[to_native_string(name)] = cast("str | bytes", value)

    def prepare_cookies(self, cookies: t.CookiesInput) -> None:
        """Set the Cookie header, unless there is one.

        Args:
            cookies: a cookie jar or a mapping.
        """
        if cookies is None or (type(cookies) is dict and not cookies):
            self.__dict__.pop("_cookies", None)  # see LazyCookieJar
            return
        from http.cookiejar import CookieJar

        from curlhttp.requests.cookies import cookiejar_from_dict, get_cookie_header

        if not isinstance(cookies, CookieJar):
            cookies = cookiejar_from_dict(cookies)
        self._cookies = cookies
        header = get_cookie_header(self._cookies, self)
        if header is not None:
            self.headers["Cookie"] = header

    def prepare_body(
        self, data: t.DataInput, files: FilesInput | None, json: JSONInput = None
    ) -> None:
        """Set the body and the headers that describe it.

        Raises:
            InvalidJSONError: json contains NaN, an infinity, or itself.
            NotImplementedError: there are files, and data is a stream.
            ValueError: there are files, and data is a string.
        """
        if _is_stream(data):
            self._prepare_stream(data, files)
            return
        body = content_type = None
        if files:
            body, content_type = self._encode_files(files, data)
        elif data:
            body = self._encode_params(data)
            if not isinstance(data, (str, bytes)) and not hasattr(data, "read"):
                content_type = _FORM
        elif json is not None:
            body, content_type = self._encode_json(json), _JSON
        self.prepare_content_length(body)
        if content_type is not None and "content-type" not in self.headers:
            self.headers["Content-Type"] = content_type
        self.body = body

    def _encode_json(self, value: object) -> bytes:
        try:
            return _to_json(value).encode()
        except ValueError as error:
            raise InvalidJSONError(error, request=cast(Any, self)) from error

    def _prepare_stream(self, data: Any, files: FilesInput | None) -> None:
        try:
            length = _get_length(data)
        except (TypeError, AttributeError, UnsupportedOperation):
            length = None
        self.body = data
        if getattr(data, "tell", None) is not None:
            try:
                self._body_position = data.tell()
            except OSError:
                self._body_position = object()  # a sentinel: it cannot be rewound
        if files:
            raise NotImplementedError("Streamed bodies and files are mutually exclusive.")
        if length:
            self.headers["Content-Length"] = str(length)
        else:
            self.headers["Transfer-Encoding"] = "chunked"

    def prepare_content_length(self, body: object) -> None:
        """Set Content-Length, if the body or the method determines it."""
        if body is not None:
            if length := _get_length(body):
                self.headers["Content-Length"] = str(length)
        elif self.method not in ("GET", "HEAD") and self.headers.get("Content-Length") is None:
            self.headers["Content-Length"] = "0"

    def prepare_auth(self, auth: t.AuthInput, url: t.UrlInput | None = "") -> None:
        """Apply auth, or else the userinfo of the URL.

        Args:
            auth: (user, password), or a function from a prepared request to one.
            url: unused; requests has the parameter.
        """
        if auth is None:
            if not self.url or "@" not in self.url:
                return
            from curlhttp.requests._url import get_auth_from_url

            userinfo = get_auth_from_url(self.url)
            auth = userinfo if any(userinfo) else None
        if not auth:
            return
        if isinstance(auth, tuple) and len(auth) == 2:
            from curlhttp.requests.auth import HTTPBasicAuth

            auth = HTTPBasicAuth(*auth)
        if isinstance(auth, type) or not callable(auth):
            _refuse_auth(auth)
        signed = auth(self)
        if cast(object, signed) is None:
            raise AttributeError("auth must return the request that it was called with, not None")
        self.__dict__.update(signed.__dict__)
        self.prepare_content_length(self.body)

    def prepare_hooks(self, hooks: t.HooksInput) -> None:
        """Add the caller's hooks to the existing ones."""
        for event, hook in (hooks or {}).items():
            if hook or event not in self.hooks:
                self.register_hook(event, hook)


def _refuse_auth(auth: object) -> None:
    """Raise TypeError for an auth= that the clients refuse, too, in their words."""
    from curlhttp._http.auth import to_auth

    try:
        to_auth(auth)  # type: ignore[arg-type]
    except TypeError as error:
        kind = type(auth).__name__
        # requests has only the first part.
        why = "" if callable(auth) else f"{kind!r} object is not callable: "
        raise TypeError(f"{why}{error}") from None


def _is_stream(data: object) -> bool:
    # The most frequent types first, because the check of an ABC is slow.
    if data is None or isinstance(data, (list, dict, str, bytes, tuple)):
        return False
    return hasattr(data, "__iter__") and not isinstance(data, Mapping)


def _get_length(body: object) -> int:
    if type(body) is bytes or (type(body) is str and body.isascii()):
        return len(body)
    from curlhttp.requests._core_request import super_len

    length = int(super_len(body))
    return _get_text_length(body) if length and isinstance(body, TextIOBase) else length


def _get_text_length(file: TextIOBase) -> int:
    """Return the size in bytes of the rest of a text file, which is sent as UTF-8."""
    start = file.tell()
    length = sum(len(piece.encode()) for piece in iter(lambda: file.read(1 << 16), ""))
    file.seek(start)
    return length


# --- responses ---


class Response(_core.Response):
    """A response as in requests. You can set all attributes; they are computed on first use.

    Attributes:
        status_code: for example 200; None in a response that a program created.
        url: the URL as it was requested.
        history: the responses that redirected here, oldest first.
        request: its PreparedRequest.
        raw: the body as a file, and the head with urllib3's attributes.
        connection: the adapter that sent the request.
    """

    __attrs__: list[str] = [
        "_content",
        "status_code",
        "url",
        "headers",
        "history",
        "encoding",
        "reason",
        "cookies",
        "elapsed",
        "request",
        "_head",
        "_times",
    ]

    history: Any = None  # an attribute as in requests; the core's is a property
    # Class attributes, because most responses never set them.
    _content: Any = False  # False: not read yet
    _content_consumed = False
    _has_failed = False  # reading the body failed
    _is_followed = False  # the session follows this redirect; its body is limited
    _kept_start: bytes | None = None  # the kept start of such a body, undecoded
    _head: Any = None
    _next: Any = None
    status_code: Any = None
    request: Any = None
    raw: Any = None
    url: Any = None
    _times: Any = None
    if TYPE_CHECKING:
        connection: HTTPAdapter
    else:
        connection: Any  # a name that get_type_hints() finds
    _encoding: Any = _UNSET
    _reason: Any = _UNSET

    def __init__(self) -> None:
        self.history = []

    # --- the head ---

    @cached_property
    def headers(self) -> Any:
        """Return the header fields, case-insensitive; repeated ones are joined by ", "."""
        is_received = isinstance(self.raw, RawResponse)
        return CaseInsensitiveDict(self.raw.received.headers.items() if is_received else ())

    @property
    def encoding(self) -> Any:
        """Return the charset of text: the one you set, or that of the headers, or None."""
        if self._encoding is _UNSET:
            if type(self.raw) is not RawResponse:
                return None
            from curlhttp.requests._headers import get_encoding_from_headers

            self._encoding = get_encoding_from_headers(self.headers)
        return self._encoding

    @encoding.setter
    def encoding(self, encoding: Any) -> None:
        self._encoding = encoding

    @property
    def reason(self) -> Any:
        """Return the reason phrase."""
        if self._reason is _UNSET:
            return None if self.raw is None else getattr(self.raw, "reason", None)
        return self._reason

    @reason.setter
    def reason(self, reason: Any) -> None:
        self._reason = reason

    reason_phrase = reason

    @property
    def http_version(self) -> Any:
        """Return "HTTP/1.1", "HTTP/2" and so on; None in a response that a program made."""
        return None if self._head is None else self._head.http_version

    @cached_property
    def cookies(self) -> Any:
        """Return the cookies that this response set."""
        from curlhttp.requests.cookies import RequestsCookieJar, extract_cookies_to_jar

        jar: RequestsCookieJar = RequestsCookieJar()
        if self.raw is not None and self.request is not None:
            extract_cookies_to_jar(jar, self.request, self.raw)
        return jar

    @property
    def sets_cookies(self) -> bool:
        """Return whether there may be a Set-Cookie, without reading the fields."""
        head = self._head
        if head is None:
            return self.raw is not None
        lower: str = head.lower
        return "\nset-cookie:" in lower

    @property
    def timings(self) -> Any:
        """Return the timings of the last transfer; None in a response that a program made."""
        return None if self._times is None else super().timings

    @timings.setter
    def timings(self, timings: Any) -> None:
        self._times = timings

    @cached_property
    def elapsed(self) -> datetime.timedelta:
        """Return the time from sending the last request to receiving the head of its response."""
        timings = self.timings
        seconds = 0.0 if timings is None else timings.queue + timings.first_byte
        return datetime.timedelta(seconds=seconds)

    @property
    def links(self) -> dict[str, dict[str, str]]:
        """Return the Link header's links by relation, or else by URL."""
        value = self.headers.get("link")
        return _core.parse_links(value) if value else {}

    # --- the status ---

    @property
    def is_error(self) -> bool:
        """Return whether the status is 4xx or 5xx."""
        status: int = self.status_code
        return 400 <= status < 600

    @property
    def ok(self) -> bool:
        """Return whether raise_for_status() would not raise."""
        try:
            self.raise_for_status()
        except HTTPError:
            return False
        return True

    def __bool__(self) -> bool:
        return self.ok

    def __nonzero__(self) -> bool:
        return self.ok

    @property
    def is_redirect(self) -> bool:
        """Return whether this is a redirect: it has a redirect status and a Location."""
        return self.status_code in REDIRECT_STATI and "location" in self.headers

    @property
    def is_permanent_redirect(self) -> bool:
        """Return whether this is a permanent redirect."""
        return self.status_code in (301, 308) and "location" in self.headers

    @property
    def next(self) -> Any:
        """Return the PreparedRequest for a redirect that was not followed."""
        return self._next

    @property
    def _can_follow(self) -> bool:
        """Return whether to follow: the engine also saw a redirect, and limited its body."""
        head, raw = self._head, self.raw
        return self.is_redirect and (
            head is None
            or head.redirects
            or self.status_code != head.status_code
            or type(raw) is not RawResponse
            or self.headers["location"] != raw.received.headers.get("location")
        )

    def raise_for_status(self) -> Any:
        """Raise for a 4xx or 5xx status.

        Raises:
            HTTPError: the status is an error.
        """
        if not 400 <= self.status_code < 600:
            return
        side = "Client" if self.status_code < 500 else "Server"
        reason, shown = _to_text(self.reason), _redact_url(self.url)
        raise HTTPError(
            f"{self.status_code} {side} Error: {reason} for url: {shown}",
            response=self,
        )

    def __repr__(self) -> str:
        return f"<Response [{self.status_code}]>"

    # --- the body ---

    @property
    def content(self) -> Any:
        """Return the decoded body; None if there is no body to read.

        Raises:
            RuntimeError: the body was iterated over before.
            RequestException: the body broke off or is corrupt.
        """
        if self._content is False:
            if self._is_followed or self._kept_start is not None:
                from curlhttp.requests._unread_bodies import decode_start

                self._content = decode_start(self)
            elif self._content_consumed:
                raise RuntimeError("The content for this response was already consumed")
            elif self.raw is None or self.status_code == 0:
                self._content = None
            else:
                self._content = self._read_content()
        self._content_consumed = True
        return self._content

    def _read_content(self) -> bytes:
        if type(self.raw) is RawResponse:
            whole = self.raw.read_buffered()
            if whole is not None:
                return whole
        body = BytesIO()  # because a list of small pieces needs a multiple of the memory
        body.writelines(self.iter_content(CONTENT_CHUNK_SIZE))
        return body.getvalue()

    @property
    def text(self) -> str:
        """Return the body as text; invalid bytes are replaced."""
        content = self.content
        if not content:
            return ""
        from curlhttp.requests._text import get_charset

        encoding = self.encoding
        if encoding is None:
            encoding = self.apparent_encoding
        return decode_text(content, get_charset(encoding, self.headers) or "utf_8")

    @property
    def apparent_encoding(self) -> Any:
        """Return the charset that is detected in the body."""
        from curlhttp.requests.compat import chardet

        return "utf-8" if chardet is None else chardet.detect(self.content)["encoding"]

    def json(self, **kwargs: Any) -> Any:
        """Return the body read as JSON.

        Args:
            kwargs: passed on to json.loads.

        Raises:
            JSONDecodeError: the body is not JSON.
        """
        content = self.content
        if self.encoding is None and content and len(content) > 3:
            from curlhttp.requests._text import guess_json_utf

            encoding = guess_json_utf(content)
            if encoding is not None:
                try:
                    return read_json(content.decode(encoding), kwargs, self)
                except UnicodeDecodeError:
                    pass  # try text instead
        return read_json(self.text, kwargs, self)

    def _name_request(self) -> str:
        return f"{getattr(self.request, 'method', None) or 'the request'} {_redact_url(self.url)}"

    def iter_content(self, chunk_size: int | None = 1, decode_unicode: bool = False) -> Any:
        """Yield the decoded body in pieces.

        Args:
            chunk_size: bytes per piece; None for pieces as they arrive.
            decode_unicode: yield str, if the encoding is known.

        Raises:
            StreamConsumedError: the body was iterated over before.
            TypeError: chunk_size is not a number.
        """
        if self._is_followed or self._kept_start is not None:
            _ = self.content
        if self._content_consumed and self._content is False:
            raise StreamConsumedError(
                "The content for this response was already consumed", response=self
            )
        if chunk_size is not None and not isinstance(chunk_size, int):
            raise TypeError(f"chunk_size must be an int, it is instead a {type(chunk_size)}.")
        pieces: Iterator[Any]
        if self._content_consumed:
            from curlhttp.requests._text import iter_slices

            pieces = iter_slices(self._content, chunk_size)
        else:
            pieces = self._pieces(chunk_size)
        if decode_unicode:
            from curlhttp.requests._text import stream_decode_response_unicode

            return stream_decode_response_unicode(pieces, self)
        return pieces

    def _pieces(self, chunk_size: int | None, decodes: bool = True) -> Iterator[bytes]:
        raw = self.raw
        try:
            if hasattr(raw, "stream"):
                yield from raw.stream(chunk_size, decode_content=decodes)
            else:
                while piece := raw.read(chunk_size):
                    yield piece
        except Exception as error:
            found = self._to_requests_error(error)
            if found is error:
                raise
            raise found from error
        self._content_consumed = True

    def _to_requests_error(self, error: Exception) -> Exception:
        """Return requests' exception for an error that reading a body raised."""
        self._has_failed = True
        cause = error.__cause__
        if isinstance(cause, RequestException):  # ours, translated for urllib3
            cause.args, error.__cause__ = (error,), None
            error = cause
        if isinstance(error, RequestException):
            error.request, error.response = self.request, self
            if isinstance(error, ReadTimeout):  # as in requests after the head
                failure = ConnectionError(
                    *error.args,
                    request=self.request,
                    response=self,
                    curl_code=error.curl_code,
                    request_sent=True,
                    timings=error.timings,
                )
                failure._reason = "read_timeout"
                return failure
            return error
        kinds = {kind.__name__ for kind in type(error).__mro__ if "urllib3" in kind.__module__}
        for name, kind in _ERRORS_OF_URLLIB3.items():
            if name in kinds:
                return kind(error, request=self.request, response=self)
        return error

    def iter_lines(
        self,
        chunk_size: int | None = ITER_CHUNK_SIZE,
        decode_unicode: bool = False,
        delimiter: Any = None,
    ) -> Iterator[Any]:
        """Yield the body line by line, without the line ends.

        Args:
            chunk_size: bytes read at once.
            decode_unicode: yield str, if the encoding is known.
            delimiter: what ends a line, instead of the line ends of splitlines().
        """
        from curlhttp.requests._text import split_lines

        yield from split_lines(self.iter_content(chunk_size, decode_unicode), delimiter)

    def __iter__(self) -> Iterator[bytes]:
        return cast("Iterator[bytes]", self.iter_content(128))

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Yield the body in pieces, like iter_content(chunk_size)."""
        return cast("Iterator[bytes]", self.iter_content(chunk_size))

    def iter_events(self, *, max_event_size: int | None = _core.MAX_EVENT_SIZE) -> ResponseEvents:
        """Yield the server-sent events of the body; with stream=True, when they arrive."""
        return self._make_event_chunks(max_event_size).iterate(self.iter_bytes())

    def _get_content_types(self) -> list[str]:
        found = self.headers.get("content-type")
        return [] if found is None else [found]

    def close(self) -> None:
        """Discard the rest of the body, and close its connection unless all was read."""
        if self.raw is None:
            return
        if not self._content_consumed:
            self.raw.close()
        release = getattr(self.raw, "release_conn", None)
        if release is not None:
            release()

    # --- pickling ---

    def __getstate__(self) -> dict[str, Any]:
        if not self._content_consumed and not self._has_failed:  # its error was raised before
            _ = self.content
        state = {name: getattr(self, name, None) for name in self.__attrs__}
        state["request"] = _without_credentials(self.request)
        if isinstance(self.url, str):
            state["url"] = strip_userinfo(self.url)
        return state

    def _redact(self) -> None:
        self.url = redact_url(self.url) if isinstance(self.url, str) else self.url
        fields = [(name, redact_field(name, value)) for name, value in self.headers.items()]
        cookies = copy.copy(self.cookies)
        cookies.clear()
        if self._head is not None:
            super()._redact()
        self.headers, self.cookies = CaseInsensitiveDict(fields), cookies

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._content_consumed = True
        self.raw = None


def _without_credentials(request: Any) -> Any:
    """Return a request, or a program's wrapper of one, without credentials."""
    if _has_credentials_method(request):
        return request.without_credentials()
    inner = {
        name: value
        for name, value in _attributes(request).items()
        if _has_credentials_method(value)
    }
    if not inner:
        return request
    twin = copy.copy(request)
    _attributes(twin).update((name, value.without_credentials()) for name, value in inner.items())
    return twin


def _has_credentials_method(request: Any) -> bool:
    # Look on the type, because a wrapper may forward attributes.
    return hasattr(type(request), "without_credentials")


def _attributes(thing: Any) -> dict[str, Any]:
    return getattr(thing, "__dict__", {})


def _to_text(reason: Any) -> Any:
    if not isinstance(reason, bytes):
        return reason
    try:
        return reason.decode("utf-8")
    except UnicodeDecodeError:
        return reason.decode("iso-8859-1")


def _redact_url(url: Any) -> Any:
    """Return a URL without secrets for a message; requests shows all of it."""
    if not isinstance(url, str):
        return url
    return redact_text(strip_userinfo(url))


# For third-party bodies: urllib3's exceptions by name, because it may not be loaded.
_ERRORS_OF_URLLIB3: dict[str, type[RequestException]] = {
    "ProtocolError": ChunkedEncodingError,
    "DecodeError": ContentDecodingError,
    "ReadTimeoutError": ConnectionError,
    "SSLError": RequestsSSLError,
}
