"""Settings as frozen values: limits, TLS, proxies, and the route made from them.

They are validated when they are created, so other code does not have to. See also timeout.py.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from curlhttp._http.credentials import encode_credential, unquote_credential
from curlhttp._http.errors import check_number
from curlhttp._http.frozen import dataclass
from curlhttp._http.headers import check_header
from curlhttp._http.named_tuple import NamedTuple
from curlhttp._http.suggestions import with_suggestions
from curlhttp._http.url import bracketed
from curlhttp.exceptions import InvalidProxyURL

if TYPE_CHECKING:
    import ssl

    from curlhttp._http.address_guard import AddressGuard

Verify: TypeAlias = "bool | str | os.PathLike[str] | bytes"  # a str may be "system"
VerifyInput: TypeAlias = "Verify | ssl.SSLContext"
_Pem: TypeAlias = "str | bytes | os.PathLike[str]"
Cert: TypeAlias = "_Pem | tuple[_Pem] | tuple[_Pem, _Pem] | tuple[_Pem, _Pem, str | None] | None"
SocketOption: TypeAlias = "tuple[int, int, int | bytes] | tuple[int, int, None, int]"
Proxies: TypeAlias = "Mapping[str, str | Proxy | None] | str | Proxy | None"
HTTP2: TypeAlias = "bool | Literal['prior-knowledge']"
HTTP3: TypeAlias = "bool | Literal['auto']"
ShareKey: TypeAlias = "tuple[object, ...]"

# The variables that name CA certificates; the first that is set counts.
CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")

_LONGEST = 2**31 - 1  # seconds that libcurl accepts: 68 years
_LONGEST_PROBE = 32767  # seconds between TCP keepalive probes that Linux accepts
_PROXY_PORTS = {"http": 80, "https": 443}  # as in requests; libcurl's default for http is 1080
_NUL = "the credentials of a proxy cannot contain NUL"
_QUOTE = (
    "special characters in a user name or password must be percent-encoded, or write "
    "curlhttp.Proxy(url=..., username=..., password=...)"
)
_PROXY_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")


@with_suggestions("Limits")
@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limit the connections of a client and how long it keeps them, in seconds.

    Args:
        max_connections: the maximum number of concurrent exchanges, and so of sockets; further
            requests wait in order of arrival. It is lowered to the number of files that the process
            may open (RLIMIT_NOFILE).
        max_connections_per_host: the same for each origin; None for no separate limit.
        max_keepalive_connections: the maximum number of idle connections that are kept; None for
            max_connections.
        keepalive_expiry: seconds for which an idle connection is kept (CURLOPT_MAXAGE_CONN; whole
            seconds).
        max_connection_lifetime: seconds after which a connection is not used again; None for no
            limit (CURLOPT_MAXLIFETIME_CONN; whole seconds). The next connection may go to an
            address that was looked up `dns_ttl` seconds ago, so that requests follow a name that
            moves after max_connection_lifetime + dns_ttl at the latest.
        dns_ttl: seconds for which a resolved name is kept (CURLOPT_DNS_CACHE_TIMEOUT; whole
            seconds). A name is looked up again sooner after no connection could be made.

        keepalive: seconds of silence after which the system begins to ask the peer of a connection
            whether it is still there, and between two of these probes; None to never ask (TCP
            keepalive, CURLOPT_TCP_KEEPALIVE; whole seconds). They keep a NAT from forgetting a
            connection, and end one whose peer has gone, after 9 probes without a response. They do
            not keep a server from closing an idle connection.

    Raises:
        ValueError: a count is below one or a time below zero.
        TypeError: one of them is not a number.
    """

    max_connections: int = 100
    max_connections_per_host: int | None = None
    max_keepalive_connections: int | None = None
    keepalive_expiry: float = 60.0
    max_connection_lifetime: float | None = None
    dns_ttl: float = 60.0
    keepalive: float | None = None

    def __post_init__(self) -> None:
        optional = ("max_connections_per_host", "max_keepalive_connections")
        for name in ("max_connections", *optional):
            least = int(name != "max_keepalive_connections")
            value = getattr(self, name)
            check_number(name, value, least=least, whole=True, optional=name in optional)
        for name in ("keepalive_expiry", "max_connection_lifetime", "dns_ttl"):
            value, is_optional = getattr(self, name), name == "max_connection_lifetime"
            check_number(name, value, most=_LONGEST, unit="seconds", optional=is_optional)
        check_number(
            "keepalive", self.keepalive, least=1, most=_LONGEST_PROBE, unit="seconds", optional=True
        )


