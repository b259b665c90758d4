"""The limits alone: queues, leases, reservations. Times are numbers; nothing sleeps."""

from __future__ import annotations

import gc
import math
import random
import threading
import tracemalloc
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curlhttp import Client, ConcurrencyLimit, DeadlineExceeded, RateLimit, Timeout
from curlhttp import exceptions as e
from curlhttp._features.limits.policy import Lease, Reservation
from curlhttp.testing import ScriptedEngine
from tests.support.colours import needs_fork
from tests.support.internals import lock_of, run_script

A, B = "http://a.test:80", "http://b.test:80"


def taken(limit: ConcurrencyLimit, origin: str = A) -> Lease:
    lease = limit._try_acquire(origin)
    assert lease is not None
    return lease


def nothing() -> None:
    """Be woken, and know of it by other means."""


def queued(limit: ConcurrencyLimit, wake: Callable[[], object] = nothing) -> Lease:
    lease = Lease(limit, wake)
    limit._enqueue(lease, A)
    return lease


def join(
    limit: RateLimit,
    now: float = 0.0,
    patience: float = math.inf,
    wake: Callable[[], object] = nothing,
) -> Reservation:
    turn = Reservation(limit, wake)
    limit._enqueue(turn, A, now, patience)
    return turn


# --- at once ---


def test_there_are_no_more_leases_than_the_limit() -> None:
    limit = ConcurrencyLimit(2)
    first, second = taken(limit), taken(limit)
    assert limit._try_acquire(A) is None
    assert limit.in_use(A) == 2
    first.release()
    third = taken(limit)
    assert limit._try_acquire(A) is None
    second.release()
    third.release()
    assert limit.in_use(A) == 0


def test_a_lease_is_released_once() -> None:
    limit = ConcurrencyLimit(2)
    first, second = taken(limit), taken(limit)
    for _ in range(3):
        first.release()
    assert limit.in_use(A) == 1
    second.end(None)
    assert limit.in_use(A) == 0


def test_origins_have_their_own_limits_or_one_for_all() -> None:
    each, together = ConcurrencyLimit(1), ConcurrencyLimit(1, per=None)
    leases = [taken(each, A), taken(each, B), taken(together, A)]
    assert each._try_acquire(A) is None
    assert together._try_acquire(B) is None
    assert len(leases) == 3


def test_waiters_are_served_in_order() -> None:
    limit = ConcurrencyLimit(2)
    running, woken = [taken(limit), taken(limit)], list[int]()
    waiting = [queued(limit, lambda n=n: woken.append(n)) for n in range(4)]  # type: ignore[misc]
    assert [lease.granted for lease in waiting] == [False] * 4
    running[1].release()
    assert woken == [0]
    assert limit._try_acquire(A) is None  # no request jumps the queue
    running[0].release()
    waiting[0].release()
    assert woken == [0, 1, 2]
    assert [lease.granted for lease in waiting] == [True, True, True, False]
    assert limit.in_use(A) == 2


def test_a_new_request_does_not_overtake_a_woken_waiter() -> None:
    limit = ConcurrencyLimit(2)
    running, woken = [taken(limit), taken(limit)], list[int]()
    first = queued(limit, lambda: woken.append(1))
    running[0].release()
    running[1].release()
    assert limit._try_acquire(A) is None  # there is room; but it would go before the first
    second = queued(limit, lambda: woken.append(2))
    assert woken == [1, 2]
    assert second.granted
    first.confirm()
    second.release()  # cancelled just now, say
    third = taken(limit)
    assert third.granted
    assert limit.in_use(A) == 2


def test_a_waiter_that_left_the_queue_is_skipped() -> None:
    limit = ConcurrencyLimit(1)
    running, woken = taken(limit), list[int]()
    waiting = [queued(limit, lambda n=n: woken.append(n)) for n in range(3)]  # type: ignore[misc]
    waiting[0].release()
    running.release()
    assert woken == [1]
    waiting[2].release()
    waiting[1].release()
    assert woken == [1]
    assert limit.in_use(A) == 0
    assert taken(limit).granted


def test_a_waiter_that_leaves_with_its_lease_passes_it_on() -> None:
    limit = ConcurrencyLimit(1)
    running, woken = taken(limit), list[int]()
    waiting = [queued(limit, lambda n=n: woken.append(n)) for n in range(2)]  # type: ignore[misc]
    running.release()
    assert waiting[0].granted
    waiting[0].release()  # cancelled just now, say
    assert woken == [0, 1]
    assert waiting[1].granted


