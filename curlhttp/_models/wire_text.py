"""What went over the wire, as text for a log: one line each, printable, without credentials."""

from __future__ import annotations

import re
from collections.abc import Collection

from curlhttp._models.scrub import scrub_field, scrub_text, shown_url

__all__ = ["HeadText", "head_line", "note_line", "printable"]

_REQUEST_LINE = re.compile(r"([^\s:]+) (\S+) (HTTP/\S+)").fullmatch
_USERINFO = re.compile(r"//[^/?#]*@")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+")
_USER = re.compile(r"\b(user(?:name)?) '.*'", re.DOTALL)  # "Proxy auth using Basic with user 'bob'"
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


def printable(raw: bytes) -> str:
    r"""Return bytes as ASCII; what a terminal would obey is written as \xNN."""
    return raw.decode("ascii", "backslashreplace").translate(_CONTROLS)


def head_line(raw: bytes, sensitive: Collection[str]) -> str:
    """Return a line of a head as it was on the wire, its secrets masked.

    Args:
        raw: the line, without its end.
        sensitive: lower-case names of further fields whose values nobody shows.
    """
    line = printable(raw)
    found = _REQUEST_LINE(line)
    if found is not None:
        method, target, version = found.groups()
        return f"{method} {_scrubbed(target)} {version}"
    name, colon, value = line.partition(":")
    # A line that goes on with the field before it begins with a blank (RFC 9112, section 5.2).
    if not colon or line.startswith(("HTTP/", " ")) or raw[:1] == b"\t":
        return _scrubbed(line)
    bare = value.strip(" ")
    shown = "[secret]" if name.strip().lower() in sensitive else scrub_field(name, bare)
    return f"{name}:{value if shown == bare else f' {shown}'}"


def _scrubbed(text: str) -> str:
    return scrub_text(_USERINFO.sub("//***@", text))


class HeadText:
    """Shows the lines of one head after the other: a secret may go on in a further line.

    Args:
        sensitive: lower-case names of further fields whose values nobody shows.
    """

    def __init__(self, sensitive: Collection[str]) -> None:
        self._sensitive = sensitive
        self._is_secret = False

    def line(self, raw: bytes) -> str:
        """Return the next line, which may fold the one before it (RFC 9112, section 5.2)."""
        if raw[:1] in (b" ", b"\t") and self._is_secret:
            return " [secret]"
        shown = head_line(raw, self._sensitive)
        self._is_secret = shown.endswith("[secret]")
        return shown


def note_line(raw: bytes) -> str:
    """Return a line of libcurl's log without user names and the secrets of URLs."""
    line = printable(raw.rstrip())
    if "://" in line:
        line = scrub_text(_URL.sub(lambda found: shown_url(found[0]), line))
    return _USER.sub(r"\1 '***'", line)
