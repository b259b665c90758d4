"""requests.packages: urllib3, idna and chardet under requests' own names.

Each is loaded when it, or one of its modules, is first imported or accessed as an attribute.
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import TYPE_CHECKING, Any

from curlhttp import exceptions
from curlhttp.requests._alias import add_alias

if TYPE_CHECKING:
    chardet: Any
    idna: Any
    urllib3: Any

__all__ = ["chardet", "idna", "urllib3"]

_CANDIDATES = {
    "urllib3": ("urllib3",),
    "idna": ("idna",),
    "chardet": ("chardet", "charset_normalizer"),
}


def _find_package(name: str) -> str | None:
    """Return the name of the real package for one of ours, or None."""
    for candidate in _CANDIDATES[name]:
        try:
            importlib.import_module(candidate)
        except ImportError:
            continue
        if candidate == "urllib3":
            _patch_bases()
        return candidate
    return None


def _patch_bases() -> None:
    """Make ContentDecodingError one of urllib3's errors, as it is in requests."""
    from urllib3.exceptions import HTTPError

    exceptions.ContentDecodingError.__bases__ = (exceptions.RequestException, HTTPError)


for _name in _CANDIDATES:
    add_alias(f"{__name__}.{_name}", partial(_find_package, _name))


def __getattr__(name: str) -> Any:
    if name not in _CANDIDATES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError:
        if name == "chardet":
            return None  # as in requests if neither is installed
        raise
