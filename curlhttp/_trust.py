"""From verify=, cert= and pins= to what TLS takes: whom to trust, and with which keys."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from curlhttp._config import TLS, Cert, Verify
from curlhttp._models.url import parse_url
from curlhttp.exceptions import RequestException

if TYPE_CHECKING:
    import ssl

    from curlhttp._models.url import URL

__all__ = ["Pins", "VerifyInput", "joined_pins", "pinned_host", "tls_of"]

VerifyInput: TypeAlias = "Verify | ssl.SSLContext"
Pins: TypeAlias = "Mapping[str, str | Sequence[str]] | None"

_SHA256 = "sha256//"
_HASH_SIZE = 32  # bytes
_HTTPS = 443


def tls_of(verify: VerifyInput, cert: Cert) -> TLS:
    """Return the TLS of verify= and cert=.

    Args:
        verify: see TLS; "system" for the machine's authorities; or an ssl.SSLContext.
        cert: see TLS.

    Raises:
        OSError: a file is not there, or the machine has no authorities.
        ValueError: what is given is none, or libcurl cannot do what the context asks for.
    """
    if isinstance(verify, str) and verify == "system":
        return TLS(verify=_of_system(), cert=cert)
    # No isinstance: most programs never load ssl.
    if hasattr(verify, "get_ca_certs"):
        from curlhttp._ssl_context import trust_of

        found = trust_of(cast("ssl.SSLContext", verify))
        # It has some, which it does not show: those of the machine, as a rule.
        if "verify" not in found:
            found["verify"] = _of_system()
        return TLS(cert=cert, **found)
    return TLS(verify=verify, cert=cert)


def _of_system() -> str:
    from curlhttp._ssl_context import system_authorities

    if sys.platform in ("darwin", "win32"):  # they are no files there
        return "system"
    found = system_authorities()
    if found is None:
        raise OSError(
            "this machine has no authorities where OpenSSL looks for them: install them (often a "
            "package named ca-certificates), or pass verify= the path of a file or a folder"
        )
    return found


def joined_pins(pins: Pins) -> dict[str, str]:
    """Return what CURLOPT_PINNEDPUBLICKEY takes, by canonical host.

    Args:
        pins: one or several of "sha256//" and the hash of a public key in base64, by host.

    Raises:
        TypeError: it is no mapping.
        ValueError: a host or a pin is none.
    """
    if pins is not None and not isinstance(pins, Mapping):
        raise TypeError(f"pins must be a mapping by host, not {type(pins).__name__}")
    found = {}
    for host, given in (pins or {}).items():
        each = [given] if isinstance(given, str) else list(given)
        if not each:
            raise ValueError(f"pins has none for {host!r}: leave the host out")
        for pin in each:
            _check(pin)
        found[_host(host)] = ";".join(each)
    return found


def _check(pin: str) -> None:
    try:
        digest = base64.b64decode(pin.removeprefix(_SHA256), validate=True)
    except (ValueError, AttributeError):
        digest = b""
    if len(digest) != _HASH_SIZE or not pin.startswith(_SHA256):
        raise ValueError(
            f"a pin is {_SHA256!r} and the base64 of a SHA-256 of a public key (44 characters), "
            f"not {pin!r}"
        )


def _host(host: str) -> str:
    url: URL | None
    try:
        url = parse_url(f"https://{host}")
    except RequestException:
        url = None
    if url is None or url.port != _HTTPS or set(host) & set("/?#@\\"):
        raise ValueError(f"pins goes by host names, without a port, not {host!r}")
    return pinned_host(url)


def pinned_host(url: URL) -> str:
    """Return the name that pins go by: that of the certificate, without a dot at its end."""
    return url.host.rstrip(".")
