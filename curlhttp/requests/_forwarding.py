"""Re-export names lazily: a module's `__getattr__` that looks them up in other modules."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

GetAttr: TypeAlias = Callable[[str], Any]
"""A module's __getattr__."""


def make_getattr(module: str, homes: Mapping[str, str]) -> GetAttr:
    """Return a module's __getattr__.

    Args:
        module: its name.
        homes: names, separated by blanks, by the module that defines them. "a=b" exports its name b
            as a. "packages:urllib3.util" stands for the attribute urllib3.util of packages.
    """
    found = {}
    for home, names in homes.items():
        for name in names.split():
            own, _, there = name.partition("=")
            found[own] = (home, there or own)

    def look_up(name: str) -> Any:
        if name not in found:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, there = found[name]
        package, _, below = home.partition(":")
        value: Any = importlib.import_module(f"curlhttp.requests.{package}")
        for part in filter(None, below.split(".")):
            value = getattr(value, part)
        return getattr(value, there)

    return look_up
