"""Codings: each body is decoded whole or refused, in any chunks, in bounded memory; charsets."""

from __future__ import annotations

import codecs
import encodings
import gzip
import itertools
import re
import time
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from curlhttp._http.decoding import (
    _CHARSETS,
    _MORE_NAMES,
    ACCEPT_ENCODING,
    MAX_CODINGS,
    ByteChunks,
    ContentDecoder,
    LineChunks,
    TextDecoder,
    chosen_charset,
    decode_text,
    known_charset,
    parse_codings,
    undo_codings,
)
from curlhttp.exceptions import ContentDecodingError, ResponseTooLarge
from tests.support.codings import zstd
from tests.support.pace import assert_cheap

MIB = 1024 * 1024


def raw_deflate(data: bytes) -> bytes:
    squeeze = zlib.compressobj(wbits=-15)
    return squeeze.compress(data) + squeeze.flush()


ENCODERS: list[tuple[str, str, Callable[[bytes], bytes]]] = [
    ("gzip", "gzip", gzip.compress),
    ("deflate", "deflate", zlib.compress),
    ("raw deflate", "deflate", raw_deflate),
    ("br", "br", brotli.compress),
]
if zstd is not None:
    ENCODERS.append(("zstd", "zstd", zstd.compress))

every_coding = pytest.mark.parametrize(
    ("coding", "encode"), [pytest.param(c, e, id=name) for name, c, e in ENCODERS]
)
needs_zstd = pytest.mark.skipif(zstd is None, reason="no zstd module")


def in_chunks(chunks: Sequence[bytes], names: Sequence[str], limit: int = 65536) -> bytes:
    decoder = ContentDecoder(names)
    body = b""
    for chunk in chunks:
        decoder.feed(chunk)
        while piece := decoder.take(limit):
            assert len(piece) <= limit
            body += piece
    decoder.finish()
    return body


def split(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


# --- codings() ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], ()),
        ([""], ()),
        (["identity"], ()),
        (["gzip"], ("gzip",)),
        (["GZip"], ("gzip",)),
        (["x-gzip"], ("gzip",)),
        (["deflate ,\tbr,, identity"], ("deflate", "br")),
        (["gzip", "br"], ("gzip", "br")),
        (["compress"], ()),
        (["gzip, pig-latin"], ()),
    ],
)
def test_codings_are_named_in_the_order_they_were_applied(
    headers: list[str], expected: tuple[str, ...]
) -> None:
    assert parse_codings(headers) == expected


def test_the_allowed_number_of_codings_is_allowed() -> None:
    assert parse_codings(["gzip"] * MAX_CODINGS) == ("gzip",) * MAX_CODINGS


@pytest.mark.parametrize("headers", [["gzip"] * 6, [",".join(["br"] * 6)], ["x"] * 100])
def test_too_many_codings_are_refused(headers: list[str]) -> None:
    """More than five codings are refused."""
    with pytest.raises(ContentDecodingError, match="at most 5"):
        parse_codings(headers)


def test_exactly_the_supported_codings_are_advertised() -> None:
    advertised = ACCEPT_ENCODING.split(", ")
    assert advertised[:3] == ["gzip", "deflate", "br"]
    assert ("zstd" in advertised) == (zstd is not None)
    assert parse_codings(advertised) == tuple(advertised)


# --- whole bodies ------------------------------------------------------------------------


@every_coding
@pytest.mark.parametrize("size", [0, 1, 1000, 3 * MIB])
def test_a_body_is_decoded_whole(coding: str, encode: Callable[[bytes], bytes], size: int) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    assert undo_codings(encode(body), (coding,)) == body


def test_a_body_without_codings_is_unchanged() -> None:
    assert undo_codings(b"as it is", ()) == b"as it is"
    assert in_chunks([b"as ", b"it is"], (), limit=2) == b"as it is"


@every_coding
def test_a_body_of_no_bytes_needs_no_coding(coding: str, encode: Callable[[bytes], bytes]) -> None:
    assert undo_codings(b"", (coding,)) == b""
    assert in_chunks([b""], (coding, "gzip")) == b""
    assert in_chunks([], (coding,)) == b""


