"""The path and query of a URL in canonical form: dot segments gone, escapes normal, ASCII.

Text only: nothing here knows hosts, or takes a path or a query out of a URL.
"""

from __future__ import annotations

from urllib.parse import quote

__all__ = ["PATH_SAFE", "QUERY_SAFE", "build_target", "quoted"]

PATH_SAFE = "!$&'()*+,;=:@/%"  # RFC 3986, section 3.3; letters, digits and "_.-~" always are
QUERY_SAFE = PATH_SAFE + "?"


def build_target(path: str, query: str | None) -> str:
    """Return "/path?query" without dot segments, percent-encoded.

    Raises:
        UnicodeEncodeError: a lone surrogate, which UTF-8 cannot express.
    """
    if "/." in path:
        path = _without_dot_segments(path)
    path = quoted(path, PATH_SAFE) or "/"
    return f"{path}?{quoted(query, QUERY_SAFE)}" if query else path


def _without_dot_segments(path: str) -> str:
    """Return the path after RFC 3986, section 5.2.4; "%2e" counts as a plain name."""
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def quoted(text: str, safe: str) -> str:
    """Return text percent-encoded but for its escapes and the safe characters."""
    return quote(_normal_escapes(text) if "%" in text else text, safe=safe)


def _normal_escapes(text: str) -> str:
    """Return text with its escapes normal, or, as requests has it, all literal if one is bad."""
    head, *tails = text.split("%")
    try:
        return head + "".join([_ESCAPES[tail[:2]] + tail[2:] for tail in tails])
    except KeyError:
        return text.replace("%", "%25")


def _normal_escape(digits: str) -> str:
    char = chr(int(digits, 16))
    if char == ".":
        return f"%{digits}"  # decoded, "%2e%2e" would climb directories
    if char.isascii() and (char.isalnum() or char in "-_~"):
        return char
    return f"%{digits.upper()}"


_HEX = "0123456789abcdefABCDEF"
_ESCAPES = {high + low: _normal_escape(high + low) for high in _HEX for low in _HEX}
