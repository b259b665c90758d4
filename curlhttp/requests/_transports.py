"""From requests' settings (verify, cert, proxy) to the core's."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal, cast

from curlhttp.exceptions import InvalidProxyURL

if TYPE_CHECKING:
    from curlhttp.requests import _types as t

__all__ = ["ca_paths", "ip_version", "proxy_url"]


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


def ca_paths(verify: t.VerifyInput) -> tuple[str | None, str | None]:
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
