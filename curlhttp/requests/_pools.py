"""What connections are made with, in urllib3's terms: adapters change it there.

Plain adapters have no pools: urllib3 is loaded when somebody looks at the first one.
"""

from __future__ import annotations

import os
import sys
import warnings
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from curlhttp.requests._transports import ca_paths, proxy_url

if TYPE_CHECKING:
    from curlhttp.requests import _types as t
    from curlhttp.requests._prepared import PreparedRequest
    from curlhttp.requests._urllib3_pools import Owner
    from curlhttp.requests.adapters import HTTPAdapter

__all__ = ["Pooling", "Seen"]

# verify= and cert= of what was asked for, by the origin and the Transport.
Seen: TypeAlias = "dict[tuple[str, int], tuple[t.VerifyInput, t.CertInput]]"


class _MadeWhenAsked:
    """An adapter's pool manager; once it was made, or put there, it is an attribute like others."""

    def __get__(self, adapter: HTTPAdapter | None, kind: type[Pooling] | None = None) -> Any:
        if adapter is None:
            raise AttributeError("poolmanager")
        from curlhttp.requests._urllib3_pools import pool_manager_for

        manager = pool_manager_for(
            adapter,
            num_pools=adapter._pool_connections,
            maxsize=adapter._pool_maxsize,
            block=adapter._pool_block,
            **adapter._pool_kw,
        )
        for (origin, _), tls in list(adapter._seen.items()):
            manager.connection_from_host(**_host_of(origin), pool_kwargs=_tls_of(*tls))
        return adapter.__dict__.setdefault("poolmanager", manager)


