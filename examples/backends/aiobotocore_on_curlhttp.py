"""aiobotocore on curlhttp: a session for all of AWS, and for s3fs, which is built on it.

config = AioConfig(http_session_cls=CurlSession)
async with get_session().create_client("s3", config=config) as s3:
    await s3.put_object(Bucket="bucket", Key="a/./b", Body=b"as it is")

s3fs.S3FileSystem(config_kwargs={"http_session_cls": CurlSession})
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from aiobotocore.awsrequest import AioAWSResponse
from aiobotocore.response import AioReadTimeoutError
from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    InvalidProxiesConfigError,
    ProxyConnectionError,
    ReadTimeoutError,
    ResponseStreamingError,
    SSLError,
)
from botocore.httpsession import MAX_POOL_CONNECTIONS, ProxyConfiguration, mask_proxy_url

import curlhttp


class CurlSession:
    """What aiobotocore sends through; its arguments are those of AIOHTTPSession.

    botocore signs, retries, follows redirects and finds proxies and certificates itself, so the
    client does none of it.
    """

    def __init__(
        self,
        verify: bool | str = True,
        proxies: dict[str, str] | None = None,
        timeout: float | tuple[float, float] | list[float] | None = None,
        max_pool_connections: int = MAX_POOL_CONNECTIONS,
        socket_options: list[Any] | None = None,
        client_cert: str | tuple[str, str] | None = None,
        proxies_config: dict[str, Any] | None = None,
        connector_args: dict[str, Any] | None = None,
    ) -> None:
        connect, read = timeout if isinstance(timeout, (tuple, list)) else (timeout, timeout)
        wanted = {"keepalive_timeout": 12, **(connector_args or {})}
        self._timeout = curlhttp.Timeout(
            connect=connect,
            read=read,
            write=wanted.pop("write_timeout", None),
            pool=wanted.pop("pool_timeout", None),
        )
        self._proxies = ProxyConfiguration(proxies=proxies, proxies_settings=proxies_config)
        force_close = wanted.pop("force_close", False)
        dns_ttl = wanted.pop("ttl_dns_cache", 10)
        self._options: dict[str, Any] = {
            "timeout": self._timeout,
            "max_connections": max_pool_connections,
            "max_keepalive_connections": 0 if force_close else None,
            "keepalive_expiry": wanted.pop("keepalive_timeout"),
            "dns_ttl": dns_ttl if wanted.pop("use_dns_cache", True) else 0,
            "verify": wanted.pop("ssl_context", verify) if verify else False,
            "cert": client_cert,
            "proxies": self._make_proxies(),
            "follow_redirects": False,
            "trust_env": False,
        }
        if wanted:
            raise NotImplementedError(f"connector_args: {', '.join(wanted)}")
        self._client: curlhttp.AsyncClient | None = None

    async def __aenter__(self) -> CurlSession:
        self._client = curlhttp.AsyncClient(**self._options)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def send(self, request: AWSPreparedRequest) -> AioAWSResponse:
        """Send a signed request; its URL and its headers stay as they were signed."""
        if self._client is None:
            raise HTTPClientError(error=RuntimeError("the session is not open"))
        with self._errors_of_botocore(request):
            sent = self._client.build_request(
                request.method,
                curlhttp.URL(request.url, raw=True),
                stream=True,
                headers=_headers(request),
                content=_content(request.body),
                timeout=self._get_request_timeout(request) or self._timeout,
            )
            sent.decode = False  # objects stay as they are stored
            body = _Body(await self._client.send(sent))
            headers = HeadersDict(body.response.headers.multi_items())
            answer = AioAWSResponse(body.url, body.response.status_code, headers, body)
            if not request.stream_output:
                await body.response.aread()  # what goes wrong belongs to the request
            return answer

    def _get_request_timeout(self, request: AWSPreparedRequest) -> curlhttp.Timeout | None:
        seconds = (getattr(request, "context", None) or {}).get("read_timeout")
        return None if seconds is None else replace(self._timeout, read=seconds)

    def _make_proxies(self) -> dict[str, str | curlhttp.Proxy | None]:
        proxies: dict[str, str | curlhttp.Proxy | None] = {}
        trusted = self._proxies.settings.get("proxy_ca_bundle")
        cert = self._proxies.settings.get("proxy_client_cert")
        for scheme in ("http", "https"):
            url = self._proxies.proxy_url_for(f"{scheme}://")
            if url:
                try:
                    proxies[scheme] = curlhttp.Proxy(url=url, verify=trusted, cert=cert)
                except (OSError, ValueError) as error:
                    raise InvalidProxiesConfigError(error=error) from error
        return proxies

    @contextmanager
    def _errors_of_botocore(self, request: AWSPreparedRequest) -> Iterator[None]:
        url = request.url
        try:
            yield
        except curlhttp.SSLError as error:
            raise SSLError(endpoint_url=url, error=error) from error
        except curlhttp.ProxyError as error:
            proxy = mask_proxy_url(self._proxies.proxy_url_for(url))
            raise ProxyConnectionError(proxy_url=proxy, error=error) from error
        except (curlhttp.ConnectTimeout, curlhttp.PoolTimeout) as error:
            raise ConnectTimeoutError(endpoint_url=url, error=error) from error
        except curlhttp.TimeoutException as error:
            raise ReadTimeoutError(endpoint_url=url, error=error) from error
        except (curlhttp.ConnectionError, curlhttp.ChunkedEncodingError) as error:
            if error.request_sent:
                raise ConnectionClosedError(
                    endpoint_url=url, request=request, error=error
                ) from error
            raise EndpointConnectionError(endpoint_url=url, error=error) from error
        except curlhttp.RequestException as error:
            raise HTTPClientError(error=error) from error


class _Body:
    """A streamed body, with the members of aiohttp's response that aiobotocore reads."""

    def __init__(self, response: curlhttp.AsyncStreamedResponse) -> None:
        self.response = response
        self.url = str(response.url)
        self.content = self

    async def read(self, size: int = -1) -> bytes:
        with self._errors_of_botocore():
            return await self.response.aread(size)

    async def iter_chunks(self) -> AsyncIterator[tuple[bytes, bool]]:
        with self._errors_of_botocore():
            async for chunk in self.response.aiter_bytes():
                yield chunk, True

    def at_eof(self) -> bool:
        return self.response.is_closed

    def close(self) -> None:
        self.response.close()

    @contextmanager
    def _errors_of_botocore(self) -> Iterator[None]:
        try:
            yield
        except curlhttp.TimeoutException as error:
            raise AioReadTimeoutError(endpoint_url=self.url, error=error) from error
        except (curlhttp.ConnectionError, curlhttp.ChunkedEncodingError) as error:
            raise ResponseStreamingError(error=error) from error


def _headers(request: AWSPreparedRequest) -> dict[str, str | bytes]:
    """Return the headers; the length and the coding of the body follow from the body."""
    headers = {
        name: value.encode() if isinstance(value, str) else value
        for name, value in request.headers.items()
        if name.lower() != "transfer-encoding"
    }
    return {**headers, "Accept-Encoding": "identity"}


def _content(body: Any) -> Any:
    """Return a body that the client reads in pieces where aiobotocore makes it in pieces."""
    if isinstance(body, AsyncIterable) and not isinstance(body, io.IOBase):
        return aiter(body)
    return body
