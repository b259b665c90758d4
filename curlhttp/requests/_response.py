"""The response that requests' users know: mutable, picklable, and read when it is looked at.

It is curlhttp's own Response with requests' attributes on top; what requests computes for each
response (headers, cookies, encoding, reason, elapsed) is computed here when it is asked for.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING, Any, cast

from curlhttp._models import response as _core
from curlhttp._models.charsets import decode
from curlhttp._models.scrub import scrub_text, without_userinfo
from curlhttp.exceptions import (
    ChunkedEncodingError,
    ConnectionError,
    ContentDecodingError,
    HTTPError,
    ReadTimeout,
    RequestException,
    SSLError,
    StreamConsumedError,
)
from curlhttp.requests._raw import RawResponse
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from curlhttp.requests.cookies import RequestsCookieJar

__all__ = [
    "CONTENT_CHUNK_SIZE",
    "DEFAULT_REDIRECT_LIMIT",
    "ITER_CHUNK_SIZE",
    "REDIRECT_STATI",
    "Response",
]

REDIRECT_STATI = (301, 302, 303, 307, 308)
DEFAULT_REDIRECT_LIMIT = 30
CONTENT_CHUNK_SIZE = 10 * 1024
ITER_CHUNK_SIZE = 512

_UNSET: Any = object()


class _AnyResponse(type):
    """Let isinstance(..., curlhttp.Response) hold for the clients' responses as well."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or (
            cls is Response and isinstance(instance, _core.Response)
        )


