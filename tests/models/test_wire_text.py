"""What went over the wire, as text: nothing lost but credentials and control characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp._models.wire_text import head_line, note_line, printable


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"GET /a?b=1 HTTP/1.1", "GET /a?b=1 HTTP/1.1"),
        (b"GET /a?token=x&b=1 HTTP/2", "GET /a?token=***&b=1 HTTP/2"),
        (b"GET http://u:p@host/?key=x HTTP/1.1", "GET http://***@host/?key=*** HTTP/1.1"),
        (b"CONNECT host:443 HTTP/1.1", "CONNECT host:443 HTTP/1.1"),
        (b"HTTP/1.1 200 OK: fine", "HTTP/1.1 200 OK: fine"),
        (b"Authorization: Bearer x", "Authorization: [secret]"),
        (b"authorization:x", "authorization: [secret]"),
        (b"Set-Cookie : a=x", "Set-Cookie : [secret]"),
        (b"X-Mine: x", "X-Mine: [secret]"),
        (b"X-Other:  two  blanks", "X-Other:  two  blanks"),
        (b"Location: http://u:p@h/?sig=x", "Location: http://***@h/?sig=***"),
        (b" http://u:p@h/?sig=x", " http://***@h/?sig=***"),
        (b"\t&token=x", r"\x09&token=***"),
        (b"GET /?keyGET /?key=x HTTP/1.1", "GET /?keyGET /?key=***"),  # cut, and sent anew
        (b"X: \x1b[2J\xff\t", r"X: \x1b[2J\xff\x09"),
        (b"", ""),
    ],
)
def test_a_line_of_a_head_is_shown_without_its_secrets(raw: bytes, shown: str) -> None:
    assert head_line(raw, {"x-mine"}) == shown


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"Proxy auth using Basic with user 'it's me'\n", "Proxy auth using Basic with user '***'"),
        (b"HSTS => https://u:p@host/?token=x \n", "HSTS => https://***@host/?token=***"),
        (b"to 'http://h/?a='&token=x'", "to 'http://h/?a='&token=***"),
        (b"  Trying 127.0.0.1:80...\n", "  Trying 127.0.0.1:80..."),
    ],
)
def test_a_line_of_libcurls_log_is_shown_without_users_and_secrets(raw: bytes, shown: str) -> None:
    assert note_line(raw) == shown


@given(st.binary())
def test_any_bytes_become_one_printable_line(raw: bytes) -> None:
    for text in (printable(raw), head_line(raw, ()), note_line(raw)):
        assert text == "" or text.isprintable()
