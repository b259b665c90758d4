"""A stand-in for urllib3: the names that code written for requests takes from it.

Settings, errors, Retry, Timeout, HTTPHeaderDict and a response to build in tests; connections are
libcurl's. Where urllib3 itself is installed, `requests.packages.urllib3` is that one. Names are
loaded when they are first used.
"""

from __future__ import annotations

import importlib
import logging
from typing import Any

__all__ = [
    "BaseHTTPResponse",
    "HTTPConnectionPool",
    "HTTPHeaderDict",
    "HTTPResponse",
    "HTTPSConnectionPool",
    "PoolManager",
    "ProxyManager",
    "Retry",
    "Timeout",
    "add_stderr_logger",
    "connection_from_url",
    "disable_warnings",
    "encode_multipart_formdata",
    "make_headers",
    "proxy_from_url",
]

__version__ = "2.8.0"  # whose names these are

_HOMES = {
    "_collections": "HTTPHeaderDict",
    "connectionpool": "HTTPConnectionPool HTTPSConnectionPool connection_from_url",
    "filepost": "encode_multipart_formdata",
    "poolmanager": "PoolManager ProxyManager proxy_from_url",
    "response": "BaseHTTPResponse HTTPResponse",
    "util.request": "make_headers",
    "util.retry": "Retry",
    "util.timeout": "Timeout",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
_SUBMODULES = frozenset(
    {"_collections", "connection", "connectionpool", "exceptions", "fields", "filepost",
     "poolmanager", "response", "util"}
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value


def disable_warnings(category: type[Warning] | None = None) -> None:
    """Show no warnings of a category; those of urllib3 unless told.

    Args:
        category: such as exceptions.InsecureRequestWarning.
    """
    import warnings

    from curlhttp.requests.packages._urllib3.exceptions import HTTPWarning

    warnings.simplefilter("ignore", category or HTTPWarning)


def add_stderr_logger(level: int = logging.DEBUG) -> logging.StreamHandler[Any]:
    """Write what is logged here to the standard error stream, and return the handler.

    Args:
        level: the least that is written.
    """
    logger = logging.getLogger(__name__)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)
    return handler
