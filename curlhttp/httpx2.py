"""Transports for httpx2, so that its clients and libraries built on them send with libcurl.

client = httpx2.Client(transport=curlhttp.httpx2.Transport())
client = httpx2.AsyncClient(transport=curlhttp.httpx2.AsyncTransport(http2=True))
"""

from __future__ import annotations

try:
    import httpx2
except ImportError as _missing:
    raise ImportError(
        "curlhttp.httpx2 needs httpx2: pip install 'curlhttp[httpx2]'", name="httpx2"
    ) from _missing

from curlhttp._httpx.response_stream import AsyncResponseStream, BlockingResponseStream
from curlhttp._httpx.settings import Library
from curlhttp._httpx.transports import AsyncTransportBase, BlockingTransportBase

__all__ = ["AsyncTransport", "Transport"]

_LIBRARY = Library(httpx2, "httpcore2")


class Transport(BlockingTransportBase[httpx2.Request, httpx2.Response], httpx2.BaseTransport):
    """Send the requests of httpx2.Client with libcurl; the arguments are those of HTTPTransport."""

    _library = _LIBRARY
    _stream_class = BlockingResponseStream.derive(httpx2.SyncByteStream)
    _trusts_system = True


class AsyncTransport(
    AsyncTransportBase[httpx2.Request, httpx2.Response], httpx2.AsyncBaseTransport
):
    """Send the requests of httpx2.AsyncClient with libcurl, on asyncio, uvloop or trio.

    The arguments are those of httpx2.AsyncHTTPTransport. You may use it in several event loops.
    """

    _library = _LIBRARY
    _stream_class = AsyncResponseStream.derive(httpx2.AsyncByteStream)
    _trusts_system = True
