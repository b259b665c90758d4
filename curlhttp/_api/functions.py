"""curlhttp.get() and so on: those of a Client that all of them share, but with cookies of its own
for each call.

They take some arguments by position, as the functions of requests do.
"""

from __future__ import annotations

import os
from types import FunctionType
from typing import TYPE_CHECKING, TypeAlias, cast

from curlhttp._client.client import BlockingClient
from curlhttp._client.environment import find_netrc, read_environment
from curlhttp._client.request_builder import make_verb_signature
from curlhttp._http.cookies import LazyCookieJar
from curlhttp._http.signatures import DescribedDefault, set_signature

if TYPE_CHECKING:
    from inspect import Signature

    from typing_extensions import Unpack

    from curlhttp._client.options import BareOptions, RequestOptions
    from curlhttp._client.stream import StreamedResponse
    from curlhttp._http.inputs import (
        ContentInput,
        DataInput,
        FilesInput,
        JSONInput,
        ParamsInput,
        Progress,
    )
    from curlhttp._http.request import ClientRequest
    from curlhttp._http.response import Response
    from curlhttp._http.url import URL

    class _ContentOptions(BareOptions, total=False):
        content: ContentInput | None
        files: FilesInput | None
        stream: bool
        progress: Progress | None

    class GetOptions(_ContentOptions, total=False):
        """The keywords of get(), besides params."""

        data: DataInput | None
        json: JSONInput

    class PostOptions(_ContentOptions, total=False):
        """The keywords of post(), besides data and json."""

        params: ParamsInput | None

    class PutOptions(PostOptions, total=False):
        """The keywords of put() and patch(), besides data."""

        json: JSONInput


_Url: TypeAlias = "str | bytes | URL"


class _SharedClient(BlockingClient):
    """A client whose requests share no cookies."""

    def _build_plain_request(self, method: str, url: URL) -> ClientRequest:
        request = super()._build_plain_request(method, url)
        request.jar = LazyCookieJar()
        return request

    def _build_straight(self, url: _Url, options: RequestOptions) -> ClientRequest | None:
        request = super()._build_straight(url, options)
        if request is not None:
            request.jar = LazyCookieJar()
        return request


# By the environment that it was made for, which a program may change. No lock, because a forked
# child could wait for it forever.
_clients: dict[tuple[object, ...], _SharedClient] = {}


def _get_client() -> _SharedClient:
    environ = read_environment()
    netrc = find_netrc(environ)
    key = (*environ.items(), netrc is not None and os.path.exists(netrc))
    client = _clients.get(key)
    if client is None:
        made = _SharedClient()
        client = _clients.setdefault(key, made)  # atomic: another thread may make one
        for other in [each for each in tuple(_clients) if each != key]:
            _clients.pop(other, None)  # it is closed when no request of it is left
    return client


def close() -> None:
    """Close the kept connections; the next call opens new ones."""
    while _clients:
        _clients.popitem()[1].close()


def request(method: str, url: _Url, **options: Unpack[RequestOptions]) -> Response:
    """Send a request and return the response, as a Client without settings does.

    Connections are kept for the next call, cookies are not. Threads may call it at the same time.

    Args:
        method: a token, such as "GET".
        url: absolute.
        options: see Client.build_request.

    Raises:
        RequestException: the request could not be sent, or no response was received.
    """
    return _get_client().request(method, url, **options)


def stream(method: str, url: _Url, **options: Unpack[RequestOptions]) -> StreamedResponse:
    """Send a request and return when the response head arrives; use the response in `with`.

    Args:
        method: a token, such as "GET".
        url: absolute.
        options: see Client.build_request.

    Raises:
        RequestException: the request could not be sent, or no response was received.
    """
    return _get_client().stream(method, url, **options)


def get(url: _Url, params: ParamsInput | None = None, **options: Unpack[GetOptions]) -> Response:
    """Send GET; see request."""
    return _get_client().get(url, **_merge(options, params=params))


def options(url: _Url, **options: Unpack[RequestOptions]) -> Response:
    """Send OPTIONS; see request."""
    return _get_client().options(url, **options)


def head(url: _Url, **options: Unpack[RequestOptions]) -> Response:
    """Send HEAD; see request. As in requests, redirects are not followed by default."""
    return _get_client().head(url, **options)


def post(
    url: _Url,
    data: DataInput | None = None,
    json: JSONInput = None,
    **options: Unpack[PostOptions],
) -> Response:
    """Send POST; see request."""
    return _get_client().post(url, **_merge(options, data=data, json=json))


def put(url: _Url, data: DataInput | None = None, **options: Unpack[PutOptions]) -> Response:
    """Send PUT; see request."""
    return _get_client().put(url, **_merge(options, data=data))


def patch(url: _Url, data: DataInput | None = None, **options: Unpack[PutOptions]) -> Response:
    """Send PATCH; see request."""
    return _get_client().patch(url, **_merge(options, data=data))


def delete(url: _Url, **options: Unpack[RequestOptions]) -> Response:
    """Send DELETE; see request."""
    return _get_client().delete(url, **options)


def _merge(options: object, **positional: object) -> RequestOptions:
    given = {name: value for name, value in positional.items() if value is not None}
    found = cast("RequestOptions", options)
    found.update(given)  # type: ignore[typeddict-item]
    return found


def _make_signature(function: FunctionType) -> Signature:
    made = make_verb_signature(function)
    shown = [
        each.replace(default=DescribedDefault(f"Client().{repr(each.default).partition('.')[2]}"))
        if isinstance(each.default, DescribedDefault)
        else each
        for each in made.parameters.values()
    ]
    return made.replace(parameters=shown)


for _function in (request, stream, get, options, head, post, put, patch, delete):
    set_signature(_function, _make_signature)
