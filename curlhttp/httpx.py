"""Transports for httpx, so that its clients and libraries built on them send with libcurl.

client = httpx.Client(transport=curlhttp.httpx.Transport())
client = httpx.AsyncClient(transport=curlhttp.httpx.AsyncTransport(http2=True))
"""

from __future__ import annotations

try:
    import httpx
except ImportError as _missing:
    raise ImportError(
        "curlhttp.httpx needs httpx: pip install 'curlhttp[httpx]'", name="httpx"
    ) from _missing

from curlhttp._httpx.response_stream import AsyncResponseStream, BlockingResponseStream
from curlhttp._httpx.settings import Library
from curlhttp._httpx.transports import AsyncTransportBase, BlockingTransportBase

__all__ = ["AsyncTransport", "Transport"]

_LIBRARY = Library(httpx, "httpcore")


class Transport(BlockingTransportBase[httpx.Request, httpx.Response], httpx.BaseTransport):
    """Send the requests of httpx.Client with libcurl; the arguments are those of HTTPTransport."""

    _library = _LIBRARY
    _stream_class = BlockingResponseStream.derive(httpx.SyncByteStream)


class AsyncTransport(AsyncTransportBase[httpx.Request, httpx.Response], httpx.AsyncBaseTransport):
    """Send the requests of httpx.AsyncClient with libcurl, on asyncio, uvloop or trio.

    The arguments are those of httpx.AsyncHTTPTransport. You may use it in several event loops.
    """

    _library = _LIBRARY
    _stream_class = AsyncResponseStream.derive(httpx.AsyncByteStream)
