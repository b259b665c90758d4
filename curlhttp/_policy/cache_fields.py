"""Header fields that a cache reads: directives, dates and ages. None raises, whatever is sent.

Stricter than hishel, whose parsers take a value that is none for one that is missing: what cannot
be read makes a response stale.
"""

from __future__ import annotations

import calendar
import re

__all__ = ["FOR_EVER", "age_of", "date_of", "directives", "seconds_of"]

FOR_EVER = 2**31  # seconds: RFC 9111, section 1.2.2

_DIRECTIVE = re.compile(r'([^\s,;="]+)\s*(?:=\s*("(?:[^"\\]|\\.)*"|[^\s,"]*))?[^,]*').finditer
_ESCAPED = re.compile(r"\\(.)")
_WHOLE = re.compile(r"[0-9]+").fullmatch

_DAY, _MONTHS = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)", "JanFebMarAprMayJunJulAugSepOctNovDec"
_MONTH, _TIME = f"({'|'.join(re.findall('...', _MONTHS))})", r"(\d\d):(\d\d):(\d\d)"
# RFC 9110, section 5.6.7: the form that is sent today, and the two that were.
_DATE = re.compile(rf"{_DAY}, (\d\d) {_MONTH} (\d{{4}}) {_TIME} GMT", re.IGNORECASE).fullmatch
_OLD_DATE = re.compile(
    rf"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (\d\d)-{_MONTH}-(\d\d) {_TIME} GMT"
).fullmatch
_OLDEST_DATE = re.compile(rf"{_DAY} {_MONTH} ([ \d]\d) {_TIME} (\d{{4}})").fullmatch


def directives(value: str | None) -> dict[str, str]:
    """Return the directives of a Cache-Control by their lower-case names, "" for no value.

    Of one that is there twice the first counts (RFC 9111, section 4.2.1).

    Args:
        value: of the field, all its lines joined, or None.
    """
    found: dict[str, str] = {}
    for match in _DIRECTIVE(value or ""):
        name, argument = match[1].lower(), match[2] or ""
        if argument.startswith('"'):
            argument = _ESCAPED.sub(r"\1", argument[1:-1])
        found.setdefault(name, argument)
    return found


def seconds_of(text: str | None) -> int | None:
    """Return a number of seconds, at most FOR_EVER; None where there is none to be read."""
    if text is None or not _WHOLE(text):
        return None
    return min(int(text), FOR_EVER) if len(text) < 12 else FOR_EVER


def age_of(text: str | None) -> int:
    """Return the seconds that an Age tells of, 0 where it is none (RFC 9111, section 5.1).

    Args:
        text: of the field, all its lines joined; the first counts.
    """
    return seconds_of((text or "").partition(",")[0].strip()) or 0


def date_of(text: str | None, now: float = 0) -> float | None:
    """Return the seconds since the epoch of a date as HTTP has them, or None.

    Args:
        text: of a field.
        now: seconds since the epoch: where a year has two digits, it is not 50 years later.

    Source: RFC 9110, section 5.6.7.
    """
    if not text:
        return None
    if found := _DATE(text):
        day, month, year, *clock = found.groups()
    elif found := _OLD_DATE(text):
        day, month, year, *clock = found.groups()
        this_year = 1970 + int(now // 31556952)
        century = this_year // 100 * 100
        year = str(century + int(year) - (100 if century + int(year) > this_year + 50 else 0))
    elif found := _OLDEST_DATE(text):
        month, day, *clock, year = found.groups()
    else:
        return None
    number = _MONTHS.index(month.title()) // 3 + 1
    hour, minute, second = map(int, clock)
    if not (1 <= int(day) <= 31 and hour < 24 and minute < 60 and second <= 60 and int(year)):
        return None
    return float(calendar.timegm((int(year), number, int(day), hour, minute, second)))
