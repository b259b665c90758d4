"""Clients written in Python, with their C accelerators if they have any."""

from __future__ import annotations

from typing import Any, ClassVar

from benchmarks.clients.base import AsyncPeer, BlockingPeer, Settings

__all__ = [
    "Aiohttp",
    "AsyncHttpx",
    "AsyncNiquests",
    "Httpx",
    "Hyperhttp",
    "Niquests",
    "Requests",
    "TrustingRequests",
    "Urllib3",
]


class Aiohttp(AsyncPeer):
    name, modules = "aiohttp", ("aiohttp",)
    configuration = "DummyCookieJar; as many connections as curlhttp may have, 100 by default"
    http2 = False

    def __init__(self, settings: Settings) -> None:
        import aiohttp

        super().__init__(settings)
        tls: Any = settings.ssl_context or True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=settings.connections, ssl=tls),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=settings.headers,
        )

    async def get(self, url: str) -> int:
        async with self._session.get(url) as response:
            return len(await response.read())

    async def close(self) -> None:
        await self._session.close()


def _httpx_settings(settings: Settings) -> dict[str, Any]:
    return {
        "verify": settings.ssl_context or False,
        "http2": settings.http2,
        "headers": settings.headers,
        "trust_env": False,
    }


class AsyncHttpx(AsyncPeer):
    name, modules = "httpx", ("httpx", "h2")
    configuration = "trust_env=False; the default limits, since it is slower with higher ones"
    loops = ("asyncio", "uvloop", "trio")

    def __init__(self, settings: Settings) -> None:
        import httpx

        super().__init__(settings)
        self._client = httpx.AsyncClient(**_httpx_settings(settings))

    async def get(self, url: str) -> int:
        return len((await self._client.get(url)).content)

    async def close(self) -> None:
        await self._client.aclose()


class Httpx(BlockingPeer):
    name = "httpx"
    modules: ClassVar[tuple[str, ...]] = ("httpx",)
    configuration = "trust_env=False; the default limits, since it is slower with higher ones"

    def __init__(self, settings: Settings) -> None:
        import httpx

        super().__init__(settings)
        self._client = httpx.Client(**_httpx_settings(settings))

    def get(self, url: str) -> int:
        return len(self._client.get(url).content)

    def close(self) -> None:
        self._client.close()


class Hyperhttp(AsyncPeer):
    name, modules = "hyperhttp", ("hyperhttp",)
    configuration = "100 connections to a host, no retries, trust_env=False"

    def __init__(self, settings: Settings) -> None:
        import hyperhttp

        super().__init__(settings)
        self._client = hyperhttp.Client(
            max_connections=settings.connections,
            max_keepalive_connections=settings.connections,
            http2=settings.http2,
            verify=settings.ca or True,
            headers=settings.headers,
            retry=False,
            trust_env=False,
        )

    async def get(self, url: str) -> int:
        response = await self._client.get(url)
        return len(await response.aread())

    async def close(self) -> None:
        await self._client.aclose()


class Requests(BlockingPeer):
    name, modules = "requests", ("requests",)
    configuration = "a Session, trust_env=False"

    def __init__(self, settings: Settings) -> None:
        import requests

        super().__init__(settings)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = settings.ca or True
        self._session.headers.update(settings.headers)

    def get(self, url: str) -> int:
        return len(self._session.get(url).content)

    def close(self) -> None:
        self._session.close()


class TrustingRequests(Requests):
    name = "requests, defaults"
    configuration = "a Session, which looks into the environment and .netrc for each request"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._session.trust_env = True


class Urllib3(BlockingPeer):
    name, modules = "urllib3", ("urllib3",)
    configuration = "a PoolManager"

    def __init__(self, settings: Settings) -> None:
        import urllib3

        super().__init__(settings)
        self._pools: Any = urllib3.PoolManager(
            ca_certs=settings.ca or None, headers=settings.headers
        )

    def get(self, url: str) -> int:
        return len(self._pools.request("GET", url).data)

    def close(self) -> None:
        self._pools.clear()


def _niquests_settings(settings: Settings) -> dict[str, Any]:
    return {
        "pool_maxsize": settings.connections,
        "multiplexed": settings.http2,
        "disable_http2": not settings.http2,
        "disable_http3": True,
        "revocation_configuration": None,
        "verify": settings.ca or True,
        "headers": settings.headers,
    }


class AsyncNiquests(AsyncPeer):
    name, modules = "niquests", ("niquests",)
    configuration = "multiplexed=True with HTTP/2, pool_maxsize raised, no OCSP, no HTTP/3"

    def __init__(self, settings: Settings) -> None:
        import niquests

        super().__init__(settings)
        self._session = niquests.AsyncSession(**_niquests_settings(settings))
        self._session.trust_env = False

    async def get(self, url: str) -> int:
        response = await self._session.get(url)
        if self.settings.http2:
            await self._session.gather(response)
        return len(response.content or b"")

    async def close(self) -> None:
        await self._session.close()


class Niquests(BlockingPeer):
    name, modules = "niquests", ("niquests",)
    configuration = "a Session, no OCSP, no HTTP/3, trust_env=False"

    def __init__(self, settings: Settings) -> None:
        import niquests

        super().__init__(settings)
        self._session = niquests.Session(**_niquests_settings(settings))
        self._session.trust_env = False

    def get(self, url: str) -> int:
        return len(self._session.get(url).content or b"")

    def close(self) -> None:
        self._session.close()
