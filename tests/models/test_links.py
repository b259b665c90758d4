"""The Link header: what is read of it, and in what time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp._models.links import parse_links


@pytest.mark.parametrize(
    ("value", "links"),
    [
        ("", {}),
        ("no link", {}),
        ("<a>", {"a": {"url": "a"}}),
        ("<a", {}),
        ("<a>; rel=next", {"next": {"url": "a", "rel": "next"}}),
        ("<a> ; REL = next", {"next": {"url": "a", "rel": "next"}}),
        (
            '</2>; rel="next", </9>; rel="last"; title="the, end"',
            {
                "next": {"url": "/2", "rel": "next"},
                "last": {"url": "/9", "rel": "last", "title": "the, end"},
            },
        ),
        ("<a>;rel=1,,<b>;rel=2", {"1": {"url": "a", "rel": "1"}, "2": {"url": "b", "rel": "2"}}),
        ("<a>;rel=first;rel=second", {"first": {"url": "a", "rel": "first"}}),
        ("<a>;rel", {"a": {"url": "a", "rel": ""}}),
        ("<a>;;;rel=x", {"x": {"url": "a", "rel": "x"}}),
        (
            '<a>; title="say \\"hi\\"; <b>"; rel=x',
            {"x": {"url": "a", "title": 'say "hi"; <b>', "rel": "x"}},
        ),
        ("<a>; rel=x junk; title=y", {"x": {"url": "a", "rel": "x", "title": "y"}}),
        (
            '<a>; title="no end, <b>; rel=x',
            {"a": {"url": "a", "title": ""}, "x": {"url": "b", "rel": "x"}},
        ),
        ("<a><b>;rel=x", {"a": {"url": "a"}, "x": {"url": "b", "rel": "x"}}),
        ("< a b >", {" a b ": {"url": " a b "}}),
    ],
)
def test_links_are_read_as_far_as_they_are_some(
    value: str, links: dict[str, dict[str, str]]
) -> None:
    assert parse_links(value) == links


@given(st.text(alphabet='<>;,="\\ \tab\n', max_size=40))
def test_no_value_breaks_the_parser(value: str) -> None:
    for name, link in parse_links(value).items():
        assert name in (link["url"], link.get("rel"))


PIECES = [
    "<",
    "<a",
    "<a>",
    "<a>;",
    ";",
    '"',
    "=",
    ",",
    '<a>;x="',
    '<a>;x=\\"',
    '<a>;x="\\',
    ";a=b",
    ';a="b"c',
]


@pytest.mark.parametrize("piece", [*PIECES, " ", "\t", "; ", "<a>; ", "<a>;x ", "<a>;x =", ", <"])
def test_a_value_as_long_as_a_head_may_be_is_parsed_at_once(piece: str) -> None:
    # Quadratic parsing would take hours here.
    parse_links("<a>" + piece * (300_000 // len(piece)))
