"""Translate an `ssl.SSLContext` into TLS settings for libcurl.

A context does not reveal the client certificate that was loaded into it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    from typing_extensions import TypedDict

    from curlhttp._http.config import Verify

    class TLSArguments(TypedDict, total=False):
        """Arguments of TLS."""

        verify: Verify
        check_hostname: bool
        versions: tuple[str | None, str | None]
        ciphers: str


def get_tls_arguments(context: ssl.SSLContext) -> TLSArguments:
    """Return the arguments of TLS that correspond to a context.

    The CA certificates that the context has loaded are copied. Those in a folder cannot be seen,
    because OpenSSL reads them only when it checks a certificate. Callbacks, the key log and other
    flags of the context have no counterpart.

    Raises:
        ValueError: the context checks revocation lists, which libcurl would not check, or it
            trusts only certificates that cannot be read from it.
    """
    import ssl

    if context.verify_flags & ssl.VERIFY_CRL_CHECK_CHAIN:
        raise ValueError(
            "the SSLContext checks revocation lists (VERIFY_CRL_CHECK_*), which libcurl does "
            "not support"
        )
    found: TLSArguments = {}
    if context.verify_mode == ssl.CERT_NONE:
        found["verify"] = False
    else:
        own = context.get_ca_certs(binary_form=True)
        if own:
            found["verify"] = "".join(map(ssl.DER_cert_to_PEM_cert, own)).encode()
        elif context.cert_store_stats()["x509"]:
            # Trusting the machine's CA certificates instead would trust more servers.
            raise ValueError(
                "the SSLContext trusts certificates that are not CAs (CA:FALSE), and curlhttp "
                "cannot read these from it: pass the path of their file as verify="
            )
    if not context.check_hostname:
        found["check_hostname"] = False
    lowest = to_tls_version(context.minimum_version)
    highest = to_tls_version(context.maximum_version)
    if lowest or highest:
        found["versions"] = (lowest, highest)
    names = _get_ciphers(context)
    if names != _get_default_ciphers():
        found["ciphers"] = ":".join(names)
    return found


@lru_cache(maxsize=1)
def _get_default_ciphers() -> list[str]:
    import ssl

    return _get_ciphers(ssl.create_default_context())


def _get_ciphers(context: ssl.SSLContext) -> list[str]:
    """Return the names of a context's ciphers, except for TLS 1.3, which has a fixed list."""
    return [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"]


def to_tls_version(value: object) -> str | None:
    """Return "1.2" for ssl.TLSVersion.TLSv1_2, ssl.PROTOCOL_TLSv1_2 or "TLSv1.2"; else None."""
    name = str(getattr(value, "name", value or "")).upper().replace("_", ".")
    _, found, number = name.rpartition("TLSV")
    if not found:
        return None
    return number if "." in number else f"{number}.0"


def find_system_authorities() -> str | None:
    """Return the path of the CA certificates that the machine trusts.

    It looks in the default paths of this OpenSSL, and in those of Linux distributions.

    Returns:
        A PEM file, a folder of hashed certificates, or None if there is neither: on macOS and
        Windows the CA certificates are not files.
    """
    import os
    import ssl

    paths = ssl.get_default_verify_paths()
    # Not cafile and capath, which the variables SSL_CERT_FILE and SSL_CERT_DIR change.
    for file in (paths.openssl_cafile, *_BUNDLES):
        if os.path.isfile(file):
            return file
    folder = paths.openssl_capath
    return folder if os.path.isdir(folder) and os.listdir(folder) else None


# The paths of distributions, for a Python with its own OpenSSL.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Alpine, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
)
