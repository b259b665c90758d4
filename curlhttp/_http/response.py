"""Responses, the same for both clients, and their heads. They read nothing from the network."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload

from curlhttp._http.decoding import (
    CharsetFinder,
    chosen_charset,
    decode_content,
    decode_text,
    known_charset,
)
from curlhttp._http.headers import Headers
from curlhttp._http.json_reading import convert_json, read_json
from curlhttp._http.redaction import redact_field, redact_url
from curlhttp._http.suggestions import without_attributes
from curlhttp._http.timings import NO_TIME, Attempt, CurlTimings, Timings, make_timings
from curlhttp._http.url import decode_reference
from curlhttp.exceptions import (
    ContentDecodingError,
    HTTPError,
    JSONDecodeError,
    JSONTypeError,
    ResponseTooLarge,
)

if TYPE_CHECKING:
    from curlhttp._http.cookies.jar import Cookies
    from curlhttp._http.inputs import HeadersInput
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.sse import (
        AsyncResponseEvents,
        EventChunks,
        ResponseEvents,
        ServerSentEvent,
    )

    Self = TypeVar("Self", bound="Response")  # not at run time, where typing compiles the name

REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_WITHOUT_BODY = (204, 304)
PARTIAL_CONTENT = 206
# The extensions of requests with the client's setting: a charset or a function, and for "html" what
# makes the CharsetFinder of a response.
DEFAULT_ENCODING = "curlhttp.encoding"
FIND_CHARSET = "curlhttp.find_charset"
DefaultEncoding: TypeAlias = "str | Callable[[bytes], str | None]"
"""The charset of text whose Content-Type names none, or a function of the body that returns it.

