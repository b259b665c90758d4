"""Delays: exact under an injected random source, and always within bounds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import (
    Client,
    DecorrelatedJitterBackoff,
    EqualJitterBackoff,
    ExponentialBackoff,
    FullJitterBackoff,
    RetryPolicy,
)
from curlhttp.testing import ScriptedEngine

KINDS: tuple[Callable[..., Any], ...] = (
    ExponentialBackoff,
    FullJitterBackoff,
    EqualJitterBackoff,
    DecorrelatedJitterBackoff,
)


def lowest(low: float, high: float) -> float:
    return low


def highest(low: float, high: float) -> float:
    return high


def first(count: int, backoff: Any, uniform: Callable[[float, float], float]) -> list[float]:
    return list(islice(backoff.delays(uniform), count))


def test_full_jitter_lies_between_nothing_and_the_exponential_delay() -> None:
    backoff = FullJitterBackoff(base=0.1, max_backoff=1.0)
    assert first(6, backoff, lowest) == [0.0] * 6
    assert first(6, backoff, highest) == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


def test_full_jitter_is_the_default_from_a_tenth_to_ten_seconds() -> None:
    assert RetryPolicy().backoff_strategy == FullJitterBackoff(0.1, 2.0, 10.0)


def test_equal_jitter_is_half_fixed_and_half_chance() -> None:
    backoff = EqualJitterBackoff(base=0.1, max_backoff=0.4)
    assert first(4, backoff, lowest) == [0.05, 0.1, 0.2, 0.2]
    assert first(4, backoff, highest) == [0.1, 0.2, 0.4, 0.4]


def test_decorrelated_jitter_depends_on_the_previous_delay() -> None:
    backoff = DecorrelatedJitterBackoff(base=1.0, max_backoff=20.0)
    asked: list[tuple[float, float]] = []

    def middle(low: float, high: float) -> float:
        asked.append((low, high))
        return (low + high) / 2

    assert first(5, backoff, middle) == [2.0, 3.5, 5.75, 9.125, 14.1875]
    assert asked == [(1.0, 3.0), (1.0, 6.0), (1.0, 10.5), (1.0, 17.25), (1.0, 27.375)]
    assert first(4, backoff, highest) == [3.0, 9.0, 20.0, 20.0]


def test_the_state_of_a_sequence_is_its_own() -> None:
    backoff = DecorrelatedJitterBackoff(base=0.1, max_backoff=10.0)
    one, other = backoff.delays(highest), backoff.delays(highest)
    assert [next(one), next(one), next(other)] == pytest.approx([0.3, 0.9, 0.3])


def test_exponential_backoff_is_not_random() -> None:
    def never(low: float, high: float) -> float:
        raise AssertionError("chance was asked")

    assert first(5, ExponentialBackoff(0.5, 3.0, 10.0), never) == [0.5, 1.5, 4.5, 10.0, 10.0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_delays_are_exact_under_an_injected_random_source(kind: Callable[..., Any]) -> None:
    backoff = kind(base=0.1, max_backoff=10.0)
    ours, again = random.Random(4).uniform, random.Random(4).uniform
    assert first(20, backoff, ours) == first(20, backoff, again)


@pytest.mark.parametrize("kind", KINDS)
def test_the_ten_thousandth_delay_is_a_number_within_the_cap(kind: Callable[..., Any]) -> None:
    delays = first(10_000, kind(base=0.1, max_backoff=10.0), highest)
    assert delays[-1] == 10.0
    assert all(math.isfinite(delay) for delay in delays)


@given(
    kind=st.sampled_from(KINDS),
    base=st.floats(0, 1e6),
    cap=st.floats(0, 1e9),
    seed=st.integers(0, 2**32),
)
def test_no_delay_is_negative_or_above_the_cap(
    kind: Callable[..., Any], base: float, cap: float, seed: int
) -> None:
    uniform = random.Random(seed).uniform
    assert all(0 <= delay <= cap for delay in first(50, kind(base=base, max_backoff=cap), uniform))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "setting", [{"base": -1.0}, {"base": math.nan}, {"max_backoff": math.inf}, {"max_backoff": -1}]
)
def test_an_invalid_time_is_refused(kind: Callable[..., Any], setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        kind(**setting)


def test_a_factor_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="factor"):
        FullJitterBackoff(factor=0.5)


def test_a_custom_strategy_works() -> None:
    class Steps:
        def delays(self, uniform: Callable[[float, float], float]) -> Any:
            return iter((1.0, 2.0, 3.0))

    engine = ScriptedEngine([503] * 4)
    with Client(transport=engine, retry=RetryPolicy(3, backoff_strategy=Steps())) as client:
        client.get("http://h.test/")
    assert engine.sleeps == [1.0, 2.0, 3.0]


def test_a_thousand_clients_that_fail_together_do_not_retry_together() -> None:
    """Chi-square over buckets of 5 ms; 43.8 is passed by one in a thousand fair draws."""
    moments = []
    for number in range(1000):
        engine = ScriptedEngine([503, 200])
        policy = RetryPolicy(1, random=random.Random(number))
        with Client(transport=engine, retry=policy) as client:
            client.get("http://h.test/")
        moments.append(engine.now())
    buckets = [0] * 20
    for moment in moments:
        buckets[int(moment / 0.005)] += 1
    assert sum((count - 50) ** 2 / 50 for count in buckets) < 43.8
