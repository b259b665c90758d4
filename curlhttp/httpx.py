"""Transports for httpx: its clients, and what is built on them, on libcurl.

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

from curlhttp._httpx.response_stream import AsyncWireStream, BlockingWireStream, stream_of
from curlhttp._httpx.settings import Binding
from curlhttp._httpx.transports import AsyncTransportBase, BlockingTransportBase

__all__ = ["AsyncTransport", "Transport"]

_BINDING = Binding(httpx, "httpcore")


class Transport(BlockingTransportBase[httpx.Request, httpx.Response], httpx.BaseTransport):
    """Send the requests of httpx.Client by libcurl; the arguments are httpx.HTTPTransport's."""

    _binding = _BINDING
    _stream_kind = stream_of(BlockingWireStream, httpx.SyncByteStream)


class AsyncTransport(AsyncTransportBase[httpx.Request, httpx.Response], httpx.AsyncBaseTransport):
    """Send the requests of httpx.AsyncClient by libcurl, on asyncio, uvloop or trio.

    The arguments are httpx.AsyncHTTPTransport's. It may serve several event loops.
    """

    _binding = _BINDING
    _stream_kind = stream_of(AsyncWireStream, httpx.AsyncByteStream)
