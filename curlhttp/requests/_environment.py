"""Whether the environment has a say in a request, asked for each one, so it must be quick.

What it says is for utils to read; here is only whether that is worth the time.
"""

from __future__ import annotations

import os
import sys
from time import monotonic
from typing import Any

__all__ = ["ca_bundle", "may_have_netrc", "may_have_proxies", "speaks"]

_SCHEMES = ("all_proxy", "http_proxy", "https_proxy")
_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")  # the first that is there counts
_FORGETFUL = 1.0  # seconds that the absence of a netrc file is believed

# What is below os.environ, which encodes each name that it is asked for: 0.7 µs apiece.
_below: Any = getattr(os.environ, "_data", None)
_encode: Any = getattr(os.environ, "encodekey", None)
if _below is None or _encode is None:  # not CPython's
    _below, _encode = os.environ, str
_proxies = frozenset(map(_encode, (*_SCHEMES, *map(str.upper, _SCHEMES))))
_bundles = frozenset(map(_encode, _BUNDLES))
_either = _proxies | _bundles
_netrc, _home = _encode("NETRC"), _encode("HOME")
_has_system_proxies = sys.platform in ("darwin", "win32")
_absent: tuple[Any, float] = (None, 0.0)


def speaks() -> bool:
    """Tell whether a proxy or authorities may be set."""
    return _has_system_proxies or not _below.keys().isdisjoint(_either)


def may_have_proxies() -> bool:
    """Tell whether a proxy may be set."""
    return _has_system_proxies or not _below.keys().isdisjoint(_proxies)


def ca_bundle() -> str | None:
    """Return the path of the authorities that the environment names, or None."""
    if _below.keys().isdisjoint(_bundles):
        return None
    return next(filter(None, map(os.environ.get, _BUNDLES)), None)


def may_have_netrc() -> bool:
    """Tell whether there may be a netrc file."""
    global _absent
    if _netrc in _below:
        return True
    home, until = _absent
    now = monotonic()
    if now < until and home == _below.get(_home):
        return False
    for name in ("~/.netrc", "~/_netrc"):
        if os.path.exists(os.path.expanduser(name)):
            return True
    _absent = (_below.get(_home), now + _FORGETFUL)
    return False
