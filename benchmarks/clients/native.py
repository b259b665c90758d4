"""Clients with a compiled core.

In Rust (pyreqwest, wreq, primp, pyqwest, httpr), on a fork of curl (curl_cffi), in C++ on libcurl
(redc).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.clients.base import AsyncPeer, BlockingPeer, Settings

__all__ = [
    "AsyncCurlCffi",
    "AsyncHttpr",
    "AsyncPrimp",
    "AsyncPyqwest",
    "AsyncPyreqwest",
    "AsyncRedc",
    "AsyncWreq",
    "CurlCffi",
    "Httpr",
    "Primp",
    "Pyqwest",
    "Pyreqwest",
    "Wreq",
]


def _pyreqwest(builder: Any, settings: Settings) -> Any:
    builder = builder.no_proxy().http2(settings.http2).default_headers(settings.headers)
    if settings.ca:
        builder = builder.add_root_certificate_pem(Path(settings.ca).read_bytes())
    return builder.build()


class AsyncPyreqwest(AsyncPeer):
    name, modules = "pyreqwest", ("pyreqwest",)
    configuration = "no_proxy; its single-threaded runtime, which is the default"

    def __init__(self, settings: Settings) -> None:
        from pyreqwest.client import ClientBuilder

        super().__init__(settings)
        self._client = _pyreqwest(ClientBuilder(), settings)

    async def get(self, url: str) -> int:
        response = await self._client.get(url).build().send()
        return len(await response.bytes())

    async def close(self) -> None:
        await self._client.close()


class Pyreqwest(BlockingPeer):
    name, modules = "pyreqwest", ("pyreqwest",)
    configuration = "no_proxy; its single-threaded runtime, which is the default"

    def __init__(self, settings: Settings) -> None:
        from pyreqwest.client import SyncClientBuilder

        super().__init__(settings)
        self._client = _pyreqwest(SyncClientBuilder(), settings)

    def get(self, url: str) -> int:
        return len(self._client.get(url).build().send().bytes())

    def close(self) -> None:
        self._client.close()


def _wreq_settings(settings: Settings) -> dict[str, Any]:
    trust = {"tls_verify": Path(settings.ca)} if settings.ca else {}
    version = {"http2_only": True} if settings.http2 else {"http1_only": True}
    return {"no_proxy": True, "headers": settings.headers, **trust, **version}


class AsyncWreq(AsyncPeer):
    name, modules = "wreq", ("wreq",)
    configuration = "no_proxy, one HTTP version"

    def __init__(self, settings: Settings) -> None:
        import wreq

        super().__init__(settings)
        self._client = wreq.Client(**_wreq_settings(settings))

    async def get(self, url: str) -> int:
        response = await self._client.get(url)
        return len(await response.bytes())

    async def close(self) -> None:
        """Do nothing: the destructor closes the client."""


class Wreq(BlockingPeer):
    name, modules = "wreq", ("wreq",)
    configuration = "no_proxy, one HTTP version"

    def __init__(self, settings: Settings) -> None:
        from wreq.blocking import Client

        super().__init__(settings)
        self._client = Client(**_wreq_settings(settings))

    def get(self, url: str) -> int:
        return len(self._client.get(url).bytes())

    def close(self) -> None:
        """Do nothing: the destructor closes the client."""


def _curl_cffi_settings(settings: Settings) -> dict[str, Any]:
    return {
        "verify": settings.ca or True,
        "http_version": "v2" if settings.http2 else "v1",
        "headers": settings.headers,
        "discard_cookies": True,
        "trust_env": False,
    }


class AsyncCurlCffi(AsyncPeer):
    name, modules = "curl_cffi", ("curl_cffi",)
    configuration = "max_clients raised, no impersonation, discard_cookies, trust_env=False"

    def __init__(self, settings: Settings) -> None:
        from curl_cffi.requests import AsyncSession

        super().__init__(settings)
        self._session: Any = AsyncSession(
            max_clients=settings.connections, **_curl_cffi_settings(settings)
        )

    async def get(self, url: str) -> int:
        return len((await self._session.get(url)).content)

    async def close(self) -> None:
        await self._session.close()


class CurlCffi(BlockingPeer):
    name, modules = "curl_cffi", ("curl_cffi",)
    configuration = "a Session, no impersonation, discard_cookies, trust_env=False"

    def __init__(self, settings: Settings) -> None:
        from curl_cffi.requests import Session

        super().__init__(settings)
        self._session: Any = Session(**_curl_cffi_settings(settings))

    def get(self, url: str) -> int:
        return len(self._session.get(url).content)

    def close(self) -> None:
        self._session.close()


def _primp_settings(settings: Settings) -> dict[str, Any]:
    return {
        "ca_cert_file": settings.ca or None,
        "http2_only": settings.http2,
        "headers": settings.headers,
        "cookie_store": False,
        "referer": False,
    }


class AsyncPrimp(AsyncPeer):
    name, modules = "primp", ("primp",)
    configuration = "no impersonation, no cookies, no Referer"

    def __init__(self, settings: Settings) -> None:
        import primp

        super().__init__(settings)
        self._client = primp.AsyncClient(**_primp_settings(settings))

    async def get(self, url: str) -> int:
        return len((await self._client.get(url)).content)

    async def close(self) -> None:
        """Do nothing: the destructor closes the client."""


class Primp(BlockingPeer):
    name, modules = "primp", ("primp",)
    configuration = "no impersonation, no cookies, no Referer"

    def __init__(self, settings: Settings) -> None:
        import primp

        super().__init__(settings)
        self._client = primp.Client(**_primp_settings(settings))

    def get(self, url: str) -> int:
        return len(self._client.get(url).content)

    def close(self) -> None:
        """Do nothing: the destructor closes the client."""


class AsyncRedc(AsyncPeer):
    name, modules = "redc", ("redc",)
    configuration = "asyncio backend, one HTTP version, connections raised"
    loops = ("asyncio", "uvloop")

    def __init__(self, settings: Settings) -> None:
        import redc

        super().__init__(settings)
        self._client: Any = redc.Client(
            http_version="2" if settings.http2 else "1.1",
            headers=settings.headers or None,
            max_host_connections=settings.connections,
            cert=settings.ca or None,
        )

    async def get(self, url: str) -> int:
        return len((await self._client.get(url)).content)

    async def close(self) -> None:
        await self._client.close()


def _pyqwest_settings(settings: Settings) -> dict[str, Any]:
    from pyqwest import HTTPVersion

    return {
        "http_version": HTTPVersion.HTTP2 if settings.http2 else HTTPVersion.HTTP1,
        "tls_ca_cert": Path(settings.ca).read_bytes() if settings.ca else None,
        "enable_otel": False,
    }


class AsyncPyqwest(AsyncPeer):
    name, modules = "pyqwest", ("pyqwest",)
    configuration = "one HTTP version, enable_otel=False"

    def __init__(self, settings: Settings) -> None:
        import pyqwest

        super().__init__(settings)
        transport = pyqwest.HTTPTransport(**_pyqwest_settings(settings))
        self._client: Any = pyqwest.Client(transport)

    async def get(self, url: str) -> int:
        return len((await self._client.get(url, headers=self.settings.headers)).content)

    async def close(self) -> None:
        """Do nothing: the destructor closes the client."""


class Pyqwest(BlockingPeer):
    name, modules = "pyqwest", ("pyqwest",)
    configuration = "one HTTP version, enable_otel=False"

    def __init__(self, settings: Settings) -> None:
        import pyqwest

        super().__init__(settings)
        transport = pyqwest.SyncHTTPTransport(**_pyqwest_settings(settings))
        self._client: Any = pyqwest.SyncClient(transport)

    def get(self, url: str) -> int:
        return len(self._client.get(url, headers=self.settings.headers).content)

    def close(self) -> None:
        """Do nothing: the destructor closes the client."""


def _httpr_settings(settings: Settings) -> dict[str, Any]:
    version = {"http2_only": True} if settings.http2 else {"http1_only": True}
    return {
        "ca_cert_file": settings.ca or None,
        "headers": settings.headers,
        "cookie_store": False,
        "referer": False,
        **version,
    }


class AsyncHttpr(AsyncPeer):
    name, modules = "httpr", ("httpr",)
    configuration = "max_concurrency raised, one HTTP version, no cookies, no Referer"

    def __init__(self, settings: Settings) -> None:
        import httpr

        super().__init__(settings)
        self._client: Any = httpr.AsyncClient(
            max_concurrency=settings.connections, **_httpr_settings(settings)
        )

    async def get(self, url: str) -> int:
        return len((await self._client.get(url)).content)

    async def close(self) -> None:
        await self._client.aclose()


class Httpr(BlockingPeer):
    name, modules = "httpr", ("httpr",)
    configuration = "one HTTP version, no cookies, no Referer"

    def __init__(self, settings: Settings) -> None:
        import httpr

        super().__init__(settings)
        self._client: Any = httpr.Client(**_httpr_settings(settings))

    def get(self, url: str) -> int:
        return len(self._client.get(url).content)

    def close(self) -> None:
        self._client.close()
