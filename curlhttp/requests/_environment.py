"""Check quickly whether environment variables may affect a request: every request does this.

`utils` reads the variables, which is slow, only if there are some.
"""

from __future__ import annotations

import os
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

from curlhttp._http.config import CA_VARIABLES

if TYPE_CHECKING:
    from curlhttp.requests._types import UrlInput

_SCHEMES = ("all_proxy", "http_proxy", "https_proxy")
_BUNDLES = CA_VARIABLES[:2]  # those that requests reads
_ABSENCE_TTL = 1.0  # seconds to remember that there is no netrc file

# The dict inside os.environ, because os.environ encodes each name, at 0.7 µs each.
_environ = os.environ
_variables: Any = getattr(_environ, "_data", None)
_encode: Any = getattr(_environ, "encodekey", None)
_decode: Any = getattr(_environ, "decodevalue", None)
if _variables is None or _encode is None or _decode is None:  # not CPython's
    _variables, _encode, _decode = _environ, str, str
_proxies = frozenset(map(_encode, (*_SCHEMES, *map(str.upper, _SCHEMES))))
_bundles = tuple(map(_encode, _BUNDLES))
_proxies_and_bundles = _proxies.union(_bundles)
_netrc, _home = _encode("NETRC"), _encode("HOME")
_all = _proxies_and_bundles | {_netrc}
_has_system_proxies = sys.platform in ("darwin", "win32")
_absent: tuple[Any, float] = (None, 0.0)
_plain_http_verify: tuple[str, str | bool] = ("", True)  # for the last path; asked for once


def _read_replacement() -> Any:
    """Return the variables by encoded name, for a test that has replaced os.environ with a dict."""
    return {_encode(name): value for name, value in os.environ.items()}


def has_settings() -> bool:
    """Return whether a proxy or CA certificates may be set."""
    variables = _variables if os.environ is _environ else _read_replacement()
    return _has_system_proxies or not variables.keys().isdisjoint(_proxies_and_bundles)


def may_matter() -> bool:
    """Return whether a proxy, CA certificates or credentials of netrc may be set."""
    variables = _variables if os.environ is _environ else _read_replacement()
    if _has_system_proxies or not variables.keys().isdisjoint(_all):
        return True
    home, until = _absent
    return (monotonic() >= until or home != variables.get(_home)) and _may_have_netrc()


def may_have_proxies() -> bool:
    """Return whether a proxy may be set."""
    variables = _variables if os.environ is _environ else _read_replacement()
    return _has_system_proxies or not variables.keys().isdisjoint(_proxies)


def get_ca_bundle() -> str | None:
    """Return the path of the CA certificates that the environment names, or None."""
    variables = _variables if os.environ is _environ else _read_replacement()
    for name in _bundles:
        if value := variables.get(name):
            return str(value if isinstance(value, str) else _decode(value))
    return None


def get_plain_http_verify() -> str | bool:
    """Return verify for a plain HTTP request: the environment's CA certificates, if they exist."""
    global _plain_http_verify
    path = get_ca_bundle()
    if path is None:
        return True
    last, verify = _plain_http_verify
    if path != last:
        verify = path if os.path.exists(path) else True
        _plain_http_verify = path, verify
    return verify


def get_netrc_auth(url: UrlInput | None, raise_errors: bool = False) -> tuple[str, str] | None:
    """Return the user name and password in netrc for a URL's host, or None; see utils."""
    if not _may_have_netrc():
        return None
    from curlhttp.requests.utils import get_netrc_auth

    return get_netrc_auth(str(url), raise_errors)


def _may_have_netrc() -> bool:
    """Return whether there may be a netrc file."""
    global _absent
    variables = _variables if os.environ is _environ else _read_replacement()
    if _netrc in variables:
        return True
    home, until = _absent
    now = monotonic()
    if now < until and home == variables.get(_home):
        return False
    for name in ("~/.netrc", "~/_netrc"):
        if os.path.exists(os.path.expanduser(name)):
            return True
    _absent = (variables.get(_home), now + _ABSENCE_TTL)
    return False
