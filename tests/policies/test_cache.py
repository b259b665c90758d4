"""Header fields that a cache parses: no value raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp._features.cache.policy import (
    FOR_EVER,
    parse_age,
    parse_date,
    parse_directives,
    parse_seconds,
)

MOMENT = 784111777  # of the examples in RFC 9110, section 5.6.7


@given(st.text() | st.text(alphabet='a=",; \t\\0-*'))
def test_whatever_is_sent_nothing_raises(text: str) -> None:
    assert all(isinstance(value, str) for value in parse_directives(text).values())
    assert parse_age(text) >= 0
    assert (parse_seconds(text) or 0) <= FOR_EVER
    parse_date(text)


@given(
    st.from_regex(r"\A(Sun|Mon|Sunday), \d\d[ -](Jan|Feb|Nov)[ -](\d\d|\d{4}) \d\d:\d\d:\d\d GMT\Z")
)
def test_dates_that_no_calendar_has_do_not_raise(text: str) -> None:
    parse_date(text)


@pytest.mark.parametrize("junk", [",", " ", "a ", 'a="', "a=", '\\"', "a=\\"])
def test_long_values_take_linear_time(junk: str) -> None:
    parse_directives(junk * 200_000)


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
    ],
)
def test_the_three_forms_of_a_date(text: str) -> None:
    assert parse_date(text, MOMENT) == MOMENT


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06  Nov 1994 08:49:37 GMT",
    ],
)
def test_an_invalid_date(text: str) -> None:
    assert parse_date(text) is None


def test_a_year_of_two_digits_is_the_nearest_past() -> None:
    in_2026 = 1_795_000_000.0
    assert parse_date("Sunday, 06-Nov-94 08:49:37 GMT", in_2026) == MOMENT
    near = parse_date("Sunday, 06-Nov-30 08:49:37 GMT", in_2026)
    assert near is not None
    assert near > in_2026


def test_the_first_of_equal_directives_counts() -> None:
    assert parse_directives('Max-Age=1, max-age=2, x="a, \\"b", no-cache') == {
        "max-age": "1",
        "x": 'a, "b',
        "no-cache": "",
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0" * 20 + "60", 60),
        ("0" * 20, 0),
        ("9" * 11, FOR_EVER),
        ("9" * 12, FOR_EVER),
        ("9" * 5000, FOR_EVER),
    ],
)
def test_a_number_of_seconds_may_have_any_length(text: str, seconds: int) -> None:
    assert parse_seconds(text) == parse_age(text) == seconds
