"""The head of a response in the terms of http.client and urllib3, made when it is asked for.

What is an attribute there is one here once somebody has asked for it: it may be changed and set.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from curlhttp._models.response import Response

if TYPE_CHECKING:
    import urllib3

    from curlhttp.requests._message import Message
    from curlhttp.requests._types import AnyRetry

__all__ = ["Head", "RawHead"]

_REDIRECTS = (301, 302, 303, 307, 308)
_VERSIONS = {"HTTP/1.0": 10, "HTTP/1.1": 11, "HTTP/2": 20, "HTTP/3": 30}


_COPIED = frozenset({"headers", "reason", "status"})  # by what builds a requests' Response


class Head:
    """What http.client's response and urllib3's have in common.

    Args:
        received: the response that the engine gave.
    """

    def __init__(self, received: Response) -> None:
        self.received = received

    @cached_property
    def status(self) -> int:
        """Return the status code."""
        return self.received.status_code

    @cached_property
    def reason(self) -> str:
        """Return the reason phrase."""
        return self.received.reason

    @cached_property
    def version(self) -> int:
        """Return 10, 11, 20 or 30."""
        return _VERSIONS.get(self.received.http_version, 11)

    @cached_property
    def msg(self) -> Message:
        """Return the header fields as http.client gives them."""
        from curlhttp.requests._message import Message

        return Message(self.received.headers.multi_items())

    @cached_property
    def chunked(self) -> bool:
        """Return whether the body comes in chunks."""
        return "chunked" in self.received.headers.get("transfer-encoding", "").lower()


class RawHead(Head):
    """Show a response's head as urllib3 does; the base of RawResponse."""

    _retries: Any = None

    @property
    def is_as_received(self) -> bool:
        """Return whether nobody can have changed what a response is built from."""
        return _COPIED.isdisjoint(self.__dict__)

    @cached_property
    def version_string(self) -> str:
        """Return the version as it was received, such as "HTTP/1.1"."""
        return self.received.http_version

    @cached_property
    def headers(self) -> urllib3.HTTPHeaderDict:
        """Return the header fields, repeated ones apart (getlist)."""
        from urllib3 import HTTPHeaderDict

        headers = HTTPHeaderDict()
        for name, value in self.received.headers.multi_items():
            headers.add(name, value)
        return headers

    def getheaders(self) -> urllib3.HTTPHeaderDict:
        """Return the header fields."""
        return self.headers

    def getheader(self, name: str, default: str | None = None) -> str | None:
        """Return the value of a field, joined where repeated, or the default."""
        return self.headers.get(name, default)

    def info(self) -> urllib3.HTTPHeaderDict:
        """Return the header fields."""
        return self.headers

    @cached_property
    def _request_url(self) -> str:
        return self.received.request.url.target

    @property
    def url(self) -> str:
        """Return the request target."""
        return self._request_url

    @url.setter
    def url(self, url: str) -> None:
        self._request_url = url

    def geturl(self) -> str:
        """Return the request target."""
        return self.url

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
    def sets_cookies(self) -> bool:
        """Return whether there is a Set-Cookie, without reading the fields."""
        return self.received.sets_cookies

    def get_redirect_location(self) -> str | bool | None:
        """Return where a redirect leads, or None; False for what is no redirect."""
        return self.headers.get("location") if self.status in _REDIRECTS else False
