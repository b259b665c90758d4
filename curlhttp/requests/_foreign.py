"""Send a request through an adapter's own urllib3 pool instead of libcurl."""

from __future__ import annotations

from typing import Any

from curlhttp import exceptions as e
from curlhttp._models.redaction import redact_text
from curlhttp.requests._outgoing import timeout_of

__all__ = ["send_through"]


def send_through(adapter: Any, pool: Any, request: Any, timeout: Any, proxies: Any) -> Any:
    """Send a request through a urllib3 pool, such as one for Unix sockets; return its response.

    Raises:
        ConnectionError, ConnectTimeout, ProxyError, ReadTimeout, RetryError, SSLError: no
            response came of it.
    """
    import urllib3

    limits = timeout_of(timeout)
    try:
        return pool.urlopen(
            method=request.method,
            url=adapter.request_url(request, proxies),
            body=request.body,
            headers=request.headers,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
            decode_content=False,
            retries=adapter.max_retries,
            timeout=urllib3.Timeout(limits.total, limits.connect, limits.read),
            chunked=not (request.body is None or "Content-Length" in request.headers),
        )
    except (urllib3.exceptions.HTTPError, OSError) as error:
        if isinstance(error, urllib3.exceptions.MaxRetryError) and error.url:
            shown = redact_text(error.url)
            error.args = (str(error).replace(error.url, shown),)
            error.url = shown
        raise _kind_of(error)(error, request=request) from error


def _kind_of(error: Exception) -> type[e.RequestException]:
    """Return which of our exceptions stands for one of urllib3's."""
    from urllib3 import exceptions as names

    reason = error.reason if isinstance(error, names.MaxRetryError) else error
    if isinstance(reason, names.NewConnectionError):  # in urllib3 1 a ConnectTimeoutError, too
        return e.ConnectionError
    if isinstance(reason, names.ConnectTimeoutError):
        return e.ConnectTimeout
    if isinstance(error, names.ReadTimeoutError):  # as the reason of a MaxRetryError it is no more
        return e.ReadTimeout
    if isinstance(reason, names.ResponseError):
        return e.RetryError
    if isinstance(reason, names.ProxyError):
        return e.ProxyError
    return e.SSLError if isinstance(reason, names.SSLError) else e.ConnectionError
