"""Drive libcurl through pycurl: handles, transfers, connections, and the engines that use them.

This module loads pycurl first. It also returns the version of libcurl, and warns if it is unsafe.
"""

from __future__ import annotations

import re
import sys
import warnings
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

_EXTENSION = "pycurl._pycurl"


def _load_pycurl() -> ModuleType:
    """Return pycurl without its AsyncCurlMulti.

    The package imports that class with dataclasses and inspect, which takes longer than all of this
    library. The extension has everything else, and the package uses the same one if a program
    imports it later.
    """
    # On Windows, the package says where the DLLs of its wheel are.
    is_whole = sys.platform == "win32" or "pycurl" in sys.modules
    package = None if is_whole else PathFinder.find_spec("pycurl")
    folders = None if package is None else package.submodule_search_locations
    spec = None if folders is None else PathFinder.find_spec(_EXTENSION, folders)
    if spec is None or spec.loader is None:  # loaded already, or installed in another way
        return import_module("pycurl")
    found = sys.modules[_EXTENSION] = module_from_spec(spec)
    try:
        spec.loader.exec_module(found)
    except BaseException:
        del sys.modules[_EXTENSION]
        raise
    return found


try:
    if TYPE_CHECKING:
        import pycurl
    else:
        pycurl = _load_pycurl()
except ImportError as error:
    if "subinterpreters" not in str(error):
        raise
    raise ImportError(
        "curlhttp runs only in the main interpreter: pycurl cannot be loaded by isolated "
        "subinterpreters (PEP 684). Use threads, or processes.",
        name="pycurl",
    ) from error

__all__ = [
    "USES_SCHANNEL",
    "check_libcurl",
    "check_pycurl",
    "has_http3",
    "has_negotiate",
    "has_unix_sockets",
    "libcurl_version",
    "pycurl",
]

_LEAST_PYCURL = (7, 47)  # as in pyproject.toml
_LEAST_LIBCURL = (7, 80)  # has CURLOPT_PREREQFUNCTION, without which a POST might go out twice
_SAFE = (8, 23, 0)
_UNIX_SOCKETS = 1 << 19  # CURL_VERSION_UNIX_SOCKETS


def check_pycurl(version: str = pycurl.version) -> None:
    """Check that pycurl has what this package uses, before anything else of it is looked up.

    Args:
        version: as pycurl reports it, for example 'PycURL/"7.49.0" libcurl/8.23.0 OpenSSL/3.6.5'.

    Raises:
        ImportError: pycurl or its libcurl is too old.
    """
    found = re.match(r'PycURL/"?([\d.]+)\S* libcurl/([\d.]+)', version)
    if found is None:
        return  # a version between releases
    for name, number, least, advice in (
        ("pycurl", found[1], _LEAST_PYCURL, "pip install --upgrade pycurl"),
        (
            "libcurl",
            found[2],
            _LEAST_LIBCURL,
            "install a wheel of pycurl, which contains it (pip install --upgrade --force-reinstall "
            "--only-binary pycurl pycurl), or build pycurl against a newer libcurl",
        ),
    ):
        if tuple(map(int, number.strip(".").split("."))) < least:
            needed = ".".join(map(str, least))
            raise ImportError(
                f"curlhttp needs {name} {needed} or newer, and {pycurl.__file__} has {number}: "
                f"{advice}",
                name="pycurl",
            )


check_pycurl()


def check_libcurl(version: str = pycurl.version_info()[1]) -> None:
    """Warn if libcurl has known vulnerabilities.

    Args:
        version: as libcurl reports it, for example "8.23.0".
    """
    numbers = tuple(int(part) for part in version.partition("-")[0].split("."))
    if numbers < _SAFE:
        warnings.warn(
            f"libcurl {version} is older than 8.23.0: its known vulnerabilities leak credentials "
            "and TLS state from one request to another (see curl's advisories of 2026). "
            "Install a newer pycurl wheel, or build pycurl against a newer libcurl.",
            RuntimeWarning,
            stacklevel=3,
        )


def libcurl_version() -> str:
    """Return the versions of libcurl and of what it was built with."""
    return str(pycurl.version)


def _uses_schannel() -> bool:
    """Return whether TLS is Windows' own; other libraries in the wheel are in parentheses."""
    return "Schannel" in (pycurl.version_info()[5] or "").split()


USES_SCHANNEL = _uses_schannel()


def knows_tls_1_3() -> bool:
    """Return whether the TLS library has TLS 1.3: Schannel from Windows Server 2022 on, and 11."""
    get_windows: Any = getattr(sys, "getwindowsversion", None)
    return not USES_SCHANNEL or get_windows().build >= 20348


def has_unix_sockets() -> bool:
    """Return whether libcurl was built with Unix sockets."""
    return bool(pycurl.version_info()[4] & _UNIX_SOCKETS)


def has_http3() -> bool:
    """Return whether libcurl was built with HTTP/3."""
    return bool(pycurl.version_info()[4] & pycurl.VERSION_HTTP3)


def has_negotiate() -> bool:
    """Return whether libcurl was built with GSSAPI, or with SSPI on Windows."""
    return bool(pycurl.version_info()[4] & (pycurl.VERSION_GSSAPI | pycurl.VERSION_SPNEGO))
