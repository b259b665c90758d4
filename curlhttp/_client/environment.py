"""Settings from the environment: proxies, CA bundle, netrc. Explicit settings take precedence.

A client reads the variables when it is created; netrc files are cached by modification time and
size. On Linux, urllib.request is never imported, because it is slow to load.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from curlhttp._http.config import CA_VARIABLES

if TYPE_CHECKING:
    from netrc import netrc

    from curlhttp._http.config import Proxy
    from curlhttp._http.url import URL

    _P = TypeVar("_P", bound=str | Proxy)

_HAS_SYSTEM_PROXIES = sys.platform in ("darwin", "win32")
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
_VARIABLES = (
    *_PROXY_VARIABLES,
    *map(str.upper, _PROXY_VARIABLES),
    "REQUEST_METHOD",
    *CA_VARIABLES,
    "NETRC",
    "HOME",
)


def read_environment() -> dict[str, str]:
    """Return the environment variables that this module uses."""
    get = os.environ.get
    return {name: value for name in _VARIABLES if (value := get(name)) is not None}


# --- proxies ---


def has_proxies(environ: Mapping[str, str]) -> bool:
    """Return whether find_proxy() could return a proxy."""
    schemes = ("http", "https")
    return _HAS_SYSTEM_PROXIES or any(_get_proxy_variable(scheme, environ) for scheme in schemes)


def find_proxy(url: URL, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the proxy URL that the environment names for a URL, None for a direct connection.

    Lower-case variables take precedence over upper-case ones, and that of the scheme over
    all_proxy. A CGI process ignores HTTP_PROXY, because it holds the client's "Proxy:" header.

    Args:
        url: of the request.
        environ: the environment; that of the process by default.
    """
    if environ is None:
        environ = os.environ
    proxy = _get_proxy_variable(url.scheme, environ)
    if not proxy:
        return _find_system_proxy(url) if _HAS_SYSTEM_PROXIES else None
    if bypasses_proxy(url, _get_either_case(environ, "no_proxy") or ""):
        return None
    return _add_scheme(proxy)


def find_proxies() -> dict[str, str]:
    """Return the proxies that the environment names, by scheme, whatever NO_PROXY says."""
    found = {scheme: _get_proxy_variable(scheme, os.environ) for scheme in ("http", "https")}
    return {scheme: _add_scheme(proxy) for scheme, proxy in found.items() if proxy}


def find_excluded_hosts() -> str | None:
    """Return what NO_PROXY of the process says."""
    return _get_either_case(os.environ, "no_proxy")


def _get_proxy_variable(scheme: str, environ: Mapping[str, str]) -> str | None:
    if scheme == "http" and "REQUEST_METHOD" in environ:
        proxy = environ.get("http_proxy")
    else:
        proxy = _get_either_case(environ, f"{scheme}_proxy")
    return proxy or _get_either_case(environ, "all_proxy")


def _get_either_case(environ: Mapping[str, str], name: str) -> str | None:
    """Return the lower-case variable, even if empty, otherwise the upper-case one."""
    value = environ.get(name)
    return environ.get(name.upper()) if value is None else value


def _find_system_proxy(url: URL) -> str | None:
    """Return the proxy of the settings of macOS or Windows."""
    from urllib.request import getproxies, proxy_bypass

    proxy = getproxies().get(url.scheme)
    return _add_scheme(proxy) if proxy and not proxy_bypass(url.host) else None


def _add_scheme(proxy: str) -> str:
    return proxy if "://" in proxy else f"http://{proxy}"


def select_proxy(url: URL, proxies: Mapping[str, _P | None]) -> _P | str | None:
    """Return the proxy that a `proxies=` mapping names for a URL.

    The keys are tried in the order "https://host", "https", "all://host", "all"; "no_proxy" has
    exceptions like the variable.

    Returns:
        The proxy; "" for a direct connection (a key with None or "", or an exception); None if the
        mapping has no entry, so that the environment applies.
    """
    if not proxies:
        return None
    exceptions = proxies.get("no_proxy")
    if isinstance(exceptions, str) and bypasses_proxy(url, exceptions):
        return ""
    for key in (f"{url.scheme}://{url.host}", url.scheme, f"all://{url.host}", "all"):
        if key in proxies:
            proxy = proxies[key]
            if not proxy:
                return ""
            return _add_scheme(proxy) if isinstance(proxy, str) else proxy
    return None


def bypasses_proxy(url: URL, no_proxy: str) -> bool:
    """Return whether a NO_PROXY value covers a URL.

    Args:
        url: of the request.
        no_proxy: names (including their subdomains), addresses, CIDR networks, each with an
            optional port, or "*"; separated by commas or blanks.
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
    from ipaddress import ip_address, ip_network  # slow to load

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
    """Split "host:80" and "[::1]:80"; an IPv6 address or network without brackets has no port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


# --- certificates ---


def find_ca_bundle(environ: Mapping[str, str] | None = None) -> str | None:
    """Return the path of the CA file or directories that the environment names, or None.

    The order is that of CA_VARIABLES. The path may not exist.
    """
    get = (os.environ if environ is None else environ).get
    return next(filter(None, map(get, CA_VARIABLES)), None)


# --- netrc ---


def find_netrc_credentials(
    host: str, environ: Mapping[str, str] | None = None
) -> tuple[str, str] | None:
    """Return the user name and password of the netrc file for a host, or None.

    The file is the one that NETRC names, otherwise ~/.netrc or ~/_netrc. As in requests, a default
    entry applies to all hosts. A file that cannot be read or parsed is ignored.
    """
    path = find_netrc(os.environ if environ is None else environ)
    if path is None:
        return None
    try:
        status = os.stat(path)
        entries = _parse_netrc(path, status.st_mtime_ns, status.st_size)
    except OSError:
        return None
    found = entries.authenticators(host) if entries else None
    if not found or not any(found):
        return None
    login, account, password = found
    return login or account or "", password or ""


def find_netrc(environ: Mapping[str, str]) -> str | None:
    """Return the path of the netrc file, or None; the one that NETRC names need not exist."""
    path = environ.get("NETRC")
    if path is not None:
        return os.path.expanduser(path)
    home = environ.get("HOME") or os.path.expanduser("~")
    # access() does not raise, so it takes half as long as stat() in the usual case of no file.
    for path in (f"{home}/.netrc", f"{home}/_netrc"):
        if os.access(path, os.R_OK):
            return path
    return None


@lru_cache(maxsize=8)
def _parse_netrc(path: str, mtime_ns: int, size: int) -> netrc | None:
    from netrc import NetrcParseError, netrc

    try:
        return netrc(path)
    except (NetrcParseError, UnicodeError):
        return None
