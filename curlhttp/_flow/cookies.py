"""Send the jar's cookies and store the response's. A client without cookies pays nothing."""

from __future__ import annotations

from curlhttp._engine import Send
from curlhttp._models.cookies import LazyCookies
from curlhttp._models.request import Request
from curlhttp._models.response import Response

__all__ = ["cookies", "store_cookies", "with_cookies"]


def cookies(send: Send) -> Send:
    """Return the layer that adds Cookie, unless the caller did, and stores what comes back."""

    async def through(request: Request) -> Response:
        jar = request.jar
        if jar is None:
            return await send(request)
        response = await send(with_cookies(request, jar))
        # Before the layers above see the response: another request that they send needs them.
        store_cookies(jar, response)
        return response

    return through


def with_cookies(request: Request, jar: LazyCookies) -> Request:
    """Return the request with the jar's cookies and its own; itself where there are none to add."""
    header = jar.header(request.url, request.cookies)
    if header is None or request.get_header("cookie") is not None:
        return request
    # In a copy: the caller may send this request again, when the jar holds others.
    request = request.copy()
    request.headers["Cookie"] = header
    return request


def store_cookies(jar: LazyCookies | None, response: Response) -> None:
    """Put what a response sets into a jar, if there are both."""
    if jar is not None and response.sets_cookies:
        jar.store(response.request.url, response.headers.get_list("set-cookie"))
