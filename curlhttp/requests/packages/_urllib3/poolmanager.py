"""urllib3.poolmanager: settings that adapters hand down; libcurl has the connections."""

from __future__ import annotations

from typing import Any, NamedTuple

from curlhttp.requests.packages._urllib3._collections import HTTPHeaderDict, RecentlyUsedContainer
from curlhttp.requests.packages._urllib3.connection import port_by_scheme
from curlhttp.requests.packages._urllib3.connectionpool import (
    HTTPConnectionPool,
    HTTPSConnectionPool,
)
from curlhttp.requests.packages._urllib3.exceptions import (
    LocationValueError,
    ProxySchemeUnknown,
    URLSchemeUnknown,
)
from curlhttp.requests.packages._urllib3.util.url import Url, parse_url

__all__ = ["PoolManager", "ProxyConfig", "ProxyManager", "proxy_from_url"]

pool_classes_by_scheme = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}


class PoolManager:
    """Hold what connections are made with.

    Args:
        num_pools: hosts to keep connections for.
        headers: for every request.
        connection_pool_kw: maxsize, block, ssl_context, source_address, socket_options, ...
    """

    proxy: Url | None = None
    proxy_config: ProxyConfig | None = None

    def __init__(self, num_pools: int = 10, headers: Any = None, **connection_pool_kw: Any) -> None:
        self.headers = headers or {}
        self.connection_pool_kw = connection_pool_kw
        self.pools = RecentlyUsedContainer(num_pools)
        self.pool_classes_by_scheme: dict[str, Any] = pool_classes_by_scheme

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget the pools."""
        self.pools.clear()

    def connection_from_host(
        self,
        host: str | None,
        port: int | None = None,
        scheme: str | None = "http",
        pool_kwargs: dict[str, Any] | None = None,
    ) -> HTTPConnectionPool:
        """Return the pool for a host.

        Args:
            host: the host.
            port: the port; the scheme's unless given.
            scheme: "http" or "https".
            pool_kwargs: settings in place of the manager's; None removes one.

        Raises:
            LocationValueError: there is no host, or the scheme is another.
        """
        if not host:
            raise LocationValueError("No host specified.")
        scheme = (scheme or "http").lower()
        kind = self.pool_classes_by_scheme.get(scheme)
        if kind is None:
            raise URLSchemeUnknown(scheme)
        settings = {**self.connection_pool_kw, **(pool_kwargs or {})}
        settings = {name: value for name, value in settings.items() if value is not None}
        key = (scheme, host.lower(), port or port_by_scheme[scheme], _frozen(settings))
        if key not in self.pools.keys():  # noqa: SIM118
            self.pools[key] = kind(host, port, **settings)
        pool: HTTPConnectionPool = self.pools[key]
        return pool

    def connection_from_url(
        self, url: str, pool_kwargs: dict[str, Any] | None = None
    ) -> HTTPConnectionPool:
        """Return the pool for the host of a URL."""
        parts = parse_url(url)
        return self.connection_from_host(parts.host, parts.port, parts.scheme, pool_kwargs)

    def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("requests send through libcurl; install urllib3 for its own")

    request = urlopen


def _frozen(settings: dict[str, Any]) -> Any:
    return frozenset(
        (name, value if getattr(type(value), "__hash__", None) else repr(value))
        for name, value in settings.items()
    )


class ProxyConfig(NamedTuple):
    """How TLS to a proxy is made."""

    ssl_context: Any = None
    use_forwarding_for_https: bool = False
    assert_hostname: Any = None
    assert_fingerprint: str | None = None


class ProxyManager(PoolManager):
    """Hold what connections through a proxy are made with.

    Args:
        proxy_url: of the proxy.
        num_pools: hosts to keep connections for.
        headers: for every request.
        proxy_headers: for the proxy alone.
        proxy_ssl_context: for TLS to the proxy.
        use_forwarding_for_https: ask the proxy for https URLs instead of tunnels.
        proxy_assert_hostname: the name in the proxy's certificate.
        proxy_assert_fingerprint: the digest of the proxy's certificate.
        connection_pool_kw: as for PoolManager.

    Raises:
        ProxySchemeUnknown: the URL of the proxy is neither http nor https.
    """

    def __init__(
        self,
        proxy_url: Any,
        num_pools: int = 10,
        headers: Any = None,
        proxy_headers: Any = None,
        proxy_ssl_context: Any = None,
        use_forwarding_for_https: bool = False,
        proxy_assert_hostname: Any = None,
        proxy_assert_fingerprint: str | None = None,
        **connection_pool_kw: Any,
    ) -> None:
        if isinstance(proxy_url, HTTPConnectionPool):
            proxy_url = f"{proxy_url.scheme}://{proxy_url.host}:{proxy_url.port}"
        proxy = parse_url(proxy_url)
        if proxy.scheme not in port_by_scheme:
            raise ProxySchemeUnknown(proxy.scheme)
        self.proxy = proxy._replace(port=proxy.port or port_by_scheme[str(proxy.scheme)])
        self.proxy_headers = proxy_headers or {}
        self.proxy_ssl_context = proxy_ssl_context
        self.proxy_config = ProxyConfig(
            proxy_ssl_context,
            use_forwarding_for_https,
            proxy_assert_hostname,
            proxy_assert_fingerprint,
        )
        connection_pool_kw.update(
            _proxy=self.proxy,
            _proxy_headers=self.proxy_headers,
            _proxy_config=self.proxy_config,
        )
        super().__init__(num_pools, headers, **connection_pool_kw)


def proxy_from_url(url: str, **kw: Any) -> ProxyManager:
    """Return a ProxyManager for the URL of a proxy."""
    return ProxyManager(proxy_url=url, **kw)


_ = HTTPHeaderDict  # urllib3 has it here as well
