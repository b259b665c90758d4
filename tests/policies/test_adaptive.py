"""The adaptive limit: what makes it grow and shrink, and where it settles. Times are numbers."""

from __future__ import annotations

import copy
import gc
import heapq
import math
import pickle
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import curlhttp
from curlhttp import AdaptiveLimit, ConcurrencyLimit
from curlhttp._features.limits.adaptive import _MEMORY_SECONDS, _WINDOW
from curlhttp._features.limits.policy import Lease
from curlhttp.exceptions import (
    ConnectTimeout,
    DeadlineExceeded,
    PoolTimeout,
    ReadTimeout,
    WriteTimeout,
)
from tests.support.colours import needs_fork
from tests.support.internals import lock_of, run_script
from tests.support.values import slow_but_for

A, B = "http://a.test:80", "http://b.test:80"


class Origin:
    """Sends rounds of requests: as many at the same time as the limit allows, or fewer."""

    def __init__(self, limit: AdaptiveLimit, origin: str = A) -> None:
        self.limit = limit
        self.origin = origin
        self.now = 100.0

    @property
    def current(self) -> int:
        return self.limit.current(self.origin)

    def send(
        self, latency: float = 0.1, status_code: int = 200, at_once: int | None = None
    ) -> None:
        """Send one round."""
        leases = []
        for _ in range(self.current if at_once is None else at_once):
            lease = self.limit._try_acquire(self.origin)
            assert lease is not None
            leases.append(lease)
        begun, self.now = self.now, self.now + latency
        for lease in leases:
            self.limit._note_response(self.origin, status_code, latency, begun, self.now)
            lease.release()

    def window(self, latency: float = 0.1, status_code: int = 200) -> int:
        """Send rounds until the limit changes or might have; return the new limit."""
        for _ in range(-(-_WINDOW // self.current)):
            self.send(latency, status_code)
        return self.current


def taken(limit: ConcurrencyLimit, origin: str = A) -> Lease:
    lease = limit._try_acquire(origin)
    assert lease is not None
    return lease


# --- arguments ---


@pytest.mark.parametrize("name", ["initial", "minimum", "maximum"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", None, math.inf])
def test_a_limit_is_a_whole_number(name: str, value: Any) -> None:
    error = ValueError if type(value) in (int, float) else TypeError
    with pytest.raises(error, match=f"{name} must be a whole number from 1 on"):
        AdaptiveLimit(**{name: value})


@pytest.mark.parametrize("numbers", [(5, 6, 10), (11, 6, 10), (20, 30, 10)])
def test_the_initial_limit_is_between_the_others(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="initial must be between minimum and maximum"):
        AdaptiveLimit(*numbers)


def test_it_has_no_store_and_refuses_another_per() -> None:
    with pytest.raises(TypeError, match="store"):
        AdaptiveLimit(store=object())  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="per must be 'origin'"):
        AdaptiveLimit(per="host")  # type: ignore[arg-type]


def test_it_cannot_be_pickled_or_copied_and_the_error_says_why() -> None:
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="AdaptiveLimit cannot be pickled or copied: it knows"):
            act(AdaptiveLimit())


def test_its_repr_is_its_constructor() -> None:
    assert repr(AdaptiveLimit(3, 2, 9, per=None)) == "AdaptiveLimit(3, 2, 9, per=None)"


# --- growing ---


def test_a_limit_that_is_reached_grows_by_its_square_root() -> None:
    origin = Origin(AdaptiveLimit(16))
    assert origin.window() == 16 + 4
    assert origin.window() == math.floor(20 + math.sqrt(20))


def test_a_limit_that_is_not_reached_stays() -> None:
    origin = Origin(AdaptiveLimit(16))
    for _ in range(100):
        origin.send(at_once=15)
    assert origin.current == 16


def test_it_grows_to_the_maximum_and_no_further() -> None:
    origin = Origin(AdaptiveLimit(16, maximum=30))
    assert [origin.window() for _ in range(5)] == [20, 24, 29, 30, 30]


def test_requests_that_wait_are_sent_when_it_grows() -> None:
    limit = AdaptiveLimit(2, minimum=2)
    woken: list[int] = []
    leases = [taken(limit), taken(limit)]
    waiting = []
    for number in range(3):
        lease = Lease(limit, lambda number=number: woken.append(number))  # type: ignore[misc]
        limit._enqueue(lease, A)
        waiting.append(lease)
    for _ in range(_WINDOW - 1):
        limit._note_response(A, 200, 0.1, 0.0, 0.1)
    assert woken == []
    limit._note_response(A, 200, 0.1, 0.0, 0.1)
    assert woken == [0]  # from 2 to 3.4
    assert limit.in_use(A) == limit.current(A) == 3
    for lease in [*leases, *waiting]:
        lease.release()
    assert woken == [0, 1, 2]
    assert limit.in_use(A) == 0


# --- shrinking ---


def test_a_queue_at_the_origin_shrinks_it_by_the_gradient() -> None:
    origin = Origin(AdaptiveLimit(25))
    limit = origin.window(0.1)
    assert limit == 30
    assert origin.window(0.15) == math.floor(limit * 0.9 * 0.1 / 0.15)


def test_a_much_longer_latency_halves_it_at_most() -> None:
    origin = Origin(AdaptiveLimit(25))
    assert origin.window(0.1) == 30
    assert origin.window(30.0) == 15


def test_a_little_more_latency_is_no_queue() -> None:
    origin = Origin(AdaptiveLimit(25))
    assert origin.window(0.1) == 30
    assert origin.window(0.12) > 30


def test_latencies_below_a_millisecond_are_all_the_same() -> None:
    origin = Origin(AdaptiveLimit(25))
    assert origin.window(0.0) == 30
    assert origin.window(0.001) > 30


@pytest.mark.parametrize("status_code", [429, 503, 504])
def test_rejections_shrink_it(status_code: int) -> None:
    origin = Origin(AdaptiveLimit(40))
    assert origin.window(0.1, status_code) == 20


@pytest.mark.parametrize("kind", [ConnectTimeout, ReadTimeout, WriteTimeout])
def test_timeouts_shrink_it(kind: type[Exception]) -> None:
    limit = AdaptiveLimit(20)
    lease = taken(limit)
    for _ in range(_WINDOW):
        limit._note_failure(A, kind("late"), 0.0, 5.0)
    assert limit.current(A) == 10
    lease.release()


@pytest.mark.parametrize(("rejected", "expected"), [(1, 90), (20, 80), (50, 50), (90, 50)])
def test_it_shrinks_by_the_share_of_rejections_within_bounds(rejected: int, expected: int) -> None:
    limit = AdaptiveLimit(100)
    leases = [taken(limit) for _ in range(100)]
    for number in range(100):
        limit._note_response(A, 503 if number < rejected else 200, 0.1, 0.0, 0.1)
    assert limit.current(A) == expected
    assert len(leases) == 100


def test_requests_sent_before_a_decrease_do_not_shrink_it_again() -> None:
    limit = AdaptiveLimit(40)
    leases = [taken(limit) for _ in range(40)]
    for _ in range(200):
        limit._note_response(A, 503, 0.1, 1.0, 1.1)
    assert limit.current(A) == 20
    for _ in range(40):
        limit._note_response(A, 503, 0.1, 1.2, 1.3)
    assert limit.current(A) == 10
    assert len(leases) == 40


def test_a_limit_far_above_its_use_shrinks_to_it_in_steps() -> None:
    origin = Origin(AdaptiveLimit(400))
    for expected in (200, 100, 50, 25, 12):
        for _ in range(10):
            origin.send(0.1, 503, at_once=4)
            if origin.current == expected:
                break
        assert origin.current == expected


def test_a_few_rejections_of_a_limit_far_above_its_use_shrink_it_to_that() -> None:
    limit = AdaptiveLimit(40)
    leases = [taken(limit) for _ in range(24)]
    for number in range(24):
        limit._note_response(A, 503 if number == 0 else 200, 0.1, 0.0, 0.1)
    assert limit.current(A) == math.floor(24 * 0.9)
    assert len(leases) == 24


def test_it_never_falls_below_the_minimum() -> None:
    origin = Origin(AdaptiveLimit(40, minimum=7))
    for _ in range(50):
        origin.window(10.0, 503)
    assert origin.current == 7
    assert Origin(AdaptiveLimit(1)).window(10.0, 503) == 1


@pytest.mark.parametrize("status_code", [500, 502, 599])
def test_other_failures_of_the_server_say_nothing(status_code: int) -> None:
    origin = Origin(AdaptiveLimit(25))
    for _ in range(10):
        origin.send(0.0001, status_code)
    assert origin.current == 25


def test_responses_for_mistakes_of_the_caller_are_responses() -> None:
    assert Origin(AdaptiveLimit(25)).window(0.1, 404) == 30


@pytest.mark.parametrize(
    "error",
    [
        PoolTimeout("local"),
        DeadlineExceeded("not sent", request_sent=False),
        curlhttp.ConnectionError("reset"),
        curlhttp.CircuitBreakerOpen("open"),
        ValueError("local"),
    ],
)
def test_failures_on_this_side_and_broken_connections_say_nothing(error: Exception) -> None:
    origin = Origin(AdaptiveLimit(25, maximum=30))
    assert origin.window(0.1) == 30
    leases = [taken(origin.limit) for _ in range(30)]
    for _ in range(100):
        origin.limit._note_failure(A, error, origin.now, origin.now + 60.0)
    assert origin.current == 30
    assert len(leases) == 30


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), DeadlineExceeded("late", request_sent=True)]
)
def test_a_caller_who_gives_up_later_than_usual_has_seen_a_queue(error: BaseException) -> None:
    origin = Origin(AdaptiveLimit(25))
    assert origin.window(0.1) == 30
    leases = [taken(origin.limit) for _ in range(30)]
    for _ in range(100):  # in the middle of something: the origin may be as fast as before
        origin.limit._note_failure(A, error, origin.now, origin.now + 0.01)
    for lease in leases:
        lease.release()
    origin.now += 0.02
    assert origin.current == 30
    assert origin.window(0.1) > 30
    before = origin.current
    leases = [taken(origin.limit) for _ in range(before)]
    for _ in leases:
        origin.limit._note_failure(A, error, origin.now, origin.now + 5.0)
    assert origin.current == before // 2


