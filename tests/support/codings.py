"""The modules of content codings that Python may lack."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _load_zstd() -> Any:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return import_module(name)
        except ImportError:
            continue
    return None


zstd = _load_zstd()  # None without a module
