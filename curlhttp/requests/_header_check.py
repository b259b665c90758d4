"""Which headers may go into a request; the good ones are remembered, for most come again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from curlhttp.exceptions import InvalidHeader

__all__ = ["are_known", "check_header"]

_MOST_CHECKED = 1024  # headers that are remembered as good
_LONGEST_CHECKED = 512  # characters of such a header
_checked: set[tuple[str, str | bytes]] = set()


def are_known(headers: Iterable[tuple[str, object]]) -> bool:
    """Return whether all headers have been found good; False may only mean that nobody knows."""
    try:
        return _checked.issuperset(headers)
    except TypeError:  # a value that cannot be hashed is no good one
        return False


def check_header(name: Any, value: Any) -> None:
    """Check a header.

    Raises:
        InvalidHeader: name or value is not str or bytes, or would break the message.
    """
    if type(name) is str and isinstance(value, (str, bytes)) and (name, value) in _checked:
        return
    from curlhttp.requests._header_values import check_header_validity

    check_header_validity((name, value))
    # The one control character that requests lets pass and that means an end to C code.
    if any(("\0" if isinstance(text, str) else b"\0") in text for text in (name, value)):
        raise InvalidHeader(f"A header must not contain NUL: {name!r}")
    if type(name) is str and len(name) + len(value) <= _LONGEST_CHECKED:
        if len(_checked) >= _MOST_CHECKED:
            _checked.clear()
        _checked.add((name, value))
