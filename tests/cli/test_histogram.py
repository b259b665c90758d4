"""The latency histogram."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp.cli.histogram import LatencyHistogram


@given(st.lists(st.floats(1e-5, 100.0), min_size=1, max_size=200), st.floats(0.1, 100.0))
def test_percentiles_are_exact_to_one_per_cent(values: list[float], percent: float) -> None:
    latencies = LatencyHistogram()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[math.ceil(len(values) * percent / 100) - 1]
    assert latencies.percentile(percent) == pytest.approx(exact, rel=0.01)
    assert latencies.least == min(values)
    assert latencies.most == max(values)


@given(st.lists(st.floats(0.0, 100.0), max_size=200), st.integers(2, 12))
def test_a_histogram_counts_everything_once(values: list[float], rows: int) -> None:
    latencies = LatencyHistogram()
    for value in values:
        latencies.add(value)
    histogram = latencies.rows(rows)
    assert sum(times for _, times in histogram) == len(values)
    assert len(histogram) <= rows
    bounds = [bound for bound, _ in histogram]
    assert bounds == sorted(bounds)


def test_an_empty_histogram_prints_nothing() -> None:
    assert (
        LatencyHistogram().percentile(50),
        LatencyHistogram().mean,
        LatencyHistogram().rows(5),
    ) == (0.0, 0.0, [])
