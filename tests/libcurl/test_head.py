"""The final head among header lines, and invalid heads that libcurl accepts."""

from __future__ import annotations

import pytest

from curlhttp import ClientRequest
from curlhttp._libcurl.head import has_unasked_upgrade, lacks_status_line, parse_response_head

GET = ClientRequest("GET", "http://h.test/")
UPGRADE = ClientRequest("GET", "http://h.test/", {"Upgrade": "websocket"})


def lines(*heads: str) -> list[bytes]:
    return [line.encode() + b"\r\n" for head in heads for line in (*head.split("\n"), "")]


def test_the_final_head_follows_informational_heads() -> None:
    head = parse_response_head(
        lines("HTTP/1.1 103 Early Hints\nLink: </a>", "HTTP/1.1 200 OK\nA: b"), GET
    )
    assert head is not None
    assert head.status_code == 200


@pytest.mark.parametrize(
    "found",
    [
        [],
        lines("HTTP/1.1 200 OK\nA: b")[:-1],
        lines("HTTP/1.1 103 Early Hints"),
        lines("HTTP/1.1 2000 OK"),
        lines("HTTP/1.1 101 Switching Protocols"),
    ],
)
def test_without_a_whole_final_head_there_is_no_response(found: list[bytes]) -> None:
    assert parse_response_head(found, GET) is None


def test_a_101_is_final_for_a_request_with_an_upgrade() -> None:
    switch = lines("HTTP/1.1 101 Switching Protocols")
    head = parse_response_head(switch, UPGRADE)
    assert head is not None
    assert head.status_code == 101
    assert has_unasked_upgrade(switch, GET)
    assert not has_unasked_upgrade(switch, UPGRADE)
    assert not has_unasked_upgrade(lines("HTTP/1.1 200 OK"), GET)


def test_a_head_without_a_status_line_is_invalid() -> None:
    assert lacks_status_line(lines("HTTP/1.1 2000 OK"))
    assert lacks_status_line(lines("HTTP/1.1 103 Early Hints", "HTTP/1.1 20"))
    assert not lacks_status_line(lines("HTTP/1.1 200 OK\nA: b"))
