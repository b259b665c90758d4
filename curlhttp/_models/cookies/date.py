"""The date of a cookie's Expires, read as RFC 6265, section 5.1.1, reads it: any text, no error."""

from __future__ import annotations

import re
from datetime import datetime, timezone

__all__ = ["parse_cookie_date"]

_DELIMITERS = re.compile(r"[\t -/;-@\[-`{-~]+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
# Each token may be the time, the day, the month or the year: the first that fits, in this order.
# What follows the digits counts for nothing, unless it is one more digit.
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?![0-9])").match
_DAY = re.compile(r"([0-9]{1,2})(?![0-9])").match
_YEAR = re.compile(r"([0-9]{2,4})(?![0-9])").match


def parse_cookie_date(text: str) -> int | None:
    """Return a date in seconds since 1970, None if it is none.

    Args:
        text: such as "Wed, 21 Oct 2026 07:28:00 GMT"; the name of the zone is not looked at.
    """
    time = day = year = month = None
    for token in _DELIMITERS.split(text):
        if time is None and (found := _TIME(token)):
            time = found.groups()
        elif day is None and (found := _DAY(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR(token)):
            year = int(found[1])
    if time is None or day is None or month is None or year is None:
        return None
    return _seconds(_full(year), month, day, time)


def _full(year: int) -> int:
    if 70 <= year <= 99:
        return year + 1900
    return year + 2000 if year <= 69 else year


def _seconds(year: int, month: int, day: int, time: tuple[str, ...]) -> int | None:
    if year < 1601:
        return None
    hour, minute, second = map(int, time)
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:  # such as the 31st of February
        return None
    return int(moment.timestamp())
