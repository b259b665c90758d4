"""Formatting of text and numbers."""

from __future__ import annotations

import pytest

from curlhttp.cli.terminal import format_seconds, printable


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0 ms"), (0.00035, "0.35 ms"), (0.0012, "1.2 ms"), (0.012, "12 ms"),
        (0.0996, "100 ms"), (0.35, "350 ms"), (1.5, "1.5 s"), (75.0, "75 s"),
    ],
)  # fmt: skip
def test_seconds_are_shown_as_people_say_them(value: float, shown: str) -> None:
    assert format_seconds(value) == shown


def test_printable_text_has_no_control_characters() -> None:
    every = "".join(map(chr, range(256)))
    assert printable(every).isprintable() or "\xa0" in printable(every)
    assert not {chr(code) for code in (*range(32), *range(127, 160))} & set(printable(every))
    assert printable("a\nb\tc", keep="\n\t") == "a\nb\tc"
