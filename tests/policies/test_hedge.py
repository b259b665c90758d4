"""When to hedge: the percentile of recent latencies, and which requests may be sent twice."""

from __future__ import annotations

import io
import random
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import ClientRequest, Hedge
from curlhttp._features.hedge.policy import HeadTimes, may_hedge
from curlhttp._http.body import open_body
from curlhttp._http.request import IDEMPOTENT
from tests.support.colours import needs_fork
from tests.support.internals import run_script

ORIGIN = "https://a.example:443"


def request(method: str, content: Any = None, **headers: str) -> ClientRequest:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return ClientRequest(method, "https://a.example/", names, content=content)


def times(series: list[float], **settings: Any) -> HeadTimes:
    found = HeadTimes(**settings)
    for seconds in series:
        found.add(ORIGIN, seconds)
    return found


# --- the percentile ---


def test_p95_of_a_known_series_is_exact() -> None:
    series = [float(number) for number in range(1, 101)]
    random.Random(1).shuffle(series)
    known = times(series)
    assert known.percentile(ORIGIN, 95) == 95.0
    assert known.percentile(ORIGIN, 50) == 50.0
    assert known.percentile(ORIGIN, 1) == 1.0
    assert Hedge("p95")._seconds(known, ORIGIN) == 95.0
    assert Hedge("p99")._seconds(known, ORIGIN) == 99.0
    assert Hedge(0.25)._seconds(known, ORIGIN) == 0.25


@given(
    st.lists(st.floats(0, 60), min_size=1, max_size=120),
    st.integers(1, 99),
    st.integers(1, 50),
)
def test_a_percentile_is_the_nearest_rank_of_the_window(
    series: list[float], percent: int, window: int
) -> None:
    recent = sorted(series[-window:])
    # the smallest that at least so many per cent of all do not exceed
    expected = next(
        value
        for value in recent
        if 100 * sum(other <= value for other in recent) >= percent * len(recent)
    )
    assert times(series, window=window, minimum=1).percentile(ORIGIN, percent) == expected


def test_latencies_outside_the_window_are_not_counted() -> None:
    known = times([9.0] * 50 + [1.0] * 20, window=20)
    assert known.percentile(ORIGIN, 95) == 1.0


def test_there_is_no_percentile_of_a_few_times() -> None:
    known = times([1.0] * 19)
    assert known.percentile(ORIGIN, 95) is None
    assert Hedge("p95")._seconds(known, ORIGIN) is None
    known.add(ORIGIN, 1.0)
    assert known.percentile(ORIGIN, 95) == 1.0


def test_each_origin_has_its_own_latencies() -> None:
    known = times([1.0] * 20)
    assert known.percentile("https://b.example:443", 95) is None
    for _ in range(20):
        known.add("https://b.example:443", 5.0)
    assert known.percentile(ORIGIN, 95) == 1.0
    assert known.percentile("https://b.example:443", 95) == 5.0


def test_the_origin_unused_for_longest_is_forgotten() -> None:
    known = HeadTimes(minimum=1, max_origins=2)
    known.add("a", 1.0)
    known.add("b", 1.0)
    assert known.percentile("a", 50) == 1.0  # used just now
    known.add("c", 1.0)
    assert known.percentile("b", 50) is None
    assert known.percentile("a", 50) == known.percentile("c", 50) == 1.0


