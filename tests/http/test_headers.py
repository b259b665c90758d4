"""Header fields and methods: what is refused, what is kept, what libcurl gets."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import ClientRequest, Headers
from curlhttp.exceptions import InvalidHeader, InvalidMethod

BLOCK = (
    b"HTTP/1.1 200 OK\r\n"
    b"Date: Mon, 01 Jan 2024 00:00:00 GMT\r\n"
    b"Set-Cookie: a=1\r\n"
    b"X-Empty:\r\n"
    b"set-cookie:b=2 \t\r\n"
    b"\r\n"
)


def check_header(name: Any, value: Any) -> tuple[str, str]:
    """Return a field as a request sends it."""
    (field,) = Headers([(name, value)]).multi_items()
    return field


def check_method(method: Any) -> str:
    return ClientRequest(method, "http://h/").method


TOKEN = st.text("!#$%&'*+-.^_`|~0123456789abcXYZ", min_size=1, max_size=12)
FIELD_TEXT = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=20
).map(lambda text: text.strip(" "))


@pytest.mark.parametrize(
    "name", ["", "a b", "a:", ":a", "a\r", "a\nb", "a\0", "\x7f", "é", " a", "(a)"]
)
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    """Text and bytes alike."""
    with pytest.raises(InvalidHeader):
        check_header(name, "x")
    with pytest.raises(InvalidHeader):
        Headers({name.encode(): b"x"})


@pytest.mark.parametrize(
    "value",
    [
        "s\r\nX: y",
        "s\n",
        "\rs",
        "s\0",
        " s",
        "s ",
        "\ts",
        "s\t",
        " ",
        "s\x01",
        "s\x7f",
        "s\u20ac",
        "s\n\n",
    ],
)
def test_a_value_that_would_break_the_block_is_refused_without_being_shown(value: str) -> None:
    """Line ends, NUL, blanks at an end, beyond Latin-1."""
    with pytest.raises(InvalidHeader) as caught:
        check_header("X-Token", "SECRET" + value if value[0] == "s" else value + "SECRET")
    assert "'X-Token'" in str(caught.value)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("value", [b"a\r\nb: c", b"a\0", b" a", b"a\x01"])
def test_bytes_are_checked_like_text(value: bytes) -> None:
    """In bytes."""
    with pytest.raises(InvalidHeader):
        check_header(b"X", value)


@pytest.mark.parametrize("value", [1, None, 1.5, ["a"], bytearray(b"a")])
def test_a_value_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(InvalidHeader, match="must be str or bytes"):
        Headers([("X", value)])  # type: ignore[list-item]


def test_a_header_line_passed_as_a_name_does_not_show_its_value() -> None:
    with pytest.raises(InvalidHeader) as caught:
        check_header("Authorization: Bearer SECRET", "")
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("value", ["", "a", "a b", "a\tb", "\xe9", "\x80", '"q"', "a,  b"])
def test_a_valid_value_is_returned_unchanged(value: str) -> None:
    assert check_header("X", value) == ("X", value)
    assert check_header(b"X", value.encode("latin-1")) == ("X", value)


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ("http://u:p@h.test/a", "http://h.test/a"),
        ("HTTPS://u@h.test", "HTTPS://h.test"),
        ("//u:p@h.test/a@b", "//h.test/a@b"),
        ("http://u:p@x@h.test?a@b", "http://h.test?a@b"),
        ("http://h.test/a@b", "http://h.test/a@b"),
        ("http://h.test?a@b", "http://h.test?a@b"),
        ("http://h.test#a@b", "http://h.test#a@b"),
        ("http:\\\\u:p@h.test\\a", "http:\\\\h.test\\a"),
        ("me@h.test", "me@h.test"),
        ("null", "null"),
    ],
)
def test_referer_and_origin_have_no_userinfo(value: str, sent: str) -> None:
    """The same in a header that was received and is sent on."""
    for name in ("Referer", "ORIGIN"):
        assert check_header(name, value) == (name, sent)
        assert check_header(name.encode(), value.encode()) == (name, sent)
        line = f"{name}: {value}".encode()
        assert Headers.from_block(line).lines() == [f"{name}: {sent}".encode()]
    assert check_header("X-Url", value) == ("X-Url", value)


@given(TOKEN, FIELD_TEXT)
def test_a_sent_field_is_parsed_as_the_same_field(name: str, value: str) -> None:
    (line,) = Headers([(name, value)]).lines()
    assert b"\r" not in line
    assert b"\n" not in line
    received = Headers.from_block(line.replace(b";", b":", 1) if not value else line)
    assert received.multi_items() == [(name, value)]


@given(st.text(max_size=8), st.text(max_size=8))
def test_nothing_that_passes_the_check_can_end_a_line(name: str, value: str) -> None:
    """Any name with any value."""
    try:
        lines = Headers([(name, value)]).lines()
    except InvalidHeader:
        return
    assert len(lines) == 1
    assert not set(lines[0]) & {0, 10, 13}


def test_names_are_found_in_any_case_and_shown_as_written() -> None:
    headers = Headers({"Content-Type": "text/plain"})
    assert headers["content-type"] == headers["CONTENT-TYPE"] == "text/plain"
    assert "CONTENT-type" in headers
    assert list(headers) == ["Content-Type"]
    assert object() not in headers
    with pytest.raises(KeyError):
        headers["accept"]
    assert headers.get("accept") is None
    assert headers.get("accept", "x") == "x"
    assert headers.get("content-TYPE", "x") == "text/plain"


def test_repeats_are_joined_for_reading_and_separate_in_lists() -> None:
    headers = Headers([("A", "1"), ("B", "2"), ("a", "3")])
    assert headers["a"] == "1, 3"
    assert headers.get_list("A") == ["1", "3"]
    assert headers.multi_items() == [("A", "1"), ("B", "2"), ("a", "3")]
    assert list(headers.items()) == [("A", "1, 3"), ("B", "2")]
    assert len(headers) == 2


def test_setting_replaces_every_repeat_at_the_position_of_the_first() -> None:
    headers = Headers([("A", "1"), ("B", "2"), ("a", "3")])
    headers["a"] = "4"
    assert headers.multi_items() == [("a", "4"), ("B", "2")]
    headers["C"] = b"5"
    assert headers.multi_items()[-1] == ("C", "5")


def test_adding_appends_and_deleting_removes_every_repeat() -> None:
    headers = Headers({"A": "1", "B": "2"})
    assert headers["a"] == "1"
    headers.add("a", "3")
    assert headers["a"] == "1, 3"
    del headers["A"]
    assert headers.multi_items() == [("B", "2")]
    with pytest.raises(KeyError):
        del headers["A"]


@pytest.mark.parametrize(
    "change",
    [
        lambda headers: headers.__setitem__("X", "a\nb"),
        lambda headers: headers.add("X", "a\nb"),
        lambda headers: headers.update({"X": "a\nb"}),
        lambda headers: headers.setdefault("X", "a\nb"),
        lambda headers: headers.merged({"X": "a\nb"}),
    ],
)
def test_every_change_is_checked(change: Callable[[Headers], object]) -> None:
    headers = Headers({"A": "1"})
    with pytest.raises(InvalidHeader):
        change(headers)
    assert headers.multi_items() == [("A", "1")]


def test_a_received_block_keeps_order_case_and_repeats() -> None:
    headers = Headers.from_block(BLOCK)
    assert headers.multi_items() == [
        ("Date", "Mon, 01 Jan 2024 00:00:00 GMT"),
        ("Set-Cookie", "a=1"),
        ("X-Empty", ""),
        ("set-cookie", "b=2"),
    ]
    assert headers["SET-COOKIE"] == "a=1, b=2"


@pytest.mark.parametrize(
    "block", [b"", b"\r\n", b"HTTP/2 204 \r\n\r\n", b"HTTP/1.1 200 OK: fine\r\n", b"no colon\r\n"]
)
def test_a_block_without_fields_is_empty(block: bytes) -> None:
    assert Headers.from_block(block).multi_items() == []


@pytest.mark.parametrize("fold", [b"\r\n ", b"\r\n\t", b" \r\n  ", b"\n "])
def test_a_folded_header_is_one_value(fold: bytes) -> None:
    """Lines that are folded are one value."""
    headers = Headers.from_block(b"A: one" + fold + b"two\r\nB: 3\r\n\r\n")
    assert headers.multi_items() == [("A", "one two"), ("B", "3")]


def test_control_bytes_of_a_response_are_opaque() -> None:
    """As they came."""
    headers = Headers.from_block(b"A: x\x85y\x0bz\xff\x1c\rw\r\nB: \xc3\xa9\r\n\r\n")
    assert headers.multi_items() == [("A", "x\x85y\x0bz\xff\x1c\rw"), ("B", "\xc3\xa9")]


@given(st.binary(max_size=200))
def test_any_block_can_be_read(block: bytes) -> None:
    headers = Headers.from_block(block)
    names = [name for name, _ in headers.multi_items()]
    assert len(headers) == len({name.lower() for name in names})
    assert all("\n" not in value for value in headers.values())


def test_received_headers_are_checked_before_they_are_sent_on() -> None:
    """What a server sent is not sent on unchecked."""
    received = Headers.from_block(b"A: x\x00y\r\n\r\n")
    merged = received.merged({"B": "1"})
    for send in (received.lines, received.copy().lines, merged.lines):
        with pytest.raises(InvalidHeader):
            send()
    for take in (Headers, Headers().merged):
        with pytest.raises(InvalidHeader):
            take(received)
    assert Headers(Headers.from_block(b"A: b\r\n")).lines() == [b"A: b"]


def test_lines_are_in_the_form_that_libcurl_takes() -> None:
    headers = Headers([("A", "1"), ("Empty", ""), ("L", "\xe9")])
    assert headers.lines() == [b"A: 1", b"Empty;", b"L: \xe9"]


def test_merging_overrides_all_repeats_in_place_with_the_casing_of_the_other() -> None:
    ours = Headers([("User-Agent", "u"), ("Accept", "a"), ("X", "1"), ("accept", "b")])
    merged = ours.merged([("ACCEPT", "c"), ("New", "n"), ("accept", b"d")])
    assert merged.multi_items() == [
        ("User-Agent", "u"),
        ("ACCEPT", "c"),
        ("accept", "d"),
        ("X", "1"),
        ("New", "n"),
    ]
    assert ours.get_list("accept") == ["a", "b"]


def test_merging_none_removes_a_header() -> None:
    ours = Headers({"User-Agent": "u", "Accept": "a"})
    assert ours.merged({"user-agent": None, "Unknown": None}).multi_items() == [("Accept", "a")]


@pytest.mark.parametrize("other", [None, {}, [], Headers()])
def test_merging_nothing_returns_an_independent_copy(other: None) -> None:
    ours = Headers({"A": "1"})
    merged = ours.merged(other)
    merged["B"] = "2"
    assert ours.multi_items() == [("A", "1")]


def test_copies_change_on_their_own() -> None:
    headers = Headers.from_block(b"A: 1\r\n")
    for twin in (headers.copy(), copy.copy(headers), copy.deepcopy(headers), Headers(headers)):
        assert twin == headers
        twin["A"] = "2"
        assert headers["A"] == "1"


def test_equality_ignores_case_of_names_only() -> None:
    headers = Headers([("A", "x"), ("B", "y"), ("a", "z")])
    assert headers == {"b": "y", "A": "x, z"}
    assert headers == Headers([("a", "x"), ("A", "z"), ("b", "y")])
    assert headers != {"b": "Y", "A": "x, z"}
    assert headers != {"b": "y"}
    assert headers != 5
    assert headers != {1: "y"}


def test_secrets_are_not_in_the_repr() -> None:
    """No message, repr or log shows a secret."""
    names = ("Authorization", "PROXY-AUTHORIZATION", "Cookie", "Set-Cookie")
    shown = repr(Headers([(name, "hunter2") for name in names] + [("A", "plain")]))
    assert "hunter2" not in shown
    assert shown.count("[secret]") == 4
    assert "('A', 'plain')" in shown


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_headers_survive_pickling(protocol: int) -> None:
    for headers in (Headers.from_block(BLOCK), Headers([("A", "1"), ("a", "2")])):
        twin = pickle.loads(pickle.dumps(headers, protocol))
        assert twin.multi_items() == headers.multi_items()


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("GET", "GET"),
        ("get", "GET"),
        (b"post", "POST"),
        ("pUt", "PUT"),
        ("purge", "PURGE"),
        ("M-SEARCH", "M-SEARCH"),
    ],
)
def test_a_method_is_upper_cased(method: str | bytes, expected: str) -> None:
    assert check_method(method) == expected


@pytest.mark.parametrize(
    "method",
    [
        "",
        "G ET",
        "GET / HTTP/1.1\r\nX: y",
        "GET\n",
        "GET\0",
        "GÉT",
        "ß",
        b"G\xc9T",
        b"",
        "GET:",
        None,
        5,
    ],
)
def test_a_method_that_is_no_token_is_refused(method: str) -> None:
    """A method is a token."""
    with pytest.raises(InvalidMethod):
        check_method(method)


# --- with the type of a body ---


def test_headers_with_a_type_are_the_same_until_something_changes() -> None:
    headers = Headers({"A": "b"}, sensitive=["A"])
    typed = headers.with_type("text/a")
    assert typed.multi_items() == [("A", "b"), ("Content-Type", "text/a")]
    assert typed.sensitive == headers.sensitive
    assert headers.with_type("text/a") is typed
    assert headers.with_type("text/b")["Content-Type"] == "text/b"
    assert headers.with_type("text/a")["Content-Type"] == "text/a"
    headers["A"] = "c"
    assert headers.with_type("text/a")["A"] == "c"
    headers.sensitive = frozenset()
    assert headers.with_type("text/a").sensitive == frozenset()
    assert "Content-Type" not in headers
    assert typed["A"] == "b"


def test_a_type_that_would_end_its_line_is_refused() -> None:
    with pytest.raises(InvalidHeader):
        Headers().with_type("a\r\nB: c")
