"""Helpers that several modules share, under requests' name for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import re

    HEADER_VALIDATORS: dict[type, tuple[re.Pattern[Any], re.Pattern[Any]]]

builtin_str = str

# A name holds no colon and a value starts with no blank; neither breaks the line.
_NAME = r"[^:\s][^:\r\n]*\Z"
_VALUE = r"(?:\S[^\r\n]*)?\Z"


def __getattr__(name: str) -> Any:
    # Compiled lazily, because few programs check headers themselves.
    if name != "HEADER_VALIDATORS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import re

    validators: dict[type, Any] = {
        bytes: (re.compile(_NAME.encode()), re.compile(_VALUE.encode())),
        str: (re.compile(_NAME), re.compile(_VALUE)),
    }
    globals()[name] = validators
    return validators


def to_native_string(string: str | bytes, encoding: str = "ascii") -> str:
    """Return the text, decoded if it is bytes."""
    return string if isinstance(string, str) else string.decode(encoding)


def unicode_is_ascii(u_string: str) -> bool:
    """Return whether a text is ASCII.

    Args:
        u_string: the text; bytes raise AssertionError.
    """
    if not isinstance(u_string, str):
        raise AssertionError(f"{u_string!r} is not a str")
    return u_string.isascii()


# --- Re-export names lazily: a module's __getattr__ that looks them up in other modules ---

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
