"""Subclasses of the drop-in's classes, annotated as programs for types-requests are.

Nothing runs this; test_overrides.py has mypy and pyright read it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import curlhttp
from curlhttp import requests
from curlhttp.requests.adapters import BaseAdapter, HTTPAdapter
from curlhttp.requests.auth import AuthBase, HTTPBasicAuth
from curlhttp.requests.models import PreparedRequest, Response


class TimeoutHTTPAdapter(HTTPAdapter):
    def __init__(self, timeout: float = 5, **kwargs: Any) -> None:
        self.timeout = timeout
        super().__init__(**kwargs)

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float, float] | tuple[float, None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> Response:
        if timeout is None:
            timeout = self.timeout
        return super().send(request, stream, timeout, verify, cert, proxies)

    def add_headers(self, request: PreparedRequest, **kwargs: Any) -> None:
        request.headers["X-Added"] = "1"

    def proxy_headers(self, proxy: str) -> dict[str, str]:
        return {**super().proxy_headers(proxy), "X-Proxy": "1"}

    def request_url(self, request: PreparedRequest, proxies: Mapping[str, str] | None) -> str:
        return super().request_url(request, proxies)

    def build_response(self, req: PreparedRequest, resp: Any) -> Response:
        return super().build_response(req, resp)

    def init_poolmanager(
        self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any
    ) -> None:
        super().init_poolmanager(connections, maxsize, block, ssl_version=3, **pool_kwargs)

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        return super().proxy_manager_for(proxy, **proxy_kwargs)

    def get_connection_with_tls_context(
        self,
        request: PreparedRequest,
        verify: bool | str | None,
        proxies: Mapping[str, str] | None = None,
        cert: tuple[str, str] | str | None = None,
    ) -> Any:
        return super().get_connection_with_tls_context(request, verify, proxies, cert)

    def cert_verify(
        self, conn: Any, url: str, verify: bool | str, cert: str | tuple[str, str] | None
    ) -> None:
        super().cert_verify(conn, url, verify, cert)

    def build_connection_pool_key_attributes(
        self,
        request: PreparedRequest,
        verify: bool | str,
        cert: str | tuple[str, str] | None = None,
    ) -> tuple[Any, Any]:
        return super().build_connection_pool_key_attributes(request, verify, cert)

    def get_connection(self, url: str, proxies: Mapping[str, str] | None = None) -> Any:
        return super().get_connection(url, proxies)

    def close(self) -> None:
        super().close()


class FileAdapter(BaseAdapter):
    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: float | tuple[float, float] | tuple[float, None] | None = None,
        verify: bool | str = True,
        cert: bytes | str | tuple[bytes | str, bytes | str] | None = None,
        proxies: Mapping[str, str] | None = None,
    ) -> Response:
        return Response()

    def close(self) -> None:
        pass


class LooseAdapter(HTTPAdapter):
    def send(self, request: PreparedRequest, *args: Any, **kwargs: Any) -> Response:
        return super().send(request, *args, **kwargs)


class TokenAuth(AuthBase):
    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        r.headers["Authorization"] = "Bearer x"
        r.register_hook("response", self.handle)
        return r

    def handle(self, r: Response, *args: Any, **kwargs: Any) -> Response:
        if r.ok:
            return r
        return r.connection.send(self(r.request.copy()), **kwargs)


class ProxyAuth(HTTPBasicAuth):
    def __call__(self, r: PreparedRequest) -> PreparedRequest:
        return super().__call__(r)


_Proxies = MutableMapping[str, str]


class BaseURLSession(requests.Session):
    def __init__(self, base_url: str) -> None:
        super().__init__()
        self.base_url = base_url
        self.auth = TokenAuth()
        self.hooks["response"].append(self.check)
        self.mount("https://", TimeoutHTTPAdapter(3, max_retries=2))
        self.mount("file://", FileAdapter())

    def check(self, response: Response, *args: Any, **kwargs: Any) -> Response:
        response.raise_for_status()
        return response

    def request(self, method: str | bytes, url: str | bytes, *args: Any, **kwargs: Any) -> Response:
        kwargs.setdefault("timeout", 5)
        return super().request(method, urljoin(self.base_url, str(url)), *args, **kwargs)

    def send(
        self,
        request: PreparedRequest,
        *,
        stream: bool | None = None,
        verify: bool | str | None = None,
        proxies: _Proxies | None = None,
        cert: str | tuple[str, str] | None = None,
        timeout: float | tuple[float | None, float | None] | None = None,
        allow_redirects: bool = True,
        **kwargs: Any,
    ) -> Response:
        return super().send(
            request,
            stream=stream,
            verify=verify,
            proxies=proxies,
            cert=cert,
            timeout=timeout,
            allow_redirects=allow_redirects,
            **kwargs,
        )

    def prepare_request(self, request: requests.Request) -> PreparedRequest:
        return super().prepare_request(request)

    def rebuild_auth(self, prepared_request: PreparedRequest, response: Response) -> None:
        super().rebuild_auth(prepared_request, response)

    def should_strip_auth(self, old_url: str, new_url: str) -> bool:
        return False

    def rebuild_method(self, prepared_request: PreparedRequest, response: Response) -> None:
        super().rebuild_method(prepared_request, response)

    def get_redirect_target(self, resp: Response) -> str | None:
        return super().get_redirect_target(resp)

    def rebuild_proxies(self, prepared_request: PreparedRequest, proxies: Any) -> Any:
        return super().rebuild_proxies(prepared_request, proxies)

    def get_adapter(self, url: str) -> BaseAdapter:
        return super().get_adapter(url)

    def merge_environment_settings(
        self,
        url: str | bytes | None,
        proxies: _Proxies | None,
        stream: bool | None,
        verify: bool | str | None,
        cert: str | tuple[str, str] | None,
    ) -> Any:
        return super().merge_environment_settings(url, proxies, stream, verify, cert)

    def mount(self, prefix: str | bytes, adapter: BaseAdapter) -> None:
        super().mount(str(prefix), adapter)

    def close(self) -> None:
        super().close()


class PrefixSession(requests.Session):
    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Response:
        return super().request(method, f"https://api.example.org/{url}", *args, **kwargs)

    def send(self, request: PreparedRequest, **kwargs: Any) -> Response:
        kwargs["timeout"] = 5
        return super().send(request, **kwargs)


def wider(session: requests.Session, adapter: HTTPAdapter, request: PreparedRequest) -> None:
    """Send with what the drop-in takes in addition."""
    timeout = curlhttp.Timeout(connect=1)
    adapter.send(request, timeout=timeout, verify=Path("ca.pem"), proxies={"all": None})
    session.send(request, timeout=timeout, cert=Path("client.pem"))
    session.request("GET", curlhttp.URL("http://localhost/"), content=b"", timeout=timeout)
