"""Which origins said that they speak HTTP/3 (Alt-Svc, RFC 7838). Knows no clock of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curlhttp._models.url import URL

__all__ = ["Alternatives", "http3_age"]

_DAY = 24 * 3600.0  # seconds, where nothing is said (RFC 7838, section 3.1)
_LONGEST = 30 * _DAY
_MOST_ORIGINS = 1000
_LONGEST_FIELD = 4096  # characters
_PARAMETER = r'\s*;\s*[\w-]+=(?:"[^"]*"|[^\s;,"]*)'
_ENTRY = re.compile(rf'[\s,]*([\w!#$%&\'*+.^`|~-]+)="([^"]*)"((?:{_PARAMETER})*)')
_AGE = re.compile(r'ma="?(\d{1,10})\b')


def http3_age(value: str, url: URL) -> float:
    """Return for how many seconds an origin speaks HTTP/3 itself, 0.0 if it does not say so.

    Alternatives at another host or port are left alone, as RFC 7838, section 2.4, allows: there
    would be nothing to fall back to.

    Args:
        value: of Alt-Svc.
        url: whose response has it.
    """
    at = 0
    while match := _ENTRY.match(value, at, _LONGEST_FIELD):
        at = match.end()
        name, authority, parameters = match.groups()
        host, _, port = authority.rpartition(":")
        if name == "h3" and host in ("", url.host) and port == str(url.port):
            age = _AGE.search(parameters)
            return _DAY if age is None else min(float(age[1]), _LONGEST)
    return 0.0


class Alternatives:
    """The origins that speak HTTP/3, in a bounded number; for any thread, without a lock.

    Args:
        now: gives monotonic seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until: dict[str, float] = {}

    def has_http3(self, url: URL) -> bool:
        """Return whether the origin of a URL said that it speaks HTTP/3."""
        until = self._until.get(url.origin)
        return until is not None and until > self._now()

    def note(self, url: URL, value: str) -> None:
        """Take in an Alt-Svc field, which takes the place of the one before.

        Args:
            url: whose response has it.
            value: of the field; "clear" takes all back.
        """
        age = http3_age(value, url)
        if not age:
            self._until.pop(url.origin, None)
            return
        if len(self._until) >= _MOST_ORIGINS:
            self._until.clear()
        self._until[url.origin] = self._now() + age
