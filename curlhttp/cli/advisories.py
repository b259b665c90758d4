"""The advisories of curl that apply to a version of libcurl, and whether they touch curlhttp.

Nothing here is read from the network, and importing curlhttp does not load this module. Importing
curlhttp warns of the versions that one of these advisories touches; a test compares the two.

The sources are curl's own list, `docs/vuln.pm` of its website as of 22 August 2026, and for what
came later the records of the CVE list, as of 20 October 2026. The table has all of the former that
affect 7.80.0 or newer, the oldest libcurl that curlhttp takes, and those of the latter that we
found. It goes by versions, so it does not know what a distribution has mended in an old one.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["ADVISORIES", "AS_OF", "Advisory", "advisories_for"]

AS_OF = "2026-10-20"

# What an advisory touches.
_TOUCHED = {
    "cert": "client certificates",
    "headers": "headers of responses",
    "http3": "HTTP/3",
    "idn": "certificates for international names",
    "ipv6-zone": "IPv6 addresses with a zone",
    "names": "names that libcurl looks up",
    "negotiate": "Negotiate",
    "negotiate-proxy": "Negotiate through a proxy",
    "proxy-password": "proxies with a password",
    "server-certs": "certificates of servers",
    "socks5": "SOCKS5 proxies",
    "uploads": "uploads",
    "uploads-h2": "uploads over HTTP/2",
    "verify": "the certificates that verify= trusts",
}
# Why another one touches nothing. In capitals, in the table: an option that is never used.
_SPARED = {
    "cookies": "curlhttp keeps cookies itself",
    "decoding": "curlhttp decompresses bodies itself",
    "digest": "curlhttp does Digest itself, and sends proxies Basic only",
    "frames": "the package websockets makes the frames of WebSockets",
    "hsts": "curlhttp does HSTS itself",
    "netrc": "curlhttp reads netrc itself",
    "other-tls": "it is in a TLS library that pycurl's wheels do not have",
    "pauses": "curlhttp pauses no transfer in the callback for sockets",
    "protocol-set": "curlhttp allows HTTP and HTTPS, never an empty set of protocols",
    "protocols": "curlhttp allows no protocol but HTTP and HTTPS",
    "providers": "curlhttp loads no provider of OpenSSL",
    "push": "curlhttp accepts no pushed response",
    "redirects": "curlhttp follows redirects itself",
    "signals": "curlhttp turns libcurl's signals off",
    "ssl-bits": "curlhttp sets this bit only for TLS libraries to which it means nothing",
    "tool": "it is in the command curl, not in libcurl",
    "urls": "curlhttp parses URLs itself",
}

# The number of the CVE; the first version that it affects (- if the source did not say), and the
# last; a key of _TOUCHED after +, a key of _SPARED, or an option; and curl's title.
_TABLE = """
2026-107928 -      8.22.0 frames          info leak uploading over WebSockets with GnuTLS
2026-94266  -      8.22.0 EFFECTIVE_URL   password leak in CURLINFO_EFFECTIVE_URL
2026-92392  -      8.22.0 +uploads-h2     HTTP/2 upload Use-After-Free
2026-86415  8.21.0 8.22.0 ssl-bits        auto client cert connection reuse mixup
2026-86414  -      8.22.0 +negotiate-proxy leaking host credentials to HTTP proxy
2026-86412  -      8.22.0 cookies         server-set cookie erases cookie jar
2026-80229  8.14.0 8.21.0 providers       OpenSSL provider use-after-free
2026-19931  7.64.1 8.21.0 +negotiate      Negotiate ambient user conn reuse
2026-18924  7.44.0 8.21.0 push            HTTP/2 server push UAF
2026-12064  7.81.0 8.20.0 tool            proto-default skips SSH verification
2026-11856  7.10.6 8.20.0 digest          cross-origin Digest auth state leak
2026-11586  8.16.0 8.20.0 frames          WS Auto-PONG memory exhaustion
2026-11564  8.17.0 8.20.0 +verify         Native CA trust persist
2026-11352  8.18.0 8.20.0 +http3          QUIC zero-length UDP datagrams busy-loop
2026-10536  7.88.0 8.20.0 STREAM_DEPENDS  HTTP/2 stream-dependency tree UAF
2026-9547   7.69.0 8.20.0 protocols       SSH improper host validation
2026-9546   8.18.0 8.20.0 REFERER         sending old referer
2026-9545   8.11.0 8.20.0 ssl-bits        exposing HTTP/3 early data
2026-9080   8.13.0 8.20.0 pauses          UAF after pause in socket callback
2026-9079   8.8.0  8.20.0 +proxy-password stale proxy password leak
2026-8932   7.7    8.20.0 +cert           incomplete mTLS config matching in conn reuse
2026-8927   7.12.0 8.20.0 digest          env-set cross-proxy Digest auth state leak
2026-8926   8.11.1 8.20.0 netrc           password leak with netrc and user in URL
2026-8925   8.15.0 8.20.0 protocols       SASL double-free
2026-8924   7.46.0 8.20.0 cookies         trailing dot domain super cookie
2026-8458   7.43.0 8.20.0 SERVICE_NAME    wrong reuse for different services
2026-8286   7.30.0 8.20.0 protocols       wrong STARTTLS connection reuse
2026-7168   7.12.0 8.19.0 digest          cross-proxy Digest auth state leak
2026-7009   8.17.0 8.19.0 SSL_VERIFYSTATUS OCSP stapling bypass with Apple SecTrust
2026-6429   7.14.0 8.19.0 netrc           netrc credential leak with reused proxy connection
2026-6276   7.71.0 8.19.0 cookies         stale custom cookie host causes cookie leak
2026-6253   7.14.1 8.19.0 redirects       proxy credentials leak over redirect-to proxy
2026-5773   7.40.0 8.19.0 protocols       wrong reuse of SMB connection
2026-5545   7.10.6 8.19.0 +negotiate      wrong reuse of HTTP Negotiate connection
2026-4873   7.20.0 8.19.0 protocols       connection reuse ignores TLS requirement
2026-3805   8.13.0 8.18.0 protocols       use after free in SMB connection reuse
2026-3784   7.7    8.18.0 +proxy-password wrong proxy connection reuse with credentials
2026-3783   7.33.0 8.18.0 redirects       token leak with redirect and netrc
2026-1965   7.10.6 8.18.0 +negotiate      bad reuse of HTTP Negotiate connection
2025-15224  7.58.0 8.17.0 protocols       libssh key passphrase bypass without agent set
2025-15079  7.58.0 8.17.0 protocols       libssh global known_hosts override
2025-14819  7.87.0 8.17.0 SSLOPT_NO_PARTIALCHAIN OpenSSL partial chain store policy bypass
2025-14524  7.33.0 8.17.0 redirects       bearer token leak on cross-protocol redirect
2025-14017  7.17.0 8.17.0 protocols       broken TLS options for threaded LDAPS
2025-13034  8.8.0  8.17.0 other-tls       No QUIC certificate pinning with GnuTLS
2025-10966  7.69.0 8.16.0 protocols       missing SFTP host verification with wolfSSH
2025-10148  8.11.0 8.15.0 frames          predictable WebSocket mask
2025-9086   8.13.0 8.15.0 cookies         Out of bounds read for cookie path
2025-5399   8.13.0 8.14.0 frames          WebSocket endless loop
2025-5025   8.5.0  8.13.0 other-tls       No QUIC certificate pinning with wolfSSL
2025-4947   8.8.0  8.13.0 other-tls       QUIC certificate check skip with wolfSSL
2025-0725   7.10.5 8.11.1 decoding        gzip integer overflow
2025-0665   8.11.1 8.11.1 +names          eventfd double close
2025-0167   7.76.0 8.11.1 netrc           netrc and default credential leak
2024-11053  7.76.0 8.11.0 netrc           netrc and redirect credential leak
2024-9681   7.74.0 8.10.1 hsts            HSTS subdomain overwrites parent cache entry
2024-8096   7.41.0 8.9.1  other-tls       OCSP stapling bypass with GnuTLS
2024-7264   7.32.0 8.9.0  +server-certs   ASN.1 date parser overread
2024-6874   8.8.0  8.8.0  urls            macidn punycode buffer overread
2024-6197   8.6.0  8.8.0  +server-certs   freeing stack buffer in utf8asn1str
2024-2466   8.5.0  8.6.0  other-tls       TLS certificate check bypass with mbedTLS
2024-2398   7.44.0 8.6.0  push            HTTP/2 push headers memory-leak
2024-2379   8.6.0  8.6.0  other-tls       QUIC certificate check bypass with wolfSSL
2024-2004   7.85.0 8.6.0  protocol-set    Usage of disabled protocol
2024-0853   8.5.0  8.5.0  SSL_VERIFYSTATUS OCSP verification bypass with TLS session reuse
2023-46219  7.84.0 8.4.0  hsts            HSTS long filename clears contents
2023-46218  7.46.0 8.4.0  cookies         cookie mixed case PSL bypass
2023-38546  7.9.1  8.3.0  cookies         cookie injection with none file
2023-38545  7.69.0 8.3.0  +socks5         SOCKS5 heap buffer overflow
2023-38039  7.84.0 8.2.1  +headers        HTTP headers eat all memory
2023-28322  7.7    8.0.1  +uploads        more POST-after-PUT confusion
2023-28321  7.12.0 8.0.1  +idn            IDN wildcard match
2023-28320  7.9.8  8.0.1  signals         siglongjmp race condition
2023-28319  7.81.0 8.0.1  protocols       UAF in SSH sha256 fingerprint check
2023-27538  7.16.1 7.88.1 protocols       SSH connection too eager reuse still
2023-27537  7.88.0 7.88.1 hsts            HSTS double free
2023-27536  7.22.0 7.88.1 GSSAPI_DELEGATION GSS delegation too eager connection reuse
2023-27535  7.13.0 7.88.1 protocols       FTP too eager connection reuse
2023-27534  7.18.0 7.88.1 protocols       SFTP path ~ resolving discrepancy
2023-27533  7.7    7.88.1 protocols       TELNET option IAC injection
2023-23916  7.57.0 7.87.0 decoding        HTTP multi-header compression denial of service
2023-23915  7.77.0 7.87.0 hsts            HSTS amnesia with --parallel
2023-23914  7.77.0 7.87.0 hsts            HSTS ignored on multiple requests
2022-43552  7.16.0 7.86.0 protocols       HTTP Proxy deny use after free
2022-43551  7.77.0 7.86.0 hsts            Another HSTS bypass via IDN
2022-42916  7.77.0 7.85.0 hsts            HSTS bypass via IDN
2022-42915  7.77.0 7.85.0 protocols       HTTP proxy double free
2022-35260  7.84.0 7.85.0 netrc           .netrc parser out-of-bounds access
2022-35252  4.9    7.84.0 cookies         control code in cookie denial of service
2022-32221  7.7    7.85.0 +uploads        POST following PUT confusion
2022-32208  7.16.4 7.83.1 protocols       FTP-KRB bad message verification
2022-32207  7.69.0 7.83.1 cookies         Non-preserved file permissions
2022-32206  7.57.0 7.83.1 decoding        HTTP compression denial of service
2022-32205  7.71.0 7.83.1 cookies         Set-Cookie denial of service
2022-30115  7.82.0 7.83.0 hsts            HSTS bypass via trailing dot
2022-27782  7.16.1 7.83.0 +verify         TLS and SSH connection too eager reuse
2022-27781  7.34.0 7.83.0 other-tls       CERTINFO never-ending busy-loop
2022-27780  7.80.0 7.83.0 urls            percent-encoded path separator in URL host
2022-27779  7.82.0 7.83.0 cookies         cookie for trailing dot TLD
2022-27778  7.83.0 7.83.0 tool            curl removes wrong file on error
2022-27776  4.9    7.82.0 redirects       Auth/cookie leak on redirect
2022-27775  7.65.0 7.82.0 +ipv6-zone      Bad local IPv6 connection reuse
2022-27774  4.9    7.82.0 redirects       Credential leak on redirect
2022-22576  7.33.0 7.82.0 protocols       OAUTH2 bearer bypass in connection reuse
"""


class Advisory(NamedTuple):
    """One of curl's advisories.

    Args:
        cve: its number.
        first: the first version of libcurl that it affects.
        last: the last one.
        title: what curl calls it.
        touches: what it touches in curlhttp; empty if it touches nothing.
        spared: why it touches nothing; empty if it touches something.
    """

    cve: str
    first: tuple[int, ...]
    last: tuple[int, ...]
    title: str
    touches: str
    spared: str

    @property
    def url(self) -> str:
        """The page with details."""
        return f"https://curl.se/docs/{self.cve}.html"


def advisories_for(version: str) -> list[Advisory]:
    """Return the advisories that apply to a version, those that touch curlhttp first.

    Args:
        version: as libcurl reports it, for example "8.23.0" or "8.22.0-DEV".
    """
    numbers = _numbers(version.partition("-")[0])
    found = [each for each in ADVISORIES if each.first <= numbers <= each.last]
    return sorted(found, key=lambda each: not each.touches)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _parse(line: str) -> Advisory:
    cve, first, last, key, title = line.split(maxsplit=4)
    touches = _TOUCHED[key[1:]] if key.startswith("+") else ""
    spared = f"curlhttp does not use {key}" if key.isupper() else _SPARED.get(key, "")
    begin = () if first == "-" else _numbers(first)
    return Advisory(f"CVE-{cve}", begin, _numbers(last), title, touches, spared)


ADVISORIES = tuple(_parse(line) for line in _TABLE.strip().splitlines())
