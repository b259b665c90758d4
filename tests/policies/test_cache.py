"""Header fields that a cache parses: no value raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp._features.cache.policy import (
    FOR_EVER,
    parse_age,
    parse_directives,
    parse_seconds,
)


@given(st.text() | st.text(alphabet='a=",; \t\\0-*'))
def test_whatever_is_sent_nothing_raises(text: str) -> None:
    assert all(isinstance(value, str) for value in parse_directives(text).values())
    assert parse_age(text) >= 0
    assert (parse_seconds(text) or 0) <= FOR_EVER


@pytest.mark.parametrize("junk", [",", " ", "a ", 'a="', "a=", '\\"', "a=\\"])
def test_long_values_take_linear_time(junk: str) -> None:
    parse_directives(junk * 200_000)


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