# --- noise ---


def test_one_slow_response_is_no_queue() -> None:
    limit = AdaptiveLimit(20)
    leases = [taken(limit) for _ in range(20)]
    now = 0.0
    for _ in range(30):
        for number in range(max(_WINDOW, limit.current(A))):
            limit._note_response(A, 200, 30.0 if number == 7 else 0.1, now, now + 0.1)
        now += 0.1
        assert limit.current(A) >= 20
    assert len(leases) == 20


@pytest.mark.parametrize("seed", range(5))
def test_a_mix_of_fast_and_slow_urls_is_no_queue(seed: int) -> None:
    chance = random.Random(seed)
    limit = AdaptiveLimit(20, maximum=60)
    leases = [taken(limit) for _ in range(20)]
    now, found = 0.0, []
    for _ in range(400):
        for _ in range(60):
            latency = chance.choice([0.005, 0.005, 0.02, 0.5])
            limit._note_response(A, 200, latency, now, now + 0.1)
        now += 0.1
        leases += [taken(limit) for _ in range(limit.current(A) - len(leases))]
        found.append(limit.current(A))
    assert sorted(found)[len(found) // 4] > 40
    assert len(leases) >= 20


# --- forgetting ---


def test_it_forgets_at_once_what_decreases_do_not_bring_back() -> None:
    """The way to the server is longer from now on: its latency has nothing to do with the limit."""
    origin = Origin(AdaptiveLimit(25, maximum=60))
    while origin.window(0.1) < 60:
        pass
    assert [origin.window(0.3) for _ in range(4)] == [30, 15, 7, 60]
    assert origin.now < 100 + _MEMORY_SECONDS


def test_it_forgets_also_at_the_minimum() -> None:
    origin = Origin(AdaptiveLimit(4, minimum=4, maximum=8))
    while origin.window(0.1) < 8:
        pass
    limits = [origin.window(0.5) for _ in range(20)]
    assert min(limits) == 4
    assert limits[-1] == 8


def test_it_forgets_an_old_minimum_of_latency() -> None:
    limit = AdaptiveLimit(20, maximum=20)
    leases = [taken(limit) for _ in range(20)]
    best = limit._queues[A]._best  # type: ignore[attr-defined]
    now = 0.0
    for _ in range(30):  # slower by a fifth each time it was forgotten, which is no queue
        limit._note_response(A, 200, 0.1, now, now + 0.1)
        now += 0.1
    assert best.add(0.12, now) == pytest.approx(0.1)
    while best.add(0.12, now) < 0.12:
        now += 0.2
    assert _MEMORY_SECONDS <= now <= 3 * _MEMORY_SECONDS
    assert len(leases) == 20


def test_a_slow_origin_is_not_forgotten_between_two_windows() -> None:
    """With 60 s for a response, a window takes a minute."""
    origin = Origin(AdaptiveLimit(25, maximum=25))
    for _ in range(4):
        assert origin.window(60.0) == 25
    assert origin.window(180.0) < 25


def test_an_initial_limit_far_too_high_is_found_out_soon() -> None:
    """The first latencies are those of a long queue, which each decrease shows to be shorter."""
    seen = Model([AdaptiveLimit(60)], Serial((0, 20), away=0.0)).run(60)
    assert seen.limits[0].current(A) <= 6
    assert seen.rate(0, 0, 60) >= 0.9 * 20


# --- a model of origins ---


class Model:
    """Clients that always want to send, and a server.

    Args:
        limits: of the clients.
        server: returns how long a request takes that is sent now.
        starts: when each client begins.
    """

    def __init__(
        self,
        limits: list[AdaptiveLimit],
        server: Callable[[float], float],
        starts: list[float] | None = None,
    ) -> None:
        self.limits, self.server = limits, server
        self.ended: list[list[tuple[float, float]]] = [[] for _ in limits]
        self._events: list[tuple[float, int, int]] = []
        self._running: dict[int, tuple[Lease, float, float]] = {}
        self._number = 0
        for client, start in enumerate(starts or [0.0] * len(limits)):
            self._plan(start, client)

    def _plan(self, moment: float, client: int) -> int:
        self._number += 1
        heapq.heappush(self._events, (moment, self._number, client))
        return self._number

    def run(self, seconds: float) -> Model:
        """Run until a moment."""
        while self._events and self._events[0][0] < seconds:
            now, number, client = heapq.heappop(self._events)
            limit = self.limits[client]
            if number in self._running:
                lease, begun, latency = self._running.pop(number)
                limit._note_response(A, 200, latency, begun, now)
                lease.release()
                self.ended[client].append((now, latency))
            while (taken := limit._try_acquire(A)) is not None:
                latency = self.server(now)
                self._running[self._plan(now + latency, client)] = (taken, now, latency)
        return self

    def rate(self, client: int, begin: float, end: float) -> float:
        return len([1 for now, _ in self.ended[client] if begin <= now < end]) / (end - begin)

    def p99(self, begin: float, end: float) -> float:
        times = sorted(t for each in self.ended for now, t in each if begin <= now < end)
        return times[math.ceil(len(times) * 0.99) - 1]


class Serial:
    """One request after another, at a capacity that changes, 0.1 s away."""

    def __init__(
        self, *phases: tuple[float, float], seed: int | None = None, away: float = 0.1
    ) -> None:
        self._phases, self._away = phases, away
        self._free = 0.0
        self._chance = None if seed is None else random.Random(seed)

    def __call__(self, now: float) -> float:
        begin = max(self._free, now)
        capacity = [rate for since, rate in self._phases if since <= begin][-1]
        self._free = begin + 1 / capacity
        away = self._away if self._chance is None else 0.06 + self._chance.expovariate(1 / 0.04)
        return self._free - now + away


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_capacity_that_halves_and_comes_back_is_used(seed: int | None) -> None:
    server = Serial((0, 200), (20, 100), (40, 200), seed=seed)
    seen = Model([AdaptiveLimit()], server).run(60)
    calm = 0.1 if seed is None else 0.06 + 0.04 * math.log(100)  # p99 without any queue
    for begin, end, capacity in ((5, 20, 200), (20, 40, 100), (40, 60, 200)):
        assert seen.rate(0, begin, end) >= 0.9 * capacity
        assert seen.p99(begin + 3, end) <= 2 * (calm + 10 / capacity)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_server_that_gets_slower_for_everybody_is_used_as_before(seed: int | None) -> None:
    """Each request takes twice as long: fewer at the same time would be of no use."""
    chance = random.Random(seed)

    def server(now: float) -> float:
        factor = 1.0 if now < 20 else 2.0
        return factor * (0.1 if seed is None else 0.06 + chance.expovariate(1 / 0.04))

    seen = Model([AdaptiveLimit(20, maximum=30)], server).run(60)
    assert seen.rate(0, 10, 20) >= 0.9 * 300
    assert seen.rate(0, 30, 60) >= 0.9 * 150


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
@pytest.mark.parametrize(("factor", "pause"), [(4, 10), (10, 20)])
def test_a_server_that_gets_much_slower_for_everybody_is_used_soon(
    factor: int, pause: float, seed: int | None
) -> None:
    """Chance does not look like the effect of a decrease, and useless decreases are undone."""
    chance = random.Random(seed)

    def server(now: float) -> float:
        seconds = 0.1 if seed is None else 0.06 + chance.expovariate(1 / 0.04)
        return seconds if now < 20 else factor * seconds

    seen = Model([AdaptiveLimit(20, maximum=30)], server).run(60)
    assert seen.rate(0, 20, 30) >= 0.4 * 300 / factor
    assert seen.rate(0, 20 + pause, 50) >= 0.9 * 300 / factor


@pytest.mark.parametrize("initials", [(20, 20), (1, 60), (60, 5)])
@pytest.mark.parametrize("seed", slow_but_for([1], [None, 1, 2]))
def test_two_clients_get_the_same(initials: tuple[int, int], seed: int | None) -> None:
    limits = [AdaptiveLimit(number) for number in initials]
    seen = Model(limits, Serial((0, 300), seed=seed), [0.0, 15.0]).run(60)
    first, second = seen.rate(0, 25, 60), seen.rate(1, 25, 60)
    assert (first + second) ** 2 / (2 * (first**2 + second**2)) >= 0.9
    assert first + second >= 0.9 * 300


# --- origins, threads, forks ---


def test_origins_have_limits_that_differ_or_one_for_all() -> None:
    each, together = AdaptiveLimit(25), AdaptiveLimit(25, per=None)
    for limit in (each, together):
        Origin(limit, A).window()
    assert (each.current(A), each.current(B)) == (30, 25)
    assert (together.current(A), together.current(B)) == (30, 30)


def test_what_was_learned_about_idle_origins_is_kept_for_the_last_thousand() -> None:
    limit = AdaptiveLimit(25)
    busy = Origin(limit, A)
    assert busy.window() == 30
    held = taken(limit, A)
    Origin(limit, B).window()
    for number in range(999):
        taken(limit, f"http://h{number}.test:80").release()
    assert limit.current(B) == 30
    taken(limit, "http://last.test:80").release()
    assert limit.current(B) == 25  # forgotten, because it was idle for longest
    assert limit.current(A) == 30
    assert len(limit._states()) == 1001
    held.release()
    for number in range(5000):
        taken(limit, f"http://x{number}.test:80").release()
    assert len(limit._queues) == len(limit._idle) == 1000


def test_what_is_heard_of_a_forgotten_origin_is_dropped() -> None:
    limit = AdaptiveLimit(25)
    limit._note_response(A, 503, 0.1, 0.0, 0.1)
    limit._note_failure(A, ReadTimeout("late"), 0.0, 0.1)
    assert limit._states() == {}


def test_a_lost_lease_comes_back() -> None:
    limit = AdaptiveLimit(1)
    woken: list[int] = []
    running = taken(limit)
    waiting = Lease(limit, lambda: woken.append(1))
    limit._enqueue(waiting, A)
    del running
    gc.collect()
    assert woken == [1]
    assert waiting.granted


def test_what_a_finalizer_says_waits_for_no_lock() -> None:
    limit = AdaptiveLimit(1)
    lease = taken(limit)

    def tell() -> None:
        with lock_of(limit):
            for _ in range(_WINDOW):
                limit._note_failure(A, GeneratorExit(), 0.0, 0.1)
                limit._note_response(A, 200, 0.1, 0.0, 0.1)
        assert limit.current(A) == 1
        assert limit._try_acquire(B) is not None  # whoever has the lock next makes up for it

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "a dead lock"
    assert limit.current(A) == 2
    lease.release()


def test_threads_hold_no_more_than_the_maximum_and_lose_none() -> None:
    limit = AdaptiveLimit(3, minimum=2, maximum=5)
    inside: list[int] = []
    most: list[int] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for number in range(50):
            lease = limit._try_acquire(A)
            if lease is None:
                woken = threading.Event()
                lease = Lease(limit, woken.set)
                limit._enqueue(lease, A)
                if not lease.granted:
                    assert woken.wait(60)
                lease.confirm()
            inside.append(1)
            most.append(len(inside))
            limit._note_response(A, chance.choice([200, 200, 200, 503]), 0.1, number, number + 0.1)
            inside.pop()
            lease.release()

    with ThreadPoolExecutor(32) as threads:
        list(threads.map(work, range(32)))
    assert max(most) <= 5
    assert limit.in_use(A) == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["come", "good", "slow", "503", "timeout", "cancel"]),
            st.integers(0, 30),
            st.floats(0, 3),
        ),
        max_size=300,
    ),
    st.integers(1, 4),
    st.integers(4, 12),
)
def test_whatever_happens_the_limit_holds_and_nobody_waits_in_vain(
    steps: list[tuple[str, int, float]], minimum: int, maximum: int
) -> None:
    limit = AdaptiveLimit(4, minimum, maximum)
    now, leases = 0.0, list[tuple[Lease, float]]()
    for what, at, seconds in steps:
        now += seconds
        before = limit.in_use(A)
        if what == "come":
            lease = limit._try_acquire(A)
            if lease is None:
                lease = Lease(limit, lambda: None)
                limit._enqueue(lease, A)
            leases.append((lease, now))
        elif leases:
            lease, begun = leases.pop(at % len(leases))
            if lease.granted and what == "timeout":
                for _ in range(at):  # as many as there may have been meanwhile
                    limit._note_failure(A, ReadTimeout("late"), begun, now)
            elif lease.granted and what != "cancel":
                latency = seconds * (10 if what == "slow" else 1)
                status_code = 503 if what == "503" else 200
                for _ in range(at):
                    limit._note_response(A, status_code, latency, begun, now)
            lease.release()
        granted = sum(lease.granted for lease, _ in leases)
        current = limit.current(A)
        assert minimum <= current <= maximum
        assert limit.in_use(A) == granted <= max(before, current)
        assert granted == len(leases) or granted >= current


@needs_fork
def test_a_forked_child_starts_from_the_beginning() -> None:
    script = """
import os
from curlhttp import AdaptiveLimit

limit = AdaptiveLimit(1)
lease = limit._try_acquire("a")
limit._lock.acquire()
child = os.fork()
if not child:
    mine = limit._try_acquire("a")
    assert mine is not None and limit.current("a") == 1
    lease.release()
    limit._note_response("a", 200, 0.1, 0.0, 0.1)
    assert limit.in_use("a") == 1
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_script(script).strip() == "0"
