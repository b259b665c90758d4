"""Content codings: every body whole or refused, at any chunking, within bounded memory."""

from __future__ import annotations

import gzip
import importlib
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

from curlhttp._models.decoders import (
    ACCEPT_ENCODING,
    MAX_CODINGS,
    ContentDecoder,
    codings,
    decode,
)
from curlhttp.exceptions import ContentDecodingError, ResponseTooLarge
from tests.support.pace import assert_cheap

MIB = 1024 * 1024


def _load_zstd() -> Any:
    for name in ("compression.zstd", "backports.zstd"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


zstd = _load_zstd()


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
    assert codings(headers) == expected


def test_the_allowed_number_of_codings_is_allowed() -> None:
    assert codings(["gzip"] * MAX_CODINGS) == ("gzip",) * MAX_CODINGS


@pytest.mark.parametrize("headers", [["gzip"] * 6, [",".join(["br"] * 6)], ["x"] * 100])
def test_too_many_codings_are_refused(headers: list[str]) -> None:
    """S48: more than five codings are refused."""
    with pytest.raises(ContentDecodingError, match="5 at most"):
        codings(headers)


def test_exactly_what_can_be_decoded_is_advertised() -> None:
    advertised = ACCEPT_ENCODING.split(", ")
    assert advertised[:3] == ["gzip", "deflate", "br"]
    assert ("zstd" in advertised) == (zstd is not None)
    assert codings(advertised) == tuple(advertised)


# --- whole bodies ------------------------------------------------------------------------


@every_coding
@pytest.mark.parametrize("size", [0, 1, 1000, 3 * MIB])
def test_a_body_comes_back_whole(coding: str, encode: Callable[[bytes], bytes], size: int) -> None:
    body = (bytes(range(256)) * (size // 256 + 1))[:size]
    assert decode(encode(body), (coding,)) == body


def test_a_body_without_codings_is_left_alone() -> None:
    assert decode(b"as it is", ()) == b"as it is"
    assert in_chunks([b"as ", b"it is"], (), limit=2) == b"as it is"


@every_coding
def test_a_body_of_no_bytes_needs_no_coding(coding: str, encode: Callable[[bytes], bytes]) -> None:
    assert decode(b"", (coding,)) == b""
    assert in_chunks([b""], (coding, "gzip")) == b""
    assert in_chunks([], (coding,)) == b""


def test_chained_codings_are_undone_in_reverse() -> None:
    body = b"once upon a time " * 5000
    wire = gzip.compress(brotli.compress(zlib.compress(body)))
    assert decode(wire, ("deflate", "br", "gzip")) == body
    with pytest.raises(ContentDecodingError):
        decode(wire, ("gzip", "br", "deflate"))


def test_every_gzip_member_counts() -> None:
    """S51: every member of a gzip body counts."""
    wire = b"".join(map(gzip.compress, [b"one ", b"", b"two ", b"three"]))
    assert decode(wire, ("gzip",)) == b"one two three"
    assert in_chunks([wire[i : i + 1] for i in range(len(wire))], ("gzip",)) == b"one two three"


@pytest.mark.parametrize(
    "rest", [b"\0", b"\0" * 600, b"garbage", b"\x1fgarbage", b"\0\0garbage", b"\0garbage\x1f\x8b"]
)
def test_padding_and_garbage_after_gzip_are_ignored(rest: bytes) -> None:
    wire = gzip.compress(b"body") + rest
    assert decode(wire, ("gzip",)) == b"body"
    assert in_chunks([wire[i : i + 1] for i in range(len(wire))], ("gzip",)) == b"body"


def test_a_member_after_padding_counts() -> None:
    wire = gzip.compress(b"one ") + bytes(512) + gzip.compress(b"two")
    assert decode(wire, ("gzip",)) == b"one two"


@pytest.mark.parametrize("encode", [zlib.compress, raw_deflate])
def test_what_follows_deflate_is_ignored(encode: Callable[[bytes], bytes]) -> None:
    assert decode(encode(b"body") + b"garbage", ("deflate",)) == b"body"
    assert in_chunks([encode(b"body"), b"garbage"], ("deflate",)) == b"body"


@needs_zstd
def test_every_zstd_frame_counts() -> None:
    skippable = b"\x50\x2a\x4d\x18\x03\x00\x00\x00abc"
    frames = [zstd.compress(b"one "), skippable, zstd.compress(b""), zstd.compress(b"two")]
    assert decode(b"".join(frames), ("zstd",)) == b"one two"
    assert in_chunks(frames, ("zstd",), limit=1) == b"one two"


# --- broken bodies -----------------------------------------------------------------------


@every_coding
def test_a_body_cut_at_any_byte_is_refused(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """S49: a coded body that is cut is an error."""
    wire = encode(b"the quick brown fox jumps over the lazy dog " * 3)
    for cut in range(1, len(wire)):
        with pytest.raises(ContentDecodingError, match=f"the {coding} body is cut short"):
            decode(wire[:cut], (coding,))
        with pytest.raises(ContentDecodingError, match=f"the {coding} body is cut short"):
            in_chunks([wire[:cut]], (coding,), limit=7)


def test_a_second_gzip_member_cut_at_any_byte_is_refused() -> None:
    first, second = gzip.compress(b"one"), gzip.compress(b"two")
    for cut in range(1, len(second)):
        with pytest.raises(ContentDecodingError, match="cut short"):
            decode(first + second[:cut], ("gzip",))


@needs_zstd
def test_a_second_zstd_frame_cut_at_any_byte_is_refused() -> None:
    first, second = zstd.compress(b"one"), zstd.compress(b"two")
    for cut in range(1, len(second)):
        with pytest.raises(ContentDecodingError):
            decode(first + second[:cut], ("zstd",))


def test_a_cut_inside_a_chain_is_refused() -> None:
    inner = brotli.compress(b"body " * 100)
    with pytest.raises(ContentDecodingError, match="the br body is cut short"):
        decode(gzip.compress(inner[:-1]), ("br", "gzip"))
    with pytest.raises(ContentDecodingError, match="the gzip body is cut short"):
        decode(gzip.compress(inner)[:-1], ("br", "gzip"))


@every_coding
def test_garbage_is_refused(coding: str, encode: Callable[[bytes], bytes]) -> None:
    """S50: a corrupt coded body is an error."""
    with pytest.raises(ContentDecodingError, match=f"the {coding} body is corrupt: ."):
        decode(b"\xff\xfe neither this nor that", (coding,))


@pytest.mark.parametrize("at", [-8, -1])
def test_a_wrong_checksum_or_size_is_refused(at: int) -> None:
    """S50: a corrupt coded body is an error."""
    wire = bytearray(gzip.compress(b"body"))
    wire[at] ^= 1
    with pytest.raises(ContentDecodingError, match="corrupt"):
        decode(bytes(wire), ("gzip",))
    with pytest.raises(ContentDecodingError, match="corrupt"):
        decode(gzip.compress(b"sound") + bytes(wire), ("gzip",))


def test_a_wrong_deflate_checksum_is_refused() -> None:
    """S50: a corrupt coded body is an error."""
    wire = bytearray(zlib.compress(b"body"))
    wire[-1] ^= 1
    with pytest.raises(ContentDecodingError, match="corrupt"):
        decode(bytes(wire), ("deflate",))


def test_bytes_after_brotli_are_refused() -> None:
    with pytest.raises(ContentDecodingError, match="the br body is corrupt"):
        decode(brotli.compress(b"body") + b"garbage", ("br",))
    with pytest.raises(ContentDecodingError, match="the br body is corrupt"):
        in_chunks([brotli.compress(b"body"), b"garbage"], ("br",))


@needs_zstd
def test_a_zstd_window_beyond_8_mib_is_refused() -> None:
    def wire(window: int) -> bytes:
        squeeze = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window})
        return bytes(squeeze.compress(b"a" * 1000) + squeeze.flush())

    assert decode(wire(23), ("zstd",)) == b"a" * 1000
    with pytest.raises(ContentDecodingError, match="the zstd body is corrupt"):
        decode(wire(24), ("zstd",))


@given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "br", "zstd"]))
def test_no_input_raises_anything_else(data: bytes, coding: str) -> None:
    with suppress(ContentDecodingError):
        assert isinstance(decode(data, codings([coding])), bytes)


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
    assert decode(wire, applied) == body
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
        assert len(decode(wire, (coding,), size)) == size
        if size:
            with pytest.raises(ResponseTooLarge, match=f"larger than {size - 1} bytes"):
                decode(wire, (coding,), size - 1)


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
def test_a_bomb_costs_no_more_than_max_size(coding: str) -> None:
    """S45: a bomb costs no more than the limit."""
    wire = bomb(coding, 100 * MIB)

    def run() -> None:
        with pytest.raises(ResponseTooLarge):
            decode(wire, (coding,), 2 * MIB)

    assert peak_of(run) < 5 * MIB + len(wire)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_taken_in_bounded_pieces(coding: str) -> None:
    """S46: a bomb that is streamed comes in small pieces."""
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
    """S45: a bomb costs no more than the limit."""
    wire = gzip.compress(bomb("gzip", 200 * MIB))
    assert len(wire) < 10_000

    def run() -> None:
        with pytest.raises(ResponseTooLarge):
            decode(wire, ("gzip", "gzip"), MIB)

    assert peak_of(run) < 3 * MIB


