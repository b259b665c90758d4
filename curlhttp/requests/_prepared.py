"""A request as a caller describes it, and as it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from io import TextIOBase, UnsupportedOperation
from json import JSONEncoder
from typing import TYPE_CHECKING, Any, cast

from curlhttp._models.headers import SENSITIVE
from curlhttp._models.redaction import redact_field, redact_url, strip_userinfo
from curlhttp.exceptions import InvalidJSONError
from curlhttp.requests._encoding import RequestEncodingMixin
from curlhttp.requests._header_check import are_known, check_header
from curlhttp.requests._internal_utils import to_native_string
from curlhttp.requests._late_jar import JarOnDemand
from curlhttp.requests._url import prepare_url
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from curlhttp._models.inputs import JSON, FilesInput, ParamsInput, Text
    from curlhttp.requests import _types as t

__all__ = ["PreparedRequest", "Request", "RequestEncodingMixin", "RequestHooksMixin"]

_FORM = "application/x-www-form-urlencoded"
_JSON = "application/json"
_to_json = JSONEncoder(allow_nan=False).encode  # json.dumps(allow_nan=False) makes one per call


class RequestHooksMixin:
    """Keep the functions that are called with a response."""

    hooks: dict[str, list[Any]]

    def register_hook(self, event: str, hook: Iterable[object] | t.HookType) -> None:
        """Add a hook, or several.

        Args:
            event: "response".
            hook: a function, or an iterable of which only the functions are taken.

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
        """Remove a hook and tell whether it was there."""
        try:
            self.hooks[event].remove(hook)
        except ValueError:
            return False
        return True


class Request(RequestHooksMixin):
    """Describe a request; prepare() makes of it what is sent.

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
        json: what to send as JSON when there is neither data nor files.
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
        json: JSON = None,
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
        """Return what is sent."""
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
    """Hold a request as it is sent.

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
    _cookies: Any = JarOnDemand()

    def __init__(self) -> None:
        self.method = None
        self.url = None
        self.headers = cast(Any, None)
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
        json: JSON = None,
    ) -> None:
        """Set everything, see Request for the arguments."""
        if (
            type(self) is PreparedRequest
            and method in ("GET", "HEAD")
            and type(url) is str
            and "@" not in url
            and json is None
            and not (data or files or params or auth or cookies)
        ):
            # The same as below for what most requests are, in half the time.
            self.method = method
            self.url = prepare_url(url)
            self.prepare_headers(headers)
            del self._cookies  # see JarOnDemand
            if hooks and any(hooks.values()):
                self.prepare_hooks(hooks)
            return
        self.prepare_method(method)
        self.prepare_url(url, params)
        self.prepare_headers(headers)
        self.prepare_cookies(cookies)
        self.prepare_body(data, files, json)
        # It may sign the whole request, so it comes after the rest.
        self.prepare_auth(auth, url)
        # What auth hooks in is called before the caller's hooks.
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
        """Return a copy that tells what was asked for, and holds no credentials.

        Pickled responses and errors have this one: they end up in caches, queues and logs.
        """
        twin = self.copy()
        for name in list(twin.headers or ()):
            if name.lower() in SENSITIVE:
                del twin.headers[name]
        twin.__dict__.pop("_cookies", None)  # see JarOnDemand
        twin.url = strip_userinfo(twin.url) if isinstance(twin.url, str) else twin.url
        if any(twin.hooks.values()):
            from curlhttp.requests.auth import without_auths

            twin.hooks = without_auths(twin.hooks)
        return twin

    def without_secrets(self) -> PreparedRequest:
        """Return a copy without credentials, the secrets of its URLs masked as in a message.

        Pickled errors have this one: an error is kept to be read, not to be sent again.
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
            InvalidURL: its host or port makes no sense.
        """
        text = url if type(url) is str else url.decode() if isinstance(url, bytes) else str(url)
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
        if type(headers) is CaseInsensitiveDict and are_known(headers._store.values()):
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
            self.__dict__.pop("_cookies", None)  # see JarOnDemand
            return
        from http.cookiejar import CookieJar

        from curlhttp.requests.cookies import cookiejar_from_dict, get_cookie_header

        if not isinstance(cookies, CookieJar):
            cookies = cookiejar_from_dict(cookies)
        self._cookies = cookies
        header = get_cookie_header(self._cookies, self)
        if header is not None:
            self.headers["Cookie"] = header

    def prepare_body(self, data: t.DataInput, files: FilesInput | None, json: JSON = None) -> None:
        """Set the body and the headers that describe it.

        Raises:
            InvalidJSONError: json holds NaN or an infinity, or itself.
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
            length = _length(data)
        except (TypeError, AttributeError, UnsupportedOperation):
            length = None
        self.body = data
        if getattr(data, "tell", None) is not None:
            try:
                self._body_position = data.tell()
            except OSError:
                self._body_position = object()  # says that it cannot be rewound
        if files:
            raise NotImplementedError("Streamed bodies and files are mutually exclusive.")
        if length:
            self.headers["Content-Length"] = str(length)
        else:
            self.headers["Transfer-Encoding"] = "chunked"

    def prepare_content_length(self, body: object) -> None:
        """Set Content-Length as far as the body or the method tells it."""
        if body is not None:
            if length := _length(body):
                self.headers["Content-Length"] = str(length)
        elif self.method not in ("GET", "HEAD") and self.headers.get("Content-Length") is None:
            self.headers["Content-Length"] = "0"

    def prepare_auth(self, auth: t.AuthInput, url: t.UrlInput | None = "") -> None:
        """Let auth, or else the userinfo of the URL, change the request.

        Args:
            auth: (user, password), or a function from a prepared request to one.
            url: not used; requests has it.
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
        self.__dict__.update(auth(self).__dict__)
        self.prepare_content_length(self.body)

    def prepare_hooks(self, hooks: t.HooksInput) -> None:
        """Add the caller's hooks to those there are."""
        for event, hook in (hooks or {}).items():
            if hook or event not in self.hooks:
                self.register_hook(event, hook)


def _is_stream(data: object) -> bool:
    # The types that come most often first: the check of an ABC is slow.
    if data is None or isinstance(data, (list, dict, str, bytes, tuple)):
        return False
    return hasattr(data, "__iter__") and not isinstance(data, Mapping)


def _length(body: object) -> int:
    if type(body) is bytes or (type(body) is str and body.isascii()):
        return len(body)
    from curlhttp.requests._files import super_len

    length = int(super_len(body))
    return _text_length(body) if length and isinstance(body, TextIOBase) else length


def _text_length(file: TextIOBase) -> int:
    """Return how many bytes the rest of a text file is in UTF-8, in which it is sent."""
    start = file.tell()
    length = sum(len(piece.encode()) for piece in iter(lambda: file.read(1 << 16), ""))
    file.seek(start)
    return length
