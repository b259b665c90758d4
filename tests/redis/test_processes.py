"""Eight processes on one Redis, blocking and async mixed: shared limits hold in total."""

from __future__ import annotations

import itertools
import time

import pytest

from tests.redis.worker_pool import RequestCounter, WorkerPool, until
from tests.servers import AppServer
from tests.servers.redis_server import RedisServer

pytestmark = pytest.mark.slow

_CLOCKS = 0.02  # seconds by which clocks of server and Redis may run apart


def test_eight_processes_share_a_circuit_and_send_one_probe(
    app: AppServer, redis: RedisServer
) -> None:
    recovery = 1.5
    counter = RequestCounter(app)
    breaker = {"failure_threshold": 5, "recovery_timeout": recovery}
    with WorkerPool(counter.url, redis.url, pause=0.01, breaker=breaker) as workers:
        workers.go()
        until(lambda: len(counter.arrivals) > 200)
        counter.status = 503
        broke = time.monotonic()
        # Open, and three probes, of which the last may be held already.
        until(lambda: len(_after_gaps(counter.arrivals, broke, recovery - _CLOCKS)) >= 3)
        # A slow probe: no other request is admitted meanwhile.
        counter.open.clear()
        until(lambda: counter.now == 1)
        held = len(counter.arrivals)
        time.sleep(1)
        assert (counter.now, len(counter.arrivals)) == (1, held)
        probes = _after_gaps(counter.arrivals, broke, recovery - _CLOCKS)
        closing = time.monotonic()
        counter.status = 200
        counter.open.set()
        until(lambda: len(counter.arrivals) > held + 200)
        outcomes = workers.stop()
    assert len(probes) >= 3
    for earlier, later in itertools.pairwise(probes):
        assert later - earlier >= recovery - _CLOCKS
    for each in outcomes:
        refused = [one for one in each if one.what == "CircuitBreakerOpen"]
        assert refused, "it was open in every process"
        assert any(one.what == "200" and one.begun > closing for one in each)
        assert {one.what for one in each} <= {"200", "503", "CircuitBreakerOpen"}


def _after_gaps(arrivals: list[float], since: float, gap: float) -> list[float]:
    """Return the arrivals from the first one on that came so long after the one before."""
    late = [moment for moment in arrivals if moment >= since]
    for number, (earlier, later) in enumerate(itertools.pairwise(late), 1):
        if later - earlier >= gap:
            return late[number:]
    return []


def test_eight_processes_share_a_rate(app: AppServer, redis: RedisServer) -> None:
    counter = RequestCounter(app)
    with WorkerPool(counter.url, redis.url, rate_limit={"rate": 100.0, "burst": 10}) as workers:
        begun = workers.go()
        until(lambda: len(counter.arrivals) >= 600)
        outcomes = workers.stop()
    sent = [one for each in outcomes for one in each]
    assert {one.what for one in sent} == {"200"}
    assert len(sent) == len(counter.arrivals)
    assert all(outcomes), "every process had turns"
    # At each arrival: no more than the rate and the burst since the beginning.
    for number, moment in enumerate(sorted(counter.arrivals), 1):
        assert number <= 10 + 100 * (moment - begun + _CLOCKS) + 1
    # In any second, and a tenth more if this machine is busy.
    arrivals = sorted(counter.arrivals)
    for first, later in zip(arrivals, arrivals[10 + 110 :], strict=False):
        assert later - first >= 1


def test_no_request_waits_for_a_frozen_killed_or_restarted_redis(
    app: AppServer, own_redis: RedisServer
) -> None:
    counter = RequestCounter(app)
    timeout, frozen = 0.2, 6.0
    with WorkerPool(
        counter.url,
        own_redis.url,
        pause=0.01,
        store={"timeout": timeout},
        rate_limit={"rate": 5000.0},
        concurrency_limit={"limit": 1000},
        breaker={},
        budget={},
    ) as workers:
        workers.go()
        until(lambda: len(counter.arrivals) > 200)
        calm_ends = time.monotonic()
        own_redis.freeze()
        time.sleep(frozen)
        own_redis.thaw()
        _let_go_on(counter)
        own_redis.kill()
        _let_go_on(counter)
        own_redis.start()
        _let_go_on(counter)
        with own_redis.client() as client:
            until(lambda: client.dbsize())  # they share again
        outcomes = [one for each in workers.stop() for one in each]
    assert {one.what for one in outcomes} == {"200"}
    calm = max(one.seconds for one in outcomes if one.begun + one.seconds <= calm_ends)
    longest = max(one.seconds for one in outcomes)
    # What the machine itself takes is a part of what was seen before; a thaw is far later.
    assert longest < max(timeout + calm, frozen / 2), (longest, calm)


def _let_go_on(counter: RequestCounter) -> None:
    arrived = len(counter.arrivals)
    until(lambda: len(counter.arrivals) > arrived + 200)


def test_eight_processes_share_a_budget(app: AppServer, redis: RedisServer) -> None:
    counter = RequestCounter(app)
    counter.status = 503
    # Nothing is forgotten within the test.
    budget = {"ratio": 0.1, "reserve": 0.3, "window": 100.0}
    with WorkerPool(counter.url, redis.url, budget=budget) as workers:
        workers.go()
        until(lambda: len(counter.arrivals) > 2000)
        outcomes = workers.stop()
    sent = [one for each in outcomes for one in each]
    assert {one.what for one in sent} == {"503"}
    retries = len(counter.arrivals) - len(sent)
    assert 30 <= retries <= 30 + 0.1 * len(sent) + 1
    assert min(len(each) for each in outcomes) > 0


def test_the_limit_holds_when_processes_with_leases_are_killed(
    app: AppServer, redis: RedisServer
) -> None:
    counter = RequestCounter(app, seconds=0.02)
    limit = 4
    with WorkerPool(counter.url, redis.url, concurrency_limit={"limit": limit}) as workers:
        workers.go()
        until(lambda: len(counter.arrivals) > 100)
        counter.open.clear()
        until(lambda: counter.now == limit)
        # The one that is left sends three at once: at least one lease was that of a killed process.
        for process in workers.processes[1:]:
            workers.kill(process)
        counter.open.set()
        for style in ("threads", "tasks"):
            workers.add(style)
        workers.ready()
        for process in workers.processes[1:]:
            workers.send(process)
        arrived = len(counter.arrivals)
        until(lambda: len(counter.arrivals) > arrived + 100)
        counter.open.clear()
        until(lambda: counter.now == limit)  # all leases are available again
        time.sleep(0.5)
        counter.open.set()
        outcomes = [one for each in workers.stop() for one in each]
    assert counter.most == limit
    assert {one.what for one in outcomes} == {"200"}
