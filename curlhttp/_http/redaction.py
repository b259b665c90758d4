"""Redact URLs, header fields and lines of logs, for messages, reprs and logs.

Everything that people see is redacted here. The attributes of requests and responses keep what was
sent. body_redaction.py redacts whole requests and responses with their bodies.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING

from curlhttp._http.percent import unquote

if TYPE_CHECKING:
    from curlhttp._http.url import URL

_LONGEST_SHOWN = 200  # characters of a URL in a message
_MASK = "***"

# Patterns are compiled when they are first used, because most programs redact nothing.

# Names of parameters that hold credentials, as OAuth, AWS, Azure and Google use them.
_PARAMETERS_WITH_CREDENTIALS = (
    r"(?:^|[-_.])(?:api|access|auth|key|sig|code|jwt|otp|pin|pass|pwd)(?:$|[-_.])"
    r"|key$|apikey|accesskey|token|secret|signature|password|passwd|passphrase|credential"
    r"|session|sessid|assertion|authorization"
)
# Names of fields are longer: "access", "api" and "code" occur in harmless ones.
_HEADERS_WITH_CREDENTIALS = (
    r"authori[sz]ation|cookie|token|secret|passw|passphrase|credential|session|signature|assertion"
    r"|(?:^|[-_])(?:api-?key|key|auth|sig|jwt|pass|pwd)(?:$|[-_])"
)
# They only sound like those that do.
_HARMLESS_HEADERS = frozenset(
    {"access-control-allow-credentials", "surrogate-key", "accept-signature", "signature-input"}
)
# Names that describe credentials ("token_type", "authorization_endpoint"), or only sound like them.
_DESCRIPTIONS = (
    r"(?:^|[-_. ])(?:types?|kind|endpoint|supported|alg|algorithms?|policy|length|count|limit"
    r"|methods?|version|format|required|enabled|lifetime|ttl|expired|expires|expiry|expiration"
    r"|expires[-_](?:at|in|on)|(?:created|updated|issued)[-_](?:at|on))\Z"
    r"|rate[-_]?limit|tokens[-_]details\Z|\Atokeni[sz]|\Asecretar"
    r"|\A(?:token|auth|authorization)[-_](?:uri|url)\Z"
    r"|(?:max|min|new|num|total|input|output|prompt|completion)[-_](?:\w+[-_])?tokens\Z"
    r"|(?:^|[-_])(?:cache|foreign|group|idempotency|order|partition|primary|public|row|sort"
    r"|websocket)[-_]key\Z|\A(?:hot|mon|tur)key\Z"
    r"|(?:^|[-_])(?:area|country|currency|error|lang|language|postal|region|status|zip)[-_]code\Z"
)
_CAMEL_HUMP = r"(?<=[a-z0-9])(?=[A-Z])"
# Of JSON: "session_id", "code" and "key" are harmless there.
_MEMBERS_WITH_CREDENTIALS = (
    r"token|secret|passw|passphrase|passcode|pwd|jwt|cookie|credential|signature|assertion|sessid"
    r"|(?:api|access|account|encryption|master|private|shared|signing|storage)[-_ .]?key"
    r"|authori[sz]ation|connection[-_ ]?string|(?:^|[-_. ])(?:auth|otp|pass|pin|sig)(?:$|[-_. ])"
)
_MEMBERS = r'"([^"\\]{1,64})\\*"\s*:\s*\\*["\[{]'

_FIELDS_WITH_URLS = frozenset({"content-location", "link", "location", "referer", "refresh"})
_USERINFO_AHEAD = r"\A([A-Za-z][A-Za-z0-9+.-]*://)[^/?#]*@"
_USERINFO_WITHIN = r"//[^/?#\s]*@"

_USERINFO_IN_TEXT = r"://[^/?#\s:@]*:[^/?#\s]*@"

_SEPARATORS = "([&;#])"
_BLANK = r"\s"
_NAMES = r"(?:^|[?/])([^?/=]*)="
_USERINFO = r"(?s)\A([A-Za-z][A-Za-z0-9+.-]*://)?.*@"


def is_secret_parameter(name: str) -> bool:
    """Return whether the name of a parameter of a URL or form sounds like credentials."""
    return _matches(_PARAMETERS_WITH_CREDENTIALS, name) and not describes(name)


@lru_cache(maxsize=64)  # the cache asks for each field of a request
def is_secret_header(name: str) -> bool:
    """Return whether the name of a header field sounds like credentials."""
    if name.lower() in _HARMLESS_HEADERS:
        return False
    return _matches(_HEADERS_WITH_CREDENTIALS, name) and not describes(name)


def is_secret_member(name: str) -> bool:
    """Return whether the name of a member of a JSON object sounds like credentials."""
    return _matches(_MEMBERS_WITH_CREDENTIALS, name) and not describes(name)


def describes(name: str) -> bool:
    """Return whether a name describes credentials, or only sounds like them."""
    return _matches(_DESCRIPTIONS, re.sub(_CAMEL_HUMP, "_", name))


def _matches(pattern: str, name: str) -> bool:
    return re.search(pattern, name, re.IGNORECASE) is not None


def redact_url(url: URL | str) -> str:
    """Return a URL without user name, password and fragment, its secret parameters masked.

    Args:
        url: a str must be well-formed.
    """
    if isinstance(url, str):
        return redact_text(strip_userinfo(url).partition("#")[0])
    return f"{url.scheme}://{url.authority}{redact_text(url.target)}"


def strip_userinfo(text: str) -> str:
    """Return the text of a URL without user name and password."""
    return re.sub(_USERINFO_AHEAD, r"\1", text, count=1)


def redact_field(name: str, value: str) -> str:
    """Return the value of a header field for a repr or a log.

    Args:
        name: if it sounds like credentials, the whole value is hidden.
        value: URLs in other values are redacted.
    """
    if is_secret_header(name):
        return "[secret]"
    if '"' in value and _is_secret_json(value):
        return "[secret]"
    if "://" in value or name.lower() in _FIELDS_WITH_URLS:
        return redact_text(re.sub(_USERINFO_WITHIN, "//***@", value))
    return value


def redact_text(text: str, mask: str = _MASK) -> str:
    """Return a URL, or a part of one, with the values of secret parameters masked.

    Args:
        text: in any form; userinfo is only masked in parameters; see display_url.
        mask: replaces them.
    """
    may_have_some = "=" in text or "%" in text or "://" in text
    return _redact_parts(text, mask, depth=2) if may_have_some else text


def display_url(url: URL | str) -> str:
    """Return a URL for a message: no userinfo, secret parameters masked, printable, truncated.

    Args:
        url: a parsed URL, or text that may be malformed: everything up to the last "@" of it is
            hidden, because a password may contain "/", "?" or "#".
    """
    text = re.sub(_USERINFO, r"\1***@", url, count=1) if isinstance(url, str) else redact_url(url)
    if len(text) > _LONGEST_SHOWN:
        text = text[:_LONGEST_SHOWN] + "..."
    return display_text(redact_text(text))


def display_text(text: str) -> str:
    """Return a server's text for a message, without characters that control a terminal."""
    return text if text.isprintable() else "".join([c if c.isprintable() else "?" for c in text])