@with_suggestions("TLS")
@dataclass(frozen=True, slots=True, kw_only=True)
class TLS:
    """Set which certificates to trust, and which certificate to send.

    Args:
        verify: True for certifi's CA certificates, the path of a PEM file or of a directory of
            hashed certificates, several such directories separated by os.pathsep, PEM bytes,
            "system" for the CA certificates of macOS or Windows (on other systems, this is a path),
            or False to verify nothing. CA certificates that you pass replace certifi's.
        cert: a client certificate: the path of a PEM file with its key, PEM bytes, or a tuple
            (certificate, key) or (certificate, key, password).
        check_hostname: whether the certificate must be for the host of the URL.
        versions: the lowest and highest version, such as ("1.2", "1.3"); None for libcurl's
            default.
        ciphers: a list in OpenSSL's notation for TLS up to 1.2 (CURLOPT_SSL_CIPHER_LIST).
        must_exist: False for the path of an environment variable: only connections with TLS fail if
            there is nothing.

    Raises:
        ValueError: `verify` is empty, or `cert` has a wrong number of parts.
        TypeError: a path is neither str nor os.PathLike.
        FileNotFoundError: a file does not exist.
    """

    verify: Verify = True
    cert: Cert = None
    check_hostname: bool = True
    versions: tuple[str | None, str | None] = (None, None)
    ciphers: str | None = None
    must_exist: bool = True

    def __post_init__(self) -> None:
        verify = self.verify
        if verify == b"":
            raise ValueError("verify must be True, False, a path or PEM bytes, not empty")
        if not isinstance(verify, (bool, bytes)) and verify != "system":
            path = _to_path("verify", verify, "True, False, a path, PEM bytes or an SSLContext")
            if self.must_exist and (reason := explain_missing_authorities(path)):
                raise FileNotFoundError(reason)
            object.__setattr__(self, "verify", path)
        object.__setattr__(self, "cert", _validate_cert(self.cert))

    def __repr__(self) -> str:
        verify = "<PEM bytes>" if isinstance(self.verify, bytes) else repr(self.verify)
        return f"TLS(verify={verify}, cert={'None' if self.cert is None else '<set>'})"


def names_folders(path: str) -> bool:
    """Return whether the path of CA certificates is one or several folders.

    OpenSSL reads a list of folders and ignores those that do not exist.
    """
    return not os.path.isfile(path) and any(map(os.path.isdir, (path, *path.split(os.pathsep))))


def explain_missing_authorities(path: str) -> str:
    """Return the message for a path of CA certificates that does not exist, "" if it does."""
    if os.path.exists(path) or names_folders(path):
        return ""
    return (
        "Could not find a suitable TLS CA certificate bundle, invalid path: "
        f"{describe_authorities(path)}"
    )


def describe_authorities(path: str) -> str:
    """Return a path of CA certificates, with the environment variable that names it."""
    name = next((name for name in CA_VARIABLES if os.environ.get(name) == path), None)
    return path if name is None else f"{path} (the environment variable {name})"


def _to_path(name: str, value: str | os.PathLike[str], allowed: str) -> str:
    try:
        return os.fspath(value)
    except TypeError:
        kind = "None" if value is None else type(value).__name__
        raise TypeError(f"{name} must be {allowed}, not {kind}") from None


def _validate_cert(cert: Cert) -> tuple[str | bytes, str | bytes, str | None] | None:
    """Return (certificate, key, password); a sole file or blob holds the key as well."""
    if cert is None:
        return None
    parts = cert if isinstance(cert, tuple) else (cert,)
    allowed = "a path, PEM bytes, or (cert, key[, password])"
    if not 1 <= len(parts) <= 3:
        raise ValueError(f"cert must be {allowed}")
    found = [
        part if isinstance(part, bytes) else _to_path("cert", part, allowed) for part in parts[:2]
    ]
    for kind, part in zip(("certificate", "key"), found, strict=False):
        if isinstance(part, str) and not os.path.exists(part):
            raise FileNotFoundError(f"Could not find the TLS {kind} file, invalid path: {part}")
    return found[0], found[-1], parts[2] if len(parts) == 3 else None


