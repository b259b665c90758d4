"""Helpers that several modules share, under requests' name for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
