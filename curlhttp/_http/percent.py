"""Percent-encoding by urllib.parse, which is loaded for the first text that needs it.

It loads ipaddress as well, and most URLs need neither.
"""

from __future__ import annotations


def quote(text: str | bytes, *, safe: str = "/", errors: str = "strict") -> str:
    """Encode a text, except for letters, digits, "_.-~" and the safe characters."""
    if not text:
        return ""
    from urllib import parse

    octets = text.encode("utf-8", errors) if isinstance(text, str) else text
    return parse.quote_from_bytes(octets, safe)


def quote_form(text: str | bytes) -> str:
    """Encode a name or a value of a form, in which a blank is "+"."""
    from urllib import parse

    return parse.quote_plus(text)


def unquote(text: str, *, errors: str = "replace") -> str:
    """Decode the escapes of a text."""
    if "%" not in text:
        return text
    from urllib import parse

    return parse.unquote(text, errors=errors)
