"""requests.api: single requests. Connections are kept, cookies are not shared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import curlhttp.requests.sessions as sessions
from curlhttp.requests.adapters import HTTPAdapter
from curlhttp.requests.models import Response
from curlhttp.requests.sessions import set_verb_signatures

if TYPE_CHECKING:
    from typing_extensions import Unpack

    import curlhttp.requests._types as t
    from curlhttp._http.inputs import JSONInput, ParamsInput

__all__ = ["delete", "get", "head", "options", "patch", "post", "put", "request"]

_adapter = HTTPAdapter()  # adapters are thread-safe and open nothing before the first request


def request(method: str, url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
    """Send a request and return the response.

    Args:
        method: such as "GET".
        url: absolute.
        kwargs: see Session.request.

    Raises:
        RequestException: the request could not be sent, or no response was received.
    """
    # Looked up in the module, because packages replace the class there.
    session = sessions.Session()
    # The connection stays in our adapter. The session's own are used if a package has mounted them.
    for prefix, mounted in session.adapters.items():
        if type(mounted) is HTTPAdapter:
            session.adapters[prefix] = _adapter
    try:
        return session.request(method=method, url=url, **kwargs)
    except TypeError as error:
        from curlhttp._http.suggestions import explain_call

        if (better := explain_call("session", "a request", error, session.request)) is error:
            raise
        raise better from None


def get(
    url: t.UrlInput, params: ParamsInput | None = None, **kwargs: Unpack[t.GetOptions]
) -> Response:
    """Send GET; see request."""
    return request("get", url, params=params, **kwargs)


def options(url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
    """Send OPTIONS; see request."""
    return request("options", url, **kwargs)


def head(url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
    """Send HEAD; see request. Redirects are not followed by default."""
    kwargs.setdefault("allow_redirects", False)
    return request("head", url, **kwargs)


def post(
    url: t.UrlInput,
    data: t.DataInput = None,
    json: JSONInput = None,
    **kwargs: Unpack[t.PostOptions],
) -> Response:
    """Send POST; see request."""
    return request("post", url, data=data, json=json, **kwargs)


def put(url: t.UrlInput, data: t.DataInput = None, **kwargs: Unpack[t.PutOptions]) -> Response:
    """Send PUT; see request."""
    return request("put", url, data=data, **kwargs)


def patch(url: t.UrlInput, data: t.DataInput = None, **kwargs: Unpack[t.PutOptions]) -> Response:
    """Send PATCH; see request."""
    return request("patch", url, data=data, **kwargs)


def delete(url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
    """Send DELETE; see request."""
    return request("delete", url, **kwargs)


set_verb_signatures(globals(), sessions.Session.request)
