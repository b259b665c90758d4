"""Connections that are not libcurl's: an adapter may bring urllib3 pools of its own."""

from __future__ import annotations

from typing import Any

from curlhttp.requests._timeouts import as_pair

__all__ = ["send_through"]


def send_through(adapter: Any, pool: Any, request: Any, timeout: Any, proxies: Any) -> Any:
    """Send a request through a urllib3 pool, such as one for Unix sockets; return its response.

    Args:
        adapter: the HTTPAdapter that made the pool.
        pool: urllib3's HTTPConnectionPool, or a class derived from it.
        request: the prepared request.
        timeout: as in HTTPAdapter.send.
        proxies: the same.

    Raises:
        ConnectionError, ReadTimeout, ConnectTimeout, SSLError: no response came of it.
    """
    import urllib3

    from curlhttp import exceptions as e

    connect, read, total = as_pair(timeout) if timeout is not None else (10.0, 60.0, None)
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
            timeout=urllib3.Timeout(connect=connect, read=read, total=total),
            chunked=not (request.body is None or "Content-Length" in request.headers),
        )
    except urllib3.exceptions.MaxRetryError as error:
        reason = error.reason
        if isinstance(reason, urllib3.exceptions.NewConnectionError):
            raise e.ConnectionError(error, request=request) from error
        if isinstance(reason, urllib3.exceptions.ConnectTimeoutError):
            raise e.ConnectTimeout(error, request=request) from error
        if isinstance(reason, urllib3.exceptions.ResponseError):
            raise e.RetryError(error, request=request) from error
        if isinstance(reason, urllib3.exceptions.SSLError):
            raise e.SSLError(error, request=request) from error
        raise e.ConnectionError(error, request=request) from error
    except urllib3.exceptions.ReadTimeoutError as error:
        raise e.ReadTimeout(error, request=request) from error
    except urllib3.exceptions.HTTPError as error:
        raise e.ConnectionError(error, request=request) from error
    except OSError as error:
        raise e.ConnectionError(error, request=request) from error
