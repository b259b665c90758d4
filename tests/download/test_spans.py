"""Which bytes of a file are there: spans, their line in the state, and the segments of the rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from curlhttp._features.download.spans import LINE, MIN_SEGMENT, Spans, divide

_PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


@given(_PAIRS)
def test_spans_are_the_bytes_that_were_added(pairs: list[tuple[int, int]]) -> None:
    spans = Spans([])
    for start, end in pairs:
        spans.add(start, end)
    there = {byte for start, end in pairs for byte in range(start, end)}
    missing = {byte for start, end in spans.missing(60) for byte in range(start, end)}
    assert missing == set(range(60)) - there
    assert spans.size == len(there)
    assert spans.end == max(there, default=-1) + 1
    assert spans.prefix == next(byte for byte in range(61) if byte not in there)


@given(st.lists(st.integers(1, 10**16), max_size=60))
def test_a_line_has_one_size_and_tells_the_spans(steps: list[int]) -> None:
    spans, position = Spans([]), 0
    for step in steps:
        spans.add(position + 1, position + 1 + step)
        position += step + 1
    line = spans.to_line()
    assert len(line) == LINE
    assert line[:1] == b"\n"
    read = Spans.from_line(line[1:])
    assert read is not None
    assert read.missing(position) == spans.missing(position)


def test_too_many_spans_lose_the_smallest() -> None:
    spans = Spans([(1000 * n, 1000 * n + n + 1) for n in range(200)])
    line = spans.to_line()
    read = Spans.from_line(line[1:])
    assert len(line) == LINE
    assert read is not None
    assert 0 < read.size < spans.size
    assert read.end == spans.end


@given(st.integers(0, LINE - 1), st.binary(min_size=1, max_size=8))
def test_a_damaged_line_tells_other_spans_never(place: int, noise: bytes) -> None:
    spans = Spans([(0, 1_000_000), (2_000_000, 3_000_000)])
    line = spans.to_line()
    damaged = line[:place] + noise + line[place + len(noise) :]
    read = Spans.from_line(damaged[1:LINE])
    assert read is None or read.missing(10**7) == spans.missing(10**7)


@given(
    st.lists(st.integers(1, 20 * MIN_SEGMENT), min_size=1, max_size=6),
    st.integers(1, 16),
)
def test_segments_cover_what_is_missing(sizes: list[int], count: int) -> None:
    missing, position = [], 0
    for size in sizes:
        missing.append((position, position + size))
        position += size + 1
    segments = divide(missing, count)
    assert sum(end - start for start, end in segments) == sum(sizes)
    assert len(segments) <= max(count, len(sizes))
    assert all(any(a <= start and end <= b for a, b in missing) for start, end in segments)
    assert (
        len(segments) == len(sizes)
        or min(end - start for start, end in segments if (start, end) not in missing) >= MIN_SEGMENT
    )
