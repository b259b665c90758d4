"""Read Retry-After (RFC 9110, section 10.2.3). What is no valid value counts as absent.

Pure: the time of day comes in as an argument.
"""

from __future__ import annotations

import re
from calendar import monthrange, timegm
from collections.abc import Iterable

from curlhttp._models.headers import Headers

__all__ = ["http_date", "retry_after"]

_SECONDS = re.compile(r"[0-9]{1,10}", re.ASCII)  # ten digits are 300 years: more is no number
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
# RFC 9110, section 5.6.7: IMF-fixdate, RFC 850's and asctime's
_DATES = tuple(
    re.compile(form, re.ASCII | re.IGNORECASE)
    for form in (
        rf"[a-z]{{3}}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT",
        rf"[a-z]{{6,9}}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT",
        rf"[a-z]{{3}} {_MONTH} (?P<day>[0-9 ][0-9]) {_TIME} (?P<year>[0-9]{{4}})",
    )
)
_SKEW = 60.0  # seconds that two clocks may differ before the server's own is believed
_HALF_CENTURY = 50 * 365.25 * 86400.0  # seconds


def retry_after(headers: Headers, wall: float) -> float | None:
    """Return the seconds that a response asks to wait, the most of several; None for none.

    Args:
        headers: the response's.
        wall: the time of day here, in seconds since the epoch.
    """
    asked = [_seconds(value, headers, wall) for value in headers.get_list("retry-after")]
    return _most(asked)


def _most(asked: Iterable[float | None]) -> float | None:
    return max((seconds for seconds in asked if seconds is not None), default=None)


def _seconds(value: str, headers: Headers, wall: float) -> float | None:
    value = value.strip(" \t")
    if _SECONDS.fullmatch(value):
        return float(value)
    then = http_date(value, wall)
    if then is None:
        return None
    served = http_date(headers.get("date", ""), wall)
    # A clock that is wrong by minutes, here or there, must not turn "in 5 s" into "never".
    is_skewed = served is not None and abs(served - wall) > _SKEW
    return max(0.0, then - (served if is_skewed and served is not None else wall))


def http_date(text: str, wall: float) -> float | None:
    """Return an HTTP-date as seconds since the epoch, None for what is no date.

    Args:
        text: as received.
        wall: the time of day here: a year of two digits means the one that is nearest to it.
    """
    for form in _DATES:
        found = form.fullmatch(text.strip(" \t"))
        if found is not None:
            return _epoch(found, wall)
    return None


def _epoch(found: re.Match[str], wall: float) -> float | None:
    year, day, hour, minute, second = (
        int(found[name]) for name in ("year", "day", "hour", "minute", "second")
    )
    month = _MONTHS.index(found["month"].lower()) + 1
    if len(found["year"]) == 2:
        year += 2000
    if year < 1 or hour > 23 or minute > 59 or second > 60:  # 60: a leap second
        return None
    if not 1 <= day <= monthrange(year, month)[1]:
        return None
    seconds = float(timegm((year, month, day, hour, minute, second)))
    if len(found["year"]) == 2 and seconds - wall > _HALF_CENTURY:
        return float(timegm((year - 100, month, day, hour, minute, second)))
    return seconds
