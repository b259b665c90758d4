"""Parsing of Retry-After, and invalid values (RFC 9110, section 10.2.3)."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from curlhttp import Headers
from curlhttp._features.retry.policy import parse_retry_after

NOW = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT


def asked(*values: str, date: str | None = None, wall: float = NOW) -> float | None:
    fields = [("Retry-After", value) for value in values]
    if date is not None:
        fields.append(("Date", date))
    return parse_retry_after(Headers(fields), wall)


@pytest.mark.parametrize(("value", "seconds"), [("120", 120.0), ("0", 0.0), ("007", 7.0)])
def test_digits_are_seconds(value: str, seconds: float) -> None:
    assert asked(value) == seconds


@pytest.mark.parametrize(
    "value",
    ["+120", "-1", "1.5", "1e3", "abc", "", "1 2", "0x10", "१२०", "²", "1_000", "120, 60", "120;"],
)
def test_an_invalid_number_of_seconds_is_ignored(value: str) -> None:
    fields = Headers()
    fields._replace([("Retry-After", value)])  # as a server may send it
    assert parse_retry_after(fields, NOW) is None


YEARS = 30 * 365 * 86400.0


@pytest.mark.parametrize("digits", [10, 11, 31, 400, 5000])  # int() refuses more than 4300
def test_a_number_beyond_all_reason_is_a_long_wait(digits: int) -> None:
    for value in ("9" * digits, " " + "9" * digits, "5" + "0" * digits):
        fields = Headers()
        fields._replace([("Retry-After", value)])
        seconds = parse_retry_after(fields, NOW)
        assert seconds is not None
        assert YEARS < seconds < 2 * YEARS  # time.sleep() can wait for that
    assert asked("0" * digits + "7") == 7


@pytest.mark.parametrize(
    "date",
    [
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "Sat, 01 Jan 10000 00:00:00 GMT",
        "Sat Jan  1 00:00:00 123456789",
    ],
)
def test_a_date_beyond_all_reason_is_a_long_wait(date: str) -> None:
    assert asked(date, "5") == asked("9" * 11)


def test_without_a_header_there_is_no_wait() -> None:
    assert asked() is None


@pytest.mark.parametrize(
    "date",
    [
        "Sun, 06 Nov 1994 08:51:37 GMT",
        "Sunday, 06-Nov-94 08:51:37 GMT",
        "Sun Nov  6 08:51:37 1994",
    ],
)
def test_the_three_forms_of_dates_are_read_against_the_time_of_day(date: str) -> None:
    assert asked(date) == 120.0


def test_a_date_in_the_past_is_now() -> None:
    assert asked("Sun, 06 Nov 1994 08:00:00 GMT") == 0.0


@pytest.mark.parametrize(
    "date",
    [
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:61:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Foo 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 CET",
        "Sun, 06 Nov 1994 08:49:37",
        "06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT x",
        "tomorrow",
    ],
)
def test_an_invalid_date_is_ignored(date: str) -> None:
    assert asked(date) is None


def test_a_clock_that_is_wrong_is_corrected_by_the_servers() -> None:
    date, later = "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:42 GMT"
    assert asked(later, date=date, wall=NOW + 3600) == 5.0
    assert asked(later, date=date, wall=NOW - 3600) == 5.0


def test_clocks_that_differ_by_a_minute_at_most_are_taken_as_they_are() -> None:
    date, later = "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:47 GMT"
    assert asked(later, date=date, wall=NOW + 60) == 10.0
    assert asked(later, date="garbage", wall=NOW + 3600) == 0.0


def test_of_two_headers_the_longer_wait_counts() -> None:
    assert asked("2", "7") == 7.0
    assert asked("7", "2") == 7.0
    assert asked("soon", "2") == 2.0
    assert asked("3", "Sun, 06 Nov 1994 08:49:47 GMT") == 10.0


@pytest.mark.parametrize(("skew", "seconds"), [(60.0, 70.0), (61.0, 10.0)])
def test_clocks_that_differ_by_more_than_a_minute_are_not(skew: float, seconds: float) -> None:
    """Taken as they are, that is."""
    served = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT
    headers = Headers(
        {
            "Date": formatdate(served, usegmt=True),
            "Retry-After": formatdate(served + 10.0, usegmt=True),
        }
    )
    assert parse_retry_after(headers, served - skew) == seconds