def _is_secret_json(text: str) -> bool:
    return any(is_secret_member(found[1]) for found in re.finditer(_MEMBERS, text))


def _redact_parts(text: str, mask: str, depth: int) -> str:
    parts: list[str] = []
    for part in re.split(_SEPARATORS, text):
        if part and "=" not in part and _continues(parts, mask) and not re.search(_BLANK, part):
            parts.pop()
        else:
            parts.append(_redact_part(part, mask, depth))
    return "".join(parts)


def _continues(parts: list[str], mask: str) -> bool:
    """Return whether the next part continues a masked value, as in "?token=a;b"."""
    return len(parts) > 1 and parts[-1] == ";" and parts[-2].endswith(f"={mask}")


def _redact_part(part: str, mask: str, depth: int) -> str:
    if "://" in part:
        part = re.sub(_USERINFO_IN_TEXT, f"://{mask}@", part)
    for found in re.finditer(_NAMES, part):
        if is_secret_parameter(unquote(found[1])):
            return part[: found.end()] + mask
    equals = part.find("=")
    if 0 <= equals < part.find('"') and _is_secret_json(part[equals:]):
        return part[: equals + 1] + mask
    # A parameter may hold another URL: "?next=https%3A%2F%2Fhost%2F%3Ftoken%3D..."
    if depth and "%" in part:
        plain = unquote(part)
        if _redact_parts(plain, mask, depth - 1) != plain:
            return f"{part.partition('=')[0]}={mask}"
    return part


# --- lines of logs ---

_REQUEST_LINE = r"([^\s:]+) (\S+) (HTTP/\S+)"
_USERINFO_IN_LINE = r"//[^/?#]*@"
_URL = r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+"
_USER = r"(?s)\b(user(?:name)?) '.*'"  # "Proxy auth using Basic with user 'bob'"
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


def escape_bytes(raw: bytes) -> str:
    r"""Return bytes as ASCII; control characters are written as \xNN."""
    return raw.decode("ascii", "backslashreplace").translate(_CONTROLS)


class HeadRedactor:
    """Redact the lines of one head, one after the other: a secret may continue in a folded line.

    Args:
        sensitive: lower-case names of further fields whose values are not shown.
    """

    def __init__(self, sensitive: Collection[str]) -> None:
        self._sensitive = sensitive
        self._is_secret = False

    def line(self, raw: bytes) -> str:
        """Return the next line as it was on the wire, its secrets masked.

        Args:
            raw: without its end; it may fold the line before it (RFC 9112, section 5.2).
        """
        if raw[:1] in (b" ", b"\t") and self._is_secret:
            return " [secret]"
        line = self._redact(raw, escape_bytes(raw))
        self._is_secret = line.endswith("[secret]")
        return line

    def _redact(self, raw: bytes, line: str) -> str:
        found = re.fullmatch(_REQUEST_LINE, line)
        if found is not None:
            method, target, version = found.groups()
            return f"{method} {_redact_urls(target)} {version}"
        name, colon, value = line.partition(":")
        if not colon or line.startswith(("HTTP/", " ")) or raw[:1] == b"\t":
            return _redact_urls(line)
        bare = value.strip(" ")
        is_sensitive = name.strip().lower() in self._sensitive
        shown = "[secret]" if is_sensitive else redact_field(name, bare)
        return f"{name}:{value if shown == bare else f' {shown}'}"


def _redact_urls(line: str) -> str:
    return redact_text(re.sub(_USERINFO_IN_LINE, "//***@", line))


def redact_log_line(raw: bytes) -> str:
    """Return a line of libcurl's log without user names and secrets of URLs."""
    line = escape_bytes(raw.rstrip())
    if "://" in line:
        line = redact_text(re.sub(_URL, lambda found: display_url(found[0]), line))
    return re.sub(_USER, r"\1 '***'", line)
