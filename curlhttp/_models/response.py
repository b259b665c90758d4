"""A finished response: a value, the same for both clients. It reads nothing more."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator, Callable, Iterator, MutableMapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

from curlhttp._models.attempt import Attempt
from curlhttp._models.charsets import chosen_charset, decode, known_charset
from curlhttp._models.head import Head, phrase_of
from curlhttp._models.headers import Headers
from curlhttp._models.scrub import scrub_block, scrub_url
from curlhttp._models.taught import TaughtAttributes
from curlhttp._models.timings import Counted, Timings, timings_of
from curlhttp.exceptions import HTTPError, JSONDecodeError

if TYPE_CHECKING:
    from curlhttp._models.cookies.jar import Cookies
    from curlhttp._models.inputs import HeadersInput
    from curlhttp._models.request import Request

__all__ = ["Response", "read_json"]

Self = TypeVar("Self", bound="Response")


class Response(TaughtAttributes):
    """Hold a response whose body is in memory.

    Attributes:
        status_code: for example 200.
        http_version: "HTTP/1.0", "HTTP/1.1", "HTTP/2" or "HTTP/3".
        request: the request that led to it, of the last hop.
        url: where it came from, a str without userinfo.
        budget_exhausted: there was no further try since the policy's budget was spent.
        from_cache: it was stored, be it that the server confirmed it.
        cache_status: what the client's cache did, as Cache-Status says it (RFC 9211), such as
            "curlhttp; hit; ttl=42"; None without a cache.
    """

    # On the class, since most responses never need their own.
    _attempts: tuple[Attempt, ...] = ()
    _first_attempt: float | None = None  # its seconds, where there was no other
    budget_exhausted: bool = False
    from_cache: bool = False
    _coded: bytes | None = None  # the body as it came, where KEEP_CODED was asked for
    cache_status: str | None = None
    _headers: Headers | None = None
    _history: list[Response] | None = None
    _encoding: str | None = None
    # Not Cookies, which loads late: some programs evaluate these types (requests-cache).
    _cookies: MutableMapping[str, str] | None = None
    _certificate: str | None = None

    def __init__(
        self,
        request: Request,
        head: Head,
        content: bytes | None,
        timings: Timings | Counted,
    ) -> None:
        self.request = request
        self._head = head
        self.status_code: int = head.status_code
        self._content = content  # None while it is on the wire
        self._times = timings

    @classmethod
    def of(
        cls,
        request: Request,
        status_code: int = 200,
        *,
        headers: HeadersInput | None = None,
        content: bytes | str = b"",
    ) -> Response:
        """Make a response without a server, for a middleware that answers by itself.

        Args:
            request: what it answers.
            status_code: of three digits.
            headers: a mapping or pairs.
            content: the body; str is sent as UTF-8.

        Raises:
            InvalidHeader: a name or value is not fit for a header.
        """
        fields = Headers(headers).multi_items()
        lines = [f"HTTP/1.1 {status_code:03} {phrase_of(status_code)}"]
        lines += [f"{name}: {value}" for name, value in fields]
        head = Head("\r\n".join([*lines, "", ""]).encode("latin-1"))
        body = content.encode() if isinstance(content, str) else content
        return Response(request, head, body, Timings(0, 0, 0, 0, 0, 0, False, None))

    @property
    def history(self) -> list[Response]:
        """Return the responses that redirected here, oldest first."""
        if self._history is None:  # as of most: so many lists less to make and to collect
            self._history = []
        return self._history

    @history.setter
    def history(self, history: list[Response]) -> None:
        self._history = history

    @property
    def certificate(self) -> str | None:
        """Return the server's certificate as PEM, where the client has certificates=True.

        None without TLS, and where the connection had been opened for another request whose
        response is not there yet.
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
        """Return the reason phrase; where the version of HTTP has none, the standard one."""
        return self._head.reason_phrase

    reason_phrase = reason

    @property
    def url(self) -> str:
        """Return the URL that was asked last."""
        return str(self.request.url)

    @property
    def cookies(self) -> Cookies:
        """Return the cookies that this response set."""
        if self._cookies is None:
            from curlhttp._models.cookies.jar import Cookies, store_cookies

            self._cookies = cookies = Cookies()
            if self.sets_cookies:
                store_cookies(cookies, self.request.url, self.headers.get_list("set-cookie"))
        return cast("Cookies", self._cookies)

    @property
    def sets_cookies(self) -> bool:
        """Return whether there is a Set-Cookie, without reading the fields."""
        return "\nset-cookie:" in self._head.lower

    @property
    def links(self) -> dict[str, dict[str, str]]:
        """Return the Link header's links by their relation, else their URL (RFC 8288)."""
        from curlhttp._models.links import parse_links

        value = self.headers.get("link")
        return parse_links(value) if value else {}

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Return the tries that a RetryPolicy made, oldest first; () without one."""
        if self._first_attempt is not None:
            self._attempts = (Attempt(1, self.status_code, None, self._first_attempt, None),)
            self._first_attempt = None
        return self._attempts

    @attempts.setter
    def attempts(self, attempts: tuple[Attempt, ...]) -> None:
        self._attempts = attempts

    @property
    def timings(self) -> Timings:
        """Return where the time of the last transfer went."""
        times = self._times
        if not isinstance(times, Timings):
            times = self._times = timings_of(times)
        return times

    @property
    def elapsed(self) -> timedelta:
        """Return the time from the start of the last transfer to its first byte."""
        return timedelta(seconds=self.timings.first_byte)

    # the status

    @property
    def ok(self) -> bool:
        """Return whether the status is below 400."""
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
        """Return whether this response redirects: its status and a Location say so."""
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
            f"{scrub_url(self.request.url)}",
            response=self,
        )

    def to_curl(self, *, secrets: bool = False) -> str:
        """Return a command line of curl that sends the request of the last hop once more.

        Args:
            secrets: see `ClientRequest.to_curl`.
        """
        return self.request.to_curl(secrets=secrets)

    # the body

    @property
    def content(self) -> bytes:
        """Return the body, with its content coding undone."""
        assert self._content is not None
        return self._content

    @property
    def encoding(self) -> str | None:
        """Return the charset of text: as set, else of Content-Type, else None."""
        if self._encoding is None:
            return charset_of(self.headers.get("content-type"))
        return self._encoding

    @encoding.setter
    def encoding(self, encoding: str | None) -> None:
        self._encoding = encoding

    @property
    def text(self) -> str:
        """Return the body as text; what does not decode is replaced."""
        return decode(self.content, self._charset())

    def _charset(self) -> str:
        """Return Python's name for the charset of text, UTF-8 where there is none to go by."""
        if self._encoding is not None:
            return chosen_charset(self._encoding) or "utf_8"
        return known_charset(self.encoding or "") or "utf_8"

    def json(self, **options: Any) -> Any:  # Any: as of json.loads
        """Return the body read as JSON (RFC 8259).

        Args:
            options: passed on to json.loads.

        Raises:
            JSONDecodeError: the body is not JSON.
        """
        # Of bytes it finds UTF-8, 16 and 32 by itself.
        body = self.content if self._encoding is None else self.text
        return read_json(body, options, self)

    def __repr__(self) -> str:
        return f"<Response [{self.status_code}]>"

    def without_secrets(self: Self) -> Self:
        """Return a copy that holds no credentials and no secrets of URLs; its body is the same.

        Pickled errors have this one, see `Request.without_secrets`.
        """
        return self._scrubbed({})

    def _scrubbed(self: Self, done: dict[int, Response]) -> Self:
        # Each response in a history has one of its own, with the same ones ahead of it.
        if (known := done.get(id(self))) is not None:
            return cast(Self, known)
        twin = copy.copy(self)  # by __getstate__: of a stream it is what was received
        done[id(self)] = twin
        if (strip := getattr(self.request, "without_secrets", None)) is not None:
            twin.request = strip()
        twin._scrub()
        twin.history = [past._scrubbed(done) for past in self.history]
        return twin

    def _scrub(self) -> None:
        self._head = Head(scrub_block(self._head.block), scrub_block(self._head.trailers))
        self._headers = self._cookies = None

    def __getstate__(self) -> dict[str, object]:
        strip = getattr(self.request, "without_credentials", None)
        return {**self.__dict__, "request": self.request if strip is None else strip()}

    # the same verbs as on a streamed response, so that callers need not care

    def read(self) -> bytes:
        """Return the body."""
        return self.content

    async def aread(self) -> bytes:
        """Return the body."""
        return self.content

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Give the body in pieces of chunk_size bytes, or in one.

        Args:
            chunk_size: bytes per piece; None for one piece.
        """
        content = self.content
        step = chunk_size or len(content) or 1
        return (content[at : at + step] for at in range(0, len(content), step))

    async def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Give the body in pieces of chunk_size bytes, or in one."""
        for piece in Response.iter_bytes(self, chunk_size):
            yield piece

    async def load(self) -> None:
        """Read the body into memory, where it is."""

    def let_go(self) -> None:
        """Do without the body, at once."""

    async def discard(self) -> None:
        """Do without the body, for another response that takes this one's place."""

    def _at_end(self, tell: Callable[[BaseException | None], object]) -> None:
        """Call tell(error or None) once, when the body has ended or was given up: now."""
        tell(None)

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


