"""Transports for httpx2: its clients, and what is built on them, on libcurl.

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

from curlhttp._httpx.response_stream import AsyncWireStream, BlockingWireStream, stream_of
from curlhttp._httpx.settings import Binding
from curlhttp._httpx.transports import AsyncTransportBase, BlockingTransportBase

__all__ = ["AsyncTransport", "Transport"]

_BINDING = Binding(httpx2, "httpcore2")


class Transport(BlockingTransportBase[httpx2.Request, httpx2.Response], httpx2.BaseTransport):
    """Send the requests of httpx2.Client by libcurl; the arguments are httpx2.HTTPTransport's."""

    _binding = _BINDING
    _stream_kind = stream_of(BlockingWireStream, httpx2.SyncByteStream)
    _trusts_system = True


class AsyncTransport(
    AsyncTransportBase[httpx2.Request, httpx2.Response], httpx2.AsyncBaseTransport
):
    """Send the requests of httpx2.AsyncClient by libcurl, on asyncio, uvloop or trio.

    The arguments are httpx2.AsyncHTTPTransport's. It may serve several event loops.
    """

    _binding = _BINDING
    _stream_kind = stream_of(AsyncWireStream, httpx2.AsyncByteStream)
    _trusts_system = True