def make_tls(verify: VerifyInput, cert: Cert) -> TLS:
    """Return the TLS for verify= and cert=.

    Args:
        verify: as for TLS, or "system" for the machine's CA certificates, or an ssl.SSLContext.
        cert: as for TLS.

    Raises:
        OSError: a file is missing, or the machine has no CA certificates.
        ValueError: an argument is invalid, or libcurl cannot do what the context requires.
    """
    if isinstance(verify, str) and verify == "system":
        return TLS(verify=_find_system_authorities(), cert=cert)
    # No isinstance: most programs never load ssl.
    if hasattr(verify, "get_ca_certs"):
        from curlhttp._http.ssl_context import get_tls_arguments

        found = get_tls_arguments(cast("ssl.SSLContext", verify))
        # Its CA certificates are in a folder, which it does not show: mostly those of the machine.
        if "verify" not in found:
            found["verify"] = _find_system_authorities()
        return TLS(cert=cert, **found)
    return TLS(verify=verify, cert=cert)


def _find_system_authorities() -> str:
    from curlhttp._http.ssl_context import find_system_authorities

    if sys.platform in ("darwin", "win32"):  # where they are not files
        return "system"
    found = find_system_authorities()
    if found is None:
        raise OSError(
            "OpenSSL finds no CA certificates on this machine: install them (often the package "
            "ca-certificates), or pass the path of a file or folder as verify="
        )
    return found


@with_suggestions("Proxy")
@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """Describe a proxy; pass it as `proxy` to a client, or as a value of `proxies`.

    Args:
        url: the proxy's URL. Its scheme is "http" (the default), "https", "socks4", "socks4a",
            "socks5" or "socks5h" (with socks4a and socks5h, the proxy resolves names). The default
            port is 80 for "http", 443 for "https" and 1080 for SOCKS. It may contain credentials,
            percent-encoded.
        username: sent to the proxy only, as UTF-8.
        password: likewise, as it is: not percent-encoded.
        headers: names and values, sent to the proxy only.
        verify: which certificates of an https proxy to trust, as the `verify` of a client. None
            for the `verify` of the client or the request, which is then for both.
        cert: a client certificate for an https proxy, as the `cert` of a client, which only the
            server gets.

    Raises:
        InvalidProxyURL: the URL is not valid, or its scheme is not supported.
        InvalidHeader: a header is not valid.
        ValueError: the credentials are both in the URL and arguments, or cannot be sent; or
            `verify` or `cert` is not valid.
        OSError: a file of `verify` or `cert` is missing.
    """

    url: str
    username: str | None = None
    password: str | None = None
    headers: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    verify: VerifyInput | None = None
    cert: Cert = None

    def __post_init__(self) -> None:
        url, username, password = _parse_proxy(self.url)
        if (self.username, self.password) != (None, None):
            if username is not None:
                raise ValueError("pass the credentials of a proxy in its URL or as arguments")
            username, password = self.username, self.password
            if username is None:  # libcurl sends no password without one
                username = ""
            for name, value in (("username", username), ("password", password)):
                if not isinstance(cast(object, value), (str, type(None))):
                    raise TypeError(f"{name} must be a str, not {type(value).__name__}")
                if b"\0" in encode_credential(value or ""):
                    raise ValueError(_NUL)
        headers = self.headers.items() if isinstance(self.headers, Mapping) else self.headers
        object.__setattr__(self, "url", url)
        object.__setattr__(self, "username", username)
        object.__setattr__(self, "password", password)
        object.__setattr__(self, "headers", tuple(check_header(*field) for field in headers))
        if self.verify is not None or self.cert is not None:
            make_tls(True if self.verify is None else self.verify, self.cert)  # raises now

    @property
    def fields(self) -> tuple[tuple[str, str], ...]:
        """Return the headers as pairs, which they are from the start on."""
        return cast("tuple[tuple[str, str], ...]", self.headers)

    @classmethod
    @lru_cache(maxsize=256)
    def parse(cls, url: str) -> Proxy:
        """Return the Proxy for a URL; see Proxy."""
        return cls(url=url)

    def __repr__(self) -> str:
        credentials = "" if self.username is None else ", credentials=<set>"
        verify = "<PEM bytes>" if isinstance(self.verify, bytes) else repr(self.verify)
        trust = "" if self.verify is None else f", verify={verify}"
        cert = "" if self.cert is None else ", cert=<set>"
        return f"Proxy(url={self.url!r}{credentials}{trust}{cert})"


