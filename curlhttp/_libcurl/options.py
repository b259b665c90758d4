"""Map settings to libcurl options: which are set on an easy handle, and why.

Options without a name in pycurl are numbers from curl.h.
"""

from __future__ import annotations

import _socket
import re
from typing import cast

from curlhttp._http.config import TLS, Limits, NetworkRoute, Verify, names_folders
from curlhttp._http.credentials import encode_credential
from curlhttp._http.named_tuple import NamedTuple
from curlhttp._http.request import ClientRequest
from curlhttp._http.timeout import Timeout
from curlhttp._http.url import URL, bracketed
from curlhttp._libcurl import USES_SCHANNEL, knows_tls_1_3, pycurl

_Identity = tuple[str | bytes, str | bytes, str | None]
Option = tuple[int, object]  # a number of setopt's, and a value

_SUPPRESS_CONNECT_HEADERS = 265
_HAPPY_EYEBALLS_TIMEOUT_MS = 271
_DOH_SSL_VERIFYPEER, _DOH_SSL_VERIFYHOST = 306, 307
_PROXY_SSL_OPTIONS = 261
_START = 64 * 1024  # bytes of a certificate file; a PEM file may begin with text
_FOREVER_MS = 2**31 - 1  # 0 would mean libcurl's own default, 300 s for connecting
# Checks per write timeout, which ends that much later at most if other streams are busy.
WRITE_CHECKS = 4
_BUFFER = 128 * 1024  # bytes per read: 1 MiB bodies cost a fifth less CPU than with 16 KiB

_PIECES_A_SECOND = 8  # at least, of a response whose rate is limited
_LEAST_BUFFER = 1024  # libcurl's own minimum; likewise the next
_LEAST_UPLOAD_BUFFER, _UPLOAD_BUFFER = 16 * 1024, 64 * 1024

_CONNECT_TO = r"(\[.*?\]|[^:]*):(\d*):(\[.*?\]|[^:]*):(\d*)"

_HTTP_VERSIONS = {
    False: pycurl.CURL_HTTP_VERSION_1_1,
    True: pycurl.CURL_HTTP_VERSION_2TLS,
    "prior-knowledge": pycurl.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE,
}
_TLS_VERSIONS = {
    None: pycurl.SSLVERSION_DEFAULT,
    "1.0": pycurl.SSLVERSION_TLSv1_0,
    "1.1": pycurl.SSLVERSION_TLSv1_1,
    "1.2": pycurl.SSLVERSION_TLSv1_2,
    "1.3": pycurl.SSLVERSION_TLSv1_3,
}


class _TLSOptions(NamedTuple):
    """The options for TLS to one peer.

    Attributes:
        authorities: a file, a folder, PEM bytes, and flags.
    """

    verify_peer: int
    verify_host: int
    authorities: tuple[int, int, int, int]
    version: int
    ciphers: int
    cert: int
    cert_blob: int
    key: int
    key_blob: int
    password: int


_ORIGIN_TLS = _TLSOptions(
    pycurl.SSL_VERIFYPEER,
    pycurl.SSL_VERIFYHOST,
    (pycurl.CAINFO, pycurl.CAPATH, pycurl.CAINFO_BLOB, pycurl.SSL_OPTIONS),
    pycurl.SSLVERSION,
    pycurl.SSL_CIPHER_LIST,
    pycurl.SSLCERT,
    pycurl.SSLCERT_BLOB,
    pycurl.SSLKEY,
    pycurl.SSLKEY_BLOB,
    pycurl.KEYPASSWD,
)
_PROXY_TLS = _TLSOptions(
    pycurl.PROXY_SSL_VERIFYPEER,
    pycurl.PROXY_SSL_VERIFYHOST,
    (pycurl.PROXY_CAINFO, pycurl.PROXY_CAPATH, pycurl.PROXY_CAINFO_BLOB, _PROXY_SSL_OPTIONS),
    pycurl.PROXY_SSLVERSION,
    pycurl.PROXY_SSL_CIPHER_LIST,
    pycurl.PROXY_SSLCERT,
    pycurl.PROXY_SSLCERT_BLOB,
    pycurl.PROXY_SSLKEY,
    pycurl.PROXY_SSLKEY_BLOB,
    pycurl.PROXY_KEYPASSWD,
)
# Without a name, because the ticket has it.
_NEGOTIATE = ((pycurl.HTTPAUTH, pycurl.HTTPAUTH_NEGOTIATE), (pycurl.USERPWD, ":"))
_PROXY_TYPES = {
    "http": pycurl.PROXYTYPE_HTTP,
    "https": 2,
    "socks4": pycurl.PROXYTYPE_SOCKS4,
    "socks4a": pycurl.PROXYTYPE_SOCKS4A,
    "socks5": pycurl.PROXYTYPE_SOCKS5,
    "socks5h": pycurl.PROXYTYPE_SOCKS5_HOSTNAME,
}


