"""Clients of httpx and httpx2 of any colour, on our transports or on the library's own."""

from __future__ import annotations

import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from types import ModuleType
from typing import Any


def transports(library: ModuleType) -> Any:
    """Return curlhttp.httpx for httpx, curlhttp.httpx2 for httpx2."""
    return importlib.import_module(f"curlhttp.{library.__name__}")


class AnyHTTPX:
    """A Client or AsyncClient with async methods, as tests.support.colours.AnyClient.

    Args:
        colour: "blocking" for a Client.
        library: httpx or httpx2.
        own: on the library's own transport, to compare with.
        transport: the transport's arguments.
        settings: the client's.
    """

    def __init__(
        self,
        colour: str,
        library: Any,
        *,
        own: bool = False,
        transport: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.is_blocking = colour == "blocking"
        if own:
            kinds = library.HTTPTransport, library.AsyncHTTPTransport
        else:
            home = transports(library)
            kinds = home.Transport, home.AsyncTransport
        self.transport: Any = kinds[not self.is_blocking](**(transport or {}))
        client = library.Client if self.is_blocking else library.AsyncClient
        self.real: Any = client(transport=self.transport, **settings)

    async def request(self, method: str, url: str, **options: Any) -> Any:
        response = self.real.request(method, url, **options)
        return response if self.is_blocking else await response

    async def get(self, url: str, **options: Any) -> Any:
        return await self.request("GET", url, **options)

    async def post(self, url: str, **options: Any) -> Any:
        return await self.request("POST", url, **options)

    @asynccontextmanager
    async def stream(self, method: str, url: str, **options: Any) -> AsyncIterator[Any]:
        """Give a response whose body is on the wire."""
        if self.is_blocking:
            with self.real.stream(method, url, **options) as response:
                yield response
        else:
            async with self.real.stream(method, url, **options) as response:
                yield response

    async def read(self, response: Any) -> bytes:
        body: bytes = response.read() if self.is_blocking else await response.aread()
        return body

    async def pieces(self, response: Any) -> AsyncGenerator[bytes, None]:
        """Give the raw pieces of a response's body as they come."""
        if self.is_blocking:
            for piece in response.iter_raw():
                yield piece
        else:
            async with aclosing(response.aiter_raw()) as pieces:  # trio warns of those left early
                async for piece in pieces:
                    yield piece

    async def close(self, response: Any) -> None:
        if self.is_blocking:
            response.close()
        else:
            await response.aclose()

    async def aclose(self) -> None:
        if self.is_blocking:
            self.real.close()
        else:
            await self.real.aclose()


Make = Callable[..., AnyHTTPX]