def test_a_body_near_max_size_is_not_held_twice() -> None:
    wire = bomb("gzip", 32 * MIB)
    assert peak_of(lambda: decode(wire, ("gzip",), 32 * MIB)) < 40 * MIB


def test_a_megabyte_of_empty_members_costs_less_than_a_second() -> None:
    """S93: bodies of empty members are read at once."""
    wire = gzip.compress(b"") * 52_000
    start = time.process_time()
    assert decode(wire, ("gzip",)) == b""
    assert_cheap(time.process_time() - start, 1)


@pytest.mark.skipif(zstd is None, reason="no zstd here")
@pytest.mark.parametrize("body", [b"", b"a", b"0123456789"])
@pytest.mark.parametrize("before", [b"", bytes(1000)])
def test_a_megabyte_of_tiny_frames_is_refused_early(body: bytes, before: bytes) -> None:
    frame = zstd.compress(body)
    wire = zstd.compress(before) + frame * (MIB // len(frame))
    with pytest.raises(ContentDecodingError, match=r"(\d+) frames in (\d+) bytes") as caught:
        decode(wire, ("zstd",))
    frames, size = map(int, re.findall(r"\d+", str(caught.value)))
    assert frames < 8000
    assert size < MIB / 4


@pytest.mark.skipif(zstd is None, reason="no zstd here")
def test_empty_parts_between_frames_are_as_many_as_frames() -> None:
    skippable = bytes.fromhex("502a4d1800000000")  # RFC 8878, section 3.1.2
    assert decode(skippable * 1000 + zstd.compress(b"body"), ("zstd",)) == b"body"
    with pytest.raises(ContentDecodingError, match="frames in"):
        decode(skippable * 100_000, ("zstd",))


@pytest.mark.skipif(zstd is None, reason="no zstd here")
@pytest.mark.parametrize(("count", "body"), [(4000, b""), (4000, b"a"), (10_000, bytes(range(80)))])
def test_a_body_may_have_thousands_of_frames(count: int, body: bytes) -> None:
    assert decode(zstd.compress(body) * count, ("zstd",)) == body * count


def test_padding_that_another_coding_expands_is_refused() -> None:
    wire = gzip.compress(gzip.compress(b"body") + bytes(100 * MIB))
    with pytest.raises(ContentDecodingError, match="gave nothing"):
        decode(wire, ("gzip", "gzip"), 1000)


def test_one_byte_at_a_time_is_not_quadratic() -> None:
    decoder = ContentDecoder(("gzip",))
    decoder.feed(bomb("gzip", MIB))
    start = time.process_time()
    for _ in range(MIB // 4):
        assert decoder.take(1) == b"\0"
    assert_cheap(time.process_time() - start, 2)
