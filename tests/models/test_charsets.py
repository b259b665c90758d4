"""What a name of a charset means, and text that comes in pieces."""

from __future__ import annotations

import codecs
import encodings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curlhttp._models.charsets import (
    _CHARSETS,
    _MORE_NAMES,
    Decoder,
    chosen_charset,
    decode,
    known_charset,
)

UNFIT = ["", "nonsense", "base64", "rot13", "zlib", "idna", "punycode", "undefined", "\0"]
# Escape sequences, shifts, lead bytes and byte order marks beside whatever else there is.
BODIES = st.binary(max_size=40) | st.lists(
    st.sampled_from([b"\x1b", b"$", b"(", b"B", b"\x0e", b"~{", b"\x81", b"0", b"\xff\xfe", b"\0"]),
    max_size=40,
).map(b"".join)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("UTF-8", "utf_8"),
        ("utf8", "utf_8"),
        ("ISO-8859-1", "latin_1"),
        ("latin1", "latin_1"),
        ("us-ascii", "ascii"),
        ("Windows-1252", "cp1252"),
        ("Shift_JIS", "shift_jis"),
        ("x-sjis", "shift_jis"),
        ("EUC-KR", "euc_kr"),
        ("ks_c_5601-1987", "cp949"),
        ("GB2312", "gb2312"),
        ("big5-hkscs", "big5hkscs"),
        ("windows-874", "cp874"),
        ("iso-8859-8-i", "iso8859_8"),
        ("macintosh", "mac_roman"),
        ("UTF-16LE", "utf_16_le"),
        (" utf-8 ", "utf_8"),
    ],
)
def test_a_charset_of_http_is_known_by_its_names(name: str, codec: str) -> None:
    assert known_charset(name) == codec
    assert chosen_charset(name) == codec


@pytest.mark.parametrize(
    "name",
    [*UNFIT, "utf-7", "mbcs", "unicode_escape", "raw_unicode_escape", "charmap", "a" * 100_000],
)
def test_other_names_mean_nothing_and_are_not_looked_up(name: str) -> None:
    cache: dict[str, object] = encodings._cache
    before = len(cache)
    assert known_charset(name) is None
    assert len(cache) == before  # Python keeps each name that it looks up, for good


@pytest.mark.parametrize(
    ("name", "codec"),
    [("utf-7", "utf-7"), ("unicode_escape", "unicode-escape"), ("cp037", "cp037")],
)
def test_a_caller_may_choose_another_codec_for_text(name: str, codec: str) -> None:
    assert chosen_charset(name) == codec


@pytest.mark.parametrize("name", UNFIT)
def test_a_caller_cannot_choose_what_is_no_charset(name: str) -> None:
    assert chosen_charset(name) is None


def test_every_charset_is_one_of_python() -> None:
    for charset in _CHARSETS:
        assert codecs.getincrementaldecoder(charset)
        assert known_charset(charset) == charset
    assert set(_MORE_NAMES.values()) <= _CHARSETS


@settings(max_examples=2000)
@given(charset=st.sampled_from(sorted(_CHARSETS)), body=BODIES, size=st.integers(1, 9))
def test_no_bytes_make_a_decoder_fail(charset: str, body: bytes, size: int) -> None:
    decode(body, charset)
    decoder = Decoder(charset)
    for at in range(0, len(body), size):
        decoder.decode(body[at : at + size])
    decoder.decode(b"", True)


@settings(max_examples=1000)
@given(
    charset=st.sampled_from(sorted(_CHARSETS)),
    text=st.text(alphabet="a é€я日本한中ก\n~", max_size=20),
    size=st.integers(1, 9),
)
def test_pieces_of_text_make_the_whole(charset: str, text: str, size: int) -> None:
    body = text.encode(charset, errors="ignore")
    decoder = Decoder(charset)
    pieces = [decoder.decode(body[at : at + size]) for at in range(0, len(body), size)]
    assert "".join(pieces) + decoder.decode(b"", True) == decode(body, charset)


@pytest.mark.parametrize("charset", ["utf_16", "utf_32"])
@pytest.mark.parametrize("order", ["_le", "_be"])
def test_a_byte_order_mark_is_heeded_and_left_out(charset: str, order: str) -> None:
    body = "\ufeffhé".encode(charset + order)
    decoder = Decoder(charset)
    pieces = [decoder.decode(body[at : at + 1]) for at in range(len(body))]
    assert "".join(pieces) + decoder.decode(b"", True) == decode(body, charset) == "hé"


@pytest.mark.parametrize("charset", ["utf_16", "utf_32"])
@pytest.mark.parametrize("text", ["", "h", "hé"])
def test_without_a_byte_order_mark_the_little_end_comes_first(charset: str, text: str) -> None:
    body = text.encode(charset + "_le")
    decoder = Decoder(charset)
    pieces = [decoder.decode(body[at : at + 1]) for at in range(len(body))]
    assert "".join(pieces) + decoder.decode(b"", True) == decode(body, charset) == text


@pytest.mark.parametrize("charset", ["utf_16", "utf_32"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_body_that_ends_within_a_character_is_replaced(charset: str, size: int) -> None:
    decoder = Decoder(charset)
    assert decoder.decode(b"h" * size) + decoder.decode(b"", True) == decode(b"h" * size, charset)
