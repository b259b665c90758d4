"""What the process environment says: proxies, CA bundle, netrc. An explicit setting beats it.

The variables are read when a client is made; netrc files are cached by their modification time
and size. urllib.request is never imported on Linux: it is slow to load.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netrc import netrc

    from curlhttp._models.url import URL

__all__ = [
    "bypasses_proxy",
    "ca_bundle",
    "names_proxies",
    "netrc_credentials",
    "netrc_path",
    "proxy_for",
    "read_environment",
    "select_proxy",
]

_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
_HAS_SYSTEM_PROXIES = sys.platform in ("darwin", "win32")
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_VARIABLES = (
    *_PROXY_VARIABLES,
    *map(str.upper, _PROXY_VARIABLES),
    "REQUEST_METHOD",
    *_CA_VARIABLES,
    "NETRC",
    "HOME",
)


def read_environment() -> dict[str, str]:
    """Return the variables that count here, as they are now."""
    get = os.environ.get
    return {name: value for name in _VARIABLES if (value := get(name)) is not None}


# --- proxies ---


def names_proxies(environ: Mapping[str, str]) -> bool:
    """Return whether proxy_for() could name one."""
    schemes = ("http", "https")
    return _HAS_SYSTEM_PROXIES or any(_proxy_variable(scheme, environ) for scheme in schemes)


def proxy_for(url: URL, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the proxy URL that the environment names for a URL, or None to go direct.

    The lower-case variable beats the upper-case one, and the scheme's beats all_proxy. HTTP_PROXY
    is ignored in a CGI process, where it holds whatever a client sent as "Proxy:".

    Args:
        url: where the request goes.
        environ: the environment; the process's own by default.
    """
    if environ is None:
        environ = os.environ
    proxy = _proxy_variable(url.scheme, environ)
    if not proxy:
        return _system_proxy(url) if _HAS_SYSTEM_PROXIES else None
    if bypasses_proxy(url, _either_case(environ, "no_proxy") or ""):
        return None
    return _with_scheme(proxy)


def _proxy_variable(scheme: str, environ: Mapping[str, str]) -> str | None:
    if scheme == "http" and "REQUEST_METHOD" in environ:
        proxy = environ.get("http_proxy")
    else:
        proxy = _either_case(environ, f"{scheme}_proxy")
    return proxy or _either_case(environ, "all_proxy")


def _either_case(environ: Mapping[str, str], name: str) -> str | None:
    """Return the lower-case variable, even if empty, else the upper-case one."""
    value = environ.get(name)
    return environ.get(name.upper()) if value is None else value


def _system_proxy(url: URL) -> str | None:
    """Return the proxy of macOS' or Windows' settings."""
    from urllib.request import getproxies, proxy_bypass

    proxy = getproxies().get(url.scheme)
    return _with_scheme(proxy) if proxy and not proxy_bypass(url.host) else None


def _with_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"


def select_proxy(url: URL, proxies: Mapping[str, str | None]) -> str | None:
    """Return the proxy that requests' proxies= names for a URL.

    Keys are tried from "https://host" over "https" and "all://host" to "all"; "no_proxy" holds
    exceptions as the variable does.

    Returns:
        The proxy URL; "" when the mapping says to go direct (a key with None or "", or an
        exception); None when it says nothing, so that the environment may be asked.
    """
    if not proxies:
        return None
    exceptions = proxies.get("no_proxy")
    if exceptions and bypasses_proxy(url, exceptions):
        return ""
    for key in (f"{url.scheme}://{url.host}", url.scheme, f"all://{url.host}", "all"):
        if key in proxies:
            proxy = proxies[key]
            return _with_scheme(proxy) if proxy else ""
    return None


def bypasses_proxy(url: URL, no_proxy: str) -> bool:
    """Return whether a NO_PROXY value covers a URL.

    Args:
        url: where the request goes.
        no_proxy: names (with their sub-domains), addresses, CIDR networks, each perhaps with
            a port, or "*"; separated by commas or blanks.
    """
    return bool(no_proxy) and _bypasses(url.host, url.port, no_proxy)


@lru_cache(maxsize=1024)
def _bypasses(host: str, port: int, no_proxy: str) -> bool:
    host = host.strip("[]").rstrip(".")
    entries = filter(None, re.split(r"[\s,]+", no_proxy.lower()))
    return any(_covers(entry, host, port) for entry in entries)


def _covers(entry: str, host: str, port: int) -> bool:
    if entry == "*":
        return True
    name, entry_port = _split_port(entry)
    if entry_port not in ("", str(port)):
        return False
    try:
        address = ip_address(host)
    except ValueError:
        name = name.strip(".")
        return bool(name) and f".{host}".endswith(f".{name}")
    try:
        return address in ip_network(name, strict=False)
    except ValueError:
        return False


def _split_port(entry: str) -> tuple[str, str]:
    """Split "host:80" and "[::1]:80"; a bare IPv6 address or network has no port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


# --- certificates ---


def ca_bundle(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the path of the CA file or directory that the environment names, or None.

    REQUESTS_CA_BUNDLE comes first, then CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR.
    """
    get = (os.environ if environ is None else environ).get
    return next(filter(None, map(get, _CA_VARIABLES)), None)


# --- netrc ---


def netrc_credentials(
    host: str, environ: Mapping[str, str] | None = None
) -> tuple[str, str] | None:
    """Return user name and password that the netrc file has for a host, or None.

    The file is the one that NETRC names, else ~/.netrc or ~/_netrc. A default entry counts for
    every host, as in requests. A file that cannot be read or parsed is as good as none.
    """
    path = netrc_path(os.environ if environ is None else environ)
    if path is None:
        return None
    try:
        status = os.stat(path)
        entries = _parsed_netrc(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return None
    found = entries.authenticators(host) if entries else None
    if not found or not any(found):
        return None
    login, account, password = found
    return login or account or "", password or ""


def netrc_path(environ: Mapping[str, str]) -> str | None:
    """Return where the netrc file is, or None; one that NETRC names need not exist."""
    path = environ.get("NETRC")
    if path is not None:
        return os.path.expanduser(path)
    home = environ.get("HOME") or os.path.expanduser("~")
    # access() does not raise: half the price of stat() for the usual case of no file.
    for path in (f"{home}/.netrc", f"{home}/_netrc"):
        if os.access(path, os.R_OK):
            return path
    return None


@lru_cache(maxsize=8)
def _parsed_netrc(path: str, mtime_ns: int, size: int) -> netrc | None:
    from netrc import NetrcParseError, netrc

    try:
        return netrc(path)
    except (NetrcParseError, UnicodeError):
        return None
