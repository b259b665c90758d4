"""Parsing of server-sent events: the standard's rules, in any chunks, within a bound."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import EventParser, JSONDecodeError
from curlhttp.exceptions import ResponseTooLarge
from curlhttp.types import ServerSentEvent

BYTES = st.lists(
    st.sampled_from(
        (
            *(b"data", b"id", b"event", b"retry", b":", b" ", b"\r", b"\n", b"\r\n", b"\n\n"),
            *(b"12", b"\0", b"x", b"\xef\xbb\xbf", b"\xe2\x82\xac", b"\xe2\x82", b"\xff"),
            b"data: x\n\n",
        )
    )
    | st.binary(max_size=4),
    max_size=40,
).map(b"".join)


def events_of(*pieces: bytes, max_size: int | None = None) -> list[ServerSentEvent]:
    parser = EventParser(max_event_size=max_size)
    return [event for piece in pieces for event in parser.feed(piece)]


def reference(body: bytes) -> list[tuple[str, str, str]]:
    """Read a whole stream as the standard's text says it, line by line."""
    text = body.decode("utf-8", "replace")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found, kind, data, last_id = [], "", "", ""
    for line in text.split("\n")[:-1]:
        if not line:
            if data:
                found.append((kind or "message", data.removesuffix("\n"), last_id))
            kind = data = ""
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data += value + "\n"
        elif name == "id" and "\0" not in value:
            last_id = value
    return found


def cut(body: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(body) + 1) for place in places} | {0, len(body)})
    return [body[start:end] for start, end in pairwise(ends)]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [("message", "YHOO\n+2\n10", "")]),
        (
            b": test\n\ndata: first\nid: 1\n\ndata:second\nid\n\ndata:  third\n\n",
            [("message", "first", "1"), ("message", "second", ""), ("message", " third", "")],
        ),
        (b"data\n\ndata\ndata\n\ndata:", [("message", "", ""), ("message", "\n", "")]),
        (b"data:test\n\ndata: test\n\n", [("message", "test", "")] * 2),
        (b"event: add\ndata: 1\n\ndata: 2\n\n", [("add", "1", ""), ("message", "2", "")]),
        (b"event: add\n\ndata: 2\n\n", [("message", "2", "")]),
        (b"id: 1\n\ndata: x\n\n", [("message", "x", "1")]),
        (b"id: 1\ndata: a\n\nid: 2\0\ndata: b\n\n", [("message", "a", "1"), ("message", "b", "1")]),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [("message", "a", "")]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"data: a\r\rdata: b\r\n\r\ndata: c\n\n", [("message", x, "") for x in "abc"]),
        (b"data: \xff\xe2\x82\n\n", [("message", "\ufffd\ufffd", "")]),
        (b"Data: a\nDATA: b\n data: c\ndata : d\nnothing\n\n", []),
        (b"data: \xe2\x80\xa8\x85\x0b\x0c\n\n", [("message", "\u2028\ufffd\x0b\x0c", "")]),
        (b"data: a\n\ndata: not complete\n", [("message", "a", "")]),
        (b"data: a: b\n\n", [("message", "a: b", "")]),
    ],
)  # fmt: skip
def test_the_standards_rules(body: bytes, found: list[tuple[str, str, str]]) -> None:
    assert [(e.event, e.data, e.id) for e in events_of(body)] == found
    assert reference(body) == found


@pytest.mark.parametrize(
    ("value", "retry"),
    [
        ("3000", 3000),
        ("0", 0),
        ("000012", 12),
        ("-1", None),
        ("1.5", None),
        ("", None),
        ("1e3", None),
        ("\uff11\uff12", None),  # digits, but not of ASCII
        ("12 ", None),
        ("9" * 10_000, 10**18 - 1),
    ],
)
def test_a_retry_has_digits_alone(value: str, retry: int | None) -> None:
    parser = EventParser()
    body = f"retry: {value}\ndata: x\n\n".encode()
    assert [event.retry for event in parser.feed(body)] == [retry]
    assert parser.retry == retry


