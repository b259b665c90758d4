"""requests.api: one-off calls. Their connections are kept, their cookies are not shared."""

from __future__ import annotations

from typing import Any

from curlhttp.requests import sessions
from curlhttp.requests.adapters import HTTPAdapter
from curlhttp.requests.models import Response

__all__ = ["delete", "get", "head", "options", "patch", "post", "put", "request", "stream"]

_adapter = HTTPAdapter()  # thread-safe, as adapters are; it opens nothing until it is used


def request(method: str, url: Any, **kwargs: Any) -> Response:
    """Send a request and return the response.

    Args:
        method: such as "GET".
        url: absolute.
        kwargs: see Session.request.

    Raises:
        RequestException: it could not be sent, or no response came of it.
    """
    # By its name in the module: there are packages that put a session of theirs in its place.
    session = sessions.Session()
    for prefix, adapter in session.adapters.items():
        if type(adapter) is HTTPAdapter:
            session.adapters[prefix] = _adapter
    return session.request(method=method, url=url, **kwargs)


def get(url: Any, params: Any = None, **kwargs: Any) -> Response:
    """Send GET; see request."""
    return request("get", url, params=params, **kwargs)


def options(url: Any, **kwargs: Any) -> Response:
    """Send OPTIONS; see request."""
    return request("options", url, **kwargs)


def head(url: Any, **kwargs: Any) -> Response:
    """Send HEAD; see request. Redirects are not followed unless asked to."""
    kwargs.setdefault("allow_redirects", False)
    return request("head", url, **kwargs)


def post(url: Any, data: Any = None, json: Any = None, **kwargs: Any) -> Response:
    """Send POST; see request."""
    return request("post", url, data=data, json=json, **kwargs)


def put(url: Any, data: Any = None, **kwargs: Any) -> Response:
    """Send PUT; see request."""
    return request("put", url, data=data, **kwargs)


def patch(url: Any, data: Any = None, **kwargs: Any) -> Response:
    """Send PATCH; see request."""
    return request("patch", url, data=data, **kwargs)


def delete(url: Any, **kwargs: Any) -> Response:
    """Send DELETE; see request."""
    return request("delete", url, **kwargs)


def stream(method: str, url: Any, **kwargs: Any) -> Response:
    """Send a request and return once the head is in; use the response in `with`."""
    kwargs["stream"] = True
    return request(method, url, **kwargs)