def test_joining_an_empty_queue_is_a_lease() -> None:
    limit = ConcurrencyLimit(1)
    lease = queued(limit)
    assert lease.granted
    assert limit._try_acquire(A) is None


def test_a_lost_lease_is_released() -> None:
    limit = ConcurrencyLimit(1)
    running, woken = taken(limit), list[int]()
    waiting = queued(limit, lambda: woken.append(1))
    del running
    gc.collect()
    assert woken == [1]
    assert waiting.granted


def test_a_lease_may_be_lost_while_its_thread_has_the_lock() -> None:
    limit = ConcurrencyLimit(1)
    leases, woken = [taken(limit)], list[int]()
    waiting = queued(limit, lambda: woken.append(1))

    def lose() -> None:
        with lock_of(limit):
            leases.clear()
            assert woken == []
        assert limit._try_acquire(A) is None  # the next holder of the lock does it

    in_time(lose)
    assert woken == [1]
    assert waiting.granted


def in_time(act: Callable[[], object]) -> None:
    """Act in another thread, and fail if that never ends."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "a dead lock"
    assert not raised, raised


def test_a_woken_waiter_may_use_the_limit() -> None:
    limit = ConcurrencyLimit(1)
    running = taken(limit)
    later: list[Lease] = []
    waiting = queued(limit, lambda: later.append(queued(limit)))
    in_time(running.release)
    assert waiting.granted
    assert not later[0].granted


def test_idle_origins_take_no_memory() -> None:
    """Of leases."""
    limit = ConcurrencyLimit(1)
    for number in range(100):
        taken(limit, f"http://h{number}.test:80").release()
    assert limit._states() == {}


def test_64_threads_are_never_more_than_the_limit() -> None:
    limit = ConcurrencyLimit(3)
    inside: list[int] = []
    most: list[int] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(50):
            lease = limit._try_acquire(A)
            if lease is None:
                woken = threading.Event()
                lease = queued(limit, woken.set)
                if chance.random() < 0.3:
                    lease.release()  # gives up
                    continue
                if not lease.granted:
                    assert woken.wait(60)
            inside.append(1)
            most.append(len(inside))
            inside.pop()
            lease.release()

    with ThreadPoolExecutor(64) as threads:
        list(threads.map(work, range(64)))
    assert max(most) <= 3
    assert limit.in_use(A) == 0
    assert limit._states() == {}


@given(st.lists(st.tuples(st.sampled_from(["come", "leave"]), st.integers(0, 9)), max_size=60))
def test_a_queue_is_fifo_whoever_joins_and_leaves(steps: list[tuple[str, int]]) -> None:
    limit = ConcurrencyLimit(2)
    running: list[int] = []
    waiting: list[int] = []
    leases: dict[int, Lease] = {}
    for number, (what, at) in enumerate(steps):
        here = running + waiting
        if what == "come":
            leases[number] = limit._try_acquire(A) or queued(limit)
            (waiting if len(running) == 2 or waiting else running).append(number)
        elif here:
            gone = here[at % len(here)]
            leases.pop(gone).release()
            (running if gone in running else waiting).remove(gone)
            if len(running) < 2 and waiting:
                running.append(waiting.pop(0))
        assert sorted(n for n, lease in leases.items() if lease.granted) == sorted(running)


# --- per second ---


def test_a_burst_is_sent_at_once_and_later_requests_at_the_rate() -> None:
    limit = RateLimit(10, burst=3)
    assert [limit._try_acquire(A, 100.0) for _ in range(4)] == [True, True, True, False]
    assert not limit._try_acquire(A, 100.0999)
    assert limit._try_acquire(A, 100.1)
    assert not limit._try_acquire(A, 100.1)
    assert [limit._try_acquire(A, 200.0) for _ in range(4)] == [True, True, True, False]


def test_without_a_burst_requests_are_apart() -> None:
    limit = RateLimit(4)
    times = [step / 100 for step in range(200)]
    assert [now for now in times if limit._try_acquire(A, now)] == [
        0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75,
    ]  # fmt: skip


def test_rates_are_per_origin_or_for_all() -> None:
    each, together = RateLimit(1), RateLimit(1, per=None)
    assert each._try_acquire(A, 0.0)
    assert each._try_acquire(B, 0.0)
    assert together._try_acquire(A, 0.0)
    assert not together._try_acquire(B, 0.0)


def test_the_first_waiter_gets_the_time_to_sleep() -> None:
    limit = RateLimit(10)
    assert limit._try_acquire(A, 0.0)
    turn = join(limit)
    assert turn.is_first
    assert turn.try_acquire(0.0) == pytest.approx(0.1)
    assert turn.try_acquire(0.04) == pytest.approx(0.06)
    assert turn.try_acquire(0.1) == 0.0
    assert not limit._try_acquire(A, 0.1)


def test_a_timer_that_is_a_little_early_is_no_reason_to_sleep_again() -> None:
    limit = RateLimit(10)
    assert limit._try_acquire(A, 1e6)
    assert join(limit, 1e6).try_acquire(1e6 + 0.1 - 1e-7) == 0.0


def test_reservations_are_in_order_and_only_the_first_has_a_time() -> None:
    limit = RateLimit(10)
    woken: list[int] = []
    assert limit._try_acquire(A, 0.0)
    turns = [join(limit, wake=lambda n=n: woken.append(n)) for n in range(3)]  # type: ignore[misc]
    assert [turn.is_first for turn in turns] == [True, False, False]
    assert not limit._try_acquire(A, 0.1)  # no request jumps the queue
    assert turns[0].try_acquire(0.1) == 0.0
    assert woken == [1]
    turns[1].leave()
    turns[1].leave()
    assert woken == [1, 2]
    assert turns[2].try_acquire(0.15) == pytest.approx(0.05)
    assert turns[2].try_acquire(0.2) == 0.0
    assert woken == [1, 2]
    assert limit._try_acquire(A, 0.3)


def test_leaving_the_middle_of_the_queue_moves_the_others_up() -> None:
    limit = RateLimit(1)
    assert limit._try_acquire(A, 0.0)
    first, second, third = join(limit), join(limit), join(limit)
    second.leave()
    assert first.try_acquire(1.0) == 0.0
    assert third.is_first
    assert third.try_acquire(2.0) == 0.0


def test_a_wait_beyond_the_deadline_is_refused_at_once() -> None:
    limit = RateLimit(2)
    assert limit._try_acquire(A, 0.0)
    turns = [join(limit, patience=0.5), join(limit, patience=1.0)]
    message = r"the rate limit of 2 requests per second admits it in 1\.5 s, .* is in 1\.49 s"
    with pytest.raises(DeadlineExceeded, match=message):
        join(limit, patience=1.49)
    turns.append(join(limit, patience=1.5))  # who was refused is not in the line
    with pytest.raises(DeadlineExceeded):
        join(limit, patience=-1)
    assert len(turns) == 3


def test_a_reservation_of_an_unsent_request_is_returned() -> None:
    limit = RateLimit(1, burst=2)
    assert [limit._try_acquire(A, 0.0) for _ in range(3)] == [True, True, False]
    limit._refund(A)
    limit._refund(B)
    assert [limit._try_acquire(A, 0.0) for _ in range(2)] == [True, False]
    assert limit._try_acquire(B, 0.0)


def test_a_reservation_may_be_released_while_its_thread_holds_the_lock() -> None:
    limit = RateLimit(10)
    assert limit._try_acquire(A, 0.0)
    first, second = join(limit), join(limit)

    def leave() -> None:
        with lock_of(limit):
            first.leave()
        limit._try_acquire(B, 0.0)

    in_time(leave)
    assert second.is_first


def test_threads_at_one_moment_get_one_burst() -> None:
    limit = RateLimit(100, burst=7)
    barrier = threading.Barrier(32)

    def ask(_: int) -> bool:
        barrier.wait(60)
        return limit._try_acquire(A, 5.0)

    with ThreadPoolExecutor(32) as threads:
        assert sum(threads.map(ask, range(32))) == 7


def test_origins_without_traffic_are_forgotten() -> None:
    """Of rates."""
    limit = RateLimit(1)
    tracemalloc.start()
    try:
        for number in range(10_000):
            assert limit._try_acquire(f"http://h{number}.test:80", number * 1.0)
        assert tracemalloc.get_traced_memory()[0] < 1_500_000
    finally:
        tracemalloc.stop()


@given(
    rate=st.floats(0.5, 500),
    burst=st.integers(1, 5),
    gaps=st.lists(st.floats(0, 0.1), min_size=1, max_size=60),
    leavers=st.sets(st.integers(0, 59)),
)
def test_no_period_has_more_than_the_rate_and_a_burst(
    rate: float, burst: int, gaps: list[float], leavers: set[int]
) -> None:
    limit = RateLimit(rate, burst=burst)
    now, sent, waiting = 0.0, list[float](), list[tuple[int, Reservation]]()

    def let_go(until: float) -> None:
        nonlocal now
        while waiting:
            assert waiting[0][1].is_first
            seconds = waiting[0][1].try_acquire(now)
            if seconds and now + seconds > until:
                break
            now += seconds
            if not seconds:
                sent.append(now)
                del waiting[0]
        now = max(now, until)

    for number, gap in enumerate(gaps):
        let_go(now + gap)
        if limit._try_acquire(A, now):
            assert not waiting
            sent.append(now)
        else:
            waiting.append((number, join(limit, now)))
            if number in leavers:
                waiting.pop(len(waiting) // 2)[1].leave()
    let_go(math.inf)
    for first in range(len(sent)):
        for last in range(first, len(sent)):
            seconds = sent[last] - sent[first]
            assert last - first + 1 <= burst + rate * seconds + rate * 2e-6 * (last - first + 1)


def most_above(times: list[float], rate: float, burst: int, period: float = 1.0) -> float:
    """Return how many requests too many any period has, of that length or from the first on."""
    ahead = [number - rate * time for number, time in enumerate(times)]
    most = list(accumulate(reversed(ahead), max))[::-1]  # from each on
    starts = {first: bisect_left(times, times[first] + period) for first in range(len(times))}
    starts[0] = 0
    return max(
        most[last] - ahead[first] + 1 - burst for first, last in starts.items() if last < len(times)
    )


def sent_in_line(limit: RateLimit, count: int, late: Callable[[], float]) -> list[float]:
    """Return when so many requests go that wait in the queue, each with a timer that fires late."""
    now, sent = 0.0, list[float]()
    turns = [join(limit) for _ in range(count)]
    for turn in turns:
        while seconds := turn.try_acquire(now):
            now += seconds + late()
        sent.append(now)
    return sent


@pytest.mark.parametrize("burst", [1, 3])
@pytest.mark.parametrize("rate", [20, 200, 1000])
@pytest.mark.parametrize("late", ["a millisecond", "up to 15 ms", "40 ms now and then"])
def test_timers_that_fire_late_cost_no_rate(rate: int, burst: int, late: str) -> None:
    chance = random.Random(7)
    by = {
        "a millisecond": lambda: 0.001,
        "up to 15 ms": lambda: chance.random() * 0.015,
        "40 ms now and then": lambda: 0.04 if chance.random() < 0.1 else 0.0001,
    }
    sent = sent_in_line(RateLimit(rate, burst=burst), 3 * rate, by[late])
    assert len(sent) - 1 >= 0.95 * rate * sent[-1]
    assert most_above(sent, rate, burst) <= 1e-6


def test_a_long_stop_is_not_made_up_for() -> None:
    limit = RateLimit(100)
    turns = [join(limit) for _ in range(20)]
    assert turns[0].try_acquire(0.0) == 0
    assert [turn.try_acquire(60.0) for turn in turns[1:6]] == [0] * 5  # for 45 ms, and one in time
    assert turns[6].try_acquire(60.0) > 0


@pytest.mark.parametrize(
    ("comes", "due"),
    [
        (0.0245, 0.0302),  # late only since it was held up, and by less: counts as sent at 0.0201
        (0.0300, 0.0342),  # later than that explains, by 2 ms, which are lost twice
        (0.0400, 0.0500),  # after a pause
    ],
)
def test_a_caller_that_was_held_up_by_a_late_timer_is_not_held_up_again(
    comes: float, due: float
) -> None:
    limit = RateLimit(100)
    assert limit._try_acquire(A, 0.0)
    assert join(limit).try_acquire(0.01 + 0.008) == 0  # due at 0.01
    assert limit._try_acquire(A, comes)
    assert join(limit, comes).try_acquire(comes) == pytest.approx(due - comes, abs=1e-4)


def test_after_a_pause_nothing_is_made_up_for() -> None:
    limit = RateLimit(100)
    assert limit._try_acquire(A, 0.0)
    assert join(limit).try_acquire(0.01 + 0.04) == 0
    assert limit._try_acquire(A, 0.5)
    assert not limit._try_acquire(A, 0.509)


@given(
    rate=st.sampled_from([3, 40, 100]),
    burst=st.integers(1, 3),
    gaps=st.lists(st.sampled_from([0.0, 0.001, 0.02, 0.05, 0.3]), min_size=60, max_size=150),
    lates=st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.04, 0.2]), min_size=1, max_size=20),
)
def test_no_second_has_more_than_the_rate_and_a_burst_however_late_timers_are(
    rate: float, burst: int, gaps: list[float], lates: list[float]
) -> None:
    limit = RateLimit(rate, burst=burst)
    now, sent, waiting, late = 0.0, list[float](), list[Reservation](), cycle(lates)
    wakes = math.inf  # when the first in line does

    def let_go(until: float) -> None:
        nonlocal now, wakes
        while waiting and wakes <= until:
            now = max(now, wakes)
            if seconds := waiting[0].try_acquire(now):
                wakes = now + seconds + next(late)
            else:
                sent.append(now)
                del waiting[0]
        now = max(now, until)

    for gap in gaps:
        let_go(now + gap)
        if limit._try_acquire(A, now):
            assert not waiting
            sent.append(now)
        else:
            if not waiting:
                wakes = now
            waiting.append(join(limit, now))
    let_go(math.inf)
    assert most_above(sent, rate, burst) <= 1e-6 * len(sent) * rate


# --- both ---


_FORK = """
import os
from curlhttp import ConcurrencyLimit, RateLimit

