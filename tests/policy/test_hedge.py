"""When to hedge: the percentile of recent latencies, and which requests may be sent twice."""

from __future__ import annotations

import io
import random
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import CircuitBreaker, ConcurrencyLimit, Hedge, Proxy, RateLimit, RetryBudget
from curlhttp._engine.run import ThreadWaiter, run_sync
from curlhttp._flow.hedge import AttemptPermit, HedgeAdmission
from curlhttp._models.body import open_body
from curlhttp._models.config import TLS, NetworkRoute
from curlhttp._models.request import IDEMPOTENT, ClientRequest
from curlhttp._policy.hedge import HeadTimes, may_hedge
from curlhttp.exceptions import ProxyError, ReadTimeout
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
    assert Hedge("p95").seconds(known, ORIGIN) == 95.0
    assert Hedge("p99").seconds(known, ORIGIN) == 99.0
    assert Hedge(0.25).seconds(known, ORIGIN) == 0.25


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
    assert Hedge("p95").seconds(known, ORIGIN) is None
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
        "from curlhttp._policy.hedge import HeadTimes\n"
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


# --- what each further attempt is let in by ---


class Admitting:
    """Lets further attempts in at a time of the test's."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.now = 0.0
        self.real = HedgeAdmission(
            given.get("rate"),
            given.get("concurrency"),
            given.get("circuits"),
            given.get("budget"),
            lambda: self.now,
        )

    def admit(self, request: ClientRequest, now: float) -> AttemptPermit | None:
        self.now = now
        return run_sync(lambda: self.real.admit(request, ThreadWaiter))


def extra_attempts(**given: Any) -> Admitting:
    return Admitting(given)


def bound() -> ClientRequest:
    found = request("GET")
    found.route = NetworkRoute(tls=TLS())
    return found


def test_an_attempt_without_limits_is_let_in() -> None:
    ticket = extra_attempts().admit(bound(), 0.0)
    assert ticket is not None
    assert ticket.settle(200, 1.0, 1.0) == []


def test_a_refusal_of_the_budget_costs_no_other_permit() -> None:
    rate, concurrency = RateLimit(0.1), ConcurrencyLimit(1)
    circuits = CircuitBreaker(1, recovery_timeout=1.0)
    circuits.admit(ORIGIN, 0.0).fail(0.0)
    refusing = extra_attempts(
        rate=rate,
        concurrency=concurrency,
        circuits=circuits,
        budget=RetryBudget(ratio=0, reserve=0),
    )
    assert refusing.admit(bound(), 2.0) is None
    assert concurrency.in_use(ORIGIN) == 0
    assert rate.try_acquire(ORIGIN, 2.0)
    assert circuits.state(ORIGIN) == "half_open"
    circuits.admit(ORIGIN, 2.0)  # the one probe is free again


@pytest.mark.parametrize("who", ["rate", "concurrency", "circuits"])
def test_a_refusal_by_another_policy_takes_nothing_from_the_budget(who: str) -> None:
    rate, concurrency = RateLimit(0.1, burst=2), ConcurrencyLimit(1)
    circuits = CircuitBreaker(1, recovery_timeout=30.0)
    budget = RetryBudget(ratio=0.0, reserve=0.1, window=10.0)
    if who == "rate":
        assert rate.try_acquire(ORIGIN, 0.0)
        assert rate.try_acquire(ORIGIN, 0.0)
    held = concurrency.try_acquire(ORIGIN) if who == "concurrency" else None
    if who == "circuits":
        circuits.admit(ORIGIN, 0.0).fail(0.0)
    asked = extra_attempts(rate=rate, concurrency=concurrency, circuits=circuits, budget=budget)
    assert asked.admit(bound(), 1.0) is None
    assert budget.withdraw(ORIGIN, 1.0)
    assert who == "rate" or rate.try_acquire(ORIGIN, 1.0)
    assert concurrency.in_use(ORIGIN) == (held is not None)


@pytest.mark.parametrize(
    ("result", "failures"),
    [(200, 0), (404, 0), (503, 1), (ReadTimeout("late"), 1), (ValueError("ours"), 0), (None, 0)],
)
def test_the_breaker_gets_the_outcome_of_an_attempt(result: Any, failures: int) -> None:
    circuits, concurrency = CircuitBreaker(failure_rate=1.0), ConcurrencyLimit(1)
    ticket = extra_attempts(circuits=circuits, concurrency=concurrency).admit(bound(), 0.0)
    assert ticket is not None
    assert concurrency.in_use(ORIGIN) == 1
    ticket.settle(result, 1.0, 1.0)
    assert concurrency.in_use(ORIGIN) == 0
    counted = circuits.metrics(ORIGIN)
    assert counted.failures == failures
    assert counted.calls == (isinstance(result, int) or failures)


def test_a_proxy_has_its_own_permit() -> None:
    circuits = CircuitBreaker(1, recovery_timeout=30.0)
    through = request("GET")
    through.route = NetworkRoute(tls=TLS(), proxy=Proxy(url="http://proxy.example:8080"))
    ticket = extra_attempts(circuits=circuits).admit(through, 0.0)
    assert ticket is not None
    changes = ticket.settle(ProxyError("gone", request_sent=False), 1.0, 1.0)
    assert [change.new for change in changes] == ["open"]
    assert circuits.state(ORIGIN) == "closed"
    assert extra_attempts(circuits=circuits).admit(through, 2.0) is None
    assert extra_attempts(circuits=circuits).admit(bound(), 2.0) is not None


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
