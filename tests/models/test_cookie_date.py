"""Expires, as RFC 6265, section 5.1.1, has it read."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp._models.cookies.date import parse_cookie_date


def seconds(*date: int) -> int:
    return int(datetime(*date, tzinfo=timezone.utc).timestamp())  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("Wed, 21 Oct 2026 07:28:00 GMT", (2026, 10, 21, 7, 28, 0)),
        ("Wednesday, 21-Oct-26 07:28:00 GMT", (2026, 10, 21, 7, 28, 0)),
        ("Wed Oct 21 07:28:00 2026", (2026, 10, 21, 7, 28, 0)),
        ('"21/October/2026 7:8:9"', (2026, 10, 21, 7, 8, 9)),
        ("21st oct 2026 07:28:00+0200", (2026, 10, 21, 7, 28, 0)),
        ("01 Jan 70 00:00:00", (1970, 1, 1)),
        ("01 Jan 99 00:00:00", (1999, 1, 1)),
        ("01 Jan 69 00:00:00", (2069, 1, 1)),
        ("01 Jan 1601 00:00:00", (1601, 1, 1)),
        ("31 Dec 9999 23:59:59", (9999, 12, 31, 23, 59, 59)),
        ("29 Feb 2028 00:00:00", (2028, 2, 29)),
    ],
)
def test_a_date_is_found_in_any_order(text: str, date: tuple[int, ...]) -> None:
    assert parse_cookie_date(text) == seconds(*date)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-1",
        "never",
        "Wed, 21 Fed 2027",
        "Wed, 21 Fed 2027 07:28:00 GMT",
        "Wed, 31 Feb 2027 07:28:00 GMT",
        "Wed, 00 Oct 2026 07:28:00 GMT",
        "Wed, 32 Oct 2026 07:28:00 GMT",
        "Wed, 21 Oct 2026",
        "21 Oct 1600 00:00:00",
        "21 Oct 0100 00:00:00",
        "21 Oct 20260 00:00:00",
        "21 Oct 2026 24:00:00",
        "21 Oct 2026 00:60:00",
        "21 Oct 2026 00:00:60",
        "٢١ Oct 2026 07:28:00",
        "9" * 10_000,
    ],
)
def test_what_is_no_date_is_none(text: str) -> None:
    assert parse_cookie_date(text) is None


_WORDS = st.one_of(
    st.sampled_from(["Wed,", "Oct", "Feb", "Fed", "GMT", "07:28:00", "99:99:99", "2026", "31"]),
    st.integers(-(10**30), 10**30).map(str),
    st.text(st.characters(max_codepoint=255), max_size=8),
)


@given(st.lists(_WORDS, max_size=8).map(" ".join))
def test_no_text_raises(text: str) -> None:
    found = parse_cookie_date(text)
    assert found is None or seconds(1601, 1, 1) <= found <= seconds(9999, 12, 31, 23, 59, 59)
