"""One-off calls on a shared client: connections are kept alive, cookies are not shared."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

from curlhttp._client import Client, RequestOptions
from curlhttp._models.jar import Jar
from curlhttp._models.response import Response
from curlhttp._models.url import URL
from curlhttp._run import run_sync
from curlhttp._stream import StreamedResponse

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["delete", "get", "head", "options", "patch", "post", "put", "request", "stream"]

_lock = threading.Lock()
_client: Client | None = None


def _shared() -> Client:
    global _client
    client = _client
    if client is None:
        with _lock:
            client = _client = _client or Client()
    return client


def request(method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
    """Send a request and return the response.

    Args:
        method: a token, such as "GET".
        url: absolute.
        options: see Client.build_request.

    Raises:
        RequestException: it could not be sent, or no response came of it.
    """
    client = _shared()
    built = client.build_request(method, url, **options)
    built.jar = Jar()  # lives as long as this call and its redirects
    return run_sync(client._send(built))


def stream(
    method: str, url: str | bytes | URL, **options: Unpack[RequestOptions]
) -> StreamedResponse:
    """Send a request and return once the head is in; use the response in `with`."""
    options["stream"] = True
    return cast(StreamedResponse, request(method, url, **options))


def get(url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
    """Send GET; see request."""
    return request("GET", url, **options)


def options(url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
    """Send OPTIONS; see request."""
    return request("OPTIONS", url, **options)


def head(url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
    """Send HEAD; see request. Redirects are not followed unless asked to, as in requests."""
    options.setdefault("follow_redirects", options.get("allow_redirects", False))
    return request("HEAD", url, **options)


def post(url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
    """Send POST; see request."""
    return request("POST", url, **options)


def put(url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
    """Send PUT; see request."""
    return request("PUT", url, **options)


def patch(url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
    """Send PATCH; see request."""
    return request("PATCH", url, **options)


def delete(url: str | bytes | URL, **options: Unpack[RequestOptions]) -> Response:
    """Send DELETE; see request."""
    return request("DELETE", url, **options)
