"""Which hosts want to be asked by HTTPS alone (RFC 6797). Knows no clock and no file."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import NamedTuple

__all__ = ["HSTSEntry", "HSTSStore", "parse_field"]

_MOST_HOSTS = 5000
_LONGEST_FIELD = 1024  # characters
_LONGEST_AGE = 10 * 365 * 24 * 3600  # seconds
_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_DIRECTIVE = re.compile(rf'[ \t]*({_WORD})[ \t]*(?:=[ \t]*("[^"]*"|{_WORD}))?[ \t]*')


class HSTSEntry(NamedTuple):
    """What is known of a host.

    Attributes:
        expires: up to when, as seconds since the epoch.
        has_subdomains: it holds for the names below the host, too.
    """

    expires: float
    has_subdomains: bool


def parse_field(value: str) -> tuple[int, bool] | None:
    """Return max-age in seconds, and whether sub-domains are meant; None for what is no such field.

    A directive that is there twice, or a max-age that is none, makes the whole field void
    (RFC 6797, section 6.1).
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
    """The hosts that want HTTPS, in a bounded number; for any thread, without a lock.

    Attributes:
        by_name: what is known, by host.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, HSTSEntry] = {}

    def covers(self, host: str, now: float) -> bool:
        """Return whether a host wants HTTPS, by itself or by a domain above it.

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
        """Take in what a host says over HTTPS; return whether that is worth keeping on disk.

        Args:
            host: canonical; an IP address has no say (RFC 6797, section 8.1.1).
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
            # A copy, because other threads may take in others.
            first = min(list(self.by_name.items()), key=lambda each: each[1].expires)
            self.by_name.pop(first[0], None)
        known = self.by_name[name] = HSTSEntry(now + age, has_subdomains)
        # Every answer renews it: only what adds a tenth of its time is worth a write.
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
