"""fsspec on curlhttp: sessions for its HTTP file system, which pandas, dask and zarr use.

    files = fsspec.filesystem("https", get_client=get_client, client_kwargs={"retry": 3})
    print(files.cat("https://example.org/table.csv"))

For all file systems of a program, and for `fsspec.open(url)`:

    fsspec.config.conf.update(http={"get_client": get_client}, https={"get_client": get_client})

The file system takes what aiohttp's session returns and raises, so this needs aiohttp, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import multidict
import yarl

import curlhttp

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from curlhttp.types import ClientOptions, RequestOptions


async def get_client(
    *, loop: asyncio.AbstractEventLoop | None = None, **options: Unpack[ClientOptions]
) -> Session:
    """Return what HTTPFileSystem calls a session; it is awaited in the file system's loop.

    Args:
        loop: of the file system.
        options: of AsyncClient; `client_kwargs=` of the file system.
    """
    return Session(curlhttp.AsyncClient(**options))


class Session:
    """A client, with the methods of aiohttp's session that the file system calls.

    Their keywords are those of the client's methods: `fsspec.filesystem("https", auth=...)`.
    """

    def __init__(self, client: curlhttp.AsyncClient) -> None:
        self._client = client

    def get(self, url: yarl.URL, **options: Unpack[RequestOptions]) -> _Opening:
        return _Opening(self._client, "GET", url, options)

    def head(self, url: yarl.URL, **options: Unpack[RequestOptions]) -> _Opening:
        return _Opening(self._client, "HEAD", url, options)

    def post(self, url: yarl.URL, **options: Unpack[RequestOptions]) -> _Opening:
        return _Opening(self._client, "POST", url, options)

    def put(self, url: yarl.URL, **options: Unpack[RequestOptions]) -> _Opening:
        return _Opening(self._client, "PUT", url, options)

    async def close(self) -> None:
        await self._client.aclose()


class _Opening:
    """A request that is sent when it is awaited or entered, as aiohttp's."""

    def __init__(
        self, client: curlhttp.AsyncClient, method: str, url: yarl.URL, options: RequestOptions
    ) -> None:
        self._client = client
        self._request = (method, url)
        self._options = options

    def __await__(self) -> Generator[Any, None, _Response]:
        return self._send().__await__()

    async def __aenter__(self) -> _Response:
        self._response = await self._send()
        return self._response

    async def __aexit__(self, *_: object) -> None:
        await self._response.aclose()

    async def _send(self) -> _Response:
        method, url = self._request
        with _errors_of_aiohttp():
            raw = curlhttp.URL(str(url), raw=True)  # yarl has escaped what must be
            stream = self._client.stream(method, raw, **self._options)
            return _Response(await stream.__aenter__())


class _Response:
    """A streamed response, with the members of aiohttp's that the file system reads."""

    def __init__(self, response: curlhttp.AsyncStreamedResponse) -> None:
        self._response = response
        self.status = response.status_code
        self.headers = response.headers
        self.url = response.url
        self.content = self  # has read(size)

    async def __aenter__(self) -> _Response:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def raise_for_status(self) -> None:
        if self._response.is_error:
            sent = self._response.request
            url = yarl.URL(str(self.url), encoded=True)
            headers = multidict.CIMultiDictProxy(multidict.CIMultiDict(sent.headers))
            info = aiohttp.RequestInfo(url, sent.method, headers, url)
            reason = self._response.reason
            raise aiohttp.ClientResponseError(info, (), status=self.status, message=reason)

    async def read(self, size: int = -1) -> bytes:
        with _errors_of_aiohttp():
            return await self._response.aread(size)

    async def text(self, errors: str = "strict") -> str:
        return (await self.read()).decode(self._response.encoding or "utf-8", errors)

    def close(self) -> None:
        self._response.close()

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _errors_of_aiohttp() -> Iterator[None]:
    try:
        yield
    except curlhttp.TimeoutException as error:
        raise aiohttp.ServerTimeoutError(str(error)) from error
    except (curlhttp.ChunkedEncodingError, curlhttp.ContentDecodingError) as error:
        raise aiohttp.ClientPayloadError(str(error)) from error
    except curlhttp.ConnectionError as error:
        raise aiohttp.ClientConnectionError(str(error)) from error
    except curlhttp.RequestException as error:
        raise aiohttp.ClientError(str(error)) from error