"html" stands for what browsers do: a byte order mark, Content-Type, an XML declaration, <meta>.
"""
MAX_EVENT_SIZE = 1024 * 1024  # bytes of an event, unless the caller sets another limit
_SHOWN = 60  # characters of a body in an error

# An empty Location does not redirect, so its body is read in full.
_LOCATION = re.compile(r"\nlocation:[^\n]*[^\x00-\x20\x7f]").search
# libcurl also accepts lines such as "HTTP/2026 05:" and "HTTP/1.1 2000". Those that it writes
# itself, for HTTP/2 and 3, have no reason.
_STATUS_LINE = re.compile(rb"HTTP/(?:1\.[01] ([1-9]\d\d)[ \t\r\n]|[23] ([1-9]\d\d) \r\n)").match
_STATUSES: dict[bytes, int] = {}  # by the bytes of the status line: a few thousand at most
_known_status = _STATUSES.get


def has_body(method: str, status_code: int) -> bool:
    """Return whether the response to a method may have a body (RFC 9112, section 6.3)."""
    return method != "HEAD" and status_code not in _WITHOUT_BODY


def _read_status(start: bytes) -> int:
    """Return the status at the start of a head, 0 if that is not a status line."""
    found = _STATUS_LINE(start)
    if found is None:
        return 0
    status = _STATUSES[start] = int(found[1] or found[2])
    return status


class Head:
    """The head of a response, as received: status line, header fields and trailers.

    Attributes:
        block: all of it, as bytes.
        lower: the same in lower case, as latin-1 text.
        may_have_codings: whether Transfer-Encoding or Content-Encoding occur, maybe in a value.
        status_code: of three digits; 0 if the first line is not a status line.
        trailers: the fields after the body.
    """

    __slots__ = ("block", "lower", "may_have_codings", "status_code", "trailers")

    def __init__(self, block: bytes, trailers: bytes = b"") -> None:
        self.fill(block)
        self.trailers: bytes = trailers

    def fill(self, block: bytes) -> Head:
        """Set all attributes, and return this head; for those that are made by `Head.__new__`."""
        self.block: bytes = block
        start = block[:13]  # "HTTP/1.1 200 " or "HTTP/2 200 \r\n"
        self.status_code: int = _known_status(start) or _read_status(start)
        # To find a field without parsing all of them; a search in str is three times faster.
        self.lower: str = block.lower().decode("latin-1")
        self.may_have_codings: bool = "-encoding" in self.lower
        self.trailers = b""
        return self

    def _status_line(self) -> tuple[str, str]:
        """Return version and reason as received."""
        line = self.block.partition(b"\n")[0].decode("latin-1")
        version, _, rest = line.partition(" ")
        return version, rest[4:].strip()

    @property
    def http_version(self) -> str:
        """Return "HTTP/1.0", "HTTP/1.1", "HTTP/2" or "HTTP/3"."""
        return self._status_line()[0]

    @property
    def redirects(self) -> bool:
        """Return whether status and Location redirect, without parsing the fields."""
        return self.status_code in REDIRECT_STATUSES and _LOCATION(self.lower) is not None

    @property
    def is_framed_twice(self) -> bool:
        """Return whether it has both a Transfer-Encoding and a Content-Length."""
        lower = self.lower
        return "\ntransfer-encoding:" in lower and "\ncontent-length:" in lower

    @property
    def reason_phrase(self) -> str:
        """Return the reason, or the standard one, because HTTP/2 and 3 send none."""
        version, reason = self._status_line()
        if reason or version.startswith("HTTP/1"):
            return reason
        return get_reason_phrase(self.status_code)


def get_reason_phrase(status_code: int) -> str:
    """Return the standard reason phrase of a status, or ""."""
    from http import HTTPStatus  # rarely needed

    try:
        return HTTPStatus(status_code).phrase
    except ValueError:
        return ""


T = TypeVar("T")


@without_attributes(
    "response",
    "aiter_lines aiter_raw aiter_text apparent_encoding body charset charset_encoding closed code "
    "conn_info connection content_disposition content_length content_type data download_progress "
    "extensions get get_encoding has_redirect_location host is_client_error is_informational "
    "is_permanent_redirect is_server_error is_stream_consumed iter_content iter_lines iter_raw "
    "iter_text method next next_request num_bytes_downloaded oheaders otrailers output_size raw "
    "raw_headers readline real_url release request_info start status stream upload_complete "
    "url_obj version wait_for_close",
)
class Response:
    """A response whose body is in memory.

    Attributes:
        status_code: for example 200.
        http_version: "HTTP/1.0", "HTTP/1.1", "HTTP/2" or "HTTP/3".
        request: the request of the last hop.
        url: the URL of that request, a str without userinfo.
        budget_exhausted: there was no further attempt, because the policy's budget was used up.
        is_fallback: the client's fallback returned it instead of a failure.
        from_cache: it came from the cache, even if the server then confirmed it.
        cache_status: what the client's cache did, in the form of Cache-Status (RFC 9211), such as
            "curlhttp; hit; ttl=42"; None without a cache.
    """

    # On the class, because most responses never need their own.
    _attempts: tuple[Attempt, ...] = ()
    _first_attempt: float | None = None  # its seconds, if there was no other
    budget_exhausted: bool = False
    is_fallback: bool = False
    from_cache: bool = False
    _coded: bytes | None = None  # the received body, with KEEP_CODED
    _is_made: bool = False  # by a middleware or a transport, not by a server
    _is_coded_part: bool = False  # its body is as received, because it is a part of a coded one
    cache_status: str | None = None
    _headers: Headers | None = None
    _history: list[Response] | None = None
    _encoding: str | None = None
    # Not Cookies, which is loaded late: some programs evaluate these types (requests-cache).
    _cookies: object = None
    _certificate: str | None = None

    def __init__(
        self,
        request: ClientRequest,
        head: Head,
        content: bytes | None,
        timings: Timings | CurlTimings,
    ) -> None:
        self.request = request
        self._head = head
        self.status_code: int = head.status_code
        self._content = content  # None while it is on the wire
        self._times = timings

    @classmethod
    def of(
        cls,
        request: ClientRequest,
        status_code: int = 200,
        *,
        headers: HeadersInput | None = None,
        content: bytes | str = b"",
    ) -> Response:
        """Create a response without a server, for middleware that answers a request.

        Args:
            request: the request that it answers.
            status_code: of three digits.
            headers: a mapping or pairs.
            content: the body; str is sent as UTF-8.

        Raises:
            ValueError: the status does not have three digits.
            TypeError: the status is not an int, or the content is neither bytes nor str.
            InvalidHeader: a name or value is not valid in a header.
        """
        _validate_made(status_code, content)
        fields = Headers(headers).multi_items()
        lines = [f"HTTP/1.1 {status_code:d} {get_reason_phrase(status_code)}"]
        lines += [f"{name}: {value}" for name, value in fields]
        head = Head("\r\n".join([*lines, "", ""]).encode("latin-1"))
        body = content.encode() if isinstance(content, str) else content
        made = Response(request, head, body, NO_TIME)
        made._is_made = True
        return made

    @property
    def history(self) -> list[Response]:
        """Return the responses that redirected here, oldest first."""
        if self._history is None:  # as for most: this saves a list
            self._history = []
        return self._history

    @history.setter
    def history(self, history: list[Response]) -> None:
        self._history = history

    @property
    def certificate(self) -> str | None:
        """Return the server's certificate as PEM, if the client has certificates=True.

        It is None without TLS, and also if the connection was opened for another request that has
        no response yet.
        """
        return self._certificate

    # the head

    @property
    def headers(self) -> Headers:
        """Return the header fields."""
        headers = self._headers
        if headers is None:
            headers = self._headers = Headers.from_block(self._head.block)
            headers.sensitive = getattr(self.request, "sensitive", headers.sensitive)
        return headers

    @property
    def trailers(self) -> Headers:
        """Return the trailer fields (RFC 9110, section 6.5)."""
        return Headers.from_block(self._head.trailers)

    @property
    def http_version(self) -> str:
        """Return "HTTP/1.0", "HTTP/1.1", "HTTP/2" or "HTTP/3"."""
        return self._head.http_version

    @property
    def reason(self) -> str:
        """Return the reason phrase; the standard one if this version of HTTP sends none."""
        return self._head.reason_phrase

    reason_phrase = reason

    @property
    def url(self) -> str:
        """Return the URL of the last request."""
        return str(self.request.url)

    @property
    def cookies(self) -> Cookies:
        """Return the cookies that this response set."""
        if self._cookies is None:
            from curlhttp._http.cookies.jar import Cookies, store_cookies

            self._cookies = cookies = Cookies()
            if self.sets_cookies:
                store_cookies(cookies, self.request.url, self.headers.get_list("set-cookie"))
        return cast("Cookies", self._cookies)

    @property
    def sets_cookies(self) -> bool:
        """Return whether there is a Set-Cookie, without parsing the fields."""
        return "\nset-cookie:" in self._head.lower

    @property
    def links(self) -> dict[str, dict[str, str]]:
        """Return the links of the Link header, by relation or else by URL (RFC 8288)."""
        value = self.headers.get("link")
        return parse_links(decode_reference(value)) if value else {}

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Return the attempts that a RetryPolicy made, oldest first; () without a policy."""
        if self._first_attempt is not None:
            self._attempts = (Attempt(1, self.status_code, None, self._first_attempt, None),)
            self._first_attempt = None
        return self._attempts

    @attempts.setter
    def attempts(self, attempts: tuple[Attempt, ...]) -> None:
        self._attempts = attempts

    @property
    def timings(self) -> Timings:
        """Return how long each phase of the last transfer took."""
        times = self._times
        if not isinstance(times, Timings):
            times = self._times = make_timings(times, self.request)
        return times

    @property
    def elapsed(self) -> timedelta:
        """Return the time from the start of the last transfer to its first byte."""
        return timedelta(seconds=self.timings.first_byte)

    # the status

    @property
    def ok(self) -> bool:
        """Return whether the status is not 4xx or 5xx."""
        return self.status_code < 400 or self.status_code > 599

    def __bool__(self) -> bool:
        return self.ok

    @property
    def is_success(self) -> bool:
        """Return whether the status is 2xx."""
        return 200 <= self.status_code <= 299

    @property
    def is_error(self) -> bool:
        """Return whether the status is 4xx or 5xx."""
        return 400 <= self.status_code <= 599

    @property
    def is_redirect(self) -> bool:
        """Return whether this response redirects, by its status and Location."""
        return self._head.redirects

    def raise_for_status(self: Self) -> Self:
        """Return this response, or raise for a 4xx or 5xx status.

        Raises:
            HTTPError: the status is an error.
        """
        if not self.is_error:
            return self
        side = "Client" if self.status_code < 500 else "Server"
        raise HTTPError(
            f"{self.status_code} {side} Error: {self.reason} for url: "
            f"{redact_url(self.request.url)}",
            response=self,
        )

    def to_curl(self, *, secrets: bool = False) -> str:
        """Return the curl command that sends the last request (after redirects) again.

        Args:
            secrets: see `ClientRequest.to_curl`.
        """
        return self.request.to_curl(secrets=secrets)

    # the body

    @property
    def content(self) -> bytes:
        """Return the body, with its content coding decoded.

        A part of a coded body (206) that cannot be decoded on its own is as received.
        """
        assert self._content is not None
        return self._content

    def _decode(self, body: bytes, max_size: int | None) -> bytes:
        """Return a whole body with its content coding decoded; see `content`.

        Raises:
            ContentDecodingError, ResponseTooLarge: see `decode_content`.
        """
        try:
            return decode_content(body, self.headers, max_size)
        except ContentDecodingError:
            if self.status_code != PARTIAL_CONTENT:
                raise
        self._is_coded_part = True
        return body

    @property
    def encoding(self) -> str | None:
        """Return the charset of text: the one you set, or that of Content-Type, or None."""
        if self._encoding is None:
            return _parse_charset(self.headers.get("content-type"))
        return self._encoding

    @encoding.setter
    def encoding(self, encoding: str | None) -> None:
        self._encoding = encoding

    @property
    def text(self) -> str:
        """Return the body as text; invalid bytes are replaced.

        Raises:
            ContentDecodingError: it is a part of a coded body, which cannot be decoded.
        """
        if self._is_coded_part:
            raise coded_part_error(self)
        return decode_text(self.content, self._charset())

    def _charset(self) -> str:
        """Return Python's name for the charset of text, UTF-8 if it is unknown."""
        if self._encoding is not None:
            return chosen_charset(self._encoding) or "utf_8"
        finder = self._make_charset_finder()
        if finder is not None:
            return finder.find(self._content or b"")
        return known_charset(self.encoding or "") or self._default_charset()

    def _stream_charset(self) -> str | CharsetFinder:
        """Return the charset of text that is read in pieces, or what finds it in the first ones."""
        finder = self._make_charset_finder() if self._encoding is None else None
        return finder or self._charset()

    def _make_charset_finder(self) -> CharsetFinder | None:
        make = self._get_extension(FIND_CHARSET)
        return None if make is None else make(self.headers.get("content-type"), self.encoding)

    def _default_charset(self) -> str:
        default: DefaultEncoding | None = self._get_extension(DEFAULT_ENCODING)
        if default is not None and not isinstance(default, str):
            content = self._content  # None for a stream, of which a function sees nothing
            default = None if content is None else default(content)
        return (default and chosen_charset(default)) or "utf_8"

    def _get_extension(self, name: str) -> Any:  # Any: each has its own type
        extensions = getattr(self.request, "extensions", None)
        return None if not extensions else extensions.get(name)

    @overload
    def json(self, *, type: type[T], **options: Any) -> T: ...  # Any: see below
    @overload
    def json(self, *, type: object = None, **options: Any) -> Any: ...
    def json(self, *, type: object = None, **options: Any) -> Any:  # Any: as of json.loads
        """Return the body read as JSON (RFC 8259).

        It is UTF-8, UTF-16 or UTF-32, whatever charset Content-Type names, because servers often
        name a wrong one. Only a body in none of these is read in the charset of text.

        Args:
            type: the type of the result, such as a dataclass, a model of pydantic, a Struct of
                msgspec, or list[...] of one of these; None for dicts, lists and so on.
            options: passed on to json.loads, or to the `loads` of the client's JSON.

        Raises:
            JSONDecodeError: the body is not JSON.
            ContentDecodingError: see `text`.
            JSONTypeError: the value does not fit the type.
            TypeError: curlhttp cannot create values of this type.
        """
        if self._is_coded_part:
            raise coded_part_error(self)
        # json.loads detects UTF-8, 16 and 32 in bytes.
        body = self.content if self._encoding is None else self.text
        loads = self._get_extension("curlhttp.json") or json.loads
        try:
            value = read_json(body, options, self, loads)
        except JSONDecodeError:
            text = self._decode_by_charset() if isinstance(body, bytes) else None
            if text is None:
                raise
            value = read_json(text, options, self, loads)
        return value if type is None else self._convert(value, type)

    def _decode_by_charset(self) -> str | None:
        """Return the body as text; None if the charset of text is Unicode or does not fit it."""
        charset = self._charset()
        if charset.startswith("utf"):
            return None
        try:
            return self.content.decode(charset)
        except UnicodeError:
            return None

    def _convert(self, value: object, to: object) -> object:
        try:
            return convert_json(value, to, f"; {self._name_request()} got {self.status_code}")
        except JSONTypeError as error:
            error.request, error.response = self.request, self
            raise

    def _name_request(self) -> str:
        return str(self.request)

    def _describe(self, text: str) -> str:
        """Say which response this is, for errors about its body, whose text is given."""
        kind = self.headers.get("content-type", "no Content-Type")
        shown = f"{self._name_request()} got {self.status_code} and {kind}"
        if not text:
            return f"{shown}, with an empty body"
        if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
            return shown  # broken JSON may have secrets
        start = text[:_SHOWN] + ("..." if len(text) > _SHOWN else "")
        return f"{shown}, which begins with {start!r}"

    def __repr__(self) -> str:
        return f"<Response [{self.status_code}]>"

    def without_secrets(self: Self) -> Self:
        """Return a copy without credentials and secrets of URLs; its body is unchanged.

        Pickled errors have this copy, see `ClientRequest.without_secrets`.
        """
        return self._redacted_copy({})

    def _redacted_copy(self: Self, done: dict[int, Response]) -> Self:
        # Each response in a history has its own history, of the same earlier responses.
        if (known := done.get(id(self))) is not None:
            return cast("Self", known)
        from copy import copy

        clone = copy(self)  # by __getstate__: for a stream, the received part
        done[id(self)] = clone
        if (strip := getattr(self.request, "without_secrets", None)) is not None:
            clone.request = strip()
        clone._redact()
        clone.history = [past._redacted_copy(done) for past in self.history]
        return clone

    def _redact(self) -> None:
        self._head = Head(_redact_block(self._head.block), _redact_block(self._head.trailers))
        self._headers = self._cookies = None

    def __getstate__(self) -> dict[str, object]:
        strip = getattr(self.request, "without_credentials", None)
        return {**self.__dict__, "request": self.request if strip is None else strip()}

    # the methods of a streamed response, so that callers need not check which one they have

    def read(self) -> bytes:
        """Return the body."""
        return self.content

    async def aread(self) -> bytes:
        """Return the body."""
        return self.content

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Return the body in pieces of chunk_size bytes, or in one.

        Args:
            chunk_size: the maximum bytes of a piece; None for one piece.
        """
        content = self.content
        step = chunk_size or len(content) or 1
        return (content[at : at + step] for at in range(0, len(content), step))

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Yield the body in pieces of chunk_size bytes, or in one."""
        for piece in Response.iter_bytes(self, chunk_size):
            yield piece

    def iter_events(self, *, max_event_size: int | None = MAX_EVENT_SIZE) -> ResponseEvents:
        """Iterate over the server-sent events of the body, with the parser of `Client.sse`.

        Args:
            max_event_size: the maximum size of an event's data, and of each line, in bytes; or
                None.

        Raises:
            HTTPError: the Content-Type is not text/event-stream; the body can still be read.
            ResponseTooLarge: an event is larger than max_event_size.
        """
        return self._make_event_chunks(max_event_size).iterate((self.content,))

    def aiter_events(self, *, max_event_size: int | None = MAX_EVENT_SIZE) -> AsyncResponseEvents:
        """Iterate over the server-sent events of the body; see iter_events."""
        chunks = self._make_event_chunks(max_event_size)

        async def events() -> AsyncIterator[ServerSentEvent]:
            for event in chunks.add(self.content):
                yield event

        return chunks.aiterate(events())

    def _make_event_chunks(self, max_event_size: int | None) -> EventChunks:
        from curlhttp._http.errors import check_number
        from curlhttp._http.sse import EventChunks, is_event_stream

        check_number("max_event_size", max_event_size, whole=True, unit="bytes", optional=True)
        if not is_event_stream(self._get_content_types()):
            found = self.headers.get("content-type")
            raise HTTPError(
                f"{self._name_request()}: the response is not an event stream: its status is "
                f"{self.status_code}, and its Content-Type {found!r:.100}",
                response=self,
                request_sent=True,
            )
        return EventChunks(max_event_size, self._refuse_event)

    def _get_content_types(self) -> list[str]:
        return self.headers.get_list("content-type")

    def _refuse_event(self, error: ResponseTooLarge) -> ResponseTooLarge:
        """Return the error for an event that is too large."""
        return ResponseTooLarge(
            f"{self._name_request()}: {error}",
            request=self.request,
            response=self,
            request_sent=True,
        )

    async def load(self) -> None:
        """Do nothing: the body is in memory."""

    def abort(self) -> None:
        """Do nothing: there is no body left to read."""

    async def discard(self) -> None:
        """Do nothing: there is no body left to read."""

    def _at_end(self, callback: Callable[[BaseException | None], object]) -> None:
        """Call callback(error or None) when the body has ended or was closed: now."""
        callback(None)

    def close(self) -> None:
        """Do nothing: the body is in memory."""

    async def aclose(self) -> None:
        """Do nothing: the body is in memory."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()


def coded_part_error(response: Response) -> ContentDecodingError:
    """Return the exception for a part of a coded body that was to be decoded."""
    coding = response.headers.get("content-encoding")
    return ContentDecodingError(
        f"{response._name_request()}: the body is a part of one that is coded as {coding}, and "
        "cannot be decoded on its own; content is as received (iter_raw() in a stream), and with "
        "Accept-Encoding: identity, the range is one of the content itself",
        request=response.request,
        response=response,
        request_sent=True,
    )


def _validate_made(status_code: object, content: object) -> None:
    if not isinstance(status_code, int) or isinstance(status_code, bool):
        raise TypeError(f"status_code must be an int, not {type(status_code).__name__}")
    if not 100 <= status_code <= 999:
        raise ValueError(f"status_code must be from 100 to 999, not {status_code}")
    if not isinstance(content, (bytes, str)):
        raise TypeError(
            f"content must be bytes or str, not {type(content).__name__}; json= takes other values"
        )


def validate_encoding(encoding: DefaultEncoding) -> DefaultEncoding:
    """Validate the argument `default_encoding` of a client.

    Raises:
        ValueError: Python knows no such charset.
        TypeError: it is neither a name nor a function.
    """
    if isinstance(encoding, str):
        if chosen_charset(encoding) is None:
            raise ValueError(
                f"default_encoding must be a charset that Python knows, not {encoding!r}"
            )
    elif not callable(cast(object, encoding)):
        raise TypeError(
            "default_encoding must be the name of a charset, or a function of the body that "
            f"returns one, not {type(encoding).__name__}"
        )
    return encoding


def _redact_block(block: bytes) -> bytes:
    """Return a head, or trailers, with the fields as a repr shows them; folded lines are joined."""
    lines = [block.partition(b"\n")[0].rstrip(b"\r")] if block.startswith(b"HTTP/") else []
    for name, value in Headers.from_block(block).multi_items():
        lines.append(f"{name}: {redact_field(name, value)}".encode("latin-1"))
    return b"".join([line + b"\r\n" for line in lines])


def _parse_charset(content_type: str | None) -> str | None:
    """Return the charset that a Content-Type names or implies, by requests' rules."""
    if not content_type:
        return None
    media_type, *parameters = content_type.lower().split(";")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip("'\" "):
            return value.strip("'\" ")
    if "application/json" in media_type:
        return "utf-8"
    return None


def parse_links(value: str) -> dict[str, dict[str, str]]:
    """Return the links of a Link header by their relation, or by their URL where they have none.

    It takes linear time.

    Args:
        value: the value of Link, repeats joined by commas.
    """
    # A parameter after a target: a name, a value with or without quotes, and junk up to the next.
    # Compiled here, because few responses have links.
    match_parameter = re.compile(
        r"""\s*;\s*([^\s=;,<"]*)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,<"]*)))?[^;,<]*""",
        re.DOTALL,
    ).match
    links = {}
    position = 0
    while (begin := value.find("<", position)) >= 0 and (end := value.find(">", begin)) >= 0:
        link = {"url": value[begin + 1 : end]}
        position = end + 1
        while (found := match_parameter(value, position)) is not None:
            position = found.end()
            name, quoted, plain = found.groups("")
            if name:
                link.setdefault(name.lower(), re.sub(r"(?s)\\(.)", r"\1", quoted) or plain)
        links[link.get("rel") or link["url"]] = link
    return links
