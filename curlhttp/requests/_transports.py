"""From requests' settings (verify, cert, proxy, a pool's keywords) to the core's Transport.

What urllib3 can do to a connection and libcurl cannot is an error here, not silently dropped; but
a client certificate that was loaded into an ssl_context cannot be seen.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from curlhttp._config import TLS, Proxy, Transport, transport_for
from curlhttp._ssl_context import tls_version, trust_of
from curlhttp.exceptions import InvalidProxyURL

if TYPE_CHECKING:
    from curlhttp._config import HTTP2, Verify
    from curlhttp.requests import _types as t

__all__ = ["ca_paths", "ip_version", "proxy_url", "transport_from"]

# Keywords of urllib3's pools that say nothing about how a connection is made.
_NOT_OF_THE_CONNECTION = frozenset(
    {"block", "maxsize", "num_pools", "retries", "timeout", "headers", "strict", "blocksize",
     "key_file", "key_password", "cert_file", "cert_reqs", "ca_certs", "ca_cert_dir",
     "ca_cert_data", "assert_hostname", "ssl_context", "ssl_version", "ssl_minimum_version",
     "ssl_maximum_version", "source_address", "socket_options", "scheme", "host", "port"}
)  # fmt: skip


def proxy_url(url: str) -> str:
    """Return a proxy's URL with a scheme and a host.

    Raises:
        InvalidProxyURL: it has none.
    """
    text = url if "://" in url else f"http://{url}"
    host = text.partition("://")[2].partition("/")[0].rpartition("@")[2]
    if not host or host.startswith(":") or host.endswith(":"):
        raise InvalidProxyURL(
            "Please check proxy URL. It is malformed and could be missing the host."
        )
    return text


def ip_version() -> Literal[4, 6] | None:
    """Return 4 when the program has switched IPv6 off in urllib3, as many do, else None."""
    module = sys.modules.get(_URLLIB3)
    if module is None:
        return None
    if not getattr(module, "HAS_IPV6", True):
        return 4
    family = getattr(module, "allowed_gai_family", None)
    # Only one that was put there by the program says something.
    if family is not None and getattr(family, "__module__", _URLLIB3) != _URLLIB3:
        return _VERSIONS.get(int(family()))
    return None


_URLLIB3 = "urllib3.util.connection"
_VERSIONS: dict[int, Literal[4, 6]] = {2: 4, 10: 6, 30: 6, 23: 6}  # by address family


def transport_from(
    proxy: str | None, *, verify: t.VerifyInput, cert: t.CertInput, http2: HTTP2 = False, **kw: Any
) -> Transport:
    """Return the Transport for requests' settings and a pool's keywords.

    Raises:
        ValueError: libcurl has nothing for one of the keywords.
    """
    kw = {name: value for name, value in kw.items() if value is not None}
    unknown = kw.keys() - _NOT_OF_THE_CONNECTION
    if unknown:
        raise ValueError(
            f"libcurl cannot do what these settings of the pool ask for: {', '.join(unknown)}"
        )
    version = ip_version()
    if not version and kw.keys() <= {"maxsize", "block", "timeout", "headers", "retries"}:
        # Any path can be hashed, and a list of files is none here.
        return transport_for(verify, cert, proxy, http2, False)  # type: ignore[arg-type]
    found = _tls(verify, cert, kw)
    address = kw.get("source_address")
    options = kw.get("socket_options") or ()
    return _made(
        TLS(**found),
        proxy,
        http2,
        (str(address[0]), int(address[1])) if address else None,
        tuple(map(tuple, options)),
        version,
    )


@lru_cache(maxsize=256)
def _made(
    tls: TLS,
    proxy: str | None,
    http2: HTTP2,
    address: tuple[str, int] | None,
    options: tuple[tuple[int, int, int | bytes], ...],
    version: Literal[4, 6] | None,
) -> Transport:
    return Transport(
        tls=tls,
        proxy=Proxy.parse(proxy) if proxy else None,
        http2=http2,
        local_address=address,
        socket_options=options,
        ip_version=version,
    )


def _tls(verify: t.VerifyInput, cert: t.CertInput, kw: t.PoolKeywords) -> t.PoolKeywords:
    found: t.PoolKeywords = {"verify": verify, "cert": cert}
    if kw.get("cert_file") and cert is None:
        found["cert"] = (kw["cert_file"], kw.get("key_file") or kw["cert_file"])
    context = kw.get("ssl_context")
    if context is not None:
        of_context = trust_of(context)
        if verify is not True:
            of_context.pop("verify", None)
        found |= of_context
    if kw.get("ca_certs") and verify is True:
        found["verify"] = kw["ca_certs"]
    if kw.get("ca_cert_data") and verify is True:
        data = kw["ca_cert_data"]
        found["verify"] = data.encode() if isinstance(data, str) else data
    if kw.get("cert_reqs") in ("CERT_NONE", "NONE", 0) and kw.get("ca_certs") is None:
        found["verify"] = False if context is None else found["verify"]
    lowest = tls_version(kw.get("ssl_minimum_version") or kw.get("ssl_version"))
    highest = tls_version(kw.get("ssl_maximum_version") or kw.get("ssl_version"))
    if lowest or highest:
        found["versions"] = (lowest, highest)
    wanted = kw.get("assert_hostname")
    if wanted is False:
        found["check_hostname"] = False
    return found


def ca_paths(verify: Verify) -> tuple[str | None, str | None]:
    """Return the file and the folder of authorities that verify= stands for.

    Raises:
        OSError: there is neither at that path.
    """
    if verify is True:
        import certifi

        return certifi.where(), None
    path = os.fspath(cast("str", verify))
    if not os.path.exists(path):
        raise OSError(f"Could not find a suitable TLS CA certificate bundle, invalid path: {path}")
    return (None, path) if os.path.isdir(path) else (path, None)