class Pooling:
    """Say what the connections of an adapter are made with; the base of HTTPAdapter.

    Attributes:
        poolmanager: for connections to origins: urllib3's PoolManager, whose pools send by libcurl.
        proxy_manager: for those through proxies, by the proxy's URL.
    """

    poolmanager: Any = _MadeWhenAsked()  # or what a subclass puts there
    proxy_manager: t.PoolKeywords
    _pool_connections: int
    _pool_maxsize: int
    _pool_block: bool
    _pool_kw: t.PoolKeywords = {}  # an adapter has its own where there are some
    _seen: Seen

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
        own = self.__dict__
        own.pop("poolmanager", None)
        own.pop("_pool_kw", None)
        if pool_kwargs:
            self._pool_kw = pool_kwargs
        make = _put_in_place("PoolManager")
        if make is not None:
            self.poolmanager = make(
                num_pools=connections, maxsize=maxsize, block=block, **pool_kwargs
            )

    def proxy_manager_for(self, proxy: str, **proxy_kwargs: Any) -> Any:
        """Return what connections through a proxy are made with.

        Args:
            proxy: its URL.
            proxy_kwargs: keywords of urllib3's ProxyManager.
        """
        if proxy not in self.proxy_manager:
            self.proxy_manager[proxy] = self._new_proxy_manager(
                proxy,
                num_pools=self._pool_connections,
                maxsize=self._pool_maxsize,
                block=self._pool_block,
                **proxy_kwargs,
            )
        return self.proxy_manager[proxy]

    def _new_proxy_manager(self, proxy: str, **kw: Any) -> Any:
        from curlhttp.requests._url import get_auth_from_url
        from curlhttp.requests._urllib3_pools import proxy_manager_for

        if proxy.lower().startswith("socks"):
            name = "SOCKSProxyManager"
            kw["username"], kw["password"] = get_auth_from_url(proxy)
        else:
            name = "proxy_from_url"
            kw["proxy_headers"] = self.proxy_headers(proxy)
        make = _put_in_place(name)
        if make is not None:
            return make(proxy, **kw)
        return proxy_manager_for(cast("HTTPAdapter", self), proxy, **kw)

    @cached_property
    def _as_owner(self) -> Owner:
        from curlhttp.requests._urllib3_pools import Owner

        return Owner(cast("HTTPAdapter", self))

    def _tell_pools_of_guard(self) -> None:
        """Let pools know whether there is a guard, also those that outlive the adapter."""
        adapter, own = cast("HTTPAdapter", self), self.__dict__
        if "poolmanager" in own:
            from curlhttp.requests._urllib3_pools import adopt

            adopt(own["poolmanager"], adapter)
        if "_as_owner" in own:
            self._as_owner.is_guarded = adapter.guard is not None

    def cert_verify(self, conn: Any, url: str, verify: t.VerifyInput, cert: t.CertInput) -> None:
        """Put verify= and cert= onto a connection's settings.

        Args:
            conn: a pool of urllib3's.
            url: where the request goes.
            verify: as in send.
            cert: as in send.

        Raises:
            OSError: there is no such file.
        """
        # For plain HTTP the pool may be that of a proxy with TLS. An empty path is none.
        has_tls = url.lower().startswith("https") or getattr(conn, "scheme", "") == "https"
        if has_tls and (verify or verify == ""):
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
        return _host_of(str(request.url)), _tls_of(verify, cert)

    def get_connection_with_tls_context(
        self,
        request: PreparedRequest,
        verify: t.VerifyInput,
        proxies: t.ProxiesInput = None,
        cert: t.CertInput = None,
    ) -> Any:
        """Return the pool for a request.

        Raises:
            InvalidURL: there is no host in its URL.
        """
        proxy = self._proxy(str(request.url), proxies)
        try:
            host, tls = self.build_connection_pool_key_attributes(request, verify, cert)
        except ValueError as error:
            from curlhttp.exceptions import InvalidURL

            raise InvalidURL(error, request=request) from error  # type: ignore[arg-type]
        manager = self.poolmanager if proxy is None else self.proxy_manager_for(proxy)
        return manager.connection_from_host(**host, pool_kwargs=tls)

    def get_connection(self, url: str, proxies: t.ProxiesInput = None) -> Any:
        """Return the pool for a URL (deprecated in requests)."""
        warnings.warn(
            "get_connection is not used any more; override get_connection_with_tls_context",
            DeprecationWarning,
            stacklevel=2,
        )
        proxy = self._proxy(url, proxies)
        manager = self.poolmanager if proxy is None else self.proxy_manager_for(proxy)
        return manager.connection_from_url(url)

    def request_url(self, request: PreparedRequest, proxies: t.ProxiesInput) -> str:
        """Return what stands in the request line: a path, or a URL for a proxy."""
        url = str(request.url)
        proxy = self._proxy(url, proxies)
        is_plain = url.lower().startswith("http:")
        if proxy and is_plain and not proxy.lower().startswith("socks"):
            from curlhttp._models.url import parse_url

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

        proxy = (_put_in_place("select_proxy") or select_proxy)(url, proxies)
        return proxy_url(proxy) if proxy else None


def _put_in_place(name: str) -> Any:
    """Return what a program has put in place of a name of requests.adapters, or None."""
    return vars(sys.modules["curlhttp.requests.adapters"]).get(name)


def _host_of(url: str) -> t.PoolKeywords:
    """Return where a URL leads, as keywords of a PoolManager; the default port is None."""
    parts = urlsplit(url)
    return {"scheme": parts.scheme.lower(), "host": parts.hostname, "port": parts.port}


def _tls_of(verify: t.VerifyInput, cert: t.CertInput) -> t.PoolKeywords:
    """Return verify= and cert= as keywords of a PoolManager."""
    tls: t.PoolKeywords = {"cert_reqs": "CERT_REQUIRED" if verify else "CERT_NONE"}
    if isinstance(verify, (str, os.PathLike)):
        path = os.fspath(verify)
        tls["ca_cert_dir" if os.path.isdir(path) else "ca_certs"] = path
    if cert is not None:
        tls.update(zip(("cert_file", "key_file"), _cert_files(cert), strict=False))
    return tls


def _cert_files(cert: Any) -> Any:
    """Return the file of a client certificate, and that of its key if it has one."""
    return (cert,) if isinstance(cert, (str, bytes)) else cert[:2]
