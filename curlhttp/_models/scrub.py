"""What may be read in a message, a repr or a log: URLs and header fields without their secrets.

All that is shown goes through here. The attributes of requests and responses keep what was sent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

if TYPE_CHECKING:
    from curlhttp._models.url.url import URL

__all__ = [
    "is_secret_header",
    "is_secret_member",
    "is_secret_parameter",
    "scrub_block",
    "scrub_field",
    "scrub_text",
    "scrub_url",
    "shown_text",
    "shown_url",
    "without_userinfo",
]

_LONGEST_SHOWN = 200  # characters of a URL in a message
_MASK = "***"

# Names of parameters that carry credentials, as they are in use with OAuth, AWS, Azure, Google.
is_secret_parameter = re.compile(
    r"(?:^|[-_.])(?:api|access|auth|key|sig|code|jwt|otp|pin|pass|pwd)(?:$|[-_.])"
    r"|key$|apikey|accesskey|token|secret|signature|password|passwd|passphrase|credential"
    r"|session|sessid|assertion|authorization",
    re.IGNORECASE,
).search
# The names of fields are longer: "access", "api" and "code" stand in harmless ones.
is_secret_header = re.compile(
    r"authori[sz]ation|cookie|token|secret|passw|passphrase|credential|session|signature|assertion"
    r"|(?:^|[-_])(?:api-?key|key|auth|sig|jwt|pass|pwd)(?:$|[-_])",
    re.IGNORECASE,
).search

# Of JSON: "session_id", "code" and "key" are harmless there.
is_secret_member = re.compile(
    r"token|secret|passw|passphrase|passcode|pwd|jwt|cookie|credential|signature|assertion|sessid"
    r"|(?:api|access|account|encryption|master|private|shared|signing|storage)[-_ .]?key"
    r"|authori[sz]ation|connection[-_ ]?string|(?:^|[-_. ])(?:auth|otp|pass|pin|sig)(?:$|[-_. ])",
    re.IGNORECASE,
).search
_MEMBERS = re.compile(r'"([^"\\]{1,64})\\*"\s*:\s*\\*["\[{]').finditer

_FIELDS_WITH_URLS = frozenset({"content-location", "link", "location", "referer", "refresh"})
_USERINFO_AHEAD = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@")
_USERINFO_WITHIN = re.compile(r"//[^/?#\s]*@")

_PASSWORD_WITHIN = re.compile(r"://[^/?#\s:@]*:[^/?#\s]*@")

_SEPARATORS = re.compile("([&;#])")
_BLANK = re.compile(r"\s").search
_NAMES = re.compile(r"(?:^|[?/])([^?/=]*)=").finditer
_USERINFO = re.compile(r"\A([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL)


def scrub_url(url: URL | str) -> str:
    """Return a URL without user name, password and fragment, its secret parameters masked.

    Args:
        url: a str is one that is well-formed.
    """
    if isinstance(url, str):
        return scrub_text(without_userinfo(url).partition("#")[0])
    return f"{url.scheme}://{url.authority}{scrub_text(url.target)}"


def without_userinfo(text: str) -> str:
    """Return the text of a URL without user name and password, else as it is."""
    return _USERINFO_AHEAD.sub(r"\1", text, count=1)


def scrub_field(name: str, value: str) -> str:
    """Return the value of a header field fit for a repr or a log.

    Args:
        name: of the field; where it speaks of credentials, the whole value is one.
        value: of the others, URLs are scrubbed.
    """
    if is_secret_header(name):
        return "[secret]"
    if '"' in value and _is_secret_json(value):
        return "[secret]"
    if "://" in value or name.lower() in _FIELDS_WITH_URLS:
        return scrub_text(_USERINFO_WITHIN.sub("//***@", value))
    return value


def scrub_block(block: bytes) -> bytes:
    """Return the fields of a received head, or trailers, as scrub_field shows them.

    Args:
        block: lines as they came; what has no name, such as a folded line, goes with the one ahead.
    """
    lines: list[str] = []
    hides = False  # the line ahead was a secret, and what continues it is one, too
    for line in block.decode("latin-1").splitlines(keepends=True):
        name, colon, value = line.partition(":")
        if line[0] in " \t":
            lines.append(line if not hides else "")
        elif colon and not line.startswith("HTTP/"):
            kept = value.rstrip("\r\n")
            hides = (shown := scrub_field(name.strip(), kept)) != kept
            lines.append(f"{name}: {shown.strip()}{value[len(kept) :]}")
        else:
            lines.append(line)
    return "".join(lines).encode("latin-1", "replace")


def scrub_text(text: str) -> str:
    """Return a URL, or a part of one, with the values of secret parameters masked.

    Args:
        text: in any form; what may be userinfo is left alone, see shown_url, but in parameters.
    """
    may_have_some = "=" in text or "%" in text or "://" in text
    return _scrubbed(text, depth=2) if may_have_some else text


def shown_url(url: URL | str) -> str:
    """Return a URL fit for a message: no userinfo, secret parameters masked, printable, cut.

    Args:
        url: one that was parsed, or text that may be malformed: of that all up to the last "@" is
            hidden, as the password in it may hold "/", "?" or "#".
    """
    text = _USERINFO.sub(r"\1***@", url, count=1) if isinstance(url, str) else scrub_url(url)
    if len(text) > _LONGEST_SHOWN:
        text = text[:_LONGEST_SHOWN] + "..."
    return shown_text(scrub_text(text))


def shown_text(text: str) -> str:
    """Return what a server said fit for a message: nothing in it that a terminal would obey."""
    return text if text.isprintable() else "".join([c if c.isprintable() else "?" for c in text])


def _is_secret_json(text: str) -> bool:
    return any(is_secret_member(found[1]) for found in _MEMBERS(text))


def _scrubbed(text: str, depth: int) -> str:
    parts: list[str] = []
    for part in _SEPARATORS.split(text):
        if part and "=" not in part and _goes_on(parts) and not _BLANK(part):
            parts.pop()
        else:
            parts.append(_masked(part, depth))
    return "".join(parts)


def _goes_on(parts: list[str]) -> bool:
    """Return whether a masked value goes on, as in "?token=a;b"."""
    return len(parts) > 1 and parts[-1] == ";" and parts[-2].endswith(f"={_MASK}")


def _masked(part: str, depth: int) -> str:
    if "://" in part:
        part = _PASSWORD_WITHIN.sub("://***@", part)
    for found in _NAMES(part):
        if is_secret_parameter(unquote(found[1])):
            return part[: found.end()] + _MASK
    equals = part.find("=")
    if 0 <= equals < part.find('"') and _is_secret_json(part[equals:]):
        return part[: equals + 1] + _MASK
    # A URL may stand in a parameter of another: "?next=https%3A%2F%2Fhost%2F%3Ftoken%3D..."
    if depth and "%" in part:
        plain = unquote(part)
        if _scrubbed(plain, depth - 1) != plain:
            return f"{part.partition('=')[0]}={_MASK}"
    return part