def test_chained_codings_are_decoded_in_reverse() -> None:
    body = b"once upon a time " * 5000
    wire = gzip.compress(brotli.compress(zlib.compress(body)))
    assert undo_codings(wire, ("deflate", "br", "gzip")) == body
    with pytest.raises(ContentDecodingError):
        undo_codings(wire, ("gzip", "br", "deflate"))


def test_every_gzip_member_counts() -> None:
    """Every member of a gzip body counts."""
    wire = b"".join(map(gzip.compress, [b"one ", b"", b"two ", b"three"]))
    assert undo_codings(wire, ("gzip",)) == b"one two three"
    assert in_chunks([wire[i : i + 1] for i in range(len(wire))], ("gzip",)) == b"one two three"


@pytest.mark.parametrize(
    "rest", [b"\0", b"\0" * 600, b"garbage", b"\x1fgarbage", b"\0\0garbage", b"\0garbage\x1f\x8b"]
)
def test_padding_and_garbage_after_gzip_are_ignored(rest: bytes) -> None:
    wire = gzip.compress(b"body") + rest
    assert undo_codings(wire, ("gzip",)) == b"body"
    assert in_chunks([wire[i : i + 1] for i in range(len(wire))], ("gzip",)) == b"body"


def test_a_member_after_padding_counts() -> None:
    wire = gzip.compress(b"one ") + bytes(512) + gzip.compress(b"two")
    assert undo_codings(wire, ("gzip",)) == b"one two"


@pytest.mark.parametrize("encode", [zlib.compress, raw_deflate])
def test_bytes_after_deflate_are_ignored(encode: Callable[[bytes], bytes]) -> None:
    assert undo_codings(encode(b"body") + b"garbage", ("deflate",)) == b"body"
    assert in_chunks([encode(b"body"), b"garbage"], ("deflate",)) == b"body"


@needs_zstd
def test_every_zstd_frame_counts() -> None:
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    frames = [zstd.compress(b"one "), skippable, zstd.compress(b""), zstd.compress(b"two")]
    assert undo_codings(b"".join(frames), ("zstd",)) == b"one two"
    assert in_chunks(frames, ("zstd",), limit=1) == b"one two"


# --- broken bodies -----------------------------------------------------------------------


@every_coding
def test_a_body_cut_at_any_byte_is_refused(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """A coded body that is cut is an error."""
    wire = encode(b"the quick brown fox jumps over the lazy dog " * 3)
    for cut in range(1, len(wire)):
        with pytest.raises(ContentDecodingError, match=f"the {coding} body is truncated"):
            undo_codings(wire[:cut], (coding,))
        with pytest.raises(ContentDecodingError, match=f"the {coding} body is truncated"):
            in_chunks([wire[:cut]], (coding,), limit=7)


def test_a_second_gzip_member_cut_at_any_byte_is_refused() -> None:
    first, second = gzip.compress(b"one"), gzip.compress(b"two")
    for cut in range(1, len(second)):
        with pytest.raises(ContentDecodingError, match="truncated"):
            undo_codings(first + second[:cut], ("gzip",))


@needs_zstd
def test_a_second_zstd_frame_cut_at_any_byte_is_refused() -> None:
    first, second = zstd.compress(b"one"), zstd.compress(b"two")
    for cut in range(1, len(second)):
        with pytest.raises(ContentDecodingError):
            undo_codings(first + second[:cut], ("zstd",))


def test_a_cut_inside_a_chain_is_refused() -> None:
    inner = brotli.compress(b"body " * 100)
    with pytest.raises(ContentDecodingError, match="the br body is truncated"):
        undo_codings(gzip.compress(inner[:-1]), ("br", "gzip"))
    with pytest.raises(ContentDecodingError, match="the gzip body is truncated"):
        undo_codings(gzip.compress(inner)[:-1], ("br", "gzip"))


@every_coding
def test_garbage_is_refused(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """A corrupt coded body is an error."""
    with pytest.raises(ContentDecodingError, match=f"the {coding} body is corrupt: ."):
        undo_codings(b"\xff\xfe neither this nor that", (coding,))


@pytest.mark.parametrize("at", [-8, -1])
def test_a_wrong_checksum_or_size_is_refused(at: int) -> None:
    """A corrupt coded body is an error."""
    wire = bytearray(gzip.compress(b"body"))
    wire[at] ^= 1
    with pytest.raises(ContentDecodingError, match="corrupt"):
        undo_codings(bytes(wire), ("gzip",))
    with pytest.raises(ContentDecodingError, match="corrupt"):
        undo_codings(gzip.compress(b"sound") + bytes(wire), ("gzip",))


def test_a_wrong_deflate_checksum_is_refused() -> None:
    """A corrupt coded body is an error."""
    wire = bytearray(zlib.compress(b"body"))
    wire[-1] ^= 1
    with pytest.raises(ContentDecodingError, match="corrupt"):
        undo_codings(bytes(wire), ("deflate",))


def test_bytes_after_brotli_are_refused() -> None:
    with pytest.raises(ContentDecodingError, match="the br body is corrupt"):
        undo_codings(brotli.compress(b"body") + b"garbage", ("br",))
    with pytest.raises(ContentDecodingError, match="the br body is corrupt"):
        in_chunks([brotli.compress(b"body"), b"garbage"], ("br",))


@needs_zstd
def test_a_zstd_window_beyond_8_mib_is_refused() -> None:
    def wire(window: int) -> bytes:
        squeeze = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window})
        return bytes(squeeze.compress(b"a" * 1000) + squeeze.flush())

    assert undo_codings(wire(23), ("zstd",)) == b"a" * 1000
    with pytest.raises(ContentDecodingError, match="the zstd body is corrupt"):
        undo_codings(wire(24), ("zstd",))


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "br", "zstd"]))
def test_no_input_raises_anything_else(data: bytes, coding: str) -> None:
    with suppress(ContentDecodingError):
        assert isinstance(undo_codings(data, parse_codings([coding])), bytes)


