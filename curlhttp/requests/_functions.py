"""curlhttp.get() and so on: requests' arguments and response, with the defaults of the clients.

They send the clients' headers, and decode bodies by the clients' rules. `requests.api` has the
functions that do everything as requests does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import curlhttp.requests.sessions as sessions
from curlhttp._models import response as _core
from curlhttp._models.headers import DEFAULT_HEADERS
from curlhttp.requests.__version__ import __version__
from curlhttp.requests.adapters import HTTPAdapter
from curlhttp.requests.api import send_once
from curlhttp.requests.models import Response
from curlhttp.requests.sessions import set_verb_signatures
from curlhttp.requests.structures import CaseInsensitiveDict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Unpack

    import curlhttp.requests._types as t
    from curlhttp._models.inputs import JSON, ParamsInput, Text


class UTF8Response(Response):
    """A response as in requests, whose text is UTF-8 if the server names no charset."""

    _encoding: Any = None
    encoding = _core.Response.encoding
    text = _core.Response.text
    json = _core.Response.json

    def raise_for_status(self) -> UTF8Response:
        """Return this response, or raise for a 4xx or 5xx status.

        Raises:
            HTTPError: the status is an error.
        """
        super().raise_for_status()
        return self

    def iter_content(self, chunk_size: int | None = 1, decode_unicode: bool = False) -> Any:
        """Yield the decoded body in pieces.

        Args:
            chunk_size: bytes per piece; None for pieces as they arrive.
            decode_unicode: yield str.

        Raises:
            StreamConsumedError: it was iterated over before.
            TypeError: chunk_size is not a number.
        """
        pieces: Iterator[bytes] = super().iter_content(chunk_size)
        if not decode_unicode:
            return pieces
        from curlhttp.requests._text import decode_pieces

        return decode_pieces(pieces, self._charset())


class _Adapter(HTTPAdapter):
    _response_class = UTF8Response


_USER_AGENT = f"python-requests/{__version__}"
_headers: CaseInsensitiveDict[Text | None] = CaseInsensitiveDict(DEFAULT_HEADERS)
_adapter = _Adapter()  # adapters are thread-safe and open nothing before the first request


def request(method: str, url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
    """Send a request and return the response.

    Args:
        method: such as "GET".
        url: absolute.
        kwargs: see Session.request.

    Raises:
        RequestException: the request could not be sent, or no response was received.
    """
    session = sessions.Session()
    if session.headers.get("User-Agent") == _USER_AGENT:  # else a program has replaced them
        session.headers = _headers.copy()
    return send_once(session, _adapter, method, url, kwargs)


def get(
    url: t.UrlInput, params: ParamsInput | None = None, **kwargs: Unpack[t.GetOptions]
) -> Response:
    """Send GET; see request."""
    return request("GET", url, params=params, **kwargs)


def options(url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
    """Send OPTIONS; see request."""
    return request("OPTIONS", url, **kwargs)


def head(url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
    """Send HEAD; see request. Redirects are not followed by default."""
    kwargs.setdefault("allow_redirects", False)
    return request("HEAD", url, **kwargs)


def post(
    url: t.UrlInput, data: t.DataInput = None, json: JSON = None, **kwargs: Unpack[t.PostOptions]
) -> Response:
    """Send POST; see request."""
    return request("POST", url, data=data, json=json, **kwargs)


def put(url: t.UrlInput, data: t.DataInput = None, **kwargs: Unpack[t.PutOptions]) -> Response:
    """Send PUT; see request."""
    return request("PUT", url, data=data, **kwargs)


def patch(url: t.UrlInput, data: t.DataInput = None, **kwargs: Unpack[t.PutOptions]) -> Response:
    """Send PATCH; see request."""
    return request("PATCH", url, data=data, **kwargs)


def delete(url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
    """Send DELETE; see request."""
    return request("DELETE", url, **kwargs)


def stream(method: str, url: t.UrlInput, **kwargs: Unpack[t.RequestOptions]) -> Response:
    """Send a request and return when the head has arrived; use the response in `with`."""
    kwargs["stream"] = True
    return request(method, url, **kwargs)


set_verb_signatures(globals(), sessions.Session.request)
