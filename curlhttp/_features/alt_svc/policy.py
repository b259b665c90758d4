"""Remember which origins support HTTP/3 (Alt-Svc, RFC 7838). Pure: it reads no clock."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from curlhttp._http.url import URL

_DAY = 24 * 3600.0  # seconds; the default (RFC 7838, section 3.1)
_LONGEST = 30 * _DAY
_MOST_ORIGINS = 1000
_LONGEST_FIELD = 4096  # characters
_PARAMETER = r'\s*;\s*[\w-]+=(?:"[^"]*"|[^\s;,"]*)'
_ENTRY = re.compile(rf'[\s,]*([\w!#$%&\'*+.^`|~-]+)="([^"]*)"((?:{_PARAMETER})*)')
_AGE = re.compile(r'ma="?(\d+)\b')


def parse_http3_age(value: str, url: URL) -> float:
    """Return the seconds for which an origin itself supports HTTP/3, 0.0 if it does not say so.

    Alternatives on another host or port are ignored, as RFC 7838, section 2.4, allows.

    Args:
        value: of Alt-Svc.
        url: of the response.
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


class AltSvcCache:
    """The origins that support HTTP/3, up to a maximum number. Thread-safe without a lock.

    Args:
        now: returns monotonic seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._until: dict[str, float] = {}

    def has_http3(self, url: URL) -> bool:
        """Return whether the origin of a URL has announced HTTP/3."""
        until = self._until.get(url.origin)
        return until is not None and until > self._now()

    def note(self, url: URL, value: str) -> None:
        """Store an Alt-Svc field, which replaces the previous one.

        Args:
            url: of the response.
            value: of the field; "clear" removes the origin.
        """
        age = parse_http3_age(value, url)
        if not age:
            self._until.pop(url.origin, None)
            return
        if len(self._until) >= _MOST_ORIGINS:
            self._until.clear()
        self._until[url.origin] = self._now() + age