class Response(_core.Response, metaclass=_AnyResponse):
    """Hold a response, as requests does; its attributes may be set at will.

    Attributes:
        status_code: for example 200; None in one that was made by hand.
        url: where it came from, as it was asked for.
        history: the responses that redirected here, oldest first.
        request: the PreparedRequest that led to it.
        raw: the body as a file, and the head in urllib3's terms.
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
    ]

    # On the class what most responses never set.
    _head: Any = None
    _next: Any = None
    _content: Any = False  # False: not read yet
    _content_consumed = False
    _has_failed = False  # while the body was read
    _is_passing = False  # a redirect that the session follows: its body is bounded
    _aside: bytes | None = None  # what was kept of such a body, as it came
    status_code: Any = None
    request: Any = None
    raw: Any = None
    url: Any = None
    timings: Any = None
    connection: Any
    _headers: Any = None
    _cookies: Any = None
    _encoding: Any = _UNSET
    _reason: Any = _UNSET
    _elapsed: datetime.timedelta | None = None

    def __init__(self) -> None:
        self.history: list[Any] = []

    # --- the head ---

    @property
    def headers(self) -> Any:
        """Return the header fields, whatever their case; repeated ones joined by ", "."""
        if self._headers is None:
            self._headers = CaseInsensitiveDict()
            if isinstance(self.raw, RawResponse):
                self._headers.update(self.raw.received.headers.items())
        return self._headers

    @headers.setter
    def headers(self, headers: Any) -> None:
        self._headers = headers

    @property
    def encoding(self) -> Any:
        """Return the charset of text: as set, else what the headers say, else None."""
        if self._encoding is _UNSET:
            if type(self.raw) is not RawResponse:
                return None
            from curlhttp.requests._header_values import get_encoding_from_headers

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
        """Return "HTTP/1.1", "HTTP/2" and so on; None in a response that was made by hand."""
        return None if self._head is None else self._head.http_version

    @property
    def cookies(self) -> Any:
        """Return the cookies that this response set."""
        if self._cookies is None:
            from curlhttp.requests.cookies import RequestsCookieJar, extract_cookies_to_jar

            jar: RequestsCookieJar = RequestsCookieJar()
            if self.raw is not None and self.request is not None:
                extract_cookies_to_jar(jar, self.request, self.raw)
            self._cookies = jar
        return self._cookies

    @cookies.setter
    def cookies(self, cookies: Any) -> None:
        self._cookies = cookies

    @property
    def sets_cookies(self) -> bool:
        """Return whether there may be a Set-Cookie, without reading the fields."""
        head = self._head
        if head is None:
            return self.raw is not None
        lower: str = head.lower
        return "\nset-cookie:" in lower

    @property
    def elapsed(self) -> datetime.timedelta:
        """Return the time from sending the last request to having the head of its response."""
        if self._elapsed is None:
            timings = self.timings
            seconds = 0.0 if timings is None else timings.queue + timings.first_byte
            return datetime.timedelta(seconds=seconds)
        return self._elapsed

    @elapsed.setter
    def elapsed(self, elapsed: datetime.timedelta) -> None:
        self._elapsed = elapsed

    @property
    def links(self) -> dict[str, dict[str, str]]:
        """Return the Link header's links by their relation, else their URL."""
        from curlhttp._models.links import parse_links

        value = self.headers.get("link")
        return parse_links(value) if value else {}

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
        """Return whether this response redirects: its status and a Location say so."""
        return self.status_code in REDIRECT_STATI and "location" in self.headers

    @property
    def is_permanent_redirect(self) -> bool:
        """Return whether this response redirects for good."""
        return self.status_code in (301, 308) and "location" in self.headers

    @property
    def next(self) -> Any:
        """Return the PreparedRequest that would follow a redirect that was not followed."""
        return self._next

    @property
    def _leads_on(self) -> bool:
        """Return whether to go on from here: as the engine has it, which has bounded the body."""
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
        raise HTTPError(
            f"{self.status_code} {side} Error: {_as_text(self.reason)} for url: {_shown(self.url)}",
            response=self,
        )

    def __repr__(self) -> str:
        return f"<Response [{self.status_code}]>"

    # --- the body ---

    @property
    def content(self) -> Any:
        """Return the body, with its content coding undone; None when there is nothing to read.

        Raises:
            RuntimeError: it was iterated over before.
            RequestException: the body broke off or is corrupt.
        """
        if self._content is False:
            if self._is_passing or self._aside is not None:
                from curlhttp.requests._aside import content_of

                self._content = content_of(self)
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
            whole = self.raw.whole()
            if whole is not None:
                return whole
        body = BytesIO()  # a list of small pieces would take a multiple of their memory
        body.writelines(self.iter_content(CONTENT_CHUNK_SIZE))
        return body.getvalue()

    @property
    def text(self) -> str:
        """Return the body as text; what does not decode is replaced."""
        content = self.content
        if not content:
            return ""
        from curlhttp.requests._text import charset_of

        encoding = self.encoding
        if encoding is None:
            encoding = self.apparent_encoding
        return decode(content, charset_of(encoding, self.headers) or "utf_8")

    @property
    def apparent_encoding(self) -> Any:
        """Return the charset that the body looks like."""
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
                    return _core.read_json(content.decode(encoding), kwargs, self)
                except UnicodeDecodeError:
                    pass  # then text may know better
        return _core.read_json(self.text, kwargs, self)

    def iter_content(self, chunk_size: int | None = 1, decode_unicode: bool = False) -> Any:
        """Give the body in pieces, with its content coding undone.

        Args:
            chunk_size: bytes per piece; None for pieces as they come.
            decode_unicode: give str, where the encoding is known.

        Raises:
            StreamConsumedError: it was iterated over before.
            TypeError: chunk_size is no number.
        """
        if self._is_passing or self._aside is not None:
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
            found = self._error_of(error)
            if found is error:
                raise
            raise found from error
        self._content_consumed = True

    def _error_of(self, error: Exception) -> Exception:
        """Return requests' exception for what reading a body raised."""
        self._has_failed = True
        cause = error.__cause__
        if isinstance(cause, RequestException):  # ours, in urllib3's words
            cause.args, error.__cause__ = (error,), None
            error = cause
        if isinstance(error, RequestException):
            error.request, error.response = self.request, self
            if isinstance(error, ReadTimeout):  # as requests has it, once the head is in
                return ConnectionError(
                    *error.args,
                    request=self.request,
                    response=self,
                    curl_code=error.curl_code,
                    request_sent=True,
                    timings=error.timings,
                )
            return error
        kinds = {kind.__name__ for kind in type(error).__mro__ if "urllib3" in kind.__module__}
        for name, kind in _OF_URLLIB3.items():
            if name in kinds:
                return kind(error, request=self.request, response=self)
        return error

    def iter_lines(
        self,
        chunk_size: int | None = ITER_CHUNK_SIZE,
        decode_unicode: bool = False,
        delimiter: Any = None,
    ) -> Iterator[Any]:
        """Give the body line by line, without the line ends.

        Args:
            chunk_size: bytes read at once.
            decode_unicode: give str, where the encoding is known.
            delimiter: what ends a line, instead of what splitlines() takes for one.
        """
        from curlhttp.requests._text import split_lines

        yield from split_lines(self.iter_content(chunk_size, decode_unicode), delimiter)

    def __iter__(self) -> Iterator[bytes]:
        return cast("Iterator[bytes]", self.iter_content(128))

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Give the body in pieces, as iter_content(chunk_size) does."""
        return cast("Iterator[bytes]", self.iter_content(chunk_size))

    def close(self) -> None:
        """Give up the rest of the body, and its connection unless all was read."""
        if self.raw is None:
            return
        if not self._content_consumed:
            self.raw.close()
        release = getattr(self.raw, "release_conn", None)
        if release is not None:
            release()

    # --- pickling ---

    def __getstate__(self) -> dict[str, Any]:
        if not self._content_consumed and not self._has_failed:  # its error was told
            _ = self.content
        state = {name: getattr(self, name, None) for name in self.__attrs__}
        if (strip := getattr(self.request, "without_credentials", None)) is not None:
            state["request"] = strip()
        if isinstance(self.url, str):
            state["url"] = without_userinfo(self.url)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._content_consumed = True
        self.raw = None


# What third-party bodies raise: urllib3's exceptions by name, since it need not be loaded.
_OF_URLLIB3: dict[str, type[RequestException]] = {
    "ProtocolError": ChunkedEncodingError,
    "DecodeError": ContentDecodingError,
    "ReadTimeoutError": ConnectionError,
    "SSLError": SSLError,
}


def _as_text(reason: Any) -> Any:
    if not isinstance(reason, bytes):
        return reason
    try:
        return reason.decode("utf-8")
    except UnicodeDecodeError:
        return reason.decode("iso-8859-1")


def _shown(url: Any) -> Any:
    """Return a URL fit for a message; requests shows all of it."""
    if not isinstance(url, str):
        return url
    return scrub_text(without_userinfo(url))
