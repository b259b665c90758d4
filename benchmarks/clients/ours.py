"""curlhttp itself, with its default settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.clients.base import AsyncPeer, BlockingPeer, Settings, WholeRound
from benchmarks.clients.python import Httpx

__all__ = ["Async", "Blocking", "Bulk", "DropIn", "HttpxTransport", "Streamed"]

_CONFIGURATION = "defaults, but for the version of HTTP, which is the case's"


def _settings(settings: Settings) -> dict[str, Any]:
    return {
        "verify": settings.ca or True,
        "headers": settings.headers,
        "max_connections": settings.connections,  # 100 is the default
        "http2": settings.http2,
    }


class Async(AsyncPeer):
    name, modules = "curlhttp", ("curlhttp", "pycurl")
    configuration = _CONFIGURATION
    loops = ("asyncio", "uvloop", "trio")

    def __init__(self, settings: Settings) -> None:
        import curlhttp

        super().__init__(settings)
        self._client = curlhttp.AsyncClient(**_settings(settings))

    async def get(self, url: str) -> int:
        return len((await self._client.get(url)).content)

    async def close(self) -> None:
        await self._client.aclose()


class Blocking(BlockingPeer):
    name, modules = "curlhttp", ("curlhttp", "pycurl")
    configuration = _CONFIGURATION

    def __init__(self, settings: Settings) -> None:
        import curlhttp

        super().__init__(settings)
        self._client = curlhttp.Client(**_settings(settings))

    def get(self, url: str) -> int:
        return len(self._client.get(url).content)

    def close(self) -> None:
        self._client.close()


class Streamed(Blocking):
    name = "curlhttp, streamed"

    def get(self, url: str) -> int:
        with self._client.stream("GET", url) as response:
            return sum(map(len, response.iter_bytes()))


class HttpxTransport(Httpx):
    name, modules = "httpx, curlhttp's transport", ("httpx", "curlhttp", "pycurl")
    configuration = "httpx with curlhttp.httpx.Transport"

    def __init__(self, settings: Settings) -> None:
        import httpx

        from curlhttp.httpx import Transport

        super().__init__(settings)
        transport = Transport(verify=settings.ca or True, trust_env=False)
        self._client = httpx.Client(transport=transport, headers=settings.headers, trust_env=False)


class DropIn(BlockingPeer):
    name, modules = "curlhttp.Session", ("curlhttp", "pycurl")

    def __init__(self, settings: Settings) -> None:
        import curlhttp

        super().__init__(settings)
        self._session = curlhttp.Session()
        self._session.verify = settings.ca or True
        self._session.headers.update(settings.headers)

    def get(self, url: str) -> int:
        return len(self._session.get(url).content)

    def close(self) -> None:
        self._session.close()


class Bulk(WholeRound):
    name, modules = "curlhttp Client.map", ("curlhttp", "pycurl")

    def __init__(self, settings: Settings) -> None:
        import curlhttp

        super().__init__(settings)
        self._client: Any = curlhttp.Client(**_settings(settings))

    def run(
        self, url: str, count: int, concurrency: int, done: Callable[[int | Exception, float], None]
    ) -> None:
        for result in self._client.map((url for _ in range(count)), concurrency=concurrency):
            if isinstance(result, Exception):
                done(result, 0.0)
            else:
                done(len(result.content), result.elapsed.total_seconds())

    def close(self) -> None:
        self._client.close()
