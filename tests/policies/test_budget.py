"""The retry budget: a share of the requests, per origin, within a window."""

from __future__ import annotations

import math
import os
import pickle
import signal
import threading
from typing import Any

import pytest

from curlhttp import Client, FullJitterBackoff, RetryBudget, RetryPolicy
from curlhttp.testing import ScriptedEngine
from tests.support.colours import needs_fork
from tests.support.internals import lock_of

A, B = "http://a.test:80", "http://b.test:80"


def granted(budget: RetryBudget, origin: str, now: float, wanted: int = 10_000) -> int:
    """Return how many retries there are at once."""
    for count in range(wanted):
        if not budget._withdraw(origin, now):
            return count
    return wanted


def test_five_requests_earn_one_retry() -> None:
    budget = RetryBudget(ratio=0.2, reserve=0.0)
    for count in range(1, 26):
        budget._deposit(A, 0.0)
        assert budget._withdraw(A, 0.0) is (count % 5 == 0)


def test_rounding_loses_no_retry() -> None:
    """A hundred times 0.29 is below 29 in floating point."""
    budget = RetryBudget(ratio=0.29, reserve=0.0)
    for _ in range(100):
        budget._deposit(A, 0.0)
    assert budget.balance(A, 0.0) < 29
    assert granted(budget, A, 0.0) == 29


def test_the_reserve_is_so_many_a_second_over_the_window() -> None:
    assert granted(RetryBudget(ratio=0.0, reserve=10.0, window=10.0), A, 0.0) == 100
    assert granted(RetryBudget(ratio=0.0, reserve=0.5, window=4.0), A, 0.0) == 2


def test_a_deposit_is_forgotten_after_the_window() -> None:
    budget = RetryBudget(ratio=1.0, reserve=0.0, window=10.0)
    budget._deposit(A, 0.0)
    assert budget.balance(A, 9.9) == 1.0
    assert budget.balance(A, 10.0) == 0.0
    budget._deposit(A, 1e9)
    assert budget.balance(A, 1e9) == 1.0


def test_deposits_are_forgotten_one_by_one() -> None:
    budget = RetryBudget(ratio=1.0, reserve=0.0, window=10.0)
    for second in range(10):
        budget._deposit(A, float(second))
    assert [budget.balance(A, moment) for moment in (9.5, 10.0, 14.5, 18.0)] == [10, 9, 5, 1]


def test_a_withdrawal_is_forgotten_after_the_window() -> None:
    budget = RetryBudget(ratio=0.0, reserve=1.0, window=10.0)
    assert granted(budget, A, 0.0) == 10
    assert granted(budget, A, 9.9) == 0
    assert granted(budget, A, 10.0) == 10


def test_a_refund_undoes_a_withdrawal() -> None:
    budget = RetryBudget(ratio=0.0, reserve=0.1, window=10.0)
    assert budget._withdraw(A, 0.0)
    assert not budget._withdraw(A, 0.0)
    budget._refund(A, 0.0)
    assert budget._withdraw(A, 0.0)


def test_times_out_of_order_are_harmless() -> None:
    budget = RetryBudget(ratio=1.0, reserve=0.0)
    budget._deposit(A, 100.0)
    budget._deposit(A, 95.0)  # of a thread that read its clock before
    assert budget.balance(A, 100.0) == 2.0


def test_failures_of_one_origin_do_not_touch_anothers_budget() -> None:
    budget = RetryBudget(ratio=0.0, reserve=1.0)
    assert granted(budget, A, 0.0) == 10
    assert granted(budget, B, 0.0) == 10


def test_origins_unused_for_longest_are_forgotten_first() -> None:
    budget = RetryBudget(ratio=1.0, reserve=0.0, max_origins=2)
    budget._deposit(A, 0.0)
    budget._deposit(B, 0.0)
    budget._deposit(A, 1.0)  # which of them was used last is known to a tenth of the window
    budget._deposit("http://c.test:80", 1.0)
    assert [budget.balance(origin, 1.0) for origin in (A, B)] == [2.0, 0.0]


def test_threads_get_no_more_than_there_is() -> None:
    budget = RetryBudget(ratio=0.0, reserve=100.0, window=10.0)
    ready = threading.Barrier(8)
    got: list[int] = []

    def take() -> None:
        ready.wait()
        got.append(granted(budget, A, 0.0, wanted=500))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(got) == 1000


@pytest.mark.parametrize(
    "setting",
    [{"ratio": -0.1}, {"reserve": -1}, {"window": 0}, {"window": math.inf}, {"max_origins": 0}],
)
def test_a_setting_that_makes_no_sense_is_refused(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        RetryBudget(**setting)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forking with threads
@needs_fork
def test_a_forked_child_starts_with_nothing_counted() -> None:
    budget = RetryBudget(ratio=0.0, reserve=0.1)
    assert budget._withdraw(A, 0.0)
    with lock_of(budget):  # as another thread may hold it, which the child does not have
        reads, writes = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(5)  # or it would wait for that thread, for ever
            os.write(writes, pickle.dumps(budget._withdraw(A, 0.0)))
            os._exit(0)
        os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        assert pickle.load(pipe) is True
    os.waitpid(child, 0)
    assert not budget._withdraw(A, 0.0)


def test_a_server_that_fails_wholly_sees_little_more_than_without_retries() -> None:
    """100 requests a second for 10 s, each with 5 retries allowed: 6000 without a budget."""
    engine = ScriptedEngine(lambda request: 503)
    policy = RetryPolicy(5, backoff_strategy=FullJitterBackoff(base=0.0), budget=RetryBudget())
    with Client(transport=engine, retry=policy) as client:
        for _ in range(1000):
            client.get("http://h.test/")
            engine.advance(0.01)
    assert 1000 < len(engine.sent) <= 1000 * 1.2 + 10 * 10


def test_clients_that_share_a_policy_share_its_budget() -> None:
    policy = RetryPolicy(1, budget=RetryBudget(ratio=0.0, reserve=0.1))
    for attempts in (2, 1):
        engine = ScriptedEngine([503, 503])
        with Client(transport=engine, retry=policy) as client:
            client.get("http://h.test/")
        assert len(engine.sent) == attempts
