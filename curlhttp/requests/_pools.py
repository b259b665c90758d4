"""What connections are made with, under the names of urllib3's pools: adapters change it there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from curlhttp._config import Transport
from curlhttp._models.url import URL, parse_url
from curlhttp.requests._transports import ca_paths, proxy_url, transport_from

if TYPE_CHECKING:
    from curlhttp._config import HTTP2, Cert, Verify
    from curlhttp.requests import _types as t
    from curlhttp.requests._prepared import PreparedRequest

__all__ = ["Manager", "Pool", "Pooling"]


def _host_of(url: str) -> t.PoolKeywords:
    """Return where a URL leads: the first keywords of a Pool."""
    found = parse_url(url)
    return {"scheme": found.scheme, "host": found.host, "port": found.port}


def _cert_files(cert: Any) -> Any:
    """Return the file of a client certificate, and that of its key if it has one."""
    return (cert,) if isinstance(cert, (str, bytes)) else cert[:2]


class Manager:
    """Hold the keywords that connections are made with, as urllib3's PoolManager does.

    Attributes:
        pools: one for each origin and way to travel that was asked for, the num_pools last.
    """

    def __init__(
        self,
        num_pools: int = 10,
        headers: Mapping[str, str] | None = None,
        **connection_pool_kw: Any,
    ) -> None:
        self.num_pools = num_pools
        self.headers = headers or {}
        self.connection_pool_kw = connection_pool_kw
        self.pools: dict[tuple[str, int], Pool] = {}

    def note(self, url: URL, transport: Transport) -> None:
        """Show a pool for what a request asks for."""
        key = (url.origin, id(transport))
        if key not in self.pools:
            for oldest in list(self.pools)[: len(self.pools) + 1 - self.num_pools]:
                self.pools.pop(oldest, None)
            self.pools[key] = Pool(url.scheme, url.host, url.port)

    def clear(self) -> None:
        """Forget the pools; the adapter has the connections."""
        self.pools.clear()


class Pool:
    """Hold what a connection is made with, under urllib3's names, for adapters that change it.

    Attributes:
        cert_reqs: "CERT_REQUIRED" or "CERT_NONE", or ssl's constants.
        ca_certs: a file of authorities, ca_cert_dir: a folder of them.
        cert_file, key_file, key_password: the client certificate.
        assert_hostname: False to accept a certificate of any host.
    """

    def __init__(self, scheme: str, host: str, port: int, proxy: str | None = None, **kw: Any):
        self.scheme, self.host, self.port = scheme, host, port
        self.proxy = proxy
        self.cert_reqs: str | int | None = None
        self.ca_certs: str | None = None
        self.ca_cert_dir: str | None = None
        self.cert_file: str | bytes | None = None
        self.key_file: str | bytes | None = None
        self.key_password: str | None = None
        self.assert_hostname: str | bool | None = None
        self.proxy_headers: Mapping[str, str] = {}
        self.conn_kw: t.PoolKeywords = {}
        for name, value in kw.items():
            if name in self.__dict__:
                setattr(self, name, value)
            else:
                self.conn_kw[name] = value

    def close(self) -> None:
        """Do nothing: the adapter has the connections."""

    def transport(self, http2: HTTP2 = False) -> Transport:
        """Return how a request travels with these settings.

        Raises:
            ValueError: libcurl has nothing for one of them.
        """
        found = transport_from(
            self.proxy,
            verify=self._verify(),
            cert=self._cert(),
            http2=http2,
            **{**self.conn_kw, "assert_hostname": self.assert_hostname},
        )
        # libcurl sends the credentials of the proxy's URL by itself.
        headers = tuple(
            (name, value)
            for name, value in dict(self.proxy_headers).items()
            if name.lower() != "proxy-authorization" or "@" not in str(self.proxy)
        )
        if found.proxy is None or not headers:
            return found
        return replace(found, proxy=replace(found.proxy, headers=headers))

    def _verify(self) -> Verify:
        if self.cert_reqs in ("CERT_NONE", "NONE", 0):
            return False
        return self.ca_certs or self.ca_cert_dir or True

    def _cert(self) -> Cert:
        if not self.cert_file:
            return None
        parts = (self.cert_file, self.key_file or self.cert_file)
        return (*parts, self.key_password) if self.key_password else parts


class Pooling:
    """Say what the connections of an adapter are made with; the base of HTTPAdapter.

    Attributes:
        poolmanager: for connections to origins.
        proxy_manager: for those through proxies, by the proxy's URL.
    """

    poolmanager: Any  # a Manager, or what a subclass puts there
    proxy_manager: t.PoolKeywords
    _pool_connections: int
    _pool_maxsize: int
    _pool_block: bool

    def init_poolmanager(
        self, connections: int, maxsize: int, block: bool = False, **pool_kwargs: Any
    ) -> None:
        """Say what connections are made with; subclasses add keywords of urllib3's PoolManager.

        Args:
            connections: hosts to keep connections for.
            maxsize: connections to keep for each.
            block: wait for a connection instead of making more.
            pool_kwargs: ssl_context, ssl_version, source_address, socket_options, ...
        """
        self._pool_connections = connections
        self._pool_maxsize = maxsize
        self._pool_block = block
        self.poolmanager = Manager(
            num_pools=connections, maxsize=maxsize, block=block, **pool_kwargs
        )

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """Return what connections through a proxy are made with.

        Args:
            proxy: its URL.
            proxy_kwargs: keywords of urllib3's ProxyManager.
        """
        if proxy not in self.proxy_manager:
            manager = Manager(
                self._pool_connections,
                maxsize=self._pool_maxsize,
                block=self._pool_block,
                **proxy_kwargs,
            )
            manager.proxy_headers = self.proxy_headers(proxy)  # type: ignore[attr-defined]
            self.proxy_manager[proxy] = manager
        return self.proxy_manager[proxy]

    def cert_verify(self, conn: Any, url: str, verify: t.VerifyInput, cert: t.CertInput) -> None:
        """Put verify= and cert= onto a connection's settings.

        Args:
            conn: a Pool, or urllib3's.
            url: where the request goes.
            verify: as in send.
            cert: as in send.

        Raises:
            OSError: there is no such file.
        """
        if url.lower().startswith("https") and (verify or verify == ""):  # an empty path is none
            conn.cert_reqs = "CERT_REQUIRED"
            conn.ca_certs, conn.ca_cert_dir = ca_paths(verify)
        else:
            conn.cert_reqs = "CERT_NONE"
            conn.ca_certs = conn.ca_cert_dir = None
        if cert:
            conn.cert_file, conn.key_file = (*_cert_files(cert), None)[:2]

    def build_connection_pool_key_attributes(
        self, request: PreparedRequest, verify: t.VerifyInput, cert: t.CertInput = None
    ) -> tuple[t.PoolKeywords, t.PoolKeywords]:
        """Return what tells the connections for a request from others: the host, and TLS."""
        tls: t.PoolKeywords = {"cert_reqs": "CERT_REQUIRED" if verify else "CERT_NONE"}
        if isinstance(verify, str):
            tls["ca_cert_dir" if os.path.isdir(verify) else "ca_certs"] = verify
        if cert is not None:
            tls.update(zip(("cert_file", "key_file"), _cert_files(cert), strict=False))
        return _host_of(str(request.url)), tls

    def get_connection_with_tls_context(
        self,
        request: PreparedRequest,
        verify: t.VerifyInput,
        proxies: t.ProxiesInput = None,
        cert: t.CertInput = None,
    ) -> Any:
        """Return what the connection for a request is made with."""
        host, tls = self.build_connection_pool_key_attributes(request, verify, cert)
        return self._pool(host, self._proxy(str(request.url), proxies), tls)

    def get_connection(self, url: str, proxies: t.ProxiesInput = None) -> Any:
        """Return what the connection for a URL is made with (deprecated in requests)."""
        warnings.warn(
            "get_connection is not used any more; override get_connection_with_tls_context",
            DeprecationWarning,
            stacklevel=2,
        )
        return self._pool(_host_of(url), self._proxy(url, proxies), {})

    def _pool(self, host: t.PoolKeywords, proxy: str | None, tls: t.PoolKeywords) -> Pool:
        manager = self.poolmanager if proxy is None else self.proxy_manager_for(proxy)
        kw = {**self.poolmanager.connection_pool_kw, **manager.connection_pool_kw, **tls}
        kw["proxy_headers"] = getattr(manager, "proxy_headers", None) or {}
        return Pool(**host, proxy=proxy, **{k: v for k, v in kw.items() if k not in host})

    def request_url(self, request: PreparedRequest, proxies: t.ProxiesInput) -> str:
        """Return what stands in the request line: a path, or a URL for a proxy."""
        url = str(request.url)
        proxy = self._proxy(url, proxies)
        is_plain = url.lower().startswith("http:")
        if proxy and is_plain and not proxy.lower().startswith("socks"):
            return str(parse_url(url)).partition("#")[0]
        return str(request.path_url)

    def proxy_headers(self, proxy: str) -> dict[str, str]:
        """Return the headers for a proxy: its credentials, where its URL has some."""
        from curlhttp.requests._url import get_auth_from_url
        from curlhttp.requests.auth import _basic_auth_str

        username, password = get_auth_from_url(proxy)
        return {"Proxy-Authorization": _basic_auth_str(username, password)} if username else {}

    @staticmethod
    def _proxy(url: str, proxies: t.ProxiesInput) -> str | None:
        from curlhttp.requests.utils import select_proxy

        proxy = select_proxy(url, proxies)
        return proxy_url(proxy) if proxy else None
