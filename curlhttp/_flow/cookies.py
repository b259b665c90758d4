"""Send the jar's cookies and store the response's. A client without cookies pays nothing."""

from __future__ import annotations

from curlhttp._flow.engine import Send
from curlhttp._models.request import Request
from curlhttp._models.response import Response

__all__ = ["cookies"]


async def cookies(request: Request, send: Send) -> Response:
    """Add Cookie, unless the caller set it, and store what the response sets."""
    jar = request.jar
    if jar is not None:
        header = jar.header(request.url, request.cookies)
        if header is not None and request.get_header("cookie") is None:
            request.headers["Cookie"] = header
    response = await send(request)
    if jar is not None and response.sets_cookies:
        jar.store(response.request.url, response.headers.get_list("set-cookie"))
    return response
