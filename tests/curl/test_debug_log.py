"""The log of one attempt, fed by hand as libcurl does."""

from __future__ import annotations

import re

import pycurl

from curlhttp._curl.libcurl_log import DebugLog

TEXT, IN, OUT = pycurl.INFOTYPE_TEXT, pycurl.INFOTYPE_HEADER_IN, pycurl.INFOTYPE_HEADER_OUT


def _told(*pieces: tuple[int, bytes]) -> list[str]:
    log = DebugLog(lambda kind, text: None, frozenset({"x-mine"}))
    for kind, text in pieces:
        log(kind, text)
    return [re.sub(r"^\+[\d.]+ ", "", line) for line in log.take()]


def test_a_head_in_pieces_shows_no_part_of_a_secret() -> None:
    head = b"GET / HTTP/1.1\r\nAuthorization: Bearer hidden-word\r\nX: 1\r\n\r\n"
    whole = ["> GET / HTTP/1.1", "> Authorization: [secret]", "> X: 1", "> "]
    for cut in range(1, len(head)):
        assert _told((OUT, head[:cut]), (OUT, head[cut:])) == whole


def test_a_line_that_did_not_end_is_not_shown() -> None:
    told = _told((OUT, b"GET / HTTP/1.1\r\nAuthorization: Bearer hid"))
    assert told == ["> GET / HTTP/1.1", "> 25 bytes of a line that did not end"]


def test_a_folded_secret_is_a_secret() -> None:
    told = _told(
        (IN, b"Set-Cookie: a\r\n"), (IN, b"\thidden\r\n"), (IN, b"X: 1\r\n"), (IN, b" 2\r\n")
    )
    assert told == ["< Set-Cookie: [secret]", "<  [secret]", "< X: 1", "<  2"]


def test_fields_that_http2_tells_apart_are_left_out() -> None:
    assert _told((TEXT, b"[HTTP/2] [1] [cookie: hidden]\n"), (TEXT, b"using HTTP/2\n")) == [
        "* using HTTP/2"
    ]


def test_of_bodies_there_are_only_their_sizes() -> None:
    told = _told((pycurl.INFOTYPE_DATA_OUT, b"hidden"), (pycurl.INFOTYPE_DATA_IN, b"a"))
    assert told == ["* 6 bytes of body sent", "* 1 bytes of body received"]


def test_nothing_is_collected_beyond_the_bound_or_after_the_end() -> None:
    log = DebugLog(lambda kind, text: None, frozenset())
    for _ in range(1000):
        log(IN, b"X: " + b"x" * 1000 + b"\r\n")
    told = list(log.take())
    assert 60 < len(told) < 70
    assert "left out" in told[-1]
    log(IN, b"Y: 1\r\n")
    assert not log._found


def test_the_lines_go_to_who_reads_libcurls_log_first() -> None:
    heard: list[bytes] = []
    log = DebugLog(lambda kind, text: heard.append(text), frozenset())
    log(TEXT, b"[HTTP/2] [1] [a: b]\n")
    assert heard == [b"[HTTP/2] [1] [a: b]\n"]
