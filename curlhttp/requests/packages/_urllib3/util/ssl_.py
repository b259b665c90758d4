"""urllib3.util.ssl_: TLS settings as an ssl.SSLContext, from which libcurl's are taken."""

from __future__ import annotations

import hashlib
import ssl
from ipaddress import ip_address
from ssl import OPENSSL_VERSION, SSLContext
from typing import Any

from curlhttp.requests.packages._urllib3.exceptions import SSLError

__all__ = [
    "ALPN_PROTOCOLS",
    "HAS_NEVER_CHECK_COMMON_NAME",
    "IS_PYOPENSSL",
    "OPENSSL_VERSION",
    "SSLContext",
    "assert_fingerprint",
    "create_urllib3_context",
    "is_ipaddress",
    "resolve_cert_reqs",
    "resolve_ssl_version",
]

ALPN_PROTOCOLS = ["http/1.1"]
HAS_NEVER_CHECK_COMMON_NAME = True
IS_PYOPENSSL = False

_HASHES = {32: hashlib.md5, 40: hashlib.sha1, 64: hashlib.sha256}  # digits of a fingerprint


def create_urllib3_context(
    ssl_version: int | None = None,
    cert_reqs: int | None = None,
    options: int | None = None,
    ciphers: str | None = None,
    ssl_minimum_version: int | None = None,
    ssl_maximum_version: int | None = None,
    verify_flags: int | None = None,
) -> SSLContext:
    """Return an SSLContext for a client.

    Args:
        ssl_version: the one version to speak, as ssl.PROTOCOL_TLSv1_2.
        cert_reqs: ssl.CERT_REQUIRED unless given.
        options: bits to set besides OpenSSL's defaults.
        ciphers: OpenSSL's names.
        ssl_minimum_version: TLS 1.2 unless given.
        ssl_maximum_version: the newest unless given.
        verify_flags: bits to set besides OpenSSL's defaults.

    Raises:
        ValueError: both a version and a bound are given.
    """
    context = SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ssl_version not in (None, ssl.PROTOCOL_TLS, ssl.PROTOCOL_TLS_CLIENT):
        if ssl_minimum_version is not None or ssl_maximum_version is not None:
            raise ValueError(
                "Can't specify both 'ssl_version' and either "
                "'ssl_minimum_version' or 'ssl_maximum_version'"
            )
        version = ssl.TLSVersion[ssl._SSLMethod(ssl_version).name.removeprefix("PROTOCOL_")]
        ssl_minimum_version = ssl_maximum_version = version
    context.minimum_version = _version(ssl_minimum_version) or ssl.TLSVersion.TLSv1_2
    if ssl_maximum_version is not None:
        context.maximum_version = _version(ssl_maximum_version)
    if ciphers:
        context.set_ciphers(ciphers)
    context.options |= ssl.OP_NO_COMPRESSION
    context.options |= ssl.OP_NO_TICKET if options is None else options
    if verify_flags is not None:
        context.verify_flags |= verify_flags
    cert_reqs = ssl.CERT_REQUIRED if cert_reqs is None else cert_reqs
    context.check_hostname = cert_reqs == ssl.CERT_REQUIRED
    context.verify_mode = ssl.VerifyMode(cert_reqs)
    context.hostname_checks_common_name = False
    context.post_handshake_auth = True
    return context


def _version(version: int | None) -> Any:
    return None if version is None else ssl.TLSVersion(version)


def resolve_cert_reqs(candidate: int | str | None) -> Any:
    """Return ssl's constant for a name such as "CERT_NONE"; CERT_REQUIRED for None."""
    if candidate is None:
        return ssl.CERT_REQUIRED
    return _constant("CERT_", candidate)


def resolve_ssl_version(candidate: int | str | None) -> Any:
    """Return ssl's constant for a name such as "TLSv1_2"; PROTOCOL_TLS for None."""
    if candidate is None:
        return ssl.PROTOCOL_TLS
    return _constant("PROTOCOL_", candidate)


def _constant(prefix: str, candidate: int | str) -> Any:
    if not isinstance(candidate, str):
        return candidate
    found = getattr(ssl, candidate, None)
    return getattr(ssl, prefix + candidate) if found is None else found


def is_ipaddress(hostname: str | bytes) -> bool:
    """Tell whether a host is an IP address, with or without a zone."""
    text = hostname.decode("ascii") if isinstance(hostname, bytes) else hostname
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def assert_fingerprint(cert: bytes | None, fingerprint: str) -> None:
    """Check the digest of a certificate.

    Args:
        cert: in DER.
        fingerprint: MD5, SHA-1 or SHA-256 in hexadecimal, with or without colons.

    Raises:
        SSLError: it is another.
    """
    if cert is None:
        raise SSLError("No certificate for the peer.")
    expected = fingerprint.replace(":", "").lower()
    algorithm = _HASHES.get(len(expected))
    if algorithm is None:
        raise SSLError(f"Fingerprint of invalid length: {fingerprint}")
    digest = algorithm(cert).hexdigest()
    if digest != expected:
        raise SSLError(f'Fingerprints did not match. Expected "{fingerprint}", got "{digest}"')
