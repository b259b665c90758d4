"""One circuit breaker for many threads: exact counts, no deadlocks, and use after a fork."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from curlhttp import CircuitBreaker, CircuitBreakerOpen
from curlhttp.types import Transition
from tests.support.colours import needs_fork
from tests.support.internals import run_script

ORIGIN = "http://a.test:80"


@pytest.fixture(autouse=True)
def _threads_take_turns_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def opened(breaker: CircuitBreaker) -> CircuitBreaker:
    """Return a breaker that failures have opened at the time 0."""
    while breaker.state(ORIGIN) == "closed":
        breaker._admit(ORIGIN, 0.0).fail(0.0)
    return breaker


def in_time(act: Callable[[], object]) -> None:
    """Act in another thread, and fail if that never ends."""
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "a dead lock"


@pytest.mark.parametrize("permits", [1, 3, 10])
def test_half_open_admits_exactly_its_permits_among_64_threads(permits: int) -> None:
    breaker = opened(CircuitBreaker(1, recovery_timeout=30, half_open_permits=permits))
    barrier = threading.Barrier(64)

    def ask(now: float) -> Any:
        barrier.wait(60)
        try:
            return breaker._admit(ORIGIN, now)
        except CircuitBreakerOpen:
            return None

    with ThreadPoolExecutor(64) as threads:
        for turn in range(1, 21):
            now = turn * 30.0
            admitted = [permit for permit in threads.map(ask, [now] * 64) if permit is not None]
            assert len(admitted) == permits
            assert sum(permit.transition is not None for permit in admitted) == 1
            admitted[-1].fail(now)  # open again


def test_64_threads_that_cancel_block_nothing() -> None:
    breaker = opened(CircuitBreaker(1, recovery_timeout=30, half_open_permits=2))
    under_way: list[int] = []
    most = []

    def come_and_go(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(200):
            try:
                permit = breaker._admit(ORIGIN, 30.0)
            except CircuitBreakerOpen:
                continue
            under_way.append(1)
            most.append(len(under_way))
            under_way.pop()  # before its permit is free
            if chance.random() < 0.5:
                permit.release()
            del permit  # or is lost

    with ThreadPoolExecutor(64) as threads:
        list(threads.map(come_and_go, range(64)))
    assert max(most) <= 2
    assert breaker.metrics(ORIGIN)[:1] == ("half_open",)
    assert breaker.metrics(ORIGIN).probes == 0
    assert len([breaker._admit(ORIGIN, 30.0), breaker._admit(ORIGIN, 30.0)]) == 2


def test_threads_lose_no_result() -> None:
    breaker = CircuitBreaker(failure_rate=1.0, window=10_000, minimum_calls=10_000)

    def call(seed: int) -> None:
        for number in range(500):
            permit = breaker._admit(ORIGIN, 0.0)
            (permit.fail if number % 5 == 0 else permit.succeed)(0.0)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(call, range(8)))
    assert breaker.metrics(ORIGIN)[:3] == ("closed", 4000, 800)


def test_one_step_at_a_time_is_taken() -> None:
    store = CircuitBreaker()._store
    other = threading.Event()

    def second(circuit: Any, now: float, what: None) -> None:
        other.set()

    def first(circuit: Any, now: float, what: None) -> bool:
        thread = threading.Thread(target=store.change, args=(ORIGIN, 0.0, second, None))
        thread.start()
        return other.wait(0.05)

    for _ in range(2):  # of a circuit that is made, and of one that is there
        other.clear()
        assert not store.change(ORIGIN, 0.0, first, None)
        assert other.wait(60)


def test_hooks_run_when_the_lock_is_free() -> None:
    transitions: list[Transition] = []

    def hook(change: Transition) -> None:
        in_time(lambda: breaker._admit("http://b.test:80", 0.0))
        transitions.append(change)  # not where that failed, which would only be logged

    breaker = CircuitBreaker(1, on_transition=hook)
    opened(breaker)
    breaker._admit(ORIGIN, 30.0).succeed(30.0)
    breaker.force_open(ORIGIN)
    assert len(transitions) == 4


def test_a_finalizer_may_run_while_its_thread_has_the_lock() -> None:
    breaker = opened(CircuitBreaker(1, recovery_timeout=30))
    store = breaker._store
    probes = [breaker._admit(ORIGIN, 30.0)]

    def lose_the_probe(circuit: Any, now: float, what: None) -> None:
        probes.clear()

    in_time(lambda: store.change(ORIGIN, 30.0, lose_the_probe, None))
    assert breaker.metrics(ORIGIN).probes == 0


_FORK = """
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: so it is wanted
from curlhttp import CircuitBreaker, CircuitBreakerOpen

breaker = CircuitBreaker(2, recovery_timeout=7.0, failure_rate=0.5, minimum_calls=4)
origin = "http://a.test:80"
for _ in range(2):
    breaker._admit(origin, 0.0).fail(0.0)
breaker._admit("http://c.test:80", 0.0).fail(0.0)
under_way = breaker._admit("http://c.test:80", 0.0)
breaker.force_open("http://b.test")
assert breaker.state(origin) == "open"

held, forked = threading.Event(), threading.Event()
def hold(circuit, now, what):
    held.set()
    forked.wait()
thread = threading.Thread(target=breaker._store.change, args=(origin, 0.0, hold, None))
thread.start()
held.wait()

pid = os.fork()
if pid == 0:
    assert breaker.state(origin) == "closed"
    assert breaker.state("http://b.test") == "forced_open"
    under_way.fail(1.0)
    assert breaker.metrics("http://c.test").failures_in_a_row == 0
    for _ in range(2):
        breaker._admit(origin, 1.0).fail(1.0)
    try:
        breaker._admit(origin, 2.0)
    except CircuitBreakerOpen as error:
        assert error.retry_after == 6.0
        os._exit(0)
    os._exit(1)
forked.set()
thread.join()
assert os.waitpid(pid, 0)[1] == 0
assert breaker.state(origin) == "open"
assert breaker.metrics("http://c.test").failures_in_a_row == 1
print("ok")
"""


@needs_fork
def test_a_forked_child_has_the_settings_and_not_the_counts() -> None:
    assert run_script(_FORK) == "ok\n"