rate, at_once = RateLimit(1, burst=2), ConcurrencyLimit(1)
origin = "http://a.test:80"
assert rate._try_acquire(origin, 0.0) and rate._try_acquire(origin, 0.0)
lease = at_once._try_acquire(origin)
rate._lock.acquire()
at_once._lock.acquire()
pid = os.fork()
if pid == 0:
    assert [rate._try_acquire(origin, 0.0) for _ in range(3)] == [True, True, False]
    own = at_once._try_acquire(origin)
    assert own is not None
    lease.release()  # the parent's
    assert at_once.in_use(origin) == 1 and at_once._try_acquire(origin) is None
    own.release()
    assert at_once.in_use(origin) == 0
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
rate._lock.release()
at_once._lock.release()
assert at_once._try_acquire(origin) is None
print("ok")
"""


@needs_fork
def test_a_forked_child_starts_with_empty_lines() -> None:
    assert run_script(_FORK) == "ok\n"


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: RateLimit(0), "rate"),
        (lambda: RateLimit(math.inf), "rate"),
        (lambda: RateLimit(math.nan), "rate"),
        (lambda: RateLimit(1, burst=0), "burst"),
        (lambda: RateLimit(1, per="host"), "per"),  # type: ignore[arg-type]
        (lambda: ConcurrencyLimit(0), "limit"),
        (lambda: ConcurrencyLimit(1, per="host"), "per"),  # type: ignore[arg-type]
    ],
)
def test_settings_out_of_range_are_refused(make: Callable[[], Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        make()


def test_limits_have_a_repr() -> None:
    assert repr(RateLimit(2.5, burst=3)) == "RateLimit(2.5, burst=3, per='origin')"
    assert repr(ConcurrencyLimit(4, per=None)) == "ConcurrencyLimit(4, per=None)"


def test_a_late_request_makes_no_other_sleep_past_the_total() -> None:
    limit = RateLimit(0.1)
    assert limit._try_acquire("http://h.test:80", 0.0)
    first = Reservation(limit, lambda: None)
    limit._enqueue(first, "http://h.test:80", 0.0, math.inf)

    class Waiter:
        """Where the next one waits until the first goes, 5 s late."""

        def __init__(self, wake: Callable[[], object]) -> None:
            self.wake = wake

        async def wait(self, seconds: float | None) -> None:
            engine.advance(15.0)
            assert first.try_acquire(engine.now()) == 0

    class Engine(ScriptedEngine):
        @property
        def runtime(self) -> Any:
            return super().runtime._replace(make_waiter=lambda: Waiter(lambda: None))  # type: ignore[arg-type,return-value]

    engine = Engine([200])
    with Client(transport=engine, rate_limit=limit, timeout=Timeout(total=21.0)) as client:
        with pytest.raises(e.DeadlineExceeded, match="rate limit"):
            client.get("http://h.test/")
    assert (engine.now(), engine.sent, engine.sleeps) == (15.0, [], [])