def test_a_retry_counts_without_an_event_and_belongs_to_one_block() -> None:
    parser = EventParser()
    (event,) = parser.feed(b"retry: 5\n\ndata: x\n\n")
    assert (event.retry, parser.retry) == (None, 5)


def test_an_event_without_an_id_has_that_of_the_connection_before() -> None:
    (event,) = EventParser("7").feed(b"data: x\n\n")
    assert event.id == "7"


def test_the_last_event_id_is_that_of_complete_events() -> None:
    parser = EventParser()
    assert len(list(parser.feed(b"id: 1\ndata: x\n\nid: 2\ndata: y\n"))) == 1
    assert parser.last_event_id == "1"


def test_a_line_that_ends_in_cr_ends_before_the_next_byte_comes() -> None:
    parser = EventParser()
    assert len(list(parser.feed(b"data: x\r\r"))) == 1
    assert list(parser.feed(b"\n")) == []
    assert [event.data for event in parser.feed(b"\ndata: y\r\n\r\n")] == ["y"]


@given(body=BYTES)
def test_a_whole_stream_reads_as_the_standards_text_says(body: bytes) -> None:
    assert [(e.event, e.data, e.id) for e in events_of(body)] == reference(body)


@given(body=BYTES, places=st.lists(st.integers(0, 1000), max_size=20))
def test_any_cuts_yield_the_same_events(body: bytes, places: list[int]) -> None:
    assert events_of(*cut(body, places)) == events_of(body)
    assert events_of(*(bytes([byte]) for byte in body)) == events_of(body)


@given(body=BYTES, places=st.lists(st.integers(0, 1000), max_size=20), size=st.integers(0, 12))
def test_any_cuts_yield_the_same_events_before_one_too_large(
    body: bytes, places: list[int], size: int
) -> None:
    def read(pieces: list[bytes]) -> tuple[list[ServerSentEvent], bool]:
        parser, found = EventParser(max_event_size=size), []
        try:
            for piece in pieces:
                for event in parser.feed(piece):
                    found.append(event)
        except ResponseTooLarge:
            return found, True
        return found, False

    assert read(cut(body, places)) == read([body])


@pytest.mark.parametrize(
    "body",
    [b"data: " + b"x" * 95, b":" + b"x" * 100, b"data: " + b"x" * 95 + b"\n\n", b"data: x\n" * 60],
)
def test_an_event_larger_than_the_bound_is_refused(body: bytes) -> None:
    with pytest.raises(ResponseTooLarge, match="max_event_size=100 bytes"):
        events_of(body, max_size=100)
    assert events_of(b"data: " + b"x" * 94 + b"\n\n", max_size=100)
    assert len(events_of(b"data: x\n\n: comment\n" * 100, max_size=100)) == 100


@pytest.mark.slow
@pytest.mark.parametrize("body", [b"data\n", b"data: ab\n", b"x"])
def test_small_pieces_take_little_more_memory_than_the_bound(body: bytes) -> None:
    parser, bound = EventParser(max_event_size=1 << 17), 1 << 17
    tracemalloc.start()
    try:
        with pytest.raises(ResponseTooLarge):
            for _ in range(1 << 18):
                list(parser.feed(body))
        assert tracemalloc.get_traced_memory()[1] < 6 * bound
    finally:
        tracemalloc.stop()


def test_an_event_reads_its_data_as_json() -> None:
    assert ServerSentEvent(data='{"a": [1, null]}').json() == {"a": [1, None]}
    assert ServerSentEvent(data="1.5").json(parse_float=str) == "1.5"


@pytest.mark.parametrize("data", ["[DONE]", "", "[" * 100_000, "1" * 10_000])
def test_data_that_is_no_json_is_an_error_of_ours(data: str) -> None:
    with pytest.raises(JSONDecodeError) as caught:
        ServerSentEvent(data=data).json()
    assert caught.value.doc == data
    assert isinstance(caught.value, json.JSONDecodeError)
