"""The connection of a pool that somebody uses by itself: urllib3's urlopen above, libcurl below."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from urllib3 import HTTPResponse
from urllib3.util import SKIP_HEADER

from curlhttp._models.url import bracketed, parse_url
from curlhttp.exceptions import RequestException
from curlhttp.requests._prepared import PreparedRequest
from curlhttp.requests._raw import RawResponse
from curlhttp.requests._retries import as_urllib3
from curlhttp.requests._urllib3_pools import route_of
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from curlhttp.requests.adapters import HTTPAdapter

__all__ = ["CurlConnection"]


class CurlConnection:
    """Be one of a pool's connections, for one request; the sockets are libcurl's.

    Attributes:
        timeout: seconds, None for no limit: for connecting until request() was called, for silence
            from then on.
    """

    is_curls = is_connected = is_verified = True
    is_closed = proxy_is_verified = has_connected_to_proxy = False
    proxy = sock = None
    timeout: float | None = None

    def __init__(self, pool: Any, adapter: HTTPAdapter) -> None:
        """Take part in a pool.

        Raises:
            CannotCarry: libcurl cannot do what the pool asks for.
        """
        self.host, self.port = pool.host, pool.port
        self._at = f"{pool.scheme}://{bracketed(pool.host)}:{pool.port}/"
        route_of(pool, parse_url(self._at), adapter._http2)  # can libcurl do that?
        self._pool, self._adapter = pool, adapter

    @cached_property
    def _like(self) -> Any:
        return self._pool._unused_connection()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._like, name)

    def connect(self) -> None:
        """Let urllib3 connect, for who wants its socket.

        Raises:
            ValueError: there is a guard.
        """
        self._adapter._check_unguarded()
        self._like.connect()

    def request(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        *,
        chunked: bool = False,
        preload_content: bool = True,
        decode_content: bool = True,
        enforce_content_length: bool = True,
    ) -> None:
        """Note what to send: getresponse knows the other time limit, too."""
        self._request = _prepared(method, body, headers or {})
        self._target, self._connect = url, self.timeout
        self._options: dict[str, Any] = {
            "preload_content": preload_content,
            "decode_content": decode_content,
            "enforce_content_length": enforce_content_length,
        }

    def getresponse(self) -> HTTPResponse:
        """Send the request, and return the response.

        Raises:
            HTTPError: urllib3's, no response came of it.
        """
        pool, request = self._pool, self._request
        target = self._target
        request.url = target if "://" in target else self._at[:-1] + target
        route = route_of(pool, parse_url(request.url), self._adapter._http2)
        limits = (self._connect, self.timeout)
        is_streamed = not self._options["preload_content"]
        try:
            sent = self._adapter._made(
                request, route.url, route.transport, limits, is_streamed, route.name
            )
            raw = RawResponse(self._adapter._attempt(sent))
        except RequestException as error:
            error.request = request  # type: ignore[assignment]
            raise as_urllib3(error) from error
        pool.num_connections += not raw.received.timings.reused
        response = _as_urllib3s(raw, request, target, self._options)
        response._adapter = self._adapter  # type: ignore[attr-defined]  # has what is to be read
        return response

    def close(self) -> None:
        """Do nothing: libcurl has the connection."""


def _prepared(method: str, body: Any, headers: Any) -> PreparedRequest:
    request = PreparedRequest()
    request.method, request.body = method, body
    fields = CaseInsensitiveDict(headers.items())
    # As http.client and urllib3 do it.
    fields.setdefault("Accept-Encoding", "identity")
    fields.setdefault("User-Agent", _user_agent())
    request.headers = CaseInsensitiveDict(
        (name, value) for name, value in fields.items() if value != SKIP_HEADER
    )
    return request


def _user_agent() -> str:
    import urllib3

    return f"python-urllib3/{urllib3.__version__}"  # type: ignore[attr-defined]


def _as_urllib3s(
    raw: RawResponse, request: PreparedRequest, target: str, options: dict[str, Any]
) -> HTTPResponse:
    response = HTTPResponse(
        body=raw._fp,
        headers=raw.headers,
        status=raw.status,
        version=raw.version,
        reason=raw.reason,
        original_response=raw._original_response,
        request_method=request.method,
        request_url=target,
        **options,
    )
    response.version_string = raw.version_string
    response.chunked = False  # libcurl has taken the chunks apart
    return response
