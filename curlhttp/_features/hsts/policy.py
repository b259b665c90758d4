"""Remember which hosts require HTTPS (HSTS, RFC 6797). Pure: it reads no clock and no file."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple

_MOST_HOSTS = 5000
_LONGEST_FIELD = 1024  # characters
_LONGEST_AGE = 10 * 365 * 24 * 3600  # seconds
_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_DIRECTIVE = re.compile(rf'[ \t]*({_WORD})[ \t]*(?:=[ \t]*("[^"]*"|{_WORD}))?[ \t]*')


class HSTSEntry(NamedTuple):
    """A host that requires HTTPS.

    Attributes:
        expires: in seconds since the epoch.
        has_subdomains: the entry also applies to subdomains.
    """

    expires: float
    has_subdomains: bool


def parse_field(value: str) -> tuple[int, bool] | None:
    """Parse Strict-Transport-Security: max-age in seconds, and includeSubDomains; None if invalid.

    A directive that appears twice, or an invalid max-age, makes the field invalid (RFC 6797,
    section 6.1).
    """
    found: dict[str, str] = {}
    for part in value[:_LONGEST_FIELD].split(";"):
        if not part.strip(" \t"):
            continue
        match = _DIRECTIVE.fullmatch(part)
        if match is None or match[1].lower() in found:
            return None
        found[match[1].lower()] = (match[2] or "").strip('"')
    age = found.get("max-age", "")
    if not (age.isascii() and age.isdigit()):
        return None
    return min(int(age), _LONGEST_AGE), "includesubdomains" in found


class HSTSStore:
    """The hosts that require HTTPS, up to a maximum number. Thread-safe without a lock.

    Attributes:
        by_name: entries by host.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, HSTSEntry] = {}

    def covers(self, host: str, now: float) -> bool:
        """Return whether a host requires HTTPS, by its own entry or that of a parent domain.

        Args:
            host: canonical.
            now: seconds since the epoch.
        """
        name = host.rstrip(".")
        known = self.by_name.get(name)
        while known is None or known.expires <= now:
            _, dot, name = name.partition(".")
            if not dot:
                return False
            known = self.by_name.get(name)
            if known is not None and not known.has_subdomains:
                known = None
        return True

    def note(self, host: str, value: str, now: float) -> bool:
        """Store the field of a response over HTTPS; return whether to write it to disk.

        Args:
            host: canonical; an IP address is ignored (RFC 6797, section 8.1.1).
            value: of Strict-Transport-Security.
            now: seconds since the epoch.
        """
        field = parse_field(value)
        name = host.rstrip(".")
        if field is None or is_address(name):
            return False
        age, has_subdomains = field
        before = self.by_name.get(name)
        if not age:
            return self.by_name.pop(name, None) is not None
        if before is None and len(self.by_name) >= _MOST_HOSTS:
            # A copy, because other threads may add entries.
            first = min(list(self.by_name.items()), key=lambda each: each[1].expires)
            self.by_name.pop(first[0], None)
        known = self.by_name[name] = HSTSEntry(now + age, has_subdomains)
        # Each response renews the entry. Write only if that adds a tenth of its time.
        return (
            before is None
            or before.has_subdomains != has_subdomains
            or abs(known.expires - before.expires) > age / 10
        )


def is_address(host: str) -> bool:
    """Return whether a host is an IP address."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