# Any: options and value are those of json.loads; the facade's responses are others.
def read_json(body: str | bytes, options: dict[str, Any], response: Any) -> Any:
    """Return a body read as JSON.

    Args:
        body: of the response, or its text.
        options: passed on to json.loads.
        response: has the text, for the error; None where the body is a text by itself.

    Raises:
        JSONDecodeError: it is not JSON, or goes beyond what Python reads.
    """
    try:
        return json.loads(body, **options)
    except json.JSONDecodeError as error:
        raise JSONDecodeError(error.msg, error.doc, error.pos, response=response) from error
    except UnicodeDecodeError as error:
        raise _not_json(f"the body is not {error.encoding}", body, response) from error
    except RecursionError as error:
        raise _not_json("the body is nested too deeply", body, response) from error
    except ValueError as error:
        if type(error) is not ValueError:  # of a function among the options
            raise
        raise _not_json(str(error), body, response) from error  # a number has thousands of digits


# Any: see read_json
def _not_json(what: str, body: str | bytes, response: Any) -> JSONDecodeError:
    text = body if isinstance(body, str) else response.text
    return JSONDecodeError(what, text, 0, response=response)


def charset_of(content_type: str | None) -> str | None:
    """Return the charset that a Content-Type names or implies, as requests reads it."""
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
