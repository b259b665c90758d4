"""What is read in libcurl's log and messages: news that counts, and all else passed over."""

from __future__ import annotations

import pycurl
import pytest

from curlhttp._curl.libcurl_log import get_stream_reset, is_excluded_by_goaway, parse_log_event

TEXT = int(pycurl.INFOTYPE_TEXT)

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
def test_a_line_that_counts_is_news(line: bytes) -> None:
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
def test_any_other_line_is_none(line: bytes) -> None:
    assert parse_log_event(TEXT, line) is None


@pytest.mark.parametrize("kind", ["INFOTYPE_HEADER_IN", "INFOTYPE_DATA_IN"])
def test_what_a_server_sends_is_no_news(kind: str) -> None:
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


def test_what_the_server_reset_is_not_left_out_by_a_goaway() -> None:
    assert not is_excluded_by_goaway("HTTP/2 stream 7 reset by server (error 0xb)")
    assert not is_excluded_by_goaway("HTTP/2 stream 7 reset by curl")


def test_a_message_tells_which_stream_libcurl_has_ended() -> None:
    assert get_stream_reset("HTTP/2 stream 7 reset by curl (error 0x8 CANCEL)") == 7
    assert get_stream_reset("HTTP/2 stream 7 was not closed cleanly") == 0
    assert get_stream_reset("") == 0