def make_proxy_tls(proxy: Proxy, tls: TLS, authorities: str | None = None) -> TLS | None:
    """Return the TLS to an https proxy; None if it is as that to the server, without `cert`.

    Args:
        proxy: any.
        tls: to the server.
        authorities: the path of the CA certificates for verify=True; None for certifi's.
    """
    verify, cert = proxy.verify, proxy.cert
    if not proxy.url.startswith("https:") or (verify is None and cert is None):
        return None
    if verify is None or (verify is True and authorities is not None):
        trust = tls.verify if verify is None else authorities
        return TLS(verify=cast("Verify", trust), cert=cert, must_exist=False)
    return make_tls(verify, cert)


def _parse_proxy(url: str) -> tuple[str, str | None, str | None]:
    """Return the URL with scheme and port, the user name and the password."""
    from urllib.parse import urlsplit  # slow to load, and few requests have a proxy

    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidProxyURL(f"the proxy URL has a bad host or port; {_QUOTE}") from None
    if parts.scheme not in _PROXY_SCHEMES:
        raise InvalidProxyURL(
            f"a proxy URL must start with one of {', '.join(_PROXY_SCHEMES)}, not {parts.scheme!r}"
        )
    if not host or any(char <= " " or char == "\\" for char in parts.netloc):
        raise InvalidProxyURL(f"the proxy URL has no valid host; {_QUOTE}")
    if "\0" in unquote_credential(parts.netloc):
        raise InvalidProxyURL(_NUL)
    port = port or _PROXY_PORTS.get(parts.scheme, 1080)
    username, password = (
        None if part is None else unquote_credential(part)
        for part in (parts.username, parts.password)
    )
    return f"{parts.scheme}://{bracketed(host)}:{port}", username, password


def to_proxy_mapping(
    proxies: Mapping[str, str | Proxy | None] | str | Proxy,
) -> Mapping[str, str | Proxy | None]:
    """Return the proxies of a request or a client by scheme.

    Args:
        proxies: a URL or a Proxy for all schemes, or a mapping.

    Raises:
        TypeError: it is neither, or a value is none.
        ValueError: a key is unknown.
        InvalidProxyURL: a URL is not valid.
    """
    if isinstance(proxies, (str, Proxy)):
        proxies = {"all": proxies}
    if not hasattr(proxies, "get"):
        shown = type(cast(object, proxies)).__name__
        raise TypeError(
            f'proxies must be a URL, a Proxy or a mapping by scheme, not {shown}: "http://host:1"'
        )
    for key, proxy in proxies.items():
        if proxy is not None and not isinstance(proxy, (str, Proxy)):
            raise TypeError(
                f"proxies[{key!r}] must be a URL, a Proxy or None, not {type(proxy).__name__}"
            )
        if not _is_proxy_key(key):
            raise ValueError(
                f"proxies has the key {key!r}: use 'http', 'https', 'all', 'no_proxy', or one with "
                "a host, such as 'https://example.com'"
            )
        if isinstance(proxy, Proxy) and key == "no_proxy":
            raise TypeError("proxies['no_proxy'] must be a list of hosts, not a Proxy")
        if isinstance(proxy, str) and proxy and key != "no_proxy":
            Proxy.parse(proxy)  # raises now if it is invalid
    return proxies


