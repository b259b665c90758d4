"""URLs as people type them: without a scheme."""

from __future__ import annotations

import re
from ipaddress import ip_address

__all__ = ["completed", "is_like_url"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://").match
_HOST = re.compile(
    r"(?:[^/?#@]*@)?(?P<host>\[[^]]*\]|[^:/?#]*)(?::(?P<port>\d+))?(?=[/?#]|$)"
).match
_HTTPS_PORT = "443"


def completed(url: str, *, secure: str = "https", plain: str = "http") -> str:
    """Return a URL with a scheme: its own, else `plain` for local hosts, else `secure`.

    Local are loopback and private addresses, names without a dot, and those below localhost and
    local, unless the port is 443. ":8000/x" is at localhost.

    Args:
        url: as it was typed.
        secure: the scheme of hosts that are not local.
        plain: that of the others.
    """
    if not url or _SCHEME(url):
        return url
    if url.startswith(":") and url[1:2].isdigit():
        url = f"localhost{url}"
    url = url.removeprefix("//")
    found = _HOST(url)
    is_plain = found is not None and found["port"] != _HTTPS_PORT and _is_local(found["host"])
    return f"{plain if is_plain else secure}://{url}"


def is_like_url(text: str) -> bool:
    """Return whether a first argument is rather a URL than the name of a command."""
    return text == "localhost" or any(mark in text for mark in ".:/")


def _is_local(host: str) -> bool:
    host = host.strip("[]").lower().rstrip(".")
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith((".localhost", ".local"))
