"""What connections are made with, under the names of urllib3's pools: adapters change it there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from curlhttp._config import Transport
from curlhttp._models.url.url import URL, parse_url
from curlhttp.requests._transports import transport_from

if TYPE_CHECKING:
    from curlhttp._config import HTTP2, Cert, Verify
    from curlhttp.requests._types import PoolKeywords

__all__ = ["Manager", "Pool", "cert_files", "host_of"]


def host_of(url: str) -> PoolKeywords:
    """Return where a URL leads: the first keywords of a Pool."""
    found = parse_url(url)
    return {"scheme": found.scheme, "host": found.host, "port": found.port}


def cert_files(cert: Any) -> Any:
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
        self.conn_kw: PoolKeywords = {}
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
