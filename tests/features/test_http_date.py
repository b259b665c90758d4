"""Dates in header fields: three forms, and no value raises (RFC 9110, section 5.6.7)."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp._features.http_date import parse_http_date

MOMENT = 784_111_777.0  # Sun, 06 Nov 1994 08:49:37 GMT


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        " sun, 06 nov 1994 08:49:37 gmt\t",
    ],
)
def test_the_three_forms_of_a_date(text: str) -> None:
    assert parse_http_date(text, MOMENT) == MOMENT


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "0",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06-Nov-1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:61:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06  Nov 1994 08:49:37 GMT",
    ],
)
def test_an_invalid_date(text: str | None) -> None:
    assert parse_http_date(text, MOMENT) is None


def test_a_year_of_two_digits_is_not_far_in_the_future() -> None:
    in_2030 = 1_900_000_000.0
    assert parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT", in_2030) == MOMENT
    assert parse_http_date("Friday, 01-Nov-30 00:00:00 GMT", in_2030) == 1_919_721_600.0


@given(st.integers(0, 4_102_444_800))
def test_every_date_that_is_written_is_read_again(moment: int) -> None:
    assert parse_http_date(formatdate(moment, usegmt=True), 0.0) == moment
    asctime = time.asctime(time.gmtime(moment))
    assert parse_http_date(asctime, 0.0) == moment


@given(
    st.text()
    | st.from_regex(
        r"\A(Sun|Mon|Sunday), \d\d[ -](Jan|Feb|Nov)[ -](\d\d|\d{4}) \d\d:\d\d:\d\d GMT\Z"
    )
)
def test_no_text_is_an_error(text: str) -> None:
    assert isinstance(parse_http_date(text, MOMENT), (float, type(None)))
