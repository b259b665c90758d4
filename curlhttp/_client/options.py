"""The keywords of clients and requests, as type checkers and signatures need them.

A request loads none of this, because typing compiles each annotation of a TypedDict.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    import curlhttp
    from curlhttp._client.transport import AnyTransport
    from curlhttp._http.config import HTTP2, HTTP3, Cert, Limits, Proxies, Proxy, VerifyInput
    from curlhttp._http.inputs import (
        AddressMap,
        AuthInput,
        ContentInput,
        CookiesInput,
        DataInput,
        FallbackInput,
        FilesInput,
        GuardInput,
        HeaderChanges,
        HooksInput,
        HostMap,
        IPVersion,
        JSONInput,
        ParamsInput,
        Pins,
        Progress,
        RetryInput,
        UnixSocket,
    )
    from curlhttp._http.response import DefaultEncoding
    from curlhttp._http.timeout import TimeoutInput
    from curlhttp._http.unset import UseClientDefault
    from curlhttp._http.url import URL
    from curlhttp._runtime.engine import Middleware


class RouteOptions(TypedDict, total=False):
    """The keywords of clients and requests for routes: addresses, proxies and TLS.

    A request uses its client's value for each keyword that you omit or that is USE_CLIENT_DEFAULT;
    None turns a setting off, except for proxies. Settings do not affect other requests: connections
    and resolved names are kept separate.

    Attributes:
        proxies: a proxy URL, a Proxy, or a mapping as in requests.
        verify: True for certifi's CA certificates, the path of a PEM file or of a directory of
            hashed certificates, several such directories separated by os.pathsep, PEM bytes,
            "system" for the CA certificates that the machine trusts, or an ssl.SSLContext, of which
            curlhttp uses the CA certificates, check_hostname, versions and ciphers. These replace
            certifi's. False verifies nothing.
        cert: a client certificate: the path of a PEM file with its key, PEM bytes, or a tuple
            (certificate, key) or (certificate, key, password).
        pins: by host, one or several of "sha256//" and the base64 of a public key's SHA-256. The
            server must have one of these keys (CURLOPT_PINNEDPUBLICKEY). Hosts without a pin may
            have any key.
        uds: the path of a Unix socket to connect to instead of the URL's host
            (CURLOPT_UNIX_SOCKET_PATH).
        resolve: an IP address, or a list of them, by "host:port", or by "host" for all its ports.
            These hosts are not looked up. Proxies are asked to connect to the first address.
        connect_to: "host:port" to connect to, or "host" for the same port, by "host:port" or
            "host" of the URL, or "*" for any. TLS and the Host header keep the URL's host
            (CURLOPT_CONNECT_TO).
        local_address: the IP address to connect from (CURLOPT_INTERFACE).
        interface: the name of the network interface to connect through (CURLOPT_INTERFACE).
        doh: the https URL of a DNS over HTTPS server (RFC 8484, CURLOPT_DOH_URL).
        ip_version: 4 or 6, to connect to such addresses only (CURLOPT_IPRESOLVE).
        happy_eyeballs_timeout: seconds to try IPv6 before IPv4 is tried as well, 0.2 by default
            (CURLOPT_HAPPY_EYEBALLS_TIMEOUT_MS).
        max_send_rate: the maximum bytes per second that each request sends, on average; libcurl may
            send the bytes of about a second at once (CURLOPT_MAX_SEND_SPEED_LARGE).
        max_receive_rate: the maximum bytes per second of the body of each response, as they come
            from the network, on average; a tenth of a second is caught up at most.
    """

    proxies: Proxies | UseClientDefault
    verify: VerifyInput | UseClientDefault
    cert: Cert | UseClientDefault
    pins: Pins | UseClientDefault
    uds: UnixSocket | UseClientDefault
    resolve: AddressMap | UseClientDefault
    connect_to: HostMap | UseClientDefault
    local_address: str | UseClientDefault | None
    interface: str | UseClientDefault | None
    doh: str | UseClientDefault | None
    ip_version: IPVersion | UseClientDefault
    happy_eyeballs_timeout: float | UseClientDefault | None
    max_send_rate: float | UseClientDefault | None
    max_receive_rate: float | UseClientDefault | None


class ClientOptions(RouteOptions, total=False):
    """The keywords of both clients; Client describes them."""

    base_url: str | URL | curlhttp.Endpoints
    headers: HeaderChanges | None
    params: ParamsInput | None
    cookies: CookiesInput | None
    auth: AuthInput | None
    timeout: TimeoutInput
    limits: Limits | None
    max_connections: int
    max_connections_per_host: int | None
    max_keepalive_connections: int | None
    keepalive_expiry: float
    max_connection_lifetime: float | None
    dns_ttl: float
    keepalive: float | None
    http2: HTTP2 | None
    http3: HTTP3
    proxy: str | Proxy | None
    hsts: str | os.PathLike[str] | None
    certificates: bool
    trust_env: bool
    follow_redirects: bool
    max_redirects: int
    max_response_size: int | None
    sensitive_headers: Iterable[str]
    middleware: Sequence[Middleware]
    attempt_middleware: Sequence[Middleware]
    hooks: HooksInput | None
    retry: RetryInput
    retry_after: Literal["request", "origin"]
    rate_limit: curlhttp.RateLimit | None
    concurrency_limit: curlhttp.ConcurrencyLimit | None
    breaker: curlhttp.CircuitBreaker | None
    hedge: curlhttp.Hedge | None
    guard: GuardInput
    robots: str | curlhttp.Robots | None
    fallback: FallbackInput | None
    coalesce: bool
    json: curlhttp.JSON | None
    default_encoding: DefaultEncoding | None
    raise_for_status: bool
    cache: curlhttp.Cache | None
    transport: AnyTransport | None


class BareOptions(RouteOptions, total=False):
    """The keywords of all requests, except for what is in the URL and in the body."""

    headers: HeaderChanges | None
    cookies: CookiesInput | None
    auth: AuthInput | UseClientDefault | None
    timeout: TimeoutInput | UseClientDefault
    follow_redirects: bool | UseClientDefault
    allow_redirects: bool | UseClientDefault
    max_response_size: int | UseClientDefault | None
    retry: RetryInput | UseClientDefault
    raise_for_status: bool | UseClientDefault


class DownloadOptions(BareOptions, total=False):
    """The keywords of all methods that send requests, including download, map and websocket."""

    params: ParamsInput | None


class BodyOptions(DownloadOptions, total=False):
    """The keywords of all methods whose requests may have a body, without `stream`."""

    data: DataInput | None
    json: JSONInput
    content: ContentInput | None
    files: FilesInput | None
    progress: Progress | None


class RequestOptions(BodyOptions, total=False):
    """The keywords of all methods whose requests may have a body."""

    stream: bool