def _is_proxy_key(key: object) -> bool:
    if not isinstance(key, str):
        return False
    scheme, colon, host = key.partition("://")
    return (scheme in ("http", "https", "all") and bool(host) == bool(colon)) or key == "no_proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRoute:
    """All settings that decide which connection a request may use.

    Args:
        tls: which certificates to trust, and which to send.
        proxy: the proxy, or None to connect directly.
        proxy_tls: the same as `tls` for an https proxy; None to trust the certificates that `tls`
            trusts, and to send none.
        pins: "sha256//" and the hash of a public key, or several joined by ";"; the server must
            have one of them (CURLOPT_PINNEDPUBLICKEY). None for any key.
        http2: True to offer HTTP/2 on TLS, "prior-knowledge" to use it without negotiation, also
            without TLS, False for HTTP/1.1.
        http3: True to try HTTP/3 (over QUIC) on TLS first, and fall back to the others; "auto" if
            the origin has advertised it, which ignores connections that were opened earlier.
        local_address: address and port to connect from, as in socket.bind (port 0 for any), or
            None.
        socket_options: tuples for socket.setsockopt, set before connecting.
        interface: the name of the network interface, or None.
        ip_version: 4 or 6 to use only these addresses, or None.
        connect_to: "host:port:other:port", each a host to connect to instead of the URL's; the
            certificate must still be for the URL's host. "" matches any (CURLOPT_CONNECT_TO).
        addresses: (host, port or "", addresses) of hosts that are not resolved, entries with a port
            first; only for hosts with several addresses (CURLOPT_RESOLVE).
        doh: the URL of a DNS-over-HTTPS server (CURLOPT_DOH_URL), or None.
        certificates: whether the server's certificate is needed. If so, no TLS session is resumed,
            because in a resumed session the server sends no certificate
            (CURLOPT_SSL_SESSIONID_CACHE).
        happy_eyeballs_ms: milliseconds to try IPv6 before IPv4 is tried as well; None for
            libcurl's default, 200.
        unix_socket: the path of a Unix socket to connect to instead, or None.
        max_send_rate: bytes per second that a request sends, None for no limit.
        max_receive_rate: bytes per second that it receives, None for no limit.
        guard: decides to which addresses the client may connect, or None; compared by identity.
        negotiate: authenticate with GSSAPI (CURLAUTH_NEGOTIATE), on separate connections.
        checked_address: the address that the guard allows the proxy to connect to, or None.
    """

    tls: TLS
    proxy: Proxy | None = None
    proxy_tls: TLS | None = None
    pins: str | None = None
    http2: HTTP2 = False
    http3: HTTP3 = False
    local_address: tuple[str, int] | None = None
    socket_options: tuple[SocketOption, ...] = ()
    interface: str | None = None
    ip_version: Literal[4, 6] | None = None
    connect_to: tuple[str, ...] = ()
    addresses: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    doh: str | None = None
    happy_eyeballs_ms: int | None = None
    unix_socket: str | None = None
    max_send_rate: int | None = None
    max_receive_rate: int | None = None
    certificates: bool = False
    guard: AddressGuard | None = None
    checked_address: CheckedAddress | None = None
    negotiate: bool = False

    @property
    def tls_to_proxy(self) -> TLS:
        """Return the TLS to an https proxy."""
        # That to the server has more settings, which are not for the proxy.
        return self.proxy_tls or TLS(verify=self.tls.verify, must_exist=False)

    @property
    def sends_certificate(self) -> bool:
        """Return whether the server or the proxy gets a client certificate."""
        tls = self.proxy_tls
        return self.tls.cert is not None or (tls is not None and tls.cert is not None)

    @property
    def share_key(self) -> ShareKey | None:
        """Return the settings by which libcurl does not separate connections, None without any."""
        key = (self.doh, self.negotiate, self.http3 == "auto", self.addresses)
        return key if any(key) else None


@lru_cache(maxsize=256)
def make_route(
    verify: Verify, cert: Cert, proxy: str | None, http2: HTTP2, http3: bool
) -> NetworkRoute:
    """Return the route for some settings; the same object each time, to compare by identity."""
    return NetworkRoute(
        tls=TLS(verify=verify, cert=cert),
        proxy=Proxy.parse(proxy) if proxy else None,
        http2=http2,
        http3=http3,
    )


@lru_cache(maxsize=256)
def derive_route(route: NetworkRoute, **fields: object) -> NetworkRoute:
    """Return a NetworkRoute with some fields replaced; the same object each time."""
    kept = {name: getattr(route, name) for name in NetworkRoute.__slots__}
    return NetworkRoute(**{**kept, **fields})


# --- What an address guard (_http/address_guard.py) has checked ---


class CheckedAddress(NamedTuple):
    """An address that a guard allows a proxy to connect to, with the host and port of the URL."""

    host: str
    port: int
    address: str
    connect_port: int
