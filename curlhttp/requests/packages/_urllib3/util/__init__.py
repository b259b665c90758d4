"""urllib3.util: Retry, Timeout, Url and what goes with them, loaded when first used."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = [
    "ALPN_PROTOCOLS",
    "IS_PYOPENSSL",
    "SKIPPABLE_HEADERS",
    "SKIP_HEADER",
    "Retry",
    "SSLContext",
    "Timeout",
    "Url",
    "assert_fingerprint",
    "create_urllib3_context",
    "is_fp_closed",
    "make_headers",
    "parse_url",
    "resolve_cert_reqs",
    "resolve_ssl_version",
]

_HOMES = {
    "request": "SKIPPABLE_HEADERS SKIP_HEADER make_headers",
    "response": "is_fp_closed",
    "retry": "Retry",
    "ssl_": (
        "ALPN_PROTOCOLS IS_PYOPENSSL SSLContext assert_fingerprint create_urllib3_context "
        "resolve_cert_reqs resolve_ssl_version"
    ),
    "timeout": "Timeout",
    "url": "Url parse_url",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
_SUBMODULES = frozenset({*_HOMES, "connection"})


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return value