def test_latencies_may_be_recorded_by_many_threads() -> None:
    known = HeadTimes(window=50, minimum=1)
    barrier = threading.Barrier(8)

    def add(seed: int) -> None:
        chance = random.Random(seed)
        barrier.wait()
        for _ in range(500):
            known.add(ORIGIN, chance.random())
            known.percentile(ORIGIN, 95)

    threads = [threading.Thread(target=add, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recent, ordered = known._origins[ORIGIN]
    assert len(recent) == 50
    assert sorted(recent) == ordered


@needs_fork
def test_a_forked_child_starts_without_times_and_needs_no_lock_of_its_parent() -> None:
    run_script(
        "import os\n"
        "from curlhttp._features.hedge.policy import HeadTimes\n"
        "times = HeadTimes(minimum=1)\n"
        "times.add('a', 1.0)\n"
        "with times._lock:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        os._exit(0 if times.percentile('a', 95) is None else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert times.percentile('a', 95) == 1.0\n"
    )


# --- which requests ---


@pytest.mark.parametrize("method", sorted(IDEMPOTENT))
def test_an_idempotent_method_may_be_hedged(method: str) -> None:
    assert may_hedge(request(method), Hedge(1))


@pytest.mark.parametrize("method", ["POST", "PATCH", "CONNECT", "LOCK"])
def test_another_method_never_is(method: str) -> None:
    assert not may_hedge(request(method, b"x"), Hedge(1))
    assert not may_hedge(request(method, b"x"), Hedge(1, idempotency_key=True))
    keyed = request(method, b"x", Idempotency_Key="1")
    assert not may_hedge(keyed, Hedge(1))


def test_an_idempotency_key_counts_if_the_policy_says_so() -> None:
    keyed = request("POST", b"x", Idempotency_Key="1")
    assert may_hedge(keyed, Hedge(1, idempotency_key=True))


def test_a_body_that_cannot_be_sent_again_is_sent_once() -> None:
    policy = Hedge(1)
    assert not may_hedge(request("PUT", iter([b"a"])), policy)
    assert may_hedge(request("PUT", b"a"), policy)
    assert may_hedge(request("PUT", [b"a"]), policy)
    assert may_hedge(request("PUT", lambda: iter([b"a"])), policy)
    assert may_hedge(request("PUT", io.BytesIO(b"a")), policy)


@pytest.mark.parametrize(
    "source", [b"abcdef", [b"abc", b"def"], lambda: iter([b"abc", b"def"])], ids=["b", "list", "f"]
)
def test_a_copy_yields_the_whole_body_while_the_other_is_read(source: Any) -> None:
    body = open_body(source)
    assert body.read(2) == b"ab"
    clone = body.clone()
    assert clone is not None
    assert b"".join(iter(lambda: clone.read(4), b"")) == b"abcdef"
    assert b"".join(iter(lambda: body.read(4), b"")) == b"cdef"


def test_a_file_has_a_twin_only_when_it_was_read_to_its_end() -> None:
    body = open_body(io.BytesIO(b"abcdef"))
    assert body.read(2) == b"ab"
    assert body.clone() is None  # two readers would get a half each
    assert body.read(9) == b"cdef"
    clone = body.clone()
    assert clone is not None
    assert clone.read(9) == b"abcdef"


def test_an_iterator_has_no_twin() -> None:
    body = open_body(iter([b"abc"]))
    assert body.clone() is None
    assert body.read(9) == b"abc"
    assert body.clone() is None


# --- what a policy may be ---


@pytest.mark.parametrize("after", [0, 0.5, 3, "p1", "p50", "p95", "p99"])
def test_a_policy_takes_seconds_or_a_percentile(after: Any) -> None:
    assert Hedge(after).after == after


@pytest.mark.parametrize(
    "after", [-1, float("inf"), float("nan"), "95", "p0", "p100", "p", "p9.5", "p-5", "P95", "²"]
)
def test_another_moment_is_refused(after: Any) -> None:
    with pytest.raises(ValueError, match=r"after|percentile"):
        Hedge(after)


@pytest.mark.parametrize("most", [0, -1])
def test_a_policy_of_no_attempts_is_refused(most: int) -> None:
    with pytest.raises(ValueError, match="max"):
        Hedge(1, most)


def test_a_policy_is_a_value() -> None:
    assert Hedge() == Hedge("p95", max=1)
    with pytest.raises(AttributeError):
        Hedge().max = 2  # type: ignore[misc]
