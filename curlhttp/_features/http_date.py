"""Read dates in header fields, such as Date, Expires and Retry-After (RFC 9110, section 5.6.7)."""

from __future__ import annotations

import re
from calendar import monthrange, timegm

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
# IMF-fixdate, RFC 850's and asctime's
_DATES = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"[a-z]{{3}}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4,9}}) {_TIME} GMT",
        rf"[a-z]{{6,9}}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
        rf"[a-z]{{3}} {_MONTH} (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4,9}})",
    )
)
_HALF_CENTURY = 50 * 365.25 * 86400.0  # seconds


def parse_http_date(text: str | None, wall: float) -> float | None:
    """Return an HTTP-date as seconds since the epoch, None if there is none or it is invalid.

    A year after 9999, which the RFC cannot express, is read as 9999.

    Args:
        text: as received, or None.
        wall: the local time: a year of two digits is at most 50 years after it.
    """
    for form in _DATES:
        found = form.fullmatch((text or "").strip(" \t"))
        if found is not None:
            return _to_epoch(found, wall)
    return None


def _to_epoch(found: re.Match[str], wall: float) -> float | None:
    year, day, hour, minute, second = (
        int(found[name]) for name in ("year", "day", "hour", "minute", "second")
    )
    month = _MONTHS.index(found["month"].lower()) + 1
    if len(found["year"]) == 2:
        year += 2000
    year = min(year, 9999)
    if year < 1 or hour > 23 or minute > 59 or second > 60:  # 60: a leap second
        return None
    if not 1 <= day <= monthrange(year, month)[1]:
        return None
    seconds = float(timegm((year, month, day, hour, minute, second)))
    if len(found["year"]) == 2 and seconds - wall > _HALF_CENTURY:
        return float(timegm((year - 100, month, day, hour, minute, second)))
    return seconds
