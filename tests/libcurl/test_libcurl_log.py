"""Parsing of libcurl's log and messages, and the log of one attempt."""

from __future__ import annotations

import re

import pycurl
import pytest

from curlhttp._libcurl.libcurl_log import (
    DebugLog,
    get_stream_reset,
    is_excluded_by_goaway,
    parse_log_event,
)

TEXT, IN, OUT = pycurl.INFOTYPE_TEXT, pycurl.INFOTYPE_HEADER_IN, pycurl.INFOTYPE_HEADER_OUT

LINES = {
    b"HTTP/2 stream 3 refused by server, try again on a new connection\n": ("refused", 0),
    b"HTTP/3 stream 0 refused by server\n": ("refused", 0),
    b"received GOAWAY, error=0, last_stream=5\n": ("goaway", 5),
    b"Downgrades to HTTP/1.1\n": ("downgrades", 0),
    b"ALPN: server accepted h2\n": ("alpn", 1),
    b"ALPN: server accepted http/1.1\n": ("alpn", 0),
    b"ALPN: server did not agree on a protocol. Uses default.\n": ("alpn", 0),
}


@pytest.mark.parametrize("line", LINES)
def test_an_important_line_is_parsed(line: bytes) -> None:
    assert parse_log_event(TEXT, line) == LINES[line]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[HTTP/2] [1] OPENED stream for https://h.test/\n",
        b"HTTP/2 stream 1 was not closed cleanly\n",
        b"received GOAWAY, error=0\n",
        b"ALPN: curl offers h2,http/1.1\n",
        b"Connection #0 to host h.test left intact\n",
    ],
)
def test_any_other_line_is_ignored(line: bytes) -> None:
    assert parse_log_event(TEXT, line) is None


@pytest.mark.parametrize("kind", ["INFOTYPE_HEADER_IN", "INFOTYPE_DATA_IN"])
def test_bytes_of_a_server_are_not_parsed(kind: str) -> None:
    line = b"HTTP/2 stream 3 refused by server\n"
    assert parse_log_event(int(getattr(pycurl, kind)), line) is None


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("0x0 NO_ERROR", True),
        ("0x1 PROTOCOL_ERROR", False),
        ("0x8 CANCEL", False),
        ("0xb ENHANCE_YOUR_CALM", True),
        ("0xfffffc7a unknown", True),
    ],
)
def test_a_reason_that_nghttp2_has_for_no_stream_is_that_of_a_goaway(
    reason: str, expected: bool
) -> None:
    assert is_excluded_by_goaway(f"HTTP/2 stream 7 reset by curl (error {reason})") is expected


def test_a_stream_that_the_server_reset_is_not_excluded_by_a_goaway() -> None:
    assert not is_excluded_by_goaway("HTTP/2 stream 7 reset by server (error 0xb)")
    assert not is_excluded_by_goaway("HTTP/2 stream 7 reset by curl")


def test_the_reset_stream_is_parsed_from_a_message() -> None:
    assert get_stream_reset("HTTP/2 stream 7 reset by curl (error 0x8 CANCEL)") == 7
    assert get_stream_reset("HTTP/2 stream 7 was not closed cleanly") == 0
    assert get_stream_reset("") == 0


# --- the log of one attempt ---


def _collect(*pieces: tuple[int, bytes]) -> list[str]:
    log = DebugLog(lambda kind, text: None, frozenset({"x-mine"}))
    for kind, text in pieces:
        log(kind, text)
    return [re.sub(r"^\+[\d.]+ ", "", line) for line in log.take()]


def test_a_head_in_pieces_shows_no_part_of_a_secret() -> None:
    head = b"GET / HTTP/1.1\r\nAuthorization: Bearer hidden-word\r\nX: 1\r\n\r\n"
    whole = ["> GET / HTTP/1.1", "> Authorization: [secret]", "> X: 1", "> "]
    for cut in range(1, len(head)):
        assert _collect((OUT, head[:cut]), (OUT, head[cut:])) == whole


def test_an_incomplete_line_is_not_shown() -> None:
    lines = _collect((OUT, b"GET / HTTP/1.1\r\nAuthorization: Bearer hid"))
    assert lines == ["> GET / HTTP/1.1", "> 25 bytes of a line that did not end"]


def test_a_folded_secret_is_a_secret() -> None:
    lines = _collect(
        (IN, b"Set-Cookie: a\r\n"), (IN, b"\thidden\r\n"), (IN, b"X: 1\r\n"), (IN, b" 2\r\n")
    )
    assert lines == ["< Set-Cookie: [secret]", "<  [secret]", "< X: 1", "<  2"]


def test_header_fields_in_http2_debug_lines_are_left_out() -> None:
    assert _collect((TEXT, b"[HTTP/2] [1] [cookie: hidden]\n"), (TEXT, b"using HTTP/2\n")) == [
        "* using HTTP/2"
    ]


def test_bodies_are_logged_by_size_only() -> None:
    lines = _collect((pycurl.INFOTYPE_DATA_OUT, b"hidden"), (pycurl.INFOTYPE_DATA_IN, b"a"))
    assert lines == ["* 6 bytes of body sent", "* 1 bytes of body received"]


def test_nothing_is_collected_beyond_the_bound_or_after_the_end() -> None:
    log = DebugLog(lambda kind, text: None, frozenset())
    for _ in range(1000):
        log(IN, b"X: " + b"x" * 1000 + b"\r\n")
    lines = list(log.take())
    assert 60 < len(lines) < 70
    assert "left out" in lines[-1]
    log(IN, b"Y: 1\r\n")
    assert not any("Y: 1" in line for line in log.take())


def test_lines_are_passed_to_the_other_reader_of_the_log_first() -> None:
    seen: list[bytes] = []
    log = DebugLog(lambda kind, text: seen.append(text), frozenset())
    log(TEXT, b"[HTTP/2] [1] [a: b]\n")
    assert seen == [b"[HTTP/2] [1] [a: b]\n"]
