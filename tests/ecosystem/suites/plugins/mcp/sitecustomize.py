"""Python imports this at its start: mcp's clients for HTTP are the port.

mcp's tests hand over clients of httpx2, most of which ask an application in the same process. They
are the network of ours here.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import httpx2
import mcp_on_curlhttp

import curlhttp


class _Network(curlhttp.AsyncTransport):
    """Send each attempt through a client of httpx2."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def send(self, request: curlhttp.ClientRequest) -> curlhttp.Response:
        content = await request.aread() if request.body is not None else None
        headers = list(request.headers.multi_items())
        built = self._client.build_request(
            request.method, str(request.url), headers=headers, content=content
        )
        with _errors_of_curlhttp():
            response = await self._client.send(built, stream=True, follow_redirects=False)
        return curlhttp.AsyncStreamedResponse.of(
            request,
            response.status_code,
            headers=list(response.headers.multi_items()),
            content=[response.content] if response.is_stream_consumed else _Pieces(response),
        )


class _Pieces:
    """A body that is closed even if nobody begins to read it, unlike a generator."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._pieces = response.aiter_raw()

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> bytes:
        with _errors_of_curlhttp():
            return await self._pieces.__anext__()

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _errors_of_curlhttp() -> Iterator[None]:
    try:
        yield
    except httpx2.TimeoutException as error:
        raise curlhttp.ReadTimeout(str(error)) from error
    except httpx2.TransportError as error:
        raise curlhttp.ConnectionError(str(error)) from error


@asynccontextmanager
async def _sse_client(
    url: str,
    headers: dict[str, Any] | None = None,
    timeout: float = 5.0,
    sse_read_timeout: float = 300.0,
    httpx_client_factory: Callable[..., httpx2.AsyncClient] | None = None,
    auth: httpx2.Auth | None = None,
    on_session_created: Callable[[str], None] | None = None,
) -> AsyncIterator[Any]:
    async with AsyncExitStack() as stack:
        network = None
        if httpx_client_factory is not None:
            network = await stack.enter_async_context(
                httpx_client_factory(headers=headers, auth=auth)
            )
        client = await stack.enter_async_context(_connect(network))
        limits = curlhttp.Timeout(connect=timeout, read=sse_read_timeout)
        async with mcp_on_curlhttp.sse_client(
            url, client, headers=headers, timeouts=limits, on_session_created=on_session_created
        ) as streams:
            yield streams


@asynccontextmanager
async def _streamable_http_client(
    url: str, *, http_client: httpx2.AsyncClient | None = None, **options: Any
) -> AsyncIterator[Any]:
    async with _connect(http_client) as client:
        async with mcp_on_curlhttp.streamable_http_client(url, client, **options) as streams:
            yield streams


def _connect(network: httpx2.AsyncClient | None) -> curlhttp.AsyncClient:
    transport = None if network is None else _Network(network)
    return curlhttp.AsyncClient(transport=transport, trust_env=False)


_OURS = {"sse_client": _sse_client, "streamable_http_client": _streamable_http_client}
for _module in list(sys.modules.values()):
    if _module.__name__.startswith("mcp."):
        for _name in _OURS.keys() & vars(_module).keys():
            setattr(_module, _name, _OURS[_name])
