"""The head of a response in urllib3's terms, made when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from curlhttp._models.response import Response

if TYPE_CHECKING:
    import urllib3

    from curlhttp.requests._types import AnyRetry
    from curlhttp.requests._wire import Message

__all__ = ["RawHead"]

_REDIRECTS = (301, 302, 303, 307, 308)
_VERSIONS = {"HTTP/1.0": 10, "HTTP/1.1": 11, "HTTP/2": 20, "HTTP/3": 30}


class RawHead:
    """Show a response's head as urllib3 does; the base of RawResponse."""

    _retries: Any = None
    _headers: Any = None

    def __init__(self, received: Response) -> None:
        self.received = received

    @property
    def status(self) -> int:
        """Return the status code."""
        return self.received.status_code

    @property
    def reason(self) -> str:
        """Return the reason phrase."""
        return self.received.reason

    @property
    def version(self) -> int:
        """Return 10, 11, 20 or 30."""
        return _VERSIONS.get(self.received.http_version, 11)

    @property
    def version_string(self) -> str:
        """Return the version as it was received, such as "HTTP/1.1"."""
        return self.received.http_version

    @property
    def headers(self) -> urllib3.HTTPHeaderDict:
        """Return the header fields, repeated ones apart (getlist)."""
        if self._headers is None:
            from urllib3 import HTTPHeaderDict

            self._headers = HTTPHeaderDict()
            for name, value in self.received.headers.multi_items():
                self._headers.add(name, value)
        headers: urllib3.HTTPHeaderDict = self._headers
        return headers

    @headers.setter
    def headers(self, headers: urllib3.HTTPHeaderDict) -> None:
        self._headers = headers

    @property
    def msg(self) -> Message:
        """Return the header fields as http.client gives them."""
        from curlhttp.requests._wire import Message

        return Message(self.received.headers.multi_items())

    def getheaders(self) -> urllib3.HTTPHeaderDict:
        """Return the header fields."""
        return self.headers

    def getheader(self, name: str, default: str | None = None) -> str | None:
        """Return the value of a field, joined where repeated, or the default."""
        return self.headers.get(name, default)

    def info(self) -> urllib3.HTTPHeaderDict:
        """Return the header fields."""
        return self.headers

    def geturl(self) -> str:
        """Return the request target."""
        return self.received.request.url.target

    url = property(geturl)
    _request_url = property(geturl)

    @property
    def retries(self) -> AnyRetry:
        """Return the Retry as it stood after this response."""
        if self._retries is None:
            from curlhttp.requests._retries import as_retries

            self._retries = as_retries(0)
        return self._retries

    @retries.setter
    def retries(self, retries: AnyRetry) -> None:
        self._retries = retries

    @property
    def chunked(self) -> bool:
        """Return whether the body came in chunks."""
        return "chunked" in self.received.headers.get("transfer-encoding", "").lower()

    @property
    def sets_cookies(self) -> bool:
        """Return whether there is a Set-Cookie, without reading the fields."""
        return self.received.sets_cookies

    def get_redirect_location(self) -> str | bool | None:
        """Return where a redirect leads, or None; False for what is no redirect."""
        return self.headers.get("location") if self.status in _REDIRECTS else False