def base_options() -> list[Option]:
    """Return the options of every transfer."""
    return [
        (pycurl.NOSIGNAL, 1),  # signals would kill a threaded program
        (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
        (pycurl.FOLLOWLOCATION, 0),  # the flow follows: libcurl forwards credentials
        (pycurl.HTTP_CONTENT_DECODING, 0),  # decoding in libcurl cannot be bounded or paused
        (pycurl.PATH_AS_IS, 1),  # the URL is already canonical
        (pycurl.NETRC, pycurl.NETRC_IGNORED),
        (pycurl.BUFFERSIZE, _BUFFER),
        (pycurl.TCP_NODELAY, 1),
        (_SUPPRESS_CONNECT_HEADERS, 1),  # a proxy's headers are not the origin's
        (pycurl.ACCEPT_ENCODING, None),  # the header is ours
        (pycurl.USERAGENT, ""),  # the header is ours; pycurl would set its own
    ]


def limit_options(limits: Limits) -> list[Option]:
    """Return the options for a client's limits."""
    lifetime = limits.max_connection_lifetime
    return [
        (pycurl.MAXAGE_CONN, max(1, int(limits.keepalive_expiry))),
        (pycurl.MAXLIFETIME_CONN, 0 if lifetime is None else max(1, int(lifetime))),
        (pycurl.DNS_CACHE_TIMEOUT, int(limits.dns_ttl)),
        (pycurl.FORBID_REUSE, int(limits.max_keepalive_connections == 0)),
        *_keepalive(limits.keepalive),
    ]


def _keepalive(seconds: float | None) -> list[Option]:
    if seconds is None:
        return []
    whole = max(1, int(seconds))
    return [
        (pycurl.TCP_KEEPALIVE, 1),
        (pycurl.TCP_KEEPIDLE, whole),
        (pycurl.TCP_KEEPINTVL, whole),
    ]


def route_options(route: NetworkRoute) -> list[Option]:
    """Return the options for a route, on a handle that was reset."""
    version = _HTTP_VERSIONS[route.http2]
    if route.http3:
        version = pycurl.CURL_HTTP_VERSION_3
    return [
        (pycurl.HTTP_VERSION, version),
        *_trust(route.tls, _ORIGIN_TLS),
        *([] if route.pins is None else [(pycurl.PINNEDPUBLICKEY, route.pins)]),
        *([(pycurl.SSL_SESSIONID_CACHE, 0)] if route.certificates else ()),
        *_identity(route.tls.cert, _ORIGIN_TLS),
        *_proxy(route),
        *_path_options(route),
        *(_NEGOTIATE if route.negotiate else ()),
    ]


def check_tls(tls: TLS, *, is_schannel: bool = USES_SCHANNEL) -> None:
    """Check that libcurl's TLS library can do what is asked for.

    Args:
        tls: of an origin, or of a proxy.
        is_schannel: whether that is Schannel, the one of Windows.

    Raises:
        ValueError: it cannot.
    """
    if not is_schannel:
        return
    if isinstance(tls.verify, str) and tls.verify != "system" and names_folders(tls.verify):
        raise ValueError(
            "verify cannot be a folder with Schannel, the TLS of Windows: pass one PEM file, or "
            "its bytes"
        )
    if tls.versions[0] == "1.3" and not knows_tls_1_3():
        raise ValueError(
            "TLS 1.3 needs Windows 11 or Windows Server 2022: this Windows' TLS ends with TLS 1.2"
        )
    if tls.ciphers:
        raise ValueError(
            "TLS(ciphers=...) is in OpenSSL's notation, which Schannel, the TLS of Windows, does "
            "not know: leave it off, and configure the cipher suites of Windows"
        )
    if tls.cert is not None:
        certificate = cast(_Identity, tls.cert)[0]
        start = certificate if isinstance(certificate, bytes) else _read_start(certificate)
        if b"-----BEGIN " in start[:_START]:
            raise ValueError(
                "Schannel, the TLS of Windows, reads client certificates only as PKCS#12: pass "
                "the path or the bytes of a .p12 or .pfx file as cert=, as (file, file, password) "
                "if it has a password. To convert PEM files: openssl pkcs12 -export -in cert.pem "
                "-inkey key.pem -out cert.p12"
            )


def _read_start(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(_START)


def _trust(tls: TLS, names: _TLSOptions) -> list[Option]:
    check_tls(tls)
    verify = tls.verify
    if verify is False:
        trust: list[Option] = [(names.verify_peer, 0), (names.verify_host, 0)]
    else:
        trust = [
            (names.verify_peer, 1),
            (names.verify_host, 2 if tls.check_hostname else 0),
            *_authorities(verify, *names.authorities),
        ]
    lowest, highest = tls.versions
    if USES_SCHANNEL and highest == "1.3":
        highest = None  # the newest one, which libcurl refuses by name where Windows lacks it
    if lowest or highest:
        version = _TLS_VERSIONS[lowest] | _TLS_VERSIONS[highest] << 16  # CURL_SSLVERSION_MAX_*
        trust.append((names.version, version))
    if tls.ciphers:
        trust.append((names.ciphers, tls.ciphers))
    return trust


def _path_options(route: NetworkRoute) -> list[Option]:
    options: list[Option] = []
    address, port = route.local_address or ("", 0)
    if address or port or route.interface:
        options += _local_end(address, route.interface)
        if port:
            options.append((pycurl.LOCALPORT, port))
    if route.ip_version is not None:
        versions = {4: pycurl.IPRESOLVE_V4, 6: pycurl.IPRESOLVE_V6}
        options.append((pycurl.IPRESOLVE, versions[route.ip_version]))
    if route.checked_address is not None:
        # The proxy connects to this address. TLS, Host and cookies use the URL's host; http goes
        # through a tunnel then (CURLOPT_CONNECT_TO).
        host, port = route.checked_address.address, route.checked_address.connect_port
        options.append((pycurl.CONNECT_TO, [f"::{bracketed(host)}:{port}"]))
    elif route.connect_to:
        options.append((pycurl.CONNECT_TO, list(route.connect_to)))
    if route.doh is not None:
        options.append((pycurl.DOH_URL, route.doh))
        if route.tls.verify is False:
            options += [(_DOH_SSL_VERIFYPEER, 0), (_DOH_SSL_VERIFYHOST, 0)]
    if route.happy_eyeballs_ms is not None:
        options.append((_HAPPY_EYEBALLS_TIMEOUT_MS, route.happy_eyeballs_ms))
    if route.unix_socket is not None:
        options.append((pycurl.UNIX_SOCKET_PATH, route.unix_socket))
    if (rate := route.max_receive_rate) is not None:  # see Transfer.on_limited
        size = min(_BUFFER, max(_LEAST_BUFFER, rate // _PIECES_A_SECOND))
        options.append((pycurl.BUFFERSIZE, size))
    # libcurl waits after each full buffer. With a small one, the waits stay below read timeouts.
    if (rate := route.max_send_rate) is not None:
        size = min(_UPLOAD_BUFFER, max(_LEAST_UPLOAD_BUFFER, rate // 4))
        options += [(pycurl.MAX_SEND_SPEED_LARGE, rate), (pycurl.UPLOAD_BUFFERSIZE, size)]
    return options


def get_connect_target(route: NetworkRoute, host: str, port: int) -> tuple[str, int]:
    """Return the host and port that CURLOPT_CONNECT_TO selects: the first matching entry."""
    for entry in route.connect_to:
        match = re.fullmatch(_CONNECT_TO, entry)
        assert match is not None
        name, its_port, other, other_port = match.groups()
        if name.strip("[]") in ("", host) and its_port in ("", str(port)):
            return other.strip("[]") or host, int(other_port or port)
    return host, port


def get_addresses(route: NetworkRoute, host: str, port: int) -> tuple[str, ...]:
    """Return the addresses configured for a host; () if it has to be looked up."""
    for name, its_port, addresses in route.addresses:
        if name == host and its_port in ("", str(port)):
            return addresses
    return ()


def address_options(route: NetworkRoute, url: URL) -> list[Option]:
    """Return the options to connect to the addresses configured for the host of a URL."""
    host, port = get_connect_target(route, url.host, url.port)
    addresses = get_addresses(route, host, port)
    if route.proxy is not None:  # a proxy takes one address
        entries = [f"::{bracketed(addresses[0])}:{port}"] if addresses else route.connect_to
        return [(pycurl.CONNECT_TO, list(entries))]
    entry = f"{bracketed(host)}:{port}:{','.join(map(bracketed, addresses))}"
    return [(pycurl.RESOLVE, [entry] if addresses else [])]


def _local_end(address: str, interface: str | None) -> list[Option]:
    if interface is not None:
        # With an address as well, libcurl would ignore that the interface does not exist.
        both = address and _interface_exists(interface)
        local = f"ifhost!{interface}!{address}" if both else f"if!{interface}"
    elif address:
        local = f"host!{address}"
    else:
        return []
    return [(pycurl.INTERFACE, local)]


def _interface_exists(interface: str) -> bool:
    try:
        _socket.if_nametoindex(interface)
    except OSError:
        return False
    return True


def get_trust_flags(verify: Verify) -> int:
    """Return CURLOPT_SSL_OPTIONS.

    Without best effort, Schannel refuses each certificate whose revocation it cannot look up, such
    as those of a company's own authority.
    """
    flags = pycurl.SSLOPT_REVOKE_BEST_EFFORT if USES_SCHANNEL else 0
    return int(flags | (pycurl.SSLOPT_NATIVE_CA if verify == "system" else 0))


def _authorities(verify: Verify, file: int, folder: int, blob: int, options: int) -> list[Option]:
    # Schannel knows no folder.
    common: list[Option] = [] if USES_SCHANNEL else [(folder, None)]
    if flags := get_trust_flags(verify):
        common.append((options, flags))
    if verify == "system":
        return [(file, None), *common]
    if isinstance(verify, bytes):
        return [*common, (blob, verify)]
    if verify is True:  # see default_authorities
        return common
    if names_folders(str(verify)):
        return [(file, None), (folder, verify)]
    return [*common, (file, verify)]


def default_authorities(option: int = pycurl.CAINFO) -> list[Option]:
    """Return certifi's certificates, for a route with verify=True.

    certifi loads half of the standard library. So they are set when the first URL needs them.

    Args:
        option: CAINFO, or PROXY_CAINFO.
    """
    import certifi

    return [(option, certifi.where())]


def _identity(cert: object, names: _TLSOptions) -> list[Option]:
    if cert is None:
        return []
    certificate, key, password = cast(_Identity, cert)  # validated by TLS
    options: list[Option] = [
        (names.cert_blob if isinstance(certificate, bytes) else names.cert, certificate),
        (names.key_blob if isinstance(key, bytes) else names.key, key),
    ]
    if password is not None:
        options.append((names.password, password))
    return options


def _proxy(route: NetworkRoute) -> list[Option]:
    proxy = route.proxy
    # Always set both, because libcurl reads the environment otherwise.
    if proxy is None:
        return [(pycurl.PROXY, ""), (pycurl.NOPROXY, "")]
    scheme = proxy.url.partition(":")[0]
    options: list[Option] = [
        (pycurl.PROXY, proxy.url),
        (pycurl.NOPROXY, ""),
        (pycurl.PROXYTYPE, _PROXY_TYPES[scheme]),
    ]
    if proxy.username is not None:
        options += [
            (pycurl.PROXYAUTH, pycurl.HTTPAUTH_BASIC),
            (pycurl.PROXYUSERNAME, encode_credential(proxy.username)),
            (pycurl.PROXYPASSWORD, encode_credential(proxy.password or "")),
        ]
    if proxy.headers:
        lines = [f"{name}: {value}".encode("latin-1") for name, value in proxy.fields]
        options += [(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE), (pycurl.PROXYHEADER, lines)]
    if scheme == "https":
        options += _proxy_tls(route.tls_to_proxy)
    return options


def _proxy_tls(tls: TLS) -> list[Option]:
    """Return the options for TLS to an https proxy, for which no URL sets certifi's later."""
    return [
        *_trust(tls, _PROXY_TLS),
        *(default_authorities(pycurl.PROXY_CAINFO) if tls.verify is True else ()),
        *_identity(tls.cert, _PROXY_TLS),
    ]


def get_connect_ms(timeout: Timeout) -> int:
    """Return CURLOPT_CONNECTTIMEOUT_MS for a timeout."""
    return _FOREVER_MS if timeout.connect is None else max(1, int(timeout.connect * 1000))


def get_first_limit(request: ClientRequest) -> float | None:
    """Return after how many seconds of silence a request needs its first check; None for never."""
    timeout = request.timeout
    limits = [] if timeout.read is None else [timeout.read]
    if timeout.write is not None and request.body is not None:
        limits.append(timeout.write / WRITE_CHECKS)
    if timeout.min_speed is not None:
        limits.append(timeout.min_speed[1])
    return min(limits, default=None)


def body_headers(lines: list[bytes]) -> list[bytes]:
    """Return header lines that also keep libcurl from adding its own for a body.

    Args:
        lines: of the request.
    """
    names = {line.partition(b":")[0].lower() for line in lines}
    extra = []
    if b"expect" not in names:
        extra.append(b"Expect:")  # waiting for 100 (Continue) costs a second
    if b"content-type" not in names:
        extra.append(b"Content-Type:")  # POSTFIELDS would declare a form
    return lines + extra
