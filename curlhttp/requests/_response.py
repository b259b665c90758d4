"""The response that requests' users know: mutable, picklable, and read when it is looked at.

It is curlhttp's own Response with requests' attributes on top; what requests computes for each
response (headers, cookies, encoding, reason, elapsed) is computed here when it is asked for.
"""

from __future__ import annotations

import copy
import datetime
from typing import TYPE_CHECKING, Any

from curlhttp._models import response as _core
from curlhttp._models.redaction import redact_field, redact_text, redact_url, strip_userinfo
from curlhttp.exceptions import (
    HTTPError,
)
from curlhttp.requests._raw import RawResponse
from curlhttp.requests._response_body import CONTENT_CHUNK_SIZE, ITER_CHUNK_SIZE, ResponseBody
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

_UNSET: Any = object()


class _AnyResponse(type):
    """Let isinstance(..., curlhttp.Response) hold for the clients' responses as well."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or (
            cls is Response and isinstance(instance, _core.Response)
        )


class Response(ResponseBody, metaclass=_AnyResponse):
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
        "_head",
        "_times",
    ]

    history: Any = None  # an attribute, as in requests, where the core's is a property
    # On the class what most responses never set.
    _head: Any = None
    _next: Any = None
    status_code: Any = None
    request: Any = None
    raw: Any = None
    url: Any = None
    _times: Any = None
    connection: Any
    _headers: Any = None
    _cookies: Any = None
    _encoding: Any = _UNSET
    _reason: Any = _UNSET
    _elapsed: datetime.timedelta | None = None

    def __init__(self) -> None:
        self.history = []

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
    def timings(self) -> Any:
        """Return where the time of the last transfer went; None in a response made by hand."""
        return None if self._times is None else super().timings

    @timings.setter
    def timings(self, timings: Any) -> None:
        self._times = timings

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
        from curlhttp._models.response import parse_links

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

    # --- pickling ---

    def __getstate__(self) -> dict[str, Any]:
        if not self._content_consumed and not self._has_failed:  # its error was told
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
    """Return a request, or what somebody put around one, as it may be kept."""
    if _can_strip(request):
        return request.without_credentials()
    inner = {name: value for name, value in _attributes(request).items() if _can_strip(value)}
    if not inner:
        return request
    twin = copy.copy(request)
    _attributes(twin).update((name, value.without_credentials()) for name, value in inner.items())
    return twin


def _can_strip(request: Any) -> bool:
    return hasattr(type(request), "without_credentials")  # not what passes that on to another


def _attributes(thing: Any) -> dict[str, Any]:
    return getattr(thing, "__dict__", {})


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
    return redact_text(strip_userinfo(url))
