"""urllib3.connectionpool: settings of connections to one host; libcurl has the connections."""

from __future__ import annotations

from typing import Any

from curlhttp.requests.packages._urllib3.connection import (
    HTTPConnection,
    HTTPSConnection,
    port_by_scheme,
)
from curlhttp.requests.packages._urllib3.exceptions import LocationValueError
from curlhttp.requests.packages._urllib3.util.retry import Retry
from curlhttp.requests.packages._urllib3.util.timeout import Timeout
from curlhttp.requests.packages._urllib3.util.url import parse_url

__all__ = [
    "ConnectionPool",
    "HTTPConnectionPool",
    "HTTPSConnectionPool",
    "connection_from_url",
]


class ConnectionPool:
    """Name a host and port.

    Args:
        host: the host.
        port: the port; the scheme's unless given.

    Raises:
        LocationValueError: there is no host.
    """

    scheme: str | None = None

    def __init__(self, host: str, port: int | None = None) -> None:
        if not host:
            raise LocationValueError("No host specified.")
        self.host = host.strip("[]").lower()
        self.port = port

    def __str__(self) -> str:
        return f"{type(self).__name__}(host={self.host!r}, port={self.port!r})"

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: there are no connections."""


class HTTPConnectionPool(ConnectionPool):
    """Hold what connections to a host would be made with.

    Args:
        host: the host.
        port: the port; the scheme's unless given.
        timeout: a number of seconds or a Timeout.
        maxsize: connections to keep.
        block: wait for a connection instead of making more.
        headers: for every request.
        retries: a number or a Retry.
        kw: what else urllib3 would connect with.
    """

    scheme: str | None = "http"
    ConnectionCls: type[HTTPConnection] = HTTPConnection

    def __init__(
        self,
        host: str,
        port: int | None = None,
        timeout: Any = Timeout.DEFAULT_TIMEOUT,
        maxsize: int = 1,
        block: bool = False,
        headers: Any = None,
        retries: Any = None,
        **kw: Any,
    ) -> None:
        super().__init__(host, port or port_by_scheme[str(self.scheme)])
        self.timeout = timeout if isinstance(timeout, Timeout) else Timeout.from_float(timeout)
        self.retries = Retry.DEFAULT if retries is None else retries
        self.headers = headers or {}
        self.maxsize = maxsize
        self.block = block
        self.proxy = kw.pop("_proxy", None)
        self.proxy_headers = kw.pop("_proxy_headers", None) or {}
        self.proxy_config = kw.pop("_proxy_config", None)
        self.num_connections = self.num_requests = 0
        self.conn_kw = kw

    def is_same_host(self, url: str) -> bool:
        """Tell whether a URL leads to this host; a path alone does."""
        if url.startswith("/"):
            return True
        parts = parse_url(url)
        scheme = parts.scheme or "http"
        port = parts.port or port_by_scheme.get(scheme)
        host = (parts.host or "").strip("[]").lower()
        return (scheme, host, port) == (self.scheme, self.host, self.port)

    def urlopen(self, method: str, url: str, *args: Any, **kw: Any) -> Any:
        """Refuse.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("requests send through libcurl; install urllib3 for its own")

    request = urlopen


class HTTPSConnectionPool(HTTPConnectionPool):
    """Hold what connections to a host would be made with, and TLS."""

    scheme: str | None = "https"
    ConnectionCls = HTTPSConnection

    def __init__(self, host: str, port: int | None = None, **kw: Any) -> None:
        for name in _TLS:
            setattr(self, name, kw.pop(name, None))
        super().__init__(host, port, **kw)


_TLS = (
    "key_file", "cert_file", "cert_reqs", "key_password", "ca_certs", "ssl_version",
    "ssl_minimum_version", "ssl_maximum_version", "assert_hostname", "assert_fingerprint",
    "ca_cert_dir", "ca_cert_data",
)  # fmt: skip


def connection_from_url(url: str, **kw: Any) -> HTTPConnectionPool:
    """Return the pool for the host of a URL."""
    parts = parse_url(url)
    kind = HTTPSConnectionPool if parts.scheme == "https" else HTTPConnectionPool
    return kind(parts.host or "", parts.port, **kw)