# --- any chunking, any limit -------------------------------------------------------------


@settings(deadline=None)
@given(
    body=st.binary(max_size=2000).map(lambda data: data * 50),
    names=st.lists(st.sampled_from(ENCODERS), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 10**6), max_size=8),
    limit=st.integers(1, 200_000),
)
def test_chunks_and_limits_never_change_the_body(
    body: bytes,
    names: list[tuple[str, str, Callable[[bytes], bytes]]],
    cuts: list[int],
    limit: int,
) -> None:
    wire = body
    for _, _, encode in names:
        wire = encode(wire)
    applied = [coding for _, coding, _ in names]
    assert undo_codings(wire, applied) == body
    assert in_chunks(split(wire, cuts), applied, limit=max(limit, len(body) // 500 + 1)) == body


@settings(deadline=None)
@given(
    members=st.lists(st.binary(max_size=50), min_size=1, max_size=6),
    rest=st.sampled_from([b"", b"\0\0\0", b"garbage", b"\x1f\x1f", b"\0\x1f "]),
    cuts=st.lists(st.integers(0, 10**6), max_size=8),
)
def test_chunks_never_change_several_members(
    members: list[bytes], rest: bytes, cuts: list[int]
) -> None:
    wire = b"".join(map(gzip.compress, members)) + rest
    assert in_chunks(split(wire, cuts), ("gzip",)) == b"".join(members)


# --- bombs -------------------------------------------------------------------------------


@every_coding
def test_max_size_is_exact(coding: str, encode: Callable[[bytes], bytes]) -> None:
    for size in (0, 1, 65535, 65536, 65537, 300_000):
        wire = encode(b"a" * size)
        assert len(undo_codings(wire, (coding,), size)) == size
        if size:
            with pytest.raises(ResponseTooLarge, match=f"larger than {size - 1} bytes"):
                undo_codings(wire, (coding,), size - 1)


def bomb(coding: str, size: int) -> bytes:
    """`size` zeros, made without holding them."""
    squeeze: Any
    if coding == "br":
        squeeze = brotli.Compressor(quality=5)
        parts = [squeeze.process(bytes(MIB)) for _ in range(size // MIB)] + [squeeze.finish()]
        return b"".join(parts)
    if coding == "zstd":
        squeeze = zstd.ZstdCompressor()
    else:
        squeeze = zlib.compressobj(1, wbits={"gzip": 31, "deflate": 15}[coding])
    return b"".join([*(squeeze.compress(bytes(MIB)) for _ in range(size // MIB)), squeeze.flush()])


def peak_of(run: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        run()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


CODINGS = ["gzip", "deflate", "br", pytest.param("zstd", marks=needs_zstd)]


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_takes_no_more_memory_than_max_size(coding: str) -> None:
    """A bomb costs no more than the limit."""
    wire = bomb(coding, 100 * MIB)

    def run() -> None:
        with pytest.raises(ResponseTooLarge):
            undo_codings(wire, (coding,), 2 * MIB)

    assert peak_of(run) < 5 * MIB + len(wire)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_taken_in_bounded_pieces(coding: str) -> None:
    """A bomb that is streamed comes in small pieces."""
    decoder = ContentDecoder((coding,))
    wire = bomb(coding, 50 * MIB)
    taken = []

    def run() -> None:
        decoder.feed(wire)
        while piece := decoder.take(50_000):
            assert len(piece) <= 50_000
            taken.append(len(piece))
        decoder.finish()

    assert peak_of(run) < MIB + 3 * len(wire)
    assert sum(taken) == 50 * MIB


def test_a_bomb_inside_a_bomb_is_bounded() -> None:
    """A bomb costs no more than the limit."""
    wire = gzip.compress(bomb("gzip", 200 * MIB))
    assert len(wire) < 10_000

    def run() -> None:
        with pytest.raises(ResponseTooLarge):
            undo_codings(wire, ("gzip", "gzip"), MIB)

    assert peak_of(run) < 3 * MIB


def test_a_body_near_max_size_is_not_held_twice() -> None:
    wire = bomb("gzip", 32 * MIB)
    assert peak_of(lambda: undo_codings(wire, ("gzip",), 32 * MIB)) < 40 * MIB


def test_a_megabyte_of_empty_members_takes_less_than_a_second() -> None:
    """Bodies of empty members are read at once."""
    wire = gzip.compress(b"") * 52_000
    start = time.process_time()
    assert undo_codings(wire, ("gzip",)) == b""
    assert_cheap(time.process_time() - start, 1)


@pytest.mark.skipif(zstd is None, reason="no zstd here")
@pytest.mark.parametrize("body", [b"", b"a", b"0123456789"])
@pytest.mark.parametrize("before", [b"", bytes(1000)])
def test_a_megabyte_of_tiny_frames_is_refused_early(body: bytes, before: bytes) -> None:
    frame = zstd.compress(body)
    wire = zstd.compress(before) + frame * (MIB // len(frame))
    with pytest.raises(ContentDecodingError, match=r"(\d+) frames in (\d+) bytes") as caught:
        undo_codings(wire, ("zstd",))
    frames, size = map(int, re.findall(r"\d+", str(caught.value)))
    assert frames < 8000
    assert size < MIB / 4


@pytest.mark.skipif(zstd is None, reason="no zstd here")
def test_empty_parts_between_frames_are_as_many_as_frames() -> None:
    skippable = bytes.fromhex("502a4d1800000000")  # RFC 8878, section 3.1.2
    assert undo_codings(skippable * 1000 + zstd.compress(b"body"), ("zstd",)) == b"body"
    with pytest.raises(ContentDecodingError, match="frames in"):
        undo_codings(skippable * 100_000, ("zstd",))


@pytest.mark.skipif(zstd is None, reason="no zstd here")
@pytest.mark.parametrize(("count", "body"), [(4000, b""), (4000, b"a"), (10_000, bytes(range(80)))])
def test_a_body_may_have_thousands_of_frames(count: int, body: bytes) -> None:
    assert undo_codings(zstd.compress(body) * count, ("zstd",)) == body * count


def test_padding_that_another_coding_expands_is_refused() -> None:
    wire = gzip.compress(gzip.compress(b"body") + bytes(100 * MIB))
    with pytest.raises(ContentDecodingError, match="decode to nothing"):
        undo_codings(wire, ("gzip", "gzip"), 1000)


def test_one_byte_at_a_time_is_not_quadratic() -> None:
    decoder = ContentDecoder(("gzip",))
    decoder.feed(bomb("gzip", MIB))
    start = time.process_time()
    for _ in range(MIB // 4):
        assert decoder.take(1) == b"\0"
    assert_cheap(time.process_time() - start, 2)


# --- charsets: what a name means, and text that comes in pieces ---


UNFIT = ["", "nonsense", "base64", "rot13", "zlib", "idna", "punycode", "undefined", "\0"]
# Escape sequences, shifts, lead bytes and byte order marks next to arbitrary data.
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
    cache: dict[str, object] = vars(encodings)["_cache"]
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
def test_a_caller_cannot_choose_an_unknown_charset(name: str) -> None:
    assert chosen_charset(name) is None


def test_every_charset_is_one_of_python() -> None:
    for charset in _CHARSETS:
        assert codecs.getincrementaldecoder(charset)
        assert known_charset(charset) == charset
    assert set(_MORE_NAMES.values()) <= _CHARSETS


@settings(max_examples=20 * settings().max_examples)
@given(charset=st.sampled_from(sorted(_CHARSETS)), body=BODIES, size=st.integers(1, 9))
def test_no_bytes_make_a_decoder_fail(charset: str, body: bytes, size: int) -> None:
    decode_text(body, charset)
    decoder = TextDecoder(charset)
    for at in range(0, len(body), size):
        decoder.decode(body[at : at + size])
    decoder.decode(b"", True)


@settings(max_examples=10 * settings().max_examples)
@given(
    charset=st.sampled_from(sorted(_CHARSETS)),
    text=st.text(alphabet="a é€я日本한中ก\n~", max_size=20),
    size=st.integers(1, 9),
)
def test_pieces_of_text_make_the_whole(charset: str, text: str, size: int) -> None:
    body = text.encode(charset, errors="ignore")
    decoder = TextDecoder(charset)
    pieces = [decoder.decode(body[at : at + size]) for at in range(0, len(body), size)]
    assert "".join(pieces) + decoder.decode(b"", True) == decode_text(body, charset)


@pytest.mark.parametrize("charset", ["utf_16", "utf_32"])
@pytest.mark.parametrize("order", ["_le", "_be"])
def test_a_byte_order_mark_is_used_and_removed(charset: str, order: str) -> None:
    body = "\ufeffhé".encode(charset + order)
    decoder = TextDecoder(charset)
    pieces = [decoder.decode(body[at : at + 1]) for at in range(len(body))]
    assert "".join(pieces) + decoder.decode(b"", True) == decode_text(body, charset) == "hé"


@pytest.mark.parametrize("charset", ["utf_16", "utf_32"])
@pytest.mark.parametrize("text", ["", "h", "hé"])
def test_without_a_byte_order_mark_the_order_is_little_endian(charset: str, text: str) -> None:
    body = text.encode(charset + "_le")
    decoder = TextDecoder(charset)
    pieces = [decoder.decode(body[at : at + 1]) for at in range(len(body))]
    assert "".join(pieces) + decoder.decode(b"", True) == decode_text(body, charset) == text


@pytest.mark.parametrize("charset", ["utf_16", "utf_32"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_body_that_ends_within_a_character_is_replaced(charset: str, size: int) -> None:
    decoder = TextDecoder(charset)
    assert decoder.decode(b"h" * size) + decoder.decode(b"", True) == decode_text(
        b"h" * size, charset
    )


@given(st.text(alphabet="ab\r\n", max_size=30), st.lists(st.integers(0, 30), max_size=8))
def test_no_split_changes_the_lines(text: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    chunker = LineChunks()
    lines: list[str] = []
    for start, end in itertools.pairwise(edges):
        if text[start:end]:
            lines += chunker.add(text[start:end].encode())
    lines += chunker.end()
    expected = re.split(r"\r\n|\r|\n", text)
    assert lines == (expected if expected[-1] else expected[:-1])


def test_a_long_line_in_small_parts_costs_little_more_than_its_characters() -> None:
    chunker = LineChunks()
    tracemalloc.start()
    try:
        for _ in range(50_000):
            assert list(chunker.add(b"ab")) == []
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * 100_000
    assert list(chunker.add(b"\nc")) == ["ab" * 50_000]
    assert list(chunker.end()) == ["c"]


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=8), st.integers(1, 9))
def test_a_size_cuts_pieces_and_joins_none(pieces: list[bytes], size: int) -> None:
    sized = ByteChunks(size)
    for piece in pieces:
        assert list(sized.add(piece)) == [piece[at:][:size] for at in range(0, len(piece), size)]
    assert list(sized.end()) == []
